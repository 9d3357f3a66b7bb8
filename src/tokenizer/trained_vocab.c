/* Makes a tokenizer from a byte-level BPE vocabulary that tblock trained (bpe_train.c). */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/vocab_draft.h"

static bool add_bytes(VocabDraft *d)
{
    char *all = draft_bytes(d, 256);
    bool  ok  = all != NULL;
    for (int b = 0; ok && b < 256; b++) {
        all[b] = (char)b;
        ok = draft_add(d, b, (Text){ all + b, 1 }, TYPE_NORMAL) && draft_index(d, b);
    }
    return ok;
}

static bool add_merge(VocabDraft *d, int32_t left, int32_t right, int32_t id)
{
    Text  a = d->piece[left], b = d->piece[right];
    Merge m = { (uint32_t)left, (uint32_t)right, (uint32_t)id };
    if ((size_t)id < d->size)
        return draft_merge(d, m);
    char *bytes = draft_bytes(d, a.n + b.n);
    if (!bytes)
        return false;
    memcpy(bytes, a.p, a.n);
    memcpy(bytes + a.n, b.p, b.n);
    return draft_add(d, id, (Text){ bytes, a.n + b.n }, TYPE_NORMAL) && draft_index(d, id)
        && draft_merge(d, m);
}

bool tokenizer_make_trained(TokenizerData *out, const char *path, const char *pattern,
                            const int32_t (*merges)[3], size_t n_merges, Error *err)
{
    VocabDraft d = { .file = path, .type = DRAFT_BPE, .bos = -1, .eos = -1, .unk = -1, .err = err };
    *out = (TokenizerData){ .path = strdup(path) };
    bool ok =
        (out->path || no_memory(path, err)) && draft_reserve(&d, 256 + n_merges) && add_bytes(&d);
    for (size_t i = 0; ok && i < n_merges; i++)
        ok = add_merge(&d, merges[i][0], merges[i][1], merges[i][2]);
    ok = ok && byte_level_settings(&d, pattern) && draft_set_bool(&d, "ignore_merges", false)
        && draft_finish(&d, out);
    draft_free(&d);
    if (!ok)
        tokenizer_data_free(out);
    return ok;
}

char *tokenizer_pretokenize_steps(const char *pattern, Error *err)
{
    const char *regex = byte_level_pattern(pattern);
    TextOut     o = { 0 };
    if (!regex) {
        fail(err, USAGE, "pattern: expected cl100k, gpt2, llama3, o200k or qwen2, found '%s'",
             pattern);
        return NULL;
    }
    text_out(&o, "[");
    draft_set_split(&o, regex, strlen(regex), "isolated", false);
    text_out(&o, "]");
    return text_out_take(&o, err);
}
