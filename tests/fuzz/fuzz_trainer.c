/* tests/fuzz/fuzz_trainer.c: any bytes as the text that a vocabulary is trained on. It makes a
 * tokenizer, which gives the text back. A long text of wide characters comes after it. */
#include "fuzz.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokmake.h"

enum { WIDE = 1 << 16 };

static void round_trip(const Tokenizer *t, const char *text, size_t n)
{
    Error  e = { 0 };
    Ids    ids = { 0 };
    char  *back = NULL;
    size_t n_back;
    claim(said(tokenizer_encode(t, text, n, false, false, &ids, &e), &e));
    claim(tokenizer_decode(t, ids.id, ids.n, &back, &n_back, &e));
    claim(n_back == n && (n == 0 || memcmp(back, text, n) == 0));
    free(back);
    free(ids.id);
}

static void use(const TokenizerData *data, const char *text, size_t n)
{
    Error      e = { 0 };
    TensorFile f;
    Tokenizer *t = NULL;
    claim(tokenizer_data_view(&f, data, &e) && tokenizer_open(&t, &f, &e));
    round_trip(t, text, n);
    if (n % 256 == 65) { /* past where the tables for characters are made */
        char *wide = malloc(2 * WIDE);
        claim(wide != NULL);
        for (size_t i = 0; i < WIDE; i++)
            memcpy(wide + 2 * i, "\xC3", 1), wide[2 * i + 1] = (char)(0x80 | ((i * n) & 63));
        round_trip(t, wide, 2 * WIDE);
        free(wide);
    }
    tokenizer_free(t);
    tensor_file_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    Error         e = { 0 };
    TokenizerData data = { 0 };
    BpeMerge     *merges = NULL;
    size_t        n_merges, found;
    char         *text = exact_copy(bytes, n), *steps = tokenizer_pretokenize_steps("gpt2", &e);
    claim(steps != NULL);
    if (said(bpe_train(text, n, steps, 256 + n % 50, &merges, &n_merges, &found, &e), &e)) {
        claim(found >= 256 && found <= 256 + n % 50);
        claim(tokenizer_make_trained(&data, "text", "gpt2", (const int32_t (*)[3])merges, n_merges,
                                     &e));
        use(&data, text, n);
        tokenizer_data_free(&data);
    }
    free(merges);
    free(steps);
    free(text);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "trainer"); }
#endif
