/* model/model.h: a model file bound to layers: every tensor found, checked and ready for the kernels. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "format/tensors.h"
#include "model/config.h"
#include "quant/quant.h"

/* A matrix [rows, k] in panels of 16 rows: y = W x + bias. */
typedef struct Mat {
    WeightType   type;
    int          rows, k;
    Panels       w;          /* panel_count(rows) panels; every part starts on 64 bytes */
    const float *bias;       /* 16 * panel_count(rows) values, 0 past rows; or NULL */
} Mat;

/* The token embedding [vocab_size, d_model]: panels when tied to the head or quantized, else row-major: it is only gathered. */
typedef struct Embedding {
    WeightType  type;
    bool        panels;
    int         rows, k;
    Panels      w;           /* row-major: part 0 is the tensor */
} Embedding;

typedef struct Layer {
    const float *attn_norm;      /* [d_model] */
    Mat          wq, wk, wv, wo; /* [heads*head_dim, d_model], [kv_heads*head_dim, d_model] twice, [d_model, heads*head_dim] */
    const float *ffn_norm;       /* [d_model] */
    Mat          w_gate, w_up, w_down; /* [d_ff, d_model] twice, [d_model, d_ff] */
} Layer;

typedef struct Model {
    Config       cfg;
    Embedding    embed;
    Layer       *layer;          /* [n_layers] */
    const float *final_norm;
    Mat          lm_head;        /* of a tied model: the embedding's panels */
    size_t       weight_bytes;      /* of all weights as stored */
    size_t       matrix_bytes[WT_COUNT]; /* of the matrices, by type */
    size_t       bytes_per_token;   /* read by one decode step: all matrices, the head, norms; one row of the embedding */
    uint64_t     n_params;
    void       **owned;          /* packed matrices, padded biases, widened norms: released by model_free */
    int          n_owned, cap_owned;
} Model;

/* Bind the tensors of f to the layers of cfg; names, shapes and layouts as docs/format.md. Layout rows is packed here
 * (model.owned), panels are used where they lie. f must outlive the model. Every tensor must be known: one that would be
 * ignored is an error, tensors whose name starts with "tok." or "pad." excepted. No JSON is read here. */
bool model_bind(Model *m, const Config *cfg, const TensorFile *f, Error *err);

/* The same with matrices of other types (type_plan.h: one for each tensor; NULL: as stored). Those are made here, by all threads, in
 * owned memory: the bits that `quantize` writes. The pages of f that they are made from leave this process's memory. Fails
 * (INPUT) where a weight is not finite or too large for its type. */
bool model_bind_as(Model *m, const Config *cfg, const TensorFile *f, const WeightType *types, Error *err);
void model_free(Model *m);       /* a zeroed Model is accepted */

/* Row `token` of the embedding as d_model floats: exact, of a quantized one rounded once. */
void embedding_row(const Embedding *e, int token, float *out);

#endif
