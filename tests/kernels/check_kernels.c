/* check_kernels: every kernel of every table that this CPU runs against tests/kernels/definition.h,
 * bit by bit (NaN is NaN), with guard words around each output. Prints "ok KERNEL ISA" or "FAIL
 * KERNEL ISA: ...".
 *   check_kernels [--quick] [--bench] [--digests]
 * --quick: a thinner set of sizes and no pass over all floats (for emulators); --bench: times
 * instead; --digests: prints the digests that pinned[] holds. */
#include <assert.h>
#include <time.h>

#include "base/threads.h"
#include "check.h"
#include "definition.h"

enum { THREADS = 2 };

/* ---- Values ---------------------------------------------------------------------------------- */

static const float special[] = { 0.0f, -0.0f, 1e-45f, -1e-40f, 1.17549435e-38f, -3e-38f, 1e30f,
                                 -3e38f, 3.4028235e38f, 1e-20f, INFINITY, -INFINITY, NAN, 88.7f,
                                 -87.4f, 1.0f,
                                 /* where a definition changes its formula */
                                 0.625f, -0.625f, 0.62499994f, 1.3258252f, -5.656854f, 88.72283f,
                                 -88.72283f, -87.33654f };

/* Ordinary numbers; where wild, one in 48 is special. */
static float value(bool wild)
{
    if (wild && below(48) == 0)
        return special[below((int)(sizeof special / sizeof *special))];
    float f = ((float)(int32_t)draw()) * 0x1p-31f;
    return below(3) == 0 ? f * 8.0f : f;
}
static void fill_values(float *p, size_t n, bool wild)
{
    for (size_t i = 0; i < n; i++)
        p[i] = value(wild);
}

static const int lengths[] = { 127, 128, 129, 255, 256, 257, 320, 511, 512, 513, 1100, 4099 };
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };
static int length_at(int i) { return i < 70 ? i + 1 : i < 70 + N_LENGTHS ? lengths[i - 70] : 0; }

/* ---- Elementwise and along a vector ---------------------------------------------------------- */

/* One call of any kernel that maps x [n] (and a second input u [n]) to y [n]. */
typedef void (*Call)(const Kernels *k, float *y, const float *x, const float *u, int n);
typedef void (*Definition)(float *y, const float *x, const float *u, int n);

static void check_map(const char *name, Call call, Definition def)
{
    current = name;
    for (int c = 0, n; (n = length_at(c)) != 0; c += quick ? 3 : 1)
        for (int wild = 0; wild < 2; wild++) {
            size_t skew = (size_t)(c % 3), count = (size_t)n;
            float *x = guarded(count, skew), *u = guarded(count, skew), *want = guarded(count, 0);
            fill_values(x, count, wild);
            fill_values(u, count, wild);
            def(want, x, u, n);
            for (int i = 0; i < n_tables; i++) {
                float *y = guarded(count, skew);
                call(table[i], y, x, u, n);
                same(i, "values", n, y, want, count);
                memcpy(y, x, count * sizeof *y);
                call(table[i], y, y, u, n);
                same(i, "in place", n, y, want, count);
                release(i, "values", n, y, count, skew);
            }
            free(x - GUARD - skew), free(u - GUARD - skew), free(want - GUARD);
        }
    report();
}

#define MAP(name)                                                                                  \
    static void call_##name(const Kernels *k, float *y, const float *x, const float *u,            \
                            int n) { (void)u, k->name(y, x, n); }                                  \
    static void all_##name(float *y, const float *x, const float *u, int n)                        \
    {                                                                                              \
        (void)u;                                                                                   \
        for (int i = 0; i < n; i++)                                                                \
            y[i] = def_##name(x[i]);                                                               \
    }
MAP(exp)
MAP(sigmoid)
MAP(gelu)
MAP(gelu_tanh)
MAP(relu)
MAP(relu2)

static void call_add(const Kernels *k, float *y, const float *x, const float *u, int n)
{
    memmove(y, x, (size_t)n * sizeof *y);
    k->add(y, u, n);
}
static void all_add(float *y, const float *x, const float *u, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i] + u[i];
}
/* No table has SiLU and tanh alone: a product with 1 and a cap of 1 change no bit of them. */
static void map_silu(const Kernels *k, float *y, const float *x, int n)
{
    for (int i = 0, len; i < n; i += len) {
        static const float ones[LANES] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
        len = n - i < LANES ? n - i : LANES;
        k->swiglu(y + i, x + i, ones, len);
    }
}
static void map_tanh(const Kernels *k, float *y, const float *x, int n)
{
    memmove(y, x, (size_t)n * sizeof *y);
    k->soft_cap(y, 1, n);
}
static void map_exp(const Kernels *k, float *y, const float *x, int n) { k->exp(y, x, n); }
static void map_sigmoid(const Kernels *k, float *y, const float *x, int n) { k->sigmoid(y, x, n); }
static void map_gelu(const Kernels *k, float *y, const float *x, int n) { k->gelu(y, x, n); }
static void map_gelu_tanh(const Kernels *k, float *y, const float *x, int n)
{
    k->gelu_tanh(y, x, n);
}

/* Kernels that change what they are given, by a second vector or a number; x = f(x, u). */
#define CHANGE(name, call, formula)                                                                \
    static void call_##name(const Kernels *k, float *y, const float *x, const float *u, int n)     \
    {                                                                                              \
        (void)u;                                                                                   \
        memmove(y, x, (size_t)n * sizeof *y);                                                      \
        call;                                                                                      \
    }                                                                                              \
    static void all_##name(float *y, const float *x, const float *u, int n)                        \
    {                                                                                              \
        (void)u;                                                                                   \
        for (int i = 0; i < n; i++)                                                                \
            y[i] = formula;                                                                        \
    }
