/* api/api.h: what the files of the public functions share. */
#ifndef API_API_H
#define API_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdatomic.h>

#include "base/cpu.h"
#include "base/progress.h"
#include "format/tensors.h"
#include "model/model.h"
#include "model/model_writer.h"
#include "runtime/forward.h"
#include "runtime/sampler.h"
#include "source/source.h"
#include "tblock_tools.h"
#include "chat/chat_answer.h"
#include "tokenizer/tokenizer.h"

/* ---- api ------------------------------------------------------------------------------------- */

/* The structs behind tblock.h's handles. This room connects the others (model files, text, runtime)
 * and computes nothing itself. This header holds what its files share. */

struct tblock_model {
    Ranks     *ranks;           /* that share it; NULL: none */
    int        id;              /* among them */
    Source     source;
    Model      weights;
    bool       has_weights;
    /* The MTP layer, which predicts the token after the next; owns nothing; NULL: none. */
    struct tblock_model *ahead;
    Tokenizer *tokenizer;       /* NULL: the file has none */
    char       types[64];       /* "bf16,f32" */
    /* The chat template and its metadata (chat_api.c); NULL: not given. They live as long as the
     * model. */
    const char *chat, *chat_meta[CHAT_METAS];
    char      *retyped;         /* "q4 embed=f16": as requested at opening; NULL: as stored */
    Lora     **lora;            /* [n_lora] adapters */
    size_t     n_lora, cap_lora;
    /* The trie of the vocabulary; NULL before the first constraint. */
    _Atomic(struct TokenTrie *) trie;
};

typedef struct LoraChoice LoraChoice; /* lora_api.c */
typedef struct Drafter Drafter;       /* drafter.c */

/* What a context knows of a sequence besides its KV cache. */
typedef struct SeqTokens {
    int32_t *id;    /* the tokens that it holds, as many as kv.seq[].length says */
    size_t   cap;
    bool     taken; /* by an open generation */
    uint64_t used;  /* which of the context's generations closed here last */
    uint64_t scope; /* whose tokens they are: cache_scope of the last generation */
} SeqTokens;

struct tblock_context {
    const tblock_model *model;
    atomic_uintptr_t    owner;         /* the thread that changes it (ALONE); 0: none */
    int                 owner_depth;   /* of nested calls */
    int                 id;             /* among ranks that share the model */
    const Kernels      *kernels;
    Forward            *forward;
    KvCache             kv;
    SeqTokens          *seq_tokens;     /* [n_seqs] */
    const LoraSet     **seq_lora;       /* [n_seqs]: the adapters of each; NULL: none */
    const LoraSet      *lora;           /* those of sequences that start from now on */
    LoraChoice        **loras;          /* [n_loras]: all that these point to */
    size_t              n_loras, cap_loras;
    int                 n_ctx, n_seqs, n_batch, threads;
    int                 rope_length;    /* 0: the rotation depends on none */
    bool                allow_nan;
    Numerics            numerics;
    const char         *activations;    /* of the integers: "16", "8", "auto", "none" */
    Profile            *profile;        /* NULL until tblock_profile                  */
    BatchToken         *token;          /* the last batch, [cap_items] */
    size_t              n_items, cap_items;
    size_t              kv_room;        /* bytes of KV cache that fitted at first; 0: not known */
    uint64_t            n_decodes;      /* so far; logits of an earlier one are gone */
    uint64_t            n_closed;       /* generations */
    int                *next_pos;       /* [n_seqs] scratch of the batch check */
    float              *logits;         /* [n_logits, logits_stride] */
    size_t              cap_logits, logits_stride;
    tblock_item        *step;           /* the batch of a tblock_advance, [cap_step] */
    size_t              cap_step;
    Sampler            *sampler;        /* scratch of all generations; NULL before the first */
    Drafter            *drafter;        /* of speculative decoding; NULL: prompt lookup */
    float              *states;         /* [n_batch, d_model] of the last chunk of a batch, for the
                                         * drafter; NULL: not needed */
    const float *const *before;         /* BatchToken.before and .state of each item of the next */
    float *const       *after;          /* batch: of mtp.c */
    tblock_observer     observer;
    void               *observer_user;
    bool                only_last;      /* the observer gets POOLED_STATE alone */
};

/* At the head of a function that changes a context: in a debug build, aborts with the function's
 * name if another thread is in such a function of the same context now. */
