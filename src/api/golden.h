/* api/golden.h: golden logits: the cases of a file, hidden states, advice. */
#ifndef API_GOLDEN_H
#define API_GOLDEN_H

#include "api/api.h"
#include "format/npy.h"
#include "model/fingerprint.h"
#include "tblock_tools.h"

/* ---- golden_case.c --------------------------------------------------------------------------- */

/* Golden files as verify reads them: token sequences with their logits, checked against a model.
 *
 *   safetensors   [PREFIX.]tokens I32 or I64 [n], with [PREFIX.]logits_f64 or [PREFIX.]logits of
 *                 F32, F64, F16 or BF16 [n, vocab],
 *                 or [1, vocab]: the last position's; optionally [PREFIX.]greedy and
 *                 [PREFIX.]hidden.NAME [n, d_model]. A digest (golden_digest.c) has, in place of
 *                 logits, [PREFIX.]logits.hash U64 [n] and the largest, and hidden.NAME U64 [n]
 *   .npy          two files of numpy: NAME is the logits', and contains "logits"; that of the
 *                 tokens has "tokens" instead
 *
 * A leading dimension of 1 (a batch of one) is accepted. */

enum { GOLDEN_DIGEST_TENSORS = 3 }; /* hashes, the five largest, their logits */
typedef struct GoldenCase {
    char          prefix[64];        /* "seq0." or "" */
    const Tensor *tokens, *logits, *logits_f32, *greedy; /* logits_f32: beside logits_f64; NULL:
                                                          * none */
    /* in place of logits, which is NULL then; golden_open sets the first, unchecked */
    const Tensor *digest[GOLDEN_DIGEST_TENSORS];
    size_t        n_rows;            /* rows of logits: as many as tokens, or 1 */
} GoldenCase;

/* Fingerprints of all tensors: recorded ones, or those of a model here. n 0: none. */
typedef struct GoldenPrints {
    size_t        n;
    Fingerprint  *own;               /* [n], of a model here */
    const Tensor *hash, *sum;        /* of a file */
} GoldenPrints;

typedef struct GoldenFile {
    const char  *path;               /* as given */
    TensorFile   st;                 /* a safetensors file, else zeroed */
    NpyFile      npy[2];             /* logits, tokens */
    const Tensor *pair[2];           /* of npy, sorted by name */
    GoldenCase  *cases;
    size_t       n_cases;
    GoldenPrints prints;             /* of the recorded model */
} GoldenFile;

/* Open the file and check every case against the context's model and length. tokens: the path of
 * the tokens if `path` is the .npy of the logits, else NULL. greedy: the continuations must fit,
 * too. Errors: INPUT, SYSTEM. */
bool golden_open(GoldenFile *g, const char *path, const char *tokens, bool greedy,
                 const tblock_context *c, Error *err);
void golden_close(GoldenFile *g);    /* accepts a zeroed one */

/* The tensor [PREFIX.]name of a case; NULL: none. */
const Tensor *golden_sibling(const GoldenFile *g, const GoldenCase *k, const char *name);
const char   *golden_meta(const GoldenFile *g, const char *key);
bool          golden_is_ours(const GoldenFile *g);   /* written by tblock logits, with its
                                                      * settings */

/* Is t, after leading dimensions of 1, [rows, columns] (columns 0: [rows]), and does it hold floats
 * that golden_value reads? */
bool golden_is_floats(const Tensor *t);
bool golden_has_shape(const Tensor *t, int64_t rows, int64_t columns);

double  golden_value(const Tensor *t, size_t i);   /* F16, BF16, F32, F64 */

/* The difference of numbers from recorded ones; start with GOLDEN_SAME. */
typedef struct GoldenApart {
    double far;  /* the largest difference; NaN if only one side is NaN */
    bool   same; /* equal bits, or NaN on both sides. A golden of a wider type than ours is compared
                  * without rounding. */
} GoldenApart;
#define GOLDEN_SAME (GoldenApart){ 0, true }
void golden_compare(GoldenApart *a, double golden, double ours);

/* Are they within `allowed`, or equal if that is below 0? Infinite against finite is outside any
 * tolerance. *worst: the largest difference so far. */
bool golden_within(const GoldenApart *a, double allowed, double *worst);

/* Finite and under 1e30, so that a tolerance can be derived from it. Infinities and the lowest
 * number of a type (-3.4e38) are masks. */
bool    golden_is_ordinary(double x);

/* How far rounding to t's type may have moved numbers up to `largest`: half a unit in the last
 * place of F16 or BF16; 0 for F32 and F64, whose steps are below the error of a float32 run. */
double  golden_rounding(const Tensor *t, double largest);

int64_t golden_token(const Tensor *t, size_t i);   /* I32, I64            */

/* ---- golden_digest.c ------------------------------------------------------------------------- */

/* Of a position's logits. */
typedef struct RowDigest {
    uint64_t hash;
    int32_t  top[TOP_MOST];   /* the largest, -1 from the n-th on */
    float    value[TOP_MOST]; /* their logits */
    int      n;
} RowDigest;

