/* tblock serve: one model over HTTP. */
#include "chat_session.h"

#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "serve/serve.h"
#include "tblock_tools.h"

typedef struct ServeArgs {
    const char    *model, *host, *alias, *key_file, *chat_format, *date, *log;
    int            port, parallel, cache, queue, connections, request, body_mb, kv_mb, timeout;
    TextList       origin, allowed_host;
    bool           lenient, log_prompts, check;
    DraftArgs      draft;
    ComputeOptions compute;
    GeneralOptions general;
} ServeArgs;

#if defined(HAVE_MICROHTTPD)

/* The last part of a path, without a file's extension. */
static void name_of(const char *path, char *out, size_t n_out)
{
    char   place[PATH_BYTES];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    snprintf(place, sizeof place, "%.*s", (int)n, path);
    const char *name = path_name(place);
    int         end  = path_ends(name, ".bin") ? 4 : path_ends(name, ".gguf") ? 5 : 0;
    snprintf(out, n_out, "%.*s", (int)strlen(name) - end, name);
}

/* One key per line; empty lines and those that begin with # are skipped. */
static bool read_keys(const char *path, TextOut *keys, size_t *n_keys, tblock_error *err)
{
    Lines        lines;
    tblock_error why = { 0 };
    const char  *line;
    size_t       n;
    if (!path)
        return true;
    if (!lines_open(&lines, path, err))
        return false;
    while ((line = lines_next(&lines, &n, &why)) != NULL) {
        n -= n && line[n - 1] == '\r';
        if (n == 0 || line[0] == '#')
            continue;
        text_out_bytes(keys, line, n);
        text_out_bytes(keys, "", 1);
        ++*n_keys;
    }
    lines_close(&lines);
    if (why.status)
        return fail(err, why.status, "%s", why.msg);
    if (keys->failed)
        return no_memory(path, err);
    return *n_keys || fail(err, TBLOCK_INPUT, "%s: expected a key, found none", path);
}

/* With --sandbox the model is read in it. Keys are read before: they are the user's own. */
static bool enter(const ServeArgs *a, ServeOptions *o, tblock_error *err)
{
    return !a->compute.sandbox
        || (guarded_model(a->model, &a->compute, &a->draft, err)
            && (o->listens = serve_listen(o, err)) > 0 && sandbox_enter(&o->listens, 1, true, err));
}

/* Prints the cost of a draft model: its weights, and its KV cache beside the other's. */
static void tell_draft(const Drafting *d, const char *path, bool quiet)
{
    tblock_context_info c;
    if (!d->context)
        return;
    tblock_context_describe(d->context, &c);
    cli_note(quiet, "draft: %s reads %.2f MB of weights a token, and adds %.2f kB of KV cache to "
                    "each token, which --kv-memory counts", path,
             (double)d->info.bytes_per_token / 1e6, (double)c.kv_tile_bytes / 64e3);
}

enum { NAME = 256 };

/* The names that requests may use: the last part of each adapter's path. */
typedef struct Adapters {
    tblock_lora_file *file;
    ServeAdapter     *of;
    tblock_lora      *use;
    char            (*name)[NAME];
} Adapters;

static void adapters_free(Adapters *x)
{
    free(x->file);
    free(x->of);
    free(x->use);
    free(x->name);
}

static bool name_adapters(Adapters *x, const TextList *lora, const char *model, tblock_error *err)
{
    x->of   = calloc(lora->n + 1, sizeof *x->of);
    x->use  = calloc(lora->n + 1, sizeof *x->use);
    x->name = calloc(lora->n + 1, sizeof *x->name);
    if (!x->of || !x->use || !x->name)
        return no_memory(NULL, err);
    x->file = loras_read(lora, err);
    for (size_t i = 0; x->file && i < lora->n; i++) {
        name_of(x->file[i].path, x->name[i], NAME);
        x->use[i] = (tblock_lora){ (int)i, x->file[i].scale };
        x->of[i]          = (ServeAdapter){ x->name[i], &x->use[i] };
        bool taken        = strcmp(x->name[i], model) == 0;
        for (size_t j = 0; j < i; j++)
            taken |= strcmp(x->name[i], x->name[j]) == 0;
        if (taken)
            return fail(err, TBLOCK_USAGE, "--lora %s: expected a name of its own for requests, "
                                           "found another model of the name %s", x->file[i].path,
                        x->name[i]);
    }
    return x->file != NULL;
}

