/* train/net.c: the transformer of runtime/forward.c and its backward pass: embedding, blocks,
 * final norm, head. It keeps the activations of every layer, because each block's backward pass
 * reads its own. */
#include "train/net.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct Net {
    const Params *p;
    Crew         *crew;
    int           n_seqs, seq_len;
    RopeAngles    rope[2];      /* [0]: of layers that see all positions; [1]: with a window */
    BlockShape   *shape;        /* [n_layers]              */
    BlockActs    *acts;         /* [n_layers] */
    BlockWork     work;
    float        *memory, *x, *xn, *d_x, *logits; /* x: output of the last block */
    double       *loss_of;
    size_t        bytes;
};

/* ---- Memory ---------------------------------------------------------------------------------- */

/* One pass over all buffers: it counts, or hands out pieces (Carver). */
static void carve_net(Net *n, Carver *c)
{
    const Config *cfg = &n->p->config;
    int           n_tok = n->n_seqs * n->seq_len;
    for (int l = 0; l < cfg->n_layers; l++)
        block_acts_carve(&n->acts[l], c, &n->shape[l], n_tok);
    block_work_carve(&n->work, c, &n->shape[0], n_tok);
    n->x      = carve(c, (size_t)n_tok, (size_t)cfg->d_model);
    n->xn     = carve(c, (size_t)n_tok, (size_t)cfg->d_model);
    n->d_x    = carve(c, (size_t)n_tok, (size_t)cfg->d_model);
    n->logits = carve(c, (size_t)head_tokens(cfg->vocab_size), (size_t)cfg->vocab_size);
}

static void release(Net *n)
{
    for (int i = 0; i < 2; i++)
        rope_angles_free(&n->rope[i]);
    free(n->shape);
    free(n->acts);
    free(n->loss_of);
    free(n->memory);
}

/* Computes the shapes of the blocks and the memory of their activations. */
static bool measure(Net *n, Error *err)
{
    const Config *c = &n->p->config;
    Carver        carver = { 0 };
    n->shape = calloc((size_t)c->n_layers, sizeof *n->shape);
    n->acts  = calloc((size_t)c->n_layers, sizeof *n->acts);
    if (!n->shape || !n->acts)
        return fail(err, SYSTEM, "out of memory for activations");
    for (int l = 0; l < c->n_layers; l++)
        n->shape[l] = params_shape(n->p, l);
    if (n->n_seqs <= INT_MAX / n->seq_len)
        carve_net(n, &carver);
    n->bytes = carver.at * sizeof(float);
    return (n->bytes && !carver.overflow)
        || fail(err, SYSTEM, "out of memory: %d sequences of %d tokens at a time", n->n_seqs,
                n->seq_len);
}

static bool allocate(Net *n, Error *err)
{
    if (!measure(n, err))
        return false;
    n->loss_of = calloc((size_t)n->n_seqs * (size_t)n->seq_len, sizeof *n->loss_of);
    n->memory  = aligned_alloc(64, n->bytes);
    if (!n->memory || !n->loss_of)
        return fail(err, SYSTEM,
                    "out of memory: %zu MB of activations for %d sequences of %d tokens",
                    n->bytes >> 20, n->n_seqs, n->seq_len);
    carve_net(n, &(Carver){ .base = n->memory });
    return train_ops_reserve(n->crew, n->n_seqs * n->seq_len, n->seq_len, block_width(&n->shape[0]),
                             err);
}

static bool make_angles(Net *n, Error *err)
{
    const Config *c = &n->p->config;
    double       *inv_freq = calloc((size_t)c->rotary_dim + 1, sizeof *inv_freq);
    bool          ok = inv_freq || fail(err, SYSTEM, "out of memory for the RoPE frequencies");
    for (int i = 0; ok && i < 2; i++) {
        double factor;
        config_inv_freq(c, i == 1, NULL, 0, inv_freq, &factor);
        ok = rope_angles_make(&n->rope[i], n->seq_len, c->rotary_dim, inv_freq, factor, err);
    }
    free(inv_freq);
    return ok;
}

Net *net_new(const Params *p, Crew *crew, int n_seqs, int seq_len, Error *err)
{
    Net *n = calloc(1, sizeof *n);
    if (!n) {
        fail(err, SYSTEM, "out of memory for activations");
        return NULL;
    }
    *n = (Net){ .p = p, .crew = crew, .n_seqs = n_seqs, .seq_len = seq_len };
    if (allocate(n, err) && make_angles(n, err))
        return n;
    net_free(n);
    return NULL;
}

bool net_fits(const Params *p, int n_arrays, int n_trained, int n_seqs, int seq_len, Error *err)
{
    Net  n  = { .p = p, .n_seqs = n_seqs, .seq_len = seq_len };
    bool ok = measure(&n, err)
        && memory_fits((double)n.bytes + ((double)n_arrays * (double)p->n_floats
                                          + (double)n_trained * (double)p->n_trained)
                           * sizeof(float),
                       "parameters, gradients, moments and activations take", err);
    release(&n);
    return ok;
}

void net_free(Net *n)
{
    if (n)
        release(n);
    free(n);
}

