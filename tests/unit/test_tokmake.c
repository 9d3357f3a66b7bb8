/* What the Python tests do not see: the view in memory, clear errors for hostile files, bounded
 * work. Whether the bytes are right is compared with recorded digests in
 * tests/text/test_make_tokenizers.py. */
#include "tokenizer/tokmake.h"

#include <time.h>
#include <unistd.h>
#include "base/hash.h"
#include "test.h"
#include "temp_folder.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocab_draft.h"

static const char *put_file(const char *name, const void *data, size_t n)
{
    Error e = { 0 };
    CHECK(file_write(in_folder(name), data, n, &e), "%s", e.msg);
    return in_folder(name);
}

static const char *put_text(const char *name, const char *text)
{
    return put_file(name, text, strlen(text));
}

/* Making fails with this status and one line that names the file and the word. */
static void refused(const char *path, int status, const char *word)
{
    TokenizerData d;
    Error         e = { 0 };
    bool          ok = tokenizer_make(&d, path, NULL, &e);
    const char   *name = strrchr(path, '/') + 1;
    CHECK(!ok && e.status == status && strstr(e.msg, name) && strstr(e.msg, word),
          "%s: expected '%s', found %d '%s'", name, word,
          e.status, e.msg);
    CHECK(!d.metadata && !d.path && !d.files, "%s: something is left", name);
    if (ok)
        tokenizer_data_free(&d);
}

static const char bpe[] =
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\\u0120\": 3}, "
    "\"merges\": [\"a b\"]}, "
    "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"added_tokens\": "
    "[{\"id\": 4, \"content\": \"<x>\", \"special\": true}]}";

static void a_tokenizer_in_memory_works_as_one_in_a_file(void)
{
    TokenizerData d;
    TensorFile    f;
    Tokenizer    *t = NULL;
    Ids           ids = { 0 };
    Error         e = { 0 };
    const char   *path = put_text("tokenizer.json", bpe);
    CHECK(tokenizer_make(&d, path, NULL, &e) && d.metadata && d.n_files == 1, "%s", e.msg);
    CHECK(strstr(d.warnings ? d.warnings : "", "bytes that no piece stands for"), "%s", d.warnings);
    CHECK(tokenizer_data_view(&f, &d, &e) && tokenizer_open(&t, &f, &e), "%s", e.msg);
    CHECK(t && tokenizer_encode(t, "ab a<x>b", 8, true, false, &ids,
                                &e) && ids.n == 5 && ids.id[0] == 2 && ids.id[1] == 3 &&
          ids.id[2] == 0 && ids.id[3] == 4 && ids.id[4] == 1, "%zu ids, %s", ids.n, e.msg);
    free(ids.id);
    tokenizer_free(t);
    tensor_file_close(&f);
    tokenizer_data_free(&d);
    tokenizer_data_free(&d);
}

static void what_is_no_tokenizer_is_no_error(void)
{
    TokenizerData d;
    Error         e = { 0 };
    CHECK(tokenizer_make(&d, put_text("letter", "Dear Sir or Madam,\n"), NULL, &e) && !d.metadata,
          "%s", e.msg);
    tokenizer_data_free(&d);
    CHECK(tokenizer_make(&d, put_text("empty", ""), NULL, &e) && !d.metadata, "%s", e.msg);
    tokenizer_data_free(&d);
    char *lines = tokenizer_files_not_read(folder);
    CHECK(!lines, "%s", lines);
    put_text("tekken.json", "{}");
    lines = tokenizer_files_not_read(folder);
    CHECK(lines && strstr(lines, "tekken.json: not read"), "%s", lines);
    free(lines);
}

