/* The files of tests/data/pth: hand-* are written by tests/format/make_pth.py from the standard
 * library of Python, torch-* by PyTorch 2.15.0 itself. */
#include "format/pth.h"
#include "base/file.h"
#include "test.h"
#include "zip_writer.h"
#include "../fuzz/memory_file.h"

static const char *const recorded[] = {
    "hand-zip-2", "hand-zip-4", "hand-zip64-2", "hand-legacy-2",
    "hand-legacy-4",      "torch-zip-state",    "torch-zip-kinds",    "torch-zip-4",
    "torch-zip-unsigned", "torch-legacy-state", "torch-legacy-kinds", "torch-legacy-4",
};
enum { N_RECORDED = sizeof recorded / sizeof *recorded };

static const char *path_of(const char *name, const char *end)
{
    static char path[200];
    snprintf(path, sizeof path, "tests/data/pth/%s%s", name, end);
    return path;
}

static char *text_of(const char *path, size_t *n)
{
    char *text = NULL;
    Error e = { 0 };
    if (!file_read(path, 1 << 20, &text, n, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        exit(4);
    }
    return text;
}

/* ---- Sound files ----------------------------------------------------------------------------- */

/* One line of NAME.txt: name, dtype, shape ("-": a scalar), values in hex ("-": none). */
static void check_tensor(const TensorFile *f, const char *file, int i, const char *name,
                         const char *dtype, const char *shape, const char *hex)
{
    const Tensor *t = tensor_find(f, name);
    CHECK(t && i < f->n_tensors && t == &f->tensors[i], "%s: %s is not tensor %d", file, name, i);
    if (!t)
        return;
    char   found[200] = "";
    size_t n = 0;
    for (int d = 0; d < t->rank; d++)
        n += (size_t)snprintf(found + n, sizeof found - n, "%s%lld", d ? "," : "",
                              (long long)t->shape[d]);
    CHECK(strcmp(dtype_name(t->dtype), dtype) == 0, "%s: %s is %s", file, name,
          dtype_name(t->dtype));
    CHECK(strcmp(t->rank ? found : "-", shape) == 0, "%s: %s has shape %s", file, name, found);
    size_t n_hex = strcmp(hex, "-") == 0 ? 0 : strlen(hex);
    CHECK(n_hex == 2 * t->n_bytes, "%s: %s has %zu bytes", file, name, t->n_bytes);
    for (size_t k = 0; k < n_hex / 2 && k < t->n_bytes; k++) {
        char     two[3] = { hex[2 * k], hex[2 * k + 1], 0 };
        unsigned expected = (unsigned)strtoul(two, NULL, 16),
                 byte = ((const unsigned char *)t->data)[k];
        CHECK(byte == expected, "%s: %s: byte %zu is %02x, not %s", file, name, k, byte, two);
    }
    bool in_file = t->offset != SIZE_MAX;
    CHECK(!in_file || t->data == f->map.data + t->offset, "%s: %s: offset", file, name);
}

static void recorded_files_hold_the_tensors_that_were_saved(void)
{
    for (int r = 0; r < N_RECORDED; r++) {
        TensorFile f;
        Error      e = { 0 };
        size_t     n;
        int        lines = 0;
        char      *text = text_of(path_of(recorded[r], ".txt"), &n), *save = NULL;
        CHECK(pth_open(&f, path_of(recorded[r], ".pth"), &e), "%s", e.msg);
        for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save), lines++) {
            char *field = NULL, *name = strtok_r(l, " ", &field),
                 *dtype = strtok_r(NULL, " ", &field), *shape = strtok_r(NULL, " ", &field),
                 *hex = strtok_r(NULL, " ", &field);
            check_tensor(&f, recorded[r], lines, name, dtype, shape, hex);
        }
        CHECK(lines > 0 && lines == f.n_tensors, "%s: %d tensors, not %d", recorded[r], f.n_tensors,
              lines);
        tensor_file_close(&f);
        free(text);
    }
}

