/* api/mtp.h: the layer of a model that predicts the token after the next, as the model of a
 * drafter. Here is what it reads besides tokens: the states that the model itself ended with, which
 * are kept until the token behind them is known. drafter.c guesses with it. */
#ifndef API_MTP_H
#define API_MTP_H

#include "api/drafter.h"

typedef struct Mtp Mtp;

/* Of the model of c, whose states it is shown from now on. NULL: INPUT (no such layer), SYSTEM.
 * Free with mtp_free. Where ranks share the model, all of this is rank 0's: the others have the
 * context alone (mtp_context_new), and an order to decode brings the states that it reads. */
Mtp *mtp_new(tblock_context *c, Error *err);
void mtp_free(Mtp *m); /* accepts NULL */

/* In sequence i of its context, position p holds token `lag + p` of the text of sequence i, with
 * the state of the token before that. */
tblock_context *mtp_context(const Mtp *m);
/* Such a context for the model of this one, which has the layer. */
tblock_context *mtp_context_new(const tblock_context *of, Error *err);
int32_t         mtp_lag(const Mtp *m, int32_t seq);

/* What the model has computed: n items and their states [n, d_model]. It reads what is many. */
void mtp_show(Mtp *m, const tblock_item *item, size_t n, const float *states);
void mtp_forget(Mtp *m, int32_t seq);
void mtp_copy(Mtp *m, int32_t from, int32_t to, int32_t n_tokens);

/* At most so many items does mtp_add add. */
enum { MTP_UNREAD = 64 };

/* Room for a batch of n items of its context. Fails with SYSTEM. */
bool mtp_reserve(Mtp *m, size_t n, Error *err);
/* Adds what it has not read of a text to the next batch, from item `at` on. Returns the number of
 * items then. The text goes on if the last one predicts its next token. */
size_t mtp_add(Mtp *m, Guess *g, size_t at);
/* Item `at` of the next batch is a guess of this sequence: its state is what the last item
 * made. */
void mtp_add_guess(Mtp *m, int32_t seq, size_t at);

#endif
