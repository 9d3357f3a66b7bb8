#include "base/number.h"
#include "format/tensors.h"
#include "quant/quant.h"
#include "test.h"

/* Recorded: tests/data/README.md. */
static const char *const files[] = { "tests/data/gguf/blocks.safetensors",
                                     "tests/data/gguf/block-edges.safetensors" };

/* The first element that differs, or n. */
static size_t first_difference(const float *a, const float *b, size_t n)
{
    size_t i = 0;
    while (i < n && f32_bits(a[i]) == f32_bits(b[i]))
        i++;
    return i;
}

static bool compare_type(const TensorFile *f, BlockType type, int offset)
{
    char name[64];
    snprintf(name, sizeof name, "dequantize.%s.raw", block_type_name(type));
    const Tensor *raw = tensor_find(f, name);
    snprintf(name, sizeof name, "dequantize.%s.values", block_type_name(type));
    const Tensor *values = tensor_find(f, name);
    if (!raw || !values)
        return false;
    size_t n = values->n_elements;
    CHECK(raw->n_bytes / block_bytes(type) * block_elements(type) == n
              && raw->n_bytes % block_bytes(type) == 0,
          "%s: sizes", name);
    float         *got = malloc((n + 1) * sizeof *got), *expected = malloc(n * sizeof *expected);
    unsigned char *in = malloc(raw->n_bytes + 8);
    memcpy(expected, values->data, values->n_bytes);
    memcpy(in + offset, raw->data, raw->n_bytes);
    got[n] = 42;
    blocks_to_f32(type, got, in + offset, n);
    size_t i = first_difference(got, expected, n);
    if (i < n)
        CHECK(false, "%s: element %zu is %a, expected %a", name, i, got[i], expected[i]);
    CHECK(got[n] == 42, "%s: wrote past the end", name);
    free(got);
    free(expected);
    free(in);
    return true;
}

static int compare_file(const char *path)
{
    TensorFile f;
    Error      e = { 0 };
    int        n = 0;
    CHECK(safetensors_open(&f, path, &e), "%s", e.msg);
    for (int t = 0; t < BLOCK_TYPES; t++)
        for (int offset = 0; offset < 3; offset++)
            n += compare_type(&f, (BlockType)t, offset);
    tensor_file_close(&f);
    return n;
}

/* Random blocks, so that every bit is set somewhere. */
static void twins_stand_for_the_same_floats(void)
{
    enum { N = 4096, LARGEST = 210 };
    static unsigned char in[N / 32 * 40], twin[N / 32 * 40];
    static float         a[N], b[N];
    int                  turned = 0;
    srand(7);
    for (int t = 0; t < BLOCK_TYPES; t++) {
        BlockType type = (BlockType)t, as = block_twin(type);
        CHECK(block_elements(as) == block_elements(type) && block_twin(as) == as, "%s",
              block_type_name(type));
        if (as == type)
            continue;
        size_t n_bytes = N / block_elements(type) * block_bytes(type);
        for (size_t i = 0; i < n_bytes; i++)
            in[i] = (unsigned char)(rand() >> 7);
        blocks_to_twin(type, twin, in, N);
        blocks_to_f32(type, a, in, N);
        blocks_to_f32(as, b, twin, N);
        for (size_t i = 0; i < N; i++)
            CHECK(f32_bits(a[i]) == f32_bits(b[i]) || (a[i] != a[i] && b[i] != b[i]),
                  "%s as %s: element %zu is %a, expected %a",
                  block_type_name(type), block_type_name(as), i, (double)b[i], (double)a[i]);
        turned++;
    }
    CHECK(turned == 3, "%d types", turned);
}

static void blocks_are_the_floats_of_the_gguf_package(void)
{
    int n = compare_file(files[0]);
    CHECK(n == 3 * (BLOCK_TYPES - 1), "%d compared", n); /* there is no MXFP4 among them */
}

static void blocks_at_the_ends_of_their_range_are_too(void)
{
    int n = compare_file(files[1]);
    CHECK(n == 3 * BLOCK_TYPES, "%d compared", n);
}

static void bytes_per_block_are_those_of_ggml(void)
{
    static const struct { const char *name; size_t elements, bytes; } ggml[] = {
        { "Q4_0", 32, 18 }, { "Q4_1", 32, 20 }, { "Q5_0", 32, 22 }, { "Q5_1", 32, 24 },
        { "Q8_0", 32, 34 }, { "Q2_K", 256, 84 },
        { "Q3_K", 256, 110 }, { "Q4_K", 256, 144 }, { "Q5_K", 256, 176 }, { "Q6_K", 256, 210 },
        { "IQ4_NL", 32, 18 },
        { "IQ4_XS", 256, 136 }, { "MXFP4", 32, 17 },
    };
    CHECK(sizeof ggml / sizeof *ggml == BLOCK_TYPES, "a type is missing");
    for (int t = 0; t < BLOCK_TYPES; t++) {
        DType d = (DType)(DT_BLOCKS + t);
        CHECK(strcmp(block_type_name((BlockType)t), ggml[t].name) == 0 && strcmp(dtype_name(d),
            ggml[t].name) == 0, "%s", ggml[t].name);
        CHECK(block_elements((BlockType)t) == ggml[t].elements
                  && dtype_block_elements(d) == ggml[t].elements,
              "%s", ggml[t].name);
        CHECK(block_bytes((BlockType)t) == ggml[t].bytes && dtype_block_bytes(d) == ggml[t].bytes,
              "%s", ggml[t].name);
        CHECK(dtype_blocked(d) && dtype_block_type(d) == (BlockType)t, "%s", ggml[t].name);
    }
    CHECK(!dtype_blocked(DT_U64) && dtype_block_elements(DT_F16) == 1
              && dtype_block_bytes(DT_F16) == 2,
          "f16");
}

static void shapes_of_blocks_have_whole_rows(void)
{
    size_t n, bytes;
    CHECK(shape_bytes(DT_Q4_K, 2, (const int64_t[]){ 3, 512 }, &n,
                      &bytes) && n == 1536 && bytes == 6 * 144, "%zu bytes", bytes);
    CHECK(!shape_bytes(DT_Q4_K, 2, (const int64_t[]){ 256, 3 }, &n, &bytes), "rows of 3");
    CHECK(!shape_bytes(DT_Q8_0, 0, NULL, &n, &bytes), "a scalar");
    CHECK(!shape_bytes(DT_Q8_0, 2, (const int64_t[]){ INT64_MAX, 32 }, &n, &bytes), "overflow");
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(twins_stand_for_the_same_floats);
    TEST(blocks_are_the_floats_of_the_gguf_package);
    TEST(blocks_at_the_ends_of_their_range_are_too);
    TEST(bytes_per_block_are_those_of_ggml);
    TEST(shapes_of_blocks_have_whole_rows);
    return TEST_END();
}
