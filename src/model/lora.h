/* model/lora.h: adapters. For some matrices W of a model, an adapter has two small ones:
 * y = W x + scale * B (A x) (LoRA, Hu et al. 2021). Lives here: their memory, in panels.
 * source/adapter.h reads them, runtime/lora_pass.c applies them. */
#ifndef MODEL_LORA_H
#define MODEL_LORA_H

#include "model/model.h"

/* The part of an adapter for one matrix of a model. */
typedef struct LoraMat {
    Mat    up;               /* B [rows of W, rank]; rows 0: the adapter does not change W */
    double scale;
    int    at;               /* the first of its `rank` columns in the products with A, a multiple
                              * of 16 */
} LoraMat;

/* An adapter; start with a zeroed one. */
typedef struct Lora {
    int        n_layers;
    WeightType type;         /* of all its matrices: a float type */
    LoraMat   *mat;          /* by lora_number */
    Mat       *down;         /* by lora_input: every A that reads this vector, one after another,
                              * each in panels of its own */
    char      *data;         /* of all matrices */
    size_t     n_bytes;
    char       sha256[65];   /* of everything that changes bits */
    char      *path;         /* of its folder or file, as it was given; NULL: in no file */
} Lora;

/* The number of a matrix, and of the vector that it reads. Layer -1: outside the layers. */
static inline int lora_number(int layer, TensorRole role)
{
    return (layer + 1) * ROLE_COUNT + (int)role;
}
static inline int lora_input(int number)
{
    return number / ROLE_COUNT * INPUT_COUNT
        + (int)tensor_row((TensorRole)(number % ROLE_COUNT))->reads;
}

/* Can an adapter change the matrix of this role? Not those of experts. */
static inline bool lora_role(TensorRole role) { return tensor_row(role)->lora != NULL; }

/* A part of an adapter: for the matrix of a spec, A [rank, spec.k] and B [spec.rows, rank]. */
typedef struct LoraPart {
    TensorSpec spec;
    int        rank;
    double     scale;
    RowSource  a, b;
} LoraPart;

/* Packs n parts in the order of tensor_list.h. path is for messages. Errors: INPUT (a number that
 * is not finite), SYSTEM. Free with lora_free. */
bool lora_make(Lora *out, const Config *c, const LoraPart *part, size_t n, const char *path,
               Error *err);
void lora_free(Lora *l);     /* accepts a zeroed one */

/* Adapters that are used together, in the order in which they are applied. */
enum { LORA_MOST = 16 };
typedef struct LoraUse { const Lora *lora; double scale; } LoraUse;
typedef struct LoraSet { int n; LoraUse use[LORA_MOST]; } LoraSet;

/* ---- lora_merge.c: adapters become part of the weights (docs/numerics.md, "Adapters") -------- */

typedef struct LoraMerge LoraMerge;

/* set is copied; its adapters must outlive the result. NULL: out of memory (err). */
LoraMerge *lora_merge_new(const LoraSet *set, Error *err);
void       lora_merge_free(LoraMerge *m); /* accepts NULL */

/* Does any of them change the matrix of this spec? */
bool lora_merge_has(const LoraMerge *m, const TensorSpec *s);

/* Change rows first .. first + n - 1 of that matrix, W, to W + s B A. For a 16-bit `type`, the
 * floats are such that rounding them to it rounds the sums once. Any thread may call. */
void lora_merge_rows(const LoraMerge *m, const TensorSpec *s, WeightType type, float *rows,
                     int first, int n);

#endif
