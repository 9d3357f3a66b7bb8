/* api/golden_case.c: opens golden files and checks their contents. */
#include "api/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/number.h"
#include "tblock_tools.h"

/* ---- Values ---------------------------------------------------------------------------------- */

bool golden_is_floats(const Tensor *t)
{
    return t->dtype == DT_F32 || t->dtype == DT_F64 || t->dtype == DT_F16 || t->dtype == DT_BF16;
}

/* Data from other writers may be unaligned. */
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

void golden_compare(GoldenApart *a, double golden, double ours)
{
    if (isnan(golden) || isnan(ours)) {
        bool both = isnan(golden) && isnan(ours);
        a->same = a->same && both;
        a->far  = both ? a->far : NAN;
        return;
    }
    a->same = a->same && golden == ours && !signbit(golden) == !signbit(ours);
    if (golden != ours) /* equal infinities have no difference */
        a->far = isnan(a->far) ? a->far : fmax(a->far, fabs(golden - ours));
}

bool golden_within(const GoldenApart *a, double allowed, double *worst)
{
    *worst = isnan(*worst) || isnan(a->far) ? NAN : fmax(*worst, a->far);
    return allowed < 0 ? a->same : isfinite(a->far) && a->far <= allowed;
}

bool golden_is_ordinary(double x) { return fabs(x) < 1e30; }

