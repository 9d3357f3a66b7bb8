/* runtime/forward.h: the forward pass for its callers: settings, threads, timing. */
#ifndef RUNTIME_FORWARD_H
#define RUNTIME_FORWARD_H

#include <stdint.h>
#include "kernels/kernels.h"
#include "model/importance.h"
#include "model/lora.h"
#include "model/model.h"
#include "runtime/kv_cache.h"
#include "runtime/numerics.h"

/* ---- team_size.c ----------------------------------------------------------------------------- */

/* Uses fewer threads while other processes keep the CPU busy. A team waits for its slowest
 * member at every barrier, so on a busy machine two threads can be a hundred times slower than
 * one. The system's load is not read: it measures whether half the team is faster, and then uses
 * half. The number of threads never changes the bits. */

/* Zeroed: starts with all threads. Regions (parallel sections) are measured in windows of some
 * milliseconds; the mean time of a region is compared between windows. */
typedef struct TeamSize {
    int    level, trial;   /* team = most >> (level + trial); trial 1: fewer, -1: more, 0: none */
    int    next;           /* the next trial's direction if both are open */
    int    n_regions;      /* in this window so far */
    double seconds, slept; /* of these regions; asleep, mean of the members */
    double mean;           /* of a region, in the last window without trial */
    double wait, pause;    /* seconds until the next trial; the last such wait */
} TeamSize;

/* How many of `most` threads the next region should use. */
int team_size(const TeamSize *s, int most);

/* Records a region of n threads (as team_size answered). slept: as threads_pool_run returns it. */
void team_size_note(TeamSize *s, int most, int n, double seconds, double slept);

/* ---- profile.c ------------------------------------------------------------------------------- */

/* How long each operation of a forward pass takes, by the clock of the team's
 * first thread: from its start to the start of the next one, waiting included. */

typedef struct ProfileRow {
    const char *name;            /* "qkv" */
    uint64_t    calls;
    double      seconds;
    double      bytes;           /* of weights or KV cache, once per call */
    double      operations;      /* multiplications and additions */
} ProfileRow;

enum { PROFILE_ROWS = 16 };

typedef struct Profile {
    ProfileRow  row[PROFILE_ROWS]; /* in the order of their first call */
    int         n;
    ProfileRow *running;
    double      since;
} Profile;

/* Ends the running operation and starts another one; name NULL starts none. name must be one of
 * at most PROFILE_ROWS constant strings. */
void profile_enter(Profile *p, const char *name, double bytes, double operations);

/* Adds to the bytes and operations of the running operation. */
void profile_more(Profile *p, double bytes, double operations);

/* ---- forward.c ------------------------------------------------------------------------------- */

/* Tokens in, logits out: the forward pass over a batch of (sequence, position, token). This
 * folder holds the block, its operations, the KV cache, the sampler, and which thread computes
 * what. It knows nothing of files, text or the command line. */

typedef struct BatchToken {
    int     seq, pos, token;
    float  *logits;                     /* [vocab_size rounded up to 16], or NULL: not wanted */
    float  *state;                      /* [d_model]: receives the input of the head, or NULL */
    const float *before;                /* [d_model]: that state of the previous token, which the
                                         * MTP layer reads */
} BatchToken;

/* Receives the residual stream: "embed", then for each layer "layer0.attn" (after attention) and
 * "layer0" (after feed-forward), then "final_norm". x has n_tok rows, `stride` floats apart.
 * first is the index of the first row in the caller's batch. */
typedef void (*ForwardObserver)(void *user, const char *name, size_t first, int n_tok,
                                const float *x, size_t stride);

/* Returns where to put the attention probabilities of one query: room for pos + 1 floats, for
 * keys 0 .. pos. NULL: not wanted. item: index of the query's token in the caller's batch.
 * Called from any thread of the team, once for each layer, head and item. */
typedef float *(*AttentionRow)(void *user, int layer, int head, size_t item);

typedef struct Forward Forward;         /* buffers for up to max_tok tokens at once */

/* model must outlive the result. Uses at most `threads` (>= 1). A call with little work uses
 * fewer, unless forward_all_threads was called; so do short calls while other processes use the
 * processors (team_size.c). rope_length: that of config_inv_freq. Free with forward_free. Returns
 * NULL with SYSTEM (no memory). */
Forward *forward_new(const Model *model, const Kernels *kernels, Numerics numerics, int max_tok,
                     int threads, int rope_length, Error *err);
void     forward_free(Forward *f);      /* accepts NULL */
/* Also uses all threads for calls with little work: the user has asked for this number. */
void     forward_all_threads(Forward *f);
/* Pins threads to physical cores (base/threads.h). Call it before the first pass. */
void     forward_pin_threads(Forward *f);
/* The pages of weights in a mapped file (weight_pages.c). PAGES_AUTO: move them into huge pages
 * if that will pay, some after each pass; PAGES_FILE: leave them; PAGES_HUGE: move them now. */
typedef enum Pages { PAGES_AUTO, PAGES_FILE, PAGES_HUGE, PAGES_COUNT } Pages;
void     forward_pages(Forward *f, Pages pages);
/* How many more short passes are expected; below 0: unknown. */
void     forward_expect(Forward *f, long n_passes);
/* The size of its buffers. */
size_t   forward_bytes(const Forward *f);

/* What forward_bytes would return, without a model. c must have passed config_check; ints as
 * numerics_ints returns it. forward_attention_bytes is one thread's part for attention: it does
 * not depend on the length of the sequence, because attention keeps states of the running
 * softmax instead of scores. */
size_t   forward_plan_bytes(const Config *c, unsigned ints, int max_tok, int threads);
size_t   forward_attention_bytes(const Config *c);
/* Shows the residual stream to `observer` from now on; NULL ends it. only: just the step of this
 * name, so that no thread waits for the others; NULL: all. */
void     forward_observe(Forward *f, ForwardObserver observer, void *user, const char *only);

/* Also computes attention probabilities; the bits of the pass do not change. NULL ends it. Keys
 * that a window masks get 0. A row is complete when forward returns. */
void     forward_watch_attention(Forward *f, AttentionRow row, void *user);

/* Adds the squares of what matrices read to *m from now on, which the caller owns. Threads change
 * no bit of them. NULL ends it. */
void     forward_importance(Forward *f, Importance *m);

/* Adds the time of every operation to *p from now on. The caller owns *p. NULL ends it. */
void     forward_profile(Forward *f, Profile *p);

/* of_seq: the adapters of each sequence (NULL: none), which may change between passes; it must
 * outlive f. NULL: no sequence has any. widest: of all adapters that will be used, the one with the
 * most columns (NULL: as before). Fails with SYSTEM. */
bool forward_lora(Forward *f, const LoraSet *const *of_seq, const LoraSet *widest, Error *err);

/* Runs token[0 .. n_tok), n_tok <= max_tok. Their positions must be reserved in kv, and each
 * must be the next one of its sequence. The lengths of the sequences grow. first: index of
 * token[0] in the caller's batch (for the observer). Cannot fail. */
void forward(Forward *f, KvCache *kv, const BatchToken *token, int n_tok, size_t first);

#endif
