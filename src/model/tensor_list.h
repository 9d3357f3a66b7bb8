/* model/tensor_list.h: the tensors of a model: the one table of them, where their rows come from,
 * the checks of a file. */
#ifndef MODEL_TENSOR_LIST_H
#define MODEL_TENSOR_LIST_H

#include "base/progress.h"
#include "format/tensors.h"
#include "model/config.h"
#include "model/tensor_rows.h"
#include "quant/quant.h"

/* ---- tensor_list.c --------------------------------------------------------------------------- */

/* The tensors of a config, in file order. The rows of tensor_rows.h are all that is known of their
 * names, shapes and order, where each is in memory and what it multiplies: binding, counting,
 * quantizing, planning, adapters, the readers of other programs' files and all writers of model
 * files go through them. */

/* The type of a tensor's field in Layer, or in Model (model.h). KIND_STACK: a Mat for all
 * experts; KIND_HEADS: for all heads. */
typedef enum TensorKind {
    KIND_MAT, KIND_STACK, KIND_HEADS, KIND_NORM, KIND_VECTOR, KIND_EMBEDDING
} TensorKind;

/* The vectors that matrices multiply. Each is turned into integers once, for all matrices that read
 * it. */
typedef enum Input {
    /* q, k, v; or the first ones of a recurrent layer. In parallel blocks with one norm, also
     * everything of INPUT_FFN. */
    INPUT_QKV,
    /* Of latent attention: wq_b's input; a head's part of q; of attention's output. */
    INPUT_Q_A, INPUT_UK, INPUT_UV,
    INPUT_WO,
    /* gate and up. With experts, also both routers and the shared expert. */
    INPUT_FFN,
    INPUT_DOWN,
    INPUT_EXPERT_DOWN, INPUT_SHARED_DOWN,
    INPUT_MTP,           /* an embedding, then a hidden state */
    INPUT_HEAD,          /* in no layer */
    INPUT_COUNT, INPUT_NONE = INPUT_COUNT /* no matrix, or only single rows are read */
} Input;

/* The part of a block that a tensor belongs to, with its bias. */
typedef enum BlockPart { PART_ATTENTION, PART_FFN, PART_NORMS, BLOCK_PARTS } BlockPart;

/* The operations of a block, in the order of runtime/forward.c, as flops.c counts them. No block
 * has all of them. */
typedef enum FlopOp {
    OP_ATTN_NORM, OP_Q, OP_K, OP_V, OP_QK_NORM, OP_ROPE, OP_QK, OP_SOFTMAX, OP_AV, OP_OUT,
    OP_CONV_IN, OP_CONV, OP_DELTA, OP_CONV_OUT,
    OP_ATTN_POST_NORM, OP_ATTN_ADD, OP_FFN_NORM, OP_ROUTER, OP_GATE, OP_UP, OP_SILU, OP_DOWN,
    OP_COMBINE, OP_FFN_POST_NORM, OP_FFN_ADD, OP_COUNT
} FlopOp;

/* The type of a matrix in a quantized model (docs/quantize.md): the one that the user asked for; at
 * least q8; floats. */
typedef enum Quantized { AS_ASKED, AT_LEAST_Q8, AS_FLOATS } Quantized;

/* How ranks divide the rows of a matrix, or the values computed from them (rank_rows.c). RANK_ALL:
 * not at all. RANK_ITEMS: a stack, by its matrices, of which each head has one. The last two: by
 * the heads of the delta rule, and the q, k and v that these read. */
typedef enum RankCut {
    RANK_ALL, RANK_PANELS, RANK_HEADS, RANK_KV_HEADS, RANK_ITEMS, RANK_DELTA, RANK_DELTA_QKV
} RankCut;

