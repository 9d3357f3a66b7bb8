/* tests/fuzz/fuzz_text.c: any bytes as text for several tokenizers. The first byte chooses one and
 * the flags. In plain mode no special token comes out; spans that cover nothing or everything give
 * what the modes give; a stream gives the bytes that decoding gives; byte-level vocabularies return
 * the text itself. */
#include <stdio.h>
#include "fuzz.h"
#include "source/source.h"
#include "tokenizer/tokenizer.h"
#include "../unit/test_data.h"

/* Read where they lie; of the fixtures those that are there. */
static const char *const own[] = { "models/shakespeare.bin",
                                   "tests/data/models/llama3-e2e/tokenizer.json" };
static const char *const recorded[] = { "bpe-gpt2", "bpe-qwen2", "bpe-smollm",
                                        "llama2-sp",     "sp-bpe",          "spjson-gemma",
                                        "spjson-legacy", "spjson-metaspace" };
enum { MOST = 16 };

static Source     sources[MOST];
static Tokenizer *tokenizers[MOST];
static int        n_tokenizers;

static void add(const char *path)
{
    Error e = { 0 };
    if (!source_open(&sources[n_tokenizers], path, &e))
        return;
    if (tokenizer_open(&tokenizers[n_tokenizers], &sources[n_tokenizers].file, &e))
        n_tokenizers++;
    else
        source_close(&sources[n_tokenizers]);
}

static void open_all(void)
{
    char name[128], path[512];
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        add(own[i]);
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
        snprintf(name, sizeof name, "fixtures/tokenizers/%s", recorded[i]);
        if (test_data(path, name))
            add(path);
    }
    claim(n_tokenizers > 0);
}

static void stream_gives_the_same(const Tokenizer *t, const Ids *ids, const char *want,
                                  size_t n_want)
{
    TextStream *s = text_stream_new(t, false);
    size_t      at = 0, n;
    claim(s != NULL);
    for (size_t i = 0; i <= ids->n; i++) {
        const char *piece =
            i < ids->n ? text_stream_put(s, ids->id[i], &n) : text_stream_flush(s, &n);
        claim(at + n <= n_want && memcmp(want + at, piece, n) == 0);
        at += n;
    }
    claim(at == n_want);
    text_stream_free(s);
}

static void plain_has_no_special(const Tokenizer *t, const Ids *ids)
{
    for (size_t i = 0; i < ids->n; i++)
        claim(!tokenizer_is_special(t, ids->id[i]));
}

static bool same(const Ids *a, const Ids *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->id, b->id, a->n * sizeof *a->id) == 0);
}

static void spans_agree(const Tokenizer *t, const char *text, size_t n, const Ids *plain,
                        const Ids *special)
{
    Error    e = { 0 };
    Ids      ids = { 0 };
    TextSpan whole = { .start = 0, .end = n };
    if (tokenizer_encode_spans(t, text, n, NULL, 0, &ids, &e))
        claim(same(&ids, special));
    ids.n = 0;
    if (n && tokenizer_encode_spans(t, text, n, &whole, 1, &ids, &e))
        claim(same(&ids, plain));
    free(ids.id);
}

static void ask_as_json(const Tokenizer *t, const char *text, size_t n)
{
    Error e = { 0 };
    char *answer = NULL;
    if (said(tokenizer_answer_json(t, text, n, &answer, &e), &e))
        claim(strchr(answer, '\n') == NULL);
    free(answer);
}

/* Whatever the text's first bytes are as stop texts: what is shown is what lies before. */
static void stops(const char *text, size_t n)
{
    Error     e = { 0 };
    char      one[2] = { n > 3 ? text[3] : 'x' }, two[4] = { 0 };
    StopTexts s = { .texts = (const char *const[]){ one, two }, .n = 2 };
    TextOut   out = { 0 };
    memcpy(two, text, n < 3 ? n : 3);
    if (!one[0] || !two[0])
        return;
    for (size_t at = 0; at < n; at += 2)
        claim(stop_texts_put(&s, text + at, n - at < 2 ? n - at : 2, &out, &e));
    claim(stop_texts_flush(&s, &out, &e) && out.n <= n);
    claim(out.n == 0 || memcmp(out.text, text, out.n) == 0);
    text_out_free(&out);
    text_out_free(&s.held);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (!n_tokenizers)
        open_all();
    if (!n)
        return 0;
    const Tokenizer *t = tokenizers[(bytes[0] & 31) % n_tokenizers];
    Error            e = { 0 };
    Ids              plain = { 0 }, special = { 0 };
    char            *text = exact_copy(bytes + 1, n - 1), *back = NULL;
    size_t           n_back = 0;
    bool ok = said(tokenizer_encode(t, text, n - 1, false, false, &plain, &e), &e)
        && said(tokenizer_encode(t, text, n - 1, true, bytes[0] & 32, &special, &e), &e);
    if (ok) {
        plain_has_no_special(t, &plain);
        claim(tokenizer_decode(t, plain.id, plain.n, &back, &n_back, &e));
        stream_gives_the_same(t, &plain, back, n_back);
        if (!(bytes[0] & 32))
            spans_agree(t, text, n - 1, &plain, &special);
    }
    stops(text, n - 1);
    ask_as_json(t, text, n - 1);
    free(back);
    free(plain.id);
    free(special.id);
    free(text);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "text"); }
#endif
