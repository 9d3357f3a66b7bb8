/* train/params.h: all parameters of a model as one array of floats, row-major, in the order of
 * model/tensor_list.h. Gradients and the optimizer's moments are arrays of the same layout. */
#ifndef TRAIN_PARAMS_H
#define TRAIN_PARAMS_H

#include "model/stored_model.h"
#include "train/block.h"

typedef struct Params {
    Config      config;
    TensorSpec *spec;           /* [n] */
    size_t     *at;             /* [n]: offset of each tensor, a multiple of 16; gaps are 0 */
    int         n;
    size_t      n_floats;       /* of the array                      */
    int        *row;            /* private: tensor number of (layer, role, bias) */
} Params;

/* Does training implement every part of the config? If not, fails with INPUT and names the key.
 * what: the source, for messages. */
bool train_supported(const Config *c, const char *what, Error *err);

/* Computes the layout. c must have passed config_check and train_supported. Fails with SYSTEM. */
bool params_layout(Params *p, const Config *c, Error *err);
void params_free(Params *p);    /* accepts a zeroed one */

/* A zeroed array of the layout, 64-byte aligned. Release it with free(). NULL on failure
 * (SYSTEM). */
float *params_array(const Params *p, Error *err);

/* Loads the values of a checkpoint; quantized ones are decoded. Fails with INPUT if a value is
 * not finite, naming tensor, row and column. */
bool params_load(const Params *p, float *w, const StoredModel *c, Error *err);

/* Loads one tensor into w, its part of the array. path: its file, for messages. Fails like
 * params_load. */
bool params_load_tensor(const TensorSpec *s, const CheckedTensor *t, const char *path, float *w, Error *err);

/* Random first values (Radford et al. 2019). Matrices are normal with deviation 0.02; those that
 * add to the residual stream (wo, w_down) have 0.02 / sqrt(2 n_layers), so that its size does
 * not grow with depth. Norms are 1, biases 0. A value depends only on the seed, its tensor's
 * number and its place. */
void params_init(const Params *p, float *w, uint64_t seed);

/* Values for checking gradients, wide enough that every term matters: matrices with deviation 1
 * / sqrt(k), norms around 1 and biases around 0 with deviation 0.2. */
void params_scatter(const Params *p, float *w, uint64_t seed);

/* Finds the tensor of a role: its number in spec (-1: none), or its start in an array (NULL:
 * none). layer -1: a tensor outside the layers. */
int    params_index(const Params *p, int layer, TensorRole role, bool bias);
float *params_find(const Params *p, float *array, int layer, TensorRole role, bool bias);
/* The number of elements of tensor number `tensor`. */
size_t params_length(const Params *p, int tensor);

/* The tensors of a layer as views into array, and the shape of the layer's block. */
BlockWeights params_block(const Params *p, float *array, int layer);
BlockShape   params_shape(const Config *c, int layer);

#endif
