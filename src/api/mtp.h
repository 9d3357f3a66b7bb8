/* api/mtp.h: the MTP layer, which predicts the token after the next, as the model of a drafter.
 * Besides tokens it reads the model's final hidden states, which are kept until the next token is
 * known. drafter.c drafts with it. */
#ifndef API_MTP_H
#define API_MTP_H

#include "api/drafter.h"

typedef struct Mtp Mtp;

/* For the model of c, whose states it gets from now on. NULL: INPUT (no such layer), SYSTEM.
 * Free with mtp_free. If ranks share the model, rank 0 holds all of this: the others have only the
 * context (mtp_context_new), and an order to decode carries the states that it reads. */
Mtp *mtp_new(tblock_context *c, Error *err);
void mtp_free(Mtp *m); /* accepts NULL */

/* In sequence i of its context, position p holds token `lag + p` of the model's sequence i, with
 * the state of the token before that. */
tblock_context *mtp_context(const Mtp *m);
/* Such a context for the model of `of`, which has the layer. */
tblock_context *mtp_context_new(const tblock_context *of, Error *err);
int32_t         mtp_lag(const Mtp *m, int32_t seq);

/* Takes n items that the model has computed, and their states [n, d_model]; may run the layer. */
void mtp_show(Mtp *m, const tblock_item *item, size_t n, const float *states);
void mtp_forget(Mtp *m, int32_t seq);
void mtp_copy(Mtp *m, int32_t from, int32_t to, int32_t n_tokens);

/* mtp_add adds at most this many items. */
enum { MTP_UNREAD = 64 };

/* Reserves room for a batch of n items of its context. Fails with SYSTEM. */
bool mtp_reserve(Mtp *m, size_t n, Error *err);
/* Adds the pending rows of a sequence to the next batch, from item `at` on. Returns the number of
 * items then. Sets g->goes_on if the last one predicts its next token. */
size_t mtp_add(Mtp *m, Guess *g, size_t at);
/* Item `at` of the next batch is a draft token of this sequence: its state is the output of the
 * last item. */
void mtp_add_guess(Mtp *m, int32_t seq, size_t at);

#endif
