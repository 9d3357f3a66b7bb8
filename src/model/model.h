/* model/model.h: a stored model bound to layers: every tensor found, checked and ready for the
 * kernels. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "base/progress.h"
#include "model/stored_model.h"
#include "quant/quant.h"

/* A matrix [rows, k] in panels of 16 rows: y = W x + bias; or a stack of them. rows 0: the model
 * has none. */
typedef struct Mat {
    WeightType   type;
    int          rows, k;
    int          stack; /* matrices one after the other, each in panels of its own (mat_item) */
    Panels       w;     /* stack * panel_count(rows) panels; every part starts on 64 bytes */
    const float *bias;  /* 16 * panel_count(rows) values, 0 past rows; or NULL */
    /* How a context multiplies it, in a copy of the context's own (runtime/numerics.h: Plan): */
    const char  *op;         /* what its product is called in a profile: "qkv"            */
    int          bits;       /* of the integers that it multiplies: 8 or 16; 0: floats    */
    int          out_bits;   /* w_up: of those that the next matrix makes of its result   */
    bool         bf16;       /* by the rules of --math bf16                               */
} Mat;

/* Matrix number i of a stack. */
static inline Mat mat_item(const Mat *m, int i)
{
    Mat item   = *m;
    item.stack = 1;
    item.w     = panels_from(m->type, m->w, i * panel_count(m->rows), m->k);
    return item;
}

/* A table [rows, k] whose rows are gathered: panels when tied to the head or quantized, else
 * row-major. rows 0: none. */
typedef struct Embedding {
    WeightType  type;
    bool        panels;
    int         rows, k;
    Panels      w;           /* row-major: part 0 is the tensor */
} Embedding;

/* The weight and bias of a norm; w NULL: the model has no such norm; b NULL: no bias. */
typedef struct NormVectors { const float *w, *b; } NormVectors;

/* What a model does not have is NULL, or a matrix without rows. Widths as tensor_list.c. */
typedef struct Layer {
    NormVectors  attn_norm;                           /* [d_model] */
    /* [heads*head_dim, d_model], [kv_heads*head_dim, d_model] twice, [d_model, heads*head_dim] */
    Mat          wq, wk, wv, wo;
    const float *q_norm, *k_norm;                     /* config.h: QkNorm */
    /* [d_model] */
    NormVectors  attn_post_norm, ffn_norm, ffn_post_norm;
    Mat          w_gate, w_up, w_down;                /* [d_ff, d_model] twice, [d_model, d_ff] */
    Mat          router;                              /* [n_experts, d_model] */
    Mat          expert_gate, expert_up, expert_down; /* stacks of n_experts */
    Mat          shared_router;                       /* [1, d_model] */
    Mat          shared_gate, shared_up, shared_down;
} Layer;

typedef struct Owned { void *data; size_t n_bytes; } Owned;

typedef struct Model {
    Config       cfg;
    Embedding    embed;          /* [vocab_size, d_model] */
    Embedding    pos_embed;      /* [n_ctx, d_model] of learned positions */
    const float *rope_factors;   /* [rotary_dim / 2] of rope type factors; else NULL */
    Layer       *layer;          /* [n_layers] */
    NormVectors  final_norm;
    Mat          lm_head;        /* of a tied model: the embedding's panels */
    size_t       weight_bytes;      /* of all weights as stored */
    size_t       matrix_bytes[WT_COUNT]; /* of the matrices, by type */
    /* read by one decode step: all matrices (of experts those that one token takes), the head,
     * norms; one row of the embedding */
    size_t       bytes_per_token;
    uint64_t     n_params;
    Owned       *owned; /* packed matrices, padded biases, widened norms: released by model_free */
    int          n_owned, cap_owned;
    size_t       owned_bytes;
} Model;

/* Bind the tensors of a stored model to the layers of its config. Panels are used where they lie;
 * rows are packed here (model.owned), by all threads. Its files must outlive the model, the
 * StoredModel need not. types: of each tensor (type_plan.h), NULL: as stored. Matrices of other
 * types than the stored ones are made here: the bits that `quantize` writes. The pages of a file
 * that something is made of leave this process's memory. progress: bytes of the tensors that are
 * bound; may be NULL. Fails (INPUT) where a weight is not finite or too large for its type. */
bool model_bind(Model *m, const StoredModel *c, const WeightType *types, const Progress *progress, Error *err);

/* The same of a model file's tensors (stored_model_from_file), as stored. */
bool model_bind_file(Model *m, const Config *cfg, const TensorFile *f, Error *err);
void model_free(Model *m);       /* a zeroed Model is accepted */

/* Row `token` of the embedding as d_model floats: exact, of a quantized one rounded once. */
void embedding_row(const Embedding *e, int token, float *out);

#endif
