/* train/reference.c: embedding, blocks, final norm, head and loss of one sequence in double. */
#include "train/block_lab.h"

#include <math.h>


/* One of the model's blocks over a sequence of n tokens. frequencies [2, rotary_dim / 2]: first
 * those of layers that see all positions, then those of layers with a window. */
static BlockDouble block_of(const Params *p, const BlockShape *shape, int layer, const double *w,
                            const double *frequencies, const double factor[2], int n)
{
    int windowed = shape->window != 0, rot = p->config.rotary_dim;
    return (BlockDouble){ .p = p,
                          .shape = shape,
                          .layer = layer,
                          .w = w,
                          .inv_freq = frequencies + windowed * (rot / 2),
                          .factor = factor[windowed],
                          .rot = config_rotates(&p->config, layer) ? rot : 0,
                          .n_seqs = 1,
                          .seq_len = n };
}

size_t reference_room(const Params *p, int n)
{
    const Config *c = &p->config;
    BlockShape    s = params_shape(p, 0);
    BlockDouble   b = { .p = p, .shape = &s, .n_seqs = 1, .seq_len = n };
    return (size_t)n * (size_t)c->d_model + (size_t)c->rotary_dim + (size_t)c->vocab_size
        + block_double_room(&b);
}

/* -log softmax(z)[target], for the logits z of one token. */
static double token_loss(const double *z, int vocab, int target)
{
    double largest = -INFINITY, sum = 0;
    for (int i = 0; i < vocab; i++)
        largest = fmax(largest, z[i]);
    for (int i = 0; i < vocab; i++)
        sum += exp(z[i] - largest);
    return log(sum) + largest - z[target];
}

double reference_loss(const Params *p, const double *w, const int32_t *token, const int32_t *target,
                      int n, double *room)
{
    const Config *c = &p->config;
    int           d = c->d_model;
    double       *x = room, *frequencies = x + (size_t)n * (size_t)d,
           *logits = frequencies + c->rotary_dim, factor[2], sum = 0;
    const double *embed = double_tensor(p, w, -1, ROLE_EMBED, false);
    const double *head  = c->tied_embeddings ? embed : double_tensor(p, w, -1, ROLE_LM_HEAD, false);
    room = logits + c->vocab_size;
    for (int i = 0; i < 2; i++)
        config_inv_freq(c, i == 1, NULL, 0, frequencies + i * (c->rotary_dim / 2), &factor[i]);
    for (int t = 0; t < n; t++)
        for (int i = 0; i < d; i++)
            x[t * d + i] = embed[(size_t)token[t] * (size_t)d + (size_t)i] * c->embed_scale;
    for (int l = 0; l < c->n_layers; l++) {
        BlockShape  s = params_shape(p, l);
        BlockDouble b = block_of(p, &s, l, w, frequencies, factor, n);
        block_double(&b, x, x, room);
    }
    double_norm(x, x, double_tensor(p, w, -1, ROLE_FINAL_NORM, false),
                double_tensor(p, w, -1, ROLE_FINAL_NORM, true), c->norm, c->norm_eps, n, d);
    for (int t = 0; t < n; t++) {
        double_product(logits, x + t * d, head, NULL, 1, c->vocab_size, d);
        for (int i = 0; i < c->vocab_size; i++)
            logits[i] *= c->logit_scale;
        sum += token_loss(logits, c->vocab_size, target[t]);
    }
    return sum / n;
}