size_t net_bytes(const Net *n)
{
    return n->bytes
        + (n->crew->scratch_floats * (size_t)n->crew->threads + n->crew->partial_floats)
        * sizeof(float);
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Each block has two dropout sites (attention, feed-forward); the embedding has site 0. */
static BlockCall call_of(const Net *n, int l, const BlockWeights *w, const NetBatch *b)
{
    BlockCall c = { .crew = n->crew,
                    .shape = &n->shape[l],
                    .w = w,
                    .rope = config_rotates(&n->p->config, l)
                        ? &n->rope[n->shape[l].window != 0] : NULL,
                    .work = &n->work,
                    .n_seqs = b->n_seqs,
                    .seq_len = n->seq_len,
                    .drop = b->drop,
                    .first_seq = b->first_seq };
    c.drop.site = 1 + 2 * (uint32_t)l;
    return c;
}

static DropoutKey embed_dropout(const NetBatch *b)
{
    DropoutKey k = b->drop;
    k.site = 0;
    return k;
}

/* Number of the first element of b's activations in the whole batch, for dropout. */
static uint64_t first_element(const Net *n, const NetBatch *b)
{
    return b->first_seq * (uint64_t)n->seq_len * (uint64_t)n->p->config.d_model;
}

typedef float *FindTensor(const Params *p, float *array, int layer, TensorRole role, bool bias);

/* find: params_find, or params_gradient for an array of gradients. */
static NormParams final_norm(const Net *n, FindTensor *find, float *w)
{
    const Config *c = &n->p->config;
    return (NormParams){ c->norm, find(n->p, w, -1, ROLE_FINAL_NORM, false),
                         find(n->p, w, -1, ROLE_FINAL_NORM, true), (float)c->norm_eps,
                         c->d_model };
}

static float *head_matrix(const Net *n, FindTensor *find, float *w)
{
    return find(n->p, w, -1, n->p->config.tied_embeddings ? ROLE_EMBED : ROLE_LM_HEAD, false);
}

/* xn = final_norm(blocks(embedding of the tokens)). */
static void transformer(Net *n, float *w, const NetBatch *b)
{
    const Config *c = &n->p->config;
    int           n_tok = b->n_seqs * n->seq_len;
    float        *first = c->n_layers > 0 ? n->acts[0].x : n->x;
    DropoutKey    drop = embed_dropout(b);
    NormParams    norm = final_norm(n, params_find, w);
    embed_forward(n->crew, first, params_find(n->p, w, -1, ROLE_EMBED, false), b->token, n_tok,
                  c->d_model, (float)c->embed_scale);
    dropout(n->crew, first, &drop, first_element(n, b), (size_t)n_tok * (size_t)c->d_model);
    for (int l = 0; l < c->n_layers; l++) {
        BlockWeights weights = params_block(n->p, w, l, false);
        BlockCall    call    = call_of(n, l, &weights, b);
        block_forward(&call, &n->acts[l], l + 1 < c->n_layers ? n->acts[l + 1].x : n->x);
    }
    norm_forward(n->crew, n->xn, n->x, &norm, n_tok);
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* The backward pass from work.y, the gradient of xn, down to the embedding. */
static void transformer_backward(Net *n, float *w, float *grads, const NetBatch *b)
{
    const Config *c = &n->p->config;
    int           n_tok = b->n_seqs * n->seq_len;
    size_t        size  = (size_t)n_tok * (size_t)c->d_model;
    DropoutKey    drop  = embed_dropout(b);
    NormParams    norm = final_norm(n, params_find, w),
                  d_norm = final_norm(n, params_gradient, grads);
    memset(n->d_x, 0, size * sizeof *n->d_x);
    norm_backward_rows(n->crew, n->d_x, &d_norm, n->x, &norm, n->work.y, n_tok);
    for (int l = c->n_layers - 1; l >= 0; l--) {
        BlockWeights weights = params_block(n->p, w, l, false),
                     d = params_block(n->p, grads, l, true);
        BlockCall    call    = call_of(n, l, &weights, b);
        block_backward(&call, &n->acts[l], &d, n->d_x);
    }
    if (n->p->first) /* the embedding is not trained */
        return;
    dropout(n->crew, n->d_x, &drop, first_element(n, b), size);
    embed_backward(n->crew, params_find(n->p, grads, -1, ROLE_EMBED, false), b->token, n->d_x,
                   n_tok, c->d_model, (float)c->embed_scale);
}

double net_loss(Net *n, const float *w, float *grads, const NetBatch *b, float weight)
{
    const Config *c = &n->p->config;
    /* BlockWeights also holds gradients, so it is not const. Nothing writes through `weights`. */
    float        *weights = (float *)w;
    HeadShape head = { b->n_seqs * n->seq_len, c->vocab_size, c->d_model, (float)c->logit_scale };
    double        sum = 0;
    transformer(n, weights, b);
    head_loss(n->crew, n->loss_of, grads ? n->work.y : NULL,
              head_matrix(n, params_gradient, grads), n->xn, head_matrix(n, params_find, weights),
              b->target, weight, n->logits, &head);
    for (int t = 0; t < head.n_tok; t++)
        sum += n->loss_of[t];
    if (grads)
        transformer_backward(n, weights, grads, b);
    return sum;
}

void net_logits(Net *n, const float *w, const int32_t *token, int n_seqs, float *logits)
{
    const Config *c = &n->p->config;
    NetBatch      b = { .token = token, .n_seqs = n_seqs };
    size_t        n_tok = (size_t)n_seqs * (size_t)n->seq_len;
    transformer(n, (float *)w, &b);
    linear(n->crew, logits, n->xn, head_matrix(n, params_find, (float *)w), NULL, (int)n_tok,
           c->vocab_size, c->d_model);
    scale_all(n->crew, logits, (float)c->logit_scale, n_tok * (size_t)c->vocab_size);
}
