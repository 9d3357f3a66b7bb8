/* tests/fuzz/fuzz_trainer.c: any bytes as the text that a vocabulary is trained on. It makes a
 * tokenizer, which gives the text back. A long text of wide characters comes after it. */
#include "made_tokenizer.h"

enum { WIDE = 1 << 16 };

static void round_trip(const Tokenizer *t, const char *text, size_t n)
{
    char  *back;
    size_t n_back;
    claim(there_and_back(t, text, n, false, &back, &n_back));
    claim(n_back == n && (n == 0 || memcmp(back, text, n) == 0));
    free(back);
}

static void use(const Tokenizer *t, const char *text, size_t n)
{
    round_trip(t, text, n);
    if (n % 256 != 65)
        return;
    char *wide = malloc(2 * WIDE); /* past where the tables for characters are made */
    claim(wide != NULL);
    for (size_t i = 0; i < WIDE; i++)
        memcpy(wide + 2 * i, "\xC3", 1), wide[2 * i + 1] = (char)(0x80 | ((i * n) & 63));
    round_trip(t, wide, 2 * WIDE);
    free(wide);
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
        claim(use_made(&data, text, n, use));
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