#ifdef TBLOCK_DEBUG
#define ALONE(c) \
    __attribute__((cleanup(context_leave), unused)) tblock_context *alone_ = \
        context_enter(c, __func__)
#else
#define ALONE(c) ((void)(c))
#endif
tblock_context *context_enter(tblock_context *c, const char *function);
void            context_leave(tblock_context **c);

/* calibrate.c: runs the text of the options through the model at path, and finds how much the
 * columns of its matrices matter. sha256: of the text. Free m in any case. */
bool calibrate(Importance *m, const char *path, const tblock_quantize_options *opt,
               char sha256[65], Error *err);

#define POOLED_STATE "final_norm"       /* what an observer gets after the last block */

/* Are these ids of a vocabulary? If not: "WHATtoken 3: expected ..." (USAGE). */
bool check_tokens(const char *what, const int32_t *id, size_t n, int vocab, Error *err);

/* Does the embedding have a row for every token of t? Fails with INPUT, naming path, if not. */
bool tokenizer_fits(const Tokenizer *t, int vocab_size, const char *path, Error *err);

/* Does the model predict a next token? Fails with INPUT, with the reason. */
bool model_predicts(const tblock_model *m, Error *err);

/* How many tokens a context computes at once. n_batch 0: the default. A single sequence never
 * needs more than n_ctx. A bidirectional model computes a whole sequence at once: then at least
 * n_ctx, up to WHOLE_BATCH if the model chose that. */
enum { WHOLE_BATCH = 8192, MAX_BATCH = 1 << 16 };
int context_batch(const Config *c, int n_batch, int n_ctx, int n_seqs);

/* Is there memory for the KV cache of a sequence of n_tok tokens, in the tiles of this context and
 * what is available beside the weights? Fails with SYSTEM. */
bool context_fits(const tblock_context *c, int n_tok, Error *err);
/* Sets kv_room. If the caller chose n_ctx, the same for that many tokens; where there is not enough
 * for copies of weights too, *pages becomes PAGES_FILE. */
bool context_ask(tblock_context *c, bool chosen, Pages *pages, Error *err);

/* tblock_context_new. of: if m is the MTP layer of another model (tblock_model.ahead), that model's
 * context which this one belongs to; else NULL. */
tblock_context *context_open(const tblock_model *m, const tblock_context_options *opt,
                             const tblock_context *of, Error *err);
/* Like tblock_decode, but does not look for NaN logits. */
bool context_decode(tblock_context *c, const tblock_item *items, size_t n_items, Error *err);
/* Fails with INPUT, naming the weight to blame, if a logit of item i of the last batch is NaN
 * and the context does not allow it. */
bool context_check_logits(const tblock_context *c, size_t i, Error *err);
/* Reserves room for n token ids of a sequence. Fails with SYSTEM. */
bool context_reserve_tokens(tblock_context *c, int32_t seq, size_t n, Error *err);
/* Reserves room for a batch of n items in c->step. Fails with SYSTEM. */
bool context_reserve_step(tblock_context *c, size_t n, Error *err);
/* Explains why `what` is NaN: reads all weights, which loading does not, to find the cause.
 * Fails with INPUT (or SYSTEM) and always returns false. */
bool context_explain_nan(const tblock_context *c, const char *what, Error *err);
/* tblock_generation_open. on_token is also called for those of ids whose logits are of position
 * told_from or later; the cached prefix ends before that. SIZE_MAX: for none. */
tblock_generation *generation_open(tblock_context *c, const tblock_generation_options *opt,
                                   size_t told_from, Error *err);
/* Does its invariant hold (generation.h)? */
bool generation_is_sound(const tblock_generation *g);
/* Parses "auto" (or NULL), "f32", "f16" or "q8"; fails with USAGE. auto: f32 for float weights,
 * f16 for quantized ones. */
bool kv_type_parse(const char *name, bool quantized, KvType *out, Error *err);

/* lora_api.c. This process's part of loading one, as number `number`. If the model has one of this
 * number, another rank could not load it: it is released. */
bool lora_load_here(tblock_model *m, const char *path, size_t number, Error *err);

/* *out: these adapters together, for the next passes; NULL for none. They live until no sequence
 * has them. */
bool lora_set_of(tblock_context *c, const tblock_lora *use, size_t n, const LoraSet **out,
                 Error *err);