static void only_views_that_are_not_row_major_are_copied(void)
{
    TensorFile f;
    Error      e = { 0 };
    CHECK(pth_open(&f, path_of("hand-zip-2", ".pth"), &e), "%s", e.msg);
    for (int i = 0; i < f.n_tensors; i++) {
        const char *name = f.tensors[i].name;
        bool        copied = strcmp(name, "transposed") == 0 || strcmp(name, "every_second") == 0
                   || strcmp(name, "broadcast") == 0 || strcmp(name, "cube") == 0;
        CHECK((f.tensors[i].offset == SIZE_MAX) == copied, "%s", name);
    }
    const Tensor *embed = tensor_find(&f, "embed.weight"), *tied = tensor_find(&f, "tied.weight");
    CHECK(embed && tied && embed->data == tied->data, "tied weights are two");
    CHECK(!tensor_find(&f, "version") && !tensor_find(&f, "_metadata") && !tensor_find(&f,
        "options"), "a number is a tensor");
    tensor_file_close(&f);
    tensor_file_close(&f);
}

static void files_are_recognised_by_their_first_bytes(void)
{
    for (int r = 0; r < N_RECORDED; r++) {
        size_t n;
        char  *bytes = text_of(path_of(recorded[r], ".pth"), &n);
        CHECK(pth_is((unsigned char *)bytes, 64), "%s", recorded[r]);
        CHECK(!pth_is((unsigned char *)bytes, 3), "%s by three bytes", recorded[r]);
        CHECK(pth_is((unsigned char *)bytes, 13) == (bytes[0] == 'P'), "%s by 13 bytes",
              recorded[r]);
        free(bytes);
    }
    CHECK(!pth_is(NULL, 0) && !pth_is((const unsigned char *)"GGUF\3\0\0\0",
                                      8) && !pth_is((const unsigned char *)"\x80\2N.", 4),
    "others");
}

/* ---- Malformed files ------------------------------------------------------------------------- */

static void refused_bytes(const char *what, const void *bytes, size_t n, const char *message)
{
    TensorFile f;
    Error      e = { 0 };
    bool       ok = pth_open(&f, memory_file(bytes, n), &e);
    CHECK(!ok, "%s was accepted", what);
    CHECK(e.status == INPUT && strncmp(e.msg, "/proc/self/fd/", 14) == 0 && strstr(e.msg, message),
          "%s: %d '%s'", what, e.status, e.msg);
    tensor_file_close(&f);
}

static void a_file_cut_anywhere_is_refused(void)
{
    for (int r = 0; r < N_RECORDED; r++) {
        size_t n;
        char  *bytes = text_of(path_of(recorded[r], ".pth"), &n);
        for (size_t cut = 0; cut < n; cut++)
            refused_bytes(recorded[r], bytes, cut, "");
        free(bytes);
    }
}

static void a_byte_too_many_is_refused(void)
{
    for (int r = 0; r < N_RECORDED; r++) {
        size_t n;
        char  *bytes = text_of(path_of(recorded[r], ".pth"), &n);
        bytes[n] = 0; /* in place of the NUL behind the text */
        refused_bytes(recorded[r], bytes, n + 1,
                      bytes[0] == 'P' ? "found none"
                                      : "expected the file to end with its last storage at byte");
        free(bytes);
    }
}

/* ---- Archives of a test's own ---------------------------------------------------------------- */

static ZipOut out;

#define FLOATS(key, n)      "(U\7storagectorch\nFloatStorage\nU\1" key "U\3cpuK" n "tQ"
#define TENSOR(storage, offset, shape, stride) \
    "ctorch._utils\n_rebuild_tensor_v2\n(" storage offset shape stride "\x89}tR"
#define ONE                 TENSOR(FLOATS("0", "\4"), "K\0", "K\4\x85", "K\1\x85")
#define DICT(entries)       "\x80\2}(" entries "u."

/* An archive of this pickle and a storage "0" of four floats; extra: one more entry. */
static void make(const void *pickle, size_t n, const char *extra, const char *content)
{
    static const float floats[4] = { 1, 2, 3, 4 };
    memset(&out, 0, sizeof out);
    zip_add(&out, "x/data.pkl", pickle, n);
    zip_add(&out, "x/data/0", floats, sizeof floats);
    if (extra)
        zip_add(&out, extra, content, strlen(content));
    zip_end(&out, 0);
}

static void refused_with(const char *what, const char *pickle, size_t n, const char *extra,
                         const char *content, const char *message)
{
    make(pickle, n, extra, content);
    refused_bytes(what, out.bytes, out.n, message);
}

