/* check_bf16: Kernels.matmul_bf16 of every table that this CPU runs against docs/numerics.md, "bf16
 * weights, --math bf16", executed literally. Bit by bit (NaN is NaN), with guard words behind each
 * row. Prints "ok ..." or "FAIL ...".
 *   check_bf16 [--bench]      --bench: times beside the f32 mode instead */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/number.h"
#include "kernels/kernels.h"

static uint64_t seed = 1;
static uint32_t draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

/* Ordinary numbers; where wild, some are special, or about 2^-50: both sides of it, before and
 * after rounding. */
static float value(bool wild)
{
    static const float special[] = {
        0.0f,        -0.0f,        1e-45f,        0x1p-50f,    -0x1p-50f, 0x1.fep-51f,
        0x1.ffp-51f, 0x1.ff8p-51f, -0x1.fffp-51f, 0x1.01p-50f, 3e38f,     3.4028235e38f,
        0x1.fep127f, 1.00390625f,  1.01171875f,   INFINITY,    NAN
    };
    if (wild && draw() % 24 == 0)
        return special[draw() % (sizeof special / sizeof *special)];
    return (float)(int32_t)draw() * 0x1p-31f * (draw() % 3 ? 1 : 8);
}

static float def_round(float x)
{
    uint16_t h = f32_to_bf16(x);
    return isnan(x) || fabsf(bf16_to_f32(h)) >= 0x1p-50f ? bf16_to_f32(h) : 0;
}

/* One output: w and x have k elements, w bf16 values of magnitude 2^-50 and more, or 0. */
static float def_row(const float *w, const float *x, int k, const float *bias)
{
    float acc = !bias || fabsf(*bias) < 0x1p-50f ? 0 : *bias;
    for (int g = 0; g < k; g += 32) {
        float e = 0, o = 0;
        for (int i = g; i < g + 32 && i < k; i++) {
            float *sum = i % 2 ? &o : &e;
            *sum       = fmaf(w[i], def_round(x[i]), *sum);
        }
        acc = acc + (e + o);
    }
    return acc;
}

static void *memory(size_t n_bytes)
{
    void *p = aligned_alloc(64, (n_bytes + 63) / 64 * 64);
    if (!p) {
        fprintf(stderr, "check_bf16: no memory\n");
        exit(4);
    }
    return p;
}

typedef struct Case {
    int       panels, k, n_tok;
    size_t    x_stride, y_stride;
    float    *wide, *x, *bias, *want;
    uint16_t *panel;
    void     *scratch;
} Case;

static Case case_new(int panels, int k, int n_tok, bool wild, bool bias)
{
    Case c = { .panels = panels,
               .k = k,
               .n_tok = n_tok,
               .x_stride = (size_t)(k + 15) / 16 * 16,
               .y_stride = (size_t)panels * 16 + 16 };
    size_t n = (size_t)panels * 16 * (size_t)k, one = panel_bytes(WT_BF16, k);
    uint16_t *row = memory(n * 2);
    c.wide    = memory(n * 4);
    c.panel   = memory(one * (size_t)panels);
    c.x       = memory(c.x_stride * (size_t)n_tok * 4);
    c.bias    = bias ? memory((size_t)panels * 64) : NULL;
    c.scratch = memory(KERNEL_SCRATCH);
    for (size_t i = 0; i < n; i++) {
        row[i]    = f32_to_bf16(def_round(value(wild && i % 7 == 0)));
        c.wide[i] = bf16_to_f32(row[i]);
    }
    for (int p = 0; p < panels; p++) {
        char *at = (char *)c.panel + (size_t)p * one;
        panel_pack(WT_BF16, at, row + (size_t)p * 16 * (size_t)k, 16, k);
        for (int r = 0; k % 2 == 1 && r < 16; r++) /* no padding takes part: NaN there must not
                                                    * show */
            memset(at + one - 64 + 4 * r + 2, 0xff, 2);
    }
    for (size_t i = 0; i < c.x_stride * (size_t)n_tok; i++)
        c.x[i] = i % c.x_stride < (size_t)k ? value(wild) : NAN;
    for (int i = 0; bias && i < panels * 16; i++)
        c.bias[i] = value(true);
    free(row);
    return c;
}

static void case_free(Case *c)
{
    free(c->wide), free(c->panel), free(c->x), free(c->bias), free(c->scratch);
}

