/* api/mtp.c: multi-token prediction. Source: DeepSeek-AI 2024, "DeepSeek-V3 Technical Report",
 * section 2.2. The layer at position p reads the state h[p] of the model, after its last norm, and
 * token p + 1, and predicts token p + 2. For a longer draft it continues from its own state, after
 * its own norm, as the engines do that serve these models. */
#include "api/mtp.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Pending rows of one sequence: those that the layer has not read, which follow those that it has.
 * If positions are missing (a state was loaded, a text was cut), the sequence of the layer is
 * shorter, as if the text began later. */
typedef struct Unread {
    int32_t  from;  /* position of the text less that of the layer */
    int32_t  first; /* position of row 0 in the text */
    size_t   n, cap_tokens, cap_rows;
    int32_t *token; /* [n] at each position */
    float   *row;   /* [n, d_model]; after a draft the first one is the layer's own state */
} Unread;

struct Mtp {
    tblock_context *context; /* of the layer */
    size_t          d_model;
    Unread         *seq;   /* [n_seqs] */
    const float   **before; /* of the items of the next batch, as BatchToken.before and .state */
    float         **after;
    size_t          cap_before, cap_after;
};

tblock_context *mtp_context_new(const tblock_context *of, Error *err)
{
    enum { MOST_BATCH = 512 }; /* an order to other ranks carries the states of all */
    return context_open(of->model->ahead,
                        &(tblock_context_options){
                            .n_ctx       = of->n_ctx,
                            .n_seqs      = of->n_seqs,
                            .n_batch     = of->n_batch < MOST_BATCH ? of->n_batch : MOST_BATCH,
                            .threads     = of->threads,
                            .isa         = of->kernels->isa,
                            .rope_length = of->rope_length,
                            .pages       = "file",
                            .allow_nan   = true },
                        of, err);
}

Mtp *mtp_new(tblock_context *c, Error *err)
{
    if (!c->model->ahead) {
        fail(err, INPUT, "%s: draft mtp: expected a layer that predicts the token after the next "
                         "(mtp_layers), found none", c->model->source.path);
        return NULL;
    }
    Mtp *m = calloc(1, sizeof *m);
    if (!m) {
        no_memory(NULL, err);
        return NULL;
    }
    m->d_model = (size_t)c->model->weights.cfg.d_model;
    m->seq     = calloc((size_t)c->n_seqs, sizeof *m->seq);
    m->context = mtp_context_new(c, err);
    if (!m->seq || !m->context) {
        if (m->context)
            no_memory(NULL, err);
        mtp_free(m);
        return NULL;
    }
    return m;
}

void mtp_free(Mtp *m)
{
    if (!m)
        return;
    for (int s = 0; m->seq && m->context && s < m->context->n_seqs; s++) {
        free(m->seq[s].token);
        free(m->seq[s].row);
    }
    tblock_context_free(m->context);
    free(m->seq);
    free(m->before);
    free(m->after);
    free(m);
}

tblock_context *mtp_context(const Mtp *m) { return m->context; }

int32_t mtp_lag(const Mtp *m, int32_t seq) { return m->seq[seq].from + 1; }

/* ---- The computed positions ------------------------------------------------------------------ */

/* Drops the layer's sequence from position `held` on, and its draft tokens. */
static void keep_read(Mtp *m, int32_t seq, int32_t held)
{
    KvSeq *own = &m->context->kv.seq[seq];
    own->kept  = 0;
    if (held <= own->length && context_rewind(m->context, seq, held))
        return;
    context_rewind(m->context, seq, 0); /* a window has advanced */
    m->seq[seq].from = m->seq[seq].first;
}

void mtp_forget(Mtp *m, int32_t seq)
{
    m->seq[seq].n    = 0;
    m->seq[seq].from = m->seq[seq].first;
    keep_read(m, seq, 0);
}

/* Drops what was computed from tokens at position pos of the text and later. */
static void cut(Mtp *m, int32_t seq, int32_t pos)
{
    Unread *u = &m->seq[seq];
    if (pos >= u->first) {
        const size_t left = (size_t)(pos - u->first);
        u->n              = u->n < left ? u->n : left;
        keep_read(m, seq, u->first - u->from);
        return;
    }
    const int32_t held = pos - 1 > u->from ? pos - 1 - u->from : 0; /* each reads the next token */
    u->from = pos - held;
    u->first = pos;
    u->n     = 0;
    keep_read(m, seq, held);
}

