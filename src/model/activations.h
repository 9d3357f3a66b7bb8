/* model/activations.h: the activations of the feed-forward network, a row each, in the order of
 * FfnKind. A new one is a row here, its kernel (kernels/), and its formula in doubles
 * (train/block_double.c). */
#ifndef MODEL_ACTIVATIONS_H
#define MODEL_ACTIVATIONS_H

#include <stdbool.h>

/* A(KIND, kernel, FORM, name, flops, hf)
 *   KIND, kernel  FFN_KIND, and the kernel, whose name is also the word in configs
 *   FORM    GATED: its value times up; PLAIN; NUMBERS: plain, with four numbers in each layer
 *   flops   of one hidden value, with its gate. A function such as exp, tanh or erf counts as one
 *   hf      its words in a config.json */
#define ACTIVATIONS(A)                                                                             \
    /* exp, 1 + it, the division, times up */                                                      \
    A(SWIGLU, swiglu, GATED, "SiLU", 4, "silu, swish")                                             \
    A(GEGLU, geglu, GATED, "GELU", 10, "gelu_new, gelu_pytorch_tanh, gelu_fast")                   \
    /* times a constant, erf, 1 + it, half of x, the product */                                    \
    A(GELU, gelu, PLAIN, "GELU", 5, "gelu")                                                        \
    A(RELU, relu, PLAIN, "ReLU", 1, "relu")                                                        \
    /* x * x, a multiply-add, times x, times a constant, tanh, 1 + it, half of x, the product */   \
    A(GELU_TANH, gelu_tanh, PLAIN, "GELU", 9, "gelu_new, gelu_pytorch_tanh, gelu_fast")            \
    A(GEGLU_ERF, geglu_erf, GATED, "GELU", 6, "gelu")                                              \
    A(RELU2, relu2, PLAIN, "ReLU^2", 2, "relu2")                                                   \
    /* expm1, minus x, times a number, two steps for the rest */                                   \
    A(XIELU, xielu, NUMBERS, "xIELU", 5, "xielu")

/* GEGLU and GELU_TANH take the tanh form of GELU, GELU and GEGLU_ERF the exact one. RELU2 is ReLU
 * squared. XIELU has four numbers in each layer. */
#define FFN_KIND(kind, ...) FFN_##kind,
typedef enum FfnKind { ACTIVATIONS(FFN_KIND) FFN_KINDS } FfnKind;

/* Those with a gate, as a bit mask. */
enum { FFN_BIT_GATED = 1, FFN_BIT_PLAIN = 0, FFN_BIT_NUMBERS = 0 };
#define FFN_GATED_BIT(kind, kernel, form, ...) | FFN_BIT_##form << FFN_##kind
enum { FFNS_GATED = 0 ACTIVATIONS(FFN_GATED_BIT) };
static inline bool ffn_gated(FfnKind kind) { return FFNS_GATED >> kind & 1; }

/* Its name, and that of the operation, with its gate; the others are above. */
typedef struct Activation { const char *name, *op; double flops; const char *hf; } Activation;
extern const Activation ffn_activations[]; /* by FfnKind */

#endif
