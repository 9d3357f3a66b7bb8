#include <math.h>
#include "sanitized.h"
#include "tiny_tokenizer.h"

static Tiny y;

#define SPLIT_SPACES \
    "\"pretokenize\": [{\"regex\": \" ?[^ ]+|\\\\s+\", \"behavior\": \"isolated\", \"invert\": "   \
    "false}]"
#define NO_SPLIT     "\"pretokenize\": []"

static void open_or_fail(const char *keys)
{
    bool ok = tiny_open(&y, keys);
    CHECK(ok, "%s", y.err.msg);
}

static void check_pieces(const char *text, const char *expected)
{
    if (test_case_state)
        return;
    const char *found = tiny_pieces(&y, text, strlen(text), false, false);
    CHECK(strcmp(found, expected) == 0, "'%s' became '%s', expected '%s'", text, found, expected);
}

static void check_special(const char *text, const char *expected)
{
    if (test_case_state)
        return;
    const char *found = tiny_pieces(&y, text, strlen(text), true, false);
    CHECK(strcmp(found, expected) == 0, "'%s' became '%s', expected '%s'", text, found, expected);
}

/* ---- SentencePiece --------------------------------------------------------------------------- */

static void small_spm(bool bytes)
{
    tiny_init(&y, true);
    tiny_add(&y, "<unk>", 2, 0);
    tiny_add(&y, "<s>", 3, 0);
    tiny_add(&y, "</s>", 3, 0);
    if (bytes)
        tiny_add_all_bytes(&y);
    static const char *piece[] = { "he", "ll", "llo", "\u2581he",
                                   "\u2581hello", "aa", "\u2581\u2581" };
    for (int i = 0; i < 7; i++)
        tiny_add(&y, piece[i], 1, (float)-i);
    static const char *letter[] = { "\u2581", "h", "e", "l", "o", "a", "b", "x", "y" };
    for (int i = 0; i < 9; i++)
        tiny_add(&y, letter[i], 1, -100);
}

static void spm_merges_by_score_and_from_the_left(void)
{
    small_spm(true);
    open_or_fail("\"unk\": 0, \"byte_fallback\": true");
    check_pieces("hello", "\u2581hello");
    check_pieces("aaa", "\u2581|aa|a");
    check_pieces("hellob", "\u2581hello|b");
    check_pieces("hello hello", "\u2581hello|\u2581hello");
    tiny_close(&y);
}

static void spm_normalizer_flags_are_followed(void)
{
    small_spm(true);
    open_or_fail("\"unk\": 0, \"byte_fallback\": true");
    check_pieces("  x   y  ", "\u2581|x|\u2581|y");
    check_pieces("   ", "");
    check_pieces("", "");
    check_pieces("\u2581", "");
    tiny_close(&y);
    small_spm(true);
    open_or_fail("\"unk\": 0, \"byte_fallback\": true, \"remove_extra_whitespaces\": false");
    check_pieces("  x   y ", "\u2581\u2581|\u2581|x|\u2581\u2581|\u2581|y|\u2581");
    check_pieces("\u2581", "\u2581\u2581");
    tiny_close(&y);
    small_spm(true);
    open_or_fail("\"unk\": 0, \"byte_fallback\": true, \"add_dummy_prefix\": false, "
                 "\"escape_whitespaces\": false");
    check_pieces("x y", "x|<20>|y");
    tiny_close(&y);
}

static void spm_shows_what_it_lacks_as_bytes(void)
{
    small_spm(true);
    open_or_fail("\"unk\": 0, \"byte_fallback\": true");
    check_pieces("x\u00e9", "\u2581|x|<c3>|<a9>");
    check_pieces("\xC3", "\u2581|<ef>|<bf>|<bd>");
    check_pieces("\xE2\x96", "\u2581|<ef>|<bf>|<bd>|<ef>|<bf>|<bd>");
    const char *found = tiny_pieces(&y, "a\0b", 3, false, false);
    CHECK(strcmp(found, "\u2581|a|<00>|b") == 0, "%s", found);
    check_pieces("<s>", "\u2581|<3c>|<73>|<3e>"); /* control pieces are never found in a text */
    tiny_close(&y);
}

static void spm_without_bytes_has_one_unknown_for_a_run(void)
{
    small_spm(false);
    open_or_fail("\"unk\": 0");
    check_pieces("xzzzx", "\u2581|x|<unk>|x");
    check_pieces("z z", "\u2581|<unk>|\u2581|<unk>");
    tiny_close(&y);
    small_spm(false);
    open_or_fail("");
    const char *found = tiny_pieces(&y, "xz", 2, false, false);
    CHECK(strstr(found, "error: ") && y.err.status == INPUT, "%s", found);
    tiny_close(&y);
}

/* Long texts have their words remembered: not the rest of one whose first letter an unknown token
 * before it took in. */
static void spm_ids_do_not_depend_on_the_length_of_a_text(void)
{
    tiny_init(&y, true);
    tiny_add(&y, "<unk>", 2, 0);
    tiny_add(&y, "a", 1, -1);
    tiny_add(&y, "b", 1, -2);
    open_or_fail("\"unk\": 0");
    static const char start[] = "bz a b a b a";
    char text[2000];
    Ids  few = { 0 }, many = { 0 };
    memset(text, 'b', sizeof text);
    memcpy(text, start, sizeof start - 1);
    text[sizeof start - 1] = ' ';
    CHECK(tokenizer_encode(y.t, start, sizeof start - 1, false, false, &few, &y.err), "%s",
          y.err.msg);
    CHECK(tokenizer_encode(y.t, text, sizeof text, false, false, &many, &y.err), "%s", y.err.msg);
    CHECK(few.n > 8 && many.n > few.n && memcmp(few.id, many.id, few.n * sizeof *few.id) == 0,
          "%zu ids of %zu differ", few.n, many.n);
    free(few.id);
    free(many.id);
    tiny_close(&y);
}

static void spm_user_defined_symbols_are_found_first(void)
{
    small_spm(true);
    tiny_add(&y, "ell", 4, 0);
    tiny_add(&y, "el", 4, 0);
    open_or_fail("\"unk\": 0, \"byte_fallback\": true");
    check_pieces("hello", "\u2581|h|ell|o");
    check_pieces("helo", "\u2581|h|el|o");
    tiny_close(&y);
}

static void spm_takes_unused_pieces_apart_again(void)
{
    small_spm(true);
    tiny_add(&y, "xy", 5, -1);
    tiny_add(&y, "xyx", 5, -2);
    tiny_add(&y, "xyxaa", 5, -3);
    tiny_add(&y, "q", 5, -50);
    open_or_fail("\"unk\": 0, \"byte_fallback\": true");
    check_pieces("xyxaa", "\u2581|x|y|x|aa");
    check_pieces("q", "\u2581|<71>");
    tiny_close(&y);
}

