/* model/tensor_list.h: the tensors of a config, in file order. The one place that knows their names, shapes and order:
 * binding, counting, synth and whatever writes model files go through it. docs/format.md, section Tensors. */
#ifndef MODEL_TENSOR_LIST_H
#define MODEL_TENSOR_LIST_H

#include "model/config.h"
#include "quant/quant.h"

typedef enum TensorRole {
    ROLE_EMBED, ROLE_POS_EMBED, ROLE_ROPE_FACTORS,
    ROLE_ATTN_NORM, ROLE_WQ, ROLE_WK, ROLE_WV, ROLE_Q_NORM, ROLE_K_NORM, ROLE_WO, ROLE_ATTN_POST_NORM,
    ROLE_FFN_NORM, ROLE_W_GATE, ROLE_W_UP, ROLE_W_DOWN,
    ROLE_ROUTER, ROLE_EXPERT_GATE, ROLE_EXPERT_UP, ROLE_EXPERT_DOWN,          /* of all experts of a layer in one */
    ROLE_SHARED_ROUTER, ROLE_SHARED_GATE, ROLE_SHARED_UP, ROLE_SHARED_DOWN,   /* the expert that every token takes */
    ROLE_FFN_POST_NORM, ROLE_FINAL_NORM, ROLE_LM_HEAD, ROLE_COUNT
} TensorRole;

typedef struct TensorSpec {
    char        name[64];    /* "layers.3.wq"                                                    */
    const char *part;        /* "wq": the name without its layer                                 */
    TensorRole  role;
    bool        bias;        /* the bias of the role's matrix or norm                            */
    int         layer;       /* -1: outside the layers                                           */
    int         rows, k;     /* a matrix [rows, k]; k 0: a vector [rows]                         */
    int         stack;       /* that many matrices one after the other, each in panels of its own; else 1 */
    bool        panels;      /* a matrix that writers store as panels in every type; false: row-major in float types */
    const char *rows_key, *k_key; /* the config key that a dimension comes from, for messages    */
    int         rows_unit, k_unit; /* dimension = that key's value * unit (unit head_dim for heads) */
    int         row_;        /* private to tensor_list_next                                      */
} TensorSpec;

/* Iterate: TensorSpec s = tensor_list_start(); while (tensor_list_next(c, &s)) ... c passed config_check. */
TensorSpec tensor_list_start(void);
bool       tensor_list_next(const Config *c, TensorSpec *s);

/* How many they are. */
int tensor_list_count(const Config *c);

/* Is the tensor a table whose rows are only gathered (embedding, positions)? */
static inline bool tensor_spec_gathered(const TensorSpec *s) { return s->role == ROLE_EMBED || s->role == ROLE_POS_EMBED; }

/* Panels of a matrix, of the whole stack; and its rows as panels count them, those that fill up a stack's last panels too. */
static inline int tensor_spec_panel_count(const TensorSpec *s) { return s->stack * panel_count(s->rows); }
static inline int tensor_spec_panel_rows(const TensorSpec *s)
{
    return s->stack == 1 ? s->rows : tensor_spec_panel_count(s) * PANEL_ROWS;
}

/* The first row of block (panel) number i, counted through the stack; and how many rows it has. */
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

/* The shape of a tensor stored row by row: [rows], [rows, k] or [stack, rows, k]. Returns the rank. */
int tensor_spec_shape(const TensorSpec *s, int64_t shape[3]);

/* Parameters of one tensor. */
uint64_t tensor_spec_params(const TensorSpec *s);

/* Do writers store this tensor as panels? Matrices of quantized types always are. */
static inline bool tensor_spec_panels(const TensorSpec *s, WeightType type)
{
    return s->panels || (s->k && weight_type_quantized(type));
}

/* Bytes of one tensor (all parts) as writers store it: a matrix in `type`, a vector in F32. c passed config_check: no overflow. */
size_t tensor_spec_bytes(const TensorSpec *s, WeightType type);

/* Is name one of the config's tensors? And one of its matrices? Names of parts (quant.h) are not looked at. */
bool tensor_list_has(const Config *c, const char *name);
bool tensor_list_has_matrix(const Config *c, const char *name);

/* Why the config has no tensor of this name, as " (n_layers 2 in the config)"; "" where no reason is known. Returns buf. */
const char *tensor_list_why_absent(const Config *c, const char *name, char *buf, size_t n);

#endif
