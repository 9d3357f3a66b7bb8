/* train/rope_grad.c: rotary positions: the angles, and the rotation and its inverse. */
#include <stdlib.h>

#include "base/memory.h"
#include "base/number.h"
#include "train/train_ops.h"

/* Computes the same bits as runtime/ops.c. */
static void fill_position(RopeAngles *a, int pos, const double *inv_freq, double factor)
{
    size_t half = (size_t)a->rot / 2, at = (size_t)pos * half;
    for (size_t i = 0; i < half; i++) {
        double s, c;
        math64_sincos(pos * inv_freq[i], &s, &c);
        a->cosine[at + i]     = (float)(c * factor);
        a->sine[at + i]       = (float)(s * factor);
        a->minus_sine[at + i] = -a->sine[at + i];
    }
}

bool rope_angles_make(RopeAngles *a, int seq_len, int rot, const double *inv_freq, double factor,
                      Error *err)
{
    size_t n, n_bytes;
    *a = (RopeAngles){ .seq_len = seq_len, .rot = rot };
    if (!mul_size((size_t)seq_len, (size_t)rot / 2, &n)
        || !mul_size(n ? n : 1, 3 * sizeof(float), &n_bytes) || !(a->cosine = malloc(n_bytes)))
        return fail(err, SYSTEM, "out of memory for the RoPE angles of %d positions", seq_len);
    a->sine       = a->cosine + n;
    a->minus_sine = a->sine + n;
    for (int pos = 0; pos < seq_len; pos++)
        fill_position(a, pos, inv_freq, factor);
    return true;
}

void rope_angles_free(RopeAngles *a)
{
    free(a->cosine);
    *a = (RopeAngles){ 0 };
}

typedef struct Rotation {
    const Crew       *c;
    float            *x;
    const RopeAngles *a;
    int               heads, head_dim;
    bool              inverse;
} Rotation;

static void rotate_piece(void *arg, size_t at, int n)
{
    const Rotation *r = arg;
    size_t half = (size_t)r->a->rot / 2;
    for (size_t t = at; t < at + (size_t)n; t++) {
        size_t angle = t % (size_t)r->a->seq_len * half;
        r->c->k->rope(r->x + t * (size_t)(r->heads * r->head_dim), r->heads, r->head_dim, r->a->rot,
                      r->a->cosine + angle, (r->inverse ? r->a->minus_sine : r->a->sine) + angle);
    }
}

void rope_rotate(const Crew *c, float *x, const RopeAngles *a, int n_tok, int heads, int head_dim,
                 bool inverse)
{
    Rotation r = { c, x, a, heads, head_dim, inverse };
    if (a->rot > 0)
        crew_cut(c, (size_t)n_tok, NORM_PIECE, rotate_piece, &r);
}
