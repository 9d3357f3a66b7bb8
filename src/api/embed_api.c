/* api/embed_api.c: embeddings of many texts, and rerank scores of documents. Each text is a
 * generation that samples nothing or one token; as many are open at once as fill a batch. */
#include "api/pool.h"

#include <stdlib.h>
#include <string.h>

#include "tblock_tools.h"

bool tblock_pool_choose(const tblock_model *m, const char *name, int *kind, tblock_error *err)
{
    NEED(false, err, m, kind);
    static const char *const names[] = { [TBLOCK_POOL_MEAN] = "mean",
                                         [TBLOCK_POOL_LAST] = "last",
                                         [TBLOCK_POOL_CLS]  = "cls" };
    const PoolKind said = m->weights.cfg.pool;
    const char    *note = m->source.pool_note;
    if (!name || strcmp(name, "auto") == 0) {
        *kind = said == POOL_UNSAID   ? TBLOCK_POOL_MEAN
            : m->weights.cfg.dense1 ? TBLOCK_POOL_MODEL
                                    : (int)said;
        return said != POOL_OTHER
            || fail(err, INPUT, "%s; choose mean, last or cls for vectors without that",
                    note ? note : "pool: the model's source wants vectors of another kind");
    }
    for (*kind = TBLOCK_POOL_MEAN; *kind <= TBLOCK_POOL_CLS; ++*kind)
        if (strcmp(name, names[*kind]) == 0)
            return true;
    return fail(err, USAGE, "pool: expected mean, last or cls, found '%s'", name);
}

int tblock_pool_width(const tblock_model *m, int kind)
{
    NEED(0, NULL, m);
    return pool_width(&m->weights.cfg, kind);
}

typedef struct Embedder {
    tblock_context            *c;
    const tblock_embed_text   *text; /* [n] */
    size_t                     n, next, n_done;
    int                        pool;
    bool                       normalize;
    float                     *out;    /* [n, width], or ... */
    double                    *score;  /* ... [n]: the rerank score of each text */
    int                        max_tokens;
    tblock_generation        **open;   /* [n_open], of texts which[i] */
    size_t                    *which, n_open;
    size_t                     failed; /* index of the text; n: none */
} Embedder;

/* Texts with the same instruction share a prefix; no other tokens of a sequence are used again, and
 * `mean` and `cls` need the states of all earlier positions. */
static void forget(Embedder *e, int32_t seq)
{
    Error         ignored;
    const int32_t keep = e->score || e->pool == TBLOCK_POOL_LAST ? e->c->n_batch : 0;
    if (tblock_seq_length(e->c, seq) > keep && !tblock_seq_rewind(e->c, seq, keep, &ignored))
        tblock_seq_rewind(e->c, seq, 0, &ignored);
}

static void close_text(Embedder *e, size_t i)
{
    tblock_generation_info now;
    tblock_generation_describe(e->open[i], &now);
    tblock_generation_close(e->open[i]);
    forget(e, now.seq);
    e->n_open--;
    memmove(&e->open[i], &e->open[i + 1], (e->n_open - i) * sizeof *e->open);
    memmove(&e->which[i], &e->which[i + 1], (e->n_open - i) * sizeof *e->which);
}

/* Tokens of open texts that are not computed yet. */
static size_t unread(const Embedder *e)
{
    size_t                 sum = 0;
    tblock_generation_info now;
    for (size_t i = 0; i < e->n_open; i++) {
        tblock_generation_describe(e->open[i], &now);
        sum += now.n_given - now.n_held;
    }
    return sum;
}

/* Opens no more than fill the batch: more would only hold memory. */
static bool open_texts(Embedder *e, Error *err)
{
    while (e->next < e->n && e->n_open < (size_t)e->c->n_seqs
           && unread(e) < (size_t)e->c->n_batch) {
        const tblock_embed_text  *t = &e->text[e->next];
        tblock_generation_options o = { .ids        = t->ids,
                                        .n_ids      = t->n_ids,
                                        .max_tokens = e->max_tokens,
                                        .pool       = e->pool };
        e->failed                   = e->next;
        e->open[e->n_open]          = tblock_generation_open(e->c, &o, err);
        if (!e->open[e->n_open])
            return false;
        e->which[e->n_open++] = e->next++;
    }
    e->failed = e->n;
    return true;
}

