/* api/train_text.c: maps a text, makes a vocabulary from it, encodes it and splits its tokens. */
#include "api/training.h"

#include <stdlib.h>

#include "base/hash.h"
#include "tokenizer/tokenizer.h"

bool train_text_open(TrainText *t, const char *path, Error *err)
{
    t->path = path;
    if (!file_map_open(&t->map, path, err))
        return false;
    if (t->map.size == 0)
        return fail(err, INPUT, "%s: expected a text, found an empty file", path);
    Sha256 *sha = sha256_new();
    if (!sha)
        return no_memory(NULL, err);
    sha256_add(sha, t->map.data, t->map.size);
    sha256_end(sha, t->sha256);
    return true;
}

void train_text_close(TrainText *t)
{
    free(t->ids.id);
    tensor_file_close(&t->made_view);
    tokenizer_data_free(&t->made);
    file_map_close(&t->map);
    *t = (TrainText){ 0 };
}

bool train_text_make_vocabulary(TrainText *t, size_t n_ids, Error *err)
{
    size_t    n_merges, n_found;
    BpeMerge *merges = NULL;
    if (n_ids < 256)
        return fail(err, INPUT, "vocab_size: expected at least 256, one token for each byte, found "
                                "%zu", n_ids);
    char *steps = tokenizer_pretokenize_steps("gpt2", err);
    bool  ok = steps
        && bpe_train((const char *)t->map.data, t->map.size, steps, n_ids, &merges, &n_merges,
                      &n_found, err);
    if (ok && n_found < n_ids)
        ok = fail(err, INPUT, "%s: vocab: expected a text that gives %zu pieces, found only %zu: "
                              "choose a smaller vocabulary", t->path, n_ids,
                  n_found);
    ok = ok
        && tokenizer_make_trained(&t->made, t->path, "gpt2",
                                  (const int32_t(*)[3])(const void *)merges, n_merges, err)
        && tokenizer_data_view(&t->made_view, &t->made, err);
    free(merges);
    free(steps);
    return ok;
}

bool train_text_encode(TrainText *t, const TensorFile *vocabulary, int vocab_size, Error *err)
{
    Tokenizer *tokenizer = NULL;
    bool ok = tokenizer_open(&tokenizer, vocabulary, err)
           && tokenizer_encode(tokenizer, (const char *)t->map.data, t->map.size, false, false,
                               &t->ids, err);
    if (ok && tokenizer_size(tokenizer) > vocab_size)
        for (size_t i = 0; ok && i < t->ids.n; i++)
            if (t->ids.id[i] >= vocab_size)
                ok = fail(err, INPUT, "%s: token %zu: expected an id below %d (vocab_size), found "
                                      "%d", t->path, i, vocab_size, t->ids.id[i]);
    tokenizer_free(tokenizer);
    return ok;
}

bool train_text_split(const TrainText *t, double share, int seq_len, TrainData *out, Error *err)
{
    size_t held = (size_t)((double)t->ids.n * share), least = (size_t)seq_len + 1;
    *out = (TrainData){ t->ids.id, t->ids.n - held, t->ids.n };
    if (out->n_train <= least)
        return fail(err, INPUT, "%s: expected more than %zu training tokens (a context of %d and "
                                "the next token), found %zu",
                    t->path, least, seq_len, out->n_train);
    if (share > 0 && held < least)
        return fail(err, INPUT,
                    "%s: validation: expected at least %zu validation tokens (a "
                    "context of %d and the next token), found %zu of %zu: use a longer "
                    "text, a shorter context or --validation 0",
                    t->path, least, seq_len, held, t->ids.n);
    return true;
}