/* GOLDEN_DIGEST_TENSORS tensors of n_rows rows; then a row of them, of which `first` is the number
 * of the first. wide: scratch [n]. */
bool golden_digest_declare(TensorWriter *w, size_t n_rows, Error *err);
bool golden_digest_put(TensorWriter *w, int first, size_t row, const float *logits, double *wide,
                       int n, Error *err);
/* Sets digest and n_rows of the cases that are digests, checked. Errors: INPUT. */
bool golden_digests_read(GoldenFile *g, int vocab, Error *err);
bool golden_is_digest(const GoldenFile *g); /* is one of them? */
/* Has this row of a digest the same bits? Adds the rest to out. */
bool golden_digest_same(const GoldenCase *k, size_t row, const float *logits, double *wide, int n,
                        tblock_verify_row *out);

/* ---- golden_hidden.c ------------------------------------------------------------------------- */

/* Where a run diverges from the recorded states of its residual stream. */

/* The states of a forward pass by number, in order: the embedding, two per layer (after attention,
 * after the layer), the final norm. Its tensor is "hidden." and the name that an observer gets. */
static inline int hidden_stages(int n_layers) { return 2 * n_layers + 2; }
int  hidden_stage(int n_layers, const char *name);          /* of "layer3.attn"; -1: unknown */
void hidden_tensor_name(int n_layers, int stage, char out[32]);

/* One recorded state: after the embedding, after the attention or the end of a layer, or after the
 * final norm. */
typedef struct HiddenStage {
    const Tensor *golden;            /* [n, d_model], or of a digest [n]; NULL: not recorded */
    double        allowed;           /* largest difference; < 0: every bit */
    double        worst;             /* largest |ours - golden|; NaN if only one side is NaN */
    int64_t       first;             /* first position out of tolerance; -1: none */
} HiddenStage;

typedef struct HiddenRun {
    HiddenStage *stage;              /* [hidden_stages]: in the order of the forward pass */
    int          n_layers, d_model, n_recorded;
    size_t       at;                 /* position of the current chunk's first token */
} HiddenRun;

/* The hidden.* tensors of a case, checked. share: the largest difference allowed, relative to a
 * state's largest value (plus the rounding of its type); below 0: equal bits. Errors: INPUT (a
 * shape or type), SYSTEM. */
bool hidden_open(HiddenRun *h, const GoldenFile *g, const GoldenCase *k, const tblock_context *c,
                 double share, Error *err);
void hidden_close(HiddenRun *h);

/* a tblock_observer */
void hidden_observe(void *user, const char *name, size_t first, int n_tok, const float *x,
                    size_t stride);

/* The first stage that differs, in the order of the forward pass; NULL: none. name: "layer 3,
 * attention"; *layer: -1 outside. */
const HiddenStage *hidden_parted(const HiddenRun *h, char name[40], int *layer);

/* ---- golden_prints.c ------------------------------------------------------------------------- */

Fingerprint golden_print(const GoldenPrints *p, size_t i);

/* Of c's model: one read of its weights. Errors: SYSTEM. */
bool golden_prints_make(GoldenPrints *p, const tblock_context *c, Error *err);
void golden_prints_free(GoldenPrints *p);
/* Metadata and the first GOLDEN_PRINT_TENSORS tensors of a golden; then their data. */
enum { GOLDEN_PRINT_TENSORS = 2 };
bool golden_prints_declare(const GoldenPrints *p, const tblock_model *m, TensorWriter *w,
                           Error *err);
bool golden_prints_put(const GoldenPrints *p, TensorWriter *w, Error *err);
/* Sets g->prints, of an open golden. Errors: INPUT. */
bool golden_prints_read(GoldenFile *g, Error *err);

/* ---- golden_model.c -------------------------------------------------------------------------- */

/* Sets the ..._diff of the report: how the model here differs from the recorded one. Reads all
 * weights, unless their hash shows that they are the same. Errors: SYSTEM. */
bool golden_compare_model(const GoldenFile *g, const tblock_context *c, tblock_verify_report *out,
                          Error *err);

/* ---- golden_tensors.c ------------------------------------------------------------------------ */

/* Name in out how the tensors `is` differ from `was`, both of all tensors of c's model; "" if they
 * do not. types: "", or that their types differ. Errors: SYSTEM. */
bool golden_tensors_differ(const tblock_context *c, const GoldenPrints *was, const GoldenPrints *is,
                           const char *types, char *out, size_t n_out, Error *err);

/* ---- golden_advice.c ------------------------------------------------------------------------- */

/* What to try if a run differs from its golden. */

/* Fill out->advice: which settings of this run round where the golden's run did not (for a golden
 * of another program: where f32 would not), and the options that change them; "" if there are
 * none. */
void golden_advise(const GoldenFile *g, const tblock_context *c, tblock_verify_report *out);

#endif
