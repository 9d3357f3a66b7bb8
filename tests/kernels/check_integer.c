/* check_integer: quantized weights and their activations, in every table that this CPU runs,
 * against tests/kernels/definition_int.h bit by bit. Weights, integers and scales end right before
 * memory that cannot be read.
 *   check_integer [--quick]    (a thinner set of sizes, for emulators) */
#include "check.h"
#include "definition_int.h"
#include "fenced.h"
#include "quant/codes.h"

/* ---- Weights --------------------------------------------------------------------------------- */

/* What the integers of a case are made of. */
typedef enum Pattern { RANDOM, WILD, LOWEST, HIGHEST, MIXED, N_PATTERNS } Pattern;

/* A matrix in every form. */
typedef struct Quantized {
    Fenced  part[MAX_PARTS];
    Panels  panels;
    int8_t *w;           /* [rows][k]              */
    float  *dw, *wide;   /* [rows][blocks], [rows][k] */
    int     rows, k;
} Quantized;

/* Bytes of codes; the same value of a q4 code in both nibbles. */
static void fill_codes(WeightType type, unsigned char *p, size_t n, Pattern pattern)
{
    int low = 0, high = 0;
    for (int c = 1; c < 16; c++) {
        low  = q4_codebook[c] < q4_codebook[low] ? c : low;
        high = q4_codebook[c] > q4_codebook[high] ? c : high;
    }
    unsigned char least = (unsigned char)(type == WT_Q8 ? 0x80 : low * 17);
    unsigned char most  = (unsigned char)(type == WT_Q8 ? 0x7f : high * 17);
    for (size_t i = 0; i < n; i++)
        p[i] = pattern == LOWEST    ? least
               : pattern == HIGHEST ? most
               : pattern == MIXED   ? (below(2) ? least : most)
                                    : (unsigned char)draw();
}

/* Ordinary scales of both signs, where wild one in 16 is any half. */
static void fill_halves(uint16_t *p, size_t n, bool wild)
{
    for (size_t i = 0; i < n; i++)
        p[i] = wild && below(16) == 0 ? (uint16_t)draw()
                                      : (uint16_t)(0x1c00 + draw() % 0x1000 + (draw() & 0x8000));
}

static Quantized quantized_new(WeightType type, int panels, int k, Pattern pattern)
{
    Quantized m = { .rows = 16 * panels, .k = k };
    size_t    rows = (size_t)m.rows, blocks = ((size_t)k + 255) / 256;
    for (int i = 0; i < part_count(type); i++) {
        size_t n = part_bytes(type, i, k) * (size_t)panels;
        m.part[i]        = fenced(n);
        m.panels.part[i] = m.part[i].p;
        if (i == part_count(type) - 1)
            fill_halves((uint16_t *)(void *)m.part[i].p, n / 2, pattern == WILD);
        else if (i == 0)
            fill_codes(type, (unsigned char *)m.part[i].p, n, pattern);
        else /* sub-scales: every pattern of bits */
            for (size_t b = 0; b < n; b++)
                m.part[i].p[b] =
                    (char)(pattern == LOWEST || pattern == HIGHEST ? (b / 40 % 2 ? 0xee : 0xff)
                                                                   : draw());
    }
    m.w = memory(rows * (size_t)k), m.dw = memory(rows * blocks * sizeof(float));
    for (size_t r = 0; r < rows; r++)
        for (size_t s = 0; s < blocks; s++) {
            Panels sb = panel_superblock(type, panels_from(type, m.panels, (int)r / 16, k), (int)s);
            size_t from = r * (size_t)k + s * 256,
                   n = (size_t)k - s * 256 < 256 ? (size_t)k - s * 256 : 256;
            superblock_row_to_i8(type, m.w + from, sb, (int)r % 16, (int)n);
            m.dw[r * blocks + s] = superblock_scale(type, sb, (int)r % 16);
        }
    return m;
}

static void quantized_free(WeightType type, Quantized m)
{
    for (int i = 0; i < part_count(type); i++)
        fenced_free(m.part[i]);
    free(m.w), free(m.dw);
}

/* ---- Matmul of integers ---------------------------------------------------------------------- */

static void fill_integers(int16_t *q, int n, int bits, Pattern pattern, int t)
{
    int most = bits == 8 ? 127 : 32512;
    for (int i = 0; i < n; i++) {
        int sign = pattern == MIXED ? (below(2) ? 1 : -1) : t % 2 ? 1 : -1;
        q[i]     = (int16_t)(pattern >= LOWEST ? sign * most : below(2 * most + 1) - most);
    }
}