double golden_rounding(const Tensor *t, double largest)
{
    bool f16 = t->dtype == DT_F16;
    /* of the mantissa; of the smallest normal number, as frexp has it */
    int  digits = f16 ? 11 : 8, least = f16 ? -13 : -125, e = least;
    if (!f16 && t->dtype != DT_BF16)
        return 0;
    if (largest > 0)
        frexp(largest, &e); /* largest is in [2^(e-1), 2^e) */
    return ldexp(1, (e > least ? e : least) - digits - 1);
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

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool is_tokens(const char *name)
{
    size_t n = strlen(name);
    return strcmp(name, "tokens") == 0 || (n > 7 && strcmp(name + n - 7, ".tokens") == 0);
}

static bool check_ids(const GoldenFile *g, const Tensor *t, int vocab, Error *err)
{
    char found[96];
    if (!golden_has_shape(t, (int64_t)t->n_elements, 0)
        || (t->dtype != DT_I32 && t->dtype != DT_I64))
        return fail(err, INPUT, "%s: tensor %s: expected I32 or I64 [n], found %s %s", g->path,
                    t->name, dtype_name(t->dtype), tensor_shape_text(t, found, sizeof found));
    for (size_t i = 0; i < t->n_elements; i++)
        if (golden_token(t, i) < 0 || golden_token(t, i) >= vocab)
            return fail(err, INPUT, "%s: tensor %s: token %zu: expected 0 to %d, found %lld",
                        g->path, t->name, i, vocab - 1, (long long)golden_token(t, i));
    return true;
}

static bool check_logits(const GoldenFile *g, const Tensor *t, const Tensor *tokens, int vocab,
                         Error *err)
{
    char    found[96];
    int64_t n = (int64_t)tokens->n_elements;
    const char *hash  = golden_meta(g, "model_sha256");
    const bool  rows  = t->rank >= 2 && golden_is_floats(t);
    if (rows && t->shape[t->rank - 1] != vocab)
        return fail(err, INPUT,
                    "%s: tensor %s: recorded with another model: expected logits of %d tokens, "
                    "this model's vocabulary, found %lld%s%.12s",
                    g->path, t->name, vocab, (long long)t->shape[t->rank - 1],
                    hash ? ", hash " : "", hash ? hash : "");
    if (!golden_is_floats(t) || (!golden_has_shape(t, n, vocab) && !golden_has_shape(t, 1, vocab)))
        return fail(err, INPUT,
                    "%s: tensor %s: expected F32, F64, F16 or BF16 [%lld, %d] (or [1, %d]: the "
                    "last position), found %s %s",
                    g->path, t->name, (long long)n, vocab, vocab, dtype_name(t->dtype),
                    tensor_shape_text(t, found, sizeof found));
    return true;
}

const Tensor *golden_sibling(const GoldenFile *g, const GoldenCase *k, const char *name)
{
    char full[128];
    if (snprintf(full, sizeof full, "%s%s", k->prefix, name) >= (int)sizeof full)
        return NULL;
    return g->st.tensors ? tensor_find(&g->st, full) : tensors_find(g->pair, 2, full);
}

const char *golden_meta(const GoldenFile *g, const char *key)
{
    return g->st.tensors ? tensor_meta(&g->st, key) : NULL;
}

bool golden_is_ours(const GoldenFile *g)
{
    const char *format = golden_meta(g, "format");
    return format && strcmp(format, "tblock-logits") == 0;
}

/* The continuation is replayed, so there must be room for it after the tokens; its last token is
 * compared, not run. */
static bool check_greedy(const GoldenFile *g, const GoldenCase *k, const tblock_context *c,
                         bool replayed, Error *err)
{
    size_t room = (size_t)c->n_ctx - k->tokens->n_elements + 1;
    if (!check_ids(g, k->greedy, c->model->weights.cfg.vocab_size, err))
        return false;
    return !replayed || k->greedy->n_elements <= room
        || fail(err, INPUT,
                "%s: tensor %s: expected at most %zu tokens (a context of %d after the %zu of %s), "
                "found %zu",
                g->path, k->greedy->name, room, c->n_ctx, k->tokens->n_elements, k->tokens->name,
                k->greedy->n_elements);
}

static bool read_case(GoldenCase *k, const GoldenFile *g, const Tensor *tokens,
                      const tblock_context *c, bool greedy, Error *err)
{
    int    vocab = c->model->weights.cfg.vocab_size;
    size_t n     = strlen(tokens->name) - strlen("tokens");
    if (n >= sizeof k->prefix)
        return fail(err, INPUT, "%s: tensor %s: the name is longer than %zu bytes", g->path,
                    tokens->name, sizeof k->prefix);
    *k = (GoldenCase){.tokens = tokens};
    memcpy(k->prefix, tokens->name, n);
    k->logits     = golden_sibling(g, k, "logits_f64");
    k->logits_f32 = golden_sibling(g, k, "logits");
    k->greedy     = golden_sibling(g, k, "greedy");
    if (!k->logits) {
        k->logits     = k->logits_f32;
        k->logits_f32 = NULL;
    }
    k->digest[0] = k->logits ? NULL : golden_sibling(g, k, "logits.hash");
    if (!k->logits && !k->digest[0])
        return fail(err, INPUT, "%s: tensor %s: expected %slogits_f64 or %slogits with it, found "
                                "neither", g->path, tokens->name,
                    k->prefix, k->prefix);
    if (tokens->n_elements == 0 || tokens->n_elements > (size_t)c->n_ctx)
        return fail(err, INPUT, "%s: tensor %s: expected 1 to %d tokens (the context), found %zu",
                    g->path, tokens->name, c->n_ctx, tokens->n_elements);
    if (!check_ids(g, tokens, vocab, err)
        || (k->logits && !check_logits(g, k->logits, tokens, vocab, err))
        || (k->logits_f32 && !check_logits(g, k->logits_f32, tokens, vocab, err))
        || (k->greedy && !check_greedy(g, k, c, greedy, err)))
        return false;
    if (k->logits_f32 && k->logits_f32->n_elements != k->logits->n_elements)
        return fail(err, INPUT, "%s: tensor %s: expected the same number of positions as %s",
                    g->path, k->logits_f32->name, k->logits->name);
    if (k->logits)
        k->n_rows = k->logits->n_elements / (size_t)vocab;
    return true;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* The last "logits" in the file's own name becomes "tokens", which is as long. */
bool tblock_verify_tokens(const char *golden_path, char **tokens, tblock_error *err)
{
    NEED(false, err, tokens);
    *tokens = NULL;
    NEED(false, err, golden_path);
    const char *slash = strrchr(golden_path, '/'), *found = NULL;
    if (!path_ends(golden_path, ".npy"))
        return true;
    for (const char *at = slash ? slash : golden_path; (at = strstr(at, "logits")); at++)
        found = at;
    if (!found)
        return fail(err, INPUT,
                    "%s: expected a .npy file of logits whose name contains "
                    "\"logits\", such as logits.npy with tokens.npy beside it",
                    golden_path);
    if (!(*tokens = strdup(golden_path)))
        return no_memory(NULL, err);
    memcpy(*tokens + (found - golden_path), "tokens", 6);
    return true;
}

static bool open_pair(GoldenFile *g, const char *tokens, Error *err)
{
    bool ok =
        npy_open(&g->npy[0], g->path, "logits", err) && npy_open(&g->npy[1], tokens, "tokens", err);
    for (int i = 0; i < 2; i++)
        g->pair[i] = &g->npy[i].tensor;
    return ok;
}

/* Is it a zip whose first file is a numpy array? By content: the name may be /dev/fd/5. Layout:
 * APPNOTE.TXT 4.3.7. */
static bool is_npz(const char *path)
{
    enum { LENGTH_AT = 26, NAME_AT = 30 };
    FileMap m = {0};
    if (!file_map_open(&m, path, NULL))
        return false;
    size_t n = m.size > NAME_AT ? (size_t)(m.data[LENGTH_AT] | m.data[LENGTH_AT + 1] << 8) : 0;
    bool   zip = n > 4 && n <= m.size - NAME_AT && memcmp(m.data, "PK\3\4", 4) == 0
        && memcmp(m.data + NAME_AT + n - 4, ".npy", 4) == 0;
    file_map_close(&m);
    return zip;
}

static bool open_tensors(GoldenFile *g, Error *err)
{
    if (is_npz(g->path))
        return fail(err, INPUT,
                    "%s: expected a safetensors file or a pair of .npy files, found a .npz: save "
                    "its arrays as two .npy files, "
                    "logits.npy with tokens.npy beside it",
                    g->path);
    return safetensors_open(&g->st, g->path, err);
}

static bool open_files(GoldenFile *g, const char *given, Error *err)
{
    char *tokens = NULL;
    bool  ok = given || tblock_verify_tokens(g->path, &tokens, err);
    if (ok)
        ok = given || tokens ? open_pair(g, given ? given : tokens, err) : open_tensors(g, err);
    free(tokens);
    return ok;
}

static const Tensor *tensor_at(const GoldenFile *g, int i)
{
    return g->st.tensors ? &g->st.tensors[i] : g->pair[i];
}

static bool read_cases(GoldenFile *g, const tblock_context *c, bool greedy, Error *err)
{
    int n_tensors = g->st.tensors ? g->st.n_tensors : 2;
    for (int i = 0; i < n_tensors; i++)
        g->n_cases += is_tokens(tensor_at(g, i)->name);
    if (g->n_cases == 0)
        return fail(err, INPUT, "%s: expected a tensor tokens or PREFIX.tokens, found none",
                    g->path);
    g->cases = calloc(g->n_cases, sizeof *g->cases);
    if (!g->cases)
        return no_memory(NULL, err);
    for (int i = 0, n = 0; i < n_tensors; i++)
        if (is_tokens(tensor_at(g, i)->name)
            && !read_case(&g->cases[n++], g, tensor_at(g, i), c, greedy, err))
            return false;
    return true;
}

bool tblock_recorded_read(const char *golden_path, bool greedy, tblock_recorded *out,
                          tblock_error *err)
{
    NEED(false, err, golden_path, out);
    GoldenFile g    = { .path = golden_path };
    const bool good = open_files(&g, NULL, err);
    size_t     most = 0;
    for (int i = 0, n = g.st.tensors ? g.st.n_tensors : 2; good && i < n; i++) {
        const Tensor *t     = tensor_at(&g, i);
        const size_t  named = strlen(t->name);
        GoldenCase    k     = { 0 };
        if (!is_tokens(t->name) || named - strlen("tokens") >= sizeof k.prefix)
            continue;
        memcpy(k.prefix, t->name, named - strlen("tokens"));
        const Tensor *after = greedy ? golden_sibling(&g, &k, "greedy") : NULL;
        size_t        holds = t->n_elements; /* the last token of `greedy` is compared, not run */
        holds += after && after->n_elements ? after->n_elements - 1 : 0;
        most = holds > most ? holds : most;
    }
    run_recorded(out, most, good ? golden_meta(&g, "rope_length") : NULL);
    golden_close(&g);
    return good;
}

bool golden_open(GoldenFile *g, const char *path, const char *tokens, bool greedy,
                 const tblock_context *c, Error *err)
{
    *g = (GoldenFile){.path = path};
    if (open_files(g, tokens, err) && read_cases(g, c, greedy, err))
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
