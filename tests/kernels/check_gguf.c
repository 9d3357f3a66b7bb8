/* check_gguf: the GGUF types in every table that this CPU runs, against
 * tests/kernels/definition_blocks.h bit by bit. The definition reads blocks as a GGUF file has
 * them, the kernels panels made of them. Weights, integers and scales end right before memory that
 * cannot be read.
 *   check_gguf [--quick]    (a thinner set of sizes, for emulators) */
#include "check.h"
#include "definition_blocks.h"
#include "fenced.h"

/* What a case is made of: RANDOM codes and sub-scales with ordinary scales; WILD: any bits,
 * integers whose scale is NaN too; MOST: every code, sub-scale and integer as large as it gets,
 * signs so that sums are; MIXED: extremes of both signs. */
typedef enum Pattern { RANDOM, WILD, MOST, MIXED, N_PATTERNS } Pattern;

typedef struct Matrix {
    WeightType type;
    uint8_t   *blocks;           /* [rows][row_bytes] */
    size_t     row_bytes;
    Fenced     part[MAX_PARTS];
    Panels     panels;
    int        rows, k;
} Matrix;

/* ---- Weights --------------------------------------------------------------------------------- */

static bool half_at(WeightType t, int i) /* does byte i of a block belong to a scale? */
{
    return t == WT_Q6_K ? i >= 208
        : t == WT_Q3_K  ? i >= 108
        : t == WT_Q2_K  ? i >= 80
        : t == WT_Q4_K || t == WT_Q5_K || t == WT_Q4_1 || t == WT_Q5_1 ? i < 4 : i < 2;
}

/* Ordinary scales of both signs. */
static uint16_t ordinary_half(void)
{
    return (uint16_t)(0x1c00 + draw() % 0x1000 + (draw() & 0x8000));
}

/* Of q8_16: 256 codes and 16 sub-scales, signed bytes, and a float. */
static void fill_q8_16(uint8_t *b, Pattern pattern)
{
    bool     extreme = pattern == MOST || pattern == MIXED;
    uint32_t wild = (uint32_t)draw();
    float    d = f16_to_f32(ordinary_half()) * 0.125f;
    for (int i = 0; i < 272; i++)
        b[i] = !extreme ? (uint8_t)draw() : pattern == MOST || below(2) ? 0x80 : 0x7f;
    memcpy(b + 272, pattern == WILD && below(16) == 0 ? (void *)&wild : (void *)&d, 4);
}

static void fill_block(WeightType t, uint8_t *b, Pattern pattern)
{
    bool extreme = pattern == MOST || pattern == MIXED;
    if (t == WT_Q8_16) {
        fill_q8_16(b, pattern);
        return;
    }
    for (int i = 0; i < def_block_bytes(t); i++)
        b[i] = !extreme ? (uint8_t)draw() : pattern == MOST || below(2) ? 0xff : 0;
    for (int i = 0; extreme && i < 32 && t == WT_Q8_0; i++)
        b[2 + i] = pattern == MOST || below(2) ? 0x80 : 0x7f;
    for (int i = 0; extreme && i < 20 && t == WT_Q5_0; i++)
        b[2 + i] = pattern == MOST ? 0 : b[2 + i]; /* code -16 */
    if (t == WT_IQ4_NL || t == WT_IQ4_XS)
        for (int i = 2; pattern == MOST && i < def_block_bytes(t); i++)
            b[i] = 0; /* code -127, scale -32 */
    for (int i = 0; extreme && i < 192 && t == WT_Q6_K; i++)
        b[i] = pattern == MOST ? 0 : b[i]; /* code -32 */
    for (int i = 0; extreme && i < 108 && t == WT_Q3_K; i++)
        b[i] = pattern == MOST ? 0 : b[i]; /* code -4, scale -32 */
    for (int i = 0; extreme && i < 16 && t == WT_MXFP4; i++)
        b[1 + i] = pattern == MOST || below(2) ? 0x77 : 0xff; /* codes 12, -12 */
    if (t == WT_MXFP4) {
        if (!(pattern == WILD && below(16) == 0))
            b[0] = (uint8_t)(108 + below(16));
        return;
    }
    for (int i = 0; extreme && i < 16 && t == WT_Q6_K; i++)
        b[192 + i] = pattern == MOST || below(2) ? 0x80 : 0x7f;
    if (extreme && def_group(t)) { /* codes -15 or 15; the upper bits of the zero point are none */
        b[2] = pattern == MOST || below(2) ? 0x0f : 0xf0;
        memset(b + 3, b[2] == 0x0f ? 0 : 0xff, 16);
    }
    for (int i = 0; i < def_block_bytes(t); i += 2)
        if (half_at(t, i) && !(pattern == WILD && below(16) == 0)) {
            uint16_t h = ordinary_half();
            memcpy(b + i, &h, 2);
        }
}