CHANGE(xielu, k->xielu(y, y, XIELU, n), def_xielu(x[i]))
CHANGE(add_scaled, k->add_scaled(y, u, 0.2204f, n), x[i] + u[i] * 0.2204f)
CHANGE(add_weighted, k->add_weighted(y, u, 0.3712f, n), fmaf(0.3712f, u[i], x[i]))
CHANGE(scale, k->scale(y, 12.649f, n), x[i] * 12.649f)
CHANGE(soft_cap, k->soft_cap(y, 3.3f, n), 3.3f * def_tanh(x[i] / 3.3f))

/* Of two tokens, three taps over x, u, x and u; y is two rows of the half of n, and what it holds
 * at first, x again, is the gate. */
static const float *conv_weights(int n)
{
    static float w[3 * 4099];
    assert(n <= 4099);
    for (int i = 0; i < 3 * n; i++)
        w[i] = (float)(i % 241 + 1) * 0.013f - 1.6f;
    return w;
}
static void call_conv(const Kernels *k, float *y, const float *x, const float *u, int n, bool silu)
{
    const int          half = n / 2;
    float             *copy = memory((size_t)n * sizeof *copy); /* y may be x */
    const float *const from[] = { copy, u, u + half, u };
    memcpy(copy, x, (size_t)n * sizeof *copy);
    memmove(y, x, (size_t)n * sizeof *y);
    k->short_conv(&(ConvArgs){ .y = y, .y_stride = (size_t)half, .u = from, .w = conv_weights(half),
                               .shift = silu ? NULL : u, .taps = 3, .n_tok = 2, .n = half,
                               .silu = silu });
    free(copy);
}
static void all_conv(float *y, const float *x, const float *u, int n, bool silu)
{
    const int    half = n / 2;
    const float *w = conv_weights(half), *const from[] = { x, u, u + half, u };
    memcpy(y, x, (size_t)n * sizeof *y);
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < half; i++) {
            float a = silu ? 0.0f : u[i];
            for (int j = 0; j < 3; j++)
                a = fmaf(w[3 * i + j], from[t + j][i], a);
            y[t * half + i] = silu ? def_silu(a) : x[t * half + i] * a;
        }
}
static void call_short_conv(const Kernels *k, float *y, const float *x, const float *u, int n)
{
    call_conv(k, y, x, u, n, false);
}
static void all_short_conv(float *y, const float *x, const float *u, int n)
{
    all_conv(y, x, u, n, false);
}
static void call_silu_conv(const Kernels *k, float *y, const float *x, const float *u, int n)
{
    call_conv(k, y, x, u, n, true);
}
static void all_silu_conv(float *y, const float *x, const float *u, int n)
{
    all_conv(y, x, u, n, true);
}

static void call_delta_decay(const Kernels *k, float *y, const float *x, const float *u, int n)
{
    k->delta_decay(y, x, u, u, n);
}
static void all_delta_decay(float *y, const float *x, const float *u, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = def_exp(u[i] * def_softplus(x[i] + u[i]));
}

#define GATED(name, act)                                                                           \
    static void call_##name(const Kernels *k, float *y, const float *x, const float *u,            \
                            int n) { k->name(y, x, u, n); }                                        \
    static void all_##name(float *y, const float *x, const float *u, int n)                        \
    {                                                                                              \
        for (int i = 0; i < n; i++)                                                                \
            y[i] = act(x[i]) * u[i];                                                               \
    }
GATED(swiglu, def_silu)
GATED(geglu, def_gelu_tanh)
GATED(geglu_erf, def_gelu)

static void call_rms_norm(const Kernels *k, float *y, const float *x, const float *u, int n)
{
    k->rms_norm(y, x, u, n, 1e-5f);
}
static void all_rms_norm(float *y, const float *x, const float *u, int n)
{
    def_rms_norm(y, x, u, n, 1e-5f);
}
enum { LONGEST = 1 << 14 };
static const float *some_bias(void)
{
    static float bias[LONGEST];
    for (int i = 0; bias[0] == 0 && i < LONGEST; i++)
        bias[i] = (float)(i % 251 + 1) * 0.01f - 1.3f;
    return bias;
}
static void call_layer_norm(const Kernels *k, float *y, const float *x, const float *u, int n)
{
    k->layer_norm(y, x, u, some_bias(), n, 1e-5f);
}
static void all_layer_norm(float *y, const float *x, const float *u, int n)
{
    def_layer_norm(y, x, u, some_bias(), n, 1e-5f);
}
static void call_layer_norm_alone(const Kernels *k, float *y, const float *x, const float *u, int n)
{
    k->layer_norm(y, x, u, NULL, n, 1e-5f);
}
static void all_layer_norm_alone(float *y, const float *x, const float *u, int n)
{
    def_layer_norm(y, x, u, NULL, n, 1e-5f);
}
static void call_softmax(const Kernels *k, float *y, const float *x, const float *u, int n)
{
    (void)u;
    memmove(y, x, (size_t)n * sizeof *y);
    k->softmax(y, n);
}
static void all_softmax(float *y, const float *x, const float *u, int n)
{
    (void)u;
    memmove(y, x, (size_t)n * sizeof *y);
    def_softmax(y, n);
}

static void check_rope(void)
{
    current = "rope";
    for (int head_dim = 2; head_dim <= 160; head_dim += quick ? 18 : 2)
        for (int rot = head_dim; rot > 0; rot -= rot > 8 ? rot / 3 / 2 * 2 : 2) {
            int    heads = 1 + head_dim % 3;
            size_t n     = (size_t)(heads * head_dim);
            float *x = guarded(n, 1), *want = guarded(n, 1),
                  *c = memory(sizeof(float) * (size_t)rot), *s = c + rot / 2;
            fill_values(x, n, rot % 4 == 0);
            fill_values(c, (size_t)rot, false);
            memcpy(want, x, n * sizeof *x);
            def_rope(want, heads, head_dim, rot, c, s);
            for (int i = 0; i < n_tables; i++) {
                float *y = guarded(n, 1);
                memcpy(y, x, n * sizeof *x);
                table[i]->rope(y, heads, head_dim, rot, c, s);
                same(i, "heads", head_dim, y, want, n);
                release(i, "heads", head_dim, y, n, 1);
            }
            free(x - GUARD - 1), free(want - GUARD - 1), free(c);
        }
    report();
}

