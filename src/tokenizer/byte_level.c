/* What all byte-level BPE vocabularies share: the printable characters that stand for bytes, and
 * the split patterns by name, for files without their own. */
#include <string.h>
#include "base/text.h"
#include "tokenizer/vocab_draft.h"

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* The byte that a character stands for; -1: none. Printable bytes stand for themselves. The others
 * get the characters from U+0100 on, in ascending order (openai/gpt-2, encoder.py,
 * bytes_to_unicode). */
static int byte_for(uint32_t c)
{
    if ((c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xFF && c != 0xAD))
        return (int)c;
    if (c >= 0x100 && c <= 0x120)
        return (int)c - 0x100;          /* 0x00 to 0x20 */
    if (c >= 0x121 && c <= 0x142)
        return (int)c - 0x121 + 0x7F;   /* 0x7F to 0xA0 */
    return c == 0x143 ? 0xAD : -1;
}

bool byte_level_decode(Text spelling, char *out, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < spelling.n;) {
        uint32_t c = 0;
        int      length = utf8_decode(spelling.p + i, spelling.n - i, &c);
        int      byte = length < 0 ? -1 : byte_for(c);
        if (byte < 0)
            return false;
        out[(*n)++] = (char)byte;
        i += (size_t)length;
    }
    return true;
}

/* ---- Patterns -------------------------------------------------------------------------------- */

/* The split of ByteLevel itself (tokenizers: pre_tokenizers/byte_level.rs). It comes from GPT-2;
 * tiktoken's r50k and p50k have it too. */
const char BYTE_LEVEL_GPT2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

#define ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LLAMA3(numbers) \
    ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CAPITAL "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL   "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

static const struct { const char *name, *pattern; bool nfc;
} patterns[] = {
    { "gpt2", BYTE_LEVEL_GPT2, false },
    /* meta-llama/llama-models, models/llama3/tokenizer.py. tiktoken's cl100k splits the same way
     * (tiktoken_ext/openai_public.py). */
    { "llama3", LLAMA3("\\p{N}{1,3}"), false },
    { "cl100k", LLAMA3("\\p{N}{1,3}"), false },
    /* transformers, models/qwen2/tokenization_qwen2.py */
    { "qwen2", LLAMA3("\\p{N}"), true },
    /* tiktoken_ext/openai_public.py, o200k_base */
    { "o200k",
      "[^\\r\\n\\p{L}\\p{N}]?" CAPITAL "*" SMALL "+" ENDINGS "?|[^\\r\\n\\p{L}\\p{N}]?" CAPITAL
      "+" SMALL "*" ENDINGS
      "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      false },
};

static size_t pattern_index(const char *name)
{
    size_t i = 0;
    while (i < sizeof patterns / sizeof *patterns && strcmp(patterns[i].name, name) != 0)
        i++;
    return i;
}

const char *byte_level_pattern(const char *name)
{
    size_t i = pattern_index(name);
    return i < sizeof patterns / sizeof *patterns ? patterns[i].pattern : NULL;
}

bool byte_level_settings(VocabDraft *d, const char *name)
{
    size_t  i = pattern_index(name);
    TextOut o = { .compact = true };
    if (i == sizeof patterns / sizeof *patterns)
        return fail(d->err, USAGE,
                    "pattern: expected cl100k, gpt2, llama3, o200k or qwen2, found '%s'", name);
    text_out(&o, "[");
    draft_set_split(&o, patterns[i].pattern, strlen(patterns[i].pattern), "isolated", false);
    text_out(&o, "]");
    if (!draft_set(d, "pretokenize", &o) || !draft_set_bool(d, "add_prefix_space", false))
        return false;
    if (patterns[i].nfc) {
        json_out(&o, "[{form: nfc}]");
        return draft_set(d, "normalizer", &o);
    }
    return true;
}