static void check_int_case(WeightType type, const Quantized *m, Integers ints, int n_tok,
                           Pattern pattern, void *scratch)
{
    size_t each = (size_t)int_each(ints), blocks = ((size_t)m->k + each - 1) / each;
    size_t k64 = ((size_t)m->k + 63) / 64 * 64;
    size_t tok = (size_t)n_tok, rows = (size_t)m->rows;
    size_t q_stride = (k64 + 31) / 32 * 32, d_stride = blocks + tok % 2;
    size_t y_stride = rows + (size_t)(m->k % 2) * 16, n_y = tok * y_stride;
    Fenced qf = fenced(tok * q_stride * 2), df = fenced(((tok - 1) * d_stride + blocks) * 4);
    int16_t *q = (int16_t *)(void *)qf.p;
    float *d = (float *)(void *)df.p, *want = guarded(n_y, 0), *bias = memory(rows * sizeof *bias);
    memset(q, 0, tok * q_stride * 2);
    for (int t = 0; t < n_tok; t++) {
        fill_integers(q + (size_t)t * q_stride, m->k, int_bits(ints), pattern, t);
        for (size_t s = 0; s < blocks; s++)
            d[(size_t)t * d_stride + s] =
                pattern == WILD && below(8) == 0 ? NAN : (float)(1 + below(1000)) * 0x1p-13f;
    }
    for (size_t r = 0; r < rows; r++)
        bias[r] = (float)below(2000) * 0x1p-3f - 100;
    const float *b = (m->k + n_tok) % 3 == 0 ? bias : NULL;
    (ints == INT8_BY_32 ? def_matmul_by_32 : def_matmul_int)(
        want, y_stride, m->w, m->dw, m->rows, q, q_stride, d, d_stride, m->k, n_tok, b);
    for (int i = 0; i < n_tables; i++) {
        float        *y = guarded(n_y, 0);
        IntMatmulArgs a = { y, y_stride, q, q_stride, d, d_stride, ints,
                            m->panels, m->rows / 16, m->k, n_tok,    b, scratch };
        memset(scratch, 0xff, KERNEL_SCRATCH);
        table[i]->matmul_int[type](&a);
        for (int t = 0; t < n_tok; t++) {
            char what[96];
            snprintf(what, sizeof what, "%d bits by %zu, token %d of %d, %d panels",
                     int_bits(ints), each, t, n_tok, m->rows / 16);
            same(i, what, m->k, y + (size_t)t * y_stride, want + (size_t)t * y_stride, rows);
            if (!untouched(y + (size_t)t * y_stride + rows, y_stride - rows))
                bad(i, "%s, k %d: wrote between its rows", what, m->k);
        }
        release(i, "y", m->k, y, n_y, 0);
    }
    fenced_free(qf), fenced_free(df), free(want - GUARD), free(bias);
}

/* ---- The same weights as floats -------------------------------------------------------------- */

static void check_wide_case(WeightType type, const Quantized *m, int n_tok, void *scratch)
{
    size_t rows = (size_t)m->rows, x_stride = ((size_t)m->k + 15) / 16 * 16,
           n_y = (size_t)n_tok * rows;
    Fenced xf = fenced((size_t)n_tok * x_stride * 4);
    float *x = (float *)(void *)xf.p, *want = guarded(n_y, 0), *bias = memory(rows * sizeof *bias);
    for (size_t i = 0; i < (size_t)n_tok * x_stride; i++)
        x[i] = i % x_stride < (size_t)m->k ? (float)(int32_t)draw() * 0x1p-31f : NAN;
    for (size_t r = 0; r < rows; r++)
        bias[r] = (float)below(2000) * 0x1p-3f - 100;
    const float *b = m->k % 2 ? bias : NULL;
    def_matmul_wide(want, rows, m->w, m->dw, m->rows, x, x_stride, m->k, n_tok, b);
    for (int i = 0; i < n_tables; i++) {
        float     *y = guarded(n_y, 0);
        MatmulArgs a = { y, rows, x, x_stride, m->panels, m->rows / 16, m->k, n_tok, b, scratch };
        table[i]->matmul[type](&a);
        same(i, "y", m->k, y, want, n_y);
        release(i, "y", m->k, y, n_y, 0);
    }
    fenced_free(xf), free(want - GUARD), free(bias);
}

/* ---- All sizes ------------------------------------------------------------------------------- */

static const int ks[]   = {
    1, 15, 16, 17, 63, 64, 65, 200, 255, 256, 257, 320, 511, 513, 2048, 2125
};
static const int toks[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 24, 25, 33, 48, 70 };
enum { N_KS = sizeof ks / sizeof *ks, N_TOKS = sizeof toks / sizeof *toks };

