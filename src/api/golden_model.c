/* api/golden_model.c: what a golden records of its model besides the logits, and how the model here
 * differs from it. The most likely cause comes first: config, tensors, tokenizer, template. */
#include "api/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"

/* ---- JSON of two models ---------------------------------------------------------------------- */

/* Collects "KEY: the golden has A, the model B; ...". */
typedef struct Differ {
    const JsonDoc *was, *is;
    char          *out;
    size_t         n_out;
    bool           ok;   /* false: out of memory */
    Error         *err;
} Differ;

static char *spell_node(Differ *d, const JsonDoc *of, const JsonNode *j)
{
    TextOut o = { 0 };
    if (j)
        json_out_node(&o, of, j);
    else
        text_out(&o, "none");
    char *text = text_out_take(&o, d->err);
    d->ok      = d->ok && text;
    return text;
}

/* Long texts from shortly before their first difference on. */
static void note(Differ *d, const char *path, const JsonNode *was, const JsonNode *is)
{
    enum { SHOWN = 48, BEFORE = 12 };
    char  *x = spell_node(d, d->was, was), *y = spell_node(d, d->is, is);
    size_t same = 0, at = strlen(d->out);
    while (d->ok && x[same] && x[same] == y[same])
        same++;
    const size_t from = same > SHOWN / 2 ? same - BEFORE : 0;
    const char  *cut  = from ? "..." : "";
    if (d->ok && (x[same] || y[same]) && at < d->n_out)
        snprintf(d->out + at, d->n_out - at, "%s%s: the golden has %s%.48s%s, the model %s%.48s%s",
                 at ? "; " : "", path, cut, x + from, strlen(x + from) > SHOWN ? "..." : "", cut,
                 y + from, strlen(y + from) > SHOWN ? "..." : "");
    free(x);
    free(y);
}

/* Numbers are equal as the floats that runs use. */
static bool same_number(const JsonNode *was, const JsonNode *is)
{
    return (float)node_number(was) == (float)node_number(is);
}

/* Objects by their keys, arrays of as many objects or arrays by their items; json_doc.c bounds the
 * depth. */
static void differ(Differ *d, const char *path, const JsonNode *was, const JsonNode *is)
{
    char at[120];
    const bool parts = was && is && was->kind == is->kind
        && (was->kind == NODE_OBJECT || (was->kind == NODE_ARRAY && was->n == is->n && was->n
                                         && was[1].kind >= NODE_ARRAY));
    if (!parts) {
        if (!was || !is || !same_number(was, is))
            note(d, path, was, is);
        return;
    }
    if (was->kind == NODE_OBJECT) {
        JSON_NODES (m, was) {
            snprintf(at, sizeof at, "%.80s%s%.30s", path, *path ? "." : "", m->key);
            differ(d, at, m, node_get(is, m->key));
        }
        JSON_NODES (m, is) {
            snprintf(at, sizeof at, "%.80s%s%.30s", path, *path ? "." : "", m->key);
            if (!node_get(was, m->key))
                note(d, at, NULL, m);
        }
        return;
    }
    const JsonNode *other = is + 1;
    size_t          i     = 0;
    JSON_NODES (m, was) {
        snprintf(at, sizeof at, "%.80s[%zu]", path, i++);
        differ(d, at, m, other);
        other += other->skip;
    }
}

