/* chat/jinja.c: templates from outside: parsed, rendered, and their constants listed. */
#include "chat/jinja_parts.h"

#include <stdlib.h>
#include "tokenizer/unicode.h"

/* Everything that may fail runs in here: jinja_fail jumps back to it. */
static bool guarded(JinjaRun *r, void (*work)(JinjaRun *, void *), void *with)
{
    if (setjmp(r->failed))
        return false;
    work(r, with);
    return true;
}

typedef struct TemplateSource {
    Jinja      *t;
    const char *text;
    size_t      n;
    const char *what;
} TemplateSource;

static void read_template(JinjaRun *r, void *with)
{
    const TemplateSource *s = with;
    size_t n_what = strlen(s->what), n = 0, good = s->n ? valid_prefix(s->text, s->n) : 0;
    r->what = s->what;
    char *what = memcpy(jinja_alloc(r, n_what + 1), s->what, n_what);
    char *text = jinja_alloc(r, s->n + 1);
    r->what = what;
    for (size_t i = 0; i < s->n; i++) { /* "\r\n" and "\r" are newlines */
        if (s->text[i] == '\n' && i && s->text[i - 1] == '\r')
            continue;
        text[n++] = s->text[i] == '\r' ? '\n' : s->text[i];
    }
    r->source = text;
    r->n_source = r->at = good < s->n ? good : n;
    if (good < s->n)
        jinja_fail(r, "not UTF-8");
    r->n_source -= n && text[n - 1] == '\n'; /* one newline at the end is not the template's */
    s->t->body = jinja_tree(r);
    s->t->hidden = jinja_hidden(r, s->t->body);
}

Jinja *jinja_parse(const char *text, size_t n_bytes, const char *what, Error *err)
{
    Jinja *t = calloc(1, sizeof *t);
    if (!t) {
        no_memory(what, err);
        return NULL;
    }
    t->run.err = err;
    if (!guarded(&t->run, read_template, &(TemplateSource){ t, text, n_bytes, what })) {
        jinja_free(t);
        t = NULL;
    } else {
        t->run.err = NULL;
    }
    return t;
}

void jinja_free(Jinja *t)
{
    if (t)
        jinja_run_free(&t->run);
    free(t);
}

void jinja_text_free(JinjaText *t)
{
    free(t->text);
    free(t->mark);
    *t = (JinjaText){ 0 };
}

/* The depth is that of the tree, which the parser bounds. */
static void tell_constants(const Node *n, void (*fn)(void *, const char *, size_t), void *user)
{
    for (; n; n = n->next) {
        if (n->type == N_CONST && n->value.kind == V_STRING)
            fn(user, n->value.s->s, n->value.s->n);
        const Node *const inside[] = { n->a, n->b, n->c, n->d };
        for (int i = 0; i < 4; i++)
            tell_constants(inside[i], fn, user);
    }
}

void jinja_constants(const Jinja *t, void (*fn)(void *, const char *, size_t), void *user)
{
    tell_constants(t->body, fn, user);
}

typedef struct Rendering { const Jinja *t; const JinjaInput *in; } Rendering;

static void define_all(JinjaRun *r, Env *env, const JsonNode *j, bool own)
{
    if (j && j->kind != NODE_OBJECT)
        jinja_fail(r, "the variables of a template must be a JSON object");
    JSON_NODES (i, j)
        env_define(r, env, string_new(r, i->key, NULL, i->key_n), from_json(r, i, own));
}

static void render(JinjaRun *r, void *with)
{
    const Rendering *s = with;
    Env             *env = env_new(r, NULL, NULL, NULL);
    output_begin(r);
    define_all(r, env, s->in->given, false);
    define_all(r, env, s->in->own, true);
    jinja_exec(r, s->t->body, env_new(r, NULL, env, s->t->hidden));
}

bool jinja_render_within(const Jinja *t, const JinjaInput *in, unsigned steps, JinjaText *out,
                         Error *err)
{
    JinjaRun r = { .err = err, .what = t->run.what, .source = t->run.source,
                   .n_source = t->run.n_source, .date = in->date, .roles = in->roles,
                   .steps = JINJA_STEPS - (steps < JINJA_STEPS ? steps : JINJA_STEPS) };
    bool ok = guarded(&r, render, &(Rendering){ t, in });
    if (ok) {
        size_t    n = r.out->n;
        JinjaText made = { .text = malloc(n + 1), .mark = malloc(n + 1), .n = n };
        ok = (made.text && made.mark) || no_memory(t->run.what, err);
        if (ok && n) {
            memcpy(made.text, r.out->s, n);
            memcpy(made.mark, r.out->mark, n);
        }
        if (ok) {
            made.text[n] = 0;
            *out = made;
        } else {
            jinja_text_free(&made);
        }
    }
    jinja_run_free(&r);
    return ok;
}

bool jinja_render(const Jinja *t, const JinjaInput *in, JinjaText *out, Error *err)
{
    return jinja_render_within(t, in, JINJA_STEPS, out, err);
}
