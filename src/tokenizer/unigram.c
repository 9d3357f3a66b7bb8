/* Unigram: cuts a text into pieces so that the sum of their scores is highest (Viterbi). Follows
 * SentencePiece 0.2.3 (src/unigram_model.cc, EncodeOptimized) and tokenizers 0.23
 * (models/unigram/model.rs, encode_optimized). Sums are rounded as there: SentencePiece adds
 * floats, tokenizers adds doubles. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unicode.h"

enum { UNKNOWN_PENALTY = 10, NO_WAY = INT32_MIN, NEAR = 2 * LONGEST_SOUGHT };
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

/* The score of a piece. A user-defined symbol scores by its length, so it beats the pieces that
 * make it up. */
static double piece_score(const Tokenizer *t, int32_t id, size_t n)
{
    const Vocab *v = &t->vocab;
    if (t->type == SPM_UNIGRAM && v->types[id] == PIECE_USER_DEFINED)
        return (double)(float)(0.1 * (double)(n - 1));
    return v->scores ? (double)v->scores[id] : v->scores64[id];
}

/* The best paths (ways) through a word, in four bytes for each of its bytes. Scores are kept only
 * near the current position: no piece is longer than LONGEST_SOUGHT. */
typedef struct Ways {
    int32_t *last;        /* the last piece of the best path to each position; NO_WAY: none known;
                           * -n: an unknown character of n bytes */
    double   score[NEAR]; /* of position i at i % NEAR */
    size_t   reached;     /* positions after it are not set: no path to them yet */
} Ways;

static size_t length(const Tokenizer *t, int32_t piece)
{
    size_t n = (size_t)-(int64_t)piece;
    if (piece >= 0)
        vocab_bytes(&t->vocab, piece, &n);
    return n;
}

/* Offer a path to position `to` that ends with this piece; it is kept if it is better. */
static void offer(const Tokenizer *t, Ways *w, size_t to, int32_t piece, double score)
{
    while (w->reached < to)
        w->last[++w->reached] = NO_WAY;
    double *best = &w->score[to % NEAR];
    if (t->type == SPM_UNIGRAM)
        score = (double)(float)score;
    if (w->last[to] != NO_WAY && !(score > *best))
        return;
    w->last[to] = piece;
    *best       = score;
}

static bool reserve_ways(Encoder *e, size_t n, Error *err)
{
    if (e->n_way >= n)
        return true;
    free(e->way);
    e->n_way = 0;
    e->way   = n < SIZE_MAX / sizeof *e->way ? malloc(n * sizeof *e->way) : NULL;
    if (!e->way)
        return fail(err, SYSTEM, "tokenizer: out of memory for a text of %zu bytes", n);
    e->n_way = n;
    return true;
}

/* Floats lose digits as scores grow in a long text. So SentencePiece subtracts the score at this
 * position from all scores known so far, and so do we. */
static void reset_scores(Ways *w, size_t from)
{
    float offset = (float)w->score[from % NEAR];
    if (offset >= -SCORE_RESET && offset <= SCORE_RESET)
        return;
    for (size_t i = from; i <= w->reached; i++)
        if (w->last[i] != NO_WAY)
            w->score[i % NEAR] = (double)((float)w->score[i % NEAR] - offset);
}

/* Offer every piece that starts at i, and the unknown token if none of them is exactly the
 * character there. */
static void leave(const Encoder *e, Ways *w, const char *text, size_t n, size_t i, size_t len)
{
    const Tokenizer *t = e->t;
    double   here = w->score[i % NEAR];
    bool     has_character = false;
    uint32_t at = 0;
    for (size_t end = i; end < n && trie_step(&t->vocab.trie, &at, text[end]);) {
        end++;
        int32_t id = trie_value(&t->vocab.trie, at);
        if (!text_has(e, id) || t->vocab.types[id] == PIECE_UNUSED
            || length(t, id) != end - i) /* the trie of a broken file */
            continue;
        offer(t, w, end, id, piece_score(t, id, end - i) + here);
        has_character |= end - i == len;
    }
    if (!has_character)
        offer(t, w, i + len, -(int32_t)len, t->unk_score + here);
}

bool unigram_word(Encoder *e, const char *word, size_t n, Error *err)
{
    const Tokenizer *t = e->t;
    if (!reserve_ways(e, n + 1, err))
        return false;
    Ways ways; /* not zeroed: words are short, its scores long */
    ways.last     = e->way;
    ways.reached  = 0;
    ways.last[0]  = NO_WAY;
    ways.score[0] = 0;
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp = 0;
        len = character_at(word + i, n - i, &cp);
        len = len ? len : 1;
        if (t->type == SPM_UNIGRAM)
            reset_scores(&ways, i);
        leave(e, &ways, word, n, i, len);
    }
    /* Walk back along the best path and put each piece where it starts. */
    int32_t piece = e->way[n];
    for (size_t at = n; at > 0;) {
        at -= length(t, piece);
        int32_t before = e->way[at];
        e->way[at] = piece;
        piece      = before;
    }
    size_t first = e->out->n;
    for (size_t at = 0, len; at < n; at += len) {
        piece   = e->way[at];
        len     = length(t, piece);
        bool ok = piece >= 0 && piece != t->unk
            ? ids_push(e->out, piece, err)
            : push_unknown(e, word + at, len, true,
                           t->type == UNIGRAM ? first : e->segment_first, err);
        if (!ok)
            return false;
    }
    return true;
}
