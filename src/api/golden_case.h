/* api/golden_case.h: golden files as verify reads them: token sequences with their logits, checked against a model.
 *
 *   safetensors   [PREFIX.]tokens I32 or I64 [n], with [PREFIX.]logits_f64 or [PREFIX.]logits of F32, F64, F16 or BF16 [n, vocab],
 *                 or [1, vocab]: the last position's; optionally [PREFIX.]greedy and [PREFIX.]hidden.NAME [n, d_model]
 *   .npy          two files of numpy: NAME is the logits', and holds "logits"; that of the tokens has "tokens" instead
 *
 * A leading dimension of 1 more, a batch of one, is as good. */
#ifndef API_GOLDEN_CASE_H
#define API_GOLDEN_CASE_H

#include "api/api.h"
#include "format/npy.h"

typedef struct GoldenCase {
    char          prefix[64];        /* "seq0." or "" */
    const Tensor *tokens, *logits, *logits_f32, *greedy; /* logits_f32: beside logits_f64; NULL: none */
    size_t        n_rows;            /* of logits: as many as tokens, or 1 */
} GoldenCase;

typedef struct GoldenFile {
    const char  *path;               /* as given */
    TensorFile   st;                 /* a safetensors file, else zeroed */
    NpyFile      npy[2];             /* logits, tokens */
    const Tensor *pair[2];           /* of npy, sorted by name */
    GoldenCase  *cases;
    size_t       n_cases;
} GoldenFile;

/* Open the file and check every case against the context's model and length. tokens: NULL, or the path of those that belong to a path
 * of logits, both .npy files. greedy: the continuations must fit, too. Errors: INPUT, SYSTEM. */
bool golden_open(GoldenFile *g, const char *path, const char *tokens, bool greedy, const tblock_context *c, Error *err);
void golden_close(GoldenFile *g);    /* a zeroed one is accepted */

/* [PREFIX.]name of a case; NULL: none. */
const Tensor *golden_sibling(const GoldenFile *g, const GoldenCase *k, const char *name);
const char   *golden_meta(const GoldenFile *g, const char *key);
bool          golden_is_ours(const GoldenFile *g);   /* written by tblock logits, which records settings */

/* Whether t, after leading dimensions of 1, is [rows, columns] (columns 0: [rows]) and holds floats that golden_value reads. */
bool golden_is_floats(const Tensor *t);
bool golden_has_shape(const Tensor *t, int64_t rows, int64_t columns);

double  golden_value(const Tensor *t, size_t i);   /* F16, BF16, F32, F64 */

/* How far numbers are from recorded ones; GOLDEN_SAME before the first. */
typedef struct GoldenApart {
    double far;  /* the largest difference; NaN where a NaN stands on one side only */
    bool   same; /* every bit, but that any NaN is equal to any other. Of a golden that is wider than ours no digit is rounded away. */
} GoldenApart;
#define GOLDEN_SAME (GoldenApart){ 0, true }
void golden_compare(GoldenApart *a, double golden, double ours);

/* Are they within `allowed`, or the same where that is below 0? Infinite against finite is out of any tolerance. *worst: the
 * largest difference so far. */
bool golden_within(const GoldenApart *a, double allowed, double *worst);

/* Finite and under 1e30: a number that a tolerance can be taken from. Infinities and the lowest number of a type (-3.4e38) are masks. */
bool    golden_is_ordinary(double x);

/* How far t's type may have moved numbers up to `largest`: half a unit in the last place of F16 or BF16; 0 for F32 and F64, whose
 * steps are below what a float32 run loses. */
double  golden_rounding(const Tensor *t, double largest);

int64_t golden_token(const Tensor *t, size_t i);   /* I32, I64            */

#endif