/* ---- Conversions: every half, and floats around every rounding case -------------------------- */

static void check_widen(void)
{
    enum { N = 65536 };
    current        = "f16_to_f32";
    uint16_t *half = memory(N * sizeof *half);
    float    *want = memory(N * sizeof *want);
    for (int i = 0; i < N; i++)
        half[i] = (uint16_t)i;
    elements_to_f32(WT_F16, want, half, N);
    for (int isa = 0; isa < n_tables; isa++) {
        for (int c = 0, len; (len = length_at(c)) != 0; c++) {
            float *y    = guarded((size_t)len, 1);
            size_t from = (size_t)below(N - len);
            table[isa]->f16_to_f32(y, half + from, len);
            same(isa, "part", len, y, want + from, (size_t)len);
            release(isa, "part", len, y, (size_t)len, 1);
        }
        float *y = guarded(N, 0);
        table[isa]->f16_to_f32(y, half, N);
        same(isa, "all", N, y, want, N);
        release(isa, "all", N, y, N, 0);
    }
    free(half), free(want);
    report();
}

static void check_narrow(void)
{
    enum { N = 4 * 65536 };
    current  = "f32_to_f16";
    float *x = memory(N * sizeof *x);
    for (int i = 0; i < N; i++) { /* each half, the middle to the next, and one float to either side
                                   * of it */
        uint32_t u = f32_bits(f16_to_f32((uint16_t)(i / 4)));
        x[i]       = i % 4 == 0 ? f32_from(u) : f32_from(u + 0x1000 - 2 + (uint32_t)(i % 4));
    }
    for (int isa = 0; isa < n_tables; isa++)
        for (int c = 0, n; (n = c < 70 ? c + 1 : c == 70 ? N : 0) != 0; c++) {
            const float *from = n == N ? x : x + below(N - n);
            uint16_t    *y    = (uint16_t *)(void *)guarded((size_t)n, 0);
            table[isa]->f32_to_f16(y, from, n);
            for (int i = 0; i < n; i++) {
                uint16_t want = f32_to_f16(from[i]);
                if (y[i] != want && from[i] == from[i])
                    bad(isa, "n %d: %a is %04x, expected %04x", n, (double)from[i], y[i], want);
                if (from[i] != from[i] && (y[i] & 0x7fff) <= 0x7c00)
                    bad(isa, "n %d: NaN is %04x", n, y[i]);
            }
            release(isa, "halves", n, (float *)(void *)y, (size_t)n, 0);
        }
    free(x);
    report();
}

/* ---- matmul ---------------------------------------------------------------------------------- */

/* One matrix in every form: row-major widened, and panels. */
typedef struct Matrix {
    float *wide;
    void  *panels;
    int    rows, k;
} Matrix;

static void *random_elements(WeightType type, size_t n, bool wild)
{
    size_t size = weight_type_bytes(type);
    float *f    = memory(n * sizeof *f);
    void  *out  = memory(n * size);
    fill_values(f, n, wild);
    elements_from_f32(type, out, f, n);
    free(f);
    return out;
}

static Matrix matrix_new(WeightType type, int rows, int k, bool wild)
{
    Matrix m    = { .rows = rows, .k = k };
    size_t n    = (size_t)rows * (size_t)k, size = weight_type_bytes(type),
           bytes = panel_bytes(type, k);
    char  *data = random_elements(type, n, wild);
    m.wide      = memory(n * sizeof(float));
    elements_to_f32(type, m.wide, data, n);
    m.panels = memory(bytes * (size_t)panel_count(rows));
    for (int p = 0; p < panel_count(rows); p++) {
        char *panel = (char *)m.panels + (size_t)p * bytes;
        panel_pack(type, panel, data + (size_t)p * 16 * (size_t)k * size, 16, k);
        if (type == WT_BF16 && k % 2 == 1) /* no padding takes part: NaN there must not show */
            for (int r = 0; r < 16; r++)
                memset(panel + bytes - 64 + 4 * r + 2, 0xff, 2);
    }
    free(data);
    return m;
}

static void check_matmul_case(WeightType type, const Matrix *m, int n_tok, bool wild, void *scratch)
{
    int    panels   = m->rows / 16;
    size_t x_stride = (size_t)(m->k + 15) / 16 * 16 + (size_t)(n_tok % 2) * 16,
           y_stride = (size_t)m->rows + (size_t)(m->k % 2) * 16;
    size_t n_y = (size_t)n_tok * y_stride;
    float *x = memory((size_t)n_tok * x_stride * sizeof *x), *want = guarded(n_y, 0),
          *bias = memory((size_t)m->rows * sizeof *bias);
    for (int t = 0; t < n_tok; t++) {
        float *row = x + (size_t)t * x_stride;
        fill_values(row, (size_t)m->k, wild && t % 3 == 0);
        for (size_t i = (size_t)m->k; i < x_stride; i++)
            row[i] = NAN; /* results never depend on the padding */
    }
    fill_values(bias, (size_t)m->rows, false);
    const float *b = (m->k + n_tok) % 3 == 0 ? bias : NULL;
    def_matmul(want, y_stride, m->wide, m->rows, x, x_stride, m->k, n_tok, b);
    for (int i = 0; i < n_tables; i++) {
        float     *y = guarded(n_y, 0);
        MatmulArgs a = { y, y_stride, x, x_stride, { { m->panels } },
                         panels, m->k,     n_tok, b,        scratch };
        table[i]->matmul[type](&a);
        for (int t = 0; t < n_tok; t++) {
            char what[64];
            snprintf(what, sizeof what, "token %d of %d, %d panels", t, n_tok, panels);
            /* guards between rows */
            same(i, what, m->k, y + (size_t)t * y_stride, want + (size_t)t * y_stride, y_stride);
        }
        release(i, "y", m->k, y, n_y, 0);
    }
    free(x), free(want - GUARD), free(bias);
}

static const int matmul_k[] = { 255, 256, 257, 320, 511, 512, 513, 1100 };