#define REFUSED(what, pickle, message) \
    refused_with(what, pickle, sizeof(pickle) - 1, NULL, NULL, message)

static void one_tensor_is_read(void)
{
    static const char pickle[] = DICT("U\1w" ONE);
    TensorFile        f;
    Error             e = { 0 };
    make(pickle, sizeof pickle - 1, "x/byteorder", "little");
    CHECK(pth_open(&f, memory_file(out.bytes, out.n), &e), "%s", e.msg);
    const Tensor *w = tensor_find(&f, "w");
    CHECK(w && w->n_bytes == 16 && ((const unsigned char *)w->data)[15] == 0x40, "w");
    tensor_file_close(&f);
}

static void the_inner_dict_of_a_training_checkpoint_is_read(void)
{
    static const char pickle[] = DICT("U\4best" ONE "U\7history]U\5model}U\1w" ONE "s");
    TensorFile        f;
    Error             e = { 0 };
    make(pickle, sizeof pickle - 1, NULL, NULL);
    CHECK(pth_open(&f, memory_file(out.bytes, out.n), &e), "%s", e.msg);
    CHECK(f.n_tensors == 1 && tensor_find(&f, "w"), "%d tensors", f.n_tensors);
    tensor_file_close(&f);
}

static void archives_of_another_kind_are_refused(void)
{
    static const char sound[] = DICT("U\1w" ONE);
    const size_t      n = sizeof sound - 1;
    refused_with("big-endian", sound, n, "x/byteorder", "big",
                 "byteorder: expected little, found big");
    refused_with("TorchScript", sound, n, "x/constants.pkl", "",
                 "found a TorchScript archive (constants.pkl)");
    refused_with("two objects", sound, n, "y/data.pkl", "N.",
                 "expected one entry FOLDER/data.pkl, found several");
    memset(&out, 0, sizeof out);
    zip_add(&out, "data.pkl", sound, n);
    zip_end(&out, 0);
    refused_bytes("no folder", out.bytes, out.n, "found a zip archive without FOLDER/data.pkl");
    refused_bytes(
        "text", "hello", 5,
        "expected a PyTorch checkpoint (a zip archive or the legacy form), found another file");
    refused_bytes("nothing", "", 0, "found another file");
}

static void objects_of_another_kind_are_refused(void)
{
    REFUSED("a list", "\x80\2].", "expected a dict of tensors, found a list");
    REFUSED("a tensor", "\x80\2" ONE ".", "expected a dict of tensors, found a tensor");
    REFUSED("nothing", DICT(""), "found a dict without tensors");
    REFUSED("numbers", DICT("U\1aK\1"), "found a dict without tensors");
    REFUSED("two of them", DICT("U\5model}U\1w" ONE "sU\6module}U\1w" ONE "s"),
            "expected one dict of tensors, found model and module");
    REFUSED("a list in it", DICT("U\1w" ONE "U\1a]"), "entry a: expected a tensor, found a list");
    REFUSED("a storage in it", DICT("U\1w" ONE "U\1a" FLOATS("0", "\4")),
            "entry a: expected a tensor, found a torch storage");
    REFUSED("a number as name", DICT("K\1" ONE), "expected a name for each tensor, found a int");
    REFUSED("a name twice", DICT("U\1w" ONE "U\1w" ONE), "tensor w appears twice");
    REFUSED("a NUL", DICT("U\3w\0w" ONE), "expected a name in UTF-8 without NUL");
    REFUSED("bad UTF-8", DICT("U\2w\xFF" ONE), "expected a name in UTF-8 without NUL");
    REFUSED("trailing bytes", DICT("U\1w" ONE) "N",
            "data.pkl: expected it to end with its pickle at byte");
    REFUSED("code", "\x80\2" "cos\nsystem\nU\2id\x85R.",
            "data.pkl: byte 2: global os.system would execute code; refused");
}

#define LARGE "\x8a\x08\0\0\0\0\0\0\0\x40" /* 2^62 */