/* out: "" if the two texts of JSON say the same. */
static bool differ_json(const char *was, const char *is, char *out, size_t n_out, Error *err)
{
    JsonDoc a = { 0 }, b = { 0 };
    Error   why = { 0 };
    Differ  d = { .was = &a, .is = &b, .out = out, .n_out = n_out, .ok = true, .err = err };
    out[0]    = '\0';
    if (json_doc_read(&a, was, strlen(was), 0, "the golden's", &why)
        && json_doc_read(&b, is, strlen(is), 0, "the model's", &why))
        differ(&d, "", a.node, b.node);
    else if (why.status == TBLOCK_INPUT)
        snprintf(out, n_out, "%.200s", why.msg);
    else
        d.ok = no_memory(NULL, err);
    json_doc_free(&a);
    json_doc_free(&b);
    return d.ok;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* Both as tblock writes them: other programs and older versions leave keys out. */
static bool compare_config(const GoldenFile *g, const tblock_model *m, tblock_verify_report *out,
                           Error *err)
{
    const char *recorded = golden_meta(g, "config");
    Config      was;
    Error       why;
    if (!recorded)
        return true;
    if (!config_parse(&was, recorded, strlen(recorded), "the golden's", &why)) {
        snprintf(out->config_diff, sizeof out->config_diff, "%.200s", why.msg);
        return why.status == TBLOCK_INPUT || no_memory(NULL, err);
    }
    char *a = config_to_json(&was, err),
         *b = a ? config_to_json(&m->source.stored.config, err) : NULL;
    const bool good = b && differ_json(a, b, out->config_diff, sizeof out->config_diff, err);
    free(a);
    free(b);
    return good;
}

/* Is it recorded, and other here? */
static bool other_hash(const char *was, const char *is) { return was && strcmp(was, is) != 0; }

static bool compare_texts(const GoldenFile *g, const tblock_model *m, tblock_verify_report *out,
                          Error *err)
{
    const Source *s     = &m->source;
    const char   *token = source_tokenizer_hash(s, err), *chat = source_chat_hash(s, err);
    const char   *was = golden_meta(g, "tokenizer_sha256"), *rules = golden_meta(g, "tokenizer"),
               *here = source_meta(s, "tokenizer");
    if (!token || !chat)
        return false;
    if (other_hash(was, token)) {
        if (rules && here
            && !differ_json(rules, here, out->tokenizer_diff, sizeof out->tokenizer_diff, err))
            return false;
        if (!out->tokenizer_diff[0])
            snprintf(out->tokenizer_diff, sizeof out->tokenizer_diff, "%s",
                     strcmp(was, "none") == 0   ? "the golden has none, the model one"
                     : strcmp(token, "none") == 0 ? "the golden has one, the model none"
                     : rules ? "the same rules, another vocabulary, merges or special tokens"
                             : "another one");
    }
    was = golden_meta(g, "chat_template_sha256");
    if (other_hash(was, chat))
        snprintf(out->template_diff, sizeof out->template_diff,
                 "sha256: the golden has %.12s, the model %.12s", was, chat);
    return true;
}

/* Do the data have the recorded hash, in the recorded layout? Then every tensor is the same, and
 * need not be read again. */
static bool same_data(const GoldenFile *g, const tblock_model *m, bool *same, Error *err)
{
    const char *sha = source_hash(&m->source, err), *was = golden_meta(g, "model_sha256"),
               *recorded = golden_meta(g, "model_layout");
    char layout[65];
    *same = false;
    if (!sha || !source_layout_hash(&m->source, layout, err))
        return false;
    *same = was && recorded && strcmp(was, sha) == 0 && strcmp(recorded, layout) == 0;
    return true;
}

static bool compare_tensors(const GoldenFile *g, const tblock_context *c, const GoldenPrints *was,
                            tblock_verify_report *out, Error *err)
{
    GoldenPrints is;
    const char  *types = golden_meta(g, "weight_types"), *as = golden_meta(g, "loaded_as");
    char         other[160] = "";
    /* weights that got another type while they were loaded are compared by their logits */
    if (as && strcmp(as, context_loaded_as(c, -1)) != 0)
        return true;
    if (types && strcmp(types, c->model->types) != 0)
        snprintf(other, sizeof other, "types: the golden has %.60s, the model %.60s", types,
                 c->model->types);
    if (was->n != (size_t)c->model->source.stored.n) {
        if (!out->config_diff[0]) /* which says it better */
            snprintf(out->tensor_diff, sizeof out->tensor_diff, "the golden has %zu, the model %d",
                     was->n, c->model->source.stored.n);
        return true;
    }
    bool good = golden_prints_make(&is, c, err)
        && golden_tensors_differ(c, was, &is, other, out->tensor_diff, sizeof out->tensor_diff,
                                 err);
    golden_prints_free(&is);
    return good;
}

bool golden_compare_model(const GoldenFile *g, const tblock_context *c, tblock_verify_report *out,
                          Error *err)
{
    bool same;
    if (!golden_is_ours(g))
        return true;
    return compare_config(g, c->model, out, err) && compare_texts(g, c->model, out, err)
        && (!g->prints.n
            || (same_data(g, c->model, &same, err)
                && (same || compare_tensors(g, c, &g->prints, out, err))));
}