/* A sequence is now empty: unless a generation has it, it uses the context's adapters from here. */
void context_begin_seq(tblock_context *c, int32_t seq);
/* How the weights that a sequence uses were made, for RunSettings; -1: one that starts now. */
const char *context_loaded_as(const tblock_context *c, int32_t seq);
/* The same for any adapters of a model; free it. NULL: see err (USAGE, SYSTEM). */
char *lora_loaded_as(const tblock_model *m, const tblock_lora *use, size_t n, Error *err);
/* Fails (USAGE, with both names) if output is a file of the model or of its adapters. */
bool model_check_apart(const tblock_model *m, const char *output, Error *err);
/* Do the data match the hash that the file records? The first call reads all. Fails with INPUT
 * (file, expected, found) if not. */
bool model_check_hash(const tblock_model *m, Error *err);
void model_free_loras(tblock_model *m, size_t from); /* those from this number on */
void context_free_loras(tblock_context *c);

/* Drop the tokens of a sequence from `length` on (kv_cache_rewind), on all ranks. */
bool context_rewind(tblock_context *c, int32_t seq, int length);

/* ---- run_facts.c ----------------------------------------------------------------------------- */

/* What a file records about the run that made it. */

typedef struct RunSettings {
    const char *math, *activations, *kv_type, *numerics, *loaded_as;
    char        rope_length[12]; /* "": the rotation depends on none */
} RunSettings;
RunSettings run_settings(const tblock_context *c, const char *loaded_as);
/* What a record says: its number of tokens, and "rope_length" of its metadata (NULL: none). */
void run_recorded(struct tblock_recorded *out, size_t n_tokens, const char *rope_length);

/* Everything that changes the bits of the results, or the text that ids stand for, as strings. They
 * live as long as the model, s, and the strings of s. A value of NULL: this run has no such
 * fact. */
enum { RUN_FACTS = 11 };
typedef struct RunFact { const char *key, *value; } RunFact;
bool run_facts(const tblock_model *m, const RunSettings *s, RunFact fact[RUN_FACTS], Error *err);

/* The same for a context, with the layout of the tensors in the data, which their hash does not
 * cover. */
enum { BINDING_FACTS = RUN_FACTS + 1 };
typedef struct RunBinding {
    RunFact     fact[BINDING_FACTS];
    char        layout[65];
    RunSettings settings;
} RunBinding;
bool run_binding(RunBinding *b, const tblock_context *c, const char *loaded_as, Error *err);

/* Is it a fact that files of older versions lack? */
bool run_fact_is_new(const char *key);

/* A recorded fact differs here: adds ", kv_type q8 (here f16)" to out [n_out], which holds `at`
 * bytes. Returns how many it holds then. */
size_t run_fact_differs(char *out, size_t n_out, size_t at, const char *key, const char *was,
                        const char *is);

/* Writes the metadata of a file of results: its format and the facts. */
bool run_metadata(TensorWriter *w, const char *format, const tblock_model *m, const RunSettings *s,
                  Error *err);

/* ---- ranks_api.c ----------------------------------------------------------------------------- */

/* A model that ranks share. The program runs on rank 0; whatever it does to such a model or its
 * contexts, it first orders the others to do too. They do nothing else. */

/* On rank 0: opens the model on all ranks, each with its rows. Fails if one of them does, with its
 * error, or if it finds another model at that path. */
tblock_model *ranks_open(Ranks *r, const char *path, const tblock_open_options *opt, Error *err);

/* On the others: executes rank 0's orders until it leaves. Fails with the first error of this rank,
 * which ends all ranks, or of the exchange. */
bool ranks_follow(Ranks *r, Error *err);

/* On rank 0: lets the others return from ranks_follow. */
void ranks_dismiss(Ranks *r);

/* model_api.c: tblock_open, as one of these ranks (NULL: alone). */
tblock_model *model_open(const char *path, const tblock_open_options *opt, Ranks *ranks,
                         Error *err);

/* ---- ranks_orders.c -------------------------------------------------------------------------- */

/* Called on rank 0; on other ranks, and without ranks, they do nothing and return true. Until
 * ranks_done, all ranks compute these items, or exchange the tiles of a state. */
bool ranks_order_context(tblock_context *c, const tblock_context_options *opt,
                         const tblock_context *of, Error *err);
bool ranks_order_decode(const tblock_context *c, const BatchToken *token, size_t n, Error *err);
bool ranks_order_save(const tblock_context *c, int32_t seq, Error *err);
bool ranks_order_tiles(const tblock_context *c, int32_t seq, Error *err);
bool ranks_done(const tblock_context *c, Error *err);
/* All ranks allocate a state (start: state_start). If one fails, the caller empties seq. */
typedef bool StateStart(tblock_context *c, int32_t seq, const int32_t *tokens, size_t n, int first,
                        Error *err);