static void spm_pieces_may_cross_words(void)
{
    small_spm(true);
    tiny_add(&y, "a\u2581", 1, -1);
    tiny_add(&y, "a\u2581b", 1, -1);
    open_or_fail("\"unk\": 0, \"byte_fallback\": true");
    check_pieces("a b", "\u2581|a\u2581b");
    tiny_close(&y);
}

static void spm_decodes_as_sentencepiece_does(void)
{
    small_spm(true);
    open_or_fail("\"unk\": 0, \"byte_fallback\": true, \"remove_extra_whitespaces\": false");
    int hello = tiny_find(&y, "\u2581hello", 8), space = tiny_find(&y, "\u2581", 3), a = 3 + 0xE2;
    struct { int32_t id[4]; size_t n; const char *text; } row[] = {
        { { hello, hello }, 2, "hello hello" },
        { { 1, hello, 2 }, 3, "<s>hello</s>" },
        { { space, hello }, 2, " hello" },
        { { 0 }, 1, " \u2047 " },
        { { a, a + 1, hello }, 3, "\xE2\xE3 hello" },
        { { 0 }, 0, "" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row && y.t; i++) {
        char  *text = NULL;
        size_t n = 0;
        CHECK(tokenizer_decode(y.t, row[i].id, row[i].n, &text, &n, &y.err), "%s", y.err.msg);
        CHECK(text && n == strlen(row[i].text) && strcmp(text, row[i].text) == 0, "row %zu: %s", i,
              text);
        free(text);
    }
    char  *text;
    size_t n;
    CHECK(!tokenizer_decode(y.t, &(int32_t){ y.size }, 1, &text, &n,
                            &y.err) && y.err.status == INPUT, "an id too large");
    CHECK(!tokenizer_decode(y.t, &(int32_t){ -1 }, 1, &text, &n, &y.err), "an id below 0");
    tiny_close(&y);
}

/* ---- Byte-level BPE -------------------------------------------------------------------------- */

static void small_bpe(void)
{
    tiny_init(&y, false);
    tiny_add_all_bytes(&y);
    tiny_merge(&y, "a", "b");
    tiny_merge(&y, "b", "c");
    tiny_merge(&y, "ab", "c");
    tiny_merge(&y, " ", "abc");
    tiny_merge(&y, "a", "a");
}

static void bpe_merges_by_rank_and_from_the_left(void)
{
    small_bpe();
    open_or_fail(SPLIT_SPACES);
    check_pieces("abc abc", "abc| abc");
    check_pieces("bc", "bc");
    check_pieces("aaa", "aa|a");
    check_pieces("", "");
    check_pieces("\xFF" "a\xC3", "<ff>|a|<c3>");
    const char *found = tiny_pieces(&y, "a\0b", 3, false, false);
    CHECK(strcmp(found, "a|<00>|b") == 0, "%s", found);
    tiny_close(&y);
}

static void bpe_words_that_are_pieces_may_skip_the_merges(void)
{
    small_bpe();
    tiny_add(&y, "aab", 1, 0);
    open_or_fail(SPLIT_SPACES);
    check_pieces("aab", "a|ab");
    tiny_close(&y);
    small_bpe();
    tiny_add(&y, "aab", 1, 0);
    open_or_fail(SPLIT_SPACES ", \"ignore_merges\": true");
    check_pieces("aab aab", "aab| |a|ab");
    tiny_close(&y);
}

static void bpe_may_put_a_space_before_a_text(void)
{
    small_bpe();
    open_or_fail(SPLIT_SPACES ", \"add_prefix_space\": true");
    check_pieces("abc", " abc");
    check_pieces(" abc", " abc");
    check_pieces("", "");
    tiny_close(&y);
}

static void bpe_without_a_byte_uses_unknown_or_fails(void)
{
    tiny_init(&y, false);
    tiny_add(&y, "?", 2, 0);
    tiny_add(&y, "a", 1, 0);
    open_or_fail(NO_SPLIT ", \"unk\": 0");
    check_pieces("abba", "a|?|?|a");
    tiny_close(&y);
    tiny_init(&y, false);
    tiny_add(&y, "a", 1, 0);
    open_or_fail(NO_SPLIT);
    const char *found = tiny_pieces(&y, "ab", 2, false, false);
    CHECK(strstr(found, "byte 0x62") && y.err.status == INPUT, "%s", found);
    tiny_close(&y);
}

/* The definition, in quadratic time. */
static size_t naive_merges(int *id, size_t n)
{
    for (;;) {
        int    best = -1;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (int row = 0; row < y.n_merges; row++)
                if (y.merges[row][0] == (uint32_t)id[i] && y.merges[row][1] == (uint32_t)id[i + 1]
                    && (best < 0 || row < best)) {
                    best = row;
                    at   = i;
                }
        if (best < 0)
            return n;
        id[at] = (int)y.merges[best][2];
        memmove(id + at + 1, id + at + 2, (n - at - 2) * sizeof *id);
        n--;
    }
}

static void short_and_long_words_merge_as_the_definition_says(void)
{
    small_bpe();
    static const char *left[]  = { "b", "c", "aa", "ab", "abc", "cc", "ca", "bcc" };
    static const char *right[] = { "b", "c", "aa", "bb", "cc", "abc", "b", "a" };
    for (int i = 0; i < 8; i++) {
        tiny_merge(&y, "c", "c");
        tiny_merge(&y, "b", "cc");
        tiny_merge(&y, "c", "a");
        tiny_merge(&y, "b", "b");
        tiny_merge(&y, left[i], right[i]);
    }
    open_or_fail(NO_SPLIT);
    uint32_t random = 1;
    for (size_t n = 1; n < 200 && !test_case_state; n++) {
        char text[200];
        int  id[200];
        for (size_t i = 0; i < n; i++) {
            random  = random * 1664525 + 1013904223;
            text[i] = (char)('a' + (random >> 24) % 3);
            id[i]   = text[i];
        }
        size_t n_ids = naive_merges(id, n);
        Ids    ids = { 0 };
        CHECK(tokenizer_encode(y.t, text, n, false, false, &ids, &y.err), "%s", y.err.msg);
        CHECK(ids.n == n_ids && memcmp(ids.id, id, n_ids * sizeof *id) == 0, "%.*s", (int)n, text);
        free(ids.id);
    }
    tiny_close(&y);
}

/* Expects these ids of a text. Returns by how many KB the most memory so far grew. */
static long check_ids(const char *text, size_t n, const int32_t *id, size_t n_ids)
{
    long before = peak_kb();
    Ids  ids = { 0 };
    CHECK(tokenizer_encode(y.t, text, n, false, false, &ids, &y.err), "%s", y.err.msg);
    long grown = peak_kb() - before;
    CHECK(ids.n == n_ids && memcmp(ids.id, id, n_ids * sizeof *id) == 0, "%.9s...: %zu ids", text,
          ids.n);
    free(ids.id);
    return grown;
}

/* Merges of 2, 4, ... 32,768 a, which become c, d, ... q, and a z that takes every b before it. */
static void words_of_megabytes_merge_as_the_definition_says(void)
{
    enum { N = 2 << 20, LEVELS = 15 };
    static char    text[N];
    static int32_t id[(N >> LEVELS) + LEVELS + 1];
    size_t         n = 0, rest = N - 1;
    tiny_init(&y, false);
    tiny_add_all_bytes(&y);
    for (int k = 0; k < LEVELS; k++) {
        const char left[2] = { k ? (char)('b' + k) : 'a' };
        tiny_merge(&y, left, left);
        y.merges[k][2] = (uint32_t)('c' + k);
    }
    tiny_merge(&y, "b", "z");
    y.merges[LEVELS][2] = 'z';
    open_or_fail(NO_SPLIT);

    memset(text, 'a', N);
    text[0] = 'b';
    id[n++] = 'b';
    for (int k = LEVELS; k >= 0; k--)
        for (; rest >= (size_t)1 << k; rest -= (size_t)1 << k)
            id[n++] = k ? 'b' + k : 'a';
    long grown = check_ids(text, N, id, n);
    CHECK(grown < 40000, "%ld KB for a text of 2 MB", grown);

    memset(text, 'b', 300000);
    text[299999] = 'z';
    check_ids(text, 300000, &(int32_t){ 'z' }, 1);
    tiny_close(&y);
}

/* Random words of letters and characters of several bytes, each after a space. */
static size_t random_words(char *text, size_t room, uint32_t *random)
{
    static const char *character[] = { "\u00e9", "\u00e8", "\u3042", "\u3044", "\u3001", "\u30a2",
                                       "\U0001d11e", "\U0001d11f", "a" };
    size_t n = 0;
    while (n + 5 < room) {
        uint32_t r = *random = *random * 1664525 + 1013904223;
        if (r >> 28 == 0 || n == 0)
            text[n++] = ' ';
        n += (size_t)snprintf(text + n, 5, "%s", character[(r >> 16) % 9]);
    }
    return n;
}

/* Merges of random pieces, also across the edges of characters and in any order. In every fourth
 * vocabulary some of them make a piece of other bytes. */
static void random_bpe(uint32_t seed)
{
    bool hostile = seed % 4 == 0;
    tiny_init(&y, false);
    tiny_add_all_bytes(&y);
    for (int tries = 0; tries < 20000 && y.n_merges < 150; tries++) {
        char   text[40], left[8] = "", right[8] = "";
        size_t n = random_words(text, sizeof text, &seed);
        size_t at = (seed >> 8) % (n - 8), n_left = 1 + (seed >> 16) % 4, n_right = 1 + seed % 4;
        if (memchr(text + at, ' ', n_left + n_right))
            continue;
        memcpy(left, text + at, n_left);
        memcpy(right, text + at + n_left, n_right);
        if (tiny_find(&y, left, n_left) >= 0 && tiny_find(&y, right, n_right) >= 0)
            tiny_merge(&y, left, right);
    }
    for (int i = 17; hostile && i < y.n_merges; i += 4)
        y.merges[i][2] = y.merges[i - 17][2];
}

/* The merges inside characters are remembered after the first 32,768 of them. */
static void characters_of_long_texts_merge_as_the_definition_says(void)
{
    enum { COMMON = 2 * 33000, WORDS = 3000 };
    static char text[COMMON + WORDS];
    for (uint32_t seed = 1; seed <= 40 && !test_case_state; seed++) {
        random_bpe(seed);
        open_or_fail(SPLIT_SPACES);
        for (size_t i = 0; i < COMMON; i += 2)
            memcpy(text + i, "\u00e9", 2);
        uint32_t random = seed;
        size_t   n = COMMON + random_words(text + COMMON, WORDS, &random), n_ids = 0;
        int      id[WORDS];
        for (size_t start = COMMON, end; start < n; start = end) {
            for (end = start; end < n && (end == start || text[end] != ' '); end++)
                id[n_ids + end - start] = (unsigned char)text[end];
            n_ids += naive_merges(id + n_ids, end - start);
        }
        Ids ids = { 0 };
        CHECK(tokenizer_encode(y.t, text, n, false, false, &ids, &y.err), "%s", y.err.msg);
        CHECK(ids.n > n_ids && memcmp(ids.id + ids.n - n_ids, id, n_ids * sizeof *id) == 0,
              "vocabulary %u", seed);
        free(ids.id);
        tiny_close(&y);
    }
}

static void repeated_words_get_the_same_ids_each_time(void)
{
    small_bpe();
    open_or_fail(SPLIT_SPACES ", \"special\": [{\"id\": 0}]");
    static const char *word[] = { " abc", " aab", " cab", "\n", " \xC3\xA9", " abcabcabc" };
    char   text[8192];
    Ids    all = { 0 }, one = { 0 };
    size_t n = 0;
    for (int i = 0; n < sizeof text - 16; i++) {
        const char *w = word[(i * i + i / 7) % 6];
        memcpy(text + n, w, strlen(w));
        n += strlen(w);
        CHECK(tokenizer_encode(y.t, w, strlen(w), false, false, &one, &y.err), "%s", y.err.msg);
    }
    CHECK(tokenizer_encode(y.t, text, n, false, false, &all, &y.err), "%s", y.err.msg);
    CHECK(all.n == one.n && memcmp(all.id, one.id, all.n * sizeof *all.id) == 0,
          "%zu ids, %zu word by word", all.n, one.n);
    free(all.id);
    free(one.id);
    tiny_close(&y);
}

/* ---- Cutting into words ---------------------------------------------------------------------- */

/* The expected words are pieces and ignore_merges takes them whole, so the pieces of the text are
 * its words. */
static void check_words(const char *steps, const char *text, const char *expected)
{
    if (test_case_state)
        return;
    tiny_init(&y, false);
    tiny_add_all_bytes(&y);
    const char *bar;
    /* the expected words, as pieces */
    for (const char *w = expected; *w; w = *bar ? bar + 1 : bar) {
        bar = strchr(w, '|') ? strchr(w, '|') : w + strlen(w);
        if (bar - w > 1 && tiny_find(&y, w, (size_t)(bar - w)) < 0)
            tiny_add_bytes(&y, w, (size_t)(bar - w), 1, 0);
    }
    char keys[1024];
    snprintf(keys, sizeof keys, "\"ignore_merges\": true, \"pretokenize\": %s", steps);
    open_or_fail(keys);
    check_pieces(text, expected);
    tiny_close(&y);
}

static void words_are_matches_and_what_lies_between(void)
{
    check_words("[{\"regex\": \"[0-9]+\"}]", "ab12cd34", "ab|12|cd|34");
    check_words("[{\"regex\": \"[0-9]+\", \"behavior\": \"isolated\", \"invert\": false}]", "12",
                "12");
    check_words("[{\"regex\": \"(?=b)\"}]", "abab", "a|ba|b");
    check_words("[{\"regex\": \"[0-9]\"}, {\"regex\": \"[a-c]+\"}]", "abx12cc", "ab|x|1|2|cc");
    check_words("[{\"regex\": \"\\\\p{L}+\"}]", "\u00e9\u4e2d7x", "\u00e9\u4e2d|7|x");
    check_words("[{\"regex\": \"a\\\\s+(?!\\\\S)|\\\\s\"}]", "a  a  ", "a| | |a  ");
}

static void white_space_is_unicodes(void)
{
    check_words("[{\"regex\": \"\\\\s\"}]", "ab\u3000cd\u00a0ef", "ab|\u3000|cd|\u00a0|ef");
    /* PCRE2's own \s has U+180E */
    check_words("[{\"regex\": \"\\\\s\"}]", "ab\u180ecd", "ab\u180ecd");
    check_words("[{\"regex\": \"[^\\\\s]+\"}]", "ab cd", "ab| |cd");
    check_words("[{\"regex\": \"[]\\\\s]\"}]", "ab]cd ef", "ab|]|cd| |ef");
    check_words("[{\"regex\": \"\\\\S+\"}]", "ab cd", "ab| |cd");
}

/* The property Script, as Oniguruma has it: the full stop and the long-vowel mark are in the
 * extensions of several. */
static void scripts_are_unicodes(void)
{
    check_words("[{\"regex\": \"\\\\p{Han}+\"}]", "\u4f60\u597d\u3002\u4e16\u754c",
                "\u4f60\u597d|\u3002|\u4e16\u754c");
    check_words("[{\"regex\": \"[x\\\\p{Hiragana}]+\"}]", "\u3042x\u30fc", "\u3042x|\u30fc");
    check_words("[{\"regex\": \"[^\\\\P{Arabic}]+\"}]", "\u0627\u060c", "\u0627|\u060c");
    check_words("[{\"regex\": \"\\\\p{^Latin}+\"}]", "ab\u3042", "ab|\u3042");
    check_words("[{\"regex\": \"\\\\p{Lu}+\"}]", "ABcd", "AB|cd");
}

static void invalid_bytes_are_words_of_their_own(void)
{
    check_words("[{\"regex\": \"ab+\"}]", "ab\xFF" "abb", "ab|<ff>|abb");
}

static void matches_may_go_or_join_their_neighbours(void)
{
    check_words("[{\"regex\": \"-\", \"behavior\": \"removed\"}]", "ab-cd--ef", "ab|cd|ef");
    check_words("[{\"regex\": \"-\", \"behavior\": \"merged_with_previous\"}]", "-ab-cd--ef",
                "-|ab-|cd-|-|ef");
    check_words("[{\"regex\": \"-\", \"behavior\": \"merged_with_next\"}]", "ab-cd--ef-",
                "ab|-cd|-|-ef|-");
    check_words("[{\"regex\": \"-\", \"behavior\": \"contiguous\"}]", "ab--cd-ef", "ab|--|cd|-|ef");
    check_words("[{\"regex\": \"[a-z]+\", \"behavior\": \"removed\", \"invert\": true}]",
                "ab1cd22ef", "ab|cd|ef");
    check_words("[{\"regex\": \"\\\\w+\"}]", "a\u0301\u00bd_\u203f\u24d0\u2167!\u2083",
                "a\u0301\u00bd_\u203f\u24d0\u2167|!\u2083");
}

static void metaspace_shows_spaces_and_puts_one_first(void)
{
    check_words("[{\"metaspace\": \"always\"}]", "ab cd", "\u2581ab\u2581cd");
    check_words("[{\"metaspace\": \"always\", \"split\": true}]", "ab  cd",
                "\u2581ab|\u2581|\u2581cd");
    check_words("[{\"metaspace\": \"never\", \"split\": true}]", "ab cd", "ab|\u2581cd");
    check_words("[{\"metaspace\": \"first\", \"split\": true}]", " ab", "\u2581ab");
    check_words("[{\"regex\": \" \", \"behavior\": \"removed\"}, {\"metaspace\": \"first\"}]",
                "ab cd", "\u2581ab|cd");
    check_words("[{\"regex\": \" \", \"behavior\": \"removed\"}, {\"metaspace\": \"always\"}]",
                "ab cd", "\u2581ab|\u2581cd");
}

static void a_pattern_that_looks_far_again_and_again_is_an_error(void)
{
    static char text[200000];
    memset(text, 'a', sizeof text);
    small_bpe();
    open_or_fail("\"pretokenize\": [{\"regex\": \"a(?=a*b)|a\"}]");
    const char *found = tiny_pieces(&y, text, sizeof text, false, false);
    CHECK(strstr(found, "pretokenize step 0") && strstr(found, "limit") && y.err.status == INPUT,
          "%s", found);
    tiny_close(&y);
    small_bpe();
    open_or_fail("\"pretokenize\": [{\"regex\": \"a+(?!a)| +\"}]"); /* far, but once */
    Ids ids = { 0 };
    CHECK(tokenizer_encode(y.t, text, sizeof text, false, false, &ids, &y.err) && ids.n > 0, "%s",
          y.err.msg);
    free(ids.id);
    tiny_close(&y);
}

static void matches_do_not_depend_on_the_window(void)
{
    /* words of every length around the window of regex.c, also with what a match looks at behind
     * it */
    static char text[3000];
    for (size_t n = 480; n < 560; n++) {
        small_bpe();
        open_or_fail("\"pretokenize\": [{\"regex\": \"x+(?=y)\", \"behavior\": \"removed\"}]");
        memset(text, 'x', n);
        memcpy(text + n, "yab", 3);
        const char *found = tiny_pieces(&y, text, n + 3, false, false);
        CHECK(strcmp(found, "y|ab") == 0, "%zu: %s", n, found);
        tiny_close(&y);
    }
}

/* ---- Characters, unigram --------------------------------------------------------------------- */

static void characters_merge_by_rank_and_fall_back_to_bytes(void)
{
    tiny_init(&y, false);
    y.type = "bpe_char";
    tiny_add(&y, "<unk>", 3, 0);
    tiny_add(&y, "a", 1, 0);
    tiny_add(&y, "b", 1, 0);
    tiny_add(&y, "\u2581", 1, 0);
    tiny_merge(&y, "\u2581", "a");
    tiny_merge(&y, "\u2581a", "b");
    tiny_merge(&y, "a", "b");
    for (int b = 0; b < 256; b++)
        tiny_add_bytes(&y, &(char){ (char)b }, 1, 6, 0);
    open_or_fail("\"unk\": 0, \"byte_fallback\": true, \"normalizer\": [{\"prepend\": \"\u2581\"}, "
                 "{\"replace\": \" \", \"with\": \"\u2581\"}], "
                 "\"pretokenize\": [], \"decode_strip\": \"space\"");
    check_pieces("ab ab", "\u2581ab|\u2581ab");
    check_pieces("a", "\u2581a");
    check_pieces("\u00e9\xff", "\u2581|<c3>|<a9>|<ff>");
    tiny_close(&y);
    for (int fuse = 0; fuse < 2; fuse++) {
        tiny_init(&y, false);
        y.type = "bpe_char";
        tiny_add(&y, "<unk>", 3, 0);
        tiny_add(&y, "a", 1, 0);
        open_or_fail(fuse ? "\"unk\": 0, \"fuse_unk\": true, \"pretokenize\": []"
                          : "\"unk\": 0, \"pretokenize\": []");
        check_pieces("xyax", fuse ? "<unk>|a|<unk>" : "<unk>|<unk>|a|<unk>");
        tiny_close(&y);
    }
}

static void small_unigram(const char *type)
{
    tiny_init(&y, true);
    y.type = type;
    tiny_add(&y, "<unk>", 2, 0);
    tiny_add(&y, "\u2581", 1, -3);
    tiny_add(&y, "a", 1, -4);
    tiny_add(&y, "b", 1, -4);
    tiny_add(&y, "ab", 1, -5);
    tiny_add(&y, "\u2581a", 1, -3.5f);
    tiny_add(&y, "bb", 5, -0.5f);
    tiny_add(&y, "x", 1, -4);
    tiny_add(&y, "xx", 4, 0);
    tiny_trie(&y);
}

static void unigram_takes_the_best_way(void)
{
    small_unigram("spm_unigram");
    open_or_fail("\"unk\": 0, \"charsmap\": true");
    check_pieces("ab", "\u2581a|b");        /* -3.5 - 4 against -3 - 5 */
    check_pieces("bb", "\u2581|b|b");       /* an unused piece is none */
    check_pieces("xxx", "\u2581|x|xx");     /* a user-defined symbol */
    check_pieces("a\u00e9\u00e8b", "\u2581a|<unk>|b");
    check_pieces("A AB b", "\u2581a|\u2581|x|\u2581|b"); /* the longest rule; its spaces count as
                                                          * such */
    /* Rules of several characters: whole, cut short, and with another character inside. */
    check_pieces("b\u304b\u3099b\u304b\u309ab", "\u2581|b|ab|\u2581|x|\u2581|b");
    check_pieces("\u304b\u3099", "\u2581a");
    check_pieces("b\u304b\u3098\u304bb\u304b\u304b\u3099",
                 "\u2581|b|<unk>|b|<unk>|a");
    check_pieces("b\u304b", "\u2581|b|<unk>");
    check_pieces("", "");
    tiny_close(&y);
    small_unigram("unigram");
    open_or_fail("\"unk\": 0, \"pretokenize\": [{\"metaspace\": \"always\", \"split\": true}], "
                 "\"normalizer\": [{\"charsmap\": true}]");
    check_pieces("ab A", "\u2581a|b|\u2581a");
    check_pieces("AB", "\u2581a|<unk>"); /* tokenizers looks up one character after the other */
    tiny_close(&y);
}

static void unigram_takes_little_memory_for_a_long_text(void)
{
    enum { N = 4 << 20 };
    char    *text = malloc(N);
    int32_t *id = malloc((1 + N / 2) * sizeof *id);
    small_unigram("spm_unigram");
    open_or_fail("\"unk\": 0");
    memset(text, 'x', N);
    id[0] = tiny_find(&y, "\u2581", 3);
    for (int i = 1; i <= N / 2; i++)
        id[i] = tiny_find(&y, "xx", 2);
    long grown = check_ids(text, N, id, 1 + N / 2);
    CHECK(SANITIZED || grown < 45000, "%ld KB for a text of 4 MB", grown);
    free(text), free(id);
    tiny_close(&y);
}

static void a_pattern_that_runs_away_is_an_error(void)
{
    small_bpe();
    open_or_fail("\"pretokenize\": [{\"regex\": \"(?:a|aa)+[bc]\"}]");
    char text[2000];
    memset(text, 'a', sizeof text);
    const char *found = tiny_pieces(&y, text, sizeof text, false, false);
    CHECK(strstr(found, "pretokenize step 0") && strstr(found, "limit") && y.err.status == INPUT,
          "%s", found);
    tiny_close(&y);
}

/* ---- Special tokens -------------------------------------------------------------------------- */

static void special_bpe(const char *flags)
{
    char keys[1024];
    small_bpe();
    int bos = tiny_add(&y, "<s>", 3, 0), user = tiny_add(&y, "<u>", 3, 0),
        longer = tiny_add(&y, "<u>x", 3, 0);
    snprintf(keys, sizeof keys,
             SPLIT_SPACES ", \"bos\": %d, \"prefix\": [%d], \"suffix\": [%d, %d], "
                          "\"special\": [{\"id\": %d}, {\"id\": %d%s}, {\"id\": %d}]",
             bos, bos, user, user, bos, user, flags, longer);
    open_or_fail(keys);
}

static void special_tokens_are_text_unless_asked_for(void)
{
    special_bpe("");
    check_pieces("<s>ab", "<|s|>|ab");
    check_special("<s>ab<s>", "<s>|ab|<s>");
    check_special("<u>xa", "<u>x|a");
    check_special("<u>ab<", "<u>|ab|<");
    check_special("<s", "<|s");
    const char *found = tiny_pieces(&y, "ab", 2, false, true);
    CHECK(strcmp(found, "<s>|ab|<u>|<u>") == 0, "%s", found);
    found = tiny_pieces(&y, "", 0, false, true);
    CHECK(strcmp(found, "<s>|<u>|<u>") == 0, "%s", found);
    tiny_close(&y);
}

static void tokens_that_are_not_special_are_found_always(void)
{
    special_bpe(", \"special\": false");
    check_pieces("<s>a<u>", "<|s|>|a|<u>");
    tiny_close(&y);
}

static void special_tokens_take_white_space_and_keep_to_words(void)
{
    special_bpe(", \"lstrip\": true, \"rstrip\": true");
    check_special("a \t<u>\u3000 b", "a|<u>|b");
    check_special("<s> <u> <s>", "<s>|<u>|<s>");
    tiny_close(&y);
    special_bpe(", \"single_word\": true");
    check_special("<u>", "<u>");
    check_special("a<u>", "a|<|u|>");
    check_special("<u>\u00e9", "<|u|>|<c3>|<a9>");
    check_special("(<u>)", "(|<u>|)");
    tiny_close(&y);
    tiny_init(&y, false);
    y.type = "bpe_char";
    tiny_add(&y, "<unk>", 3, 0);
    y.types[tiny_add(&y, "a", 1, 0)] = 3;
    tiny_add(&y, "b", 1, 0);
    open_or_fail("\"unk\": 0, \"pretokenize\": [], "
                 "\"special\": [{\"id\": 1, \"single_word\": true}]");
    check_special("aba", "a|b|a");
    check_pieces("aba", "<unk>|b|<unk>"); /* no special token in a text that is plain */
    tiny_close(&y);
}

static void text_between_special_tokens_is_brought_to_nfc(void)
{
    special_bpe(", \"normalized\": true");
    tiny_close(&y);
    small_bpe();
    int kelvin = tiny_add(&y, "<K>", 3, 0);
    char keys[512];
    snprintf(keys, sizeof keys,
             NO_SPLIT ", \"normalizer\": [{\"form\": \"nfc\"}], \"special\": [{\"id\": %d, "
                      "\"normalized\": true}]",
             kelvin);
    open_or_fail(keys);
    check_special("e\u0301", "<c3>|<a9>");
    check_special("a<\u212a>b", "a|<K>|b"); /* KELVIN SIGN becomes K */
    check_special("e\u0301\xFF" "e\u0301", "<c3>|<a9>|<ff>|<c3>|<a9>");
    tiny_close(&y);
}

/* ---- JSON lines ------------------------------------------------------------------------------ */

/* The ids of n copies of `unit`, or what is wrong. */
static bool encodes(const char *unit, size_t n, size_t *n_ids)
{
    size_t len = strlen(unit);
    char  *text = malloc(n * len + 1);
    Ids    ids = { 0 };
    for (size_t i = 0; text && i < n; i++)
        memcpy(text + i * len, unit, len);
    y.err = (Error){ 0 };
    bool ok = text && tokenizer_encode(y.t, text, n * len, true, false, &ids, &y.err);
    *n_ids = ids.n;
    free(ids.id);
    free(text);
    return ok;
}

static void replacements_of_replacements_are_bounded(void)
{
    char   keys[3000];
    size_t at = (size_t)snprintf(keys, sizeof keys,
                                 NO_SPLIT ", \"special\": [{\"id\": 255}], \"normalizer\": ["),
           n_ids;
    for (int i = 0; i < 16; i++)
        at += (size_t)snprintf(keys + at, sizeof keys - at,
                               "%s{\"replace\": \"a\", \"with\": \"%0*d\"}", i ? ", " : "", 80, 0);
    for (size_t i = 0; i < at; i++) /* each makes eighty of one */
        keys[i] = keys[i] == '0' ? 'a' : keys[i];
    snprintf(keys + at, sizeof keys - at, "]");
    small_bpe();
    open_or_fail(keys);
    static const char *const units[] = { "a", "ba", "a\xFF", "bbbbbbbbbbbbbbbba" };
    for (size_t i = 0; i < 4 && y.t; i++)
        for (size_t n = 1; n <= 10000; n *= 100)
            CHECK(!encodes(units[i], n, &n_ids) && y.err.status == INPUT && strstr(y.err.msg,
                "normalizer: expected at most"), "%zu of %s: %s", n,
                  units[i], y.err.msg);
    CHECK(encodes("b", 10000, &n_ids) && n_ids == 10000, "%zu: %s", n_ids, y.err.msg);
    tiny_close(&y);

    /* published ones have no more than this, here on the character that grows most: eleven times,
     * with three spaces in it */
    small_bpe();
    open_or_fail(NO_SPLIT ", \"normalizer\": [{\"replace\": \"``\", \"with\": \"q\"}, "
                          "{\"replace\": \"''\", \"with\": \"q\"}, {\"form\": \"nfkd\"}, "
                          "{\"lowercase\": true}, {\"form\": \"nfkc\"}, {\"prepend\": \"\u2581\"}, "
                          "{\"replace\": \" \", \"with\": \"\u2581\"}]");
    for (size_t n = 1; n <= 10000; n *= 10)
        CHECK(encodes("\uFDFA", n, &n_ids) && n_ids > 30 * n, "%zu: %s", n, y.err.msg);
    tiny_close(&y);
}

/* A token that is looked for at each byte of a text, of n bytes: opened, or refused by name. */
static bool opens_long(const char *kind, size_t n)
{
    static char bytes[2048];
    char keys[200];
    bool unigram = strcmp(kind, "unigram") == 0, spm = unigram || strcmp(kind, "user-defined") == 0;
    memset(bytes, 'z', sizeof bytes);
    if (unigram)
        small_unigram("spm_unigram");
    else if (spm)
        small_spm(false);
    else
        small_bpe();
    int id = tiny_add_bytes(&y, bytes, n, unigram ? 1 : spm ? 4 : 3, -9);
    if (unigram)
        memset(y.trie, 0, sizeof y.trie), tiny_trie(&y);
    snprintf(keys, sizeof keys, spm ? "\"unk\": 0" : NO_SPLIT ", \"special\": [{\"id\": %d}]", id);
    bool ok = tiny_open(&y, keys);
    CHECK(ok || (y.err.status == INPUT && strstr(y.err.msg, "1024 bytes")), "%s: %s", kind,
          y.err.msg);
    tiny_close(&y);
    return ok;
}

static void what_is_looked_for_everywhere_has_a_length_limit(void)
{
    static const char *const kinds[] = { "special", "user-defined", "unigram" };
    for (size_t i = 0; i < 3; i++) {
        CHECK(opens_long(kinds[i], 1024), "%s of 1024 bytes: %s", kinds[i], y.err.msg);
        CHECK(!opens_long(kinds[i], 1025), "%s of 1025 bytes", kinds[i]);
    }
}

static void check_answer_of(const char *line, size_t n, const char *expected)
{
    if (test_case_state)
        return;
    char *answer = NULL;
    bool  ok = tokenizer_answer_json(y.t, line, n, &answer, &y.err);
    CHECK(ok, "%s: %s", line, y.err.msg);
    CHECK(!ok || strcmp(answer, expected) == 0, "%s: %s", line, answer);
    free(answer);
}

static void check_answer(const char *line, const char *expected)
{
    check_answer_of(line, strlen(line), expected);
}

static void json_requests_are_answered(void)
{
    special_bpe("");
    check_answer("{\"text\": \"abc\"}", "{\"ids\": [258]}");
    check_answer("{\"text\": \"\"}", "{\"ids\": []}");
    check_answer("{\"text\": \"a\\u0000b\"}", "{\"ids\": [97, 0, 98]}");
    check_answer("{\"text\": \"\\ud83d\\ude00\\u00e9\\n\\/\"}",
                 "{\"ids\": [240, 159, 152, 128, 195, 169, 10, 47]}");
    check_answer("{\"text\": \"\u00e9\"}", "{\"ids\": [195, 169]}");
    check_answer("{\"bytes_hex\": \"fF61\"}", "{\"ids\": [255, 97]}");
    check_answer("{\"mode\": \"special\", \"text\": \"<s>\"}", "{\"ids\": [261]}");
    check_answer("{\"mode\": \"plain\", \"text\": \"<s>\"}", "{\"ids\": [60, 115, 62]}");
    check_answer("{\"add_special\": true, \"text\": \"\"}", "{\"ids\": [261, 262, 262]}");
    check_answer(" { \"ids\" : [ 97 , 195 , 0 ] } \r\n",
                 "{\"text\": \"a\\ufffd\\u0000\", \"bytes_hex\": \"61c300\"}");
    check_answer("{\"ids\": [226, 150, 226]}",
                 "{\"text\": \"\\ufffd\\ufffd\", \"bytes_hex\": \"e296e2\"}");
    check_answer("{\"ids\": []}", "{\"text\": \"\", \"bytes_hex\": \"\"}");
    check_answer("{\"text\": \"a\", \"ids\": [1], \"x\": [{\"y\": [null, -1.5e3, \"\\\"\"]}, {}]}",
                 "{\"ids\": [97]}");
    check_answer("{\"text\": \"a\", \"ids\": {\"gpt2\": [1]}}", "{\"ids\": [97]}");
    /* the length counts, not a terminator */
    check_answer_of("{\"text\": \"a\"}x", 13, "{\"ids\": [97]}");
    tiny_close(&y);
}

static void json_requests_that_are_wrong_say_where(void)
{
    special_bpe("");
    static const char *line[] = {
        "",
        "[]",
        "{",
        "{}",
        "{\"text\"}",
        "{\"text\": }",
        "{\"text\": 1}",
        "{\"text\": \"a\"",
        "{\"text\": \"a\"} x",
        "{\"text\": \"a}",
        "{\"text\": \"\\x\"}",
        "{\"text\": \"\\u12\"}",
        "{\"text\": \"\\ud800\"}",
        "{\"text\": \"\\ud800\\u0041\"}",
        "{\"text\": \"\\udc00\"}",
        "{\"text\": \"\n\"}",
        "{\"text\": \"\xFF\"}",
        "{\"text\": \"a\", \"text\": \"b\"}",
        "{\"text\": \"a\",}",
        "{\"bytes_hex\": \"f\"}",
        "{\"bytes_hex\": \"gg\"}",
        "{\"mode\": \"loud\", \"text\": \"a\"}",
        "{\"add_special\": 1, \"text\": \"\"}",
        "{\"ids\": [1.5]}",
        "{\"ids\": [1e3]}",
        "{\"ids\": [-1]}",
        "{\"ids\": [99999999999]}",
        "{\"ids\": [300]}",
        "{\"ids\": [1 2]}",
        "{\"ids\": [1,]}",
        "{\"ids\": [1",
        "{\"text\": \"\\",
        "{\"text\": \"\\u",
        "{\"x\": tru, \"text\": \"a\"}",
    };
    for (size_t i = 0; i < sizeof line / sizeof *line && y.t; i++) {
        char *answer = NULL;
        y.err = (Error){ 0 };
        CHECK(!tokenizer_answer_json(y.t, line[i], strlen(line[i]), &answer,
                                     &y.err) && y.err.status == INPUT && *y.err.msg,
              "%s: answered %s", line[i], answer);
    }
    char deep[300];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"x\":", 5);
    char *answer = NULL;
    CHECK(!tokenizer_answer_json(y.t, deep, sizeof deep, &answer, &y.err),
          "depth 295 was answered");
    tiny_close(&y);
}

