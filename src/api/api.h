/* api/api.h: what stands behind tblock.h's handles. This room ties the others together (model
 * files, text, runtime) and computes nothing itself. Here is what its files share. */
#ifndef API_API_H
#define API_API_H

#include "format/tensors.h"
#include "model/model.h"
#include "runtime/forward.h"
#include "runtime/sampler.h"
#include "source/source.h"
#include "text/tokenizer.h"

struct tblock_model {
    Source     source;
    Model      weights;
    bool       has_weights;
    Tokenizer *tokenizer;       /* NULL: the file has none */
    char       types[64];       /* "bf16,f32" */
    /* How a conversation is written (api/chat.h); NULL: not given. These texts live as long as the
     * model. */
    const char *chat, *chat_template;
    char      *retyped;         /* "q4 embed=f16": as asked for at opening; NULL: as stored */
};

/* What a context knows of a sequence besides its KV cache. */
typedef struct SeqTokens {
    int32_t *id;    /* the tokens that it holds, as many as kv.seq[].length says */
    size_t   cap;
    bool     taken; /* by an open generation */
} SeqTokens;

struct tblock_context {
    const tblock_model *model;
    const Kernels      *kernels;
    Forward            *forward;
    KvCache             kv;
    SeqTokens          *seq_tokens;     /* [n_seqs] */
    int                 n_ctx, n_seqs, n_batch, threads;
    bool                allow_nan;
    Numerics            numerics;
    const char         *activations;    /* of the integers: "16", "8", "auto", "none" */
    Profile            *profile;        /* NULL until tblock_profile                  */
    BatchToken         *token;          /* the last batch, [cap_items] */
    size_t              n_items, cap_items;
    uint64_t            n_decodes;      /* so far: logits of an earlier one are gone */
    int                *next_pos;       /* [n_seqs] scratch of the batch check */
    float              *logits;         /* [n_logits, logits_stride] */
    size_t              cap_logits, logits_stride;
    tblock_item        *step;           /* the batch of a tblock_advance, [cap_step] */
    size_t              cap_step;
    Sampler            *sampler;        /* scratch of all generations; NULL before the first */
    tblock_observer     observer;
    void               *observer_user;
};

/* Are these ids of a vocabulary? If not: "WHATtoken 3: expected ..." (USAGE). */
bool check_tokens(const char *what, const int32_t *id, size_t n, int vocab, Error *err);

/* Does the embedding have a row for every token of t? Fails with INPUT, naming path, if not. */
bool tokenizer_fits(const Tokenizer *t, int vocab_size, const char *path, Error *err);

/* How many tokens a context computes at once. n_batch 0: the default. A single sequence never
 * needs more than n_ctx. */
int context_batch(int n_batch, int n_ctx, int n_seqs);

/* Like tblock_decode, but does not look for NaN logits. */
bool context_decode(tblock_context *c, const tblock_item *items, size_t n_items, Error *err);
/* Fails with INPUT, naming the weight to blame, if a logit of item i of the last batch is NaN
 * and the context does not allow it. */
bool context_check_logits(const tblock_context *c, size_t i, Error *err);
/* Makes room to note n tokens of a sequence. Fails with SYSTEM. */
bool context_reserve_tokens(tblock_context *c, int32_t seq, size_t n, Error *err);
/* Explains why `what` is NaN: reads all weights, which loading does not, to find the cause.
 * Fails with INPUT (or SYSTEM) and always returns false. */
bool context_explain_nan(const tblock_context *c, const char *what, Error *err);
/* Parses "auto" (or NULL), "f32", "f16" or "q8"; fails with USAGE. auto: f32 for float weights,
 * f16 for quantized ones. */
bool kv_type_parse(const char *name, bool quantized, KvType *out, Error *err);
const char *kv_type_name(KvType t);

typedef struct RunSettings { const char *math, *activations, *kv_type; } RunSettings;
RunSettings run_settings(const tblock_context *c);

/* Everything that changes the bits of the results, as text. The strings live as long as the
 * model. */
enum { RUN_FACTS = 8 };
typedef struct RunFact { const char *key, *value; } RunFact;
bool run_facts(const tblock_model *m, const RunSettings *s, RunFact fact[RUN_FACTS], Error *err);

/* Writes the metadata of a file of results: its format and the facts. */
bool run_metadata(TensorWriter *w, const char *format, const tblock_model *m, const RunSettings *s, Error *err);

#endif