static bool serve_with(const ServeArgs *a, const char *format, const char *keys, size_t n_keys,
                       tblock_error *err)
{
    ComputeOptions compute = a->compute;
    char           name[NAME];
    Adapters       adapters = { 0 };
    Drafting       drafting = { 0 };
    compute.n_seqs   = a->parallel + a->cache;
    name_of(a->model, name, sizeof name);
    ServeOptions o = { .name            = a->alias ? a->alias : name,
                       .n_adapters      = a->compute.lora.n,
                       .chat_format     = format,
                       .date            = a->date,
                       .host            = a->host,
                       .port            = a->port,
                       .keys            = keys,
                       .n_keys          = n_keys,
                       .origin          = a->origin.texts,
                       .n_origins       = a->origin.n,
                       .allowed_host    = a->allowed_host.texts,
                       .n_allowed_hosts = a->allowed_host.n,
                       .draft_match     = a->draft.match,
                       .parallel        = a->parallel,
                       .queue           = a->queue,
                       .connections     = a->connections,
                       .request_seconds = a->request,
                       .body_bytes      = (size_t)a->body_mb << 20,
                       .kv_bytes        = (size_t)a->kv_mb << 20,
                       .timeout_s       = a->timeout,
                       .lenient         = a->lenient,
                       .log             = a->log,
                       .log_prompts     = a->log_prompts,
                       .quiet           = a->general.quiet };
    if (!enter(a, &o, err))
        return false;
    tblock_model *m  = compute_open(a->model, &compute, err);
    compute.lora     = (TextList){ 0 }; /* requests choose their adapter */
    tblock_context *c = m ? compute_context(m, a->model, &compute, a->general.quiet, err) : NULL;
    bool good = c && draft_open(&drafting, &a->draft, c, &compute, err);
    o.model   = m;
    o.context = c;
    o.draft   = drafting.most;
    const Inputs in = { .model = a->model, .file = { a->key_file, a->chat_format } };
    good      = good && name_adapters(&adapters, &a->compute.lora, o.name, err);
    o.adapter = adapters.of;
    good      = good && output_apart(a->log, m, &in, err)
        && (!drafting.model
            || output_apart(a->log, drafting.model, &(Inputs){ .model = a->draft.by }, err));
    if (good)
        tell_draft(&drafting, a->draft.by, a->general.quiet);
    good = good && serve(&o, err);
    adapters_free(&adapters);
    tblock_context_free(c);
    draft_close(&drafting);
    tblock_close(m);
    return good;
}

static bool serve_model(const ServeArgs *a, tblock_error *err)
{
    if (a->check)
        return serve_check(a->host, a->port, err);
    TextOut     text = { 0 }, keys = { 0 };
    const char *format;
    size_t      n_keys = 0;
    bool        good = read_keys(a->key_file, &keys, &n_keys, err)
        && template_read(a->chat_format, &text, &format, err)
        && serve_with(a, format, keys.text, n_keys, err);
    text_out_free(&text);
    text_out_free(&keys);
    return good;
}

#else

static bool serve_model(const ServeArgs *a, tblock_error *err)
{
    (void)a;
    return fail(err, TBLOCK_SYSTEM, "serve: this tblock was built without libmicrohttpd "
                                    "(libmicrohttpd-dev of Debian and Ubuntu), which it needs");
}

#endif