static void check_matmuls(WeightType type, void *scratch, bool wide)
{
    static char name[32];
    snprintf(name, sizeof name, wide ? "matmul[%s]" : "matmul_int[%s]", weight_type_name(type));
    current = name;
    for (int c = 0; c < N_KS; c++)
        for (int j = 0; j < N_TOKS; j++) {
            int k = ks[c], n_tok = toks[j], panels = 1 + (3 * c + j) % 9;
            if ((quick || wide) && (5 * c + j) % 7 != 0)
                continue;
            if ((int64_t)k * n_tok > 2048 * 24 && j + 1 < N_TOKS)
                continue;
            Pattern   pattern = (Pattern)((c + j) % N_PATTERNS);
            Quantized m =
                quantized_new(type, k > 1000 && n_tok > 8 ? 1 + panels % 3 : panels, k, pattern);
            if (wide)
                check_wide_case(type, &m, n_tok, scratch);
            for (int i = type == WT_Q8 ? INT8_BY_32 : INT8; !wide && i <= INT16; i++)
                check_int_case(type, &m, (Integers)i, n_tok, pattern, scratch);
            quantized_free(type, m);
        }
    report();
}

/* More than one slice of scratch: long rows in stream, many tokens in blocks. */
static void check_slices(WeightType type, void *scratch)
{
    static char name[32];
    snprintf(name, sizeof name, "matmul_int[%s] slices", weight_type_name(type));
    current = name;
    static const struct { int k, n_tok, panels; } big[] = {
        { 40000, 8, 1 }, { 300000, 1, 1 }, { 3000, 70, 3 }, { 600, 600, 2 } };
    for (int i = 0; i < 4; i++) {
        Quantized m = quantized_new(type, big[i].panels, big[i].k, i % 2 ? RANDOM : MIXED);
        for (int j = type == WT_Q8 ? INT8_BY_32 : INT8; j <= INT16; j++)
            check_int_case(type, &m, (Integers)j, big[i].n_tok, i % 2 ? RANDOM : MIXED, scratch);
        quantized_free(type, m);
    }
    report();
}

/* ---- Activations ----------------------------------------------------------------------------- */

static const float odd_values[] = { 0.0f, -0.0f, 1e-45f, 0x1p-100f, -0x1.fffffep-101f, 0x1p-101f,
                                    3.4028235e38f, INFINITY, -INFINITY, NAN };

/* Numbers of one size for each 32, or for each superblock; where wild, one in 300 is odd and some
 * of these groups are tiny or zero. */
static void fill_activations(float *x, int n, int each, bool wild)
{
    float size = 1;
    for (int i = 0; i < n; i++) {
        if (i % each == 0)
            size = !wild ? 4.0f
                : below(4) == 0 ? 0x1p-101f
                : below(4) == 0 ? 0x1p-99f
                : below(8) == 0 ? 0.0f
                                : 0x1p120f;
        x[i] = (float)(int32_t)draw() * 0x1p-31f * size;
        if (wild && below(300) == 0)
            x[i] = odd_values[below((int)(sizeof odd_values / sizeof *odd_values))];
    }
}

static void check_quantize(void)
{
    current = "quantize";
    for (int c = 0; c < 900; c += quick ? 7 : 1) {
        Integers ints = (Integers)(INT8_BY_32 + c % 3);
        int     n = c < 400 ? c + 1 : c < 700 ? 256 : 1 + below(3000), each = int_each(ints);
        int     k64 = (n + 63) / 64 * 64, blocks = (n + each - 1) / each;
        int16_t want[4096] = { 0 };
        float   want_d[96];
        Fenced  x = fenced((size_t)n * 4);
        fill_activations((float *)(void *)x.p, n, c % 2 ? 256 : 32, c % 5 > 1);
        for (int s = 0; s < blocks; s++)
            want_d[s] = def_quantize(want + each * s, (float *)(void *)x.p + each * s,
                                     n - each * s < each ? n - each * s : each, int_bits(ints));
        for (int i = 0; i < n_tables; i++) {
            Fenced q = fenced((size_t)k64 * 2);
            float *d = guarded((size_t)blocks, 0);
            memset(q.p, 0x55, (size_t)k64 * 2);
            table[i]->quantize((int16_t *)(void *)q.p, d, (float *)(void *)x.p, n, ints);
            same(i, "scales", n, d, want_d, (size_t)blocks);
            for (int j = 0; j < k64; j++)
                if (((int16_t *)(void *)q.p)[j] != want[j]) {
                    bad(i, "%d bits by %d, n %d: integer %d is %d, expected %d", int_bits(ints),
                        each, n, j, ((int16_t *)(void *)q.p)[j], want[j]);
                    break;
                }
            release(i, "scales", n, d, (size_t)blocks, 0);
            fenced_free(q);
        }
        fenced_free(x);
    }
    report();
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        quick |= strcmp(argv[i], "--quick") == 0;
    find_tables();
    void *scratch = memory(KERNEL_SCRATCH);
    check_quantize();
    for (int t = WT_FLOATS; t < WT_MADE; t++) {
        check_matmuls((WeightType)t, scratch, false);
        check_matmuls((WeightType)t, scratch, true);
        if (quick)
            printf("skip matmul_int[%s] slices: --quick\n", weight_type_name((WeightType)t));
        else
            check_slices((WeightType)t, scratch);
    }
    free(scratch);
    return failures != 0;
}
