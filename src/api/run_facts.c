/* api/run_facts.c: what a file made by a run records about its model and settings, and how these
 * differ from those here. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/source.h"
#include "tblock_tools.h"

void run_recorded(tblock_recorded *out, size_t n_tokens, const char *rope_length)
{
    enum { MOST = 1 << 24 }; /* of both; a longer one does not fit any context */
    const long length = rope_length ? strtol(rope_length, NULL, 10) : 0;
    *out = (tblock_recorded){ n_tokens < MOST ? (int)n_tokens : MOST,
                              length > 0 && length <= MOST ? (int)length : 0 };
}

RunSettings run_settings(const tblock_context *c, const char *loaded_as)
{
    RunSettings s = { math_name(c->numerics.math), c->activations, kv_type_name(c->kv.shape.type),
                      numerics_version(c->numerics, &c->model->weights),
                      loaded_as, "" };
    if (c->rope_length)
        snprintf(s.rope_length, sizeof s.rope_length, "%d", c->rope_length);
    return s;
}

bool run_facts(const tblock_model *m, const RunSettings *s, RunFact fact[RUN_FACTS], Error *err)
{
    const char *sha = source_hash(&m->source, err), *tokenizer = NULL, *chat = NULL;
    if (!sha || !(tokenizer = source_tokenizer_hash(&m->source, err))
        || !(chat = source_chat_hash(&m->source, err)))
        return false;
    const RunFact facts[RUN_FACTS] = {
        {"numerics", s->numerics}, {"model_sha256", sha},
        {"config", source_meta(&m->source, "config")},
        {"math", s->math}, {"weight_types", m->types}, {"activations", s->activations},
        {"kv_type", s->kv_type},
        {"loaded_as", s->loaded_as},
        {"tokenizer_sha256", tokenizer},
        {"rope_length", s->rope_length[0] ? s->rope_length : NULL},
        {"chat_template_sha256", chat},
    };
    memcpy(fact, facts, sizeof facts);
    return true;
}

bool run_fact_is_new(const char *key)
{
    return strcmp(key, "tokenizer_sha256") == 0 || strcmp(key, "chat_template_sha256") == 0;
}

/* Hashes are printed as their first digits. */
static bool is_hash(const char *key) { return strstr(key, "sha256") || strstr(key, "layout"); }

/* A value of a file's metadata or of this run, short enough for a line: a hash by its first
 * digits. */
static void spell_fact(const char *key, const char *value, char out[24])
{
    if (is_hash(key))
        snprintf(out, 24, "%.12s", *value ? value : "(none)");
    else
        snprintf(out, 24, strlen(value) < 24 ? "%s" : "%.20s...", value);
}

size_t run_fact_differs(char *out, size_t n_out, size_t at, const char *key, const char *was,
                        const char *is)
{
    const char *comma = at ? ", " : "";
    char        then[24], here[24];
    spell_fact(key, was, then), spell_fact(key, is, here);
    if (at < n_out && strcmp(key, "config") == 0) /* a page of JSON */
        at += (size_t)snprintf(out + at, n_out - at, "%sconfig", comma);
    else if (at < n_out)
        at += (size_t)snprintf(out + at, n_out - at, "%s%s %s (here %s)", comma, key, then, here);
    return at;
}

bool run_metadata(TensorWriter *w, const char *format, const tblock_model *m, const RunSettings *s,
                  Error *err)
{
    RunFact fact[RUN_FACTS];
    bool ok = run_facts(m, s, fact, err) && tensor_writer_meta(w, "format", format, err)
        && tensor_writer_meta(w, "tblock", TBLOCK_VERSION, err);
    for (size_t i = 0; ok && i < RUN_FACTS; i++)
        ok = !fact[i].value || tensor_writer_meta(w, fact[i].key, fact[i].value, err);
    return ok;
}

bool run_binding(RunBinding *b, const tblock_context *c, const char *loaded_as, Error *err)
{
    enum { LAYOUT = 8 }; /* after what changes bits of any model */
    b->settings = run_settings(c, loaded_as);
    if (!run_facts(c->model, &b->settings, b->fact, err)
        || !source_layout_hash(&c->model->source, b->layout, err))
        return false;
    memmove(b->fact + LAYOUT + 1, b->fact + LAYOUT, (RUN_FACTS - LAYOUT) * sizeof *b->fact);
    b->fact[LAYOUT] = (RunFact){"model_layout", b->layout};
    return true;
}
