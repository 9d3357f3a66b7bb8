/* The GGUF types: blocks laid out as panels stand for the values that the gguf Python package
 * gives, bit for bit. */
#include <string.h>

#include "../kernels/definition_blocks.h"
#include "format/tensors.h"
#include "test.h"

static const WeightType gguf_types[] = { WT_Q8_0, WT_Q4_0, WT_Q4_1, WT_Q5_0, WT_Q5_1, WT_Q2_K,
                                          WT_Q3_K, WT_Q4_K, WT_Q5_K, WT_Q6_K, WT_IQ4_NL, WT_IQ4_XS,
                                          WT_MXFP4, WT_Q8_16 };
static const char *const gguf_names[] = { "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K",
                                          "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS",
                                          "MXFP4", NULL };
enum { N_TYPES = sizeof gguf_types / sizeof *gguf_types, MAX_K = 512 };

typedef struct Panel {
    _Alignas(64) unsigned char part[MAX_PARTS][16 * MAX_K];
    Panels p;
} Panel;
static Panel panel;

static void make_panel(WeightType t, const uint8_t *rows, int n_rows, int k)
{
    void *to[MAX_PARTS];
    memset(panel.part, 0x5a, sizeof panel.part);
    for (int i = 0; i < MAX_PARTS; i++)
        panel.p.part[i] = to[i] = panel.part[i];
    panel_from_blocks(t, to, rows, gguf_row_bytes(t, k), n_rows, k);
}

/* One panel of n_rows rows, and zeros behind them. */
static void check_rows(WeightType t, const char *name, const uint8_t *raw, const float *values,
                       int n_rows, int k)
{
    float row[MAX_K];
    make_panel(t, raw, n_rows, k);
    for (int r = 0; r < 16; r++) {
        panel_row_to_f32(t, row, panel.p, r, k);
        if (r < n_rows) {
            CHECK(memcmp(row, values + (size_t)r * (size_t)k, (size_t)k * sizeof *row) == 0,
                  "%s row %d", name, r);
            continue;
        }
        for (int c = 0; c < k; c++)
            CHECK(f32_bits(row[c]) == 0, "%s: missing row %d is %g", name, r, (double)row[c]);
    }
}

static void check_type(const TensorFile *f, WeightType t, const char *type_name)
{
    char name[64];
    snprintf(name, sizeof name, "dequantize.%s.raw", type_name);
    const Tensor *raw = tensor_find(f, name);
    snprintf(name, sizeof name, "dequantize.%s.values", type_name);
    const Tensor *values = tensor_find(f, name);
    CHECK(raw && values && raw->rank == 2 && values->shape[1] <= MAX_K, "%s", name);
    if (!raw || !values)
        return;
    int rows = (int)values->shape[0], k = (int)values->shape[1];
    CHECK(gguf_row_bytes(t, k) == (size_t)raw->shape[1], "%s: bytes of a row", name);
    for (int r = 0; r < rows; r += 16)
        check_rows(t, name, (const uint8_t *)raw->data + (size_t)r * gguf_row_bytes(t, k),
                   (const float *)values->data + (size_t)r * (size_t)k,
                   rows - r < 16 ? rows - r : 16, k);
}

static void panels_hold_what_the_gguf_package_reads(void)
{
    TensorFile f, edges;
    Error      err;
    bool       open = safetensors_open(&f, "tests/data/gguf/blocks.safetensors", &err),
         more = safetensors_open(&edges, "tests/data/gguf/block-edges.safetensors", &err);
    CHECK(open && more, "%s", err.msg);
    for (int i = 0; open && more && i < N_TYPES && gguf_names[i]; i++) /* of MXFP4, all */
        check_type(gguf_types[i] == WT_MXFP4 ? &edges : &f, gguf_types[i], gguf_names[i]);
    tensor_file_close(&f);
    tensor_file_close(&edges);
}

static uint64_t state = 1;
static uint8_t  random_byte(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint8_t)(state >> 40);
}

