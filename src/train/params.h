/* train/params.h: all parameters of a model as one array of floats, row-major, in the order of model/tensor_list.h: gradients and the
 * optimizer's moments are arrays of the same layout. */
#ifndef TRAIN_PARAMS_H
#define TRAIN_PARAMS_H

#include "model/checkpoint.h"
#include "train/block.h"

typedef struct Params {
    Config      config;
    TensorSpec *spec;           /* [n] */
    size_t     *at;             /* [n]: where each tensor begins; a multiple of 16. What lies between two stays 0 */
    int         n;
    size_t      n_floats;       /* of the array                      */
    int        *row;            /* private: tensor of (layer, role, bias) */
} Params;

/* Every part of the config is one that training implements? Else INPUT, naming the key. what: the source, for messages. */
bool train_supported(const Config *c, const char *what, Error *err);

/* The layout. c passed config_check and train_supported. */
bool params_layout(Params *p, const Config *c, Error *err);
void params_free(Params *p);    /* a zeroed one is accepted */

/* A zeroed array of the layout, 64-byte aligned, for free(). NULL: SYSTEM. */
float *params_array(const Params *p, Error *err);

/* Values of a checkpoint (quantized ones: what they stand for); one that is not finite is INPUT, naming tensor, row and column. */
bool params_load(const Params *p, float *w, const Checkpoint *c, Error *err);

/* Values of one tensor, into w [its parameters]; path: of its file, for messages. */
bool params_load_tensor(const TensorSpec *s, const CheckedTensor *t, const char *path, float *w, Error *err);

/* Random values: matrices normal with deviation 0.02, those that add to the residual stream (wo, w_down) 0.02 / sqrt(2 n_layers)
 * (Radford et al. 2019); norms 1, biases 0. A value is a function of the seed, its tensor's number and its place. */
void params_init(const Params *p, float *w, uint64_t seed);

/* Values for checking gradients, wide enough that every term matters: matrices of deviation 1 / sqrt(k), norms 1 and biases 0, both with
 * a deviation of 0.2. */
void params_scatter(const Params *p, float *w, uint64_t seed);

/* The tensor of this role: its number in spec, or where it begins in an array; -1 and NULL: the model has none. layer -1: outside
 * the layers. */
int    params_index(const Params *p, int layer, TensorRole role, bool bias);
float *params_find(const Params *p, float *array, int layer, TensorRole role, bool bias);
size_t params_length(const Params *p, int tensor);

/* A layer's tensors, and the shape of its block. */
BlockWeights params_block(const Params *p, float *array, int layer);
BlockShape   params_shape(const Config *c, int layer);

#endif
