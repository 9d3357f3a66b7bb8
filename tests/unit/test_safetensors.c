#include <math.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/json.h"
#include "format/tensors.h"
#include "test.h"

static char path[64]; /* the one file of this test */

static void put_bytes(const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        abort();
}

/* A file of this header, then n_data bytes 0, 1, 2 ... */
static void put_file(const char *header, size_t n_data)
{
    uint64_t       n = strlen(header);
    unsigned char *bytes = malloc(8 + n + n_data);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < n_data; i++)
        bytes[8 + n + i] = (unsigned char)i;
    put_bytes(bytes, 8 + n + n_data);
    free(bytes);
}

static void refused(const char *what, const char *message)
{
    TensorFile f;
    Error      e = { 0 };
    bool       ok = safetensors_open(&f, path, &e);
    CHECK(!ok, "%s was accepted", what);
    CHECK(e.status == INPUT && strncmp(e.msg, path, strlen(path)) == 0 && strstr(e.msg, message),
          "%s: %d '%s'", what, e.status, e.msg);
    tensor_file_close(&f);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void a_sound_file_is_read(void)
{
    put_file("{\"b\": {\"dtype\": \"F32\", \"shape\": [2, 1], \"data_offsets\": [3, 11]},\n"
             " \"__metadata__\": {\"z\": \"\", \"config\": \"{\\\"d\\\": 1}\"},"
             " \"\": {\"dtype\": \"BOOL\", \"shape\": [], \"data_offsets\": [2, 3]},"
             " \"empty\": {\"dtype\": \"F64\", \"shape\": [0, 5], \"data_offsets\": [3, 3]},"
             " \"caf\xC3\xA9\": {\"data_offsets\": [0, 2], \"dtype\": \"BF16\", \"shape\": [1, 1, "
             "1, 1, 1, 1, 1, 1]}}   ",
             11);
    TensorFile f;
    Error      e = { 0 };
    char       text[64];
    CHECK(safetensors_open(&f, path, &e), "%s", e.msg);
    static const char *const order[] = { "caf\xC3\xA9", "", "empty", "b" };
    CHECK(f.n_tensors == 4 && f.n_meta == 2 && f.data_bytes == 11, "%d tensors, %d entries",
          f.n_tensors, f.n_meta);
    for (int i = 0; i < f.n_tensors; i++) {
        CHECK(strcmp(f.tensors[i].name, order[i]) == 0, "tensor %d is %s", i, f.tensors[i].name);
        CHECK(tensor_find(&f, order[i]) == &f.tensors[i], "%s is not found", order[i]);
    }
    const Tensor *b = tensor_find(&f, "b"), *scalar = tensor_find(&f, ""),
                 *empty = tensor_find(&f, "empty");
    if (!b || !scalar || !empty)
        return;
    CHECK(b->dtype == DT_F32 && b->rank == 2 && b->n_elements == 2 && b->n_bytes == 8
              && ((const unsigned char *)b->data)[0] == 3,
          "b");
    CHECK(b->offset == f.data_offset + 3 && strcmp(tensor_shape_text(b, text, sizeof text),
                                                   "[2, 1]") == 0, "%s", text);
    CHECK(scalar->rank == 0 && scalar->n_elements == 1 && strcmp(tensor_shape_text(scalar, text,
        sizeof text), "[]") == 0, "%s", text);
    CHECK(empty->n_elements == 0 && empty->n_bytes == 0, "empty");
    CHECK(strcmp(tensor_shape_text(b, text, 4), "[2,") == 0, "cut: %s", text);
    CHECK(!tensor_find(&f, "c") && !tensor_meta(&f, "no"), "found what is not there");
    const char *config = tensor_meta(&f, "config"), *z = tensor_meta(&f, "z");
    CHECK(config && strcmp(config, "{\"d\": 1}") == 0 && z && !*z, "metadata");
    tensor_file_close(&f);
    tensor_file_close(&f);
}

static void a_file_without_tensors_is_read(void)
{
    TensorFile f;
    Error      e = { 0 };
    put_file("{}", 0);
    CHECK(safetensors_open(&f, path, &e) && f.n_tensors == 0 && f.data_bytes == 0, "%s", e.msg);
    CHECK(!tensor_find(&f, "a") && !tensor_meta(&f, "a"), "found something");
    tensor_file_close(&f);
}

static void bad_headers_are_refused(void)
{
#define T(name, dtype, shape, offsets) \
    "\"" name "\": {\"dtype\": " dtype ", \"shape\": " shape ", \"data_offsets\": " offsets "}"
    static const struct {
        const char *header;
        size_t      n_data;
        const char *message;
    } cases[] = {
        { "[]", 0, "expected JSON that begins with '{'" },
        { " {}", 0, "expected JSON that begins with '{'" },
        { "{", 0, "header: byte 1: expected a key in quotes" },
        { "{} x", 0, "nothing after the value" },
        { "{" T("a", "\"F32\"", "[1]", "[0, 4]") "," T("a", "\"F32\"", "[1]", "[0, 4]") "}", 4,
          "\"a\" appears twice" },
        { "{\"a\": 3}", 0, "tensor a: expected an object, found 3" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [1]}}", 4,
          "tensor a: data_offsets: expected an array, found nothing" },
        { "{\"a\": {\"dtype\": \"F32\", \"data_offsets\": [0, 4]}}", 4,
          "tensor a: shape: expected an array, found nothing" },
        { "{\"a\": {\"shape\": [1], \"data_offsets\": [0, 4]}}", 4,
          "tensor a: dtype: expected a string, found nothing" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4], \"stride\": 1}}",
          4, "tensor a: unknown key stride" },
        { "{" T("a", "\"F6_E3M2\"", "[1]", "[0, 1]") "}", 1,
          "tensor a: dtype: expected one of BOOL, U8," },
        { "{" T("a", "\"F6_E3M2\"", "[1]", "[0, 1]") "}", 1, "found F6_E3M2" },
        { "{" T("a", "\"Q8_0\"", "[32]", "[0, 34]") "}", 34, "found Q8_0" },
        { "{" T("a", "\"f32\"", "[1]", "[0, 4]") "}", 4, "found f32" },
        { "{" T("a", "5", "[1]", "[0, 4]") "}", 4, "tensor a: dtype: expected a string, found 5" },
        { "{" T("a", "\"F32\"", "[-1]", "[0, 4]") "}", 4,
          "tensor a: shape: expected an integer from 0 to 9007199254740991, found -1" },
        { "{" T("a", "\"F32\"", "[1.5]", "[0, 4]") "}", 4, "found 1.5" },
        { "{" T("a", "\"F32\"", "[\"1\"]", "[0, 4]") "}", 4, "found '1'" },
        { "{" T("a", "\"F32\"", "{}", "[0, 4]") "}", 4,
          "shape: expected an array, found an object" },
        { "{" T("a", "\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0, 4]") "}", 4,
          "shape: expected at most 8 numbers, found 9" },
        { "{" T("a", "\"F32\"", "[4294967296, 4294967296]", "[0, 0]") "}", 0,
          "the size of F32 [4294967296, 4294967296] overflows" },
        { "{" T("a", "\"F64\"", "[2305843009213693952]", "[0, 0]") "}", 0, "found 2.30584" },
        { "{" T("a", "\"F64\"", "[9007199254740991, 257]", "[0, 0]") "}", 0, "overflows" },
        { "{" T("a", "\"F32\"", "[3]", "[0, 8]") "}", 8,
          "tensor a: data_offsets: expected 12 bytes for F32 [3], found 8 (0 to 8)" },
        { "{" T("a", "\"F32\"", "[2]", "[8, 0]") "}", 8, "begin after end" },
        { "{" T("a", "\"F32\"", "[2]", "[0]") "}", 8, "fewer than two" },
        { "{" T("a", "\"F32\"", "[2]", "[0, 4, 8]") "}", 8, "expected at most 2 numbers, found 3" },
        { "{" T("a", "\"F32\"", "[2]", "[0, 18446744073709551624]") "}", 8,
          "found 1.84467e+19" },
        { "{" T("a", "\"U8\"", "[9007199254740990]", "[0, 9007199254740990]") "}", 8,
          "expected an end of at most 8" },
        { "{" T("a", "\"F32\"", "[2]", "[0, 8]") "}", 7, "expected an end of at most 7" },
        { "{" T("a", "\"F32\"", "[2]", "[0, 8]") "}", 9, "to end with its last tensor at byte" },
        { "{" T("a", "\"F32\"", "[2]", "[4, 12]") "}", 12,
          "tensor a: expected data from byte 0, found 4: the bytes between belong to no tensor" },
        { "{" T("a", "\"F32\"", "[1]", "[0, 4]") "," T("b", "\"F32\"", "[1]", "[8, 12]") "}", 12,
          "tensor b: expected data from byte 4" },
        { "{" T("a", "\"F32\"", "[2]", "[0, 8]") "," T("b", "\"F32\"", "[2]", "[4, 12]") "}", 12,
          "found 4: it overlaps tensor a" },
        { "{" T("a", "\"F32\"", "[2]", "[0, 8]") "," T("b", "\"F32\"", "[2]", "[0, 8]") "}", 8,
          "overlaps" },
        { "{" T("a", "\"F32\"", "[2]", "[0, 8]") "," T("b", "\"F32\"", "[0]", "[4, 4]") "}", 8,
          "overlaps" },
        { "{" T("a", "\"F32\"", "[0]", "[4, 4]") "}", 4, "the bytes between belong to no tensor" },
        { "{}", 1, "to end with its last tensor at byte" },
        { "{\"__metadata__\": {\"n\": 3}}", 0, "metadata n: expected a string, found 3" },
        { "{\"__metadata__\": {\"n\": null}}", 0, "metadata n: expected a string, found null" },
        { "{\"__metadata__\": [\"n\"]}", 0, "__metadata__: expected an object, found an array" },
        { "{\"__metadata__\": null}", 0, "__metadata__: expected an object, found null" },
        { "{\"__metadata__\": {\"n\": \"1\", \"n\": \"2\"}}", 0, "\"n\" appears twice" },
    };