static Matrix matrix_new(WeightType t, int panels, int k, Pattern pattern)
{
    Matrix m = { .type = t, .rows = 16 * panels, .k = k, .row_bytes = gguf_row_bytes(t, k) };
    size_t n = m.row_bytes * (size_t)m.rows;
    m.blocks = memory(n);
    for (size_t i = 0, each = (size_t)def_block_bytes(t), in = 0; i < n; i += each, in++) {
        fill_block(t, m.blocks + i, pattern);
        in %= m.row_bytes / each; /* blocks of a group have the numbers of its first */
        if (def_group(t) && in % ((size_t)def_group(t) / 32) != 0)
            memcpy(m.blocks + i, m.blocks + i - each, 3);
    }
    for (int i = 0; i < part_count(t); i++) {
        m.part[i]        = fenced(part_bytes(t, i, k) * (size_t)panels);
        m.panels.part[i] = m.part[i].p;
    }
    for (int p = 0; p < panels; p++) {
        void *to[MAX_PARTS] = { NULL };
        for (int i = 0; i < part_count(t); i++)
            to[i] = m.part[i].p + (size_t)p * part_bytes(t, i, k);
        panel_from_blocks(t, to, m.blocks + (size_t)p * 16 * m.row_bytes, m.row_bytes, 16, k);
    }
    return m;
}

static void matrix_free(Matrix m)
{
    for (int i = 0; i < part_count(m.type); i++)
        fenced_free(m.part[i]);
    free(m.blocks);
}

/* ---- Integers -------------------------------------------------------------------------------- */

static void fill_integers(int16_t *q, int n, Pattern pattern, int t, int most)
{
    for (int i = 0; i < n; i++)
        q[i] = (int16_t)(pattern == MOST ? (t % 2 ? most : -most)
                             : pattern == MIXED ? (below(2) ? most : -most)
                                                : below(2 * most + 1) - most);
}

static float *biases(int rows)
{
    float *bias = memory((size_t)rows * sizeof *bias);
    for (int r = 0; r < rows; r++)
        bias[r] = (float)below(2000) * 0x1p-3f - 100;
    return bias;
}

static void check_int_case(const Matrix *m, int n_tok, Pattern pattern, Integers ints,
                           void *scratch)
{
    size_t each = (size_t)int_each(ints);
    size_t k64 = ((size_t)m->k + 63) / 64 * 64, blocks = ((size_t)m->k + each - 1) / each;
    size_t tok = (size_t)n_tok, rows = (size_t)m->rows;
    size_t q_stride = (k64 + 31) / 32 * 32, d_stride = blocks + tok % 2;
    size_t y_stride = rows + (size_t)(m->k / 32 % 2) * 16, n_y = tok * y_stride;
    Fenced qf = fenced(tok * q_stride * 2), df = fenced(((tok - 1) * d_stride + blocks) * 4);
    int16_t *q = (int16_t *)(void *)qf.p;
    float   *d = (float *)(void *)df.p, *want = guarded(n_y, 0), *bias = biases(m->rows);
    memset(q, 0, tok * q_stride * 2);
    for (int t = 0; t < n_tok; t++) {
        fill_integers(q + (size_t)t * q_stride, m->k, pattern, t,
                      ints == INT16 ? 32512 : 127);
        for (size_t s = 0; s < blocks; s++)
            d[(size_t)t * d_stride + s] =
                pattern == WILD && below(8) == 0 ? NAN : (float)(1 + below(1000)) * 0x1p-13f;
    }
    const float *b = (m->k / 32 + n_tok) % 3 == 0 ? bias : NULL;
    def_matmul_blocks(want, y_stride, m->type, m->blocks, m->row_bytes, m->rows, q, q_stride, d,
                      d_stride, ints, m->k, n_tok, b);
    for (int i = 0; i < n_tables; i++) {
        float        *y = guarded(n_y, 0);
        IntMatmulArgs a = { y, y_stride, q, q_stride, d, d_stride, ints,
                            m->panels, m->rows / 16, m->k, n_tok,    b, scratch };
        memset(scratch, 0xff, KERNEL_SCRATCH);
        table[i]->matmul_int[m->type](&a);
        for (int t = 0; t < n_tok; t++) {
            char what[64];
            snprintf(what, sizeof what, "pattern %d, token %d of %d, %d panels", pattern, t, n_tok,
                     m->rows / 16);
            same(i, what, m->k, y + (size_t)t * y_stride, want + (size_t)t * y_stride, rows);
            if (!untouched(y + (size_t)t * y_stride + rows, y_stride - rows))
                bad(i, "%s, k %d: wrote between its rows", what, m->k);
        }
        release(i, "y", m->k, y, n_y, 0);
    }
    fenced_free(qf), fenced_free(df), free(want - GUARD), free(bias);
}

