/* model/importance.h: how much an error in each column of a matrix matters: the mean square of the
 * values that multiply it, over the tokens of a text. A product's error is the sum over columns of
 * the weight's error times the value, so its expected square is about the sum of squared errors
 * times these (as llama.cpp's imatrix). The weights are their powers of 0.75, which was measured
 * (docs/quantize.md). Square roots, sums and quotients are the same on every machine. */
#ifndef MODEL_IMPORTANCE_H
#define MODEL_IMPORTANCE_H

#include "model/lora.h"

/* Start with a zeroed one. Known of matrices that adapters can change (lora_role): not of experts,
 * nor of an embedding that is also the head. */
typedef struct Importance {
    int       n;             /* vectors that matrices read, by lora_input */
    int      *k;             /* [n] values of each; 0: the model has none */
    double  **sum;           /* [n][k] of squares                         */
    float   **weight;        /* [n][k], after importance_finish           */
    bool     *known;         /* [n]: then; false: every sum is 0          */
    /* By lora_number, [stack * k], of importance_room: a file's, for single matrices, of experts
     * too. Where there are any, those above are not asked. NULL: none. */
    float   **matrix;
    int       n_matrices;
} Importance;

/* Room for a model's vectors. Fails with SYSTEM. Free with importance_free in any case. */
bool importance_new(Importance *m, const Config *c, Error *err);
void importance_free(Importance *m);

/* Adds columns first .. end - 1 of a token's vector. */
void importance_add(Importance *m, int input, const float *x, int first, int end);

/* The weights: each vector's means, divided by the mean of these, to the power of 0.75. Fails with
 * INPUT (a sum is not finite). */
bool importance_finish(Importance *m, Error *err);

/* Instead of these three: room for one matrix or stack (SYSTEM), then the weights of each of its
 * items, made of sums [s->k]; all 0: all columns are worth the same. */
bool importance_room(Importance *m, const TensorSpec *s, Error *err);
void importance_put(Importance *m, const TensorSpec *s, int item, const double *sum);

/* The weights of the columns of a matrix, of one item of a stack, [s->k]; NULL: unknown, or all
 * 0. */
const float *importance_of(const Importance *m, const TensorSpec *s, int item);

#endif
