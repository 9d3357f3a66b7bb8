/* api/drafter.h: the drafter of speculative decoding for a context: another model, or the MTP layer
 * of the same one (mtp.h).
 *
 * It has a context of its own, in which sequence i follows sequence i of the target: its prompt and
 * sampled tokens. Nothing here can change a text: what a sequence holds is compared with the text
 * before it is used, and the target verifies each draft token. */
#ifndef API_DRAFTER_H
#define API_DRAFTER_H

#include "api/fitting.h"

/* The request of one generation for draft tokens. */
typedef struct Guess {
    struct Guess *next;
    int32_t       seq;
    int32_t      *ids;   /* [n] the sequence so far; draft tokens follow, with room for `most` */
    size_t        n, most, n_guessed; /* most 0: only prefill, all but the last of them */
    const SamplerOptions *sampling; /* the target's, so that both sample the same tokens; those that
                                     * end the text are not drafted */
    Fitting      *fit;   /* the state of the text's constraint; NULL: it has none */
    size_t        item;  /* of the drafter's batch: the next draft token is sampled from it */
    FitPlace      at;
    bool          goes_on;
} Guess;

/* Draft for all of a list, in batches. It prefills at most `budget` tokens that it lacks, and
 * drafts nothing for sequences that need more. If logits are NaN, or a sequence has a token that
 * the drafter's model lacks, it drafts none. n_steps: to come, or fewer. Fails with SYSTEM. */
bool drafter_guess(Drafter *d, Guess *first, size_t budget, long n_steps, Error *err);

/* Reports what the target's context has computed: n items, with their states [n, d_model]. */
void drafter_show(const Drafter *d, const tblock_item *item, size_t n, const float *states);

/* Follow what happens to the sequences of the target's context; d may be NULL. drafter_forget
 * releases the memory. */
void drafter_forget(const Drafter *d, int32_t seq);
void drafter_copy(const Drafter *d, int32_t from, int32_t to, int32_t n_tokens);
/* Adds its memory. */
void drafter_describe(const Drafter *d, tblock_context_info *out);
void drafter_free(Drafter *d);

#endif
