/* train/cross_entropy.c: the head and the loss. Logits of a whole batch would be the largest
 * buffer of training, so they are computed for some tokens at a time. */
#include <string.h>

#include "base/number.h"
#include "train/train_ops.h"

/* Elements of the logits at once (16 MB), and bounds for the number of tokens. */
enum { LOGITS_MOST = 1 << 22, LEAST_TOKENS = 32, MOST_TOKENS = 512 };

int head_tokens(int vocab)
{
    int n = LOGITS_MOST / vocab;
    return n < LEAST_TOKENS ? LEAST_TOKENS : n > MOST_TOKENS ? MOST_TOKENS : n;
}

/* Tokens of a piece. */
enum { LOSS_PIECE = 64 };

typedef struct Loss {
    const Crew      *c;
    const HeadShape *s;
    double          *loss_of;
    float           *logits, weight;
    const int32_t   *target;
    bool             gradient;
} Loss;

/* p = softmax(z): loss = log(sum exp(z - m)) + m - z[target], d_z = (p - onehot(target)) *
 * weight. The maximum m keeps exp from overflowing. z is overwritten with d_z. */
static void loss_row(const Loss *l, size_t t)
{
    int    vocab = l->s->vocab;
    float *z     = l->logits + t * (size_t)vocab, m, sum, at_target;
    if (l->target[t] == IGNORE_TARGET) {
        l->loss_of[t] = 0;
        memset(z, 0, (size_t)vocab * sizeof *z);
        return;
    }
    at_target = z[l->target[t]] * l->s->logit_scale;
    l->c->k->softmax_scaled(z, l->s->logit_scale, vocab, &m, &sum);
    l->loss_of[t] = math64_log((double)sum) + (double)m - (double)at_target;
    if (l->gradient) {
        z[l->target[t]] -= 1.0f;
        l->c->k->scale(z, l->weight, vocab);
    }
}

static void loss_piece(void *arg, size_t first, int n)
{
    for (int t = 0; t < n; t++)
        loss_row(arg, first + (size_t)t);
}

void head_loss(const Crew *c, double *loss_of, float *d_x, float *d_w, const float *x,
               const float *w, const int32_t *target, float weight, float *logits,
               const HeadShape *s)
{
    size_t d = (size_t)s->d;
    for (int t = 0, n; t < s->n_tok; t += n) {
        n = s->n_tok - t < head_tokens(s->vocab) ? s->n_tok - t : head_tokens(s->vocab);
        Loss l = { c, s, loss_of + t, logits, weight * s->logit_scale, target + t, d_x != NULL };
        linear(c, logits, x + (size_t)t * d, w, NULL, n, s->vocab, s->d);
        crew_cut(c, (size_t)n, LOSS_PIECE, loss_piece, &l);
        if (d_x)
            linear_backward(c, d_x + (size_t)t * d, logits, w, n, s->vocab, s->d, false);
        linear_weight_backward(c, d_x ? d_w : NULL, NULL, logits, x + (size_t)t * d, n, s->vocab,
                               s->d);
    }
}

bool train_ops_reserve(Crew *c, int n_tok, int seq_len, int width, Error *err)
{
    size_t strips = 2 * (size_t)QUERY_TILE * (size_t)seq_len;
    /* One piece more: norms of heads have more, narrower rows than n_tok. */
    size_t norms  = ((size_t)pieces((size_t)n_tok, NORM_PIECE) + 1) * 2 * (size_t)width;
    return crew_reserve(c, strips, norms, err);
}
