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

/* With a gate and without; train_supported rejects the ones with numbers of their own. */
#define FORWARD_GATED(kernel)    a->k->kernel(h, gate, up, n)
#define FORWARD_PLAIN(kernel)    a->k->kernel(h, up, n)
#define FORWARD_NUMBERS(kernel)
#define BACKWARD_GATED(kernel)   a->k->kernel##_backward(h, gate, up, d_h, n)
#define BACKWARD_PLAIN(kernel)   a->k->kernel##_backward(h, up, d_h, n)
#define BACKWARD_NUMBERS(kernel)
#define FORWARD(kind, kernel, form, ...)  case FFN_##kind: FORWARD_##form(kernel); break;
#define BACKWARD(kind, kernel, form, ...) case FFN_##kind: BACKWARD_##form(kernel); break;

static void forward_piece(void *arg, size_t at, int n)
{
    const FfnActivation *a = arg;
    float            *h = a->h + at, *up = a->up + at, *gate = a->gate ? a->gate + at : NULL;
    switch (a->kind) {
        ACTIVATIONS(FORWARD)
    case FFN_KINDS: break;
    }
}

static void backward_piece(void *arg, size_t at, int n)
{
    const FfnActivation *a = arg;
    const float      *d_h = a->d_h + at;
    float            *h = a->h + at, *up = a->up + at, *gate = a->gate ? a->gate + at : NULL;
    switch (a->kind) {
        ACTIVATIONS(BACKWARD)
    case FFN_KINDS: break;
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
