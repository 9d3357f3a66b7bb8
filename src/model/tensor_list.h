/* model/tensor_list.h: the tensors of a config, in file order. The one place that knows their
 * names, shapes and order, where each lies in memory and what it multiplies: binding, counting,
 * quantizing, planning and whatever writes model files go through it. A new tensor is a row of its
 * table, a field of Layer (model.h), a line of runtime/forward.c, and a row of docs/format.md,
 * section Tensors. */
#ifndef MODEL_TENSOR_LIST_H
#define MODEL_TENSOR_LIST_H

#include "model/config.h"
#include "quant/quant.h"

/* One row of the table each, in file order. */
typedef enum TensorRole {
    ROLE_EMBED, ROLE_POS_EMBED, ROLE_ROPE_FACTORS,
    ROLE_ATTN_NORM, ROLE_WQ, ROLE_WK, ROLE_WV, ROLE_Q_NORM, ROLE_K_NORM, ROLE_WO, ROLE_ATTN_POST_NORM,
    ROLE_FFN_NORM, ROLE_W_GATE, ROLE_W_UP, ROLE_W_DOWN,
    /* One tensor for all experts of a layer. */
    ROLE_ROUTER, ROLE_EXPERT_GATE, ROLE_EXPERT_UP, ROLE_EXPERT_DOWN,
    /* The expert that every token takes. */
    ROLE_SHARED_ROUTER, ROLE_SHARED_GATE, ROLE_SHARED_UP, ROLE_SHARED_DOWN,
    ROLE_FFN_POST_NORM, ROLE_FINAL_NORM, ROLE_LM_HEAD, ROLE_COUNT
} TensorRole;

/* The type of a tensor's field in Layer, or in Model (model.h). KIND_STACK: a Mat for all
 * experts. */
typedef enum TensorKind { KIND_MAT, KIND_STACK, KIND_NORM, KIND_VECTOR, KIND_EMBEDDING } TensorKind;

/* The vectors that matrices multiply. Each is turned into integers once, for all matrices that read
 * it. */
typedef enum Input {
    /* q, k, v. In parallel blocks with one norm, also everything of INPUT_FFN. */
    INPUT_QKV,
    INPUT_WO,
    /* gate and up. With experts, also both routers and the shared expert. */
    INPUT_FFN,
    INPUT_DOWN,
    INPUT_EXPERT_DOWN, INPUT_SHARED_DOWN,
    INPUT_HEAD,          /* in no layer */
    INPUT_COUNT, INPUT_NONE = INPUT_COUNT /* no matrix, or only single rows are read */
} Input;

/* The part of a block that a tensor belongs to, with its bias. */
typedef enum BlockPart { PART_ATTENTION, PART_FFN, PART_NORMS, BLOCK_PARTS } BlockPart;

/* The operations of a block, in the order of runtime/forward.c, as flops.h counts them. No block
 * has all of them. */
typedef enum FlopOp {
    OP_ATTN_NORM, OP_Q, OP_K, OP_V, OP_QK_NORM, OP_ROPE, OP_QK, OP_SOFTMAX, OP_AV, OP_OUT,
    OP_ATTN_POST_NORM, OP_ATTN_ADD, OP_FFN_NORM, OP_ROUTER, OP_GATE, OP_UP, OP_SILU, OP_DOWN,
    OP_COMBINE, OP_FFN_POST_NORM, OP_FFN_ADD, OP_COUNT
} FlopOp;

/* The type of a matrix in a quantized model (docs/quantize.md): the one that the user asked for; at
 * least q8; floats. */
typedef enum Quantized { AS_ASKED, AT_LEAST_Q8, AS_FLOATS } Quantized;