/* What a role's tensors have in common in every model and layer. */
typedef struct TensorRow {
    const char *name, *bias_name; /* "wq", "wq_bias" */
    bool        in_layer;
    TensorKind  kind;
    size_t      at;               /* offset in Layer, or in Model               */
    const char *gguf, *hf;        /* names in other programs' files: tensor_rows.h */
    Input       reads;            /* of a matrix: the vector that it multiplies */
    /* The operation that multiplies it, or norms; OP_COUNT: flops.c has a formula. */
    FlopOp      op;
    BlockPart   part;
    Quantized   quantized;
    RankCut     cut;              /* RANK_ALL: rank_cut decides */
    const char *lora;             /* what adapters call it; NULL: none can change it */
    const char *block[2];         /* the names of its weight and bias in cases of `tblock block` */
} TensorRow;
const TensorRow *tensor_row(TensorRole role);
static inline bool tensor_row_mat(const TensorRow *r)
{
    return r->kind == KIND_MAT || r->kind == KIND_STACK || r->kind == KIND_HEADS;
}

typedef struct TensorSpec {
    char        name[64];    /* "layers.3.wq"                    */
    const char *part;        /* "wq": the name without its layer */
    TensorRole  role;
    bool        bias;        /* the bias of the role's matrix or norm    */
    int         layer;       /* -1: outside the layers; n_layers: of mtp_layers */
    int         rows, k;     /* a matrix [rows, k]; k 0: a vector [rows] */
    /* Matrices one after the other, each with its own panels; else 1. */
    int         stack;
    /* Stored as panels in every type; false: row-major in float types. */
    bool        panels;
    const char *rows_key, *k_key; /* the config key that a dimension comes from, for messages */
    int         rows_unit, k_unit; /* dimension = that key's value * unit (unit head_dim for
                                    * heads) */
    int         at_;         /* private to tensor_list_next */
} TensorSpec;

/* Iterate: TensorSpec s = tensor_list_start(); while (tensor_list_next(c, &s)) ... c passed
 * config_check. */
TensorSpec tensor_list_start(void);
bool       tensor_list_next(const Config *c, TensorSpec *s);

/* The number of tensors. */
int tensor_list_count(const Config *c);

/* Is the tensor a table of which single rows are read (embedding, positions, after pooling)? */
static inline bool tensor_spec_gathered(const TensorSpec *s)
{
    return s->role == ROLE_EMBED || s->role == ROLE_POS_EMBED || s->role == ROLE_DENSE1
        || s->role == ROLE_DENSE2;
}

/* Panels of a matrix or of a whole stack; and their rows, including those that fill the last panel
 * of each matrix of a stack. */
static inline int tensor_spec_panel_count(const TensorSpec *s)
{
    return s->stack * panel_count(s->rows);
}
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

/* Why the config has no tensor of this name, such as " (n_layers 2 in the config)"; "": unknown.
 * Returns buf. */
const char *tensor_list_why_absent(const Config *c, const char *name, char *buf, size_t n);

/* ---- row_source.c ---------------------------------------------------------------------------- */

/* Finds the rows of one of our tensors in another program's file, where they may be fused with
 * others, permuted, transposed, split over shards, or in blocks. A description is filled in once;
 * then any thread can read rows. */

/* A tensor of a file and the mapping that it is in, so that pages can be released after reading. */
typedef struct SourcePart { const Tensor *t; const FileMap *map; } SourcePart;

/* Reads n elements of part number `part` from number `first` on as elements of the source's type.
 * For storage that no dtype describes (codes with their scales elsewhere). */
typedef void (*ReadElements)(const void *from, int part, size_t first, size_t n, void *out);

/* Row r of matrix e of a stack is found in four steps. A step changes nothing if its fields are 0.
 *  1. last:    r = h * head_dim + i. The first `last` rows of a head are the file's last.
 *     pairs:   In the first `pair` dimensions of a head, our rotary pairs are
 *              (i, i + pair/2) and the file's are neighbours (2i, 2i + 1).
 *  2. unit:    row base + r / unit * stride + r % unit of the file's matrix (unit 0: base + r).
 *              This serves fused matrices. groups: ours are group_k rows of q of each group,
 *              as many of k, then group_v of v; the file has the three group by group, `stride`
 *              rows each.
 *  3. stack:   that row of tensor number e; or, if item_rows is set, row + e * item_rows of the
 *              only tensor.
 *  4. shards:  a matrix is split over `shards` tensors, by rows or (by_columns) by columns, each
 *              with an equal share. */
