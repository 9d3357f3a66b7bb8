/* cli/generate.c: runs a generation to its end, for a user who watches and may press Ctrl-C. */
#include "command.h"

#include "base/progress.h"

tblock_sampler_options sampling_of(const SamplingOptions *o, uint64_t seed)
{
    tblock_sampler_options out = o->numbers;
    out.bias_ids               = o->bias.ids;
    out.bias                   = o->bias.bias;
    out.n_bias                 = o->bias.n;
    out.seed                   = seed;
    return out;
}

/* Prompts are computed in chunks that are short, for Ctrl-C: they grow while they are fast. */
static void note_step(Generating *g, const tblock_generation_info *before, double seconds)
{
    if (before->n_held >= before->n_given) {
        g->decode_s += seconds;
        return;
    }
    g->prefill_s += seconds;
    g->n_pieces += g->now.n_held > before->n_held;
    if (g->piece < COMPUTE_BATCH && seconds < 0.2)
        g->piece *= 2;
}

static bool step(Generating *g, tblock_error *err)
{
    const tblock_generation_info before = g->now;
    const double                 start  = clock_seconds();
    if (interrupted())
        tblock_generation_stop(g->generation);
    if (g->reading && before.n_held < before.n_given)
        progress_show(g->reading, (double)(before.n_held - before.n_reused) /
                                      (double)(before.n_given - before.n_reused));
    if (!tblock_advance(g->context, &g->generation, 1, g->piece, err))
        return false;
    tblock_generation_describe(g->generation, &g->now);
    note_step(g, &before, clock_seconds() - start);
    if (g->now.n_held >= g->now.n_given || g->now.end != TBLOCK_GOES_ON)
        progress_end();
    return g->now.end != TBLOCK_END_FAILED
        || fail(err, g->now.error->status, "%s", g->now.error->msg);
}

bool generate(Generating *g, tblock_error *err)
{
    bool good = true;
    g->piece  = 64;
    tblock_generation_describe(g->generation, &g->now);
    while (good && g->now.end == TBLOCK_GOES_ON)
        good = step(g, err) && g->show(g->user, &g->now, err);
    progress_end();
    return good;
}