void mtp_copy(Mtp *m, int32_t from, int32_t to, int32_t n_tokens)
{
    Unread *u = &m->seq[to];
    mtp_forget(m, to);
    cut(m, from, m->seq[from].first + (int32_t)m->seq[from].n); /* without draft tokens */
    const Unread *source = &m->seq[from];
    const int32_t read = source->first - source->from, most = n_tokens - 1 - source->from,
                  held = most < 0 ? 0 : most < read ? most : read;
    u->from  = source->from;
    u->first = source->from + held;
    u->n     = 0;
    if (!tblock_seq_copy(m->context, from, to, held, NULL))
        mtp_forget(m, to);
}

/* ---- States of the model --------------------------------------------------------------------- */

bool mtp_reserve(Mtp *m, size_t n, Error *err)
{
    if (!context_reserve_step(m->context, n, err))
        return false;
    if (!ARRAY_ROOM(m->before, m->cap_before, n) || !ARRAY_ROOM(m->after, m->cap_after, n))
        return no_memory(NULL, err);
    m->context->before = m->before;
    m->context->after  = m->after;
    return true;
}

/* Items of the first n rows, each with the next token; last: the token after the last row. */
static size_t add_rows(Mtp *m, int32_t seq, size_t n, int32_t last, size_t at)
{
    Unread *u = &m->seq[seq];
    for (size_t i = 0; i < n; i++, at++) {
        m->before[at]        = u->row + i * m->d_model;
        m->after[at]         = NULL;
        m->context->step[at] = (tblock_item){ .seq   = seq,
                                              .pos   = u->first - u->from + (int32_t)i,
                                              .token = i + 1 < n ? u->token[i + 1] : last };
    }
    return at;
}

/* Reads all rows but the last, whose next token is not known. */
static bool read_rows(Mtp *m, int32_t seq)
{
    Unread      *u = &m->seq[seq];
    const size_t n = u->n - 1;
    Error        why;
    keep_read(m, seq, u->first - u->from);
    if (!mtp_reserve(m, n, &why))
        return false;
    add_rows(m, seq, n, u->token[n], 0);
    if (!context_decode(m->context, m->context->step, n, &why))
        return false;
    u->token[0] = u->token[n];
    memcpy(u->row, u->row + n * m->d_model, m->d_model * sizeof *u->row);
    u->first += (int32_t)n;
    u->n      = 1;
    return true;
}

static bool show_one(Mtp *m, const tblock_item *item, const float *state)
{
    Unread *u = &m->seq[item->seq];
    if (item->pos < u->first + (int32_t)u->n)
        cut(m, item->seq, item->pos);
    if (item->pos > u->first + (int32_t)u->n) { /* positions are missing: drop the rows before */
        u->from += item->pos - u->first;
        u->first = item->pos;
        u->n     = 0;
    }
    if (!ARRAY_ROOM(u->token, u->cap_tokens, u->n + 1)
        || !ARRAY_ROOM(u->row, u->cap_rows, (u->n + 1) * m->d_model))
        return false;
    u->token[u->n] = item->token;
    memcpy(u->row + u->n++ * m->d_model, state, m->d_model * sizeof *state);
    return true;
}

/* Without memory it drops what it cannot read: then it drafts less. */
void mtp_show(Mtp *m, const tblock_item *item, size_t n, const float *states)
{
    for (size_t i = 0; i < n; i++)
        if (!show_one(m, &item[i], states + i * m->d_model))
            mtp_forget(m, item[i].seq);
    for (size_t i = 0; i < n; i++)
        if (m->seq[item[i].seq].n > MTP_UNREAD && !read_rows(m, item[i].seq))
            mtp_forget(m, item[i].seq);
}

/* ---- Drafting -------------------------------------------------------------------------------- */

size_t mtp_add(Mtp *m, Guess *g, size_t at)
{
    Unread       *u    = &m->seq[g->seq];
    const int32_t held = (int32_t)g->n - 1; /* the last token is not computed yet */
    g->goes_on = false;
    if (!g->most)
        return at;
    cut(m, g->seq, held);
    if (!u->n || u->first + (int32_t)u->n != held)
        return at;
    at         = add_rows(m, g->seq, u->n, g->ids[held], at);
    u->first   = held;
    u->n       = 0;
    g->goes_on = true;
    g->item    = at - 1;
    m->after[g->item]                    = u->row;
    m->context->step[g->item].want_logits = true;
    return at;
}

void mtp_add_guess(Mtp *m, int32_t seq, size_t at)
{
    m->before[at] = m->after[at] = m->seq[seq].row;
}
