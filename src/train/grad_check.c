/* train/grad_check.c: checks the gradients of a whole model. net.c computes them in f32,
 * reference.c the loss in double. Each piece of work checks one parameter tensor with parameters
 * of its own, which it may change. */
#include "train/block_lab.h"

#include <math.h>
#include <stdlib.h>

#include "base/number.h"
#include "train/net.h"

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
    int           pieces, first;  /* first: tensor of piece 0 in this round */
} GradCheck;

/* The last word of the counter, 3, keeps these numbers apart from other uses of the seed. */
static uint32_t draw(uint64_t seed, uint32_t a, uint32_t b)
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

/* Checks samples of tensor i. An error is relative to the gradient, or to the tensor's root mean
 * square if that is larger, so that tiny gradients do not count their rounding. */
static void check_tensor(const GradCheck *c, int i, double *w, double *room)
{
    size_t        n = params_length(c->p, i), largest;
    const float  *g = c->g + c->p->at[i];
    double        rms = root_mean_square(g, n, &largest);
    GradCheckRow *r = &c->row[i];
    *r = (GradCheckRow){ .name = c->p->spec[i].name,
                         .worst = -1,
                         .n = n < (size_t)c->samples ? (int)n : c->samples };
    for (int s = 0; s < r->n; s++) {
        size_t j = r->n == (int)n ? (size_t)s
            : s == 0              ? largest
                                  : draw(c->seed, (uint32_t)i, (uint32_t)s) % n;
        double d = expected_gradient(c, w, room, c->p->at[i] + j, (double)g[j]),
               error = fabs((double)g[j] - d) / fmax(fmax(fabs(d), rms), 1e-30);
        if (error_is_worse(error, r->worst)) {
            r->worst         = error;
            r->at_grad       = (double)g[j];
            r->at_difference = d;
            r->element       = j;
        }
    }
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
    if (c->first + piece < c->p->n)
        check_tensor(c, c->first + piece, w, w + c->p->n_floats);
}

/* Works in rounds of one tensor per piece, so that it can report progress between them. Tensors
 * take about the same time each, so rounds cost nothing. */
static bool check_all(GradCheck *c, const Progress *progress, Error *err)
{
    crew_each(c->crew, c->pieces, widen_piece, c);
    for (c->first = 0; c->first < c->p->n; c->first += c->pieces) {
        crew_each(c->crew, c->pieces, check_piece, c);
        if (!progress_tell(progress, c->first + c->pieces, c->p->n, err))
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
        int32_t id =
            (int32_t)(draw(c->seed, UINT32_MAX, (uint32_t)t) % (uint32_t)c->p->config.vocab_size);
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
                     .pieces = crew->threads };
    c.doubles = p->n_floats + reference_room(p, n_tok);
    float *g  = params_array(p, err);
    c.memory  = g ? malloc((size_t)c.pieces * c.doubles * sizeof *c.memory) : NULL;
    c.token   = calloc((size_t)n_tok, sizeof *c.token);
    c.target  = calloc((size_t)n_tok, sizeof *c.target);
    c.g       = g;
    bool ok = (g && c.memory && c.token && c.target)
        || fail(err, SYSTEM, "out of memory for a gradient check");
    ok = ok && gradients(&c, g, err) && check_all(&c, progress, err);
    free(g);
    free(c.memory);
    free(c.token);
    free(c.target);
    return ok;
}
