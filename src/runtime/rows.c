/* runtime/rows.c: what each token has for itself: its row of the embedding, its angles, norms, integers. */
#include <string.h>

#include "base/math64.h"
#include "runtime/ops.h"

/* Sine and cosine of every token's angles, in double, rounded once (docs/numerics.md, "Rotary embedding"). */
static void fill_table(const Run *r, const RopeTable *table, int t)
{
    int    half = r->model->cfg.rotary_dim / 2;
    size_t at   = (size_t)t * (size_t)half;
    for (int i = 0; i < half; i++) {
        double s, c;
        math64_sincos((double)r->token[t].pos * table->inv_freq[i], &s, &c);
        table->cosine[at + (size_t)i] = (float)(c * table->factor);
        table->sine[at + (size_t)i]   = (float)(s * table->factor);
    }
}

/* Same for all layers, or for all with a window and for all without. Complete where embed ends. */
void rope_table(Run *r)
{
    int first, end;
    enter(r, "embed", 0, 0);
    if (r->model->cfg.positions != POS_ROPE)
        return;
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++) {
        fill_table(r, &r->rope[0], t);
        if (r->rope[1].cosine != r->rope[0].cosine)
            fill_table(r, &r->rope[1], t);
    }
}

/* x = embedding * embed_scale, + the position's row where positions are learned. */
void embed(Run *r, const Act *x)
{
    const Model *m = r->model;
    int          first, end;
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++) {
        embedding_row(&m->embed, r->token[t].token, act_row(x, t));
        if (r->embed_scale != 1.0f)
            r->kernels->scale(act_row(x, t), r->embed_scale, x->width);
        if (m->cfg.positions == POS_LEARNED) {
            embedding_row(&m->pos_embed, r->token[t].pos, act_row(&r->y, t));
            r->kernels->add(act_row(x, t), act_row(&r->y, t), x->width);
        }
    }
    wait_all(r);
}

void normalize(const Run *r, float *y, const float *x, NormVectors v, int n)
{
    if (r->model->cfg.norm == NORM_LAYER)
        r->kernels->layer_norm(y, x, v.w, v.b, n, r->norm_eps);
    else
        r->kernels->rms_norm(y, x, v.w, n, r->norm_eps);
}

void quantize(const Run *r, const Act *x, int t, int at, int n, int bits)
{
    int16_t *q = x->q + (size_t)t * x->q_stride + at;
    float   *d = x->d + (size_t)t * x->d_stride + at / SUPERBLOCK;
    r->kernels->quantize(q, d, act_row(x, t) + at, n, bits);
}

/* y = norm(x), or x where the model has no such norm; and its integers where bits says so. */
void norm(Run *r, Act *y, const Act *x, NormVectors v, int bits)
{
    int first, end;
    enter(r, "norm", 0, 0);
    my_rows(r, &first, &end);
    for (int t = first; t < end; t++) {
        if (v.w)
            normalize(r, act_row(y, t), act_row(x, t), v, x->width);
        else
            memcpy(act_row(y, t), act_row(x, t), (size_t)x->width * sizeof(float));
        if (bits)
            quantize(r, y, t, 0, y->width, bits);
    }
    y->bits = bits;
    wait_rows(r);
}

void integers(Run *r, Act *x, int bits)
{
    int first, end;
    x->bits = bits;
    if (!bits)
        return;
    my_rows(r, &first, &end);
    for (int t = first; t < end; t++)
        quantize(r, x, t, 0, x->width, bits);
    wait_rows(r);
}
