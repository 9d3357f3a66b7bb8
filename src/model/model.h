/* model/model.h: a model in memory. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "base/file.h"
#include "base/progress.h"
#include "base/threads.h"
#include "model/tensor_list.h"
#include "quant/quant.h"
#include "ranks/ranks.h"

/* ---- model ----------------------------------------------------------------------------------- */

/* A stored model bound to layers. Every tensor is found, checked and ready for the
 * kernels. */

/* The panels of a matrix that a rank multiplies: runs, ascending and apart; of a stack, in each of
 * some matrices. */
enum { OWN_RUNS = 3 };
typedef struct Own { Range items, run[OWN_RUNS]; } Own;

/* Panels of each matrix; values of a row of `width` in them; the index among them of panel p of the
 * matrix. */
int own_panels(const Own *own);
int own_columns(const Own *own, int width);
int own_place(const Own *own, int p);

/* A matrix that is packed later (weights_pack.c). */
typedef struct LateMatrix LateMatrix;

/* A matrix [rows, k] in panels of 16 rows, for y = W x + bias; or a stack of such matrices. rows 0:
 * the model does not have it. */
typedef struct Mat {
    WeightType   type;
    int          rows, k;
    int          stack;      /* matrices one after the other, each with its own panels */
    Panels       w;          /* panels of all of them; parts are 64-byte aligned */
    Own          held;       /* the panels that w has; no items: all of them */
    const LateMatrix *late;  /* NULL: w is there; else late_matrix_packed says whether it is */
    int          late_first; /* w's first panel in it */
    /* 16 * panel_count(rows) values, 0 past rows; of a stack, `rows` for each matrix, and 16 more
     * that can be read; or NULL */
    const float *bias;
    /* How a context multiplies it; set in the context's own copy (runtime/numerics.h, Plan): */
    const char  *op;         /* name of its product in a profile: "qkv"             */
    Integers     ints;       /* in the product; INT_NONE: floats                    */
    Integers     out_ints;   /* w_up: the form that the next matrix reads           */
    bool         bf16;       /* use the rules of --math bf16                        */
    int          number;     /* for adapters (lora.h); below 0: none can change it  */
    RankCut      cut;        /* how ranks divide its rows                           */
    Own          own;        /* what this rank multiplies; alone: all               */
} Mat;

/* Matrix i of a stack. */
static inline Mat mat_item(const Mat *m, int i)
{
    Mat item        = *m;
    int each        = m->held.items.end ? own_panels(&m->held) : panel_count(m->rows);
    item.stack      = 1;
    item.w          = panels_from(m->type, m->w, (i - m->held.items.first) * each, m->k);
    item.late_first = i * panel_count(m->rows);
    item.bias       = m->bias ? m->bias + (size_t)i * (size_t)m->rows : NULL;
    return item;
}

/* A table [rows, k] of which single rows are read. It is in panels if it is tied to the head or
 * quantized, else row-major. rows 0: the model does not have it. */
typedef struct Embedding {
    WeightType  type;
    bool        panels;
    int         rows, k;
    Panels      w;           /* row-major: the tensor is part 0 */
    const LateMatrix *late;  /* as in Mat */
    Range       own;         /* if late: the panels that w will have; it reads other rows */
    const float *bias;       /* [rows], of a matrix after pooling; NULL: none */
} Embedding;

/* The weight and bias of a norm; w NULL: the model has no such norm; b NULL: no bias. */
typedef struct NormVectors { const float *w, *b; } NormVectors;

/* The field of a row of tensor_rows.h, by its kind. */
#define TENSOR_MAT       Mat
#define TENSOR_STACK     Mat
#define TENSOR_HEADS     Mat
#define TENSOR_NORM      NormVectors
#define TENSOR_VECTOR    const float *
#define TENSOR_EMBEDDING Embedding
#define TENSOR_FIELD(role, field, kind, ...) TENSOR_##kind field;

/* What a model does not have is NULL, or a matrix with rows 0. The widths are those of
 * tensor_rows.h. */
typedef struct Layer { TENSORS_OF_LAYER(TENSOR_FIELD) } Layer;

typedef struct Owned { void *data; size_t n_bytes; } Owned;

typedef struct Model {
    Config       cfg;
    Ranks       *ranks;          /* that share it; NULL: it runs alone */
    TENSORS_BEFORE(TENSOR_FIELD)
    TENSORS_AFTER(TENSOR_FIELD)  /* lm_head tied: the embedding's panels */
    Layer       *layer;          /* [n_layers + mtp_layers] */
    bool         is_mtp;         /* it is the MTP layer of another model (model_mtp) */
    size_t       weight_bytes;      /* of all weights, as stored */
    size_t       matrix_bytes[WT_COUNT]; /* of all matrices, by type */
    /* Bytes that one decode step reads: all matrices (of the experts, those that one token uses),
     * the head, the norms, and one row of the embedding. */
    size_t       bytes_per_token;
    uint64_t     n_params;
    /* What was made at load: matrices are in one region of huge pages, of which the first `used`
     * bytes are taken; padded biases and widened norms are anywhere. */
    struct { char *data; size_t n_bytes, used; } region;
    Owned       *owned;
    int          n_owned;
    size_t       cap_owned;
    size_t       owned_bytes;    /* of both, except what is packed later */
    double       available;      /* memory_available once that was made; 0: not known */
    struct LateWeights *late;    /* matrices of the region that are packed later; NULL: none */
    struct WeightPages *pages;   /* matrices in a mapped file; NULL: none, or they stay there */
} Model;