static void views_that_leave_their_storage_are_refused(void)
{
#define VIEW(offset, shape, stride) DICT("U\1w" TENSOR(FLOATS("0", "\4"), offset, shape, stride))
    REFUSED("size", VIEW("K\0", "K\5\x85", "K\1\x85"),
            "tensor w: [5] from element 0 does not fit into its storage 0 of 16 bytes");
    REFUSED("offset", VIEW("K\1", "K\4\x85", "K\1\x85"),
            "tensor w: [4] from element 1 does not fit into its storage 0 of 16 bytes");
    REFUSED("stride", VIEW("K\0", "K\2\x85", "K\4\x85"),
            "does not fit into its storage 0 of 16 bytes");
    REFUSED("both", VIEW("K\0", "K\2K\2\x86", "K\2K\2\x86"),
            "does not fit into its storage 0 of 16 bytes");
    REFUSED("scalar", VIEW("K\4", ")", ")"), "does not fit into its storage 0 of 16 bytes");
    REFUSED("empty", VIEW("K\5", "K\0\x85", "K\1\x85"),
            "does not fit into its storage 0 of 16 bytes");
    REFUSED("large offset", VIEW(LARGE, "K\1\x85", "K\1\x85"),
            "does not fit into its storage 0 of 16 bytes");
    REFUSED("large stride", VIEW("K\0", "K\5\x85", LARGE "\x85"),
            "does not fit into its storage 0 of 16 bytes");
    REFUSED("large strides", VIEW("K\0", "K\3K\3\x86", LARGE LARGE "\x86"),
            "does not fit into its storage 0 of 16 bytes");
    REFUSED("large size", VIEW("K\0", LARGE LARGE "\x86", "K\0K\0\x86"),
            "tensor w: the size of F32 [4611686018427387904, 4611686018427387904] overflows");
    REFUSED("a bomb", VIEW("K\0", "J\0\0\0\x40K\4\x86", "K\0K\1\x86"),
            "tensors that are not row-major are copied: expected at most 67109");
    REFUSED("a bomb of few", VIEW("K\0", "J\0\0\0\1K\4\x86", "K\0K\0\x86"),
            "tensors that are not row-major are copied");
    REFUSED("another type", DICT("U\1wctorch._utils\n_rebuild_tensor_v3\n(" FLOATS("0",
        "\4") "K\0K\1\x85K\1\x85\x89}ctorch\nint32\ntR"),
            "tensor w: expected F32, the type of its storage, found I32");
}

static void storages_of_another_size_are_refused(void)
{
    REFUSED("no entry", DICT("U\1w" TENSOR(FLOATS("1", "\4"), "K\0", "K\4\x85", "K\1\x85")),
            "storage 1: expected an entry data/1, found none");
    REFUSED("fewer", DICT("U\1w" TENSOR(FLOATS("0", "\3"), "K\0", "K\3\x85", "K\1\x85")),
            "storage 0: expected 12 bytes in its entry, found 16");
    REFUSED("two sizes", DICT("U\1w" ONE "U\1v" TENSOR(FLOATS("0", "\3"), "K\0", "K\3\x85",
                                                       "K\1\x85")), "storage 0: expected one size");
    REFUSED("too many",
            DICT("U\1w" TENSOR("(U\7storagectorch\nFloatStorage\nU\1"
                               "0U\3cpu" LARGE "tQ",
                               "K\0", ")", ")")),
            "storage 0: the size of 4611686018427387904 elements overflows");
    REFUSED("a key that leads elsewhere",
            DICT("U\1wctorch._utils\n_rebuild_tensor_v2\n((U\7storagectorch\nFloatStorage\nU\13../"
                 "data.pkl"
                 "U\3cpuK\4tQK\0))\x89}tR"),
            "storage ../data.pkl: expected an entry data/../data.pkl, found none");
}

/* ---- The legacy form ------------------------------------------------------------------------- */

#define MAGIC   "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
#define VERSION "\x80\2M\xe9\3."
#define LITTLE  "\x80\2}U\x0dlittle_endian\x88s."
#define OBJECT  "\x80\2}U\1w" ONE "s."
#define KEYS    "\x80\2]U\1" "0a."
#define DATA    "\4\0\0\0\0\0\0\0" "0123456789abcdef"

#define LEGACY(what, bytes, message) refused_bytes(what, bytes, sizeof(bytes) - 1, message)

