/* api/reread.c: replays generated sequences as prompts. */
#include "api/reread.h"

#include <assert.h>
#include <stdlib.h>

#include "base/progress.h"

static void note_row(void *user, size_t index, int32_t token, const float *logits)
{
    RereadText *t = user;
    Reread     *r = t->all;
    (void)token; /* the text's */
    if (index < t->n_given)
        return;
    assert(r->n_sampled < REREAD_PIECE);
    t->first                   = t->n ? t->first : r->n_sampled;
    r->sampled[r->n_sampled++] = (Sampled){ (size_t)(t - r->text), index, logits };
    t->n++;
}

static bool begin(Reread *r, size_t i, Error *err)
{
    RereadText *t      = &r->text[i];
    bool        wanted = false;
    if (!r->begin(r->user, i, &wanted, err))
        return false;
    if (wanted)
        t->g = generation_open(r->c, &(tblock_generation_options){ .ids        = t->ids,
                                                                    .n_ids      = t->n_ids,
                                                                    .max_tokens = -1,
                                                                    .on_token   = note_row,
                                                                    .user       = t },
                               t->n_given - 1, err);
    return !wanted || t->g;
}

/* Has it ended: read to the end, stopped, or failed? */
static bool reap(Reread *r, size_t i, Error *err)
{
    RereadText            *t = &r->text[i];
    tblock_generation_info now;
    if (!t->g)
        return true;
    tblock_generation_describe(t->g, &now);
    if (now.end == TBLOCK_GOES_ON)
        return true;
    const bool good =
        r->end(r->user, i, now.end == TBLOCK_END_FAILED ? now.error : NULL, err);
    tblock_generation_close(t->g);
    t->g = NULL;
    return good;
}

static size_t n_running(Reread *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->next; i++)
        if (r->text[i].g)
            r->run[n++] = r->text[i].g;
    return n;
}

static bool tell(const Reread *r, Error *err)
{
    double done = 0, all = 0;
    for (size_t i = 0; i < r->n; i++) {
        const RereadText      *t   = &r->text[i];
        const double           n   = (double)t->n_ids;
        tblock_generation_info now = { 0 };
        if (t->g)
            tblock_generation_describe(t->g, &now);
        all += n;
        done += i >= r->next ? 0 : t->g ? (double)now.n_held : n;
    }
    return progress_tell(&r->progress, done, all > 0 ? all : 1, err);
}

/* One step of those that run. */
static bool step(Reread *r, size_t n, Error *err)
{
    if (n && !tblock_advance(r->c, r->run, n, REREAD_PIECE, err))
        return false;
    if (r->n_sampled && !r->piece(r->user, err))
        return false;
    r->n_sampled = 0;
    for (size_t i = 0; i < r->next; i++) {
        r->text[i].n = 0;
        if (!reap(r, i, err))
            return false;
    }
    return tell(r, err);
}

static bool read_all(Reread *r, Error *err)
{
    size_t n = 0;
    while (r->next < r->n || n) {
        for (; r->next < r->n && n < (size_t)r->c->n_seqs; n = n_running(r))
            if (!begin(r, r->next++, err))
                return false;
        if (!step(r, n, err))
            return false;
        n = n_running(r);
    }
    return true;
}

bool reread_all(Reread *r, Error *err)
{
    r->next = r->n_sampled = 0;
    r->run  = calloc((size_t)r->c->n_seqs, sizeof *r->run);
    for (size_t i = 0; i < r->n; i++)
        r->text[i].all = r;
    const bool good = r->run ? read_all(r, err) : no_memory(NULL, err);
    for (size_t i = 0; i < r->next; i++) {
        tblock_generation_close(r->text[i].g);
        r->text[i].g = NULL;
    }
    free(r->run);
    r->run = NULL;
    return good;
}

void reread_stop(Reread *r, size_t text)
{
    if (r->text[text].g)
        tblock_generation_stop(r->text[text].g);
}

bool reread_fits(const tblock_context *c, size_t n_ids, Error *err)
{
    return n_ids <= (size_t)c->n_ctx
        || fail(err, INPUT, "%zu tokens do not fit into the context of %d", n_ids, c->n_ctx);
}
