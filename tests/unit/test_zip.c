#include "format/pth.h"
#include "test.h"
#include "zip_writer.h"

static ZipOut       out;
static ZipDirectory zip;

/* Two entries: "a" of 5 bytes, "dir/b" of 3. Returns the directory's offset. */
static size_t two_entries(int zip64)
{
    memset(&out, 0, sizeof out);
    zip_add(&out, "dir/b", "xyz", 3);
    zip_add(&out, "a", "hello", 5);
    return zip_end(&out, zip64);
}

static bool read_out(Error *e)
{
    FileMap map = { .path = "x.zip", .data = out.bytes, .size = out.n };
    *e = (Error){ 0 };
    return zip_read(&zip, &map, e);
}

static void refused(const char *what, const char *message)
{
    Error e;
    bool  ok = read_out(&e);
    CHECK(!ok, "%s was accepted", what);
    CHECK(e.status == INPUT && strncmp(e.msg, "x.zip: ", 7) == 0 && strstr(e.msg, message),
          "%s: %d '%s'", what, e.status, e.msg);
    zip_free(&zip);
}

/* Change n_bytes of the archive, and expect the message. */
static void lie(int zip64, size_t at, uint64_t value, int n_bytes, const char *message)
{
    char what[64];
    two_entries(zip64);
    snprintf(what, sizeof what, "%llu at byte %zu", (unsigned long long)value, at);
    zip_put(out.bytes + at, value, n_bytes);
    refused(what, message);
}

static void entries_are_found(void)
{
    for (int zip64 = 0; zip64 < 2; zip64++) {
        Error e;
        two_entries(zip64);
        CHECK(read_out(&e) && zip.n_entries == 2, "%s", e.msg);
        const ZipEntry *a = zip_find(&zip, "a", 1), *b = zip_find(&zip, "dir/b", 5);
        CHECK(a && a->n_bytes == 5 && memcmp(out.bytes + a->offset, "hello", 5) == 0, "a");
        CHECK(b && b->n_bytes == 3 && memcmp(out.bytes + b->offset, "xyz", 3) == 0, "b");
        CHECK(!zip_find(&zip, "dir/b", 4) && !zip_find(&zip, "dir/bc", 6) && !zip_find(&zip, "", 0),
              "found what is not there");
        zip_free(&zip);
        zip_free(&zip);
    }
}

static void an_empty_archive_and_a_comment_are_read(void)
{
    Error e;
    memset(&out, 0, sizeof out);
    zip_end(&out, 0);
    CHECK(read_out(&e) && zip.n_entries == 0 && !zip_find(&zip, "a", 1), "%s", e.msg);
    zip_free(&zip);
    two_entries(0);
    memcpy(out.bytes + out.n, "PK\5\6 is no end", 14);
    zip_put(out.bytes + out.n - 2, 14, 2);
    out.n += 14;
    CHECK(read_out(&e) && zip.n_entries == 2, "%s", e.msg);
    zip_free(&zip);
}

/* Sizes of 2^32 - 1 in a header stand for those in its zip64 field. */
static void zip64_fields_replace_sizes(void)
{
    Error e;
    for (int lying = 0; lying < 3; lying++) {
        memset(&out, 0, sizeof out);
        size_t at = zip_add(&out, "a", "hello", 5);
        unsigned char *central = out.central + at, *field = out.central + out.n_central;
        zip_put(central + 20, UINT32_MAX, 4);
        zip_put(central + 24, UINT32_MAX, 4);
        zip_put(central + 30, lying == 1 ? 12 : 20, 2);
        zip_put(field, 1, 2);
        zip_put(field + 2, lying == 1 ? 8 : 16, 2);
        zip_put(field + 4, lying == 2 ? UINT64_MAX - 3 : 5, 8);
        zip_put(field + 12, lying == 2 ? UINT64_MAX - 3 : 5, 8);
        out.n_central += lying == 1 ? 12 : 20;
        zip_end(&out, 1);
        if (lying) {
            refused("a zip64 field",
                    lying == 1 ? "zip entry a: its extra fields are malformed"
                               : "zip entry a: expected 18446744073709551612 bytes");
            continue;
        }
        CHECK(read_out(&e) && zip.entries[0].n_bytes == 5, "%s", e.msg);
        zip_free(&zip);
    }
}

static void compressed_and_encrypted_entries_are_refused(void)
{
    size_t dir = two_entries(0);
    lie(0, dir + 10, 8, 2,
        "zip entry dir/b: expected stored data (method 0, as torch.save writes), found method 8, "
        "deflate");
    lie(0, dir + 10, 93, 2, "found method 93");
    lie(0, dir + 8, 1, 2, "zip entry dir/b: expected unencrypted data, found encrypted data");
    lie(0, dir + 24, 1 << 30, 4, "expected one size of stored data, found 3 and 1073741824 bytes");
}

