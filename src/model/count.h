/* model/count.h: what a model is made of, in numbers: parameters, bytes, KV cache. Reports draw
 * what is counted here and in flops.h. */
#ifndef MODEL_COUNT_H
#define MODEL_COUNT_H

#include "model/stored_model.h"

enum { COUNT_MAX_PARTS = 48 };

/* One kind of tensor: all layers' wq, or the embedding. */
typedef struct CountPart {
    const char *name;          /* "wq"                                              */
    TensorRole  role;
    bool        in_layer, bias;
    bool        in_first;      /* the first block has one */
    int         rows, k;       /* of one tensor; k 0: a vector [rows]               */
    int         stack;         /* matrices in one tensor (experts), else 1          */
    int         n_tensors;     /* n_layers, or 1                                    */
    uint64_t    params;        /* of all of them                                    */
    uint64_t    bytes;         /* of all of them, as stored                         */
    uint64_t    one_params;    /* of one of them                                    */
    uint64_t    one_bytes;     /* of the first; of a quantized matrix all its parts */
    unsigned    types;         /* bit mask of the WeightTypes they are stored in    */
    int         n_panels;      /* how many are matrices stored in panels            */
} CountPart;

typedef struct Count {
    CountPart part[COUNT_MAX_PARTS]; /* in file order */
    int       n_parts;
    /* of params those that one token's step uses: of experts the chosen ones only */
    uint64_t  active_params;
    /* head 0 when tied */
    uint64_t  params, embed_params, layer_params, blocks_params, final_norm_params, head_params;
    /* of one block: wq wk wv wo; w_gate w_up w_down; both norms. Biases too */
    uint64_t  attn_params, ffn_params, norm_params;
    /* of the first block */
    uint64_t  attn_bytes, ffn_bytes, norm_bytes;
    /* layer_*: of the first layer */
    uint64_t  bytes, embed_bytes, layer_bytes, blocks_bytes, final_norm_bytes, head_bytes;
    uint64_t  bytes_of[WT_COUNT];    /* bytes by type; their sum is bytes */
    /* of one position, all layers */
    uint64_t  kv_bytes_f32, kv_bytes_f16, kv_bytes_q8;
    int       n_row_major;           /* matrices that loading packs into panels (layout rows) */
    uint64_t  pack_bytes;            /* memory that those panels take beside the file */
} Count;

/* The KV cache of one sequence, each position stored exactly once (the runtime takes whole tiles:
 * runtime/kv_cache.h). */
typedef struct KvCount {
    uint64_t layer_bytes;      /* of one position in one layer: K and V of every KV head */
    uint64_t token_bytes;      /* of one position in all layers */
    /* that a full context keeps: n_ctx, or the window where every layer has it */
    int      positions;
    int      n_windowed;       /* layers that keep the window only */
    uint64_t full_bytes;       /* of all positions in all layers */
    double   mha_ratio;        /* to a cache with as many KV heads as heads */
} KvCount;

/* element_bytes, scale_bytes: 4 and 0 for f32, 2 and 0 for f16, 1 and 4 for q8, whose K and V each
 * have a scale for every position of a head. c passed config_check: nothing overflows. */
KvCount count_kv_cache(const Config *c, int element_bytes, int scale_bytes);

/* Layers whose queries see only a window; layers with experts. */
int count_windowed(const Config *c);
int count_moe(const Config *c);

/* Bytes of all attention scores of one layer in f32, where they are kept: [batch, heads, seq,
 * seq]. */
double count_score_bytes(const Config *c, int seq, int batch);

/* Parameters of a model with this config; a tied head counts once. */
uint64_t count_params(const Config *c);

/* Count a config (config_check passed) with matrices of one type, vectors F32, stored as
 * docs/format.md says. */
void count_config(Count *n, const Config *c, WeightType type);

/* Count what is stored: sizes and types of its tensors. */
void count_stored(Count *n, const StoredModel *c);

#endif
