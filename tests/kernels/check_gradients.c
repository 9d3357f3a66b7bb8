/* Kernels of training: every instruction set gives the bits of the scalar one, at every length and
 * offset; the scalar one is near its formula in double. The combinations in
 * tests/unit/test_train_grad.c show that the formulas are derivatives. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

enum { LONGEST = 333, ROOM = LONGEST + 64, ARRAYS = 4 };

/* What a kernel works on: four arrays that it may all change, and two numbers. */
typedef struct Work { float a[ARRAYS][ROOM], number[2]; } Work;
typedef void (*Call)(const Kernels *k, float *p[ARRAYS], float number[2], int n);

#define GATED(name) \
    static void name(const Kernels *k, float *p[ARRAYS], float number[2], int n)                   \
    {                                                                                              \
        (void)number;                                                                              \
        k->name(p[0], p[1], p[2], p[3], n);                                                        \
    }
#define PLAIN(name) \
    static void name(const Kernels *k, float *p[ARRAYS], float number[2], int n)                   \
    {                                                                                              \
        (void)number;                                                                              \
        k->name(p[0], p[1], p[3], n);                                                              \
    }
GATED(swiglu_backward)
GATED(geglu_backward)
GATED(geglu_erf_backward)
PLAIN(gelu_backward)
PLAIN(gelu_tanh_backward)
PLAIN(relu_backward)
PLAIN(relu2_backward)
static void rms_norm_backward(const Kernels *k, float *p[ARRAYS], float number[2], int n)
{
    float d_x[ROOM] = { 0 };
    (void)number;
    k->rms_norm_backward(d_x, p[0], p[1], p[2], p[3], n, 1e-5f);
    memcpy(p[1], d_x, (size_t)n * sizeof(float));
}
static void layer_norm_backward(const Kernels *k, float *p[ARRAYS], float number[2], int n)
{
    float d_x[ROOM] = { 0 }, d_b[ROOM] = { 0 };
    (void)number;
    k->layer_norm_backward(d_x, p[0], d_b, p[1], p[2], p[3], n, 1e-5f);
    memcpy(p[1], d_x, (size_t)n * sizeof(float));
    memcpy(p[2], d_b, (size_t)n * sizeof(float));
}
static void dot(const Kernels *k, float *p[ARRAYS], float number[2], int n)
{
    number[0] = k->dot(p[0], p[1], n);
}
static void softmax_scaled(const Kernels *k, float *p[ARRAYS], float number[2], int n)
{
    k->softmax_scaled(p[0], 0.7f, n, &number[0], &number[1]);
}
static void softmax_again(const Kernels *k, float *p[ARRAYS], float number[2], int n)
{
    (void)number;
    k->softmax_again(p[0], 0.7f, 2.5f, 9.0f, n);
}
static void softmax_backward(const Kernels *k, float *p[ARRAYS], float number[2], int n)
{
    (void)number;
    k->softmax_backward(p[0], p[1], 0.3f, 0.7f, n);
}
static const AdamwStep step = { 0.9f, 0.95f, 1e-8f, 0.5f, 0.9999f, 1e-2f, 1.5f };
static void adamw(const Kernels *k, float *p[ARRAYS], float number[2], int n)
{
    (void)number;
    for (int i = 0; i < n; i++)
        p[2][i] = fabsf(p[2][i]);
    k->adamw(p[0], p[1], p[2], p[3], n, &step);
}

static const struct { const char *name; Call call; } kernels[] = {
    { "swiglu_backward", swiglu_backward }, { "geglu_backward", geglu_backward },
    { "geglu_erf_backward", geglu_erf_backward },
    { "gelu_backward", gelu_backward }, { "gelu_tanh_backward", gelu_tanh_backward },
    { "relu_backward", relu_backward }, { "relu2_backward", relu2_backward },
    { "rms_norm_backward", rms_norm_backward }, { "layer_norm_backward", layer_norm_backward },
    { "dot", dot },
    { "softmax_scaled", softmax_scaled }, { "softmax_again", softmax_again },
    { "softmax_backward", softmax_backward }, { "adamw", adamw },
};
enum { N_KERNELS = sizeof kernels / sizeof kernels[0] };

