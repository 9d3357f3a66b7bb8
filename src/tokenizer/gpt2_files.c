/* vocab.json with merges.txt, as published with GPT-2: {spelling: id}, and one merge per line. The
 * files do not say how a text is split: that follows from the tokenizer's class in
 * tokenizer_config.json, or the user names it (--pattern). */
#include <string.h>
#include "base/text.h"
#include "tokenizer/vocab_draft.h"

static bool set_pattern(VocabDraft *d, const char *config_path, const JsonNode *config)
{
    static const struct {
        const char *name, *pattern;
    } classes[] = { { "GPT2Tokenizer", "gpt2" }, { "GPT2TokenizerFast", "gpt2" },
        { "Qwen2Tokenizer", "qwen2" }, { "Qwen2TokenizerFast", "qwen2" } };
    const JsonNode *kind = node_get(config, "tokenizer_class");
    char            found[NODE_TEXT];
    for (size_t i = 0; !d->pattern && i < sizeof classes / sizeof *classes; i++)
        if (node_is(kind, classes[i].name))
            d->pattern = classes[i].pattern;
    if (!d->pattern)
        return fail(d->err, INPUT,
                    "%s: tokenizer_class: expected GPT2Tokenizer, GPT2TokenizerFast, "
                    "Qwen2Tokenizer or Qwen2TokenizerFast, found %s; vocab.json does not say how "
                    "to split a text: convert it with --pattern NAME",
                    config_path, node_text(kind, found));
    return byte_level_settings(d, d->pattern) && draft_set_bool(d, "ignore_merges", false)
        && draft_set_bool(d, "add_prefix_space", node_truth(node_get(config, "add_prefix_space")));
}

static bool check_utf8(VocabDraft *d, const char *path, Text t)
{
    uint32_t code;
    for (size_t i = 0; i < t.n;) {
        int length = utf8_decode(t.p + i, t.n - i, &code);
        if (length < 0)
            return fail(d->err, INPUT, "%s: expected UTF-8, found other bytes at offset %zu", path,
                        i);
        i += (size_t)length;
    }
    return true;
}

static bool is_blank(Text line)
{
    for (size_t i = 0; i < line.n; i++)
        if (line.p[i] != ' ' && (line.p[i] < '\t' || line.p[i] > '\r'))
            return false;
    return true;
}

static bool read_merges(VocabDraft *d, const char *path)
{
    Text t;
    if (!path || !draft_read(d, path, &t) || !check_utf8(d, path, t))
        return false;
    MergeReader r = { .d = d, .ids = &d->spelled, .what = "merges.txt merge" };
    bool        ok = true;
    while (ok && t.n) {
        const char *end = memchr(t.p, '\n', t.n);
        Text        line = { t.p, end ? (size_t)(end - t.p) : t.n };
        t.p += line.n + (end != NULL);
        t.n -= line.n + (end != NULL);
        while (line.n && line.p[line.n - 1] == '\r')
            line.n--;
        if (!is_blank(line) && (line.n < 8 || memcmp(line.p, "#version", 8) != 0))
            ok = merge_read_pair(&r, line);
    }
    merge_reader_end(&r);
    return ok;
}

bool gpt2_files_read(VocabDraft *d, const char *folder)
{
    const char *vocab_path = draft_path(d, folder, "vocab.json"),
               *config_path = draft_path(d, folder, "tokenizer_config.json");
    const JsonNode *config, *vocab;
    if (!vocab_path || !config_path)
        return false;
    d->file = vocab_path;
    d->type = DRAFT_BPE;
    if (!draft_read_object_if_there(d, config_path, &config) || !set_pattern(d, config_path, config)
        || !draft_read_object(d, vocab_path, &vocab) || !hf_read_vocab(d, vocab, "vocabulary")
        || !read_merges(d, draft_path(d, folder, "merges.txt")))
        return false;
    int32_t end = byte_map_find(&d->spelled, "<|endoftext|>", 13, -1);
    /* GPT2Tokenizer's default for bos, eos and unk. */
    if (strcmp(d->pattern, "gpt2") == 0 && end >= 0) {
        d->bos = d->eos = d->unk = end;
        draft_mark(d, end, MARK_SPECIAL);
    }
    return true;
}