typedef struct RowSource {
    const char  *name;           /* name of the first tensor in the file, for messages */
    /* [n_parts]: the shards of the first matrix, then of the second ...; then what `read` needs
     * besides */
    SourcePart  *part;
    int          n_parts;
    /* The type of the rows that are returned: a float type, or blocks that panel_from_blocks
     * knows. */
    WeightType   type;
    int          stack, rows, k; /* of our tensor; a vector is a matrix with k 1 */
    int          head_dim, pair, last;
    int          base, unit, stride, item_rows;
    int          groups, group_k, group_v;
    /* of a stack that is transposed: rows of the file for each matrix, of which it has the first k;
     * 0: k */
    int          item_k;
    int          shards;
    /* transposed: stored as [k, rows of the file's matrix], a stack [stack, k, rows]. */
    bool         by_columns, transposed;
    bool         plus_one;       /* f32 only: add 1 to each value, rounded */
    ReadElements read;           /* NULL: the part's dtype says how to read */
    const void  *read_from;
} RowSource;

/* Steps 1 and 2: the row of the file's matrix that is our row r. */
size_t row_source_file_row(const RowSource *s, int r);

/* Bytes of one row that row_source_read returns. */
size_t row_source_row_bytes(const RowSource *s);

/* Read rows first .. first + n - 1 of matrix `item` of the stack, one after the other. */
void row_source_read(const RowSource *s, int item, int first, int n, void *out);

/* The same as floats; blocks are decoded as their definition says (quant/ggml_blocks.c). scratch:
 * room for the rows in their own type. */
void row_source_read_f32(const RowSource *s, int item, int first, int n, float *out, void *scratch);

/* A pointer to the rows in the file, if they are there one after the other in the right form and
 * aligned to an element; else NULL. */
const void *row_source_in_place(const RowSource *s, int item, int first);

/* The type in which rows of a tensor are returned: its own float type; its block type, or the twin
 * of that (ggml_blocks.c), if kernels exist for it (quant.h); f32 for other blocks. False: integers
 * and doubles, which are not weights. */
bool row_source_type(DType t, WeightType *type);

/* Release the pages of all parts to the system. */
void row_source_release(const RowSource *s);

/* ---- tensor_check.c -------------------------------------------------------------------------- */

/* Checks that a file's tensor is the one that the config asks for, and makes
 * every message about a wrong tensor. */

/* A tensor that passed the check, with all parts of a quantized matrix in panels. */
typedef struct CheckedTensor {
    const Tensor    *part[MAX_PARTS];
    const FileMap   *map;    /* the mapping that the parts are in */
    /* NULL: part[0] is row-major, as wanted, or panels. Otherwise rows says where the data is, and
     * part and map are not set. */
    const RowSource *rows;
    WeightType       type;
    bool             panels; /* false: row-major, or a vector */
} CheckedTensor;

/* Find the tensor of a spec, with its parts. Its type is the metadata entry type.NAME (q8, q4, q8_0
 * ...), or else its dtype (F32, F16, BF16). Its shape (panels, or row-major for float types) must
 * be as in docs/format.md. Errors: INPUT. */
bool tensor_check(const TensorSpec *s, const TensorFile *f, CheckedTensor *out, Error *err);

/* Check that every tensor of f belongs to the config, to the tokenizer (tok.*) or to the padding
 * (pad.*), and every metadata entry type.NAME to a matrix of the config. Errors: INPUT. */
bool tensor_check_unknown(const Config *c, const TensorFile *f, Error *err);

