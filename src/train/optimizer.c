/* train/optimizer.c: gradient norm, AdamW and learning rate, cut into pieces of PIECE elements. */
#include "train/net.h"

#include <math.h>

#include "base/number.h"

enum { PIECE = 16384 };

/* ---- Norm ------------------------------------------------------------------------------------ */

typedef struct Squares { const Crew *crew; const float *g; double *sum; } Squares;

static void square_piece(void *arg, size_t at, int n)
{
    const Squares *s = arg;
    s->sum[at / PIECE] = (double)s->crew->k->dot(s->g + at, s->g + at, n);
}

/* Sums the squares of AT_ONCE pieces at a time, so that no allocation depends on the model's
 * size. */
double grads_norm(const Params *p, const Crew *crew, const float *g)
{
    enum { AT_ONCE = 256 };
    double sum[AT_ONCE], total = 0;
    for (size_t first = 0, n; first < p->n_trained; first += n) {
        n = p->n_trained - first < AT_ONCE * PIECE ? p->n_trained - first : AT_ONCE * PIECE;
        Squares s = { crew, g + first, sum };
        crew_cut(crew, n, PIECE, square_piece, &s);
        for (int i = 0; i < pieces(n, PIECE); i++)
            total += sum[i];
    }
    return sqrt(total);
}

/* ---- AdamW ----------------------------------------------------------------------------------- */

typedef struct StepWork {
    const Crew  *crew;
    float       *w, *m, *v;
    const float *g;
    AdamwStep    step;
} StepWork;

static void step_piece(void *arg, size_t at, int n)
{
    const StepWork *s = arg;
    s->crew->k->adamw(s->w + at, s->m + at, s->v + at, s->g + at, n, &s->step);
}

/* The bias corrections 1 - beta^step (Kingma and Ba 2015, algorithm 1) go into two factors of
 * the step, lr / first and 1 / sqrt(second). Norms and biases have k = 0: by default they do not
 * decay. */
void optimizer_step(Optimizer *o, float *w, const float *g, int64_t step, double lr,
                    double grad_scale)
{
    const OptimizerOptions *opt = &o->opt;
    double first = 1 - math64_pow(opt->beta1, (double)step),
           second = 1 - math64_pow(opt->beta2, (double)step);
    for (int i = o->p->first; i < o->p->n; i++) {
        size_t   at = o->p->at[i];
        double   decay = opt->decay_all || o->p->spec[i].k ? opt->decay : 0;
        StepWork s = { .crew = o->crew, .w = w + at, .m = o->m + at, .v = o->v + at, .g = g + at,
                       .step = { (float)opt->beta1, (float)opt->beta2, (float)opt->eps,
                                 (float)grad_scale, (float)(1 - lr * decay),
                                 (float)(lr / first), (float)(1 / sqrt(second)) } };
        crew_cut(o->crew, params_length(o->p, i), PIECE, step_piece, &s);
    }
}

double schedule_rate(const Schedule *s, int64_t step)
{
    if (step < s->warmup)
        return s->lr * (double)(step + 1) / (double)s->warmup;
    if (s->n_steps <= s->warmup)
        return s->lr;
    double done = (double)(step - s->warmup) / (double)(s->n_steps - s->warmup), sine, cosine;
    math64_sincos(3.14159265358979323846 * (done < 1 ? done : 1), &sine, &cosine);
    return s->min_lr + 0.5 * (s->lr - s->min_lr) * (1 + cosine);
}