/* Bind the tensors of a stored model to the layers of its config. Panels are used in place; rows
 * are packed into panels (model.region) by all threads, those of GGUF types later; of a model that
 * ranks share (or NULL), only the panels that this rank multiplies. The files, and
 * the RowSources of c's tensors, must outlive the model; c need not. types: the type of each tensor
 * (type_plan.c), or NULL to keep the stored types. A matrix of another type is made here, with the
 * same bits that `quantize` writes, and the file's pages that it was made from leave this process's
 * memory. progress counts the bytes of bound tensors and may be NULL. Errors: INPUT (a weight that
 * is not finite or too large for its type), SYSTEM. */
bool model_bind(Model *m, const StoredModel *c, const WeightType *types, Ranks *ranks,
                const Progress *progress, Error *err);

/* The same for the tensors of a model file (stored_model_from_file), with the stored types. */
bool model_bind_file(Model *m, const Config *cfg, const TensorFile *f, Error *err);
void model_free(Model *m);       /* a zeroed Model is fine */

/* The MTP layer of m (config.h, mtp_layers) as a model of one layer, with m's embedding and head.
 * It owns nothing and lives as long as m. */
Model model_mtp(const Model *m);

/* Write row `token` of the embedding as d_model floats: exact, or rounded once if it is
 * quantized. scratch: late_weights_room bytes, for one that is late. */
void embedding_row(const Embedding *e, int token, float *out, void *scratch);

/* ---- rank_rows.c ----------------------------------------------------------------------------- */

/* How ranks divide a role's matrix. */
RankCut rank_cut(const Config *c, TensorRole role);

/* The heads that a rank computes, and the KV heads that they read: at least one. Ranks share a KV
 * head if there are more ranks than KV heads. And the rank's heads of the delta rule. */
Range rank_heads(const Config *c, int rank, int size);
Range rank_kv_heads(const Config *c, int rank, int size);
Range rank_delta_heads(const Config *c, int rank, int size);

/* Of a vector of `width` with this cut: the columns that a rank sends to the others, none of which
 * another rank sends. And of a matrix with so many rows, or a stack of them: the panels that it
 * multiplies, which hold those columns. RANK_DELTA_QKV is never sent. */
Range rank_columns(const Config *c, RankCut cut, int width, int rank, int size);
Own   rank_panels(const Config *c, RankCut cut, int rows, int stack, int rank, int size);
/* The panels of this model's rank; all of them if it runs alone. */
Own   model_panels(const Model *m, TensorRole role, int rows, int stack);

/* A rank's part of a recurrent layer's state: the rows of the convolution in its columns, then its
 * heads' matrices. Copies it from or to the whole state. The length is 0 only without states. */
size_t rank_state_floats(const Config *c, int rank, int size);
void   rank_state_copy(const Config *c, int rank, int size, float *part, float *whole, bool out);

/* ---- weight_pages.c -------------------------------------------------------------------------- */

/* The page cache holds a file in pages of any size, and a stream through small ones waits for a
 * page walk at each. So a program that reads the weights often enough moves them into huge pages:
 * of the page cache if the kernel can do that (MADV_COLLAPSE), else in memory of its own, and the
 * process drops the file's pages. The weights keep their addresses and bytes: any thread may read
 * them meanwhile, and several may move them at once. */
typedef struct WeightPages WeightPages;

/* Finds the matrices of m that are in map, which must outlive m. m->pages stays NULL if there are
 * none, or no memory. It reads files of /proc and /sys: call it before a sandbox. */
void   weight_pages_find(Model *m, const FileMap *map);
void   weight_pages_free(WeightPages *p); /* accepts NULL; what was moved stays */

/* Moves up to `most` more windows of 2 MB. It ends early, for good, if the kernel has no huge
 * page. */
void   weight_pages_move(WeightPages *p, size_t most);
bool   weight_pages_begun(const WeightPages *p);
bool   weight_pages_done(const WeightPages *p);
bool   weight_pages_roomy(const WeightPages *p);  /* would a copy of all leave enough memory? */
size_t weight_pages_bytes(const WeightPages *p);  /* of all that may be moved */
size_t weight_pages_copied(const WeightPages *p); /* so far: private memory of this process */

/* ---- weights_pack.c -------------------------------------------------------------------------- */

