/* tests/fuzz/fuzz_tokenizer.c: any bytes as published tokenizer files. The first byte says of which
 * kind, the next two how long a second file beside it is; that and the first follow. What is made
 * opens as a tokenizer, encodes and decodes. */
#include "made_tokenizer.h"
#include "memory_folder.h"

static const struct Kind { const char *name, *beside; bool folder; } kinds[] = {
    { "tokenizer.json", "tokenizer_config.json", true },
    { "tokenizer.model", "tokenizer_config.json", true },
    { "vocab.json", "merges.txt", true },
    { "tokenizer.model", "special_tokens.json", false },
    { "tokenizer.json", "special_tokens_map.json", true },
    { "tokenizer.model", "added_tokens.json", true },
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static void encode(const Tokenizer *t, const char *text, size_t n)
{
    char  *back;
    size_t n_back;
    for (int special = 0; special < 2; special++) {
        there_and_back(t, text, n, special, &back, &n_back);
        free(back);
    }
}

static void use(const Tokenizer *t, const char *text, size_t n)
{
    static const char hello[] =
        " Hello, w\xC3\xB6rld <s></s>\n\n  don't 123 \xFF\xE6\x97\xA5\xE6\x9C\xAC";
    encode(t, hello, sizeof hello - 1);
    encode(t, text, n < 300 ? n : 300);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    TokenizerData data = { 0 };
    Error         e = { 0 };
    if (n < 3)
        return 0;
    const struct Kind *kind = &kinds[bytes[0] % N_KINDS];
    size_t beside = (size_t)bytes[1] + 256 * (size_t)bytes[2];
    beside = beside < n - 3 ? beside : n - 3;
    for (int i = 0; i < N_KINDS; i++) {
        memory_folder_put(kinds[i].name, NULL, 0);
        memory_folder_put(kinds[i].beside, NULL, 0);
    }
    if (beside)
        memory_folder_put(kind->beside, bytes + 3, beside);
    memory_folder_put(kind->name, bytes + 3 + beside, n - 3 - beside);
    const char          *path = kind->folder ? memory_folder() : memory_path(kind->name);
    TokenizerMakeOptions opt = { .pattern = bytes[0] >= 128 ? "llama3" : NULL,
                                 .bos = -1,
                                 .eos = -1 };
    if (said(tokenizer_make(&data, path, &opt, &e), &e) && data.metadata)
        use_made(&data, (const char *)bytes + 3, n - 3, use);
    tokenizer_data_free(&data);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "tokenizer"); }
#endif
