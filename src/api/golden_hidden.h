/* api/golden_hidden.h: where a run parts from the recorded states of its residual stream. */
#ifndef API_GOLDEN_HIDDEN_H
#define API_GOLDEN_HIDDEN_H

#include "api/golden_case.h"

/* The states of a pass by number, in its order: the embedding, of each layer attention and the
 * whole, the final norm. Its tensor is "hidden." and the name that an observer is told. */
static inline int hidden_stages(int n_layers) { return 2 * n_layers + 2; }
int  hidden_stage(int n_layers, const char *name);          /* of "layer3.attn"; -1: none of ours */
void hidden_tensor_name(int n_layers, int stage, char out[32]);

/* One recorded state: after the embedding, after the attention or the whole of a layer, or the final norm. */
typedef struct HiddenStage {
    const Tensor *golden;            /* [n, d_model]; NULL: not recorded */
    double        allowed;           /* largest difference; < 0: every bit */
    double        worst;             /* largest |ours - golden|; NaN where a NaN stands on one side only */
    int64_t       first;             /* first position out of that; -1: none */
} HiddenStage;

typedef struct HiddenRun {
    HiddenStage *stage;              /* [hidden_stages]: in the order of the forward pass */
    int          n_layers, d_model, n_recorded;
    size_t       at;                 /* position of the running piece's first token */
} HiddenRun;

/* The hidden.* tensors of a case, checked. share: largest allowed difference as a share of a state's largest value (besides what its
 * type rounds off), or below 0: equal bits. Errors: INPUT (a shape or type), SYSTEM. */
bool hidden_open(HiddenRun *h, const GoldenFile *g, const GoldenCase *k, const tblock_context *c, double share, Error *err);
void hidden_close(HiddenRun *h);

void hidden_observe(void *user, const char *name, size_t first, int n_tok, const float *x, size_t stride); /* a tblock_observer */

/* The first stage that differs, in the order of the forward pass; NULL: none. name: "layer 3, attention"; *layer: -1 outside. */
const HiddenStage *hidden_parted(const HiddenRun *h, char name[40], int *layer);

#endif