static void check_matmul(WeightType type)
{
    char  name[32];
    void *scratch = memory(KERNEL_SCRATCH);
    snprintf(name, sizeof name, "matmul[%s]", weight_type_name(type));
    current = name;
    for (int c = 0; c < 78; c += quick ? 7 : 1)
        for (int n_tok = 1; n_tok <= 21; n_tok += quick ? 4 : 1) {
            int    k = c < 70 ? c + 1 : matmul_k[c - 70], tok = n_tok == 21 ? 65 : n_tok;
            bool   wild = below(2);
            Matrix m =
                matrix_new(type, 16 * (1 + (c + n_tok) % (tok == 65 ? 3 : 9)), k, wild && below(2));
            check_matmul_case(type, &m, tok, wild, scratch);
            free(m.wide), free(m.panels);
        }
    if (!quick) {
        Matrix m = matrix_new(type, 32, 300, false); /* more tokens than one block holds */
        check_matmul_case(type, &m, 400, false, scratch);
        free(m.wide), free(m.panels);
    }
    free(scratch);
    report();
}

/* ---- attention ------------------------------------------------------------------------------- */

static const char *const kv_names[KV_COUNT] = {
    [KV_F32] = "f32", [KV_F16] = "f16", [KV_Q8] = "q8"
};

typedef struct TileData {
    float *k, *v;         /* [64][head_dim], widened */
    void  *kt, *vt;       /* as the cache holds them */
    float *k_scale, *v_scale;
} TileData;

static void tile_free(TileData *d)
{
    free(d->k), free(d->v), free(d->kt), free(d->vt), free(d->k_scale), free(d->v_scale);
}

/* One element as the cache holds it, at `at` of a tile, and what it is then. A code stands for any
 * number up to 127 times its scale, -128 too, though the cache never makes it. */
static float stored(KvType type, void *tile, size_t at, float x, float scale)
{
    float y = x;
    if (type == KV_F32) {
        ((float *)tile)[at] = x;
    } else if (type == KV_F16) {
        elements_from_f32(WT_F16, (uint16_t *)tile + at, &x, 1);
        elements_to_f32(WT_F16, &y, (uint16_t *)tile + at, 1);
    } else {
        int8_t code          = (int8_t)(below(9) == 0 ? (below(2) ? 127 : -128) : below(256) - 128);
        ((int8_t *)tile)[at] = code;
        y                    = (float)code * scale;
    }
    return y;
}

/* Positions behind `hidden` hold infinities and NaN, which must take part in nothing. */
static TileData tile_new(KvType type, int head_dim, int hidden, bool wild)
{
    static const size_t sizes[KV_COUNT] = { [KV_F32] = 4, [KV_F16] = 2, [KV_Q8] = 1 };
    size_t   hd = (size_t)head_dim, stride = (hd + 15) / 16 * 16, size = sizes[type];
    TileData d  = { memory(256 * hd), memory(256 * hd), memory(64 * hd * size),
                   memory(64 * stride * size), memory(256),      memory(256) };
    memset(d.vt, 0xff, 64 * stride * size);
    for (int t = 0; t < KV_TILE; t++) {
        d.k_scale[t] = t >= hidden ? NAN : fabsf(value(wild)) / 64,
        d.v_scale[t] = t >= hidden ? INFINITY : fabsf(value(wild)) / 64;
        for (size_t i = 0; i < hd; i++) {
            float a = value(wild), b = value(wild);
            if (t >= hidden)
                a = i % 2 ? INFINITY : NAN, b = NAN;
            d.k[(size_t)t * hd + i] = stored(
                type, d.kt, ((size_t)t / 16 * hd + i) * 16 + (size_t)t % 16, a, d.k_scale[t]);
            d.v[(size_t)t * hd + i] = stored(type, d.vt, (size_t)t * stride + i, b, d.v_scale[t]);
        }
    }
    return d;
}

/* m counts only where the sum is a number, and its zero has no sign that could reach the result. */
static void same_state(int isa, const char *what, int head_dim, const float *got, const float *want)
{
    size_t hd = (size_t)head_dim;
    if (!isnan(want[1]) && got[0] + 0.0f != want[0] + 0.0f)
        bad(isa, "%s, head_dim %d: m is %a, expected %a", what, head_dim, (double)got[0],
            (double)want[0]);
    same(isa, what, head_dim, got + 1, want + 1, 1);
    same(isa, what, head_dim, got + 16, want + 16, hd);
}

enum { EACH_Q = 14, MAX_Q = ATTN_MAX_Q + 6 };

/* once: K is V, of which the kernel makes what it needs. */
static void check_attn_case(KvType type, int head_dim, int n_q, float cap, bool wild, bool once)
{
    size_t    hd = (size_t)head_dim, state = attn_state_floats(head_dim);
    int       hidden = below(3) ? KV_TILE : 1 + below(KV_TILE);
    TileData  d      = tile_new(type, head_dim, hidden, wild && below(2));
    float    *q      = memory((size_t)n_q * ((hd + 15) / 16 * 16) * sizeof *q), *want[MAX_Q];
    AttnQuery query[MAX_Q];
    float     scale = (float)(1 / sqrt((double)head_dim));
    /* may be there, or not: the same bits */
    float    *wide  =
        once || below(2) ? memory(attn_wide_floats(head_dim) * sizeof *wide) : NULL;
    /* so may what is fetched ahead */
    bool      next  = below(2);
    for (int i = 0; i < n_q; i++) {
        query[i].q = q + (size_t)i * ((hd + 15) / 16 * 16);
        fill_values(q + (size_t)i * ((hd + 15) / 16 * 16), hd, wild && i % 4 == 3);
        query[i].first = below(2) ? 0 : below(hidden);
        query[i].end   = below(2) ? hidden : query[i].first + 1 + below(hidden - query[i].first);
        want[i]        = guarded(state, 0);
        def_attn_tile(want[i], query[i].q, once ? d.v : d.k, d.v, head_dim, query[i].first,
                      query[i].end, scale, cap);
    }
    for (int isa = 0; isa < n_tables; isa++) {
        for (int i = 0; i < n_q; i++)
            query[i].part = guarded(state, 0);
        AttnTile a = { .k = once ? NULL : d.kt,
                       .v = d.vt,
                       .k_scale = once ? d.v_scale : d.k_scale,
                       .v_scale = d.v_scale,
                       .head_dim = head_dim,
                       .scale = scale,
                       .soft_cap = cap,
                       .n_q = n_q,
                       .q = query,
                       .wide = wide,
                       .next_k = next ? once ? d.vt : d.kt : NULL,
                       .next_scale = next ? d.k_scale : NULL };
        table[isa]->attn_tile[type](&a);
        for (int i = 0; i < n_q; i++) {
            char what[64];
            snprintf(what, sizeof what, "query %d of %d, positions %d to %d", i, n_q,
                     query[i].first, query[i].end);
            same_state(isa, what, head_dim, query[i].part, want[i]);
            release(isa, what, head_dim, query[i].part, state, 0);
        }
    }
    for (int i = 0; i < n_q; i++)
        free(want[i] - GUARD);
    tile_free(&d), free(q), free(wide);
}