/* ---- The same weights as floats -------------------------------------------------------------- */

static void check_wide_case(const Matrix *m, int n_tok, void *scratch)
{
    size_t rows = (size_t)m->rows, x_stride = ((size_t)m->k + 15) / 16 * 16,
           n_y = (size_t)n_tok * rows;
    Fenced xf = fenced((size_t)n_tok * x_stride * 4);
    float *x = (float *)(void *)xf.p, *want = guarded(n_y, 0), *bias = biases(m->rows);
    for (size_t i = 0; i < (size_t)n_tok * x_stride; i++)
        x[i] = (float)(int32_t)draw() * 0x1p-31f;
    const float *b = m->k / 32 % 2 ? bias : NULL;
    def_matmul_block_values(want, rows, m->type, m->blocks, m->row_bytes, m->rows, x, x_stride,
                            m->k, n_tok, b);
    for (int i = 0; i < n_tables; i++) {
        float     *y = guarded(n_y, 0);
        MatmulArgs a = { y, rows, x, x_stride, m->panels, m->rows / 16, m->k, n_tok, b, scratch };
        table[i]->matmul[m->type](&a);
        same(i, "y", m->k, y, want, n_y);
        release(i, "y", m->k, y, n_y, 0);
    }
    fenced_free(xf), free(want - GUARD), free(bias);
}

/* ---- All sizes ------------------------------------------------------------------------------- */

static const int ks[]   = { 32, 64, 96, 128, 224, 256, 288, 480, 512, 544, 768, 2048, 2144 };
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
            if (k % weight_type_k_unit(type) != 0 || ((quick || wide) && (5 * c + j) % 7 != 0))
                continue;
            if ((int64_t)k * n_tok > 2048 * 24 && j + 1 < N_TOKS)
                continue;
            Pattern pattern = (Pattern)((c + j) % N_PATTERNS);
            Matrix m =
                matrix_new(type, k > 1000 && n_tok > 8 ? 1 + panels % 3 : panels, k, pattern);
            if (wide)
                check_wide_case(&m, n_tok, scratch);
            else
                check_int_case(&m, n_tok, pattern, INT8, scratch);
            if (!wide && weight_type_has_runs(type))
                check_int_case(&m, n_tok, pattern, INT8_BY_32, scratch);
            if (!wide)
                check_int_case(&m, n_tok, pattern, INT16, scratch);
            matrix_free(m);
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
        { 39936, 8, 1 }, { 299008, 1, 1 }, { 3072, 70, 3 }, { 768, 600, 2 } };
    for (int i = 0; i < 4; i++) {
        Matrix m = matrix_new(type, big[i].panels, big[i].k, i % 2 ? RANDOM : MIXED);
        check_int_case(&m, big[i].n_tok, i % 2 ? RANDOM : MIXED,
                       weight_type_has_runs(type) && i > 1 ? INT8_BY_32 : INT8, scratch);
        check_int_case(&m, big[i].n_tok, i % 2 ? RANDOM : MIXED, INT16, scratch);
        matrix_free(m);
    }
    report();
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        quick |= strcmp(argv[i], "--quick") == 0;
    find_tables();
    void *scratch = memory(KERNEL_SCRATCH);
    for (int t = WT_MADE; t < WT_COUNT; t++) {
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
