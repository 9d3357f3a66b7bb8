#include "format/llama2c.h"
#include <math.h>
#include "../fuzz/memory_file.h"
#include "base/number.h"
#include "format/tensors.h"
#include "test.h"
#include "test_data.h"

/* ---- Files as export.py writes them ---------------------------------------------------------- */

enum { DIM = 8, HIDDEN = 12, LAYERS = 2, HEADS = 2, KV_HEADS = 1, VOCAB = 10, SEQ = 4, GROUP = 8 };

static unsigned char file[1 << 16];
static size_t        n_file;
static uint32_t      seed;

static void put(const void *bytes, size_t n)
{
    memcpy(file + n_file, bytes, n);
    n_file += n;
}

static void put_ints(int n, const int *values)
{
    for (int i = 0; i < n; i++)
        put(&values[i], 4);
}

/* What the tests expect: every tensor in the order in which it was written. */
static struct {
    char  name[32];
    int   n, rows;
    float values[256];
} expected[64];
static int n_expected;

static uint32_t next(void) { return (seed = seed * 1664525 + 1013904223) >> 8; }

/* A tensor of f32, or (quantized) n codes and then a scale for each group of 8, which spans rows of
 * 12. */
static void put_tensor(const char *name, int layer, int rows, int columns, bool quantized)
{
    int n = rows * columns;
    char prefix[24] = "";
    if (layer >= 0)
        snprintf(prefix, sizeof prefix, "layers.%d.", layer);
    snprintf(expected[n_expected].name, sizeof expected[0].name, "%s%s", prefix, name);
    float *values = expected[n_expected].values, scales[32];
    int8_t codes[256];
    expected[n_expected].n = n;
    expected[n_expected++].rows = rows;
    for (int g = 0; g < 32; g++)
        scales[g] = (float)(next() % 1000 + 1) / 7919;
    for (int i = 0; i < n; i++) {
        codes[i] = (int8_t)(int)(next() % 256 - 128);
        values[i] = quantized ? (float)codes[i] * scales[i / GROUP]
                              : (float)(int)(next() % 2001 - 1000) / 331;
    }
    put(quantized ? (const void *)codes : values, quantized ? (size_t)n : (size_t)n * 4);
    if (quantized)
        put(scales, (size_t)(n / GROUP) * 4);
}

static void put_layers(const char *name, int rows, int columns, bool quantized)
{
    for (int l = 0; l < LAYERS; l++)
        put_tensor(name, l, rows, columns, quantized);
}

static void put_matrices(bool q)
{
    put_layers("wq", DIM, DIM, q);
    put_layers("wk", DIM / HEADS * KV_HEADS, DIM, q);
    put_layers("wv", DIM / HEADS * KV_HEADS, DIM, q);
    put_layers("wo", DIM, DIM, q);
}

static void put_ffn(bool q)
{
    put_layers("w_gate", HIDDEN, DIM, q);
    put_layers("w_down", DIM, HIDDEN, q);
    put_layers("w_up", HIDDEN, DIM, q);
}

static void begin(void)
{
    n_file = 0;
    n_expected = 0;
    seed = 1;
}

static void write_0(bool tied)
{
    begin();
    put_ints(7, (int[]){ DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, tied ? VOCAB : -VOCAB, SEQ });
    put_tensor("embed", -1, VOCAB, DIM, false);
    put_layers("attn_norm", 1, DIM, false);
    put_matrices(false);
    put_layers("ffn_norm", 1, DIM, false);
    put_ffn(false);
    put_tensor("final_norm", -1, 1, DIM, false);
    for (int table = 0; table < 2; table++)
        for (int pos = 0; pos < SEQ; pos++)
            for (int i = 0; i < DIM / HEADS / 2; i++) {
                float angle = (float)pos * powf(10000, -(float)(2 * i) / (DIM / HEADS)),
                      v = table ? sinf(angle) : cosf(angle);
                put(&v, 4);
            }
    if (!tied)
        put_tensor("lm_head", -1, VOCAB, DIM, false);
}

static void write_1(int version, bool tied)
{
    bool          q = version == 2;
    int           group = GROUP;
    unsigned char flag = tied;
    begin();
    put("24ka", 4);
    put_ints(8, (int[]){ version, DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, SEQ });
    put(&flag, 1);
    put(&group, 4);
    memset(file + n_file, 0, 256 - n_file);
    n_file = 256;
    put_layers("attn_norm", 1, DIM, false);
    put_layers("ffn_norm", 1, DIM, false);
    put_tensor("final_norm", -1, 1, DIM, false);
    put_tensor("embed", -1, VOCAB, DIM, q);
    put_matrices(q);
    put_ffn(q);
    if (!tied)
        put_tensor("lm_head", -1, VOCAB, DIM, q);
}

