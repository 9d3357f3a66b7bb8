/* train/block_check.c: checks the gradients of one block (block_lab.h) against central
 * differences. The differences come from block_double.c, which computes the same block in
 * double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "train/block_lab.h"

typedef struct BlockCheck {
    const BlockLab *lab;
    BlockDouble     block;
    double         *memory, *w, *x, *y, *room;
    size_t          size;      /* elements of x */
    double          largest;   /* of all gradients checked so far */
} BlockCheck;

static void widen(double *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (double)x[i];
}

static bool prepare(BlockCheck *c, Error *err)
{
    const BlockLab *lab = c->lab;
    c->block = (BlockDouble){ .p = &lab->params,
                              .shape = &lab->shape,
                              .inv_freq = lab->inv_freq,
                              .factor = lab->factor,
                              .rot = lab->rope.rot,
                              .n_seqs = lab->n_seqs,
                              .seq_len = lab->seq_len };
    c->size  = (size_t)lab->n_tok * (size_t)lab->config.d_model;
    size_t room = block_double_room(&c->block), all, n_bytes;
    if (room == 0 || !add_size(room, lab->params.n_floats + 2 * c->size, &all)
        || !mul_size(all, sizeof(double), &n_bytes))
        return fail(err, SYSTEM,
                    "out of memory: the sizes of a block in double precision overflow");
    if (!memory_fits((double)n_bytes, "a block in double precision takes", err))
        return false;
    if (!(c->memory = malloc(n_bytes)))
        return fail(err, SYSTEM, "out of memory for a block in double precision");
    c->w    = c->memory;
    c->x    = c->w + lab->params.n_floats;
    c->y    = c->x + c->size;
    c->room = c->y + c->size;
    c->block.w = c->w;
    widen(c->w, lab->w, lab->params.n_floats);
    widen(c->x, lab->x, c->size);
    return true;
}

/* sum(y * d_y): a loss whose gradient with respect to y is d_y. y stays in c->y. */
static double loss(BlockCheck *c)
{
    double sum = 0;
    block_double(&c->block, c->y, c->x, c->room);
    for (size_t i = 0; i < c->size; i++)
        sum += c->y[i] * (double)c->lab->d_y[i];
    return sum;
}

/* The divisor is the distance of the two values that double could hold, not 2 * step. */
static double difference(BlockCheck *c, double *place, double step)
{
    double kept = *place, above, below;
    *place = kept + step;
    above  = loss(c);
    *place = kept - step;
    below  = loss(c);
    *place = kept;
    return (above - below) / ((kept + step) - (kept - step));
}

/* The step is the cube root of double's precision: there the errors of the formula and of
 * rounding are about equal. If the block bends within a step (the norm of an x near 0 does), try
 * shorter ones: the differences approach a right gradient but never a wrong one. */
static double expected_gradient(BlockCheck *c, double *place, double computed)
{
    enum { SHORTER = 6 };
    double step = 6e-6 * fmax(1, fabs(*place)), expected = difference(c, place, step);
    for (int i = 0;
         i < SHORTER && fabs(computed - expected) > 1e-5 * fmax(fabs(computed), fabs(expected));
         i++) {
        double shorter = difference(c, place, step /= 8);
        expected = fabs(computed - shorter) < fabs(computed - expected) ? shorter : expected;
    }
    return expected;
}

/* Index of sample i of `samples` in n elements: a random one in each of `samples` equal parts. */
static size_t sample_at(size_t n, int samples, int i, uint64_t seed, int tensor)
{
    uint32_t word[4], key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    size_t   from = n / (size_t)samples * (size_t)i, part = n / (size_t)samples;
    philox4x32((uint32_t[4]){ (uint32_t)i, (uint32_t)tensor, 0, 2 }, key, word);
    return from + word[0] % part;
}

/* Checks one tensor. Its error is absolute here; lab_check makes it relative. */
static LabCheck check_tensor(BlockCheck *c, int tensor, double *values, const float *gradient,
                             size_t n, int samples, uint64_t seed, double *largest)
{
    LabCheck k = { .tensor = tensor,
                   .samples = n < (size_t)samples ? (int)n : samples,
                   .error = -1 };
    *largest = 0;
    for (int i = 0; i < k.samples; i++) {
        size_t at = sample_at(n, k.samples, i, seed, tensor);
        double computed = (double)gradient[at],
               expected = expected_gradient(c, values + at, computed),
               error = fabs(computed - expected);
        *largest = fmax(*largest, fabs(expected));
        if (!(error <= k.error) || k.error < 0) { /* true for NaN too */
            k.at = at;
            k.computed = computed;
            k.expected = expected;
            k.error = error;
        }
        if (isnan(k.error))
            break;
    }
    c->largest = fmax(c->largest, *largest);
    return k;
}

/* The largest |y - y in double|. */
static double largest_difference(const BlockCheck *c)
{
    double most = 0;
    for (size_t i = 0; i < c->size; i++) {
        double error = fabs(c->y[i] - (double)c->lab->y[i]);
        most = error_is_worse(error, most) ? error : most;
    }
    return most;
}

int lab_check(const BlockLab *lab, int samples, uint64_t seed, LabCheck *check, double *y_error,
              const Progress *progress, Error *err)
{
    BlockCheck   c = { .lab = lab };
    int     n = 0;
    double *largest = calloc((size_t)lab->params.n + 1, sizeof *largest);
    bool    ok = (largest || no_memory(NULL, err)) && prepare(&c, err);
    if (ok) {
        loss(&c);
        *y_error = largest_difference(&c);
        check[n] = check_tensor(&c, -1, c.x, lab->d_x, c.size, samples, seed, &largest[n]);
        n++;
    }
    for (int i = 0; ok && i < lab->params.n; i++)
        if (lab->params.spec[i].layer == 0) {
            check[n] = check_tensor(&c, i, c.w + lab->params.at[i], lab->d_w + lab->params.at[i],
                                    params_length(&lab->params, i), samples, seed, &largest[n]);
            n++;
            ok = progress_tell(progress, i + 1, lab->params.n, err);
        }
    for (int i = 0; i < n; i++)
        check[i].error /= fmax(fmax(largest[i], c.largest / 100), 1e-30);
    free(c.memory);
    free(largest);
    return ok ? n : -1;
}

double lab_check_flops(const BlockLab *lab, int samples)
{
    const BlockShape *s = &lab->shape;
    double weights = 0, runs = 1 + 2 * fmin(samples, (double)lab->n_tok * lab->config.d_model);
    for (int i = 0; i < lab->params.n; i++)
        if (lab->params.spec[i].layer == 0) {
            double n = (double)params_length(&lab->params, i);
            weights += n;
            runs += 2 * fmin(samples, n);
        }
    return runs * 2 * lab->n_tok * (weights + 2.0 * s->heads * s->head_dim * lab->seq_len);
}
