#include <dirent.h>
#include <time.h>
#include <unistd.h>
#include "gguf_bytes.h"
#include "test.h"
#include "test_data.h"
#include "temp_folder.h"

static Bytes       bytes; /* the file of a case */
static const char *path;  /* where it is written */

static void refused(const char *what, const char *message)
{
    GgufFile f;
    Error    e = { 0 };
    write_bytes(path, bytes.at, bytes.n);
    bool ok = gguf_open(&f, path, &e);
    CHECK(!ok, "%s was accepted", what);
    CHECK(e.status == INPUT && strncmp(e.msg, path, strlen(path)) == 0 && strstr(e.msg, message),
          "%s: %d '%s'", what, e.status, e.msg);
    CHECK(!f.part && !f.tensors, "%s: something is left", what);
    gguf_close(&f);
}

static bool opened(GgufFile *f)
{
    Error e = { 0 };
    write_bytes(path, bytes.at, bytes.n);
    bool ok = gguf_open(f, path, &e);
    CHECK(ok, "%s", e.msg);
    return ok;
}

/* What readers rely on. */
static void check_sound(const GgufFile *f)
{
    for (size_t i = 0; i < f->n_tensors; i++) {
        const Tensor   *t = &f->tensors[i];
        const GgufPart *p = gguf_part_of(f, t);
        size_t          n = 0, n_bytes = 0;
        CHECK(i >= p->first_tensor && i - p->first_tensor < p->n_tensors,
              "tensor %zu is not of its part", i);
        CHECK(shape_bytes(t->dtype, t->rank, t->shape, &n,
                          &n_bytes) && n == t->n_elements && n_bytes == t->n_bytes && n,
        "%s: sizes", t->name);
        CHECK(t->offset >= p->data_offset && t->offset <= p->map.size
                  && t->n_bytes <= p->map.size - t->offset,
              "%s: out of the file", t->name);
        CHECK(t->data == p->map.data + t->offset
                  && (t->offset - p->data_offset) % p->alignment == 0,
              "%s: data", t->name);
        CHECK(gguf_tensor(f, t->name) == t, "%s is not found", t->name);
        CHECK(i == p->first_tensor || t[-1].offset + t[-1].n_bytes <= t->offset, "%s overlaps",
              t->name);
    }
}

/* ---- Sound files ----------------------------------------------------------------------------- */

static void tensors_are_read_row_major(void)
{
    for (uint32_t version = 2; version <= 3; version++) {
        GgufFile f;
        put_sound_file(&bytes, version);
        if (!opened(&f))
            return;
        check_sound(&f);
        CHECK(f.n_tensors == 3 && f.n_parts == 1 && f.meta->n_entries == 18
                  && f.part[0].version == version,
              "%zu tensors", f.n_tensors);
        const Tensor *a = gguf_tensor(&f, "a"), *b = gguf_tensor(&f, "b"),
                     *c = gguf_tensor(&f, "c");
        CHECK(a && b && c && !gguf_tensor(&f, "d") && !gguf_tensor(&f, ""), "names");
        if (!a || !b || !c)
            return;
        CHECK(a == &f.tensors[0] && b == a + 1 && c == b + 1, "the order is not that of the data");
        CHECK(a->dtype == DT_F32 && a->rank == 2 && a->shape[0] == 2 && a->shape[1] == 3
                  && a->n_bytes == 24,
              "a");
        CHECK(b->dtype == DT_Q8_0 && b->shape[0] == 2 && b->shape[1] == 32 && b->n_elements == 64
                  && b->n_bytes == 68,
              "b");
        CHECK(c->dtype == DT_F16 && c->rank == 0 && c->n_elements == 1 && c->n_bytes == 2, "c");
        const unsigned char *data = b->data;
        CHECK(f.part[0].alignment == 32 && a->offset == f.part[0].data_offset && data[0] == 33
                  && data[67] == 100,
              "data begins %d", data[0]);
        gguf_close(&f);
        gguf_close(&f);
    }
}

static void alignment_comes_from_its_key(void)
{
    static const uint32_t alignments[] = { 1, 8, 64, 2048 };
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
        GgufFile f;
        size_t   second = alignments[i] < 8 ? 8 : alignments[i];
        put_head(&bytes, 3, 2, 1);
        put_key(&bytes, "general.alignment", GGUF_U32), put_u32(&bytes, alignments[i]);
        put_tensor(&bytes, "a", DIMS(2), 0, 0);
        put_tensor(&bytes, "b", DIMS(1), 0, second);
        put_data(&bytes, alignments[i], second + 4);
        if (!opened(&f))
            return;
        check_sound(&f);
        const unsigned char *data = gguf_tensor(&f, "a")->data;
        CHECK(f.part[0].alignment == alignments[i] && data[0] == 1
                  && data[second] == (second + 1) % 256,
              "%u", alignments[i]);
        gguf_close(&f);
        bytes.n--;
        refused("data cut short", "tensor b: 4 bytes at ");
    }
}

static void a_file_without_tensors_is_read(void)
{
    GgufFile f;
    put_head(&bytes, 3, 0, 0);
    if (!opened(&f))
        return;
    CHECK(f.n_tensors == 0 && f.meta->n_entries == 0 && !gguf_tensor(&f, "a") && !gguf_find(f.meta,
        "a"), "found something");
    gguf_close(&f);
}

