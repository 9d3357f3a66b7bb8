/* How a text is cut into words, by the name in a GGUF file (tokenizer.ggml.pre). The names are
 * llama.cpp's (src/llama-vocab.cpp). The patterns are those of the models' tokenizer.json;
 * llama.cpp's own patterns are approximations that its matcher needs. The steps run one after the
 * other: each cuts the pieces of the step before it. */
#include <string.h>
#include "tokenizer/vocab_draft.h"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define BLANKS "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3(numbers) \
    ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" BLANKS
#define CAPITAL "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL   "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define WORDS(capital, small, endings) \
    "[^\\r\\n\\p{L}\\p{N}]?" capital "*" small "+" endings                                      \
    "|[^\\r\\n\\p{L}\\p{N}]?" capital "+" small "*" endings
#define O200K(numbers, endings) \
    WORDS(CAPITAL, SMALL, endings) "|" numbers "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" BLANKS
#define NO_HAN(set) "(?:(?!\\p{Han})" set ")"
#define BLOOM \
    " ?[^(\\s|.,!?\xE2\x80\xA6\xE3\x80\x82\xEF\xBC\x8C\xE3\x80\x81\xE0\xA5\xA4\xDB\x94\xD8\x8C)]+"
#define CJK "[\\x{0800}-\\x{9FA5}\\x{AC00}-\\x{D7FF}]+"
/* Letters with case, as listed in the tokenizer.json of deepseek-llm. */
#define CASED "[A-Za-z" \
    "\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}" \
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}" \
    "\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}" \
    "\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}" \
    "\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}" \
    "\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}" \
    "\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}" \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}" \
    "\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}" \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}" \
    "\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}" \
    "\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}" \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}" \
    "]"

enum { MOST_STEPS = 6 };

typedef struct PreSplit { const char *regex[MOST_STEPS]; } PreSplit;

