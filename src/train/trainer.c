/* train/trainer.c: picks random windows of the data, sums the gradients of a batch, steps, and
 * validates. */
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

bool trainer_open(Trainer *t, const Params *p, Crew *crew, const TrainData *data,
                  const TrainSettings *s, Error *err)
{
    size_t n = (size_t)s->micro * (size_t)s->seq_len;
    *t = (Trainer){ .s = *s, .data = *data, .p = p, .crew = crew };
    if (!net_fits(p, 1, 3, s->micro, s->seq_len, err))
        return false;
    t->loss   = calloc((size_t)s->n_steps + 1, sizeof *t->loss);
    t->token  = malloc(n * sizeof *t->token);
    t->target = malloc(n * sizeof *t->target);
    bool ok = (t->loss && t->token && t->target) || fail(err, SYSTEM, "out of memory for a batch");
    ok = ok && (t->w = params_array(p, err)) && (t->g = params_trained_array(p, err))
        && (t->m = params_trained_array(p, err)) && (t->v = params_trained_array(p, err))
        && (t->net = net_new(p, crew, s->micro, s->seq_len, err));
    if (!ok)
        trainer_close(t);
    return ok;
}

void trainer_close(Trainer *t)
{
    net_free(t->net);
    free(t->w);
    free(t->g);
    free(t->m);
    free(t->v);
    free(t->loss);
    free(t->val);
    free(t->token);
    free(t->target);
    *t = (Trainer){ 0 };
}

size_t trainer_bytes(const Trainer *t)
{
    return (t->p->n_floats + 3 * t->p->n_trained) * sizeof(float) + net_bytes(t->net);
}

/* ---- A step ---------------------------------------------------------------------------------- */

/* The start of sequence i of a step. All starts are equally likely: Philox with key = seed and
 * counter = (i, step, 2). */
static size_t window_start(const Trainer *t, int64_t step, int i)
{
    const uint32_t key[2] = { (uint32_t)t->s.seed, (uint32_t)(t->s.seed >> 32) };
    uint32_t       word[4];
    double         places = (double)(t->data.n_train - (size_t)t->s.seq_len);
    philox4x32((uint32_t[4]){ (uint32_t)i, (uint32_t)step, (uint32_t)((uint64_t)step >> 32), 2 },
               key, word);
    return (size_t)(((double)word[0] * 0x1p-32 + (double)(word[1] >> 11) * 0x1p-53) * places);
}

/* Copies the window at `start` into row `row` of the batch. A token's target is the token after
 * it. */
static void take_window(Trainer *t, int row, size_t start)
{
    size_t n = (size_t)t->s.seq_len, at = (size_t)row * n;
    memcpy(t->token + at, t->data.token + start, n * sizeof *t->token);
    memcpy(t->target + at, t->data.token + start + 1, n * sizeof *t->target);
}

/* Returns the mean loss of the step's batch and fills t->g. Works through micro-batches, because
 * the activations of a whole batch may not fit into memory; the gradients add up. */
static double batch_gradients(Trainer *t)
{
    const TrainSettings *s = &t->s;
    size_t targets = (size_t)s->batch * (size_t)s->seq_len;
    double sum = 0;
    memset(t->g, 0, t->p->n_trained * sizeof *t->g);
    for (int first = 0, n; first < s->batch; first += n) {
        n = s->batch - first < s->micro ? s->batch - first : s->micro;
        for (int i = 0; i < n; i++)
            take_window(t, i, window_start(t, t->step, first + i));
        NetBatch b = { .token = t->token,
                       .target = t->target,
                       .n_seqs = n,
                       .first_seq = (uint64_t)first,
                       .drop = {
                           .p = (float)s->dropout, .seed = s->seed, .step = (uint32_t)t->step } };
        sum += net_loss(t->net, t->w, t->g, &b, (float)(1.0 / (double)targets));
    }
    return sum / (double)targets;
}

bool trainer_step(Trainer *t, double *loss, double *norm, Error *err)
{
    const TrainSettings *s = &t->s;
    Optimizer            o = { .p = t->p, .crew = t->crew, .opt = s->adamw, .m = t->m, .v = t->v };
    *loss = batch_gradients(t);
    *norm = grads_norm(t->p, t->crew, t->g);
    if (!isfinite(*loss) || !isfinite(*norm))
        return fail(err, NO,
                    "step %lld: the %s is not finite: expected finite numbers, found loss "
                    "%g, gradient norm %g; try a smaller --lr, a longer --warmup or --clip",
                    (long long)t->step + 1, isfinite(*loss) ? "gradient" : "loss", fabs(*loss),
                    fabs(*norm)); /* fabs: a NaN may carry a minus sign */
    double scale = s->clip > 0 && *norm > s->clip ? s->clip / *norm : 1;
    optimizer_step(&o, t->w, t->g, t->step + 1, schedule_rate(&s->schedule, t->step), scale);
    t->loss[t->step++] = (float)*loss;
    return true;
}

bool trainer_check(Trainer *t, Error *err)
{
    NetBatch b = { .token = t->token, .target = t->target, .n_seqs = 1 };
    take_window(t, 0, 0);
    double loss = net_loss(t->net, t->w, NULL, &b, 0);
    return isfinite(loss) ? true
                          : fail(err, NO,
                                 "step %lld: the loss after this step is not "
                                 "finite: expected a finite number, found %g; try "
                                 "a smaller --lr, a longer --warmup or --clip",
                                 (long long)t->step, fabs(loss));
}

/* ---- Validation ------------------------------------------------------------------------------ */

/* Mean loss over n of `all` windows, evenly spaced in the held-out data. */
static double windows_loss(Trainer *t, size_t all, size_t n)
{
    size_t len = (size_t)t->s.seq_len;
    double sum = 0;
    for (size_t first = 0, part; first < n; first += part) {
        part = n - first < (size_t)t->s.micro ? n - first : (size_t)t->s.micro;
        for (size_t i = 0; i < part; i++)
            take_window(t, (int)i, t->data.n_train + (first + i) * all / n * len);
        NetBatch b = { .token = t->token, .target = t->target, .n_seqs = (int)part };
        sum += net_loss(t->net, t->w, NULL, &b, 0);
    }
    return sum / (double)(n * len);
}

bool trainer_validate(Trainer *t, size_t most, bool note, double *loss, Error *err)
{
    size_t held = t->data.n - t->data.n_train,
           all = held > 0 ? (held - 1) / (size_t)t->s.seq_len : 0;
    size_t n = most > 0 && most < all ? most : all;
    *loss = NAN;
    if (n == 0)
        return true;
    *loss = windows_loss(t, all, n);
    if (!note)
        return true;
    if (!ARRAY_ROOM(t->val, t->cap_val, t->n_val + 1))
        return fail(err, SYSTEM, "out of memory for validation losses");
    t->val[t->n_val++] = (Validation){ t->step, (float)*loss };
    return true;
}