static void lies_of_an_entry_are_refused(void)
{
    size_t dir = two_entries(0), second = dir + 46 + 5;
    lie(0, dir, 0, 4, "zip directory: expected an entry at byte");
    lie(0, dir + 28, 60000, 2, "goes past its end");
    lie(0, dir + 30, 1, 2, "its extra fields are malformed");
    lie(0, dir + 42, 1, 4, "zip entry dir/b: expected its header at byte 1, found none");
    lie(0, dir + 42, UINT32_MAX - 1, 4,
        "zip entry dir/b: expected its header at byte 4294967294, found none");
    lie(0, second + 42, 0, 4, "zip entry a: the header at byte 0 belongs to another entry");
    lie(0, 30, 'D', 1, "zip entry dir/b: the header at byte 0 belongs to another entry");
    lie(0, 8, 8, 2, "zip entry dir/b: the header at byte 0 belongs to another entry");
    lie(0, 22, 4, 4, "zip entry dir/b: expected 3 bytes in its header too, found 4");
    lie(0, 18, 4, 4, "zip entry dir/b: expected 3 bytes in its header too");
    lie(0, 28, 65000, 2, "go past the end of the data at byte");
    lie(0, 28, 20, 2, "it overlaps entry dir/b"); /* its data would lie in the next header */
    CHECK(second > dir, "two");
}

static void data_past_the_end_and_overlaps_are_refused(void)
{
    size_t dir = two_entries(0), second = dir + 46 + 5;
    two_entries(0);
    for (int i = 0; i < 2; i++) {
        zip_put(out.bytes + dir + 20 + 4 * i, 10, 4);
        zip_put(out.bytes + 18 + 4 * i, 10, 4);
    }
    refused("an entry over the next one", "zip entry a: it overlaps entry dir/b");
    two_entries(0);
    for (int i = 0; i < 2; i++) {
        zip_put(out.bytes + second + 20 + 4 * i, 1000, 4);
        zip_put(out.bytes + 38 + 18 + 4 * i, 1000, 4);
    }
    refused("an entry over the directory",
            "zip entry a: 1000 bytes from byte 38 go past the end of the data at byte 74");
}

static void a_name_stands_once(void)
{
    memset(&out, 0, sizeof out);
    zip_add(&out, "a", "1", 1);
    zip_add(&out, "b", "1", 1);
    zip_add(&out, "a", "2", 1);
    zip_end(&out, 0);
    refused("a name twice", "zip entry a appears twice");
    /* one entry listed twice */
    memset(&out, 0, sizeof out);
    zip_add(&out, "a", "1", 1);
    memcpy(out.central + out.n_central, out.central, out.n_central);
    out.n_central *= 2;
    out.n_entries = 2;
    zip_end(&out, 0);
    refused("an entry twice", "zip entry a: it overlaps entry a");
}

static void lies_of_the_end_are_refused(void)
{
    size_t dir = two_entries(0), end = out.n - ZIP_END;
    lie(0, end, 0, 4, "expected a zip directory at the end of the file, found none");
    lie(0, end + 20, 1, 2, "expected a zip directory at the end of the file, found none");
    lie(0, end + 4, 1, 2, "expected one archive file, found a part of several");
    lie(0, end + 8, 1, 2, "expected one archive file, found a part of several");
    lie(0, end + 12, 5, 4, "zip directory: expected it to end at byte");
    lie(0, end + 16, 5, 4, "zip directory: expected it to end at byte");
    lie(0, end + 8, 0x00010001, 4, "zip directory: expected 51 bytes for its 1 entries, found 98");
    lie(0, end + 8, 0x00030003, 4, "3 entries do not fit its 98 bytes");
    lie(0, end + 8, UINT32_MAX, 4, "65535 entries do not fit its 98 bytes");
    CHECK(dir < end, "end");
}

static void lies_of_zip64_are_refused(void)
{
    two_entries(1);
    size_t end = out.n - ZIP_END, locator = end - ZIP_LOCATOR, end64 = locator - ZIP_END64;
    lie(1, locator + 8, UINT64_MAX, 8,
        "zip64: expected the end record at byte 18446744073709551615");
    lie(1, locator + 8, end64 + 1, 8, "zip64: expected the end record at byte");
    lie(1, end64 + 4, 1000, 8, "zip64: expected an end record of 44 bytes, found 1000");
    lie(1, end64 + 16, 1, 4, "zip64: expected one archive file, found a part of several");
    lie(1, end64 + 24, 1, 8, "zip64: expected one archive file, found a part of several");
    lie(1, end64 + 40, UINT64_MAX, 8, "zip directory: expected it to end at byte");
    lie(1, end64 + 48, UINT64_MAX - 97, 8, "zip directory: expected it to end at byte");
    lie(1, end + 12, 5, 4, "zip directory: the zip64 record contradicts the end record");
    lie(1, end + 10, 7, 2, "found a part of several");
    /* then all ones are sizes */
    lie(1, locator, 0, 4, "zip directory: expected it to end at byte");
}

static void a_cut_archive_is_refused(void)
{
    for (int zip64 = 0; zip64 < 2; zip64++) {
        two_entries(zip64);
        size_t whole = out.n;
        for (out.n = 0; out.n < whole; out.n++)
            refused("a cut archive",
                    "expected a zip directory at the end of the file, found none (cut short?)");
    }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(entries_are_found);
    TEST(an_empty_archive_and_a_comment_are_read);
    TEST(zip64_fields_replace_sizes);
    TEST(compressed_and_encrypted_entries_are_refused);
    TEST(lies_of_an_entry_are_refused);
    TEST(data_past_the_end_and_overlaps_are_refused);
    TEST(a_name_stands_once);
    TEST(lies_of_the_end_are_refused);
    TEST(lies_of_zip64_are_refused);
    TEST(a_cut_archive_is_refused);
    return TEST_END();
}