static void write_file(int version, bool tied)
{
    if (version == 0)
        write_0(tied);
    else
        write_1(version, tied);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void check_tensor(const Llama2cTensor *t, int i, int version)
{
    bool  vector = strstr(expected[i].name, "norm"), q = version == 2 && !vector;
    int   n = expected[i].n;
    float got[256];
    CHECK(strcmp(t->name, expected[i].name) == 0, "tensor %d is %s, not %s", i, t->name,
          expected[i].name);
    CHECK(t->n_elements == (size_t)n && t->rank == (vector ? 1 : 2), "%s: %zu elements", t->name,
          t->n_elements);
    CHECK(vector ? t->shape[0] == n
                 : t->shape[0] == expected[i].rows && t->shape[1] == n / expected[i].rows,
          "%s: shape", t->name);
    CHECK(t->n_bytes == (q ? (size_t)n + (size_t)n / GROUP * 4 : (size_t)n * 4), "%s: %zu bytes",
          t->name, t->n_bytes);
    CHECK(q == !t->f32 && q == !!t->codes && (!q || t->group_size == GROUP), "%s: form", t->name);
    CHECK(t->pair_heads == (strstr(t->name, "wq") ? HEADS : strstr(t->name, "wk") ? KV_HEADS : 0),
          "%s: pairs", t->name);
    llama2c_read(t, 0, (size_t)n, got);
    CHECK(memcmp(got, expected[i].values, (size_t)n * 4) == 0, "%s: values", t->name);
    for (int first = 0; first < n; first++) { /* from within a group, over its end */
        int count = first + 11 < n ? 11 : n - first;
        llama2c_read(t, (size_t)first, (size_t)count, got);
        CHECK(memcmp(got, expected[i].values + first, (size_t)count * 4) == 0, "%s: values from %d",
              t->name, first);
    }
}

static void every_version_is_read(void)
{
    for (int v = 0; v < 6; v++) {
        int         version = v / 2, tied = v % 2;
        Llama2cFile f;
        Error       e = { 0 };
        write_file(version, tied);
        CHECK(llama2c_is(file, 28, n_file), "version %d is not recognised", version);
        CHECK(llama2c_open(&f, memory_file(file, n_file), &e), "%s", e.msg);
        CHECK(f.version == version && f.tied == tied && f.n_tensors == n_expected,
              "version %d: %d tensors", f.version, f.n_tensors);
        CHECK(f.dims.dim == DIM && f.dims.hidden_dim == HIDDEN && f.dims.n_layers == LAYERS
                  && f.dims.n_heads == HEADS && f.dims.n_kv_heads == KV_HEADS
                  && f.dims.vocab_size == VOCAB && f.dims.seq_len == SEQ,
              "dims");
        for (int i = 0; i < f.n_tensors && i < n_expected; i++)
            check_tensor(&f.tensors[i], i, version);
        CHECK(!!llama2c_find(&f, "lm_head") == !tied && llama2c_find(&f,
            "embed") && !llama2c_find(&f, "layers.2.wq"), "find");
        CHECK(!f.rope_cos == (version > 0) && llama2c_rope_agrees(&f), "rotary tables");
        llama2c_close(&f);
        llama2c_close(&f);
    }
}

static void other_rotary_tables_are_seen(void)
{
    Llama2cFile f;
    Error       e = { 0 };
    write_0(true);
    size_t at = n_file - 2 * SEQ * 2 * 4 + 3 * 2 * 4 + 4; /* the cosine of the last position, second
                                                           * angle */
    for (int nan = 0; nan < 2; nan++) {
        float value = nan ? NAN : 0.5f;
        memcpy(file + at, &value, 4);
        CHECK(llama2c_open(&f, memory_file(file, n_file), &e) && !llama2c_rope_agrees(&f),
              "agrees");
        llama2c_close(&f);
    }
}

/* ---- Malformed files ------------------------------------------------------------------------- */

static void refused(const char *what, const char *message)
{
    Llama2cFile f;
    Error       e = { 0 };
    bool        ok = llama2c_open(&f, memory_file(file, n_file), &e);
    CHECK(!ok, "%s was accepted", what);
    CHECK(e.status == INPUT && strncmp(e.msg, "/proc/self/fd/", 14) == 0 && strstr(e.msg, message),
          "%s: %d '%s'", what, e.status, e.msg);
    llama2c_close(&f);
}

/* An int32 of the file is another. */
static void lie(int version, size_t at, int value, const char *message)
{
    char what[64];
    snprintf(what, sizeof what, "version %d: %d at %zu", version, value, at);
    write_file(version, true);
    memcpy(file + at, &value, 4);
    refused(what, message);
}

static void headers_are_checked(void)
{
    for (int version = 0; version < 3; version++) {
        size_t at = version ? 8 : 0;
        lie(version, at, 0, "dim: expected a number from 1 to 1048576, found 0");
        lie(version, at, -8, "dim: expected a number from 1 to 1048576, found -8");
        lie(version, at, (1 << 20) + 8, "dim: expected a number from 1 to 1048576, found 1048584");
        lie(version, at, 7, "dim: expected a multiple of n_heads 2, found 7");
        lie(version, at, 6, "dim / n_heads: expected an even number, found 3");
        lie(version, at + 4, -1, "hidden_dim: expected");
        lie(version, at + 8, 4097, "n_layers: expected a number from 1 to 4096, found 4097");
        lie(version, at + 8, INT32_MIN, "n_layers: expected");
        lie(version, at + 12, 0, "n_heads: expected");
        lie(version, at + 16, 0, "n_kv_heads: expected");
        lie(version, at + 16, 3, "n_kv_heads: expected a divisor of n_heads 2, found 3");
        lie(version, at + 20, 0, "vocab_size: expected");
        lie(version, at + 20, INT32_MIN, "vocab_size: expected");
        lie(version, at + 24, 0, "seq_len: expected");
        lie(version, at + 4, 1 << 22, "(cut short)");
        lie(version, at + 8, 4096, "(cut short)");
        lie(version, at + 8, 1, "(or not a llama2.c file)");
    }
    lie(0, 20, -VOCAB,
        "expected 4732 bytes for dim 8, hidden_dim 12, n_layers 2, n_heads 2, n_kv_heads 1, "
        "vocab_size 10, seq_len 4, found 4412 (cut short)");
    lie(1, 4, 0, "llama2.c version: expected 0, 1 or 2, found 0");
    lie(1, 4, 3, "llama2.c version: expected 0, 1 or 2, found 3");
    lie(1, 36, 2, "shared classifier flag: expected 0 or 1, found 2");
    lie(1, 20, -1, "n_heads: expected");
    lie(1, 28, -VOCAB, "vocab_size: expected a number from 1 to 16777216, found -10");
    lie(2, 37, 0, "group size: expected a number of at least 1, found 0");
    lie(2, 37, -8, "group size: expected a number of at least 1, found -8");
    lie(2, 37, 5, "a multiple of the group size 5, found");
    lie(2, 37, 4, "(cut short)");
    lie(2, 37, INT32_MAX,
        "tensor embed: expected a number of elements that is a multiple of the group size "
        "2147483647, found 80");
}

static void a_file_of_another_length_is_refused(void)
{
    for (int v = 0; v < 6; v++) {
        write_file(v / 2, v % 2);
        size_t whole = n_file;
        for (n_file = 0; n_file < whole; n_file++)
            refused("a cut file", "");
        n_file = whole + 1;
        refused("a byte more", "(or not a llama2.c file)");
    }
}

static void other_files_are_not_recognised(void)
{
    write_0(true);
    CHECK(llama2c_is(file, 28, n_file) && llama2c_is(file, 28, n_file - 1),
          "a cut file is still one");
    CHECK(!llama2c_is(file, 28, n_file + 1) && !llama2c_is(file, 27, n_file),
          "longer, or too few bytes to tell");
    write_1(1, true);
    CHECK(llama2c_is(file, 8, 1) && !llama2c_is(file, 7, 1), "by the magic alone");
    static const char *const others[] = { "GGUF\3\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0",
                                          "PK\3\4 an archive of some kind",
                                          "some text, some more text, some more" };
    for (size_t i = 0; i < 3; i++)
        CHECK(!llama2c_is((const unsigned char *)others[i], 28, 28), "%s", others[i]);
    CHECK(!llama2c_is(NULL, 0, 0), "nothing");
}

/* ---- A real model, where it is there --------------------------------------------------------- */

static bool open_recorded(Llama2cFile *f, const char *name)
{
    char  recorded[512];
    Error e = { 0 };
    if (!test_data(recorded, name)) {
        SKIP("no data");
        return false;
    }
    CHECK(llama2c_open(f, recorded, &e), "%s", e.msg);
    return e.status == 0;
}

/* Row r of a head of our order, halves, comes from this row of rotary pairs. */
static int64_t source_row(const Llama2cTensor *t, int64_t row)
{
    if (!t->pair_heads)
        return row;
    int64_t head = t->shape[0] / t->pair_heads, r = row % head;
    return row - r + 2 * (r % (head / 2)) + r / (head / 2);
}

static void compare_with(const TensorFile *hf, const char *hf_name, const Llama2cFile *f,
                         const char *name)
{
    const Tensor        *t = tensor_find(hf, hf_name);
    const Llama2cTensor *ours = llama2c_find(f, name);
    CHECK(t && ours && t->dtype == DT_F32 && t->n_elements == ours->n_elements
              && t->shape[0] == ours->shape[0],
          "%s", name);
    if (!t || !ours || t->n_elements != ours->n_elements)
        return;
    size_t columns = t->n_elements / (size_t)t->shape[0];
    float *row = malloc(columns * 4);
    for (int64_t r = 0; r < t->shape[0]; r++) {
        llama2c_read(ours, (size_t)source_row(ours, r) * columns, columns, row);
        CHECK(memcmp(row, (const unsigned char *)t->data + (size_t)r * columns * 4,
                     columns * 4) == 0, "%s: row %lld", name, (long long)r);
    }
    free(row);
}

static void stories260k_is_its_hugging_face_folder(void)
{
    static const char *const names[][2] = {
        { "self_attn.q_proj", "wq" }, { "self_attn.k_proj", "wk" }, { "self_attn.v_proj", "wv" },
        { "self_attn.o_proj", "wo" },
        { "mlp.gate_proj", "w_gate" }, { "mlp.up_proj", "w_up" }, { "mlp.down_proj", "w_down" },
        { "input_layernorm", "attn_norm" }, { "post_attention_layernorm", "ffn_norm" },
    };
    Llama2cFile f;
    TensorFile  hf;
    char        recorded[512];
    Error       e = { 0 };
    if (!open_recorded(&f, "fixtures/models/stories260K/llama2c/stories260K.bin"))
        return;
    CHECK(test_data(recorded,
                    "fixtures/models/stories260K/model.safetensors") && safetensors_open(&hf,
        recorded, &e), "%s", e.msg);
    CHECK(f.version == 0 && f.dims.n_layers == 5 && f.n_tensors == 47 && f.tied
              && llama2c_rope_agrees(&f),
          "%d tensors", f.n_tensors);
    compare_with(&hf, "model.embed_tokens.weight", &f, "embed");
    compare_with(&hf, "model.norm.weight", &f, "final_norm");
    for (int l = 0; l < 5; l++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            char theirs[64], ours[32];
            snprintf(theirs, sizeof theirs, "model.layers.%d.%s.weight", l, names[i][0]);
            snprintf(ours, sizeof ours, "layers.%d.%s", l, names[i][1]);
            compare_with(&hf, theirs, &f, ours);
        }
    tensor_file_close(&hf);
    llama2c_close(&f);
}

static void versions_of_one_model_agree(void)
{
    Llama2cFile f[3];
    static float a[1 << 16], b[1 << 16];
    if (!open_recorded(&f[0], "data/models/stories260K/stories260K.bin")
        || !open_recorded(&f[1], "data/models/stories260K/stories260K.v1.bin")
        || !open_recorded(&f[2], "data/models/stories260K/stories260K.q80-gs8.bin"))
        return;
    CHECK(f[1].version == 1 && f[2].version == 2 && f[1].n_tensors == f[0].n_tensors
              && f[2].n_tensors == f[0].n_tensors,
          "tensors");
    for (int i = 0; i < f[0].n_tensors; i++) {
        const Llama2cTensor *t = &f[0].tensors[i], *one = llama2c_find(&f[1], t->name),
                            *q = llama2c_find(&f[2], t->name);
        CHECK(one && q && one->n_elements == t->n_elements && q->n_elements == t->n_elements, "%s",
              t->name);
        if (!one || !q)
            break;
        CHECK(memcmp(t->f32, one->f32, t->n_bytes) == 0, "%s: version 1", t->name);
        llama2c_read(t, 0, t->n_elements, a);
        llama2c_read(q, 0, t->n_elements, b);
        for (size_t k = 0; k < t->n_elements; k++) { /* rounded to the nearest code, of a group that
                                                      * spans rows in w_down */
            float scale = 0;
            if (q->codes)
                memcpy(&scale, q->scales + k / 8 * 4, 4);
            CHECK(fabsf(a[k] - b[k]) <= scale * 0.5001f, "%s: element %zu is %g, not %g", t->name,
                  k, (double)b[k], (double)a[k]);
        }
    }
    for (int i = 0; i < 3; i++)
        llama2c_close(&f[i]);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(every_version_is_read);
    TEST(other_rotary_tables_are_seen);
    TEST(headers_are_checked);
    TEST(a_file_of_another_length_is_refused);
    TEST(other_files_are_not_recognised);
    TEST(stories260k_is_its_hugging_face_folder);
    TEST(versions_of_one_model_agree);
    return TEST_END();
}
