/* model/count.h: counts what a model is made of: parameters, bytes, KV cache. Reports draw the
 * numbers of this header and of flops.h. */
#ifndef MODEL_COUNT_H
#define MODEL_COUNT_H

#include "model/stored_model.h"

enum { COUNT_MAX_PARTS = 48 };

/* One kind of tensor: all layers' wq, or the embedding. */
typedef struct CountPart {
    const char *name;          /* "wq" */
    TensorRole  role;
    bool        in_layer, bias;
    bool        in_first;      /* the first block has this tensor               */
    int         rows, k;       /* of one tensor; k 0: a vector [rows]           */
    int         stack;         /* matrices in one tensor: n_experts, or 1       */
    int         n_tensors;     /* n_layers, or 1                                */
    uint64_t    params;        /* of all of them                                */
    uint64_t    bytes;         /* of all of them, as stored                     */
    uint64_t    one_params;    /* of one of them                                */
    uint64_t    one_bytes;     /* of the first; all parts of a quantized matrix */
    unsigned    types;         /* bit mask of the stored WeightTypes            */
    int         n_panels;      /* matrices that are stored in panels            */
} CountPart;

typedef struct Count {
    CountPart part[COUNT_MAX_PARTS]; /* in file order */
    int       n_parts;
    /* active_params: the parameters that one token uses. Of the experts, only the chosen ones
     * count. */
    uint64_t  active_params;
    /* A tied head has 0 parameters. */
    uint64_t  params, embed_params, layer_params, blocks_params, final_norm_params, head_params;
    /* Of one block, with biases: wq wk wv wo; w_gate w_up w_down; both norms. */
    uint64_t  attn_params, ffn_params, norm_params;
    uint64_t  attn_bytes, ffn_bytes, norm_bytes;    /* of the first block */
    /* layer_bytes: of the first layer. */
    uint64_t  bytes, embed_bytes, layer_bytes, blocks_bytes, final_norm_bytes, head_bytes;
    uint64_t  bytes_of[WT_COUNT];          /* bytes by type; their sum is bytes */
    uint64_t  kv_bytes_f32, kv_bytes_f16, kv_bytes_q8; /* of one position in all layers */
    /* Matrices that are packed into panels when the model is loaded (layout rows), and the memory
     * that these panels take beside the file. */
    int       n_row_major;
    uint64_t  pack_bytes;
} Count;

/* The KV cache of one sequence, with each position stored exactly once. (The runtime stores whole
 * tiles: runtime/kv_cache.h.) */
typedef struct KvCount {
    uint64_t layer_bytes;      /* of one position in one layer: K and V of all KV heads */
    uint64_t token_bytes;      /* of one position in all layers                         */
    /* Positions that a full context keeps: n_ctx, or the window if every layer has it. */
    int      positions;
    int      n_windowed;       /* layers that keep only their window                 */
    uint64_t full_bytes;       /* of all positions in all layers                     */
    double   mha_ratio;        /* relative to a cache with as many KV heads as heads */
} KvCount;

/* element_bytes and scale_bytes are 4 and 0 for f32, 2 and 0 for f16, 1 and 4 for q8, which stores
 * one scale for K and one for V per position and head. c passed config_check, so nothing
 * overflows. */
KvCount count_kv_cache(const Config *c, int element_bytes, int scale_bytes);

/* The number of layers whose queries see only a window, and of layers with experts. */
int count_windowed(const Config *c);
int count_moe(const Config *c);

/* Bytes of all attention scores of one layer in f32, if they were kept: [batch, heads, seq,
 * seq]. */
double count_score_bytes(const Config *c, int seq, int batch);

/* Parameters of a model with this config; a tied head counts once. */
uint64_t count_params(const Config *c);

/* Count a config, which passed config_check, with matrices of one type and vectors in F32, stored
 * as in docs/format.md. */
void count_config(Count *n, const Config *c, WeightType type);

/* Count a stored model by the sizes and types of its tensors. */
void count_stored(Count *n, const StoredModel *c);

#endif
