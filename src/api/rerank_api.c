/* api/rerank_api.c: rerank scores in the form of Qwen3-Reranker: the prompt of its model card, and
 * P(yes) against P(no) after it (docs/numerics.md). */
#include "api/api.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/memory.h"
#include "base/number.h"
#include "tblock_tools.h"

static const char before[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n";
static const char behind[] =
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
static const char usual[] =
    "Given a web search query, retrieve relevant passages that answer the query";

enum { MARK_START, MARK_END, MARK_YES, MARK_NO, N_MARKS };

/* The ids of these texts, which are one token each. */
static bool find_marks(const tblock_model *m, int32_t mark[N_MARKS], Error *err)
{
    static const char *const texts[] = { "<|im_start|>", "<|im_end|>", "yes", "no" };
    const int n_needed = m->weights.cfg.labels ? MARK_YES : N_MARKS; /* a head needs no word */
    for (int i = 0; i < n_needed; i++) {
        int32_t *ids = NULL;
        size_t   n   = 0;
        if (!tblock_tokenize(m, texts[i], strlen(texts[i]), TBLOCK_PARSE_SPECIAL, &ids, &n, err))
            return false;
        mark[i] = n ? ids[0] : -1;
        tblock_free(ids);
        if (n != 1 || mark[i] >= m->weights.cfg.vocab_size)
            return fail(err, INPUT, "%s: rerank: expected one token for '%s', as Qwen3-Reranker "
                                    "has it, found %zu", m->source.path, texts[i], n);
    }
    return true;
}

static bool add_tokens(Ids *to, const tblock_model *m, const char *text, size_t n, unsigned flags,
                       Error *err)
{
    int32_t *ids   = NULL;
    size_t   n_ids = 0;
    bool     good  = tblock_tokenize(m, text, n, flags, &ids, &n_ids, err)
        && (ARRAY_ROOM(to->id, to->cap, to->n + n_ids) || no_memory(NULL, err));
    if (good && n_ids)
        memcpy(to->id + to->n, ids, n_ids * sizeof *ids);
    to->n += good ? n_ids : 0;
    tblock_free(ids);
    return good;
}

/* The card tokenizes the three parts separately. */
bool tblock_rerank_prompt(const tblock_model *m, const tblock_rerank_texts *t, int32_t **ids,
                          size_t *n, tblock_error *err)
{
    NEED(false, err, ids, n);
    *ids = NULL;
    *n = 0;
    NEED(false, err, m, t);
    Ids         all       = { 0 };
    TextOut     pair      = { 0 };
    int32_t     marks[N_MARKS];
    const bool  own       = t->instruction != NULL;
    const char *labels[3] = { "<Instruct>: ", "\n<Query>: ", "\n<Document>: " };
    const char *texts[3]  = { own ? t->instruction : usual, t->query, t->document };
    size_t      sizes[3]  = { own ? t->n_instruction : sizeof usual - 1, t->n_query,
                              t->n_document };
    for (int i = 0; i < 3; i++) {
        text_out_bytes(&pair, labels[i], strlen(labels[i]));
        text_out_bytes(&pair, texts[i], sizes[i]);
    }
    bool good = (!pair.failed || no_memory(NULL, err))
        && find_marks(m, marks, err)
        && add_tokens(&all, m, before, sizeof before - 1, TBLOCK_PARSE_SPECIAL, err)
        && add_tokens(&all, m, pair.text, pair.n, 0, err)
        && add_tokens(&all, m, behind, sizeof behind - 1, TBLOCK_PARSE_SPECIAL, err);
    text_out_free(&pair);
    if (!good)
        free(all.id);
    *ids = good ? all.id : NULL;
    *n   = good ? all.n : 0;
    return good;
}

bool tblock_rerank_options(const tblock_model *m, tblock_generation_options *o, tblock_error *err)
{
    NEED(false, err, m, o);
    const Config *c = &m->weights.cfg;
    o->pool         = c->labels ? TBLOCK_POOL_MODEL : TBLOCK_POOL_NONE;
    o->max_tokens   = c->labels ? -1 : 1;
    return !c->labels || c->dense1 == 1
        || fail(err, INPUT, "%s: rerank: expected a head of one label, found %d", m->source.path,
                c->dense1);
}

FP_ENV_WORK
static bool score_of(const tblock_model *m, const tblock_generation *g, double *score, Error *err)
{
    int32_t                mark[N_MARKS];
    float                  label = 0;
    tblock_generation_info now;
    tblock_generation_describe(g, &now);
    if (m->weights.cfg.labels) {
        if (!tblock_generation_embedding(g, false, &label, err))
            return false;
        *score = (double)label;
    } else {
        if (!now.logits)
            return fail(err, SYSTEM, "stopped before the document was judged");
        if (!find_marks(m, mark, err))
            return false;
        *score = 1 / (1 + math64_exp((double)now.logits[mark[MARK_NO]]
                                     - (double)now.logits[mark[MARK_YES]]));
    }
    return !isnan(*score)
        || fail(err, INPUT, "%s: rerank: the score is not a number", m->source.path);
}

bool tblock_rerank_score(const tblock_model *m, const tblock_generation *g, double *score,
                         tblock_error *err)
{
    NEED(false, err, m, g, score);
    HOST_ENV_RETURN(bool, score_of(m, g, score, err));
}

static int by_score(const void *a, const void *b)
{
    const tblock_rerank_result *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score ? 1 : -1) : x->index < y->index ? -1 : 1;
}

void tblock_rerank_sort(tblock_rerank_result *results, size_t n)
{
    NEED(, NULL, results);
    qsort(results, n, sizeof *results, by_score);
}