bool ranks_order_start(tblock_context *c, int32_t seq, const int32_t *tokens, size_t n, int first,
                       StateStart *start, Error *err);
void ranks_order_rewind(tblock_context *c, int32_t seq, int length);
void ranks_order_copy(tblock_context *c, int32_t from, int32_t to, int32_t n, bool done);
/* load: lora_load_here. On failure the caller frees what some ranks have loaded. */
bool ranks_order_lora(tblock_model *m, const char *path,
                      bool (*load)(tblock_model *m, const char *path, size_t number, Error *err),
                      Error *err);
/* For model_check_hash: each rank hashes all data of its own copy, which must be the same on all;
 * the error names the rank and its machine. */
bool ranks_check_hash(const tblock_model *m, Error *err);
void ranks_order_free(const tblock_context *c);
void ranks_order_close(const tblock_model *m);

/* The kernels that a rank uses: those of this name or, if it leaves the choice, of $TBLOCK_ISA. All
 * have the same bits, so ranks may differ. */
const char *ranks_isa(const tblock_model *m, const char *isa);

/* Fails with USAGE if ranks share the model: "WHAT: expected one process, found 2 ranks". */
bool ranks_refuse(const tblock_model *m, const char *what, Error *err);

/* state_api.c: each rank's part of a state that ranks share. w, layer: of rank 0's file; NULL on
 * the others. Whole tiles are written; state_start makes sequence seq one of these tokens, whose
 * tiles state_take_tiles then fills. first: as in kv_cache_start. */
bool state_put_tiles(TensorWriter *w, const tblock_context *c, int seq, size_t n_tok, Error *err);
StateStart state_start;
bool state_take_tiles(tblock_context *c, int seq, const KvMapped *layer, Error *err);

/* ---- chat ------------------------------------------------------------------------------------ */

enum { CHAT_MOST_MESSAGES = 1 << 20 }; /* in a conversation */

/* The name, for people, of the chat template that a source has; NULL: none. */
const char *chat_source_name(const Source *s);
/* The parts of a chat: its model, how its replies are parsed, its tools (node NULL: none). They
 * live as long as the chat. */
typedef struct ChatParts {
    const tblock_model *model; const AnswerForm *answers; const JsonDoc *tools;
    const char *sha256, *date; /* of the template's text; the date that it gets, or NULL */
} ChatParts;
ChatParts chat_parts(const tblock_chat *c);

/* The text of a template that a caller chose: a name of tblock_chat_known, or the text itself,
 * which has a brace. NULL: USAGE, with a message that lists the names. */
const char *chat_format_text(const char *format, Error *err);

/* ---- logit_rows.c ---------------------------------------------------------------------------- */

/* From the logits of one position: probabilities, the distance of two rows, the most likely tokens.
 * All in double, in ascending order of tokens, with math64: the same bits everywhere. */

/* log(sum of exp(x[i])) of n >= 1 logits. NaN if one is NaN, -inf if all are -inf. */
double log_sum_exp(const double *x, int n);

/* The Kullback-Leibler divergence, sum of p (log p - log q), in nats. p and q are the softmax of
 * two rows of n logits; lp, lq: their log_sum_exp. Never negative. Tokens with p under e^-700
 * count as 0. NaN if a row holds a NaN or its largest logit is infinite. */
double kl_divergence(const double *x_p, double lp, const double *x_q, double lq, int n);

/* The ids of the k largest of n logits, largest first; of equal ones the lower id. Returns how
 * many: k, or fewer if the others are NaN. */
enum { TOP_MOST = 5 };
int top_tokens(const double *x, int n, int k, int32_t *id);

/* Are these the same ids, in any order? */
bool same_tokens(const int *a, int n_a, const int *b, int n_b);

/* Widens a row of logits. */
void widen_row(double *out, const float *x, int n);

/* Widens the logits of item i of the last decode, to compute probabilities. INPUT: the largest is
 * infinite, so there are none, and the context does not allow NaN. */
bool eval_row(const tblock_context *c, size_t i, double *out, Error *err);

/* Mean and standard error of numbers that come one at a time (Welford 1962). */
typedef struct Moments { double mean, m2; size_t n; } Moments;
void   moments_add(Moments *m, double x);
double moments_error(const Moments *m); /* of the mean: sqrt(m2 / (n - 1) / n); NaN for n < 2 */

