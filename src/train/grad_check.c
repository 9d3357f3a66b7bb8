/* train/grad_check.c: checks the gradients of a whole model. net.c computes them in f32,
 * reference.c the loss in double. Each piece of work checks one element of a tensor, with its own
 * copy of the parameters, which it may change. */
#include "train/block_lab.h"

#include <math.h>
#include <stdlib.h>

#include "base/number.h"
#include "train/net.h"

/* One checked element: sample `number` of a tensor. */
typedef struct Sample {
    int    tensor, number;
    double error, grad, difference;
    size_t element;
} Sample;

typedef struct GradCheck {
    const Params *p;
    Crew         *crew;
    const float  *w, *g;
    int32_t      *token, *target;
    int           n_tok, samples;
    uint64_t      seed;
    GradCheckRow *row;
    double       *memory;       /* of each piece: parameters, then room [pieces, doubles] */
    size_t        doubles;
    int           pieces;
    Sample       *sample;       /* those of this round [pieces] */
    int           tensor, number; /* the next one */
} GradCheck;

/* The last word of the counter, 3, separates these numbers from other uses of the seed. */
static uint32_t random_u32(uint64_t seed, uint32_t a, uint32_t b)
{
    uint32_t word[4];
    philox4x32((uint32_t[4]){ a, b, 0, 3 }, (uint32_t[2]){ (uint32_t)seed, (uint32_t)(seed >> 32) },
               word);
    return word[0];
}

static double central_difference(const GradCheck *c, double *w, double *room, size_t at, double h)
{
    double was = w[at], up, down;
    w[at] = was + h;
    up = reference_loss(c->p, w, c->token, c->target, c->n_tok, room);
    w[at] = was - h;
    down = reference_loss(c->p, w, c->token, c->target, c->n_tok, room);
    w[at] = was;
    return (up - down) / (2 * h);
}

/* The central difference at step h. If the loss bends within it (an embedding near 0, followed
 * by a norm), try shorter steps: the differences approach a right gradient but never a wrong
 * one. */
static double expected_gradient(const GradCheck *c, double *w, double *room, size_t at, double g)
{
    enum { SHORTER = 6 };
    double h = 0x1p-18 * fmax(1, fabs(w[at])), d = central_difference(c, w, room, at, h);
    for (int i = 0; i < SHORTER && fabs(g - d) > 1e-5 * fmax(fabs(g), fabs(d)); i++) {
        double shorter = central_difference(c, w, room, at, h /= 8);
        d = fabs(g - shorter) < fabs(g - d) ? shorter : d;
    }
    return d;
}

/* Also sets *largest to the index of the largest element. */
static double root_mean_square(const float *g, size_t n, size_t *largest)
{
    double sum = 0;
    *largest = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)g[i] * (double)g[i];
        if (fabsf(g[i]) > fabsf(g[*largest]))
            *largest = i;
    }
    return sqrt(sum / (double)n);
}

/* Checks one sample. Its error is relative to the gradient, or to the tensor's root mean square if
 * that is larger, so that the rounding of tiny gradients does not count. */
static void check_sample(const GradCheck *c, Sample *s, double *w, double *room)
{
    size_t       n = params_length(c->p, s->tensor), at = c->p->at[s->tensor], largest;
    const float *g = c->g + at;
    double       rms = root_mean_square(g, n, &largest);
    s->element    = c->row[s->tensor].n == (int)n ? (size_t)s->number
           : s->number == 0                       ? largest
                            : random_u32(c->seed, (uint32_t)s->tensor, (uint32_t)s->number) % n;
    s->grad       = (double)g[s->element];
    s->difference = expected_gradient(c, w, room, at + s->element, s->grad);
    s->error = fabs(s->grad - s->difference) / fmax(fmax(fabs(s->difference), rms), 1e-30);
}

static void keep_worst(GradCheckRow *r, const Sample *s)
{
    if (!error_is_worse(s->error, r->worst))
        return;
    r->worst         = s->error;
    r->at_grad       = s->grad;
    r->at_difference = s->difference;
    r->element       = s->element;
}

