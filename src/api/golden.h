/* api/golden.h: golden logits: the cases of a file, hidden states, advice. */
#ifndef API_GOLDEN_H
#define API_GOLDEN_H

#include "api/api.h"
#include "format/npy.h"
#include "tblock_tools.h"

/* ---- golden_case.c --------------------------------------------------------------------------- */

/* Golden files as verify reads them: token sequences with their logits, checked against a model.
 *
 *   safetensors   [PREFIX.]tokens I32 or I64 [n], with [PREFIX.]logits_f64 or [PREFIX.]logits of
 *                 F32, F64, F16 or BF16 [n, vocab],
 *                 or [1, vocab]: the last position's; optionally [PREFIX.]greedy and
 *                 [PREFIX.]hidden.NAME [n, d_model]
 *   .npy          two files of numpy: NAME is the logits', and holds "logits"; that of the tokens
 *                 has "tokens" instead
 *
 * A leading dimension of 1 more, a batch of one, is as good. */

typedef struct GoldenCase {
    char          prefix[64];        /* "seq0." or "" */
    const Tensor *tokens, *logits, *logits_f32, *greedy; /* logits_f32: beside logits_f64; NULL:
                                                          * none */
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

/* Open the file and check every case against the context's model and length. tokens: NULL, or the
 * path of those that belong to a path of logits, both .npy files. greedy: the continuations must
 * fit, too. Errors: INPUT, SYSTEM. */
bool golden_open(GoldenFile *g, const char *path, const char *tokens, bool greedy,
                 const tblock_context *c, Error *err);
void golden_close(GoldenFile *g);    /* a zeroed one is accepted */

/* [PREFIX.]name of a case; NULL: none. */
const Tensor *golden_sibling(const GoldenFile *g, const GoldenCase *k, const char *name);
const char   *golden_meta(const GoldenFile *g, const char *key);
bool          golden_is_ours(const GoldenFile *g);   /* written by tblock logits, which records
                                                      * settings */

/* Whether t, after leading dimensions of 1, is [rows, columns] (columns 0: [rows]) and holds floats
 * that golden_value reads. */
bool golden_is_floats(const Tensor *t);
bool golden_has_shape(const Tensor *t, int64_t rows, int64_t columns);

double  golden_value(const Tensor *t, size_t i);   /* F16, BF16, F32, F64 */

/* How far numbers are from recorded ones; GOLDEN_SAME before the first. */
typedef struct GoldenApart {
    double far;  /* the largest difference; NaN where a NaN stands on one side only */
    bool   same; /* every bit, but that any NaN is equal to any other. Of a golden that is wider
                  * than ours no digit is rounded away. */
} GoldenApart;
#define GOLDEN_SAME (GoldenApart){ 0, true }
void golden_compare(GoldenApart *a, double golden, double ours);

/* Are they within `allowed`, or the same where that is below 0? Infinite against finite is out of
 * any tolerance. *worst: the largest difference so far. */
bool golden_within(const GoldenApart *a, double allowed, double *worst);

/* Finite and under 1e30: a number that a tolerance can be taken from. Infinities and the lowest
 * number of a type (-3.4e38) are masks. */
bool    golden_is_ordinary(double x);

/* How far t's type may have moved numbers up to `largest`: half a unit in the last place of F16 or
 * BF16; 0 for F32 and F64, whose steps are below what a float32 run loses. */
double  golden_rounding(const Tensor *t, double largest);

int64_t golden_token(const Tensor *t, size_t i);   /* I32, I64            */

/* ---- golden_hidden.c ------------------------------------------------------------------------- */

/* Where a run parts from the recorded states of its residual stream. */

/* The states of a pass by number, in its order: the embedding, of each layer attention and the
 * whole, the final norm. Its tensor is "hidden." and the name that an observer is told. */
static inline int hidden_stages(int n_layers) { return 2 * n_layers + 2; }
int  hidden_stage(int n_layers, const char *name);          /* of "layer3.attn"; -1: unknown */
void hidden_tensor_name(int n_layers, int stage, char out[32]);

/* One recorded state: after the embedding, after the attention or the whole of a layer, or the
 * final norm. */
typedef struct HiddenStage {
    const Tensor *golden;            /* [n, d_model]; NULL: not recorded */
    double        allowed;           /* largest difference; < 0: every bit */
    double        worst;             /* largest |ours - golden|; NaN where a NaN stands on one side
                                      * only */
    int64_t       first;             /* first position out of that; -1: none */
} HiddenStage;

typedef struct HiddenRun {
    HiddenStage *stage;              /* [hidden_stages]: in the order of the forward pass */
    int          n_layers, d_model, n_recorded;
    size_t       at;                 /* position of the running piece's first token */
} HiddenRun;

/* The hidden.* tensors of a case, checked. share: largest allowed difference as a share of a
 * state's largest value (besides what its type rounds off), or below 0: equal bits. Errors: INPUT
 * (a shape or type), SYSTEM. */
bool hidden_open(HiddenRun *h, const GoldenFile *g, const GoldenCase *k, const tblock_context *c,
                 double share, Error *err);
void hidden_close(HiddenRun *h);

/* a tblock_observer */
void hidden_observe(void *user, const char *name, size_t first, int n_tok, const float *x,
                    size_t stride);

/* The first stage that differs, in the order of the forward pass; NULL: none. name: "layer 3,
 * attention"; *layer: -1 outside. */
const HiddenStage *hidden_parted(const HiddenRun *h, char name[40], int *layer);

/* ---- golden_advice.c ------------------------------------------------------------------------- */

/* What to try where a run differs from its golden. */

/* Fill out->advice: which settings of this run round where the golden's run did not (a golden of
 * another program: where f32 would not), and the options that change them. "" where there are
 * none. */
void golden_advise(const GoldenFile *g, const tblock_context *c, tblock_verify_report *out);

#endif
