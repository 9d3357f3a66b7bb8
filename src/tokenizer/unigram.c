/* Unigram: cuts a text into pieces so that the sum of their scores is highest (Viterbi). Follows
 * SentencePiece 0.2.3 (src/unigram_model.cc, EncodeOptimized) and tokenizers 0.23
 * (models/unigram/model.rs, encode_optimized). Sums are rounded as there: SentencePiece adds
 * floats, tokenizers adds doubles. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unicode.h"

typedef struct UnigramNode {
    double   score; /* score of the best way to here      */
    int32_t  id;    /* its last piece; NO_WAY: none known */
    uint32_t start; /* where that piece begins            */
} UnigramNode;

enum { UNKNOWN_PENALTY = 10, NO_WAY = INT32_MIN };
static const float SCORE_RESET = 100000;

void unigram_prepare(Tokenizer *t)
{
    const Vocab *v = &t->vocab;
    bool   spm = t->type == SPM_UNIGRAM;
    double least = spm ? FLT_MAX : (double)INFINITY;
    for (int i = 0; i < v->size; i++) {
        double score = v->scores ? (double)v->scores[i] : v->scores64[i];
        bool   counts = spm ? v->types[i] == PIECE_NORMAL : v->types[i] != PIECE_UNUSED;
        least = counts && score < least ? score : least;
    }
    t->unk_score = spm ? (double)((float)least - (float)UNKNOWN_PENALTY) : least - UNKNOWN_PENALTY;
}

/* The score of a piece. A user-defined symbol scores by its length, so it beats the pieces that it
 * is made of. */
static double piece_score(const Tokenizer *t, int32_t id, size_t n)
{
    const Vocab *v = &t->vocab;
    if (t->type == SPM_UNIGRAM && v->types[id] == PIECE_USER_DEFINED)
        return (double)(float)(0.1 * (double)(n - 1));
    return v->scores ? (double)v->scores[id] : v->scores64[id];
}

/* The nodes of a word. Those after `reached` are not set: no way leads there yet. */
typedef struct Ways { UnigramNode *node; size_t reached; } Ways;

/* Offer a way to node `to` that ends with piece id; it is kept if it is better. */
static void offer(const Tokenizer *t, Ways *w, size_t from, size_t to, int32_t id, double score)
{
    while (w->reached < to)
        w->node[++w->reached].id = NO_WAY;
    UnigramNode *n = &w->node[to];
    if (t->type == SPM_UNIGRAM)
        score = (double)(float)score;
    if (n->id != NO_WAY && !(score > n->score))
        return;
    *n = (UnigramNode){ score, id, (uint32_t)from };
}

static bool reserve_nodes(Encoder *e, size_t n, Error *err)
{
    if (e->n_node >= n)
        return true;
    free(e->node);
    e->n_node = 0;
    e->node   = n < SIZE_MAX / sizeof *e->node ? malloc(n * sizeof *e->node) : NULL;
    if (!e->node)
        return fail(err, SYSTEM, "tokenizer: out of memory for a text of %zu bytes", n);
    e->n_node = n;
    return true;
}

/* Floats lose digits as scores grow in a long text. So SentencePiece subtracts the score here from
 * all scores known so far, and so do we. */
static void reset_scores(const Ways *w, size_t from)
{
    float offset = (float)w->node[from].score;
    if (offset >= -SCORE_RESET && offset <= SCORE_RESET)
        return;
    for (size_t i = from; i <= w->reached; i++)
        if (w->node[i].id != NO_WAY)
            w->node[i].score = (double)((float)w->node[i].score - offset);
}

/* Offer every piece that begins at i, and the unknown token if none of them is exactly the
 * character there. */
static void leave(const Encoder *e, Ways *w, const char *text, size_t n, size_t i, size_t len)
{
    const Tokenizer *t = e->t;
    double   here = w->node[i].score;
    bool     has_character = false;
    uint32_t at = 0;
    for (size_t end = i; end < n && trie_step(&t->vocab.trie, &at, text[end]);) {
        end++;
        int32_t id = trie_value(&t->vocab.trie, at);
        if (!text_has(e, id) || t->vocab.types[id] == PIECE_UNUSED)
            continue;
        offer(t, w, i, end, id, piece_score(t, id, end - i) + here);
        has_character |= end - i == len;
    }
    if (!has_character)
        offer(t, w, i, i + len, t->unk, t->unk_score + here);
}

bool unigram_word(Encoder *e, const char *word, size_t n, Error *err)
{
    const Tokenizer *t = e->t;
    if (!reserve_nodes(e, n + 1, err))
        return false;
    UnigramNode *node = e->node;
    Ways         ways = { node, 0 };
    node[0] = (UnigramNode){ 0, 0, 0 };
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp = 0;
        len = character_at(word + i, n - i, &cp);
        len = len ? len : 1;
        if (t->type == SPM_UNIGRAM)
            reset_scores(&ways, i);
        leave(e, &ways, word, n, i, len);
    }
    /* Walk back along the best way and note, at each piece's start, where it ends. `score` is free
     * by now and holds that position. */
    for (size_t end = n; end > 0; end = node[end].start)
        node[node[end].start].score = (double)end;
    size_t first = e->out->n;
    for (size_t start = 0, end; start < n; start = end) {
        end = (size_t)node[start].score;
        int32_t id = node[end].id;
        bool ok = id != t->unk ? ids_push(e->out, id, err)
                               : push_unknown(e, word + start, end - start, true,
                                              t->type == UNIGRAM ? first : e->segment_first, err);
        if (!ok)
            return false;
    }
    return true;
}