static const int head_dims[] = { 1, 2, 3, 8, 15, 16, 17, 20, 32, 48, 64, 80, 96, 128, 256 };
enum { N_HEAD_DIMS = sizeof head_dims / sizeof *head_dims };

static void check_attn_tile(KvType type, bool once)
{
    char name[32];
    snprintf(name, sizeof name, "attn_tile[%s]%s", kv_names[type], once ? " once" : "");
    current = name;
    for (int c = 0; c < N_HEAD_DIMS; c += quick ? 3 : 1)
        for (int n_q = 1; n_q <= EACH_Q + 1; n_q++)
            for (int i = 0; i < (quick ? 1 : 6); i++)
                check_attn_case(type, head_dims[c], n_q <= EACH_Q ? n_q : MAX_Q,
                                i % 3 == 1 ? 30.0f : 0.0f, i % 2, once);
    report();
}

/* Ties too: with a largest value of 127 * 2^n the others are codes and halves of codes. */
static void check_f32_to_q8(void)
{
    current = "f32_to_q8";
    for (int i = 0, n; (n = length_at(i)) != 0; i++)
        for (int variant = 0; variant < 8; variant++) {
            float  *x = memory((size_t)n * sizeof *x + 64),
                   *from = (float *)(void *)((char *)x + 4 * (variant % 4));
            int8_t *want = memory((size_t)n), *got = memory((size_t)n + 128);
            fill_values(from, (size_t)n, variant == 1 && n % 3 == 0);
            for (int j = 0; j < n && variant >= 2; j++)
                from[j] = variant == 2 ? from[j] * 0x1p-104f
                    : variant == 3     ? from[j] * 0x1p-100f
                                       : (float)(below(509) - 254) * 0.5f;
            if (variant >= 4)
                from[below(n)] = variant % 2 ? 127.0f : -127.0f;
            if (variant == 7)
                from[below(n)] = special[below((int)(sizeof special / sizeof *special))];
            float scale = def_f32_to_q8(want, from, n);
            for (int isa = 0; isa < n_tables; isa++) {
                memset(got, 0x5a, (size_t)n + 128);
                float s = table[isa]->f32_to_q8(got + 64, from, n);
                if (canonical(s) != canonical(scale))
                    bad(isa, "variant %d, n %d: scale %a, expected %a", variant, n, (double)s,
                        (double)scale);
                for (int j = -64; j < n + 64; j++)
                    if (got[64 + j] != (j < 0 || j >= n ? 0x5a : want[j]))
                        bad(isa, "variant %d, n %d: code %d is %d, expected %d", variant, n, j,
                            got[64 + j], j < 0 || j >= n ? 0x5a : want[j]);
            }
            free(x), free(want), free(got);
        }
    report();
}

static void check_attn_merge(void)
{
    current = "attn_merge+end";
    for (int c = 0; c < N_HEAD_DIMS; c++)
        for (int i = 0; i < 20; i++) {
            int    hd = head_dims[c];
            size_t n = attn_state_floats(hd), count = (size_t)hd;
            float *a = guarded(n, 0), *b = guarded(n, 0), *want = guarded(n, 0),
                  *out = guarded(count, 0);
            fill_values(a, n, i % 2), fill_values(b, n, i % 2);
            a[1] = fabsf(a[1]) + 1, b[1] = fabsf(b[1]) + 1;
            memcpy(want, a, n * sizeof *a);
            def_attn_merge(want, b, hd);
            def_attn_end(out, want, hd);
            for (int isa = 0; isa < n_tables; isa++) {
                float *y = guarded(n, 0), *end = guarded(count, 1);
                memcpy(y, a, n * sizeof *a);
                table[isa]->attn_merge(y, b, hd);
                same_state(isa, "merge", hd, y, want);
                table[isa]->attn_end(end, y, hd);
                same(isa, "end", hd, end, out, count);
                release(isa, "merge", hd, y, n, 0), release(isa, "end", hd, end, count, 1);
            }
            free(a - GUARD), free(b - GUARD), free(want - GUARD), free(out - GUARD);
        }
    report();
}

/* ---- The gated delta rule -------------------------------------------------------------------- */

static void def_delta_rule(const DeltaSpan *a)
{
    for (int t = 0; t < a->n_tok; t++)
        for (int c = 0; c < a->n_v; c++) {
            const float *q = a->q + t * a->n_k, *k = a->k + t * a->n_k;
            float        m = 0, o = 0;
            for (int i = 0; i < a->n_k; i++)
                m = fmaf(a->state[i * a->n_v + c] * a->decay[t], k[i], m);
            float d = (a->v[(size_t)t * a->v_stride + (size_t)c] - m) * a->beta[t];
            for (int i = 0; i < a->n_k; i++) {
                float *s = &a->state[i * a->n_v + c];
                *s = fmaf(k[i], d, *s * a->decay[t]);
                o  = fmaf(*s, q[i], o);
            }
            a->o[t * a->n_v + c] = o;
        }
}