static bool serve_command(void *args, tblock_error *err)
{
    const ServeArgs *a = args;
    if (a->check && a->model)
        return fail(err, TBLOCK_USAGE, "--check: expected no MODEL beside it, found %s", a->model);
    if (!a->check && !a->model)
        return fail(err, TBLOCK_USAGE, "serve: expected MODEL; see tblock help serve");
    if (a->log && a->compute.sandbox)
        return fail(err, TBLOCK_USAGE,
                    "--log: expected no --sandbox beside it, in which no file is opened again; "
                    "2>> %s appends to it too", a->log);
    return serve_model(a, err);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

#define AT(field) offsetof(ServeArgs, field)
static const Option serve_options[] = {
    { "host",        0,  "HOST", OPT_TEXT, AT(host),     0, 0, "127.0.0.1",
      "address to listen at; one that other machines can reach needs --key-file" },
    { "port", 0, "N", OPT_INT, AT(port), 0, 65535, "8080", "0: a free one" },
    { "alias", 0, "NAME", OPT_TEXT, AT(alias), 0, 0, NULL,
      "the model's name in requests and answers; default: that of its file" },
    { "chat-format", 0, "NAME|FILE", OPT_TEXT, AT(chat_format), 0, 0, NULL,
      "the chat template: a built-in one or a file in Jinja; default: the model's own" },
    { "date", 0, "YYYY-MM-DD", OPT_TEXT, AT(date), 0, 0, NULL,
      "today's date for templates that ask for it; without it they have none" },
    { "parallel", 0, "N", OPT_INT, AT(parallel), 1, 1024, "32",
      "maximum number of sequences generated at once (slots)" },
    { "cache", 0, "N", OPT_INT, AT(cache), 0, 4096, "32",
      "remember up to N more sequences for requests that begin like them" },
    { "kv-memory", 0, "MB", OPT_INT, AT(kv_mb), 0, 1 << 30, "0",
      "at most so much KV cache: what no one uses is forgotten, then the youngest text waits; 0: "
      "no "
      "limit" },
    { "queue", 0, "N", OPT_INT, AT(queue), 0, 1 << 20, "512",
      "at most N texts wait; then the answer is status 429" },
    { "timeout", 0, "SECONDS", OPT_INT, AT(timeout), 0, 1 << 20, "0",
      "end a request after so long; 0: never" },
    { "connections", 0, "N", OPT_INT, AT(connections), 1, 1 << 20, "1000",
      "at most N connections" },
    { "request-timeout", 0, "SECONDS", OPT_INT, AT(request), 1, 1 << 20, "60",
      "hang up on a client that takes longer to send its request" },
    { "max-body", 0, "MB", OPT_INT, AT(body_mb), 1, 1024, "16", "at most so large a request" },
    { "check", 0, NULL, OPT_FLAG, AT(check), 0, 0, NULL,
      "start no server: ask the one at --host and --port for /health; status 1 where it is not "
      "well" },
    { 0 },
};
static const Option access_options[] = {
    { "key-file",     0, "FILE",   OPT_TEXT,  AT(key_file),     0, 0, NULL,
      "ask for one of these keys, one in each line, everywhere but at / and /health" },
    { "allow-origin", 0, "ORIGIN", OPT_TEXTS, AT(origin),       0, 0, NULL,
      "let pages of that site ask, as https://example.org; *: any site" },
    { "allow-host",   0, "NAME",   OPT_TEXTS, AT(allowed_host), 0, 0, NULL,
      "a name under which this server is reached, besides addresses and localhost" },
    { "lenient",      0, NULL,     OPT_FLAG,  AT(lenient),      0, 0, NULL,
      "ignore unknown parameters and other model names; by default they are errors" },
    { "log",          0, "FILE",   OPT_TEXT,  AT(log),          0, 0, NULL,
      "append the log to that file, which SIGHUP opens again; default: standard error" },
    { "log-prompts",  0, NULL,     OPT_FLAG,  AT(log_prompts),  0, 0, NULL,
      "write what requests say to the log too" },
    { 0 },
};
static const Operand operands[] = {
    { "MODEL", AT(model), true, MODEL_OPERAND },
    { 0 },
};
static const OptionGroup groups[] = {
    { "Serving", serve_options, 0 },
    { "Access", access_options, 0 },
    GROUP_DRAFT(AT(draft)),
    GROUP_COMPUTE(AT(compute)),
    GROUPS_END(AT(general)),
};
static const Example examples[] = {
    { "tblock serve model.bin", "prints its address; docs/serve.md has requests to try" },
    { "tblock serve model.bin --host 0.0.0.0 --key-file keys.txt --kv-memory 4096",
      "for other machines, with keys and a bound on memory" },
    { 0 },
};
const Command cmd_serve = {
    { "serve", operands, groups },
    "answer requests over HTTP",
    "Speaks the protocol of OpenAI's completions and chat (docs/serve.md). Each text has the bits "
    "of "
    "tblock run with the same settings and seed, whatever else runs beside it. A line for each "
    "request goes to standard error. SIGTERM and Ctrl-C: no new requests, and running ones may "
    "end; "
    "a second one stops at once.",
    examples,
    sizeof(ServeArgs),
    serve_command,
};
