/* runtime/delta_rule.c: the gated delta rule of Qwen3-Next (Yang et al. 2024, "Gated Delta
 * Networks"), token by token. A sequence's state is that of the convolution before it
 * (short_conv.c), then the matrix of each value head. A prompt in one chunk, in many, and decode
 * are the same sums. */
#include <math.h>
#include <string.h>

#include "runtime/ops.h"

/* Tokens of a head that are computed together. */
enum { AT_ONCE = 16 };

/* For that many tokens the queries, keys, results, decays and corrections, and the kernel's
 * scratch. */
size_t delta_scratch_floats(const Config *c)
{
    return AT_ONCE * (2 * (size_t)c->delta_key_dim + (size_t)c->delta_value_dim + 2)
        + DELTA_COLUMNS * (size_t)c->delta_key_dim;
}

/* y = x / |x|, rounded, then times `scale`. The constant is that of the model families. */
static void unit(const Run *r, float *y, const float *x, int n, float scale)
{
    const float by = 1.0f / sqrtf(r->kernels->dot(x, x, n) + 1e-6f);
    memcpy(y, x, (size_t)n * sizeof *y);
    r->kernels->scale(y, by, n);
    if (scale != 1.0f)
        r->kernels->scale(y, scale, n);
}

/* One value head of n_tok tokens from t on: their part of c in, their part of z out. */
static void some_tokens(const Run *r, const Layer *w, int t, int n_tok, int h, float *state)
{
    const Config *c   = &r->model->cfg;
    const int     n_k = c->delta_key_dim, n_v = c->delta_value_dim, heads = c->delta_key_heads,
              keys = heads * n_k, key = c->delta_tiled ? h % heads : h / (c->delta_heads / heads);
    float *room = r->delta_scratch, *q = room + DELTA_COLUMNS * n_k, *k = q + AT_ONCE * n_k,
          *o = k + AT_ONCE * n_k, *decay = o + AT_ONCE * n_v, *beta = decay + AT_ONCE;
    for (int i = 0; i < n_tok; i++) {
        const float *in = act_row(&r->conv_c, t + i) + key * n_k;
        unit(r, q + i * n_k, in, n_k, (float)(1 / sqrt((double)n_k)));
        unit(r, k + i * n_k, in + keys, n_k, 1.0f);
        r->kernels->sigmoid(&beta[i], act_row(&r->delta_b, t + i) + h, 1);
        r->kernels->delta_decay(&decay[i], act_row(&r->delta_a, t + i) + h, w->delta_dt + h,
                                w->delta_rate + h, 1);
    }
    r->kernels->delta_rule(&(DeltaSpan){
        .state = state, .o = o, .q = q, .k = k,
        .v = act_row(&r->conv_c, t) + 2 * keys + h * n_v, .v_stride = r->conv_c.stride,
        .decay = decay, .beta = beta, .room = room, .n_tok = n_tok, .n_k = n_k, .n_v = n_v,
    });
    for (int i = 0; i < n_tok; i++) {
        float *z = act_row(&r->delta_z, t + i) + h * n_v;
        r->kernels->rms_norm(o + i * n_v, o + i * n_v, w->delta_norm, n_v, r->norm_eps);
        r->kernels->swiglu(z, z, o + i * n_v, n_v);
    }
}

/* One member computes a head for all tokens of a call, so that its matrix stays in the cache and
 * needs no barrier (as in short_conv.c). */
void delta_rule(Run *r, int l)
{
    const Config *c    = &r->model->cfg;
    const size_t  each = (size_t)c->delta_key_dim * (size_t)c->delta_value_dim,
                  conv = (size_t)(c->conv_taps - 1)
        * (size_t)own_columns(&r->layer[l].delta_qkv.own, r->conv_c.width);
    const Range   own = r->delta_heads;
    int           first, end;
    touch(r, reads_own(&r->conv_c, ANYWHERE), reads_own(&r->delta_b, ANYWHERE),
          reads_own(&r->delta_a, ANYWHERE), writes_own(r, &r->delta_z, BY_HEADS, RANK_DELTA));
    enter(r, "delta", 0, 7.0 * (double)each * c->delta_heads * r->n_tok);
    my_share(r, own.end - own.first, &first, &end);
    for (int i = 0; i < r->n_spans; i++) {
        const Span *s     = &r->span[i];
        float      *state = r->kv_cache->seq[s->seq].layer[l].state + conv;
        for (int n = first; n < end; n++)
            for (int t = 0; t < s->n_tok; t += AT_ONCE)
                some_tokens(r, &r->layer[l], s->first + t,
                            s->n_tok - t < AT_ONCE ? s->n_tok - t : AT_ONCE, own.first + n,
                            state + (size_t)n * each);
    }
}