/* ---- Key-values ------------------------------------------------------------------------------ */

static GgufFile sound;

static void integers_of_every_type_are_read(void)
{
    static const struct { const char *key; int64_t value; } cases[] = {
        { "u8", 200 }, { "i8", -1 }, { "u16", 60000 }, { "i16", -32768 }, { "u32", 4000000000 },
        { "i32", -5 }, { "i64", INT64_MIN },
    };
    put_sound_file(&bytes, 3);
    if (!opened(&sound))
        return;
    Error   e = { 0 };
    int64_t v;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(gguf_read_int(sound.meta, cases[i].key, cases[i].value, cases[i].value, &v,
                            &e) && v == cases[i].value, "%s", e.msg);
        CHECK(cases[i].value == INT64_MIN || !gguf_read_int(sound.meta, cases[i].key, INT64_MIN,
                                                            cases[i].value - 1, &v, &e), "%s",
        cases[i].key);
        CHECK(!gguf_read_int(sound.meta, cases[i].key, cases[i].value + 1, INT64_MAX, &v, &e), "%s",
              cases[i].key);
    }
    CHECK(!gguf_read_int(sound.meta, "i32", 0, 9, &v, &e) && strstr(e.msg,
        "key i32: expected an integer from 0 to 9, found -5"), "%s", e.msg);
    CHECK(!gguf_read_int(sound.meta, "u64", INT64_MIN, INT64_MAX, &v, &e) && strstr(e.msg,
        "found more than 9223372036854775807"), "%s", e.msg);
    CHECK(!gguf_read_int(sound.meta, "f32", 0, 9, &v, &e) && strstr(e.msg,
        "key f32: expected an integer, found f32"), "%s", e.msg);
    CHECK(!gguf_read_int(sound.meta, "ints", 0, 9, &v, &e) && strstr(e.msg,
        "expected an integer, found an array of i32"), "%s", e.msg);
    CHECK(!gguf_read_int(sound.meta, "no", 0, 9, &v, &e) && strstr(e.msg,
        "key no: expected an integer, found no such key"), "%s", e.msg);
    gguf_close(&sound);
}

static void other_scalars_are_read(void)
{
    Error      e = { 0 };
    GgufString s = { 0 };
    double     v = 0;
    bool       yes = false;
    put_sound_file(&bytes, 3);
    if (!opened(&sound))
        return;
    CHECK(gguf_read_string(sound.meta, "general.architecture", &s, &e) && gguf_string_is(s,
        "llama"), "%s", e.msg);
    CHECK(!gguf_string_is(s, "llam") && !gguf_string_is(s, "llama2") && !gguf_string_is(s, "llamb"),
          "equality");
    CHECK((const unsigned char *)s.bytes > sound.part[0].map.data, "the string was copied");
    CHECK(gguf_read_number(sound.meta, "f32", &v, &e) && v == (double)1e-5f, "%g", v);
    CHECK(gguf_read_number(sound.meta, "f64", &v, &e) && v == 0.1, "%g", v);
    CHECK(gguf_read_bool(sound.meta, "bool", &yes, &e) && yes, "bool");
    CHECK(!gguf_read_string(sound.meta, "u8", &s, &e) && strstr(e.msg,
        "key u8: expected a string, found u8"), "%s", e.msg);
    CHECK(!gguf_read_string(sound.meta, "strings", &s, &e) && strstr(e.msg,
        "expected a string, found an array of string"), "%s", e.msg);
    CHECK(!gguf_read_number(sound.meta, "u8", &v, &e) && strstr(e.msg,
        "expected a number (f32 or f64), found u8"), "%s", e.msg);
    CHECK(!gguf_read_bool(sound.meta, "u8", &yes, &e) && strstr(e.msg, "expected a bool, found u8"),
          "%s", e.msg);
    CHECK(!gguf_read_bool(sound.meta, "no", &yes, &e) && !gguf_read_number(sound.meta, "no", &v, &e)
              && !gguf_read_string(sound.meta, "no", &s, &e)
              && strstr(e.msg, "expected a string, found no such key"),
          "%s", e.msg);
    CHECK(gguf_find(sound.meta, "nested") && !gguf_find(sound.meta,
                                                        "neste") && !gguf_find(sound.meta,
        "nested."), "gguf_find");
    gguf_close(&sound);

    static const uint32_t not_finite[] = { 0x7F800000, 0xFF800000, 0x7FC00000 };
    for (int i = 0; i < 3; i++) {
        put_head(&bytes, 3, 0, 1);
        put_key(&bytes, "x", GGUF_F32), put_u32(&bytes, not_finite[i]);
        if (!opened(&sound))
            return;
        CHECK(!gguf_read_number(sound.meta, "x", &v, &e) && strstr(e.msg,
            "key x: expected a finite number"), "%s", e.msg);
        gguf_close(&sound);
    }
}