static bool take_answer(const Embedder *e, const tblock_generation *g, size_t text, Error *err)
{
    const int width = tblock_pool_width(e->c->model, e->pool);
    return e->score ? tblock_rerank_score(e->c->model, g, &e->score[text], err)
                    : tblock_generation_embedding(g, e->normalize, e->out + text * (size_t)width,
                                                  err);
}

static bool take_answers(Embedder *e, Error *err)
{
    for (size_t i = 0; i < e->n_open;) {
        tblock_generation_info now;
        tblock_generation_describe(e->open[i], &now);
        if (now.end == TBLOCK_GOES_ON) {
            i++;
            continue;
        }
        e->failed = e->which[i];
        if (now.end == TBLOCK_END_FAILED)
            return fail(err, now.error->status, "%s", now.error->msg);
        if (!take_answer(e, e->open[i], e->which[i], err))
            return false;
        e->failed = e->n;
        close_text(e, i);
        e->n_done++;
    }
    return true;
}

/* The caller fills in e, except for the open texts. */
static bool compute(Embedder *e, bool (*progress)(void *user, double done), void *user,
                    size_t *failed, Error *err)
{
    const size_t n = e->n;
    e->failed = n;
    e->open   = malloc((size_t)e->c->n_seqs * sizeof *e->open);
    e->which  = malloc((size_t)e->c->n_seqs * sizeof *e->which);
    bool good = (e->open && e->which) || no_memory(NULL, err);
    while (good && e->n_done < n)
        good = open_texts(e, err)
            && tblock_advance(e->c, e->open, e->n_open, 0, err) && take_answers(e, err)
            && (!progress || progress(user, (double)e->n_done / (double)n)
                || fail(err, SYSTEM, "stopped after %zu of %zu texts", e->n_done, n));
    while (e->n_open)
        close_text(e, e->n_open - 1);
    if (failed)
        *failed = e->failed;
    free(e->open);
    free(e->which);
    return good;
}

bool tblock_embed(tblock_context *c, const tblock_embed_text *text, size_t n,
                  const tblock_embed_options *opt, float *out, size_t *failed, tblock_error *err)
{
    NEED(false, err, c, text || !n, out || !n);
    static const tblock_embed_options none;
    const tblock_embed_options       *o = opt ? opt : &none;
    Embedder e = { .c          = c,
                   .text       = text,
                   .n          = n,
                   .max_tokens = -1,
                   .normalize  = !o->raw,
                   .out        = out };
    if (failed)
        *failed = n;
    return tblock_pool_choose(c->model, o->pool, &e.pool, err)
        && compute(&e, o->progress, o->user, failed, err);
}

bool tblock_rerank(tblock_context *c, const tblock_rerank_texts *texts, size_t n, double *scores,
                   size_t *failed, tblock_error *err)
{
    NEED(false, err, c, texts || !n, scores || !n);
    tblock_embed_text *prompt = calloc(n ? n : 1, sizeof *prompt);
    Embedder           e      = { .c = c, .text = prompt, .n = n, .score = scores };
    tblock_generation_options o = { 0 };
    bool good = (prompt || no_memory(NULL, err)) && tblock_rerank_options(c->model, &o, err);
    size_t             made   = 0, at = n;
    e.pool       = o.pool;
    e.max_tokens = o.max_tokens;
    for (int32_t *ids; good && made < n; made += good) {
        good = tblock_rerank_prompt(c->model, &texts[made], &ids, &prompt[made].n_ids, err);
        prompt[made].ids = ids;
        at               = good ? n : made;
    }
    good = good && compute(&e, NULL, NULL, &at, err);
    if (failed)
        *failed = at;
    for (size_t i = 0; i < made; i++)
        free((void *)(uintptr_t)prompt[i].ids);
    free(prompt);
    return good;
}
