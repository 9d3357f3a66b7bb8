/* api/golden_case.c: opens golden files and checks what they hold. */
#include "api/golden_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

/* ---- Values ---------------------------------------------------------------------------------------------------- */

bool golden_is_floats(const Tensor *t)
{
    return t->dtype == DT_F32 || t->dtype == DT_F64 || t->dtype == DT_F16 || t->dtype == DT_BF16;
}

/* Data of other writers need not be aligned. */
double golden_value(const Tensor *t, size_t i)
{
    const char *p = t->data;
    uint16_t    h;
    float       f;
    double      d;
    switch (t->dtype) {
    case DT_F64:  memcpy(&d, p + 8 * i, 8); return d;
    case DT_F16:  memcpy(&h, p + 2 * i, 2); return (double)f16_to_f32(h);
    case DT_BF16: memcpy(&h, p + 2 * i, 2); return (double)bf16_to_f32(h);
    default:      memcpy(&f, p + 4 * i, 4); return (double)f;
    }
}

int64_t golden_token(const Tensor *t, size_t i)
{
    int32_t a;
    int64_t b;
    if (t->dtype == DT_I32)
        return memcpy(&a, (const char *)t->data + 4 * i, 4), a;
    return memcpy(&b, (const char *)t->data + 8 * i, 8), b;
}

bool golden_has_shape(const Tensor *t, int64_t rows, int64_t columns)
{
    int rank = columns ? 2 : 1, first = t->rank - rank;
    if (first < 0)
        return false;
    for (int i = 0; i < first; i++)
        if (t->shape[i] != 1)
            return false;
    return t->shape[first] == rows && (!columns || t->shape[first + 1] == columns);
}

/* ---- Checks ---------------------------------------------------------------------------------------------------- */

static bool is_tokens(const char *name)
{
    size_t n = strlen(name);
    return strcmp(name, "tokens") == 0 || (n > 7 && strcmp(name + n - 7, ".tokens") == 0);
}

static bool check_ids(const GoldenFile *g, const Tensor *t, int vocab, Error *err)
{
    char found[96];
    if (!golden_has_shape(t, (int64_t)t->n_elements, 0) || (t->dtype != DT_I32 && t->dtype != DT_I64))
        return fail(err, INPUT, "%s: tensor %s: expected I32 or I64 [n], found %s %s", g->path, t->name, dtype_name(t->dtype),
                    tensor_shape_text(t, found, sizeof found));
    for (size_t i = 0; i < t->n_elements; i++)
        if (golden_token(t, i) < 0 || golden_token(t, i) >= vocab)
            return fail(err, INPUT, "%s: tensor %s: token %zu: expected 0 to %d, found %lld", g->path, t->name, i, vocab - 1,
                        (long long)golden_token(t, i));
    return true;
}

static bool check_logits(const GoldenFile *g, const Tensor *t, const Tensor *tokens, int vocab, Error *err)
{
    char    found[96];
    int64_t n = (int64_t)tokens->n_elements;
    if (!golden_is_floats(t) || (!golden_has_shape(t, n, vocab) && !golden_has_shape(t, 1, vocab)))
        return fail(err, INPUT, "%s: tensor %s: expected F32, F64, F16 or BF16 [%lld, %d] (or [1, %d]: the last position), found %s %s",
                    g->path, t->name, (long long)n, vocab, vocab, dtype_name(t->dtype), tensor_shape_text(t, found, sizeof found));
    return true;
}

const Tensor *golden_sibling(const GoldenFile *g, const GoldenCase *k, const char *name)
{
    char full[128];
    if (snprintf(full, sizeof full, "%s%s", k->prefix, name) >= (int)sizeof full)
        return NULL;
    return g->st.tensors ? tensor_find(&g->st, full) : tensors_find(g->pair, 2, full);
}

const char *golden_meta(const GoldenFile *g, const char *key) { return g->st.tensors ? tensor_meta(&g->st, key) : NULL; }