static void arrays_are_read(void)
{
    Error       e = { 0 };
    GgufString *strings = NULL, *none = NULL;
    float      *floats = NULL;
    int32_t    *ints = NULL, *never = NULL;
    size_t      n = 9;
    put_sound_file(&bytes, 3);
    if (!opened(&sound))
        return;
    CHECK(gguf_read_strings(sound.meta, "strings", &strings, &n, &e) && n == 3, "%s", e.msg);
    CHECK(gguf_string_is(strings[0], "a") && gguf_string_is(strings[1],
                                                            "") && gguf_string_is(strings[2],
        "caf\xC3\xA9"), "strings");
    CHECK(gguf_read_strings(sound.meta, "none", &none, &n, &e) && n == 0 && none, "%s", e.msg);
    CHECK(gguf_read_floats(sound.meta, "floats", &floats, &n,
                           &e) && n == 2 && floats[0] == 0.5f && floats[1] == -2, "%s", e.msg);
    CHECK(gguf_read_ints(sound.meta, "ints", &ints, &n,
                         &e) && n == 2 && ints[0] == 7 && ints[1] == -7, "%s", e.msg);
    CHECK(!gguf_read_ints(sound.meta, "longs", &never, &n, &e) && strstr(e.msg,
        "key longs: item 1: expected an integer from"), "%s", e.msg);
    CHECK(!gguf_read_ints(sound.meta, "floats", &never, &n, &e) && strstr(e.msg,
        "an array of integers, found an array of f32"), "%s", e.msg);
    CHECK(!gguf_read_ints(sound.meta, "strings", &never, &n, &e) && !gguf_read_ints(sound.meta,
        "i32", &never, &n, &e)
              && strstr(e.msg, "key i32: expected an array of integers, found i32"), "%s", e.msg);
    CHECK(!gguf_read_floats(sound.meta, "ints", &floats, &n, &e) && strstr(e.msg,
        "an array of f32, found an array of i32"), "%s", e.msg);
    CHECK(!gguf_read_strings(sound.meta, "nested", &none, &n, &e) && strstr(e.msg,
        "found an array of array"), "%s", e.msg);
    CHECK(!gguf_read_strings(sound.meta, "no", &none, &n, &e) && strstr(e.msg, "found no such key"),
          "%s", e.msg);
    free(strings);
    free(none);
    free(floats);
    free(ints);
    gguf_close(&sound);
}

/* ---- Bad files ------------------------------------------------------------------------------- */

static void every_truncation_is_refused(void)
{
    put_sound_file(&bytes, 3);
    for (size_t whole = bytes.n, cut = 0; cut < whole; cut++) {
        bytes.n = cut;
        refused("a truncated file",
                cut < 4        ? "expected a GGUF file"
                    : cut < 24 ? "header: "
                               : "cut short?");
        if (test_case_state)
            return;
    }
}

static void other_formats_are_named(void)
{
    static const char *const cases[][2] = {
        { "tjgg\1...",
          "found a GGJT file, which GGUF replaced in August 2023: convert the model again" },
        { "fmgg\1...", "found a GGMF file, which GGUF replaced" },
        { "lmgg....", "found a GGML file (no version), which GGUF replaced" },
        { "algg\1...", "found a GGLA file (a LoRA adapter), which GGUF replaced" },
        { "PK\3\4.....", "found a zip archive" },
        { "\x10\0\0\0\0\0\0\0{\"a\": 3}........", "found a safetensors file" },
        { "{\"a\": 3}", "found a JSON text" },
        { "version https://git-lfs.github.com/spec/v1", "found a Git LFS pointer" },
        { "FUGG....", "found 8 bytes that do not begin with GGUF" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes = (Bytes){ 0 };
        put(&bytes, cases[i][0], i == 5 ? 24 : strlen(cases[i][0]));
        refused(cases[i][1], cases[i][1]);
    }
    bytes.n = 0;
    refused("an empty file", "found 0 bytes");
    static const struct { uint32_t version; const char *message;
    } versions[] = {
        { 1,
          "expected GGUF version 2 or 3, found version 1 of August 2023: convert the model again" },
        { 0x03000000, "expected a little-endian GGUF file, found a big-endian one" },
        { 0x02000000, "found a big-endian one" },
        { 0, "found version 0" },
        { 4, "found version 4" },
        { UINT32_MAX, "found version 4294967295" },
    };
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        put_head(&bytes, versions[i].version, 0, 0);
        refused(versions[i].message, versions[i].message);
    }
}

static void counts_that_cannot_be_are_refused(void)
{
    static const uint64_t huge[] = {
        1, 7, UINT64_C(1) << 20, UINT64_C(1) << 32, UINT64_C(1) << 60, UINT64_MAX
    };
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        put_head(&bytes, 3, huge[i], 0);
        refused("a number of tensors",
                "header: expected at most 0 tensors (what the rest of the file can hold; cut "
                "short?), found ");
        put_head(&bytes, 3, 0, huge[i]);
        refused("a number of key-values", "header: expected at most 0 key-values");
        put_head(&bytes, 3, 0, 1);
        put_array(&bytes, "k", GGUF_STRING, huge[i]);
        refused("a number of strings", "key k: expected at most 0 array items");
        put_head(&bytes, 3, 0, 1);
        put_array(&bytes, "k", GGUF_F64, huge[i]);
        refused("a number of f64", "key k: expected at most 0 array items");
        put_head(&bytes, 3, 0, 1);
        put_array(&bytes, "k", GGUF_ARRAY, huge[i]);
        refused("a number of arrays", "key k: expected at most 0 array items");
    }
    put_head(&bytes, 3, 0, 2);
    put_key(&bytes, "a", GGUF_U64), put_u64(&bytes, 0);
    put_key(&bytes, "bc", GGUF_U8);
    refused("a value too few", "key bc: value: expected 1 bytes at byte");
    put_head(&bytes, 3, 2, 0);
    put_tensor(&bytes, "a", DIMS(1), 0, 0);
    put_data(&bytes, 32, 64);
    refused("a tensor too few", "tensor 2 of 2: ");
}

