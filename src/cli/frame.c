/* cli/frame.c: opens what a command's row names, runs the command, closes everything. */
#include "cli/frame.h"

#include <string.h>

#include "base/file.h"
#include "tblock_tools.h"

/* ---- What the command line said -------------------------------------------------------------- */

/* The struct of a group in the arguments; NULL: the command has no such group. */
static void *group_of(const Frame *f, const Option *options)
{
    for (const OptionGroup *g = f->command->syntax.groups; g->options; g++)
        if (g->options == options)
            return GROUP_AT(f->args, g);
    return NULL;
}

/* The value of an option or an operand; NULL: the command has none of that name. */
static void *value_of(const Frame *f, const char *name)
{
    const Syntax *s = &f->command->syntax;
    EACH_OPTION(o, g, s)
        if (strcmp(o->name, name) == 0)
            return (char *)GROUP_AT(f->args, g) + o->where;
    for (const Operand *o = s->operands; o && o->name; o++)
        if (strcmp(o->name, name) == 0)
            return (char *)f->args + o->where;
    return NULL;
}

/* NULL also for a schema that is given as text. */
static const char *file_of(const Frame *f, const char *name)
{
    const char *file = name ? *(const char **)value_of(f, name) : NULL;
    return file && strcmp(name, "json-schema") == 0 && constraint_is_text(file) ? NULL : file;
}

/* A command without contexts rejects ranks. */
static bool use_ranks(Frame *f, bool computes, tblock_ranks *ranks, tblock_error *err)
{
    f->compute.ranks = computes ? ranks : NULL;
    return computes || !ranks
        || fail(err, TBLOCK_USAGE, "%s: expected one process, found %d ranks",
                f->command->syntax.command, tblock_ranks_size(ranks));
}

/* A published model may be given by its name: the value becomes its path. */
static bool resolve(Frame *f, const char **value, tblock_error *err)
{
    if (!*value || f->n_named == FRAME_NAMES)
        return true;
    char *path = tblock_model_path(*value, err);
    if (!path)
        return false;
    if (strcmp(path, *value) == 0) {
        tblock_free(path);
        return true;
    }
    *value = f->named[f->n_named++] = path;
    return true;
}

/* Every operand and option whose value is called MODEL in the help, and SRC of convert. */
static bool resolve_names(Frame *f, tblock_error *err)
{
    const Syntax *s = &f->command->syntax;
    for (const Operand *o = s->operands; o && o->name; o++)
        if ((strcmp(o->name, "MODEL") == 0 || strcmp(o->name, "SRC") == 0)
            && !resolve(f, (void *)((char *)f->args + o->where), err))
            return false;
    EACH_OPTION(o, g, s) {
        const char **value = (void *)((char *)GROUP_AT(f->args, g) + o->where);
        if (o->kind == OPT_TEXT && o->argument
            && (strcmp(o->argument, "MODEL") == 0
                || (path_ends(o->argument, "|MODEL") && *value && strpbrk(*value, "/:")))
            && !resolve(f, value, err))
            return false;
    }
    return true;
}

static bool take_options(Frame *f, tblock_ranks *ranks, tblock_error *err)
{
    const Command        *c       = f->command;
    const Operand        *first   = c->syntax.operands;
    const ComputeOptions *compute = group_of(f, compute_options);
    const PromptOptions  *from    = group_of(f, prompt_options);
    const bool           *sandbox = value_of(f, "sandbox");
    if ((from && !prompt_check(from, err)) || !resolve_names(f, err))
        return false;
    compute = compute ? compute : group_of(f, compute_options + COMPUTE_SIZES);
    cli_set_quiet(((const GeneralOptions *)group_of(f, general_options))->quiet);
    f->path  = first && first->name && !operand_is_list(first) ? file_of(f, first->name) : NULL;
    if (compute)
        f->compute = *compute;
    else
        f->compute.sandbox = sandbox && *sandbox;
    f->draft       = group_of(f, draft_options);
    f->needs       = c->needs;
    f->reads.texts = f->read;
    if (from) {
        f->from = *from;
        frame_reads(f, prompt_file(from));
    }
    for (int i = 0; i < COMMAND_READS; i++)
        frame_reads(f, file_of(f, c->reads[i]));
    return use_ranks(f, compute, ranks, err);
}