/* What a role's tensors have in common in every model and layer. */
typedef struct TensorRow {
    const char *name, *bias_name; /* "wq", "wq_bias" */
    bool        in_layer;
    TensorKind  kind;
    size_t      at;               /* offset in Layer, or in Model               */
    Input       reads;            /* of a matrix: the vector that it multiplies */
    /* The operation that multiplies it, or norms; OP_COUNT: flops.c has a formula. */
    FlopOp      op;
    Quantized   quantized;
} TensorRow;
const TensorRow *tensor_row(TensorRole role);
static inline bool tensor_row_mat(const TensorRow *r)
{
    return r->kind == KIND_MAT || r->kind == KIND_STACK;
}
BlockPart tensor_row_part(const TensorRow *r);

typedef struct TensorSpec {
    char        name[64];    /* "layers.3.wq"                    */
    const char *part;        /* "wq": the name without its layer */
    TensorRole  role;
    bool        bias;        /* the bias of the role's matrix or norm    */
    int         layer;       /* -1: outside the layers                   */
    int         rows, k;     /* a matrix [rows, k]; k 0: a vector [rows] */
    /* So many matrices one after the other, each with its own panels; else 1. */
    int         stack;
    /* Stored as panels in every type; false: row-major in float types. */
    bool        panels;
    const char *rows_key, *k_key; /* the config key that a dimension comes from, for messages */
    int         rows_unit, k_unit; /* dimension = that key's value * unit (unit head_dim for heads) */
    int         at_;         /* private to tensor_list_next */
} TensorSpec;

/* Iterate: TensorSpec s = tensor_list_start(); while (tensor_list_next(c, &s)) ... c passed
 * config_check. */
TensorSpec tensor_list_start(void);
bool       tensor_list_next(const Config *c, TensorSpec *s);

/* The number of tensors. */
int tensor_list_count(const Config *c);

/* Is the tensor a table of which single rows are read (embedding, positions)? */
static inline bool tensor_spec_gathered(const TensorSpec *s) { return s->role == ROLE_EMBED || s->role == ROLE_POS_EMBED; }

/* Panels of a matrix or of a whole stack; and their rows, including those that fill the last panel
 * of each matrix of a stack. */
static inline int tensor_spec_panel_count(const TensorSpec *s) { return s->stack * panel_count(s->rows); }
static inline int tensor_spec_panel_rows(const TensorSpec *s)
{
    return s->stack == 1 ? s->rows : tensor_spec_panel_count(s) * PANEL_ROWS;
}

/* The first row of panel i, counted through the stack; and how many rows that panel has. */
static inline int tensor_spec_block_row(const TensorSpec *s, int i)
{
    int per_item = panel_count(s->rows);
    return i / per_item * s->rows + i % per_item * PANEL_ROWS;
}
static inline int tensor_spec_block_rows(const TensorSpec *s, int i)
{
    int rest = s->rows - i % panel_count(s->rows) * PANEL_ROWS;
    return rest < PANEL_ROWS ? rest : PANEL_ROWS;
}

/* The shape of a tensor stored row by row: [rows], [rows, k] or [stack, rows, k]. Returns the rank.
 */
int tensor_spec_shape(const TensorSpec *s, int64_t shape[3]);

/* Parameters of one tensor. */
uint64_t tensor_spec_params(const TensorSpec *s);

/* Is this tensor stored as panels? Matrices of quantized types always are. */
static inline bool tensor_spec_panels(const TensorSpec *s, WeightType type)
{
    return s->panels || (s->k && weight_type_quantized(type));
}

/* Bytes of one tensor, with all parts, as writers store it: a matrix in `type`, a vector in F32. c
 * passed config_check, so nothing overflows. */
size_t tensor_spec_bytes(const TensorSpec *s, WeightType type);

/* Is name one of the config's tensors; is it one of its matrices? Names of parts (quant.h) are
 * not. */
bool tensor_list_has(const Config *c, const char *name);
bool tensor_list_has_matrix(const Config *c, const char *name);

/* Why the config has no tensor of this name, such as " (n_layers 2 in the config)"; "": not known.
 * Returns buf. */
const char *tensor_list_why_absent(const Config *c, const char *name, char *buf, size_t n);

#endif