static void string_lengths_past_the_end_are_refused(void)
{
    static const uint64_t lengths[] = {
        2, 40, 65535, 65536, UINT64_C(1) << 32, UINT64_MAX - 31, UINT64_MAX
    };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        put_head(&bytes, 3, 0, 1);
        put_u64(&bytes, lengths[i]), put_u8(&bytes, 'k'), put_u32(&bytes, 4);
        if (lengths[i] > 20)
            refused("a key",
                    lengths[i] > 65535
                        ? "key 1 of 1: name: expected at most 65535 bytes, found a length of"
                        : "key 1 of 1: name: expected ");
        put_head(&bytes, 3, 0, 1);
        put_key(&bytes, "k", GGUF_STRING), put_u64(&bytes, lengths[i]), put_u8(&bytes, 'v');
        refused("a string", "key k: string: expected ");
        put_head(&bytes, 3, 0, 1);
        put_array(&bytes, "k", GGUF_STRING, 1), put_u64(&bytes, lengths[i]), put_u8(&bytes, 'v');
        refused("a string of an array", "key k: a string of the array: expected ");
        put_head(&bytes, 3, 1, 0);
        put_u64(&bytes, lengths[i]), put_data(&bytes, 1, 16);
        if (lengths[i] > 16)
            refused("a name",
                    lengths[i] > 64 ? "tensor 1 of 1: name: expected at most 64 bytes"
                                    : "tensor 1 of 1: name: expected 40 bytes");
    }
}

static void bad_key_values_are_refused(void)
{
    put_head(&bytes, 3, 0, 1);
    put_key(&bytes, "k", GGUF_TYPES), put_u64(&bytes, 0);
    refused("a type", "key k: type: expected 0 to 12, found 13");
    put_head(&bytes, 3, 0, 1);
    put_array(&bytes, "k", GGUF_TYPES, 1), put_u64(&bytes, 0);
    refused("a type of items", "key k: type of the array's items: expected 0 to 12, found 13");
    put_head(&bytes, 3, 0, 1);
    put_key(&bytes, "k", GGUF_BOOL), put_u8(&bytes, 2);
    refused("a bool", "key k: expected a bool of 0 or 1, found 2");
    put_head(&bytes, 3, 0, 3);
    put_key(&bytes, "k", GGUF_U8), put_u8(&bytes, 2);
    put_key(&bytes, "j", GGUF_U8), put_u8(&bytes, 2);
    put_key(&bytes, "k", GGUF_U16), put_u16(&bytes, 2);
    refused("a key twice", "key k appears twice");

    static const uint32_t alignments[] = { 0, 3, 33, 96, 0x80000000, UINT32_MAX };
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
        put_head(&bytes, 3, 0, 1);
        put_key(&bytes, "general.alignment", GGUF_U32), put_u32(&bytes, alignments[i]);
        refused("an alignment", "key general.alignment: expected ");
    }
    put_head(&bytes, 3, 0, 1);
    put_key(&bytes, "general.alignment", GGUF_STRING), put_string(&bytes, "32");
    refused("an alignment", "key general.alignment: expected an integer, found string");
}

static void arrays_of_arrays_have_a_limit(void)
{
    for (int depth = 1; depth < 40; depth++) {
        GgufFile f;
        put_head(&bytes, 3, 0, 1);
        put_array(&bytes, "k", GGUF_ARRAY, 1);
        for (int i = 1; i < depth; i++)
            put_u32(&bytes, GGUF_ARRAY), put_u64(&bytes, 1);
        put_u32(&bytes, GGUF_U8), put_u64(&bytes, 1), put_u8(&bytes, 1);
        if (depth > 8)
            refused("deep arrays", "key k: expected arrays at most 8 deep");
        else if (opened(&f))
            gguf_close(&f);
    }
}

