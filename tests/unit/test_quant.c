#include "quant/quant.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "quant/codes.h"
#include "test.h"

static void names_are_read_back(void)
{
    for (int t = 0; t < WT_COUNT; t++) {
        WeightType got = WT_COUNT;
        CHECK(weight_type_parse(weight_type_name((WeightType)t), &got) && got == (WeightType)t,
              "type %d", t);
    }
    WeightType untouched = WT_F16;
    CHECK(!weight_type_parse("q5", &untouched) && untouched == WT_F16, "an unknown name was taken");
    CHECK(!weight_type_parse("", &untouched) && !weight_type_parse("F32", &untouched),
          "names are exact");
}

static void sizes_follow_the_stored_shape(void)
{
    static const int rows[] = { 1, 15, 16, 17, 32, 128256 },
                     ks[] = { 1, 2, 3, 255, 256, 257, 8192 };
    for (int t = 0; t < WT_FLOATS; t++)
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 7; j++) {
                int64_t shape[4];
                size_t  n = 0, product = weight_type_bytes((WeightType)t);
                int     rank = part_shape((WeightType)t, 0, rows[i], ks[j], shape);
                CHECK(rank == (t == WT_BF16 ? 4 : 3), "rank %d", rank);
                for (int d = 0; d < rank; d++)
                    product *= (size_t)shape[d];
                CHECK(matrix_bytes((WeightType)t, rows[i], ks[j], &n) && n == product,
                      "%zu bytes, shape says %zu", n, product);
                CHECK(panel_bytes((WeightType)t, ks[j]) * (size_t)panel_count(rows[i]) == n,
                      "panels of [%d, %d]", rows[i], ks[j]);
            }
}

static void impossible_sizes_are_refused(void)
{
    size_t n;
    CHECK(panel_bytes(WT_F32, 0) == 0 && panel_bytes(WT_BF16, -1) == 0, "k < 1");
    CHECK(!matrix_bytes(WT_F32, 0, 4, &n) && !matrix_bytes(WT_F32, -3, 4,
                                                           &n) && !matrix_bytes(WT_F32, 4, 0, &n),
    "no elements");
    CHECK(panel_count(INT_MAX) == INT_MAX / 16 + 1, "panel_count overflows");
    CHECK(matrix_bytes(WT_F32, INT_MAX, 1, &n) && n == ((size_t)INT_MAX / 16 + 1) * 64,
          "the largest row count");
    CHECK(matrix_bytes(WT_BF16, 16, INT_MAX, &n) && n == ((size_t)INT_MAX / 2 + 1) * 64,
          "the largest k");
    CHECK(matrix_bytes(WT_F32, INT_MAX, INT_MAX,
                       &n) == (n / 64 / ((size_t)INT_MAX / 16 + 1) == (size_t)INT_MAX), "overflow");
}

/* Element (r, c) of a panel as docs/format.md places it. */
static size_t place(WeightType t, int r, int c)
{
    return t == WT_BF16 ? ((size_t)(c / 2) * 16 + (size_t)r) * 2 + (size_t)(c % 2)
                        : (size_t)c * 16 + (size_t)r;
}

static void packed_rows_lie_where_the_format_says(void)
{
    enum { MAX_K = 37 };
    for (int t = 0; t < WT_FLOATS; t++)
        for (int k = 1; k <= MAX_K; k += 3)
            for (int n_rows = 1; n_rows <= 16; n_rows += 5) {
                WeightType    type = (WeightType)t;
                size_t size = weight_type_bytes(type), bytes = panel_bytes(type, k), used = 0;
                unsigned char rows[16 * MAX_K * 4], panel[16 * (MAX_K + 1) * 4 + 1];
                for (size_t i = 0; i < sizeof rows; i++)
                    rows[i] = (unsigned char)(i * 37 % 251 + 1);
                memset(panel, 0xee, sizeof panel);
                panel_pack(type, panel, rows, n_rows, k);
                for (int r = 0; r < n_rows; r++)
                    for (int c = 0; c < k; c++)
                        CHECK(memcmp(panel + place(type, r, c) * size,
                                     rows + (size_t)(r * k + c) * size, size) == 0,
                              "%s [%d, %d] of [%d, %d]", weight_type_name(type), r, c, n_rows, k);
                for (size_t i = 0; i < bytes; i++)
                    used += panel[i] != 0;
                CHECK(used == (size_t)(n_rows * k) * size, "padding is not 0");
                CHECK(panel[bytes] == 0xee, "wrote behind the panel");
            }
}

static void panels_are_read_back_row_by_row(void)
{
    enum { K = 9 };
    for (int t = 0; t < WT_FLOATS; t++) {
        WeightType    type = (WeightType)t;
        float         in[3 * K], row[K];
        unsigned char data[3 * K * 4], panel[16 * (K + 1) * 4];
        for (int i = 0; i < 3 * K; i++)
            in[i] = (float)(i - 11) * 0.25f;
        elements_from_f32(type, data, in, 3 * K);
        panel_pack(type, panel, data, 3, K);
        for (int r = 0; r < 16; r++) {
            panel_row_to_f32(type, row, (Panels){ { panel } }, r, K);
            for (int c = 0; c < K; c++)
                CHECK(row[c] == (r < 3 ? in[r * K + c] : 0.0f), "%s [%d, %d] is %g",
                      weight_type_name(type), r, c, (double)row[c]);
        }
    }
}