/* The matrices of a GGUF file are used in place at first: a pass packs the panels that it is about
 * to multiply, and drops them. From the second pass on they are packed for good. Any thread may
 * read the weights meanwhile, and gets the same bits. The same holds for a model file that ranks
 * share: a rank's panels are copied into huge pages of its own. And if a rank has some rows of a
 * table in memory, it reads the others from the file, with the bits that one process would have
 * made. */
typedef struct LateWeights LateWeights;

/* Is it time to pack them, by the caller's team? True once for each model, at the second call, or
 * the first with now. */
bool   late_weights_due(LateWeights *w, bool now);              /* w may be NULL: false */
/* Are they panels of a model file, which could also stay there? Would the copies of n ranks on this
 * machine leave enough memory? That is measured when a model is bound. */
bool   late_weights_optional(const LateWeights *w);             /* NULL: false */
bool   late_weights_roomy(const LateWeights *w);
void   late_weights_measure(LateWeights *w, int n, double available); /* NULL: does nothing */
/* The bytes of panels that are never packed, because they do not fit into the memory available
 * then: every pass packs what it multiplies. 0: all are packed in time. */
size_t late_weights_left(const LateWeights *w);                 /* NULL: 0 */
size_t late_weights_to_come(const LateWeights *w); /* bytes that will be packed; NULL: 0 */
/* Every member of the team calls it, with late_weights_room bytes of its own, 64-byte aligned. The
 * process drops the file's pages. */
void   late_weights_pack(LateWeights *w, Team team, void *scratch);
size_t late_weights_room(const LateWeights *w);                 /* NULL: 0, as below */
size_t late_weights_packed(const LateWeights *w);               /* bytes so far */
void   late_weights_free(LateWeights *w);

bool   late_matrix_packed(const LateMatrix *m);
/* Before that, panels from `first` on: it lowers *n to as many as fit in a cache, in
 * late_weights_room bytes. Row `row` as floats: of tables whose rows are looked up. */
Panels late_matrix_panels(const LateMatrix *m, int first, int *n, void *scratch);
/* Panels from `first` on of a matrix (not a stack), wherever they are: *n of them or fewer. */
Panels mat_panels(const Mat *w, int first, int *n, void *scratch);
void   late_matrix_row(const LateMatrix *m, int row, float *out, void *scratch);

/* ---- weights_make.c -------------------------------------------------------------------------- */

/* Makes weights that a file does not hold as the kernels want them. Row-major
 * matrices are packed into panels, others get another type. The model owns the memory. Only
 * weights.c uses this, and weights_pack.c. */

typedef struct Maker {
    Model            *m;      /* owns what is made */
    const char       *path;   /* the stored model's, for messages */
    /* Set if a function below fails: SYSTEM, or INPUT for a faulty weight. */
    Error            *err;
    ThreadPool       *pool;   /* made for the first large matrix; the caller frees it */
    int               threads;
    bool              floats_late; /* float rows too may be packed later: memory is scarce */
} Maker;

/* n_bytes, 64-byte aligned, that live as long as the model. NULL: SYSTEM. */
void *weights_own(Maker *mk, size_t n_bytes);

/* The bytes that a matrix of this type takes in the model's region; makes a region of n_bytes (0:
 * none). weights_parts takes all parts of a matrix from it. own: the panels that are made, which
 * are those that this rank multiplies (model_panels). */
size_t weights_made_bytes(const TensorSpec *s, WeightType type, const Own *own);
bool   weights_region(Maker *mk, size_t n_bytes);
void   weights_parts(Maker *mk, const TensorSpec *s, WeightType type, const Own *own,
                     char *to[MAX_PARTS], Panels *out);

/* How many these are; panel number i of them, counted through the stack. */
int    weights_count(const Own *own);
int    weights_panel(const TensorSpec *s, const Own *own, int i);

/* How many threads make a matrix of n_bytes; makes the pool if it is large. */
int weights_team(Maker *mk, size_t n_bytes);

/* Lay out a row-major matrix in its own type: as panels, or as rows one after the other if the spec
 * does not want panels. Packs some types later: then *late is set, and out is where it will be. */
bool weights_pack(Maker *mk, const TensorSpec *s, const CheckedTensor *c, Panels *out);
bool weights_may_be_late(const Maker *mk, const TensorSpec *s,
                         const CheckedTensor *c); /* may that be later? */
bool weights_pack_later(Maker *mk, const TensorSpec *s, const CheckedTensor *c, Panels *out,
                        const LateMatrix **late);

/* A table of which this rank's rows were made in this type: the others are read from c, the stored
 * one. retyped: it has another type there, or needs a check that changes bits. */
bool weights_table(Maker *mk, const TensorSpec *s, const CheckedTensor *c, WeightType type,
                   bool retyped, const LateMatrix **late);

/* Make a matrix of another type, with the bits that `quantize` writes. c then describes the new
 * matrix, and the file's pages that it was read from are given back. */
bool weights_retype(Maker *mk, const TensorSpec *s, CheckedTensor *c, WeightType type, Panels *out);

#endif
