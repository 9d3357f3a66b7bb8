#include "base/hash.h"

#include "test.h"

/* FIPS 180-4 examples (NIST CSRC, "SHA256.pdf"); the last is a million times 'a'. */
static void sha256_gives_the_standard_digests(void)
{
    static const struct {
        const char *text, *hex;
    } cases[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    char hex[65];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Sha256 *s = sha256_new();
        sha256_add(s, cases[i].text, strlen(cases[i].text));
        sha256_end(s, hex);
        CHECK(strcmp(hex, cases[i].hex) == 0, "'%s' gave %s", cases[i].text, hex);
    }
    char block[1000];
    memset(block, 'a', sizeof block);
    Sha256 *s = sha256_new();
    for (int i = 0; i < 1000; i++)
        sha256_add(s, block, sizeof block);
    sha256_end(s, hex);
    CHECK(strcmp(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0") == 0,
          "%s", hex);
}

static void sha256_does_not_depend_on_the_pieces(void)
{
    unsigned char data[500];
    char          whole[65], pieces[65];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7);
    Sha256 *s = sha256_new();
    sha256_add(s, data, sizeof data);
    sha256_end(s, whole);
    for (size_t step = 1; step < 130; step++) {
        s = sha256_new();
        for (size_t i = 0; i < sizeof data; i += step)
            sha256_add(s, data + i, i + step < sizeof data ? step : sizeof data - i);
        sha256_end(s, pieces);
        CHECK(strcmp(whole, pieces) == 0, "pieces of %zu", step);
    }
}

static void a_digest_is_read_back(void)
{
    uint8_t digest[SHA256_BYTES], back[SHA256_BYTES];
    char    hex[65], first[65];
    Sha256 *s = sha256_new();
    for (int i = 0; i < 2; i++) { /* it is as new after the first */
        sha256_add(s, "abc", 3);
        sha256_take(s, digest);
        digest_hex(digest, i ? hex : first);
    }
    sha256_free(s);
    CHECK(strcmp(hex, first) == 0 && strncmp(hex, "ba7816bf", 8) == 0, "%s, then %s", first, hex);
    CHECK(digest_read(hex, 64, back) && memcmp(digest, back, sizeof back) == 0, "read back");
    CHECK(!digest_read(hex, 63, back), "too short");
    hex[7] = 'F';
    CHECK(!digest_read(hex, 64, back), "a capital");
    hex[7] = 'g';
    CHECK(!digest_read(hex, 64, back), "no digit");
}

/* From the FNV authors' test suite (www.isthe.com/chongo/tech/comp/fnv). */
static void fnv1a_gives_the_published_values(void)
{
    CHECK(fnv1a(FNV_SEED, "", 0) == 0xcbf29ce484222325u, "empty");
    CHECK(fnv1a(FNV_SEED, "a", 1) == 0xaf63dc4c8601ec8cu, "a");
    CHECK(fnv1a(FNV_SEED, "foobar", 6) == 0x85944171f73967e8u, "foobar");
    CHECK(fnv1a(fnv1a(FNV_SEED, "foo", 3), "bar", 3) == 0x85944171f73967e8u, "in two pieces");
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(sha256_gives_the_standard_digests);
    TEST(sha256_does_not_depend_on_the_pieces);
    TEST(a_digest_is_read_back);
    TEST(fnv1a_gives_the_published_values);
    return TEST_END();
}