static void check_delta_size(int n_tok, int n_k, int n_v, bool wild)
{
    const size_t n = (size_t)n_k * (size_t)n_v, keys = (size_t)(n_tok * n_k),
                 v_stride = (size_t)n_v + 3, out = (size_t)(n_tok * n_v),
                 ins = 2 * keys + (size_t)n_tok * (v_stride + 2);
    float *s = guarded(n, 1), *in = guarded(ins, 1), *want = guarded(n, 1), *o = guarded(out, 1),
          *room = guarded((size_t)n_k * DELTA_COLUMNS, 0), *v = in + 2 * keys,
          *decay = v + (size_t)n_tok * v_stride;
    fill_values(s, n, wild), fill_values(in, ins, wild);
    memcpy(want, s, n * sizeof *s);
    DeltaSpan a = { want, o, in, in + keys, v, v_stride, decay, decay + n_tok, room, n_tok, n_k,
                    n_v };
    def_delta_rule(&a);
    for (int isa = 0; isa < n_tables; isa++) {
        float *got = guarded(n, 1), *y = guarded(out, 1);
        memcpy(got, s, n * sizeof *s);
        a.state = got, a.o = y;
        table[isa]->delta_rule(&a);
        same(isa, "state", n_tok * 1000 + n_v, got, want, n);
        same(isa, "o", n_tok * 1000 + n_v, y, o, out);
        release(isa, "state", n_v, got, n, 1), release(isa, "o", n_v, y, out, 1);
    }
    free(s - GUARD - 1), free(in - GUARD - 1), free(room - GUARD);
    free(want - GUARD - 1), free(o - GUARD - 1);
}

static void check_delta_rule(void)
{
    static const int sizes[][2] = { { 1, 1 }, { 3, 17 }, { 16, 16 }, { 5, 31 }, { 7, 33 },
                                    { 5, 63 }, { 8, 64 }, { 7, 65 }, { 33, 100 }, { 128, 128 } };
    current = "delta_rule";
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++)
        for (int n_tok = 1; n_tok < 6; n_tok++)
            for (int wild = 0; wild < 2; wild++)
                check_delta_size(n_tok, sizes[c][0], sizes[c][1], wild);
    report();
}

/* ---- Digests --------------------------------------------------------------------------------- */

typedef void (*Map)(const Kernels *k, float *y, const float *x, int n);
enum { BLOCK = 1 << 14, SAMPLE_STEP = 1021 };

static uint64_t hash_floats(uint64_t h, const float *y, int n)
{
    for (int i = 0; i < n; i++)
        h = (h ^ canonical(y[i])) * 0x100000001b3u;
    return h;
}

/* Over the floats with bits 0, SAMPLE_STEP, 2 * SAMPLE_STEP ... */
static uint64_t sample_digest(const Kernels *k, Map map)
{
    static float x[BLOCK];
    uint64_t     h = 0xcbf29ce484222325u;
    for (uint64_t u = 0; u < 1ull << 32;) {
        int n = 0;
        for (; n < BLOCK && u < 1ull << 32; u += SAMPLE_STEP)
            x[n++] = f32_from((uint32_t)u);
        map(k, x, x, n);
        h = hash_floats(h, x, n);
    }
    return h;
}

/* Over all floats: blocks of 2^14, each with its own hash, hashed in order. */
typedef struct AllFloats {
    const Kernels *k;
    uint64_t      *block;
} AllFloats;

static void hash_blocks(void *arg, Team team)
{
    AllFloats *a = arg;
    float     *x = memory(BLOCK * sizeof *x);
    int        b, end;
    threads_share(team, (1 << 18), &b, &end);
    for (; b < end; b++) {
        for (uint32_t i = 0; i < BLOCK; i++)
            x[i] = f32_from((uint32_t)b * BLOCK + i);
        a->k->exp(x, x, BLOCK);
        uint64_t h[4] = { 1, 2, 3, 4 }; /* four chains: one waits for its multiplications */
        for (int i = 0; i < BLOCK; i += 4)
            for (int j = 0; j < 4; j++)
                h[j] = (h[j] ^ canonical(x[i + j])) * 0x100000001b3u;
        a->block[b] = h[0] ^ (h[1] << 1) ^ (h[2] << 2) ^ (h[3] << 3);
    }
    free(x);
}

static uint64_t all_digest(const Kernels *k)
{
    AllFloats a = { k, memory((1 << 18) * sizeof(uint64_t)) };
    uint64_t  h = 0xcbf29ce484222325u;
    threads_run(THREADS, hash_blocks, &a);
    for (int i = 0; i < 1 << 18; i++)
        h = (h ^ a.block[i]) * 0x100000001b3u;
    free(a.block);
    return h;
}

/* With rate -1 it is the sigmoid of -x. */
static void map_decay(const Kernels *k, float *y, const float *x, int n)
{
    for (int i = 0, len; i < n; i += len) {
        static const float zeros[LANES], rate[LANES] = { -1, -1, -1, -1, -1, -1, -1, -1,
                                                         -1, -1, -1, -1, -1, -1, -1, -1 };
        len = n - i < LANES ? n - i : LANES;
        k->delta_decay(y + i, x + i, zeros, rate, len);
    }
}

static const Map maps[] = { map_exp,  map_silu,      map_sigmoid, map_tanh,
                            map_gelu, map_gelu_tanh, map_decay };
static const char *const map_names[] = { "exp",  "silu",      "sigmoid", "tanh",
                                         "gelu", "gelu_tanh", "delta_decay" };
enum { N_MAPS = 7 };

/* A change here is a change of the numerics contract: raise TBLOCK_NUMERICS_VERSION. */
static const uint64_t pinned[N_MAPS] = {
    0xbe8c7eb9f2abfeba, 0x11ab1749b6c7f960, 0x5fbf704ad91709e9,
    0xec9434bc775e68e1, 0xfe50acbce57ecff1, 0xd32ce3a6892c1f06,
    0x791d9ff40196fa6c
};
static const uint64_t pinned_exp_all = 0xaeeb6d13e146f3cd;

