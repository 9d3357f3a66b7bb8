/* train/ffn_grad.c: activations forward and backward: SwiGLU and GEGLU (Shazeer 2020), GELU
 * (Hendrycks and Gimpel 2016), ReLU and its square (So et al. 2021). It cuts the work into pieces;
 * the kernels hold the formulas. */
#include "train/train_ops.h"

enum { ACT_PIECE = 16384 }; /* elements */

typedef struct FfnActivation {
    const Kernels *k;
    float         *h, *gate, *up;
    const float   *d_h;
    FfnKind        kind;
} FfnActivation;

static void forward_piece(void *arg, size_t at, int n)
{
    const FfnActivation *a = arg;
    float            *h = a->h + at, *up = a->up + at, *gate = a->gate ? a->gate + at : NULL;
    switch (a->kind) {
    case FFN_SWIGLU:    a->k->swiglu(h, gate, up, n); break;
    case FFN_GEGLU:     a->k->geglu(h, gate, up, n); break;
    case FFN_GEGLU_ERF: a->k->geglu_erf(h, gate, up, n); break;
    case FFN_GELU:      a->k->gelu(h, up, n); break;
    case FFN_GELU_TANH: a->k->gelu_tanh(h, up, n); break;
    case FFN_RELU:      a->k->relu(h, up, n); break;
    case FFN_RELU2:     a->k->relu2(h, up, n); break;
    case FFN_XIELU:     break; /* train_supported rejects it */
    }
}

static void backward_piece(void *arg, size_t at, int n)
{
    const FfnActivation *a = arg;
    const float      *d_h = a->d_h + at;
    float            *h = a->h + at, *up = a->up + at, *gate = a->gate ? a->gate + at : NULL;
    switch (a->kind) {
    case FFN_SWIGLU:    a->k->swiglu_backward(h, gate, up, d_h, n); break;
    case FFN_GEGLU:     a->k->geglu_backward(h, gate, up, d_h, n); break;
    case FFN_GEGLU_ERF: a->k->geglu_erf_backward(h, gate, up, d_h, n); break;
    case FFN_GELU:      a->k->gelu_backward(h, up, d_h, n); break;
    case FFN_GELU_TANH: a->k->gelu_tanh_backward(h, up, d_h, n); break;
    case FFN_RELU:      a->k->relu_backward(h, up, d_h, n); break;
    case FFN_RELU2:     a->k->relu2_backward(h, up, d_h, n); break;
    case FFN_XIELU:     break;
    }
}

void activation_forward(const Crew *c, float *h, const float *gate, const float *up, FfnKind kind,
                        size_t n)
{
    FfnActivation a = { c->k, h, (float *)gate, (float *)up, NULL, kind };
    crew_cut(c, n, ACT_PIECE, forward_piece, &a);
}

void activation_backward(const Crew *c, float *h, float *gate, float *up, const float *d_h,
                         FfnKind kind, size_t n)
{
    FfnActivation a = { c->k, h, gate, up, d_h, kind };
    crew_cut(c, n, ACT_PIECE, backward_piece, &a);
}