/* The integers of a quantized row, read from docs/format.md without a look at quant.c. */
static int stored_integer(WeightType type, const Panels *p, int r, int c)
{
    const uint8_t *codes = p->part[0], *subs = p->part[1];
    if (type == WT_Q8)
        return ((const int8_t *)codes)[c / 4 * 64 + r * 4 + c % 4];
    int nibble = codes[c / 8 * 64 + r * 4 + c % 4] >> (c % 8 < 4 ? 0 : 4) & 15;
    const uint8_t *group = subs + c / 64 * 40;
    int sub       = c % 64 / 16;
    int magnitude = group[sub / 2 * 16 + r] >> sub % 2 * 4 & 15;
    int negative  = (group[32 + sub * 2] | group[33 + sub * 2] << 8) >> r & 1;
    return q4_codebook[nibble] * q4_magnitude[magnitude] * (negative ? -1 : 1);
}

static void check_quantized(WeightType type, int n_rows, int k)
{
    enum { MAX_K = 600 };
    static float rows[16 * MAX_K], row[MAX_K];
    static _Alignas(64) unsigned char part[MAX_PARTS][64 * 1024];
    for (int i = 0; i < n_rows * k; i++)
        rows[i] = (float)((i * 7919 + 13) % 2003 - 1001) / 512.0f;
    void *to[MAX_PARTS] = { part[0], part[1], part[2] };
    panel_quantize(type, to, rows, NULL, n_rows, k);
    Panels p = { { part[0], part[1], part[2] } };
    for (int r = 0; r < 16; r++) {
        panel_row_to_f32(type, row, p, r, k);
        for (int c = 0; c < k; c++) {
            float d    = f16_to_f32(
                   ((const uint16_t *)(const void *)part[part_count(type) - 1])[c / 256 * 16 + r]);
            float want = d * (float)stored_integer(type, &p, r, c),
                  x = r < n_rows ? rows[r * k + c] : 0;
            CHECK(row[c] == want, "%s [%d, %d]: %g, stored is %g", weight_type_name(type), r, c,
                  (double)row[c], (double)want);
            CHECK(fabsf(row[c] - x) <= (type == WT_Q8 ? 0.01f : 0.35f),
                  "%s [%d, %d] of %d: %g became %g", weight_type_name(type),
                  r, c, k, (double)x, (double)row[c]);
            CHECK(r < n_rows || row[c] == 0, "padding row %d is %g", r, (double)row[c]);
        }
    }
}

static void quantized_rows_lie_where_the_format_says(void)
{
    static const int ks[] = { 1, 15, 16, 63, 64, 65, 255, 256, 257, 600 };
    for (int t = WT_FLOATS; t < WT_MADE; t++)
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
            check_quantized((WeightType)t, i % 2 ? 16 : 5, ks[i]);
}

static void parts_have_the_stored_shapes(void)
{
    static const struct {
        WeightType type; int part; const char *suffix; int rank; int64_t shape[4]; size_t bytes;
    } want[] = {
        { WT_Q8, 0, "", 4, { 3, 80, 16, 4 }, 5120 },  { WT_Q8, 1, ".d", 3, { 3, 2, 16 }, 64 },
        { WT_Q4, 0, "", 4, { 3, 80, 16, 2 }, 2560 },  { WT_Q4, 1, ".s", 3, { 3, 5, 40 }, 200 },
        { WT_Q4, 2, ".d", 3, { 3, 2, 16 }, 64 },
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        int64_t shape[4] = { 0 };
        int     rank = part_shape(want[i].type, want[i].part, 40, 300, shape);
        CHECK(rank == want[i].rank && memcmp(shape, want[i].shape,
                                             (size_t)rank * sizeof *shape) == 0, "shape %zu", i);
        CHECK(strcmp(part_suffix(want[i].type, want[i].part), want[i].suffix) == 0, "suffix %zu",
              i);
        CHECK(part_bytes(want[i].type, want[i].part, 300) == want[i].bytes, "bytes %zu", i);
    }
    size_t n;
    CHECK(matrix_bytes(WT_Q4, 4096, 4096, &n) && n * 8 == (size_t)4096 * 4096 / 8 * 35,
          "q4 is 4.375 bits a weight");
}

static void halves_survive_a_round_trip(void)
{
    for (int t = WT_F16; t <= WT_BF16; t++)
        for (uint32_t i = 0; i < 65536; i++) {
            uint16_t h = (uint16_t)i, back = 0;
            float    f;
            elements_to_f32((WeightType)t, &f, &h, 1);
            elements_from_f32((WeightType)t, &back, &f, 1);
            CHECK(back == h || f != f, "%s %04x comes back as %04x",
                  weight_type_name((WeightType)t), i, back);
        }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(names_are_read_back);
    TEST(sizes_follow_the_stored_shape);
    TEST(impossible_sizes_are_refused);
    TEST(packed_rows_lie_where_the_format_says);
    TEST(panels_are_read_back_row_by_row);
    TEST(quantized_rows_lie_where_the_format_says);
    TEST(parts_have_the_stored_shapes);
    TEST(halves_survive_a_round_trip);
    return TEST_END();
}
