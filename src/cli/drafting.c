/* cli/drafting.c: --draft, the drafter of speculative decoding. */
#include "command.h"

#include <string.h>

#include "tblock_tools.h"

#define AT(field) offsetof(DraftArgs, field)
const Option draft_options[] = {
    { "draft",       0, "none|ngram|mtp|MODEL", OPT_TEXT, AT(by), 0, 0, "none",
      "guess the next tokens and check them in one batch; same text, faster where guesses are "
      "often right. ngram: from the text so far; mtp: by the model's own layer that predicts the "
      "token after the next; MODEL: ask a smaller model with the same tokens" },
    { "draft-max", 0, "N", OPT_INT, AT(max), 1, 63, "7",
      "guess at most N tokens at once; if memory limits the speed, 8 in a batch cost little more "
      "than 1" },
    { "draft-match", 0, "N", OPT_INT, AT(match), 1, 63, "2",
      "ngram: guess only if the last N tokens appeared before" },
    { 0 },
};
#undef AT

static bool is(const DraftArgs *o, const char *word) { return strcmp(o->by, word) == 0; }

const char *guesser_path(const DraftArgs *o)
{
    return is(o, "none") || is(o, "ngram") || is(o, "mtp") ? NULL : o->by;
}

bool draft_open(Drafting *d, const DraftArgs *o, tblock_context *c,
                const ComputeOptions *compute, tblock_error *err)
{
    *d = (Drafting){ .most = is(o, "none") ? 0 : o->max };
    if (!guesser_path(o))
        return d->most == 0 || tblock_draft_by(c, is(o, "mtp") ? c : NULL, err);
    tblock_context_info computing;
    tblock_context_describe(c, &computing);
    ComputeOptions own = { .threads  = compute->threads,
                           .isa      = compute->isa,
                           .affinity = compute->affinity,
                           .pages    = compute->pages,
                           .mlock    = compute->mlock,
                           .check    = compute->check,
                           .sandbox  = compute->sandbox,
                           .silent   = true,
                           .n_seqs   = computing.n_seqs };
    d->model = compute_open(o->by, &own, err);
    if (!d->model)
        return false;
    tblock_model_describe(d->model, &d->info);
    own.n_ctx  = computing.n_ctx < d->info.n_ctx ? computing.n_ctx : 0;
    d->context = compute_context(d->model, o->by, &own, err);
    return d->context && tblock_draft_by(c, d->context, err);
}

void draft_close(Drafting *d)
{
    tblock_context_free(d->context);
    tblock_close(d->model);
}
