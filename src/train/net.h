/* train/net.h: the network that is trained: parameters, loss and gradients, the optimizer. */
#ifndef TRAIN_NET_H
#define TRAIN_NET_H

#include "model/tensor_list.h"
#include "train/block.h"

/* ---- params.c -------------------------------------------------------------------------------- */

/* All parameters of a model as one array of floats, row-major, in the order of
 * model/tensor_list.h. Gradients and the optimizer's moments are arrays of the same layout. */

typedef struct Params {
    Config      config;
    TensorSpec *spec;           /* [n] */
    size_t     *at;             /* [n]: offset of each tensor, a multiple of 16; gaps are 0 */
    int         n, first;       /* tensors; the first that is trained: 0, or that of an adapter */
    size_t      n_floats;       /* of the array                      */
    size_t      n_trained;      /* of gradients and moments: the tensors from `first` on, which
                                 * come first in the array */
    int         rank;           /* of the adapter; 0: none */
    float       lora_scale;
    int        *row;            /* private: tensor number of (layer, role, part) */
} Params;

/* An adapter to train: of the matrices of these roles, in every layer (docs/lora.md). */
typedef struct LoraPlan {
    int    rank;                /* 0: no adapter: everything is trained */
    double alpha;
    bool   role[ROLE_COUNT];    /* lora_role */
} LoraPlan;

/* Does training implement every part of the config? If not, fails with INPUT and names the key.
 * what: the source, for messages. */
bool train_supported(const Config *c, const char *what, Error *err);

/* Computes the layout. c must have passed config_check and train_supported. Fails with SYSTEM. */
bool params_layout(Params *p, const Config *c, Error *err);
/* The same with an adapter, which alone is trained: after the model's tensors come, for each of its
 * matrices W [rows, k], A [rank, k] and U = B^T [rank, rows]: W x + scale * U^T (A x). Fails with
 * INPUT if the model lacks one of the matrices. */
bool params_layout_lora(Params *p, const Config *c, const LoraPlan *lora, Error *err);
void params_free(Params *p);    /* accepts a zeroed one */

/* A zeroed array of the layout, 64-byte aligned. Release it with free(). NULL on failure
 * (SYSTEM). */
float *params_array(const Params *p, Error *err);
/* The same for gradients or moments: only of the trained tensors. */
float *params_trained_array(const Params *p, Error *err);

/* Loads the values of a checkpoint; quantized ones are decoded. Fails with INPUT if a value is
 * not finite, naming tensor, row and column. */
bool params_load(const Params *p, float *w, const StoredModel *c, Error *err);

/* Loads one tensor into w, its part of the array. path: its file, for messages. Fails like
 * params_load. */
bool params_load_tensor(const TensorSpec *s, const CheckedTensor *t, const char *path, float *w,
                        Error *err);

/* Random first values (Radford et al. 2019). Matrices are normal with deviation 0.02; those that
 * add to the residual stream (wo, w_down) have 0.02 / sqrt(2 n_layers), so that its size does
 * not grow with depth. Norms are 1, biases 0. A value depends only on the seed, its tensor's
 * number and its index. */
void params_init(const Params *p, float *w, uint64_t seed);

/* Values for checking gradients, wide enough that every term matters: matrices with deviation 1
 * / sqrt(k), norms around 1 and biases around 0 with deviation 0.2. */
void params_scatter(const Params *p, float *w, uint64_t seed);

/* First values of the adapter alone: A uniform within 1 / sqrt(k), U 0, so that it changes nothing
 * yet (Hu et al. 2021; the numbers of peft's init_lora_weights). */
void params_init_lora(const Params *p, float *w, uint64_t seed);

/* Finds the tensor of a role: its number in spec (-1: none), or its start in an array (NULL:
 * none). layer -1: a tensor outside the layers. */
int    params_index(const Params *p, int layer, TensorRole role, bool bias);
float *params_find(const Params *p, float *array, int layer, TensorRole role, bool bias);
/* The number of elements of tensor number `tensor`. */
size_t params_length(const Params *p, int tensor);