void frame_reads(Frame *f, const char *path)
{
    if (path)
        f->read[f->reads.n++] = path;
}

/* ---- Opening --------------------------------------------------------------------------------- */

bool frame_files(Frame *f, tblock_error *err)
{
    const Command *c       = f->command;
    const bool     sandbox = f->compute.sandbox;
    bool           good    = (!f->other || guarded_model(f->other, &f->compute, NULL, err))
        && guarded_model(f->path, &f->compute, f->draft, err)
        && guarded_named(f->reads.texts, f->reads.n, sandbox, err)
        && (!c->hold || c->hold(f, err));
    for (int i = 0; good && i < COMMAND_WRITES; i++)
        good = guarded_output(&f->out[i], file_of(f, c->writes[i]), sandbox, err);
    return good && guarded_enter(sandbox, f->out, COMMAND_WRITES, f->writable, err);
}

bool frame_model(Frame *f, tblock_error *err)
{
    if (!f->path)
        return true;
    f->model = group_of(f, compute_options) || group_of(f, compute_options + COMPUTE_SIZES)
        ? compute_open(f->path, &f->compute, err)
        : tblock_open(f->path, NULL, err);
    if (!f->model)
        return false;
    tblock_model_describe(f->model, &f->info);
    return true;
}

bool frame_prompt(Frame *f, tblock_error *err)
{
    return prompt_read(&f->prompt, &f->from, f->model, f->path, err);
}

bool frame_context(Frame *f, tblock_error *err)
{
    f->context = compute_context(f->model, f->path, &f->compute, err);
    return f->context != NULL;
}

bool frame_draft(Frame *f, tblock_error *err)
{
    return draft_open(&f->drafting, f->draft, f->context, &f->compute, err);
}

bool frame_apart(const Frame *f, const char *output, const char *but, tblock_error *err)
{
    if (!output)
        return true;
    for (size_t i = 0; i < f->reads.n; i++) {
        const char *read = f->reads.texts[i];
        if (read && read != but && path_same_file(output, read))
            return fail(err, TBLOCK_USAGE,
                        "%s: expected an output file other than the input %s, found the same file",
                        output, strcmp(read, "-") == 0 ? "standard input" : read);
    }
    return tblock_output_apart(f->model, f->path, output, err)
        && (!f->drafting.model
            || tblock_output_apart(f->drafting.model, f->draft->by, output, err));
}

/* What the row names, step by step. */
static bool open_row(Frame *f, tblock_error *err)
{
    const Opens opens = f->command->opens;
    bool        good  = opens < OPENS_FILES || frame_files(f, err);
    good = good && (opens < OPENS_MODEL || frame_model(f, err));
    for (int i = 0; good && opens >= OPENS_MODEL && i < COMMAND_WRITES; i++)
        good = frame_apart(f, f->out[i].shown, NULL, err);
    return good && (!f->needs || !f->model || need_tokenizer(f->model, f->path, f->needs, err))
        && (opens < OPENS_MODEL || !group_of(f, prompt_options) || frame_prompt(f, err))
        && (opens < OPENS_CONTEXT || frame_context(f, err));
}

/* ---- The command ----------------------------------------------------------------------------- */

bool frame_commit(Frame *f, tblock_error *err)
{
    for (int i = 0; i < COMMAND_WRITES; i++)
        if (!guarded_commit(&f->out[i], err))
            return false;
    return true;
}

bool frame_run(const Command *command, void *args, tblock_ranks *ranks, tblock_error *err)
{
    Frame f    = { .command = command, .args = args, .writable = -1 };
    bool  good = take_options(&f, ranks, err) && (!command->check || command->check(&f, err))
        && open_row(&f, err) && command->run(&f, err) && frame_commit(&f, err);
    progress_end();
    for (int i = 0; i < COMMAND_WRITES; i++)
        guarded_close(&f.out[i], err);
    prompt_free(&f.prompt);
    tblock_context_free(f.context);
    draft_close(&f.drafting);
    tblock_close(f.model);
    for (size_t i = 0; i < f.n_named; i++)
        tblock_free(f.named[i]);
    return good;
}