/* Every bit pattern, scales that are no number too: integers, and values in the formula's order. */
static void any_bits_are_read_as_they_lie(void)
{
    static uint8_t rows[16 * 552];
    static float   row[MAX_K];
    for (int i = 0; i < N_TYPES * 20; i++) {
        WeightType t = gguf_types[i % N_TYPES];
        int        k = i < 50 ? MAX_K : 256, n = def_block_k(t);
        size_t     bytes = gguf_row_bytes(t, k);
        for (size_t j = 0; j < 16 * bytes; j++)
            rows[j] = random_byte();
        make_panel(t, rows, 16, k);
        for (int r = 0; r < 16; r++) {
            panel_row_to_f32(t, row, panel.p, r, k);
            for (int c = 0; c < k; c++) {
                DefBlock b;
                BlockRow got;
                def_block(t, rows + (size_t)r * bytes + (size_t)(c / n * def_block_bytes(t)), &b);
                panel_block_row(t, &got, panel_superblock(t, panel.p, c / 256), r, 256);
                float want = def_block_value(t, &b, c % n);
                CHECK(got.code[c % 256] == b.code[c % n], "%s [%d, %d]: code %d, expected %d",
                      weight_type_name(t), r, c,
                      got.code[c % 256], b.code[c % n]);
                CHECK(f32_bits(row[c]) == f32_bits(want) || (row[c] != row[c] && want != want),
                      "%s [%d, %d]: %a, expected %a",
                      weight_type_name(t), r, c, (double)row[c], (double)want);
            }
        }
    }
}

static void parts_have_the_stored_shapes(void)
{
    static const struct {
        WeightType  type;
        int         part;
        const char *suffix;
        ElementType element;
        int         rank;
        int64_t     shape[4];
        size_t      bytes;
    } want[] = {
        { WT_Q8_0, 0, "", EL_I8, 4, { 3, 128, 16, 4 }, 8192 },
         { WT_Q8_0, 1, ".d", EL_F16, 3, { 3, 16, 16 }, 512 },
        { WT_Q4_0, 0, "", EL_U8, 4, { 3, 128, 16, 2 }, 4096 },
         { WT_Q4_0, 1, ".d", EL_F16, 3, { 3, 16, 16 }, 512 },
        { WT_Q4_1, 0, "", EL_U8, 4, { 3, 128, 16, 2 }, 4096 },
         { WT_Q4_1, 1, ".d", EL_F16, 4, { 3, 16, 2, 16 }, 1024 },
        { WT_Q5_0, 0, "", EL_U8, 4, { 3, 16, 5, 64 }, 5120 },
         { WT_Q5_0, 1, ".d", EL_F16, 3, { 3, 16, 16 }, 512 },
        { WT_Q5_1, 1, ".d", EL_F16, 4, { 3, 16, 2, 16 }, 1024 },
        { WT_Q2_K, 0, "", EL_U8, 3, { 3, 32, 64 }, 2048 },
         { WT_Q2_K, 1, ".s", EL_U8, 4, { 3, 8, 16, 4 }, 512 },
        { WT_Q2_K, 2, ".d", EL_F16, 4, { 3, 2, 2, 16 }, 128 },
        { WT_Q3_K, 0, "", EL_U8, 4, { 3, 16, 3, 64 }, 3072 },
         { WT_Q3_K, 1, ".s", EL_U8, 4, { 3, 2, 3, 64 }, 384 },
        { WT_Q3_K, 2, ".d", EL_F16, 3, { 3, 2, 16 }, 64 },
        { WT_Q4_K, 0, "", EL_U8, 4, { 3, 128, 16, 2 }, 4096 },
         { WT_Q4_K, 1, ".s", EL_U8, 4, { 3, 2, 3, 64 }, 384 },
        { WT_Q4_K, 2, ".d", EL_F16, 4, { 3, 2, 2, 16 }, 128 },
         { WT_Q5_K, 0, "", EL_U8, 4, { 3, 16, 5, 64 }, 5120 },
        { WT_Q5_K, 1, ".s", EL_U8, 4, { 3, 2, 3, 64 }, 384 },
          { WT_Q5_K, 2, ".d", EL_F16, 4, { 3, 2, 2, 16 }, 128 },
        { WT_Q6_K, 0, "", EL_U8, 4, { 3, 32, 3, 64 }, 6144 },
          { WT_Q6_K, 1, ".s", EL_I8, 4, { 3, 8, 16, 4 }, 512 },
        { WT_Q8_16, 0, "", EL_I8, 4, { 3, 128, 16, 4 }, 8192 },
          { WT_Q8_16, 1, ".s", EL_I8, 4, { 3, 8, 16, 4 }, 512 },
        { WT_Q8_16, 2, ".d", EL_F32, 3, { 3, 2, 16 }, 128 },
        { WT_Q6_K, 2, ".d", EL_F16, 3, { 3, 2, 16 }, 64 },
        { WT_IQ4_NL, 0, "", EL_U8, 4, { 3, 128, 16, 2 }, 4096 },
         { WT_IQ4_NL, 1, ".d", EL_F16, 3, { 3, 16, 16 }, 512 },
        { WT_IQ4_XS, 0, "", EL_U8, 4, { 3, 128, 16, 2 }, 4096 },
         { WT_IQ4_XS, 1, ".s", EL_U8, 3, { 3, 2, 96 }, 192 },
        { WT_IQ4_XS, 2, ".d", EL_F16, 3, { 3, 2, 16 }, 64 },
        { WT_MXFP4, 0, "", EL_U8, 4, { 3, 128, 16, 2 }, 4096 },
         { WT_MXFP4, 1, ".d", EL_U8, 3, { 3, 16, 16 }, 256 },
        { WT_Q4_Z32, 1, ".z", EL_U8, 3, { 3, 16, 16 }, 256 },
         { WT_Q4_Z32, 2, ".d", EL_F16, 3, { 3, 16, 16 }, 512 },
        { WT_Q4_Z128, 0, "", EL_U8, 4, { 3, 128, 16, 2 }, 4096 },
         { WT_Q4_Z128, 1, ".z", EL_U8, 3, { 3, 4, 16 }, 64 },
        { WT_Q4_Z128, 2, ".d", EL_F16, 3, { 3, 4, 16 }, 128 },
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        int64_t shape[4] = { 0 };
        int     rank = part_shape(want[i].type, want[i].part, 40, 512, shape);
        CHECK(rank == want[i].rank && memcmp(shape, want[i].shape,
                                             (size_t)rank * sizeof *shape) == 0, "shape %zu", i);
        CHECK(strcmp(part_suffix(want[i].type, want[i].part), want[i].suffix) == 0, "suffix %zu",
              i);
        CHECK(part_element(want[i].type, want[i].part) == want[i].element, "element %zu", i);
        CHECK(part_bytes(want[i].type, want[i].part, 512) == want[i].bytes, "bytes %zu", i);
    }
}