static void broken_json_names_file_and_key(void)
{
    char cut[sizeof bpe];
    for (size_t n = 1; n < sizeof bpe - 1; n++) {
        memcpy(cut, bpe, n);
        cut[n] = 0;
        refused(put_text("cut.json", cut), INPUT, "");
    }
    static const struct { const char *model, *added, *word; } row[] = {
        { "{\"vocab\": {\"a\": 4194304}, \"merges\": []}", "[]",
          "model.vocab 'a': expected an id from 0 to 4194303, found 4194304" },
        { "{\"vocab\": {\"a\": 1e30}, \"merges\": []}", "[]", "model.vocab 'a': expected an id" },
        { "{\"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}", "[]",
          "model.vocab 'b': expected an id of its own, found 0, as 'a'" },
        { "{\"vocab\": {\"a\": 0, \"a\": 1}, \"merges\": []}", "[]",
          "the key \"a\" appears twice" },
        { "{\"vocab\": {\"a\": 0}, \"merges\": [\"a z\"]}", "[]",
          "merges: entry 0: expected pieces of the vocabulary, found 'z'" },
        { "{\"vocab\": {\"a\": 0}, \"merges\": [[\"a\"]]}", "[]",
          "merges: entry 0: expected two pieces" },
        { "{\"vocab\": {\"a\": 0}, \"merges\": 7}", "[]",
          "model.merges: expected an array, found 7" },
        { "{\"vocab\": \"a\", \"merges\": []}", "[]",
          "model.vocab: expected an object of ids, found 'a'" },
        { "\"x\"", "[]", "model: expected an object, found 'x'" },
        { "{\"vocab\": {\"a\": 0}, \"merges\": []}", "[{\"id\": 99999999, \"content\": \"y\"}]",
          "token id: expected 0 to 4194303, found 99999999" },
        { "{\"vocab\": {\"a\": 0}, \"merges\": []}", "[{\"id\": 0, \"content\": \"y\"}]",
          "added token 'y': expected an id of its own, found 0" },
        { "{\"vocab\": {\"a\": 0}, \"merges\": []}", "{}",
          "added_tokens: expected an array, found an object" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[1024];
        snprintf(
            text, sizeof text,
            "{\"model\": %s, \"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"added_tokens\": %s}",
            row[i].model, row[i].added);
        refused(put_text("odd.json", text), INPUT, row[i].word);
    }
    refused(put_text("odd.json", "{\"modell\": 1.5}"), INPUT, "without the key 'model'");
}

static void broken_protobufs_are_refused(void)
{
    static const struct { const char *bytes; size_t n; const char *word; } row[] = {
        { "\x0A\x05\x0A\x03" "abc" "\x0A\xFF\xFF\xFF\xFF\x0F", 13,
          "a field longer than what is left" },
        { "\x0A\x05\x0A\x7F" "abc", 7, "a field longer than what is left" },
        { "\x0A\x05\x0A\x03" "abc" "\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 18, "a varint" },
        { "\x0A\x05\x0A\x03" "abc" "\x0A\xFF", 9, "a varint without end" },
        { "\x0A\x05\x0A\x03" "abc" "\x0B\x00", 9, "wire type" },
        { "\x0A\x05\x0A\x03" "abc" "\x02\x00", 9, "field number 0" },
        { "\x0A\x07\x0A\x03" "abc" "\x18\x07", 9, "piece 0: expected a text, a type" },
        { "\x0A\x07\x0A\x03" "abc" "\x18\x06", 9, "piece 0: expected a byte piece" },
        { "\x0A\x0A\x0A\x03" "abc" "\x15\x00\x00\xC0\x7F", 12, "piece 0" },
        { "\x0A\x05\x0A\x03" "abc", 7, "one of type unknown, found 0" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        refused(put_file("spm.model", row[i].bytes, row[i].n), INPUT, row[i].word);
}

static void broken_ranks_name_the_line(void)
{
    refused(put_text("ranks.model", "IQ== 0\nIQ== 1\n"), INPUT, "line 2: expected a new piece");
    refused(put_text("ranks.model", "IQ== 0\nIg== 0\n"), INPUT,
            "line 2: expected a rank of its own");
    refused(put_text("ranks.model", "IQ== 0\nIg== 4194304\n"), INPUT, "line 2");
    refused(put_text("ranks.model", "IQ== 0\nIg== 99999999999999999999999\n"), INPUT,
            "line 2: expected base64 and a rank");
    refused(put_text("ranks.model", "IQ== 0\nI=== 1\n"), INPUT,
            "line 2: expected base64 and a rank");
    refused(put_text("ranks.model", "IQ== 0\nIg== 1\n"), INPUT, "split pattern");
    char long_line[2000] = "IQ== 0\n";
    memset(long_line + 7, 'I', 1600);
    strcpy(long_line + 1607, " 1\n");
    refused(put_text("ranks.model", long_line), INPUT,
            "line 2: expected a piece of at most 1024 bytes");
}

static void a_pattern_is_asked_for_only_where_it_is_needed(void)
{
    TokenizerData        d;
    TokenizerMakeOptions opt = { .pattern = "llama3", .bos = -1, .eos = -1 };
    Error                e = { 0 };
    CHECK(!tokenizer_make(&d, put_text("tokenizer.json", bpe), &opt,
                          &e) && e.status == USAGE && strstr(e.msg, "tokenizer.json"), "%s",
          e.msg);
    const char *ranks = put_text("ranks.model", "IQ== 0\nIg== 1\n");
    CHECK(tokenizer_make(&d, ranks, &opt, &e) && d.metadata, "%s", e.msg);
    tokenizer_data_free(&d);
    opt.pattern = "latin";
    CHECK(!tokenizer_make(&d, ranks, &opt, &e) && e.status == USAGE && strstr(e.msg, "latin"), "%s",
          e.msg);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The table is that of docs/format.md, plainly filled; and keys that all fall on one slot cost no
 * more than others. */
static void tables_are_plain_and_never_slow(void)
{
    enum { N = 200000, FEW = 3000 };
    uint64_t *h = malloc(N * sizeof *h);
    int32_t  *table = NULL;
    size_t    slots = 0;
    Error     e = { 0 };
    for (int i = 0; i < FEW; i++)
        h[i] = fnv1a(FNV_SEED, &(int){ i % 50 * 7 }, sizeof(int)); /* many alike */
    CHECK(table_make(h, NULL, FEW, &table, &slots, &e) && slots == 8192, "%zu slots", slots);
    int32_t *plain = malloc(slots * sizeof *plain);
    memset(plain, -1, slots * sizeof *plain);
    for (int i = 0; i < FEW; i++) {
        size_t at = h[i] % slots;
        while (plain[at] >= 0)
            at = (at + 1) % slots;
        plain[at] = i;
    }
    CHECK(memcmp(plain, table, slots * sizeof *plain) == 0, "another table");
    free(plain);
    free(table);
    for (int i = 0; i < N; i++)
        h[i] = UINT64_MAX; /* the last slot: it goes on at the first */
    double start = seconds();
    CHECK(table_make(h, NULL, N, &table, &slots,
                     &e) && table[slots - 1] == 0 && table[0] == 1 && table[N - 2] == N - 1, "%s",
    e.msg);
    CHECK(seconds() - start < 2, "%.1f s for %d equal hashes", seconds() - start, N);
    free(table);
    free(h);
}

/* A map whose trie runs in circles: bounded. */
static void a_circular_charsmap_is_refused(void)
{
    unsigned char blob[4 + 4 * 256 + 2] = { 0, 4, 0, 0 };
    for (uint32_t i = 0; i < 256; i++) { /* each unit is the child of any other by its own label,
                                          * and leads back */
        uint32_t unit = i | (i << 10);
        memcpy(blob + 4 + 4 * i, &unit, 4);
    }
    Error e = { 0 };
    VocabDraft d = { .file = "map", .err = &e };
    CHECK(!charsmap_read(&d, (Text){ (const char *)blob, sizeof blob }, "precompiled_charsmap")
              && e.status == INPUT && strncmp(e.msg, "map: precompiled_charsmap: ", 27) == 0
              && strstr(e.msg, "nodes, found more"),
          "%s", e.msg);
    draft_free(&d);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    if (!make_folder())
        return 1;
    TEST(a_tokenizer_in_memory_works_as_one_in_a_file);
    TEST(what_is_no_tokenizer_is_no_error);
    TEST(broken_json_names_file_and_key);
    TEST(broken_protobufs_are_refused);
    TEST(broken_ranks_name_the_line);
    TEST(a_pattern_is_asked_for_only_where_it_is_needed);
    TEST(tables_are_plain_and_never_slow);
    TEST(a_circular_charsmap_is_refused);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return TEST_END() | (system(command) != 0);
}