static uint32_t canonical(float f) { return f != f ? 0x7fc00000u : f32_bits(f); }

static bool equals(const Kernels *t, const Case *c)
{
    size_t n = c->y_stride * (size_t)c->n_tok;
    float *y = memory(n * 4);
    bool   ok = true;
    for (size_t i = 0; i < n; i++)
        y[i] = 1234567;
    t->matmul_bf16(&(MatmulArgs){ y,
                                  c->y_stride,
                                  c->x,
                                  c->x_stride,
                                  { { c->panel } },
                                  c->panels,
                                  c->k,
                                  c->n_tok,
                                  c->bias,
                                  c->scratch });
    for (int i = 0; ok && i < c->n_tok; i++)
        for (int r = 0; ok && r < (int)c->y_stride; r++) {
            float got = y[(size_t)i * c->y_stride + (size_t)r], want = 1234567;
            if (r < c->panels * 16)
                want = def_row(c->wide + (size_t)r * (size_t)c->k, c->x + (size_t)i * c->x_stride,
                               c->k, c->bias ? c->bias + r : NULL);
            ok = canonical(got) == canonical(want);
            if (!ok)
                printf("FAIL matmul_bf16 %s: k %d, token %d of %d, row %d of %d: %a, expected %a\n",
                       t->isa, c->k, i, c->n_tok, r, c->panels * 16, (double)got, (double)want);
        }
    free(y);
    return ok;
}

static bool check_table(const Kernels *t)
{
    static const int ks[] = { 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64,
                              65, 100, 255, 256, 257, 288, 300, 511, 513, 1001 };
    bool             ok   = true;
    for (int i = 0; ok && i < (int)(sizeof ks / sizeof *ks); i++)
        for (int n_tok = 1; ok && n_tok <= 17; n_tok++) {
            Case c =
                case_new(1 + (i + n_tok) % 9, ks[i], n_tok, n_tok % 2 == 0, (i + n_tok) % 3 == 0);
            ok     = equals(t, &c);
            case_free(&c);
        }
    /* over a block of tokens, over one of k, over the scratch of few tokens */
    static const int large[][3] = { { 3, 300, 800 }, { 2, 1101, 40 }, { 2, 30000, 9 } };
    for (int i = 0; ok && i < 3; i++) {
        Case c = case_new(large[i][0], large[i][1], large[i][2], i < 2, true);
        ok     = equals(t, &c);
        case_free(&c);
    }
    return ok;
}

static double now(void)
{
    struct timespec s;
    clock_gettime(CLOCK_MONOTONIC, &s);
    return (double)s.tv_sec + 1e-9 * (double)s.tv_nsec;
}

static double best_of(void (*kernel)(const MatmulArgs *a), const MatmulArgs *a)
{
    double best = 1e9;
    for (int i = 0; i < 7; i++) {
        double t = now();
        kernel(a);
        t    = now() - t;
        best = t < best ? t : best;
    }
    return best;
}

static void bench(void)
{
    const Kernels *t;
    for (int n_tok = 1; n_tok <= 256; n_tok *= 4) {
        Case   c = case_new(512, 2048, n_tok, false, false);
        float *y = memory(c.y_stride * (size_t)n_tok * 4);
        for (int i = 1; (t = kernels_table(i)); i++) {
            MatmulArgs a = { y, c.y_stride, c.x, c.x_stride, { { c.panel } },
                             c.panels, c.k,        n_tok, NULL,       c.scratch };
            double f = best_of(t->matmul[WT_BF16], &a), b = best_of(t->matmul_bf16, &a),
                   n = 2.0 * 8192 * 2048;
            printf("%s, 8192 x 2048, %d tokens: f32 %.1f GFLOP/s, %.1f GB/s; bf16 %.1f GFLOP/s, "
                   "%.1f GB/s\n",
                   t->isa, n_tok, n * n_tok / f * 1e-9, n / f * 1e-9, n * n_tok / b * 1e-9,
                   n / b * 1e-9);
        }
        free(y), case_free(&c);
    }
}

int main(int argc, char **argv)
{
    const Kernels *t;
    int            failures = 0;
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
        bench();
        return 0;
    }
    for (int i = 0; (t = kernels_table(i)); i++) {
        bool ok = check_table(t);
        if (ok)
            printf("ok matmul_bf16 %s\n", t->isa);
        failures += !ok;
    }
    return failures != 0;
}
