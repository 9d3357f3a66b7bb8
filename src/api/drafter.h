/* api/drafter.h: a model that guesses for the generations of a context: another one, or the layer
 * of the same one that predicts the token after the next (mtp.h).
 *
 * It has a context of its own, in which sequence i reads what sequence i of the other is given and
 * has drawn. Nothing here can change a text: whatever the sequences hold is compared with the text
 * before it is used, and each guess is checked by the other model. */
#ifndef API_DRAFTER_H
#define API_DRAFTER_H

#include "api/fitting.h"

/* What one generation asks. */
typedef struct Guess {
    struct Guess *next;
    int32_t       seq;
    int32_t      *ids;   /* [n] the text so far; the guesses go behind it, where `most` have room */
    size_t        n, most, n_guessed; /* most 0: only read, all but the last of them */
    const SamplerOptions *sampling; /* as the text itself is drawn, so that both fall alike */
    const int32_t *end;  /* [n_end] tokens that end the text, which are not guessed */
    size_t        n_end;
    Fitting      *fit;   /* where the text is in its constraint; NULL: it has none */
    size_t        item;  /* of the drafter's batch: what the next guess is drawn from */
    FitPlace      at;
    bool          goes_on;
} Guess;

/* Guess for all of a list, in batches. Of texts that it has not read yet it reads at most `budget`
 * tokens, and guesses nothing where that is not enough. A guess of a model whose logits are NaN,
 * or of a text with a token that it lacks, is none. n_steps: to come, or fewer. Fails with
 * SYSTEM. */
bool drafter_guess(Drafter *d, Guess *first, size_t budget, long n_steps, Error *err);

/* What the other context has computed: n items, with their states [n, d_model]. */
void drafter_show(const Drafter *d, const tblock_item *item, size_t n, const float *states);

/* What happens to the sequences of the other context; each accepts NULL. Memory of what is
 * forgotten is given back. */
void drafter_forget(const Drafter *d, int32_t seq);
void drafter_copy(const Drafter *d, int32_t from, int32_t to, int32_t n_tokens);
/* Adds its memory. */
void drafter_describe(const Drafter *d, tblock_context_info *out);
void drafter_free(Drafter *d);

#endif
