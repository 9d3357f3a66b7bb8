/* api/generation.h: the inside of a generation. Only api/generation*.c include it: generation.c
 * advances generations, generation_open.c opens them, generation_draft.c drafts their tokens. */
#ifndef API_GENERATION_H
#define API_GENERATION_H

#include <stdatomic.h>

#include "api/drafter.h"
#include "api/pool.h"

enum { DRAFT_MOST = 63 }; /* tokens of a draft */

/* Between steps (generation_is_sound):
 * - ids [n_ids] holds n_given of the prompt, resumed ones up to n_known, then those sampled here.
 *   The first n_held are computed. After prefill, unless it has ended, only the last one is not: a
 *   token is sampled as soon as there are logits for it.
 * - From opening to closing it alone has sequence `seq`, which is taken. That holds the n_held
 *   tokens, and perhaps rejected draft tokens after them, which the next step drops. Callers may
 *   drop more (tblock_seq_rewind): then the next step fails, so this is not asserted.
 * - It has no items in a batch. One that failed has its reason in `error`. */
struct tblock_generation {
    tblock_context           *context;
    tblock_generation_options opt; /* its arrays and texts are in `memory` */
    void                     *memory;
    int32_t                   seq;
    int32_t                  *ids; /* [cap_ids] prompt, then generated */
    size_t                    n_ids, cap_ids, n_given, n_reused;
    size_t                    n_known; /* tokens to prefill before the first is sampled here */
    size_t                    told_from; /* first position whose prompt logits go to on_token;
                                          * SIZE_MAX: none */
    size_t                    n_held; /* tokens that are computed; the sequence may hold more */
    TextStream               *stream; /* NULL: the model has no tokenizer */
    const char               *skip;   /* of opt.skip, what may still come */
    StopTexts                 stop;
    Fitting                   fit;
    Pool                      pool;
    TextOut                   text;
    atomic_bool               stopped;
    int                       end;
    Error                     error;
    const float              *logits; /* of batch number n_decodes */
    uint64_t                  n_decodes;
    size_t                    n_steps, n_proposed, n_accepted;
    size_t                    draft_length; /* tokens to draft: more while all are accepted */
    int32_t                   draft[DRAFT_MOST];
    Guess                     guess;  /* request to the context's drafter */
    int                       n_wrong, pause; /* its last drafts that were wholly rejected; steps
                                               * for which it is not asked */
    bool                      likely; /* the draft is from fitting_likely; totals of these: */
    size_t                    n_likely, n_likely_right;
    size_t                    n_items, first_item; /* of the current step */
};

/* Takes the resumed tokens among ids. The text may end before the last of them. */
bool generation_resume(tblock_generation *g, Error *err);

/* Are the logits after the prompt needed? Not if only its states are. */
static inline bool goes_on(const tblock_generation *g)
{
    return !g->pool.sum || g->opt.max_tokens >= 0;
}
static inline bool drafts(const tblock_generation *g) { return g->opt.draft > 0 && goes_on(g); }

/* Draft, as one of n_drafting generations. Forced tokens come first; the drafter is asked later.
 * More than draft + 1 rows in a step would cost more than they can gain, so all share them. */
size_t generation_propose(tblock_generation *g, size_t n_drafting);
/* The drafter drafts for those that wait for it, and prefills the prompts of the others. n_steps:
 * to come. */
bool generations_ask(tblock_context *c, tblock_generation *const *g, size_t n, size_t budget,
                     long n_steps, Error *err);
/* After a step that accepted all but the last of `right` tokens, of a draft with n - 1. */
void generation_adapt(tblock_generation *g, size_t right, size_t n);

#endif