/* Also where nobody looks at the number: in a key that is ignored. */
static void json_requests_hold_numbers_of_json_alone(void)
{
    special_bpe("");
    static const char *const bad[] = {
        "+1", "-", "-01", "00", "012", "-.5", ".5", "1.",
        "1.e1", "1e",    "1e+",   "1E+-1", "1eE2",  "0e",           "0.3e", "0x1F",
        "1+2",  "--1",   "-a",    "- 1",   "1.2.3", "Inf",          "NaN",  "-Infinity",
        "ff",   "1_000", "1e1.5", "2.e3",  "1.0e-", "\xEF\xBC\x91",
    };
    for (size_t i = 0; i < 2 * sizeof bad / sizeof *bad && y.t; i++) {
        char *answer = NULL, line[80];
        snprintf(line, sizeof line, i % 2 ? "{\"ids\": [%s]}" : "{\"text\": \"a\", \"x\": [%s]}",
                 bad[i / 2]);
        y.err = (Error){ 0 };
        CHECK(!tokenizer_answer_json(y.t, line, strlen(line), &answer,
                                     &y.err) && y.err.status == INPUT, "%s: answered %s", line,
        answer);
        free(answer);
    }
    check_answer(
        "{\"text\": \"a\", \"x\": [0, -0, -0.0, 0e1, 0E-0, 1e400, 12345678901234567890, 1.5E+3]}",
        "{\"ids\": [97]}");
    check_answer("{\"ids\": [97, -0, 0]}",
                 "{\"text\": \"a\\u0000\\u0000\", \"bytes_hex\": \"610000\"}");
    check_answer_of("{\"text\": \"a\", \"x\": 1}2", 21, "{\"ids\": [97]}");
    tiny_close(&y);
}