/* Bytes of all parts, as stored; for a RowSource, of the rows that it returns. */
size_t checked_bytes(const CheckedTensor *c);
void   checked_release(const CheckedTensor *c); /* release the pages of all parts */

/* Rows first .. first + n - 1 of matrix `item` of a stack that is not in panels, one after the
 * other in the tensor's own type. They are returned in place or read into scratch, which has room
 * for n rows. */
size_t      checked_row_bytes(const TensorSpec *s, const CheckedTensor *c);
const void *checked_rows(const TensorSpec *s, const CheckedTensor *c, int item, int first, int n,
                         void *scratch);

/* Read a vector of a float type as f32 [s->rows]. */
void   checked_vector(const TensorSpec *s, const CheckedTensor *c, float *out);

Panels checked_panels(const CheckedTensor *c);  /* pointers to the parts' data */
DType  element_dtype(ElementType t);

/* ---- stored_model.c -------------------------------------------------------------------------- */

/* The weights of one model in any kind of files: its config, and where each
 * of its tensors is. stored_model_from_file fills it for a model file, the room source/ for other
 * programs' files. */

typedef struct StoredModel {
    const char    *path;         /* for messages; the owner of the files keeps it */
    Config         config;       /* passed config_check and config_supported */
    CheckedTensor *tensor;       /* [n], in the order of tensor_list.h */
    int            n;
    /* No bf16 matrix has a magnitude under 2^-50 except 0 (docs/numerics.md, "--math bf16"). */
    bool           bf16_min;
} StoredModel;

/* Find the tensors of a model file f. cfg is its parsed config. An unknown tensor of f is an error,
 * so that none is ignored, except names that start with "tok." or "pad.". f must outlive c. Errors:
 * INPUT, SYSTEM. */
bool stored_model_from_file(StoredModel *c, const Config *cfg, const TensorFile *f, Error *err);

/* Frequencies are divided by rope_factors: INPUT unless all are finite and above 0. Whoever fills a
 * StoredModel calls this last. */
bool stored_model_factors(const StoredModel *c, Error *err);

/* Bytes of all tensors, as stored. */
size_t stored_model_bytes(const StoredModel *c);

void stored_model_free(StoredModel *c);  /* a zeroed StoredModel is fine */

/* ---- data_check.c ---------------------------------------------------------------------------- */

/* Checks the data of a model file. Unlike opening, this reads every byte. */

/* CHECK_NONE: there was nothing to check. */
typedef enum CheckAnswer { CHECK_OK, CHECK_BAD, CHECK_NONE } CheckAnswer;

typedef struct CheckPart {
    CheckAnswer answer;
    char        found[256]; /* BAD: the first fault, with its tensor and index; else "" */
    int         n_bad;      /* tensors that have a fault                                */
} CheckPart;

typedef struct DataCheck {
    /* The sha256 of the data section is the one in the metadata. NONE: the metadata has none. */
    CheckPart hash;
    /* Padding is zero: the rows that fill panels, the odd halves of bf16 pairs, and the pad.N
     * tensors. In quantized panels, padding decodes to 0. */
    CheckPart padding;
    /* No weight and no scale is infinite or NaN, and no matrix in other programs' files, which
     * record no sha256, holds only zeros. NONE: a file without weights. */
    CheckPart finite;
    bool      ok;           /* no part is BAD */
} DataCheck;

/* Check a model file f. c is NULL for a file without weights. If c's weights are in another
 * program's files, f holds none of them; then only the values are checked, as they are after
 * conversion. progress may be NULL. Errors: SYSTEM, no memory. */
bool data_check(DataCheck *out, const StoredModel *c, const TensorFile *f, const Progress *progress,
                Error *err);

/* True if nothing is BAD. Otherwise err gets this status and names the first fault. */
bool data_check_answer(const DataCheck *d, const char *path, int status, Error *err);

/* Check only `finite`, and stop at the first bad tensor. Errors: SYSTEM, no memory. */
bool data_check_finite(CheckPart *out, const StoredModel *c, Error *err);

#endif
