#include "quant/quant.h"

#include <limits.h>
#include <math.h>

#include "base/half.h"
#include "test.h"

static void names_are_read_back(void)
{
    for (int t = 0; t < WT_COUNT; t++) {
        WeightType got = WT_COUNT;
        CHECK(weight_type_parse(weight_type_name((WeightType)t), &got) && got == (WeightType)t, "type %d", t);
    }
    WeightType untouched = WT_F16;
    CHECK(!weight_type_parse("q4", &untouched) && untouched == WT_F16, "an unknown name was taken");
    CHECK(!weight_type_parse("", &untouched) && !weight_type_parse("F32", &untouched), "names are exact");
}

static void sizes_follow_the_stored_shape(void)
{
    static const int rows[] = { 1, 15, 16, 17, 32, 128256 }, ks[] = { 1, 2, 3, 255, 256, 257, 8192 };
    for (int t = 0; t < WT_COUNT; t++)
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 7; j++) {
                int64_t shape[4];
                size_t  n = 0, product = weight_type_bytes((WeightType)t);
                int     rank = panel_shape((WeightType)t, rows[i], ks[j], shape);
                CHECK(rank == (t == WT_BF16 ? 4 : 3), "rank %d", rank);
                for (int d = 0; d < rank; d++)
                    product *= (size_t)shape[d];
                CHECK(matrix_bytes((WeightType)t, rows[i], ks[j], &n) && n == product, "%zu bytes, shape says %zu", n, product);
                CHECK(panel_bytes((WeightType)t, ks[j]) * (size_t)panel_count(rows[i]) == n, "panels of [%d, %d]", rows[i], ks[j]);
            }
}

static void impossible_sizes_are_refused(void)
{
    size_t n;
    CHECK(panel_bytes(WT_F32, 0) == 0 && panel_bytes(WT_BF16, -1) == 0, "k < 1");
    CHECK(!matrix_bytes(WT_F32, 0, 4, &n) && !matrix_bytes(WT_F32, -3, 4, &n) && !matrix_bytes(WT_F32, 4, 0, &n), "no elements");
    CHECK(panel_count(INT_MAX) == INT_MAX / 16 + 1, "panel_count overflows");
    CHECK(matrix_bytes(WT_F32, INT_MAX, 1, &n) && n == ((size_t)INT_MAX / 16 + 1) * 64, "the largest row count");
    CHECK(matrix_bytes(WT_BF16, 16, INT_MAX, &n) && n == ((size_t)INT_MAX / 2 + 1) * 64, "the largest k");
    CHECK(matrix_bytes(WT_F32, INT_MAX, INT_MAX, &n) == (n / 64 / ((size_t)INT_MAX / 16 + 1) == (size_t)INT_MAX), "overflow");
}

/* Element (r, c) of a panel as docs/format.md places it. */
static size_t place(WeightType t, int r, int c)
{
    return t == WT_BF16 ? ((size_t)(c / 2) * 16 + (size_t)r) * 2 + (size_t)(c % 2) : (size_t)c * 16 + (size_t)r;
}

static void packed_rows_lie_where_the_format_says(void)
{
    enum { MAX_K = 37 };
    for (int t = 0; t < WT_COUNT; t++)
        for (int k = 1; k <= MAX_K; k += 3)
            for (int n_rows = 1; n_rows <= 16; n_rows += 5) {
                WeightType    type = (WeightType)t;
                size_t        size = weight_type_bytes(type), bytes = panel_bytes(type, k), used = 0;
                unsigned char rows[16 * MAX_K * 4], panel[16 * (MAX_K + 1) * 4 + 1];
                for (size_t i = 0; i < sizeof rows; i++)
                    rows[i] = (unsigned char)(i * 37 % 251 + 1);
                memset(panel, 0xee, sizeof panel);
                panel_pack(type, panel, rows, n_rows, k);
                for (int r = 0; r < n_rows; r++)
                    for (int c = 0; c < k; c++)
                        CHECK(memcmp(panel + place(type, r, c) * size, rows + (size_t)(r * k + c) * size, size) == 0,
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
    for (int t = 0; t < WT_COUNT; t++) {
        WeightType    type = (WeightType)t;
        float         in[3 * K], row[K];
        unsigned char data[3 * K * 4], panel[16 * (K + 1) * 4];
        for (int i = 0; i < 3 * K; i++)
            in[i] = (float)(i - 11) * 0.25f;
        elements_from_f32(type, data, in, 3 * K);
        panel_pack(type, panel, data, 3, K);
        for (int r = 0; r < 16; r++) {
            panel_row_to_f32(type, row, panel, r, K);
            for (int c = 0; c < K; c++)
                CHECK(row[c] == (r < 3 ? in[r * K + c] : 0.0f), "%s [%d, %d] is %g", weight_type_name(type), r, c, (double)row[c]);
        }
    }
}

static void halves_survive_a_round_trip(void)
{
    for (int t = WT_F16; t <= WT_BF16; t++)
        for (uint32_t i = 0; i < 65536; i++) {
            uint16_t h = (uint16_t)i, back = 0;
            float    f;
            elements_to_f32((WeightType)t, &f, &h, 1);
            elements_from_f32((WeightType)t, &back, &f, 1);
            CHECK(back == h || f != f, "%s %04x comes back as %04x", weight_type_name((WeightType)t), i, back);
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
    TEST(halves_survive_a_round_trip);
    return TEST_END();
}