/* Each piece gets its own copy of the parameters in double. */
static void widen_piece(void *arg, int piece, float *scratch)
{
    const GradCheck *c = arg;
    double      *w = c->memory + (size_t)piece * c->doubles;
    (void)scratch;
    for (size_t i = 0; i < c->p->n_floats; i++)
        w[i] = (double)c->w[i];
}

static void check_piece(void *arg, int piece, float *scratch)
{
    const GradCheck *c = arg;
    double      *w = c->memory + (size_t)piece * c->doubles;
    (void)scratch;
    check_sample(c, &c->sample[piece], w, w + c->p->n_floats);
}

/* The number of samples of all tensors. */
static double clear_rows(const GradCheck *c)
{
    double all = 0;
    for (int i = c->p->first; i < c->p->n; i++) {
        size_t n = params_length(c->p, i);
        c->row[i] = (GradCheckRow){ .name = c->p->spec[i].name,
                                    .worst = -1,
                                    .n = n < (size_t)c->samples ? (int)n : c->samples };
        all += c->row[i].n;
    }
    return all;
}

/* The samples of the next round, at most one for each piece. */
static int next_samples(GradCheck *c)
{
    int n = 0;
    while (n < c->pieces && c->tensor < c->p->n)
        if (c->number < c->row[c->tensor].n)
            c->sample[n++] = (Sample){ .tensor = c->tensor, .number = c->number++ };
        else
            c->tensor++, c->number = 0;
    return n;
}

/* Works in rounds of one sample per piece, so that the caller can stop it between them: a tensor
 * takes seconds. */
static bool check_all(GradCheck *c, const Progress *progress, Error *err)
{
    double all = clear_rows(c), done = 0;
    crew_each(c->crew, c->pieces, widen_piece, c);
    for (int n; (n = next_samples(c)) > 0;) {
        crew_each(c->crew, n, check_piece, c);
        for (int i = 0; i < n; i++)
            keep_worst(&c->row[c->sample[i].tensor], &c->sample[i]);
        if (!progress_tell(progress, done += n, all, err))
            return false;
    }
    return true;
}

/* The gradients of the backward pass, for one sequence of random tokens. */
static bool gradients(GradCheck *c, float *g, Error *err)
{
    Net *net = net_new(c->p, c->crew, 1, c->n_tok, err);
    if (!net)
        return false;
    for (int t = 0; t <= c->n_tok; t++) {
        const uint32_t vocab = (uint32_t)c->p->config.vocab_size;
        int32_t        id    = (int32_t)(random_u32(c->seed, UINT32_MAX, (uint32_t)t) % vocab);
        if (t < c->n_tok)
            c->token[t] = id;
        if (t > 0)
            c->target[t - 1] = id;
    }
    net_loss(net, c->w, g, &(NetBatch){ .token = c->token, .target = c->target, .n_seqs = 1 },
             1.0f / (float)c->n_tok);
    net_free(net);
    return true;
}

bool grad_check(GradCheckRow *rows, const Params *p, Crew *crew, const float *w, int n_tok,
                int samples, uint64_t seed, const Progress *progress, Error *err)
{
    GradCheck  c = { .p = p,
                     .crew = crew,
                     .w = w,
                     .n_tok = n_tok,
                     .samples = samples,
                     .seed = seed,
                     .row = rows,
                     .pieces = crew->threads,
                     .tensor = p->first };
    c.doubles = p->n_floats + reference_room(p, n_tok);
    float *g  = params_trained_array(p, err);
    c.memory  = g ? malloc((size_t)c.pieces * c.doubles * sizeof *c.memory) : NULL;
    c.sample  = calloc((size_t)c.pieces, sizeof *c.sample);
    c.token   = calloc((size_t)n_tok, sizeof *c.token);
    c.target  = calloc((size_t)n_tok, sizeof *c.target);
    c.g       = g;
    bool ok = (g && c.memory && c.sample && c.token && c.target)
        || fail(err, SYSTEM, "out of memory for a gradient check");
    ok = ok && gradients(&c, g, err) && check_all(&c, progress, err);
    free(g);
    free(c.memory);
    free(c.sample);
    free(c.token);
    free(c.target);
    return ok;
}