/* One tensor that is wrong in one way, in a file that is otherwise sound. */
static void bad_tensors_are_refused(void)
{
    static const uint64_t big = UINT64_C(1) << 62;
    const struct {
        const char *name;
        uint64_t    dims[4];
        uint32_t    type;
        uint64_t    offset;
        const char *message;
    } cases[] = {
        { "b",
          { 16 },
          0,
          16,
          "tensor b: expected an offset that is a multiple of 32 (general.alignment), found 16" },
        { "b",
          { 16 },
          0,
          96,
          "tensor b: 64 bytes at 96 of the data do not fit its 128 bytes (cut short?)" },
        { "b", { 16 }, 0, 128, "do not fit its 128 bytes" },
        { "b", { 16 }, 0, 1 << 20, "do not fit its 128 bytes" },
        { "b", { 16 }, 0, UINT64_MAX - 31, "do not fit its 128 bytes" },
        { "b", { 16 }, 0, 0, "its data at 0 overlaps that of tensor " },
        { "b", { 16 }, 0, 32, "tensor b: its data at 32 overlaps that of tensor a, 64 bytes at 0" },
        { "a", { 16 }, 0, 64, "tensor a appears twice" },
        { "b", { big, 4 }, 0, 64, "tensor b: the size of F32 [4, 4611686018427387904] overflows" },
        { "b", { big }, 0, 64, "overflows" },
        { "b", { INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX }, 1, 64, "overflows" },
        { "b",
          { UINT64_C(1) << 63 },
          0,
          64,
          "tensor b: dimension 0: expected at least 1 and less than 2^63, found "
          "9223372036854775808" },
        { "b", { 1, UINT64_MAX }, 0, 64, "tensor b: dimension 1: expected" },
        { "b", { UINT64_C(1) << 40 }, 0, 64, "do not fit its 128 bytes" },
        { "b", { 16 }, 8, 64, "tensor b: expected rows of a multiple of 32 for Q8_0, found 16" },
        { "b", { 16, 2 }, 2, 64, "expected rows of a multiple of 32 for Q4_0, found 16" },
        { "b", { 32, 8 }, 12, 64, "expected rows of a multiple of 256 for Q4_K, found 32" },
        { "b", { 0 }, 12, 64, "expected rows of a multiple of 256 for Q4_K, found 1" },
        { "b", { 16 }, 9, 64, "found Q8_1 (ggml type 9)" },
        { "b", { 256 }, 36, 64, "found IQ4_NL_4_4 (ggml type 36)" },
        { "b",
          { 16 },
          28,
          64,
          "tensor b: expected a type of F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to "
          "Q6_K, IQ1_S to IQ4_XS, TQ1_0, TQ2_0 or MXFP4, "
          "found F64 (ggml type 28)" },
        { "b", { 16 }, 31, 64, "found Q4_0_4_4 (ggml type 31)" },
        { "b", { 16 }, 42, 64, "found unknown (ggml type 42)" },
        { "b", { 16 }, UINT32_MAX, 64, "found unknown (ggml type 4294967295)" },
        { "0123456789012345678901234567890123456789012345678901234567890123x",
          { 1 },
          0,
          64,
          "name: expected at most 64 bytes, found a length of 65" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_head(&bytes, 3, 2, 0);
        put_tensor(&bytes, "a", DIMS(16), 0, 0);
        put_tensor(&bytes, cases[i].name, cases[i].dims, cases[i].type, cases[i].offset);
        put_data(&bytes, 32, 128);
        refused(cases[i].message, cases[i].message);
    }
}

static void bad_shapes_and_names_are_refused(void)
{
    static const uint32_t ranks[] = { 5, 8, 9, 1000, UINT32_MAX };
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        put_head(&bytes, 3, 1, 0);
        put_string(&bytes, "a"), put_u32(&bytes, ranks[i]), put_data(&bytes, 1, 100);
        refused("a rank", "tensor a: expected at most 4 dimensions, found ");
    }
    for (int zero = 0; zero < 3; zero++) {
        put_head(&bytes, 3, 1, 0);
        put_string(&bytes, "a"), put_u32(&bytes, 3);
        for (int i = 0; i < 3; i++)
            put_u64(&bytes, i == zero ? 0 : 2);
        put_u32(&bytes, 0), put_u64(&bytes, 0), put_data(&bytes, 32, 32);
        refused("a dimension of 0", "expected at least 1 and less than 2^63, found 0");
    }
    put_head(&bytes, 3, 1, 0);
    put_u64(&bytes, 3), put(&bytes, "a\0b", 3), put_data(&bytes, 1, 64);
    refused("a name with NUL", "tensor 1 of 1: name: expected no NUL byte");
}

/* Whatever is accepted must hold what readers rely on. */
static void mutated_files_are_refused_or_sound(void)
{
    Bytes    whole;
    uint32_t state = 1;
    int      accepted = 0, refusals = 0;
    put_sound_file(&whole, 3);
    for (int round = 0; round < 3000 && test_case_state == 0; round++) {
        bytes = whole;
        for (int k = 0; k < 1 + round % 3; k++) {
            state = state * 1664525 + 1013904223;
            size_t at = (state >> 8) % (bytes.n - 128); /* not the data */
            state = state * 1664525 + 1013904223;
            bytes.at[at] = state & 0x100 ? (unsigned char)(state >> 20)
                                         : (unsigned char)(bytes.at[at] + (state & 0x200 ? 1 : -1));
        }
        GgufFile f;
        Error    e = { 0 };
        write_bytes(path, bytes.at, bytes.n);
        if (gguf_open(&f, path, &e)) {
            accepted++;
            check_sound(&f);
            gguf_close(&f);
        } else {
            refusals++;
            CHECK(e.status == INPUT && e.msg[0], "round %d: status %d", round, e.status);
        }
    }
    CHECK(accepted > 300 && refusals > 300, "%d accepted, %d refused", accepted, refusals);
}