/* ---- Files that are wrong -------------------------------------------------------------------- */

static void check_refused(const char *keys, const char *why)
{
    if (test_case_state)
        return;
    bool ok = tiny_open(&y, keys);
    CHECK(!ok && y.err.status == INPUT && strstr(y.err.msg, why), "expected '%s', found '%s'", why,
          ok ? "no error" : y.err.msg);
    tiny_close(&y);
}

static void tables_that_are_wrong_are_refused(void)
{
    small_bpe(), y.offsets[3] = 9999, check_refused(NO_SPLIT, "tok.offsets: expected ascending");
    small_bpe(), y.offsets[0] = 1, check_refused(NO_SPLIT, "tok.offsets: expected 0 first");
    small_bpe(), y.n_bytes++, check_refused(NO_SPLIT, "tok.offsets: expected");
    small_bpe(), y.types[5] = 7, check_refused(NO_SPLIT, "tok.types");
    small_bpe(), y.types[5] = 0, check_refused(NO_SPLIT, "tok.types");
    small_bpe(), y.index[7] = 261, check_refused(NO_SPLIT, "tok.index");
    small_bpe(), y.index[7] = -2, check_refused(NO_SPLIT, "tok.index");
    small_bpe(), y.merge_index[7] = 5, check_refused(NO_SPLIT, "tok.merge_index");
    small_bpe(), y.merges[1][2] = 261, check_refused(NO_SPLIT, "tok.merges: expected ids under");
    small_bpe();
    for (int i = 0; i < TINY_SLOTS; i++)
        y.index[i] = 0;
    check_refused(NO_SPLIT, "tok.index: expected an empty slot");
    small_spm(true), y.scores[4] = NAN, check_refused("", "tok.scores: expected a number");
    static const char *tensor[] = { "tok.bytes", "tok.offsets", "tok.types",
                                    "tok.index", "tok.merges",  "tok.merge_index" };
    for (int i = 0; i < 6; i++)
        small_bpe(), y.skip = tensor[i], check_refused(NO_SPLIT, tensor[i]);
}