static bool read_case(GoldenCase *k, const GoldenFile *g, const Tensor *tokens, const tblock_context *c, Error *err)
{
    int    vocab = c->model->weights.cfg.vocab_size;
    size_t n     = strlen(tokens->name) - strlen("tokens");
    if (n >= sizeof k->prefix)
        return fail(err, INPUT, "%s: tensor %s: the name is longer than %zu bytes", g->path, tokens->name, sizeof k->prefix);
    *k = (GoldenCase){.tokens = tokens};
    memcpy(k->prefix, tokens->name, n);
    k->logits     = golden_sibling(g, k, "logits_f64");
    k->logits_f32 = golden_sibling(g, k, "logits");
    k->greedy     = golden_sibling(g, k, "greedy");
    if (!k->logits) {
        k->logits     = k->logits_f32;
        k->logits_f32 = NULL;
    }
    if (!k->logits)
        return fail(err, INPUT, "%s: tensor %s: expected %slogits_f64 or %slogits beside it, found neither", g->path, tokens->name,
                    k->prefix, k->prefix);
    if (tokens->n_elements == 0 || tokens->n_elements > (size_t)c->n_ctx)
        return fail(err, INPUT, "%s: tensor %s: expected 1 to %d tokens (the context), found %zu", g->path, tokens->name, c->n_ctx,
                    tokens->n_elements);
    if (!check_ids(g, tokens, vocab, err) || !check_logits(g, k->logits, tokens, vocab, err)
        || (k->logits_f32 && !check_logits(g, k->logits_f32, tokens, vocab, err)) || (k->greedy && !check_ids(g, k->greedy, vocab, err)))
        return false;
    if (k->logits_f32 && k->logits_f32->n_elements != k->logits->n_elements)
        return fail(err, INPUT, "%s: tensor %s: expected as many positions as %s", g->path, k->logits_f32->name, k->logits->name);
    k->n_rows = k->logits->n_elements / (size_t)vocab;
    return true;
}

/* ---- Files ----------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n > m && strcmp(s + n - m, end) == 0;
}

/* The path of the tokens that belong to a .npy file of logits: the last "logits" in its own name becomes "tokens", which is as
 * long. */
static char *tokens_path(const char *path, Error *err)
{
    char *copy = strdup(path), *name, *found = NULL;
    if (!copy) {
        fail(err, SYSTEM, "out of memory");
        return NULL;
    }
    name = strrchr(copy, '/') ? strrchr(copy, '/') + 1 : copy;
    for (char *at = name; (at = strstr(at, "logits")); at++)
        found = at;
    if (found) {
        memcpy(found, "tokens", 6);
        return copy;
    }
    free(copy);
    fail(err, INPUT, "%s: expected the name of a .npy file of logits to hold \"logits\", such as logits.npy with tokens.npy beside it",
         path);
    return NULL;
}

static bool open_pair(GoldenFile *g, const char *tokens, Error *err)
{
    bool ok = npy_open(&g->npy[0], g->path, "logits", err) && npy_open(&g->npy[1], tokens, "tokens", err);
    for (int i = 0; i < 2; i++)
        g->pair[i] = &g->npy[i].tensor;
    return ok;
}

static bool open_named_pair(GoldenFile *g, Error *err)
{
    char *tokens = tokens_path(g->path, err);
    bool  ok = tokens && open_pair(g, tokens, err);
    free(tokens);
    return ok;
}

static const Tensor *tensor_at(const GoldenFile *g, int i) { return g->st.tensors ? &g->st.tensors[i] : g->pair[i]; }

static bool read_cases(GoldenFile *g, const tblock_context *c, Error *err)
{
    int n_tensors = g->st.tensors ? g->st.n_tensors : 2;
    for (int i = 0; i < n_tensors; i++)
        g->n_cases += is_tokens(tensor_at(g, i)->name);
    if (g->n_cases == 0)
        return fail(err, INPUT, "%s: expected a tensor tokens or PREFIX.tokens, found none", g->path);
    g->cases = calloc(g->n_cases, sizeof *g->cases);
    if (!g->cases)
        return fail(err, SYSTEM, "out of memory");
    for (int i = 0, n = 0; i < n_tensors; i++)
        if (is_tokens(tensor_at(g, i)->name) && !read_case(&g->cases[n++], g, tensor_at(g, i), c, err))
            return false;
    return true;
}

bool golden_open(GoldenFile *g, const char *path, const char *tokens, const tblock_context *c, Error *err)
{
    *g = (GoldenFile){.path = path};
    bool ok = tokens ? open_pair(g, tokens, err) : ends_with(path, ".npy") ? open_named_pair(g, err) : safetensors_open(&g->st, path, err);
    if (ok && read_cases(g, c, err))
        return true;
    golden_close(g);
    return false;
}

void golden_close(GoldenFile *g)
{
    free(g->cases);
    tensor_file_close(&g->st);
    npy_close(&g->npy[0]);
    npy_close(&g->npy[1]);
    *g = (GoldenFile){0};
}