/* ---- Large files ----------------------------------------------------------------------------- */

static void a_string_of_4_gb_is_not_read(void)
{
    GgufFile f;
    Error    e = { 0 };
    put_head(&bytes, 3, 0, 1);
    put_key(&bytes, "k", GGUF_STRING), put_u64(&bytes, (uint64_t)UINT32_MAX + 1);
    write_bytes(path, bytes.at, bytes.n);
    if (truncate(path, (off_t)bytes.n + ((off_t)1 << 32)) != 0) {
        SKIP("no sparse file of 4 GB");
        return;
    }
    long       before = peak_kb();
    GgufString s = { 0 };
    CHECK(gguf_open(&f, path, &e) && gguf_read_string(f.meta, "k", &s,
                                                      &e) && s.n == (size_t)UINT32_MAX + 1, "%s",
    e.msg);
    CHECK(peak_kb() - before < 20000, "%ld KB", peak_kb() - before);
    gguf_close(&f);
    write_bytes(path, bytes.at, bytes.n);
}

static void two_hundred_thousand_strings_and_tensors_take_no_time(void)
{
    enum { N = 200000 };
    size_t         room = (size_t)N * 80;
    unsigned char *big = malloc(room), *at = big;
    put_head(&bytes, 3, N, 1);
    put_array(&bytes, "tokens", GGUF_STRING, N);
    at = (unsigned char *)memcpy(big, bytes.at, bytes.n) + bytes.n;
    for (int i = 0; i < N; i++) {
        bytes.n = 0;
        put_string(&bytes, i % 2 ? "token" : "");
        at = (unsigned char *)memcpy(at, bytes.at, bytes.n) + bytes.n;
    }
    for (int i = 0; i < N; i++) {
        char name[32];
        snprintf(name, sizeof name, "blk.%d", (int)((long)i * 7919 % N));
        bytes.n = 0;
        put_tensor(&bytes, name, DIMS(1), 0, (uint64_t)i * 32);
        at = (unsigned char *)memcpy(at, bytes.at, bytes.n) + bytes.n;
    }
    size_t n = (size_t)(at - big);
    FILE  *file = fopen(path, "wb");
    bool   ok = file && fwrite(big, 1, n, file) == n && fclose(file) == 0
        && truncate(path, (off_t)((n + 31) / 32 * 32 + (size_t)N * 32)) == 0;
    free(big);
    CHECK(ok, "cannot write %s", path);

    GgufFile    f;
    Error       e = { 0 };
    GgufString *tokens = NULL;
    clock_t     start = clock();
    CHECK(gguf_open(&f, path, &e) && f.n_tensors == N, "%s", e.msg);
    CHECK(gguf_read_strings(f.meta, "tokens", &tokens, &n,
                            &e) && n == N && gguf_string_is(tokens[N - 1], "token"), "%s", e.msg);
    check_sound(&f);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    fprintf(stderr, "# %d tensors and strings: opened and all found in %.2f s\n", N, seconds);
    CHECK(seconds < 10, "%g s", seconds);
    free(tokens);
    gguf_close(&f);
}

/* ---- Split files ----------------------------------------------------------------------------- */

/* Part no of count: tensor "tNO", its one float NO + 1. */
static void put_part(Bytes *b, int no, int count, int n_tensors, const char *name)
{
    put_head(b, 3, 1, no == 0 ? 4 : 3);
    if (no == 0)
        put_key(b, "general.name", GGUF_STRING), put_string(b, "whole");
    put_key(b, "split.no", GGUF_U16), put_u16(b, (uint16_t)no);
    put_key(b, "split.count", GGUF_U16), put_u16(b, (uint16_t)count);
    put_key(b, "split.tensors.count", GGUF_I32), put_u32(b, (uint32_t)n_tensors);
    put_tensor(b, name, DIMS(1), 0, 0);
    put_data(b, 32, 0);
    put_f32(b, (float)(no + 1));
}

static const char *part_path(int no, int count)
{
    char name[64];
    snprintf(name, sizeof name, "m-%05d-of-%05d.gguf", no + 1, count);
    return in_folder(name);
}

static void write_part(int at, int no, int count, int n_tensors, const char *name)
{
    put_part(&bytes, no, count, n_tensors, name);
    write_bytes(part_path(at, 3), bytes.at, bytes.n);
}

static void write_parts(void)
{
    write_part(0, 0, 3, 3, "t0");
    write_part(1, 1, 3, 3, "t1");
    write_part(2, 2, 3, 3, "t2");
}

static void any_part_opens_the_whole(void)
{
    write_parts();
    for (int i = 0; i < 3; i++) {
        GgufFile   f;
        Error      e = { 0 };
        GgufString s = { 0 };
        CHECK(gguf_open(&f, part_path(i, 3), &e), "%s", e.msg);
        CHECK(f.n_parts == 3 && f.n_tensors == 3 && gguf_read_string(f.meta, "general.name", &s,
            &e) && gguf_string_is(s, "whole"), "%s", e.msg);
        check_sound(&f);
        for (int k = 0; k < 3; k++) {
            char  name[16];
            float v = 0;
            snprintf(name, sizeof name, "t%d", k);
            const Tensor *t = gguf_tensor(&f, name);
            CHECK(t == &f.tensors[k] && gguf_part_of(&f, t) == &f.part[k], "%s", name);
            if (t)
                memcpy(&v, t->data, sizeof v);
            CHECK(v == (float)(k + 1), "%s is %g", name, v);
        }
        gguf_close(&f);
    }
}