static void check_digests(bool print)
{
    for (int m = 0; m < N_MAPS; m++) {
        char name[32];
        snprintf(name, sizeof name, "digest(%s)", map_names[m]);
        current = name;
        for (int i = 0; i < n_tables; i++) {
            if (quick && i == 0 && n_tables > 1)
                continue;
            uint64_t h = sample_digest(table[i], maps[m]);
            if (h != pinned[m])
                bad(i, "0x%016llx, expected 0x%016llx", (unsigned long long)h,
                    (unsigned long long)pinned[m]);
            if (print && i == n_tables - 1)
                printf("# %s 0x%016llx\n", map_names[m], (unsigned long long)h);
        }
        report();
    }
    if (quick) {
        printf("skip digest(exp, all floats): --quick\n");
        return;
    }
    uint64_t h = all_digest(table[n_tables - 1]);
    bool     ok = h == pinned_exp_all;
    printf("%s digest(exp, all floats) %s", ok ? "ok" : "FAIL", table[n_tables - 1]->isa);
    if (!ok)
        printf(": 0x%016llx, expected 0x%016llx", (unsigned long long)h,
               (unsigned long long)pinned_exp_all);
    printf("\n");
    failures += !ok;
}

/* ---- Accuracy against libm in double --------------------------------------------------------- */

static double ulp(double y)
{
    int e;
    frexp(y, &e);
    return ldexp(1, e - 24 < -149 ? -149 : e - 24);
}

static double true_exp(double x) { return exp(x); }
static double true_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double true_silu(double x) { return x / (1 + exp(-x)); }
static double true_tanh(double x) { return tanh(x); }
static double true_decay(double x) { return 1 / (1 + exp(x)); }
static double true_gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }

/* low, high: where the bound holds; bound in ulp, or (gelu) in units of 2^-22 * max(|x|, 2^-10). */
static const struct {
    int    map;
    double (*truth)(double x);
    float  low, high;
    double bound;
} accuracy[] = {
    { 0, true_exp, -87.33654f, 88.72283f, 2 },
    { 1, true_silu, -88.72283f, 3.4e38f, 4 },
    { 2, true_sigmoid, -88.72283f, 3.4e38f, 4 },
    { 3, true_tanh, -3.4e38f, 3.4e38f, 4 },
    { 4, true_gelu, -3.4e38f, 3.4e38f, 1 },
    { 6, true_decay, -3.4e38f, 1, 4 }, /* above: an ulp of softplus is many of its exp */
};

static void check_accuracy(void)
{
    const Kernels *k = table[n_tables - 1];
    uint32_t       step = quick ? 40009 : 1009;
    for (int i = 0; i < (int)(sizeof accuracy / sizeof *accuracy); i++) {
        double worst = 0, at = 0;
        bool   gelu = accuracy[i].map == 4;
        for (uint64_t u = 0; u < 1ull << 32; u += (uint64_t)step * LANES) {
            float x[LANES], y[LANES];
            for (uint32_t j = 0; j < LANES; j++)
                x[j] = f32_from((uint32_t)(u + step * j));
            maps[accuracy[i].map](k, y, x, LANES);
            for (int j = 0; j < LANES; j++) {
                if (!(x[j] >= accuracy[i].low && x[j] <= accuracy[i].high))
                    continue;
                double want = accuracy[i].truth((double)x[j]), d = fabs((double)y[j] - want);
                double e = gelu ? d / (0x1p-22 * fmax(fabs((double)x[j]), 0x1p-10)) : d / ulp(want);
                if (e > worst || e != e)
                    worst = e != e ? INFINITY : e, at = (double)x[j];
            }
        }
        bool ok = worst <= accuracy[i].bound;
        printf("# %s: at most %.3f %s (x = %a)\n", map_names[accuracy[i].map], worst,
               gelu ? "of its bound" : "ulp", at);
        printf("%s accuracy(%s)", ok ? "ok" : "FAIL", map_names[accuracy[i].map]);
        if (!ok)
            printf(": %.3f, expected at most %g", worst, accuracy[i].bound);
        printf("\n");
        failures += !ok;
    }
}

/* The range's ends, and the plain function of the sampler. */
static void check_exp_ends(void)
{
    current = "exp ends";
    const float x[] = { -87.33654f, nextafterf(-87.33654f, -100),
                        88.72283f,  nextafterf(88.72283f, 100),
                        -INFINITY,  INFINITY,
                        NAN };
    for (int i = 0; i < n_tables; i++) {
        float y[7];
        table[i]->exp(y, x, 7);
        if (!(y[0] >= 1.17549435e-38f))
            bad(i, "exp(-87.33654f) is %a, expected a normal number", (double)y[0]);
        if (f32_bits(y[1]) != 0 || !isfinite(y[2]) || y[3] != INFINITY || f32_bits(y[4]) != 0
            || y[5] != INFINITY || !isnan(y[6]))
            bad(i, "%a %a %a %a %a %a", (double)y[1], (double)y[2], (double)y[3], (double)y[4],
                (double)y[5], (double)y[6]);
    }
    for (uint64_t u = 0; u < 1ull << 32; u += quick ? 100003 : 4093) {
        float f = f32_from((uint32_t)u), y;
        table[0]->exp(&y, &f, 1);
        if (canonical(kernels_expf(f)) != canonical(y))
            bad(0, "kernels_expf(%a) is %a, expected %a", (double)f, (double)kernels_expf(f),
                (double)y);
    }
    report();
}

/* ---- Times ----------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Best seconds of a call over about 50 ms. */
#define TIME(result, call)                            \
    do {                                              \
        double start_ = now(), t_;                    \
        (result)      = 1e9;                          \
        do {                                          \
            t_ = now();                               \
            call;                                     \
            double d_ = now() - t_;                   \
            if (d_ < (result))                        \
                (result) = d_;                        \
        } while (t_ - start_ < 0.05);                 \
    } while (0)