/* docs/format.md, "GGUF types": row 3, column 700 of a q5_k matrix. */
static void the_example_of_the_format_is_true(void)
{
    static uint8_t rows[16 * 3 * 176];
    static unsigned char part[MAX_PARTS][16 * 768];
    void     *to[MAX_PARTS] = { part[0], part[1], part[2] };
    DefBlock  b;
    for (size_t j = 0; j < sizeof rows; j++)
        rows[j] = random_byte();
    panel_from_blocks(WT_Q5_K, to, rows, 3 * 176, 16, 768);
    def_block(WT_Q5_K, rows + 3 * (3 * 176) + 2 * 176, &b);
    const uint8_t *s = part[1] + 2 * 3 * 64;
    CHECK(
        b.code[700 - 512]
            == (part[0][(21 * 5 + 3) * 64 + 12] >> 4 | (part[0][(21 * 5 + 4) * 64 + 12] >> 7) << 4),
        "code");
    CHECK(b.sub[5] == (s[64 + 13] & 63)
              && b.min[5] == (s[13] >> 6 | (s[64 + 13] >> 6) << 2 | (s[128 + 13] >> 6) << 4),
          "sub-block");
    CHECK(memcmp(part[2] + 2 * (2 * 32 + 3), rows + 3 * (3 * 176) + 2 * 176, 2) == 0, "scale");
    CHECK(memcmp(part[2] + 2 * (2 * 32 + 16 + 3), rows + 3 * (3 * 176) + 2 * 176 + 2, 2) == 0,
          "scale of minima");
}

/* No type takes more room than its blocks, and no k but whole blocks has a size. */
static void sizes_are_those_of_the_blocks(void)
{
    for (int i = 0; i < N_TYPES; i++) {
        WeightType t = gguf_types[i];
        int        n = weight_type_k_unit(t);
        CHECK(n == def_block_k(t) && weight_type_gguf(t), "%s: unit %d", weight_type_name(t), n);
        CHECK(panel_bytes(t, 4096) == 16 * gguf_row_bytes(t, 4096) && panel_bytes(t,
            n) == 16 * (size_t)def_block_bytes(t), "%s: bytes",
              weight_type_name(t));
        CHECK(panel_bytes(t, 4096 + n / 2) == 0 && gguf_row_bytes(t,
            n - 1) == 0 && gguf_row_bytes(t, 0) == 0, "%s: half a block",
              weight_type_name(t));
    }
    WeightType t = WT_F32;
    CHECK(!weight_type_parse_made("q4_k", &t) && t == WT_F32 && weight_type_parse_made("q4",
        &t) && t == WT_Q4, "types that are made");
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(panels_hold_what_the_gguf_package_reads);
    TEST(any_bits_are_read_as_they_lie);
    TEST(parts_have_the_stored_shapes);
    TEST(the_example_of_the_format_is_true);
    TEST(sizes_are_those_of_the_blocks);
    return TEST_END();
}