static void legacy_files_are_checked(void)
{
    TensorFile        f;
    Error             e = { 0 };
    static const char sound[] = MAGIC VERSION LITTLE OBJECT KEYS DATA;
    CHECK(pth_open(&f, memory_file(sound, sizeof sound - 1),
                   &e) && f.n_tensors == 1 && memcmp(f.tensors[0].data, "0123456789abcdef",
                                                     16) == 0,
          "%s", e.msg);
    tensor_file_close(&f);
    LEGACY("version", MAGIC "\x80\2K\1." LITTLE OBJECT KEYS DATA,
           "protocol version: expected 1001, found another");
    LEGACY("big-endian", MAGIC VERSION "\x80\2}U\x0dlittle_endian\x89s." OBJECT KEYS DATA,
           "little_endian: expected True, found a big-endian file");
    LEGACY("no endianness", MAGIC VERSION "\x80\2}." OBJECT KEYS DATA,
           "little_endian: expected True, found no such entry");
    LEGACY("no dict", MAGIC VERSION "\x80\2N." OBJECT KEYS DATA,
           "little_endian: expected True, found no such entry");
    LEGACY("no keys", MAGIC VERSION LITTLE OBJECT "\x80\2].",
           "tensor w: expected its storage 0 in the file");
    LEGACY("keys", MAGIC VERSION LITTLE OBJECT "\x80\2}.",
           "storage keys: expected a list, found a dict");
    LEGACY("a key twice", MAGIC VERSION LITTLE OBJECT "\x80\2](U\1" "0U\1" "0e." DATA DATA,
           "storage keys: 0 appears twice");
    LEGACY("a foreign key", MAGIC VERSION LITTLE OBJECT "\x80\2]U\1" "1a." DATA,
           "storage keys: 1 has no tensor");
    LEGACY("a number", MAGIC VERSION LITTLE OBJECT "\x80\2]K\1a." DATA,
           "storage keys: expected strings, found a int");
    LEGACY("a size", MAGIC VERSION LITTLE OBJECT KEYS "\3\0\0\0\0\0\0\0" "0123456789ab",
           "storage 0: expected 4 elements of 4 bytes, found 3");
    LEGACY("a size below 0", MAGIC VERSION LITTLE OBJECT KEYS "\4\0\0\0\0\0\0\xC0",
           "storage 0: expected 4 elements of 4 bytes, found -");
    LEGACY("cut", MAGIC VERSION LITTLE OBJECT KEYS "\4\0\0\0\0\0\0\0" "012", "(cut short?)");
    LEGACY("code", MAGIC VERSION "\x80\2" "cos\nsystem\nU\2id\x85R.",
           "machine description (from byte 21): byte 2: global os.system would execute code");
}

/* ---- Many tensors ---------------------------------------------------------------------------- */

/* 20000 tensors of one storage, in the legacy form; quadratic work would take minutes. */
static void many_tensors_are_read(void)
{
    enum { MANY = 20000 };
    static const char head[] = MAGIC VERSION LITTLE "\x80\2}(", tail[] = "u." KEYS DATA;
    char             *text = NULL;
    size_t            n = 0;
    FILE             *file = open_memstream(&text, &n);
    fwrite(head, 1, sizeof head - 1, file);
    for (int i = 0; i < MANY; i++) {
        fprintf(file, "U\5%05d", i);
        fwrite(ONE, 1, sizeof ONE - 1, file);
    }
    fwrite(tail, 1, sizeof tail - 1, file);
    fclose(file);

    TensorFile f;
    Error      e = { 0 };
    CHECK(pth_open(&f, memory_file(text, n), &e), "%s", e.msg);
    CHECK(f.n_tensors == MANY && tensor_find(&f, "00000") == f.tensors && tensor_find(&f,
        "19999") == f.tensors + MANY - 1, "%d", f.n_tensors);
    tensor_file_close(&f);
    free(text);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(recorded_files_hold_the_tensors_that_were_saved);
    TEST(only_views_that_are_not_row_major_are_copied);
    TEST(files_are_recognised_by_their_first_bytes);
    TEST(a_file_cut_anywhere_is_refused);
    TEST(a_byte_too_many_is_refused);
    TEST(one_tensor_is_read);
    TEST(the_inner_dict_of_a_training_checkpoint_is_read);
    TEST(archives_of_another_kind_are_refused);
    TEST(objects_of_another_kind_are_refused);
    TEST(views_that_leave_their_storage_are_refused);
    TEST(storages_of_another_size_are_refused);
    TEST(legacy_files_are_checked);
    TEST(many_tensors_are_read);
    return TEST_END();
}