/* ---- junit.c --------------------------------------------------------------------------------- */

/* A file of test cases, of which some may have failed. */
typedef struct JunitCase { const char *name, *failure, *detail, *out; } JunitCase; /* failure NULL:
                                                                                    * none */
void junit_begin(TextOut *o, const char *suite, size_t n, size_t failures);
void junit_case(TextOut *o, const char *suite, const JunitCase *c);
bool junit_end(TextOut *o, const char *path, Error *err);
/* One case for each of n rows, which nth describes, with a buffer for its own texts. rows NULL: the
 * file for a check that could not run. */
typedef struct JunitRoom { char name[32], out[96], why[544]; } JunitRoom;
typedef void JunitNth(const void *rows, size_t i, JunitRoom *room, JunitCase *c);
bool junit_rows(const char *path, const char *suite, const void *rows, size_t n, JunitNth *nth,
                const Error *why, Error *err);
/* The file for a check that could not run. */
bool junit_error(const char *path, const char *suite, const Error *why, Error *err);

/* ---- weight_stream.c ------------------------------------------------------------------------- */

/* Makes the weights of a model file in parallel and writes them in order.
 * One thread hashes and writes finished blocks while the others make the next ones. Memory is
 * a few chunks and, for quantized matrices, their small parts (scales and sub-scales: a tenth of
 * two matrices), however large the model. */

/* 16 rows of a matrix, or a whole vector: what one thread makes at a time. */
typedef struct WeightBlock {
    const TensorSpec *spec;
    int               tensor;          /* its number in the order of tensor_list.h */
    WeightType        type;
    bool              panels;          /* one panel; false: row-major */
    int               block, item;     /* number in the tensor; matrix of a stack */
    int               first, n;        /* rows of that matrix */
    void             *to[MAX_PARTS];   /* where the parts, rows or vector go */
    float            *rows;            /* the thread's own: room for 16 rows as f32 */
    void             *scratch;         /* the thread's own, for retype.c */
    RetypeReport     *report;          /* zeroed; `made` receives it */
} WeightBlock;

typedef struct WeightStream {
    const char          *path;         /* of the output, for messages */
    const ModelContents *contents;
    int                  threads;      /* 0: one for each physical core */
    void (*make)(void *user, const WeightBlock *b);  /* any thread, any order */
    /* Called on the calling thread after some blocks of a tensor were made, in order. reports:
     * one for each of n blocks of 16 rows, from number `first` on. May be NULL; false stops the
     * stream. */
    bool (*made)(void *user, int tensor, const TensorSpec *s, int first,
                 const RetypeReport *reports, int n, Error *err);
    /* after the last weight; may be NULL */
    bool (*finish)(void *user, ModelWriter *out, Error *err);
    void    *user;
    Progress progress;
} WeightStream;

/* Writes the whole file at path: complete, or not at all on failure. */
bool weight_stream_write(const WeightStream *s, Error *err);

/* ---- eval_windows.c -------------------------------------------------------------------------- */

/* A text in overlapping windows, and the logits that predict its tokens, in order.
 *
 * Window i is tokens i * stride .. i * stride + window. It scores those that no window before it
 * held, but never its own first token, which nothing predicts. Source:
 * huggingface.co/docs/transformers/perplexity, "Calculating PPL with fixed-length models". */

enum { EVAL_MODELS = 2, EVAL_PIECE = 128 }; /* tokens whose logits are held at once */

typedef struct EvalWindows {
    tblock_context *model[EVAL_MODELS]; /* one, or two that read the same tokens; the second may be
                                         * NULL */
    const int32_t  *tokens;
    size_t          n, window, stride;
    const tblock_eval_options *opt;
    size_t          n_windows;           /* so far, the running one included */
    bool            stopped;
    double         *row[EVAL_MODELS];    /* logits [vocab_size] of a position, widened */

    /* Called for each scored token in order: its index in tokens; row[] hold the logits that
     * predict it. */
    void (*score)(void *user, size_t token);
    /* After each window that was not stopped: how many tokens it held that no window before it
     * did. */
    void (*end_window)(void *user, size_t n_new);
    void  *user;
} EvalWindows;

/* Check the options and fill window and stride, then run all. Errors as tblock_eval_text. */
bool eval_windows_run(EvalWindows *w, Error *err);

#endif