static void metadata_that_is_wrong_is_refused(void)
{
    static const struct { const char *keys, *why;
    } row[] = {
        { "", "pretokenize" },
        { NO_SPLIT ", \"loud\": true", "loud: unknown key" },
        { NO_SPLIT ", \"byte_fallback\": true", "byte_fallback: unknown key" },
        { NO_SPLIT ", \"bos\": 261", "bos" },
        { NO_SPLIT ", \"eos\": -2", "eos" },
        { NO_SPLIT ", \"unk\": 1.5", "unk" },
        { NO_SPLIT ", \"prefix\": 1", "prefix" },
        { NO_SPLIT ", \"prefix\": [-1]", "prefix" },
        { NO_SPLIT ", \"special\": {}", "special" },
        { NO_SPLIT ", \"special\": [{}]", "special" },
        { NO_SPLIT ", \"special\": [{\"id\": 1, \"big\": true}]", "big: unknown key" },
        { NO_SPLIT ", \"special\": [{\"id\": 261}]", "special" },
        { NO_SPLIT ", \"ignore_merges\": 1", "ignore_merges" },
        { NO_SPLIT ", \"normalizer\": \"nfc\"", "normalizer" },
        { NO_SPLIT ", \"normalizer\": [{\"form\": \"nfq\"}]", "'nfq'" },
        { NO_SPLIT ", \"normalizer\": [{\"replace\": \"a\"}]", "step 0" },
        { NO_SPLIT ", \"normalizer\": [{\"replace\": \"\", \"with\": \"b\"}]", "an empty one" },
        { NO_SPLIT ", \"normalizer\": [{\"prepend\": \"a\", \"with\": \"b\"}]", "other keys" },
        { NO_SPLIT
          ", \"normalizer\": [{\"form\": \"nfc\"}, {\"replace_regex\": \"(\", \"with\": \"b\"}]",
          "step 1: regex '('" },
        { NO_SPLIT ", \"normalizer\": [{\"charsmap\": true}]", "tok.charsmap_bytes" },
        { NO_SPLIT ", \"normalizer\": [{\"strip\": \"up\"}]", "'up'" },
        { NO_SPLIT ", \"decode_strip\": \"space\"", "decode_strip: unknown key" },
        { NO_SPLIT ", \"charsmap\": true", "charsmap: unknown key" },
        { "\"pretokenize\": {}", "pretokenize" },
        { "\"pretokenize\": [1]", "pretokenize step 0" },
        { "\"pretokenize\": [{\"regex\": \"a\"}, {\"regex\": \"(\"}]", "step 1: regex '('" },
        { "\"pretokenize\": [{\"behavior\": \"isolated\"}]", "regex" },
        { "\"pretokenize\": [{\"regex\": \"a\", \"behavior\": \"removing\"}]", "'removing'" },
        { "\"pretokenize\": [{\"regex\": \"a\", \"invert\": 1}]", "invert" },
        { "\"pretokenize\": [{\"regex\": \"a\", \"metaspace\": \"first\"}]", "both" },
        { "\"pretokenize\": [{\"invert\": true, \"metaspace\": \"first\"}]", "other" },
        { "\"pretokenize\": [{\"metaspace\": \"last\"}]", "'last'" },
        { "\"pretokenize\": [{\"regex\": \"\\\\C\"}]", "regex" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        small_bpe();
        check_refused(row[i].keys, row[i].why);
    }
    small_spm(false), check_refused("\"unk\": 0, \"byte_fallback\": true", "byte_fallback");
    small_spm(false), check_refused("\"pretokenize\": []", "pretokenize: unknown key");
}

static void tries_that_are_wrong_are_refused(void)
{
    static const struct { int column; uint32_t value; const char *why; } row[] = {
        { 0, 0, "node 0" }, { 0, 1u << 30, "node 0" }, { 1, 257, "node 0" },
        { 1, UINT32_MAX, "node 0" }, { 2, 10, "value" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        small_unigram("spm_unigram");
        y.trie[0][row[i].column] = row[i].value;
        check_refused("\"unk\": 0", row[i].why);
        small_unigram("spm_unigram");
        y.rules[0][row[i].column] = row[i].value;
        check_refused("\"unk\": 0, \"charsmap\": true", row[i].why);
    }
    small_unigram("spm_unigram"), y.trie_labels[2] = y.trie_labels[1];
    check_refused("\"unk\": 0", "tok.trie_labels: node 2: expected a label over");
    small_unigram("spm_unigram"), y.skip = "tok.trie_labels",
                                  check_refused("\"unk\": 0", "tok.trie_labels");
    small_unigram("spm_unigram"),
        y.skip = "tok.charsmap_offsets",
        check_refused("\"unk\": 0, \"charsmap\": true", "tok.charsmap_offsets");
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(spm_merges_by_score_and_from_the_left);
    TEST(spm_normalizer_flags_are_followed);
    TEST(spm_shows_what_it_lacks_as_bytes);
    TEST(spm_without_bytes_has_one_unknown_for_a_run);
    TEST(spm_ids_do_not_depend_on_the_length_of_a_text);
    TEST(spm_user_defined_symbols_are_found_first);
    TEST(spm_takes_unused_pieces_apart_again);
    TEST(spm_pieces_may_cross_words);
    TEST(spm_decodes_as_sentencepiece_does);
    TEST(bpe_merges_by_rank_and_from_the_left);
    TEST(bpe_words_that_are_pieces_may_skip_the_merges);
    TEST(bpe_may_put_a_space_before_a_text);
    TEST(bpe_without_a_byte_uses_unknown_or_fails);
    TEST(short_and_long_words_merge_as_the_definition_says);
    TEST(words_of_megabytes_merge_as_the_definition_says);
    TEST(characters_of_long_texts_merge_as_the_definition_says);
    TEST(repeated_words_get_the_same_ids_each_time);
    TEST(words_are_matches_and_what_lies_between);
    TEST(white_space_is_unicodes);
    TEST(scripts_are_unicodes);
    TEST(invalid_bytes_are_words_of_their_own);
    TEST(unigram_takes_little_memory_for_a_long_text);
    TEST(a_pattern_that_runs_away_is_an_error);
    TEST(matches_may_go_or_join_their_neighbours);
    TEST(metaspace_shows_spaces_and_puts_one_first);
    TEST(a_pattern_that_looks_far_again_and_again_is_an_error);
    TEST(matches_do_not_depend_on_the_window);
    TEST(characters_merge_by_rank_and_fall_back_to_bytes);
    TEST(unigram_takes_the_best_way);
    TEST(tries_that_are_wrong_are_refused);
    TEST(special_tokens_are_text_unless_asked_for);
    TEST(tokens_that_are_not_special_are_found_always);
    TEST(special_tokens_take_white_space_and_keep_to_words);
    TEST(text_between_special_tokens_is_brought_to_nfc);
    TEST(replacements_of_replacements_are_bounded);
    TEST(what_is_looked_for_everywhere_has_a_length_limit);
    TEST(json_requests_are_answered);
    TEST(json_requests_that_are_wrong_say_where);
    TEST(json_requests_hold_numbers_of_json_alone);
    TEST(tables_that_are_wrong_are_refused);
    TEST(metadata_that_is_wrong_is_refused);
    return TEST_END();
}