/* The same for an array of gradients: NULL too if the tensor is not trained. */
float *params_gradient(const Params *p, float *grads, int layer, TensorRole role, bool bias);
/* The adapter's part of a matrix: its number, -1: none. */
int    params_lora_index(const Params *p, int layer, TensorRole role, bool up);

/* The tensors of a layer as views into array, or (gradient) into one of gradients, where those that
 * are not trained are NULL; and the shape of the layer's block. */
BlockWeights params_block(const Params *p, float *array, int layer, bool gradient);
BlockShape   params_shape(const Params *p, int layer);

/* ---- optimizer.c ----------------------------------------------------------------------------- */

/* AdamW with decoupled weight decay (Loshchilov and Hutter 2019), clipping by
 * the global norm (Pascanu et al. 2013), and the learning rate of each step. */

typedef struct OptimizerOptions {
    double beta1, beta2, eps, decay;
    bool   decay_all;               /* false: only matrices decay, not norms and biases */
} OptimizerOptions;

typedef struct Optimizer {
    const Params    *p;
    Crew            *crew;
    OptimizerOptions opt;
    float           *m, *v;         /* first and second moments (params_array); the caller owns
                                     * them */
} Optimizer;

/* sqrt of the sum of squares of all gradients. Sums f32 within pieces of 16,384, double across
 * pieces. */
double grads_norm(const Params *p, const Crew *crew, const float *g);

/* Step number `step` (1, 2 ...): updates w with the gradients g * grad_scale. */
void optimizer_step(Optimizer *o, float *w, const float *g, int64_t step, double lr,
                    double grad_scale);

/* Linear warm-up over the first steps, then half a cosine from lr to min_lr at the last step
 * (Loshchilov and Hutter 2017). step counts from 0. With n_steps 0 the rate is constant after
 * warm-up. */
typedef struct Schedule { double lr, min_lr; int64_t warmup, n_steps; } Schedule;
double schedule_rate(const Schedule *s, int64_t step);

/* ---- net.c ----------------------------------------------------------------------------------- */

/* A whole model on whole sequences: loss and gradients. Model files and data are the caller's; the
 * optimizer is optimizer.c. */

typedef struct Net Net;

/* Allocates activations for up to n_seqs sequences of seq_len tokens at a time. p and crew must
 * outlive the net. Free with net_free. Returns NULL with SYSTEM (no memory). */
Net   *net_new(const Params *p, Crew *crew, int n_seqs, int seq_len, Error *err);
/* Call before allocating: do these activations, n_arrays arrays of parameters and n_trained ones of
 * gradients or moments fit into this machine's memory? Fails with SYSTEM if not. */
bool   net_fits(const Params *p, int n_arrays, int n_trained, int n_seqs, int seq_len,
                Error *err);
void   net_free(Net *n);            /* accepts NULL */
size_t net_bytes(const Net *n);     /* of activations and work space */

/* A batch, or a part of one. */
typedef struct NetBatch {
    const int32_t *token;           /* [n_seqs, seq_len], each 0 .. vocab_size - 1               */
    const int32_t *target;          /* [n_seqs, seq_len]; IGNORE_TARGET: does not count */
    int            n_seqs;
    uint64_t       first_seq;       /* number in the whole batch, for dropout */
    DropoutKey     drop;            /* p 0: none; net_loss sets site */
} NetBatch;

/* The sum of -log p(target) over the tokens that count. If grads is not NULL, adds the gradients
 * of that sum times weight. w: parameters. For the gradient of a batch's mean, pass each of its
 * parts with weight = 1 / (targets of the batch). */
double net_loss(Net *n, const float *w, float *grads, const NetBatch *b, float weight);

/* Logits [n_seqs * seq_len, vocab_size] of the forward pass. Tests compare them with inference. */
void net_logits(Net *n, const float *w, const int32_t *token, int n_seqs, float *logits);

#endif
