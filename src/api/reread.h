/* api/reread.h: texts whose last tokens somebody drew are read again, each as one prompt, in pieces
 * with the logits that each of those tokens was drawn from. */
#ifndef API_REREAD_H
#define API_REREAD_H

#include "api/api.h"

enum { REREAD_PIECE = 128 }; /* tokens whose logits are held at once, of all texts together */

/* Logits that token `index` of a text was drawn from. */
typedef struct Drawn { size_t text, index; const float *logits; } Drawn;

typedef struct RereadText {
    const int32_t     *ids; /* [n_ids], of which those behind n_given (at least 1) were drawn */
    size_t             n_ids, n_given;
    size_t             first, n; /* of the piece's rows: its own, in order */
    /* of reread_all: */
    tblock_generation *g;   /* NULL: not begun, or ended */
    struct Reread     *all;
} RereadText;

typedef struct Reread {
    tblock_context *c;
    RereadText     *text;    /* [n] */
    size_t          n;
    Progress        progress;
    void           *user;
    /* Is this text to be read at all? */
    bool (*begin)(void *user, size_t text, bool *wanted, Error *err);
    /* Logits of drawn [n_drawn], which are gone afterwards. */
    bool (*piece)(void *user, Error *err);
    /* It was read to its end or stopped; or it failed: why. */
    bool (*end)(void *user, size_t text, const Error *why, Error *err);
    /* of reread_all: */
    size_t              next;    /* the texts before it have begun */
    Drawn               drawn[REREAD_PIECE];
    size_t              n_drawn;
    tblock_generation **run;     /* [c->n_seqs] */
} Reread;

/* Read all of them, as many at a time as the context has sequences. Fails as the three functions
 * do, if the caller of the library stops it, and with USAGE (no free sequence). */
bool reread_all(Reread *r, Error *err);
/* In piece: nothing more of this text. */
void reread_stop(Reread *r, size_t text);

/* Fails with INPUT if a text does not fit into the context. */
bool reread_fits(const tblock_context *c, size_t n_ids, Error *err);

#endif
