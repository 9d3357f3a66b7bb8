/* api/golden_digest.c: goldens with a hash of each position's logits in place of the logits, and
 * the five largest for people. */
#include "api/golden.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tblock_tools.h"

static const struct { const char *name; DType type; int columns; } parts[GOLDEN_DIGEST_TENSORS] = {
    { "logits.hash", DT_U64, 0 }, { "logits.top", DT_I32, TOP_MOST },
    { "logits.top_value", DT_F32, TOP_MOST },
};

/* wide: scratch [n]. */
static RowDigest digest_of(const float *logits, double *wide, int n)
{
    RowDigest d = { .hash = print_values(logits, (size_t)n) };
    widen_row(wide, logits, n);
    d.n = top_tokens(wide, n, TOP_MOST, d.top);
    for (int i = 0; i < TOP_MOST; i++) {
        d.top[i]   = i < d.n ? d.top[i] : -1; /* a small vocabulary, or NaN */
        d.value[i] = i < d.n ? logits[d.top[i]] : 0;
    }
    return d;
}

/* ---- Writing --------------------------------------------------------------------------------- */

bool golden_digest_declare(TensorWriter *w, size_t n_rows, Error *err)
{
    bool good = true;
    for (int i = 0; good && i < GOLDEN_DIGEST_TENSORS; i++)
        good = tensor_writer_declare(w, parts[i].name, parts[i].type, parts[i].columns ? 2 : 1,
                                     (int64_t[]){ (int64_t)n_rows, parts[i].columns }, err);
    return good;
}

bool golden_digest_put(TensorWriter *w, int first, size_t row, const float *logits, double *wide,
                       int n, Error *err)
{
    const RowDigest d = digest_of(logits, wide, n);
    return tensor_writer_put(w, first, row * sizeof d.hash, &d.hash, sizeof d.hash, err)
        && tensor_writer_put(w, first + 1, row * sizeof d.top, d.top, sizeof d.top, err)
        && tensor_writer_put(w, first + 2, row * sizeof d.value, d.value, sizeof d.value, err);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool read_digest(const GoldenFile *g, GoldenCase *k, int vocab, Error *err)
{
    const size_t n = k->tokens->n_elements;
    char         found[96];
    for (int i = 0; i < GOLDEN_DIGEST_TENSORS; i++) {
        const Tensor *t  = k->digest[i] = golden_sibling(g, k, parts[i].name);
        const int64_t rows = i && k->digest[0] ? (int64_t)k->digest[0]->n_elements : (int64_t)n;
        if (t && t->dtype == parts[i].type
            && (golden_has_shape(t, rows, parts[i].columns)
                || (i == 0 && golden_has_shape(t, 1, 0))))
            continue;
        return fail(err, INPUT, "%s: tensor %s%s: expected %s, a row for each of %zu tokens or one "
                    "for the last, found %s %s", g->path, k->prefix, parts[i].name,
                    dtype_name(parts[i].type), n, t ? dtype_name(t->dtype) : "none",
                    t ? tensor_shape_text(t, found, sizeof found) : "");
    }
    for (size_t i = 0; i < k->digest[1]->n_elements; i++)
        if (golden_token(k->digest[1], i) < -1 || golden_token(k->digest[1], i) >= vocab)
            return fail(err, INPUT, "%s: tensor %s: token %zu: expected -1 to %d, found %lld",
                        g->path, k->digest[1]->name, i, vocab - 1,
                        (long long)golden_token(k->digest[1], i));
    k->n_rows = k->digest[0]->n_elements;
    return true;
}

bool golden_digests_read(GoldenFile *g, int vocab, Error *err)
{
    bool good = true;
    for (size_t i = 0; good && i < g->n_cases; i++)
        good = g->cases[i].logits || read_digest(g, &g->cases[i], vocab, err);
    return good;
}

bool golden_is_digest(const GoldenFile *g)
{
    size_t i = 0;
    while (i < g->n_cases && g->cases[i].logits)
        i++;
    return i < g->n_cases;
}

/* The file's data may be unaligned. */
static RowDigest recorded(const GoldenCase *k, size_t row)
{
    RowDigest d = { 0 };
    memcpy(&d.hash, (const char *)k->digest[0]->data + row * sizeof d.hash, sizeof d.hash);
    memcpy(d.top, (const char *)k->digest[1]->data + row * sizeof d.top, sizeof d.top);
    memcpy(d.value, (const char *)k->digest[2]->data + row * sizeof d.value, sizeof d.value);
    while (d.n < TOP_MOST && d.top[d.n] >= 0)
        d.n++;
    return d;
}

bool golden_digest_same(const GoldenCase *k, size_t row, const float *logits, double *wide, int n,
                        tblock_verify_row *out)
{
    const RowDigest was = recorded(k, row), is = digest_of(logits, wide, n);
    GoldenApart     apart = GOLDEN_SAME;
    for (int i = 0; i < was.n; i++)
        golden_compare(&apart, (double)was.value[i], wide[was.top[i]]);
    golden_within(&apart, INFINITY, &out->max_abs);
    out->mean_kl = out->max_kl = NAN;
    out->top1 += same_tokens(was.top, was.n > 0, is.top, is.n > 0);
    out->top5 += same_tokens(was.top, was.n, is.top, is.n);
    return was.hash == is.hash && memcmp(was.top, is.top, sizeof is.top) == 0
        && memcmp(was.value, is.value, sizeof is.value) == 0; /* else the file was changed */
}