/* Opening part `from` fails with these words. */
static void split_refused(int from, const char *message)
{
    GgufFile f;
    Error    e = { 0 };
    CHECK(!gguf_open(&f, part_path(from, 3), &e), "accepted: %s", message);
    CHECK(e.status == INPUT && strstr(e.msg, message), "%d '%s', expected '%s'", e.status, e.msg,
          message);
    gguf_close(&f);
}

static void parts_that_do_not_belong_together_are_refused(void)
{
    write_parts();
    write_part(1, 1, 3, 3, "t0");
    split_refused(0, "-00002-of-00003.gguf: tensor t0 appears twice, also in ");
    write_part(1, 1, 2, 3, "t1");
    split_refused(0,
                  "-00002-of-00003.gguf: expected part 2 of 3, 3 tensors in total (keys split.no, "
                  "split.count, split.tensors.count), "
                  "found part 2 of 2, 3 tensors");
    split_refused(1,
                  "-00002-of-00003.gguf: part 2 of 2 (keys split.no, split.count): expected a file "
                  "name that ends in -00002-of-00002.gguf");
    write_part(1, 0, 3, 3, "t1");
    split_refused(2, "expected part 2 of 3, 3 tensors in total");
    write_part(1, 1, 3, 4, "t1");
    split_refused(2, "found part 2 of 3, 4 tensors");
    write_part(0, 0, 3, 4, "t0");
    write_part(2, 2, 3, 4, "t2");
    split_refused(
        2, "key split.tensors.count: expected 3, the number of tensors in all 3 parts, found 4");
    write_parts();
    put_sound_file(&bytes, 3);
    write_bytes(part_path(1, 3), bytes.at, bytes.n);
    split_refused(0, "-00002-of-00003.gguf: expected part 2 of 3");
    write_bytes(part_path(1, 3), bytes.at, 100);
    split_refused(0, "cut short?), found 18 (part 2 of 3)");
    unlink(part_path(1, 3));
    split_refused(0, "-00002-of-00003.gguf: cannot open: No such file or directory (part 2 of 3)");
    split_refused(2, "cannot open");

    put_head(&bytes, 3, 0, 2);
    put_key(&bytes, "split.no", GGUF_U16), put_u16(&bytes, 3);
    put_key(&bytes, "split.count", GGUF_U16), put_u16(&bytes, 3);
    refused("a part past the end", "key split.no: expected an integer from 0 to 2, found 3");
    put_head(&bytes, 3, 0, 2);
    put_key(&bytes, "split.no", GGUF_U16), put_u16(&bytes, 1);
    put_key(&bytes, "split.count", GGUF_U16), put_u16(&bytes, 3);
    refused("no number of tensors",
            "key split.tensors.count: expected an integer, found no such key");
    put_head(&bytes, 3, 0, 1);
    put_key(&bytes, "split.count", GGUF_STRING), put_string(&bytes, "3");
    refused("a string", "key split.count: expected an integer, found string");
    for (int i = 0; i < 3; i++)
        unlink(part_path(i, 3));
}

static void a_file_of_one_part_may_have_any_name(void)
{
    for (int count = 0; count < 2; count++) {
        GgufFile f;
        put_part(&bytes, 0, count, 1, "a");
        if (opened(&f))
            gguf_close(&f);
    }
}

/* ---- Files of others ------------------------------------------------------------------------- */

static void recorded_files_open_with_the_right_counts(void)
{
    /* by the package gguf 0.19.0 */
    static const struct { const char *name; size_t n_entries, n_tensors, data_offset; } cases[] = {
        { "fixtures/gguf/gemma2-f16/model.gguf", 18, 46, 3520 },
        { "fixtures/gguf/llama-gqa-q4_1/model.gguf", 14, 30, 2336 },
        { "fixtures/gguf/llama-kquants/model.gguf", 14, 12, 1280 },
        { "fixtures/gguf/llama3-e2e-bf16/model.gguf", 21, 21, 12896 },
        { "fixtures/gguf/qwen2-bf16/model.gguf", 13, 38, 2688 },
        { "fixtures/gguf/stories260K-f16/model.gguf", 24, 47, 14304 },
        { "fixtures/gguf/stories260K-f32/model.gguf", 24, 47, 14304 },
        { "fixtures/gguf/stories260K-q4_0/model.gguf", 24, 47, 14304 },
        { "fixtures/gguf/stories260K-q5_1/model.gguf", 24, 47, 14304 },
        { "fixtures/gguf/stories260K-q8_0/model.gguf", 24, 47, 14304 },
        { "data/gguf-small/test.gguf", 16, 20, 7584 },
        { "data/gguf-small/vocab-bpe-llama3.gguf", 9, 0, 4864 },
        { "data/gguf-small/vocab-bpe-qwen2.gguf", 9, 0, 4864 },
        { "data/gguf-malformed/valid-small.gguf", 9, 0, 4864 },
        { "data/gguf-malformed/v3-empty.bin", 0, 0, 32 },
        { "data/models/tiny-random/llama-2-tiny-random.gguf", 18, 12, 724416 },
        { "data/tokenizer-tests/ggml-vocab-deepseek-coder.gguf", 25, 0, 1156096 },
        { "data/tokenizer-tests/ggml-vocab-falcon.gguf", 18, 0, 2287744 },
    };
    int n_opened = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char     name[512];
        GgufFile f;
        Error    e = { 0 };
        if (!test_data(name, cases[i].name))
            continue;
        n_opened++;
        CHECK(gguf_open(&f, name, &e), "%s", e.msg);
        CHECK(f.meta && f.meta->n_entries == cases[i].n_entries && f.n_tensors == cases[i].n_tensors
                  && f.part[0].data_offset == cases[i].data_offset,
              "%s: %zu tensors", name, f.n_tensors);
        check_sound(&f);
        gguf_close(&f);
    }
    if (n_opened == 0)
        SKIP("no data");
}

