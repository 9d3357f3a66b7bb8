/* runtime/numerics.h: which arithmetic each matrix of a model gets (docs/numerics.md, section
 * "Modes"). */
#ifndef RUNTIME_NUMERICS_H
#define RUNTIME_NUMERICS_H

#include "kernels/kernels.h"
#include "model/model.h"
#include "model/tensor_list.h"

/* MATH_INT8: quantized weights are multiplied with integer activations. A matrix whose type a
 * mode does not name uses the arithmetic of its type. */
typedef enum Math { MATH_F32, MATH_INT8, MATH_BF16, MATH_COUNT } Math;

typedef struct Numerics {
    Math math;
    int  activations;            /* bits of integer activations: 8, 16; 0: by weight type */
} Numerics;

const char *math_name(Math m);   /* "f32", "int8", "bf16" */

/* Resolves the caller's setting ("auto" or NULL: the default) for a model. Fails with USAGE if
 * the model has no weights that it applies to. */
bool numerics_choose(Numerics *out, const Model *m, const char *math, const char *activations,
                     Error *err);

/* Is a matrix of a layer quantized? Then the KV cache defaults to f16. */
bool model_is_quantized(const Model *m);

/* Has such a vector 16 bits by default, since 8 cost the most there (docs/numerics.md has the
 * figures)? The head, which decides near ties; q, k and v; and all but wo of the first and the last
 * layer, where real models have their outliers. */
bool input_is_delicate(const Config *c, int layer, Input input);

/* The integers that the matrices reading a vector need, in a layer (INPUT_HEAD: in none): the last
 * kind that any of them needs. By default place and layer say whether 8 or 16 bits. */
Integers input_ints(Numerics n, const Model *m, int layer, Input input);

/* The arithmetic of every matrix in a context: a copy of the model's layers with it set in each
 * matrix (model.h: Mat). */
typedef struct Plan {
    Layer   *layer;              /* [n_layers] */
    Mat      lm_head;
    unsigned ints;               /* the vectors that need integers (numerics_ints) */
} Plan;

bool plan_make(Plan *p, const Model *m, Numerics n); /* false: no memory */
void plan_free(Plan *p);

/* "16", "8", or "auto" if both occur; "none" if no product uses integers. */
const char *activations_name(Numerics n, const Model *m);

/* The version of docs/numerics.md that first gave the bits of this arithmetic: "1", "2" with
 * INT8_BY_32, "3" with GGUF types that have it or 16 bits, and with both widths. */
const char *numerics_version(Numerics n, const Model *m);

/* Does every bf16 matrix meet the condition of --math bf16: no magnitude under 2^-50 except 0?
 * Reads them all. Fails with INPUT, naming the matrix. */
bool bf16_weights_check(const Model *m, const char *path, Error *err);

/* The vectors of a forward pass that may need integers, as a mask: for a model, and for one
 * matrix. INTS_BY_32: room for a scale of each 32. */
enum { INTS_XN = 1, INTS_ATT_OUT = 2, INTS_HIDDEN = 4, INTS_BY_32 = 8 };
unsigned numerics_ints(Numerics n, const Model *m);
unsigned ints_of_role(TensorRole role, bool tied);

#endif