static void fill(Work *w)
{
    uint32_t seed = 12345;
    memset(w, 0, sizeof *w);
    for (int i = 0; i < ARRAYS; i++)
        for (int j = 0; j < ROOM; j++) {
            seed = seed * 1664525u + 1013904223u;
            w->a[i][j] = ((float)(seed >> 8) * 0x1p-24f - 0.5f) * 8;
        }
    w->a[1][3] = -200; /* beyond where exp ends */
    w->a[1][5] = 90;
}

static void run(const Kernels *k, Call call, Work *w, int n, int offset)
{
    float *p[ARRAYS];
    fill(w);
    for (int i = 0; i < ARRAYS; i++)
        p[i] = w->a[i] + offset;
    call(k, p, w->number, n);
}

/* The first length at which an instruction set differs from scalar, or writes past the end; 0:
 * none. */
static int first_difference(const Kernels *k, Call call)
{
    static Work a, b;
    for (int n = 1; n <= LONGEST; n += n < 70 ? 1 : 37)
        for (int offset = 0; offset < 18; offset += 5) {
            run(kernels_table(0), call, &a, n, offset);
            run(k, call, &b, n, offset);
            if (memcmp(&a, &b, sizeof a) != 0)
                return n;
        }
    return 0;
}

static bool writes_past_the_end(Call call)
{
    static Work w, fresh;
    run(kernels_table(0), call, &w, 37, 3);
    fill(&fresh);
    for (int i = 0; i < ARRAYS; i++)
        for (int j = 0; j < ROOM; j++)
            if ((j < 3 || j >= 40) && w.a[i][j] != fresh.a[i][j])
                return true;
    return false;
}

/* adamw and softmax in double. */
static double error_of_adamw(void)
{
    static Work w, was;
    double most = 0;
    fill(&was);
    run(kernels_table(0), adamw, &w, LONGEST, 0);
    for (int i = 0; i < LONGEST; i++) {
        double g = 0.5 * (double)was.a[3][i], m = 0.9 * (double)was.a[1][i] + 0.1 * g,
               v = 0.95 * fabs((double)was.a[2][i]) + 0.05 * g * g;
        most = fmax(most,
                    fabs((double)w.a[0][i]
                         - (0.9999 * (double)was.a[0][i] - 1e-2 * m / (1.5 * sqrt(v) + 1e-8))));
    }
    return most;
}

static double error_of_softmax(void)
{
    static Work w, was;
    double sum = 0, most = 0;
    fill(&was);
    run(kernels_table(0), softmax_scaled, &w, LONGEST, 0);
    for (int i = 0; i < LONGEST; i++)
        sum += exp(0.7 * (double)was.a[0][i]);
    for (int i = 0; i < LONGEST; i++)
        most = fmax(most, fabs((double)w.a[0][i] - exp(0.7 * (double)was.a[0][i]) / sum));
    return fmax(most, fabs((double)w.number[0] + log((double)w.number[1]) - log(sum)) / 10);
}

static int tell(bool good, const char *name, const char *isa, const char *why)
{
    printf(good ? "ok %s_%s\n" : "FAIL %s_%s: %s\n", name, isa, why);
    return !good;
}

int main(void)
{
    int  failed = 0;
    char why[64];
    for (int i = 0; i < N_KERNELS; i++) {
        failed += tell(!writes_past_the_end(kernels[i].call), kernels[i].name, "stays_inside",
                       "writes where it must not");
        for (int t = 1; kernels_table(t); t++) {
            int n = first_difference(kernels_table(t), kernels[i].call);
            snprintf(why, sizeof why, "differs from scalar at n = %d", n);
            failed += tell(n == 0, kernels[i].name, kernels_table(t)->isa, why);
        }
    }
    snprintf(why, sizeof why, "off by %g", error_of_adamw());
    failed += tell(error_of_adamw() < 1e-5, "adamw", "formula", why);
    snprintf(why, sizeof why, "off by %g", error_of_softmax());
    failed += tell(error_of_softmax() < 1e-6, "softmax_scaled", "formula", why);
    return failed ? 1 : 0;
}