static void vocabularies_are_read(void)
{
    char name[512];
    if (!test_data(name, "data/models/tiny-random/llama-2-tiny-random.gguf")) {
        SKIP("no data");
        return;
    }
    GgufFile    f;
    Error       e = { 0 };
    GgufString *tokens = NULL;
    float      *scores = NULL;
    int32_t    *types = NULL;
    size_t      n = 0;
    CHECK(gguf_open(&f, name, &e), "%s", e.msg);
    CHECK(gguf_read_strings(f.meta, "tokenizer.ggml.tokens", &tokens, &n, &e) && n == 32000, "%s",
          e.msg);
    CHECK(tokens && gguf_string_is(tokens[0], "<unk>") && gguf_string_is(tokens[13], "<0x0A>")
              && gguf_string_is(tokens[261], "er"), "tokens");
    CHECK(gguf_read_floats(f.meta, "tokenizer.ggml.scores", &scores, &n,
                           &e) && n == 32000 && scores[259] == -1e9f && scores[260] == -1, "%s",
    e.msg);
    CHECK(gguf_read_ints(f.meta, "tokenizer.ggml.token_type", &types, &n,
                         &e) && n == 32000 && types[0] == 2 && types[13] == 6, "%s", e.msg);
    free(tokens);
    free(scores);
    free(types);
    gguf_close(&f);
}

static void bad_files_of_others_are_refused(void)
{
    static const char *const cases[][2] = {
        { "data/gguf-malformed/bad-version.bin", "found version 1" },
        { "data/gguf-malformed/hdr-suppress-eos.gguf",
          "tensor 13 of 20: name: expected 19 bytes at byte 8181, found 11" },
        { "data/gguf-malformed/hdr-zero-first-dim.gguf",
          "tensor token_embd.weight: dimension 0: expected at least 1" },
        { "data/gguf-malformed/huge-counts.bin", "expected at most 0 tensors" },
        { "data/gguf-malformed/kv-huge-strlen.bin", "expected at most 0 key-values" },
        { "data/gguf-malformed/magic-only.bin", "header: version: expected 4 bytes" },
        { "data/gguf-old/ggml-vocab-llama.gguf-v1", "found version 1" },
        { "data/gguf-old/ggml-vocab.ggjt", "found a GGJT file" },
    };
    int n_opened = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char     name[512];
        GgufFile f;
        Error    e = { 0 };
        if (!test_data(name, cases[i][0]))
            continue;
        n_opened++;
        CHECK(!gguf_open(&f, name, &e) && e.status == INPUT && strstr(e.msg, cases[i][1]), "%s",
              e.msg);
        gguf_close(&f);
    }
    if (n_opened == 0)
        SKIP("no data");
}

int main(int argc, char **argv)
{
    if (!make_folder())
        return 2;
    char file[128];
    snprintf(file, sizeof file, "%s", in_folder("case.gguf"));
    path = file;
    TEST_MAIN_ARGS(argc, argv);
    TEST(tensors_are_read_row_major);
    TEST(alignment_comes_from_its_key);
    TEST(a_file_without_tensors_is_read);
    TEST(integers_of_every_type_are_read);
    TEST(other_scalars_are_read);
    TEST(arrays_are_read);
    TEST(every_truncation_is_refused);
    TEST(other_formats_are_named);
    TEST(counts_that_cannot_be_are_refused);
    TEST(string_lengths_past_the_end_are_refused);
    TEST(bad_key_values_are_refused);
    TEST(arrays_of_arrays_have_a_limit);
    TEST(bad_tensors_are_refused);
    TEST(bad_shapes_and_names_are_refused);
    TEST(mutated_files_are_refused_or_sound);
    TEST(a_string_of_4_gb_is_not_read);
    TEST(two_hundred_thousand_strings_and_tensors_take_no_time);
    TEST(any_part_opens_the_whole);
    TEST(parts_that_do_not_belong_together_are_refused);
    TEST(a_file_of_one_part_may_have_any_name);
    TEST(recorded_files_open_with_the_right_counts);
    TEST(vocabularies_are_read);
    TEST(bad_files_of_others_are_refused);
    unlink(file);
    rmdir(folder);
    return TEST_END();
}
