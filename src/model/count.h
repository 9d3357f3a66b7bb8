/* model/count.h: parameters, bytes and FLOPs of a model. */
#ifndef MODEL_COUNT_H
#define MODEL_COUNT_H

#include "model/tensor_list.h"

/* ---- count.c --------------------------------------------------------------------------------- */

/* Counts what a model is made of: parameters, bytes, KV cache. Reports show the numbers of this
 * header. */

enum { COUNT_MAX_PARTS = 64 };

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
    bool        made;          /* they are packed or get another type at load   */
} CountPart;

typedef struct Count {
    CountPart part[COUNT_MAX_PARTS]; /* in file order */
    int       n_parts;
    CountPart ahead[COUNT_MAX_PARTS]; /* of the MTP layer, which is no part */
    int       n_ahead;
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
    uint64_t  mtp_params, mtp_bytes;       /* of the MTP layer */
    uint64_t  bytes_of[WT_COUNT];          /* bytes by type; their sum is bytes */
    uint64_t  kv_bytes_f32, kv_bytes_f16, kv_bytes_q8; /* of one position in all layers */
    /* Matrices that are packed into panels when the model is loaded (layout rows), and the extra
     * memory of these panels. */
    int       n_row_major;
    uint64_t  pack_bytes;
} Count;

/* The KV cache of one sequence, with each position stored exactly once. (The runtime stores whole
 * tiles: runtime/kv_cache.h.) */
typedef struct KvCount {
    uint64_t layer_bytes;      /* of one position in one layer: K and V of all KV heads */
    uint64_t token_bytes;      /* of one position in all layers                         */
    uint64_t state_bytes;      /* of the states in all layers, whatever the length */
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
int count_rotated(const Config *c);
int count_moe(const Config *c);
int count_state(const Config *c);          /* recurrent layers */

/* Bytes of all attention scores of one layer in f32, if they were kept: [batch, heads, seq,
 * seq]. */
double count_score_bytes(const Config *c, int seq, int batch);

/* Parameters of a model with this config; a tied head counts once. */
uint64_t count_params(const Config *c);

/* Count a config, which passed config_check, with matrices of one type and vectors in F32, stored
 * as in docs/format.md. */
void count_config(Count *n, const Config *c, WeightType type);

/* Count matrices as retyped when the model is opened (tblock_open_options.type). */
void count_made(Count *n);

/* Count a stored model by the sizes and types of its tensors. */
void count_stored(Count *n, const StoredModel *c);

/* ---- flops.c --------------------------------------------------------------------------------- */

/* FLOP and bytes moved of a block, for a prompt and for one decode step. docs/info.md says how each
 * row is counted. A multiply-add is 2 FLOP. Numbers are doubles that hold integers, exact below
 * 2^53. */

/* The operations (tensor_list.h) fall into four groups: the projections wq wk wv wo; the two
 * products whose cost grows with the square of the length; the feed-forward network with its
 * activation, and with the router and the sum of experts; and the rest, which is norms, RoPE,
 * softmax and residual additions. */
typedef enum FlopGroup {
    GROUP_PROJECTIONS,
    GROUP_SCORES,
    GROUP_FFN,
    GROUP_OTHER,
    GROUP_COUNT
} FlopGroup;

const char *flop_op_name(const Config *c, FlopOp op); /* "RMSNorm", "QK^T": for people */
const char *flop_op_key(FlopOp op);          /* "attn_norm", "qk": for programs */
FlopGroup   flop_op_group(FlopOp op);
const char *flop_group_name(FlopGroup g);    /* "projections" */
const char *flop_group_key(FlopGroup g);

typedef struct FlopRow {
    /* FLOP if every query attends to every position (the full square). */
    double full;
    double computed;   /* FLOP with the positions a query sees: causal, windowed */
    /* Bytes moved between memory and processor; each input and each result counts once. */
    double bytes;
} FlopRow;

/* Computed FLOP per byte; 0: no memory is touched. */
double flop_intensity(const FlopRow *r);

typedef struct FlopLoad {
    /* Prefill: tokens of the prompt. Decode: positions that the token sees, its own included. */
    int  seq;
    int  batch;        /* sequences of that length, computed together */
    bool decode;
    int  kv_bytes;     /* bytes of one element of the KV cache: 4, 2 or 1 */
    /* Bytes of one scale, which K and V each have per position and head; 0: a cache of floats. */
    int  kv_scale_bytes;
} FlopLoad;

typedef struct Flops {
    FlopRow op[OP_COUNT];
    FlopRow group[GROUP_COUNT];
    FlopRow attention; /* the attention branch: projections, RoPE, QK^T, softmax, AV */
    /* One block, the sum of op. If blocks differ (windows, experts), the mean of all. */
    FlopRow block;
    FlopRow blocks;    /* all blocks */
    /* The final norm of all tokens, and the logits of the last token of each sequence. */
    FlopRow head;
    FlopRow total;
} Flops;

/* n: the count of the config or of the file, which gives the bytes of an average block's weights.
 * seq and batch are at least 1. */
void count_flops(Flops *f, const Config *c, const Count *n, const FlopLoad *load);

/* The shortest length at which the attention branch (projections, RoPE, scores, softmax) of a block
 * costs as much as its FFN (gate, up, SiLU, down). full: over the full square; prefill: a prompt
 * with the mask; decode: one step. 0: it never does. */
typedef struct Crossover { int full, prefill, decode; } Crossover;
Crossover count_crossover(const Config *c, const Count *n);

/* ---- rank_cost.c ----------------------------------------------------------------------------- */

/* One rank of `size`: bytes of weights that it holds; bytes that it reads for a token (of the
 * experts, an even share); its part of the KV cache, and bytes of a sequence's recurrent states. Of
 * tables of which rows are looked up (an embedding that is not the head) it holds a share if they
 * are made, else nothing. It holds the MTP layer, which a token does not read. */
typedef struct RankShare { double weights, read, kv, state; } RankShare;
RankShare rank_share(const Config *c, const Count *n, int rank, int size);

/* What two or more ranks exchange for one token with logits. bytes: of whole vectors. */
typedef struct RankExchange { int gathers; uint64_t bytes; } RankExchange;
RankExchange rank_exchange(const Config *c);
/* The same in the MTP layer, for one draft token. */
RankExchange rank_exchange_ahead(const Config *c);

#endif