static const PreSplit
    by_default = { { "[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]" } },
    gpt2 = { { GPT2 } }, digits_gpt2 = { { "\\p{N}", GPT2 } },
    falcon = { { "[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]" } },
    llama3 = { { LLAMA3("\\p{N}{1,3}") } }, qwen2 = { { LLAMA3("\\p{N}") } },
    qwen35 = { { ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
                         "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" BLANKS } },
    seed_coder = { { ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                             "?[^\\s\\p{L}\\p{N}\\r\\n]+|" BLANKS } },
    bailing = { { "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|"
                  "\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+" } },
    gpt4o = { { O200K("\\p{N}{1,3}", ENDINGS "?") } }, tekken = { { O200K("\\p{N}", "") } },
    kimi = { { "\\p{Han}+|" WORDS(NO_HAN(CAPITAL), NO_HAN(SMALL),
                                  ENDINGS
                                  "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" BLANKS } },
    bloom = { { BLOOM } }, viking = { { BLOOM, "\\p{N}" } },
    deepseek_llm = { { "[\\r\\n]", "\\s?" CASED "+",
                       "\\s?[!-/"
                       ":-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{"
                       "3002}]+",
                       "\\s+\\z", CJK, "\\p{N}+" } },
    deepseek_coder = { { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, "\\p{N}" } },
    deepseek_v3 = {
        { "\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{30FF}]+",
          "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
          "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" BLANKS }
    };

/* NORMALIZE: to NFC, as the model's tokenizer.json does. */
enum { IGNORE_MERGES = 1, ADD_BOS = 2, NORMALIZE = 4 };

static const struct Pre { const char *name; const PreSplit *cutter; int flags; } known[] = {
    { "default", &by_default, 0 },
    { "gpt-2", &gpt2, 0 }, { "phi-2", &gpt2, 0 }, { "mpt", &gpt2, NORMALIZE },
    { "olmo", &gpt2, NORMALIZE }, { "jais", &gpt2, 0 },
    { "jina-es", &gpt2, 0 }, { "jina-de", &gpt2, 0 }, { "jina-v2-es", &gpt2, 0 },
    { "jina-v2-de", &gpt2, 0 }, { "gigachat", &gpt2, 0 },
    { "a.x-4.0", &gpt2, 0 }, { "mellum", &gpt2, 0 }, { "trillion", &gpt2, 0 },
    { "granite-docling", &gpt2, 0 }, { "exaone4", &gpt2, 0 },
    { "starcoder", &digits_gpt2, 0 }, { "refact", &digits_gpt2, 0 },
    { "command-r", &digits_gpt2, NORMALIZE },
    { "smollm", &digits_gpt2, 0 }, { "codeshell", &digits_gpt2, 0 }, { "exaone", &digits_gpt2, 0 },
    { "minerva-7b", &digits_gpt2, 0 },
    { "falcon", &falcon, 0 },
    { "llama3", &llama3, IGNORE_MERGES | ADD_BOS },
    { "llama-v3", &llama3, IGNORE_MERGES | ADD_BOS },
    { "llama-bpe", &llama3, IGNORE_MERGES | ADD_BOS },
    { "falcon3", &llama3, IGNORE_MERGES | ADD_BOS },
    { "falcon-h1", &llama3, IGNORE_MERGES | ADD_BOS },
    { "pixtral", &llama3, IGNORE_MERGES | ADD_BOS },
    { "midm-2.0", &llama3, IGNORE_MERGES | ADD_BOS }, { "lfm2", &llama3, IGNORE_MERGES | ADD_BOS },
    { "smaug-bpe", &llama3, 0 }, { "dbrx", &llama3, 0 }, { "chatglm-bpe", &llama3, 0 },
    { "glm4", &llama3, 0 },
    { "qwen2", &qwen2, NORMALIZE }, { "stablelm2", &qwen2, 0 }, { "deepseek-r1-qwen", &qwen2, 0 },
    { "megrez", &qwen2, 0 },
    { "hunyuan", &qwen2, 0 }, { "solar-open", &qwen2, 0 }, { "grok-2", &qwen2, 0 },
    { "kormo", &qwen2, 0 },
    { "qwen35", &qwen35, NORMALIZE }, { "seed-coder", &seed_coder, 0 },
    { "bailingmoe", &bailing, 0 }, { "bailingmoe2", &bailing, 0 }, { "llada-moe", &bailing, 0 },
    { "gpt-4o", &gpt4o, 0 }, { "llama4", &gpt4o, 0 }, { "kanana2", &gpt4o, 0 },
    { "minimax-m2", &gpt4o, 0 },
    { "tekken", &tekken, IGNORE_MERGES | ADD_BOS }, { "kimi-k2", &kimi, 0 },
    { "bloom", &bloom, 0 }, { "poro-chat", &bloom, 0 }, { "gpt3-finnish", &bloom, 0 },
    { "viking", &viking, 0 },
    { "deepseek-llm", &deepseek_llm, 0 }, { "deepseek-coder", &deepseek_coder, 0 },
    { "deepseek-v3", &deepseek_v3, 0 },
    { "hunyuan-dense", &deepseek_v3, 0 }, { "joyai-llm", &deepseek_v3, 0 },
};

bool gguf_pre_settings(VocabDraft *d, Text name, bool *add_bos)
{
    const struct Pre *p = known, *end = known + sizeof known / sizeof *known;
    TextOut           o = { .compact = true };
    while (p < end && !text_is(name, (Text){ p->name, strlen(p->name) }))
        p++;
    if (p == end)
        return fail(d->err, INPUT,
                    "%s: tokenizer.ggml.pre: expected a known way to split a text (default, gpt-2, "
                    "llama-bpe, "
                    "qwen2, tekken ...), found '%.*s'",
                    d->file, SHOWN(name));
    text_out(&o, "[");
    for (int i = 0; i < MOST_STEPS && p->cutter->regex[i]; i++)
        draft_set_split(&o, p->cutter->regex[i], strlen(p->cutter->regex[i]), "isolated", false);
    text_out(&o, "]");
    *add_bos = (p->flags & ADD_BOS) != 0;
    if (!draft_set(d, "pretokenize", &o)
        || !draft_set_bool(d, "ignore_merges", (p->flags & IGNORE_MERGES) != 0))
        return false;
    if (!(p->flags & NORMALIZE))
        return true;
    json_out(&o, "[{form: nfc}]");
    return draft_set(d, "normalizer", &o);
}
