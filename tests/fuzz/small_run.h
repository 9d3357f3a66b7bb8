/* tests/fuzz/small_run.h: whatever opened as a model is used as one, where that is little work. */
#ifndef SMALL_RUN_H
#define SMALL_RUN_H

#include "fuzz.h"
#include "source/source.h"
#include "tblock_tools.h"

static int small_run_opened; /* how many models opened */

static inline void encode_some(const tblock_model *m)
{
    static const char text[] = "Hello <s></s> w\xC3\xB6rld\xFF\n 123";
    Error    e = { 0 };
    int32_t *ids = NULL;
    size_t   n, n_bytes;
    char    *back = NULL;
    if (!said(tblock_tokenize(m, text, sizeof text - 1, TBLOCK_ADD_SPECIAL | TBLOCK_PARSE_SPECIAL,
                              &ids, &n, &e),
              &e))
        return;
    claim(tblock_detokenize(m, ids, n, &back, &n_bytes, &e));
    tblock_free(back);
    tblock_free(ids);
}

/* Three tokens in the cheapest kernels, greedy. Weights of any bits are refused where a logit
 * becomes NaN, and otherwise computed with. */
static inline void decode_some(const tblock_model *m)
{
    Error                  e = { 0 };
    tblock_model_info      info;
    tblock_context_options opt = { .threads = 1, .n_ctx = 4, .isa = "scalar" };
    tblock_model_describe(m, &info);
    if (!info.has_weights || info.n_params > 200000)
        return;
    if (info.n_ctx < opt.n_ctx)
        opt.n_ctx = info.n_ctx;
    tblock_context *c = tblock_context_new(m, &opt, &e);
    said(c != NULL, &e);
    for (int i = 0; c && i < opt.n_ctx && i < 3; i++) {
        tblock_item item = { 0, i, i % info.vocab_size, true };
        if (!said(tblock_decode(c, &item, 1, &e), &e))
            break;
        (void)tblock_hash_floats(tblock_logits(c, 0), (size_t)info.vocab_size);
    }
    tblock_context_free(c);
}

/* What `tblock info` prints: of what opens, all can be said. */
static inline void describe(const char *path, bool json)
{
    Error e = { 0 };
    char *text = NULL;
    said(tblock_report(path, &(tblock_report_options){ .json = json, .tensors = true }, &text, &e),
         &e);
    tblock_free(text);
}

/* Whatever opens has a hash, and a hash of samples. */
static inline void hash_model(const char *path)
{
    Error  e = { 0 };
    Source s;
    char   hex[65];
    if (!said(source_open(&s, path, &e), &e))
        return;
    if (s.has_weights) {
        said(source_hash_check(&s, &e), &e);
        claim(source_sample_hash(&s, hex, &e) && strlen(hex) == 64);
    }
    source_close(&s);
}

static inline void use_model(const char *path, const char *type)
{
    Error               e = { 0 };
    tblock_open_options opt = { .type = type };
    tblock_model       *m = tblock_open(path, &opt, &e);
    tblock_model_info   info;
    said(m != NULL, &e);
    small_run_opened += m != NULL;
    if (m) {
        tblock_model_describe(m, &info);
        if (info.has_tokenizer)
            encode_some(m);
        decode_some(m);
    }
    tblock_close(m);
    if (m && !type)
        describe(path, info.n_params % 2);
    if (m && !type && info.n_params % 3 == 0)
        hash_model(path);
}

#endif
