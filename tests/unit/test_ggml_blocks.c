#include "base/hash.h"
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

/* The rows that kernels take stand for the floats of their type. Random blocks, so that every bit
 * is set somewhere. */
static void twins_stand_for_the_same_floats(void)
{
    enum { N = 4096, LARGEST = 210 };
    static unsigned char in[N / 32 * 40], twin[N / 32 * 40]; /* of Q8_16: 34.5 */
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
    CHECK(turned == 9, "%d types", turned);
}

static void blocks_are_the_floats_of_the_gguf_package(void)
{
    int n = compare_file(files[0]);
    CHECK(n == 3 * BLOCK_MXFP4, "%d compared", n); /* there is none from MXFP4 on among them */
}

static void blocks_at_the_ends_of_their_range_are_too(void)
{
    int n = compare_file(files[1]);
    CHECK(n == 3 * (BLOCK_MXFP4 + 1), "%d compared", n);
}

/* The scales of blocks of types with a codebook, and of three values: where they lie, of IQ1_M in
 * the upper four bits of four words. */
static void put_scale(BlockType type, unsigned char *block, unsigned bits)
{
    int at = type == BLOCK_TQ1_0 ? 52 : type == BLOCK_TQ2_0 ? 64 : 0;
    if (type != BLOCK_IQ1_M) {
        block[at] = (unsigned char)bits;
        block[at + 1] = (unsigned char)(bits >> 8);
    }
    for (int i = 0; type == BLOCK_IQ1_M && i < 4; i++)
        block[49 + 2 * i] = (unsigned char)((block[49 + 2 * i] & 15) | (bits >> 4 * i & 15) << 4);
}

/* Blocks of a generator, as tests/golden/make_blocks.py makes them. */
static void counted_blocks(BlockType type, unsigned char *out, int n)
{
    static const uint16_t edges[12] = { 0,     0x8000, 1,      0x8001, 0x3FF,  0x83FF,
                                        0x400, 0x8400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF };
    uint32_t state = 1;
    for (size_t i = 0; i < (size_t)n * block_bytes(type); i++) {
        state  = state * 1664525 + 1013904223;
        out[i] = (unsigned char)(state >> 24);
    }
    for (int i = 0; i < n; i++)
        put_scale(type, out + (size_t)i * block_bytes(type), edges[i % 12]);
}

static void codebook_types_are_the_floats_of_the_gguf_package(void)
{
    enum { N = 1024 };
    static const struct { BlockType type; uint64_t digest; } recorded[] = {
        { BLOCK_IQ2_XXS, UINT64_C(0x64930f99e224f3ab) },
        { BLOCK_IQ2_XS, UINT64_C(0x5d95215707941131) },
        { BLOCK_IQ2_S, UINT64_C(0xc114633ac56b5c6d) },
        { BLOCK_IQ3_XXS, UINT64_C(0xf9121c99fa4e0129) },
        { BLOCK_IQ3_S, UINT64_C(0xdcb94da4c270d7b2) },
        { BLOCK_IQ1_S, UINT64_C(0x4e13c2bb5a246073) },
        { BLOCK_IQ1_M, UINT64_C(0xab956f7292bcfde6) },
        { BLOCK_TQ1_0, UINT64_C(0x0053b4b4e800a87e) },
        { BLOCK_TQ2_0, UINT64_C(0x3a8e7b51cc04a2da) },
    };
    unsigned char *in = malloc(N * 256);
    float         *out = malloc(N * 256 * sizeof *out);
    CHECK(sizeof recorded / sizeof *recorded == BLOCK_TYPES - BLOCK_MXFP4 - 1, "a type is missing");
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
        counted_blocks(recorded[i].type, in, N);
        blocks_to_f32(recorded[i].type, out, in, N * 256);
        uint64_t h = fnv1a(UINT64_C(0xcbf29ce484222325), out, N * 256 * sizeof *out);
        CHECK(h == recorded[i].digest, "%s: %016llx", block_type_name(recorded[i].type),
              (unsigned long long)h);
    }
    free(in);
    free(out);
}

static void bytes_per_block_are_those_of_ggml(void)
{
    static const struct { const char *name; size_t elements, bytes; } ggml[] = {
        { "Q4_0", 32, 18 }, { "Q4_1", 32, 20 }, { "Q5_0", 32, 22 }, { "Q5_1", 32, 24 },
        { "Q8_0", 32, 34 }, { "Q2_K", 256, 84 },
        { "Q3_K", 256, 110 }, { "Q4_K", 256, 144 }, { "Q5_K", 256, 176 }, { "Q6_K", 256, 210 },
        { "IQ4_NL", 32, 18 },
        { "IQ4_XS", 256, 136 }, { "MXFP4", 32, 17 },
        { "IQ2_XXS", 256, 66 }, { "IQ2_XS", 256, 74 }, { "IQ2_S", 256, 82 }, { "IQ3_XXS", 256, 98 },
        { "IQ3_S", 256, 110 }, { "IQ1_S", 256, 50 }, { "IQ1_M", 256, 56 },
        { "TQ1_0", 256, 54 }, { "TQ2_0", 256, 66 },
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
    TEST(codebook_types_are_the_floats_of_the_gguf_package);
    TEST(bytes_per_block_are_those_of_ggml);
    TEST(shapes_of_blocks_have_whole_rows);
    return TEST_END();
}
