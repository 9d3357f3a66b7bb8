/* api/reread.h: replays recorded sequences as prompts, in chunks, with the logits that each of
 * their generated tokens was sampled from. */
#ifndef API_REREAD_H
#define API_REREAD_H

#include "api/api.h"

enum { REREAD_PIECE = 128 }; /* tokens whose logits are held at once, over all texts */

/* The logits that token `index` of a text was sampled from. */
typedef struct Sampled { size_t text, index; const float *logits; } Sampled;

typedef struct RereadText {
    const int32_t     *ids; /* [n_ids]; those from n_given (at least 1) on were generated */
    size_t             n_ids, n_given;
    size_t             first, n; /* its own rows of the chunk, in order */
    /* used by reread_all: */
    tblock_generation *g;   /* NULL: not begun, or ended */
    struct Reread     *all;
} RereadText;

typedef struct Reread {
    tblock_context *c;
    RereadText     *text;    /* [n] */
    size_t          n;
    Progress        progress;
    void           *user;
    /* Sets *wanted: is this text to be replayed? */
    bool (*begin)(void *user, size_t text, bool *wanted, Error *err);
    /* Called with the logits of sampled [n_sampled], which are valid during the call. */
    bool (*piece)(void *user, Error *err);
    /* Called when a text is complete or was stopped; or has failed, with the error `why`. */
    bool (*end)(void *user, size_t text, const Error *why, Error *err);
    /* used by reread_all: */
    size_t              next;    /* texts before this one have begun */
    Sampled             sampled[REREAD_PIECE];
    size_t              n_sampled;
    tblock_generation **run;     /* [c->n_seqs] */
} Reread;

/* Replay all texts, as many at a time as the context has sequences. Fails if a callback fails, if
 * the caller of the library stops it, and with USAGE (no free sequence). */
bool reread_all(Reread *r, Error *err);
/* Called in piece: compute nothing more of this text. */
void reread_stop(Reread *r, size_t text);

/* Fails with INPUT if a text does not fit into the context. */
bool reread_fits(const tblock_context *c, size_t n_ids, Error *err);

#endif