static void bench_matmul(const Kernels *k, WeightType type, int n_tok)
{
    enum { K = 2048, PANELS = 16 };
    size_t bytes;
    matrix_bytes(type, PANELS * 16, K, &bytes);
    void  *w = memory(bytes), *scratch = memory(KERNEL_SCRATCH);
    float *x = memory((size_t)n_tok * K * 4), *y = memory((size_t)n_tok * PANELS * 64);
    memset(w, 0, bytes);
    fill_values(x, (size_t)n_tok * K, false);
    MatmulArgs a = { y, PANELS * 16, x, K, { { w } }, PANELS, K, n_tok, NULL, scratch };
    double     s;
    TIME(s, k->matmul[type](&a));
    printf("%-8s matmul[%s] %d tokens: %.1f GFLOP/s, %.1f GB/s\n", k->isa, weight_type_name(type),
           n_tok, 2e-9 * K * PANELS * 16 * n_tok / s, 1e-9 * (double)bytes / s);
    free(w), free(scratch), free(x), free(y);
}

static void bench_attn(const Kernels *k, KvType type, int n_q)
{
    enum { HEAD_DIM = 64 };
    TileData  d = tile_new(type, HEAD_DIM, KV_TILE, false);
    float    *q = memory((size_t)n_q * HEAD_DIM * 4),
          *part = memory((size_t)n_q * 4 * attn_state_floats(HEAD_DIM));
    AttnQuery query[32];
    fill_values(q, (size_t)n_q * HEAD_DIM, false);
    for (int i = 0; i < n_q; i++)
        query[i] = (AttnQuery){ q + i * HEAD_DIM, 0, KV_TILE,
                                part + (size_t)i * attn_state_floats(HEAD_DIM) };
    AttnTile a = { .k = d.kt,
                   .v = d.vt,
                   .k_scale = d.k_scale,
                   .v_scale = d.v_scale,
                   .head_dim = HEAD_DIM,
                   .scale = 0.125f,
                   .n_q = n_q,
                   .q = query };
    double   s;
    TIME(s, k->attn_tile[type](&a));
    printf("%-8s attn_tile[%s] %d queries: %.1f GFLOP/s\n", k->isa, kv_names[type], n_q,
           1e-9 * 4 * KV_TILE * HEAD_DIM * n_q / s);
    tile_free(&d), free(q), free(part);
}

static void bench(void)
{
    enum { N = 4096 };
    float *x = memory(N * 4), *u = memory(N * 4), *y = memory(N * 4);
    fill_values(x, N, false), fill_values(u, N, false);
    for (int i = 0; i < n_tables; i++) {
        const Kernels *k = table[i];
        double         s;
        for (int m = 0; m < N_MAPS; m++) {
            TIME(s, maps[m](k, y, x, N));
            printf("%-8s %s: %.3f ns an element\n", k->isa, map_names[m], 1e9 * s / N);
        }
        TIME(s, k->swiglu(y, x, u, N));
        printf("%-8s swiglu: %.3f ns an element\n", k->isa, 1e9 * s / N);
        TIME(s, k->rms_norm(y, x, u, N, 1e-5f));
        printf("%-8s rms_norm: %.3f ns an element\n", k->isa, 1e9 * s / N);
        TIME(s, k->rope(y, N / 64, 64, 64, x, u));
        printf("%-8s rope: %.3f ns an element\n", k->isa, 1e9 * s / N);
        for (int t = 0; t < WT_FLOATS; t++) {
            static const int n_tok[] = { 1, 2, 4, 8, 16, 64 };
            for (int j = 0; j < 6; j++)
                bench_matmul(k, (WeightType)t, n_tok[j]);
        }
        for (int t = 0; t < KV_COUNT; t++)
            for (int n_q = 1; n_q <= 32; n_q *= 2)
                bench_attn(k, (KvType)t, n_q);
    }
    free(x), free(u), free(y);
}

/* ---- main ------------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    bool time_them = false, digests = false;
    for (int i = 1; i < argc; i++) {
        quick |= strcmp(argv[i], "--quick") == 0;
        time_them |= strcmp(argv[i], "--bench") == 0;
        digests |= strcmp(argv[i], "--digests") == 0;
    }
    find_tables();
    if (time_them)
        return bench(), 0;

    check_map("exp", call_exp, all_exp);
    check_map("sigmoid", call_sigmoid, all_sigmoid);
    check_map("gelu", call_gelu, all_gelu);
    check_map("gelu_tanh", call_gelu_tanh, all_gelu_tanh);
    check_map("add", call_add, all_add);
    check_map("add_scaled", call_add_scaled, all_add_scaled);
    check_map("add_weighted", call_add_weighted, all_add_weighted);
    check_map("scale", call_scale, all_scale);
    check_map("soft_cap", call_soft_cap, all_soft_cap);
    check_map("relu", call_relu, all_relu);
    check_map("relu2", call_relu2, all_relu2);
    check_map("xielu", call_xielu, all_xielu);
    check_map("short_conv", call_short_conv, all_short_conv);
    check_map("short_conv (SiLU)", call_silu_conv, all_silu_conv);
    check_map("delta_decay", call_delta_decay, all_delta_decay);
    check_map("swiglu", call_swiglu, all_swiglu);
    check_map("geglu", call_geglu, all_geglu);
    check_map("geglu_erf", call_geglu_erf, all_geglu_erf);
    check_map("rms_norm", call_rms_norm, all_rms_norm);
    check_map("layer_norm", call_layer_norm, all_layer_norm);
    check_map("layer_norm (no bias)", call_layer_norm_alone, all_layer_norm_alone);
    check_map("softmax", call_softmax, all_softmax);
    check_rope();
    check_exp_ends();
    check_widen();
    check_narrow();
    check_f32_to_q8();
    for (int t = 0; t < WT_FLOATS; t++)
        check_matmul((WeightType)t);
    for (int t = 0; t < KV_COUNT; t++)
        check_attn_tile((KvType)t, false), check_attn_tile((KvType)t, true);
    check_attn_merge();
    check_delta_rule();
    check_digests(digests);
    check_accuracy();
    return failures != 0;
}