#undef T
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_file(cases[i].header, cases[i].n_data);
        refused(cases[i].header, cases[i].message);
    }
}

static void bad_header_lengths_are_refused(void)
{
    static const struct {
        uint64_t    length;
        const char *message;
    } cases[] = {
        { UINT64_C(1) << 63,
          "header length: expected at most 100000000, found 9223372036854775808" },
        { UINT64_MAX, "found 18446744073709551615" },
        { UINT64_MAX - 7, "found 18446744073709551608" },
        { 100000001, "expected at most 100000000" },
        { 100000000, "the header of 100000000 bytes does not fit into the file of 12 bytes" },
        { 5, "the header of 5 bytes does not fit into the file of 12 bytes" },
        { 0, "begins with '{'" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[12] = "........{}  ";
        memcpy(bytes, &cases[i].length, 8);
        put_bytes(bytes, sizeof bytes);
        refused("a header length", cases[i].message);
    }
    for (size_t n = 0; n < 8; n++) {
        put_bytes("\2\0\0\0\0\0\0\0", n);
        refused("a stump", "expected a safetensors file, found ");
    }
    put_bytes("\2\0\0\0\0\0\0\0", 8);
    refused("a length alone", "does not fit into the file of 8 bytes");
}

static void other_formats_are_named(void)
{
    static const char *const cases[][2] = { { "GGUF\3.......", "a GGUF file" },
                                            { "PK\3\4........", "a zip archive" },
                                            { "{\"d_model\": 4}", "a JSON text" },
                                            { "version https://git-lfs.github.com/spec/v1",
                                              "Git LFS pointer" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_bytes(cases[i][0], strlen(cases[i][0]));
        refused(cases[i][0], cases[i][1]);
    }
}

static const char sound_header[] =
    "{\"__metadata__\": {\"format\": \"pt\"}, \"w\": {\"dtype\": \"F32\", \"shape\": [2, 3], "
    "\"data_offsets\": [0, 24]},"
    " \"b\": {\"dtype\": \"F16\", \"shape\": [4], \"data_offsets\": [24, 32]}}";

static void every_truncation_is_refused(void)
{
    unsigned char bytes[512];
    size_t        n = sizeof sound_header - 1;
    uint64_t      length = n;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, sound_header, n);
    memset(bytes + 8 + n, 7, 32);
    for (size_t cut = 0; cut < 8 + n + 32; cut++) {
        put_bytes(bytes, cut);
        refused("a truncated file", path);
    }
}

/* Whatever is accepted must hold what reader and model rely on. */
static void mutated_files_are_refused_or_sound(void)
{
    size_t   n = sizeof sound_header - 1;
    uint32_t state = 1;
    int      accepted = 0;
    for (int round = 0; round < 4000; round++) {
        char header[sizeof sound_header];
        memcpy(header, sound_header, sizeof header);
        for (int k = 0; k < 1 + round % 3; k++) {
            state = state * 1664525 + 1013904223;
            header[(state >> 8) % n] =
                (state & 1) ? (char)(32 + (state >> 20) % 95) : (char)('0' + (state >> 20) % 10);
        }
        put_file(header, 32);
        TensorFile f;
        Error      e = { 0 };
        if (!safetensors_open(&f, path, &e)) {
            CHECK(e.status == INPUT && e.msg[0], "%s: %d", header, e.status);
            continue;
        }
        accepted++;
        size_t total = 0;
        for (int i = 0; i < f.n_tensors; i++) {
            const Tensor *t = &f.tensors[i];
            CHECK(t->offset >= f.data_offset && t->offset + t->n_bytes <= f.map.size,
                  "%s: out of the file", header);
            CHECK(tensor_find(&f, t->name) == t, "%s: %s is not found", header, t->name);
            total += t->n_bytes;
        }
        CHECK(total == f.data_bytes, "%s: %zu of %zu bytes", header, total, f.data_bytes);
        tensor_file_close(&f);
    }
    CHECK(accepted > 100, "only %d were sound", accepted);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static const int64_t shape_23[] = { 2, 3 }, shape_0[] = { 0 };
static const float   six[] = { 1, 2, 3, 4, 5, 6 };

static TensorWriter *two_tensors(size_t align, Error *e)
{
    TensorWriter *w = tensor_writer_new(path, align, e);
    bool ok = w && tensor_writer_meta(w, "sha256", "0000", e)
        && tensor_writer_meta(w, "quote\"\n", "caf\xC3\xA9", e)
        && tensor_writer_declare(w, "w", DT_F32, 2, shape_23, e)
        && tensor_writer_declare(w, "none", DT_F32, 1, shape_0, e)
        && tensor_writer_declare(w, "scalar", DT_U8, 0, NULL, e) && tensor_writer_begin(w, e);
    if (ok)
        return w;
    tensor_writer_abort(w);
    return NULL;
}

static void what_is_written_is_read_back(void)
{
    static const size_t aligns[] = { 1, 8, 64, 4096 };
    for (size_t i = 0; i < sizeof aligns / sizeof *aligns; i++) {
        Error         e = { 0 };
        TensorFile    f = { 0 };
        TensorWriter *w = two_tensors(aligns[i], &e);
        CHECK(w, "%s", e.msg);
        if (!w)
            return;
        CHECK(tensor_writer_put(w, 2, 0, "x", 1, &e) && tensor_writer_put(w, 0, 8, six + 2, 16, &e)
                  && tensor_writer_put(w, 0, 0, six, 8, &e), "%s", e.msg);
        CHECK(tensor_writer_patch_meta(w, "sha256", "abcd", &e), "%s", e.msg);
        CHECK(tensor_writer_end(w, &e), "%s", e.msg);
        CHECK(safetensors_open(&f, path, &e), "%s", e.msg);
        CHECK(f.data_offset % (aligns[i] < 8 ? 8 : aligns[i]) == 0 && f.n_tensors == 3,
              "data at %zu", f.data_offset);
        const Tensor *t = tensor_find(&f, "w"), *scalar = tensor_find(&f, "scalar");
        const char   *hash = tensor_meta(&f, "sha256"), *quote = tensor_meta(&f, "quote\"\n");
        CHECK(t && memcmp(t->data, six,
                          sizeof six) == 0 && scalar && *(const char *)scalar->data == 'x', "data");
        CHECK(hash && strcmp(hash, "abcd") == 0 && quote && strcmp(quote, "caf\xC3\xA9") == 0,
              "metadata");
        tensor_file_close(&f);
    }
}

enum { LARGE = 5 << 20 };

/* Pieces of all lengths, in order and from the end, over the boundaries of what is held back. */
static void large_tensors_come_in_any_pieces_and_order(void)
{
    static const size_t steps[] = { 1237, 4097, 1000003, 2 << 20, LARGE };
    unsigned char      *data = malloc(LARGE);
    CHECK(data, "memory");
    for (size_t i = 0; data && i < LARGE; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    for (size_t i = 0; data && i < 2 * sizeof steps / sizeof *steps; i++) {
        Error         e = { 0 };
        TensorFile    f = { 0 };
        size_t        step = steps[i / 2], n = (LARGE + step - 1) / step;
        TensorWriter *w = tensor_writer_new(path, 8, &e);
        bool ok = w && tensor_writer_declare(w, "a", DT_U8, 1, (const int64_t[]){ 3 }, &e)
            && tensor_writer_declare(w, "b", DT_U8, 1, (const int64_t[]){ LARGE }, &e)
            && tensor_writer_begin(w, &e) && tensor_writer_put(w, 0, 0, "abc", 3, &e);
        for (size_t j = 0; j < n && ok; j++) {
            size_t at = step * (i % 2 ? n - 1 - j : j);
            ok = tensor_writer_put(w, 1, at, data + at, at + step > LARGE ? LARGE - at : step, &e);
        }
        CHECK(ok && tensor_writer_end(w, &e) && safetensors_open(&f, path, &e), "%s", e.msg);
        CHECK(f.n_tensors == 2 && memcmp(f.tensors[1].data, data, LARGE) == 0, "step %zu", step);
        tensor_file_close(&f);
    }
    free(data);
}

static void a_writer_sees_its_callers_mistakes(void)
{
    Error         e = { 0 };
    int64_t huge[] = { INT64_MAX, 2 }, negative[] = { -1 }, nine[9] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    TensorWriter *w = two_tensors(8, &e);
    CHECK(w, "%s", e.msg);
    if (!w)
        return;
    CHECK(!tensor_writer_put(w, 3, 0, "x", 1, &e) && !tensor_writer_put(w, -1, 0, "x", 1, &e),
          "no such tensor");
    CHECK(!tensor_writer_put(w, 0, 24, "x", 1, &e) && !tensor_writer_put(w, 0, 25, "x", 0,
        &e) && !tensor_writer_put(w, 0, 1, six, 24, &e)
              && !tensor_writer_put(w, 0, 1, six, SIZE_MAX, &e), "past the end");
    CHECK(!tensor_writer_patch_meta(w, "sha256", "abc", &e) && !tensor_writer_patch_meta(w, "no",
        "abcd", &e), "a patch");
    CHECK(tensor_writer_put(w, 0, 0, six, 24, &e), "%s", e.msg);
    put_file("{}", 0);
    CHECK(!tensor_writer_end(w, &e) && strstr(e.msg,
                                              "tensor scalar: expected 1 bytes, found 0 written"),
    "%s", e.msg);
    TensorFile f;
    CHECK(safetensors_open(&f, path, &e) && f.n_tensors == 0, "the old file is gone");
    tensor_file_close(&f);

    w = tensor_writer_new(path, 8, &e);
    CHECK(!tensor_writer_declare(w, "a", DT_F32, 2, huge, &e) && strstr(e.msg, "overflows"), "%s",
          e.msg);
    CHECK(!tensor_writer_declare(w, "a", DT_F32, 1, negative, &e) && !tensor_writer_declare(w, "a",
        DT_F32, 9, nine, &e), "shapes");
    CHECK(!tensor_writer_declare(w, "a", DT_Q4_0, 1, (const int64_t[]){ 32 }, &e) && strstr(e.msg,
        "no type Q4_0"), "%s", e.msg);
    CHECK(!tensor_writer_declare(w, "__metadata__", DT_F32, 1, nine,
                                 &e) && !tensor_writer_declare(w, "\xFF", DT_F32, 1, nine, &e),
    "names");
    CHECK(tensor_writer_meta(w, "k", "v", &e) && !tensor_writer_meta(w, "k", "v",
        &e) && !tensor_writer_meta(w, "l", "\xFF", &e), "metadata");
    CHECK(tensor_writer_declare(w, "a", DT_F32, 1, nine, &e) && tensor_writer_declare(w, "a",
        DT_F32, 1, nine, &e), "%s", e.msg);
    CHECK(!tensor_writer_begin(w, &e) && strstr(e.msg, "tensor a: declared twice"), "%s", e.msg);
    tensor_writer_abort(w);
    tensor_writer_abort(NULL);
}

static void a_full_disk_is_an_error(void)
{
    Error         e = { 0 };
    TensorWriter *w = tensor_writer_new("/dev/full", 4096, &e);
    CHECK(w && tensor_writer_declare(w, "w", DT_F32, 2, shape_23, &e) && tensor_writer_begin(w, &e)
              && tensor_writer_put(w, 0, 0, six, 24, &e), "%s", e.msg);
    CHECK(!tensor_writer_end(w, &e) && e.status == SYSTEM && strstr(e.msg,
        "/dev/full: cannot write: No space"), "%s", e.msg);
    CHECK(!tensor_writer_new("/no/such/folder/x", 8, &e) && strstr(e.msg,
        "/no/such/folder/x: cannot write"), "%s", e.msg);
}

static void fifty_thousand_tensors_take_no_time(void)
{
    Error         e = { 0 };
    char          name[64];
    clock_t       start = clock();
    TensorWriter *w = tensor_writer_new(path, 4096, &e);
    bool          ok = w;
    for (int i = 0; i < 50000 && ok; i++) {
        snprintf(name, sizeof name, "layers.%d.w", i * 7919 % 50000);
        ok = tensor_writer_declare(w, name, DT_U8, 1, (const int64_t[]){ 1 }, &e);
    }
    ok = ok && tensor_writer_begin(w, &e);
    for (int i = 0; i < 50000 && ok; i++)
        ok = tensor_writer_put(w, i, 0, "x", 1, &e);
    CHECK(ok && tensor_writer_end(w, &e), "%s", e.msg);
    double     write_time = (double)(clock() - start) / CLOCKS_PER_SEC;
    TensorFile f = { 0 };
    start = clock();
    CHECK(safetensors_open(&f, path, &e) && f.n_tensors == 50000, "%s", e.msg);
    for (int i = 0; i < f.n_tensors; i++)
        CHECK(tensor_find(&f, f.tensors[i].name) == &f.tensors[i], "%s", f.tensors[i].name);
    double read_time = (double)(clock() - start) / CLOCKS_PER_SEC;
    fprintf(stderr, "# 50000 tensors: written in %.2f s, opened and all found in %.2f s\n",
            write_time, read_time);
    CHECK(read_time < 5, "%g s", read_time);
    tensor_file_close(&f);
}

static void a_header_of_millions_of_values_is_refused(void)
{
    enum { N = 6000000 };
    static const char begin[] = "{\"a\": {\"shape\": [0", end[] = "]}}";
    char *header = malloc(sizeof begin + 2 * (size_t)N + sizeof end), *at = header;
    at = (char *)memcpy(at, begin, sizeof begin - 1) + sizeof begin - 1;
    for (int i = 0; i < N; i++, at += 2)
        memcpy(at, ",0", 2);
    memcpy(at, end, sizeof end);
    put_file(header, 0);
    free(header);
    long before = peak_kb();
    refused("a shape of millions", "header: expected at most 4194304 values, found more");
    CHECK(peak_kb() - before < 450000, "%ld KB", peak_kb() - before);
}

static void dtypes_have_names_and_sizes(void)
{
    for (int i = 0; i < DT_BLOCKS; i++) {
        DType t = DT_COUNT;
        CHECK(dtype_parse(dtype_name((DType)i), &t) && t == (DType)i && dtype_bytes(t) >= 1, "%s",
              dtype_name((DType)i));
    }
    DType t;
    CHECK(dtype_bytes(DT_BF16) == 2 && dtype_bytes(DT_F64) == 8 && dtype_bytes(DT_F8_E4M3) == 1
              && !dtype_parse("F6_E2M3", &t) && !dtype_parse("", &t),
          "dtypes");
    for (int i = DT_BLOCKS; i < DT_COUNT; i++)
        CHECK(!dtype_parse(dtype_name((DType)i), &t), "%s", dtype_name((DType)i));
}

int main(int argc, char **argv)
{
    snprintf(path, sizeof path, "/tmp/tblock-test-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0)
        return 2;
    close(fd);
    TEST_MAIN_ARGS(argc, argv);
    TEST(a_sound_file_is_read);
    TEST(a_file_without_tensors_is_read);
    TEST(bad_headers_are_refused);
    TEST(bad_header_lengths_are_refused);
    TEST(other_formats_are_named);
    TEST(every_truncation_is_refused);
    TEST(mutated_files_are_refused_or_sound);
    TEST(what_is_written_is_read_back);
    TEST(large_tensors_come_in_any_pieces_and_order);
    TEST(a_writer_sees_its_callers_mistakes);
    TEST(a_full_disk_is_an_error);
    TEST(fifty_thousand_tensors_take_no_time);
    TEST(a_header_of_millions_of_values_is_refused);
    TEST(dtypes_have_names_and_sizes);
    unlink(path);
    return TEST_END();
}
