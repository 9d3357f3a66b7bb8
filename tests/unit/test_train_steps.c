/* A step of training: gradients added up over parts of a batch, and what clipping and AdamW make of
 * them, against AdamW in double. */
#include <math.h>

#include "openblas.h"
#include "test.h"
#include "tiny_training.h"

/* ---- Parts of a batch ------------------------------------------------------------------------ */

/* Largest over the tensors of |a - b| / |b|, as vectors. */
static double tensors_apart(const Params *p, const float *a, const float *b)
{
    double most = 0;
    for (int i = 0; i < p->n; i++) {
        double apart = 0, size = 0;
        for (size_t j = p->at[i]; j < p->at[i] + params_length(p, i); j++) {
            apart += ((double)a[j] - (double)b[j]) * ((double)a[j] - (double)b[j]);
            size += (double)b[j] * (double)b[j];
        }
        most = fmax(most, sqrt(apart / fmax(size, 1e-30)));
    }
    return most;
}

/* Two steps at rate 0, which see other windows and masks: losses, and the gradients of each. */
static void two_gradients(Tiny *x, double loss[2], float *g[2])
{
    double norm;
    for (int i = 0; i < 2; i++) {
        loss[i] = tiny_step(x, &norm);
        memcpy(g[i], x->t.g, x->p.n_floats * sizeof *g[i]);
    }
}

/* Parts of 1, 3 and 8 sequences against the whole 11. Only the order of sums differs and the shapes
 * of OpenBLAS's products: f32 arithmetic is within 2.1e-6 of float64 by tensor (docs/train.md), so
 * two ways are within 4.2e-6 of each other where sums are as long as there; twice that is allowed,
 * for kernels of other processors (five of OpenBLAS's were at most 2.1e-6 apart). Losses are summed
 * in double and differ by the rounding of each token's logits. A sequence left out, counted twice
 * or weighed by its part is an error of about a tenth. */
static void compare_parts(double rate)
{
    static const int micro[] = { 1, 3, 8 };
    Config        c = tiny_config();
    TrainSettings s = tiny_settings();
    Tiny          whole, part;
    double        loss[2], part_loss[2];
    s.dropout = rate;
    s.schedule.lr = s.schedule.min_lr = 0;
    if (!tiny_open(&whole, &c, &s, 2))
        return;
    float *g[2] = { params_array(&whole.p, NULL), params_array(&whole.p, NULL) };
    float *part_g[2] = { params_array(&whole.p, NULL), params_array(&whole.p, NULL) };
    two_gradients(&whole, loss, g);
    CHECK(tensors_apart(&whole.p, g[1], g[0]) > 0.1, "both steps have the same gradients");
    for (int i = 0; i < 3; i++) {
        s.micro = micro[i];
        if (!tiny_open(&part, &c, &s, 2))
            break;
        two_gradients(&part, part_loss, part_g);
        for (int j = 0; j < 2; j++) {
            double apart = tensors_apart(&whole.p, part_g[j], g[j]);
            CHECK(apart <= 8.4e-6, "parts of %d, dropout %g, step %d: a gradient is %g apart",
                  micro[i], rate, j, apart);
            CHECK(fabs(part_loss[j] - loss[j]) <= 1e-7 * loss[j],
                  "parts of %d, dropout %g, step %d: loss %.9g, whole %.9g", micro[i], rate, j,
                  part_loss[j], loss[j]);
        }
        tiny_close(&part);
    }
    for (int j = 0; j < 2; j++) {
        free(g[j]);
        free(part_g[j]);
    }
    tiny_close(&whole);
}

static void parts_of_a_batch_add_up_to_it(void)
{
    compare_parts(0);
    compare_parts(0.3);
}

/* Steps that clip, drop and decay: bits of everything that a step changes. */
static void bits_do_not_depend_on_threads(void)
{
    Config        c = tiny_config();
    TrainSettings s = tiny_settings();
    Tiny          one, more;
    double        loss, norm, more_norm;
    s.dropout = 0.2;
    s.clip    = 0.5;
    for (int micro = 3; micro <= TINY_BATCH; micro += 8)
        for (int threads = 2; threads <= 3; threads++) {
            s.micro = micro;
            if (!tiny_open(&one, &c, &s, 1))
                return;
            if (!tiny_open(&more, &c, &s, threads)) {
                tiny_close(&one);
                return;
            }
            for (int i = 0; i < 3; i++) {
                size_t n_bytes = one.p.n_floats * sizeof(float);
                loss = tiny_step(&one, &norm);
                CHECK(tiny_step(&more, &more_norm) == loss && norm == more_norm,
                      "parts of %d, %d threads, step %d: loss or norm", micro, threads, i);
                CHECK(memcmp(one.t.g, more.t.g, n_bytes) == 0,
                      "parts of %d, %d threads, step %d: gradients", micro, threads, i);
                CHECK(memcmp(one.t.w, more.t.w, n_bytes) == 0
                          && memcmp(one.t.m, more.t.m, n_bytes) == 0
                          && memcmp(one.t.v, more.t.v, n_bytes) == 0,
                      "parts of %d, %d threads, step %d: what AdamW made", micro, threads, i);
            }
            tiny_close(&one);
            tiny_close(&more);
        }
}

/* ---- Clipping and AdamW ---------------------------------------------------------------------- */

typedef struct Double { double *w, *m, *v; } Double;

static Double double_of(const Tiny *x)
{
    size_t n = x->p.n_floats;
    Double d = { calloc(n, sizeof *d.w), calloc(n, sizeof *d.m), calloc(n, sizeof *d.v) };
    for (size_t i = 0; i < n; i++)
        d.w[i] = (double)x->t.w[i];
    return d;
}

static void double_free(Double *d)
{
    free(d->w);
    free(d->m);
    free(d->v);
}

static double gradient_norm(const Params *p, const float *g)
{
    double sum = 0;
    for (size_t i = 0; i < p->n_floats; i++)
        sum += (double)g[i] * (double)g[i];
    return sqrt(sum);
}

/* Step t (from 1) of Loshchilov and Hutter 2019, algorithm 2, with bias correction; gradients times
 * scale; matrices alone decay. */
static void adamw_in_double(Double *d, const Params *p, const float *g, const OptimizerOptions *o,
                            int t, double lr, double scale)
{
    for (int i = 0; i < p->n; i++)
        for (size_t j = p->at[i]; j < p->at[i] + params_length(p, i); j++) {
            double grad = (double)g[j] * scale, decay = p->spec[i].k ? o->decay : 0;
            d->m[j] = o->beta1 * d->m[j] + (1 - o->beta1) * grad;
            d->v[j] = o->beta2 * d->v[j] + (1 - o->beta2) * grad * grad;
            double mean = d->m[j] / (1 - pow(o->beta1, t)),
                   square = d->v[j] / (1 - pow(o->beta2, t));
            d->w[j] -= lr * decay * d->w[j] + lr * mean / (sqrt(square) + o->eps);
        }
}

static double farthest(const float *a, const double *b, size_t n)
{
    double most = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i] - b[i]));
        size = fmax(size, fabs(b[i]));
    }
    return most / size;
}

/* Four steps at a rising rate with gradients clipped to `clip`; norms [4] are those before
 * clipping. The norm's squares are summed in f32: it is within 1e-6, so is what scales by it,
 * twice that its square; 1 - 0.9f and 1 - 0.95f are 2.4e-7 off and other roundings 6e-8 each:
 * moments are within 3e-6 of their largest. Parameters are changed by up to 0.02 a step, which
 * takes 0.02 * 3e-6 of that error and one rounding more: four steps are within 1e-6 of the
 * largest, of about 1. */
static void compare_with_double(Tiny *x, double clip, double norms[4])
{
    size_t n = x->p.n_floats;
    Double d = double_of(x);
    for (int t = 1; t <= 4; t++) {
        tiny_step(x, &norms[t - 1]);
        double norm = gradient_norm(&x->p, x->t.g),
               scale = clip > 0 && norm > clip ? clip / norm : 1, lr = 0.02 * (t < 3 ? t / 3.0 : 1);
        adamw_in_double(&d, &x->p, x->t.g, &x->t.s.adamw, t, lr, scale);
        CHECK(fabs(norms[t - 1] - norm) <= 1e-6 * norm,
              "clip %g, step %d: norm %.9g, in double %.9g", clip, t, norms[t - 1], norm);
        CHECK(farthest(x->t.m, d.m, n) <= 3e-6, "clip %g, step %d: m is %g apart", clip, t,
              farthest(x->t.m, d.m, n));
        CHECK(farthest(x->t.v, d.v, n) <= 3e-6, "clip %g, step %d: v is %g apart", clip, t,
              farthest(x->t.v, d.v, n));
        CHECK(farthest(x->t.w, d.w, n) <= 1e-6, "clip %g, step %d: w is %g apart", clip, t,
              farthest(x->t.w, d.w, n));
    }
    double_free(&d);
}

static bool open_clipped(Tiny *x, double clip)
{
    Config        c = tiny_config();
    TrainSettings s = tiny_settings();
    s.clip     = clip;
    s.schedule = (Schedule){ .lr = 0.02, .min_lr = 0.02, .warmup = 3 };
    return tiny_open(x, &c, &s, 2);
}

/* Clipping is off; on, with a limit that every step, some steps and no step reaches. */
static void a_step_is_adamw_of_clipped_gradients(void)
{
    Tiny   x, free_one;
    double norms[4], clipped[4], clip[3];
    if (!open_clipped(&free_one, 0))
        return;
    compare_with_double(&free_one, 0, norms);
    double low = fmin(fmin(norms[0], norms[1]), fmin(norms[2], norms[3])),
           high = fmax(fmax(norms[0], norms[1]), fmax(norms[2], norms[3]));
    clip[0] = low / 8;
    clip[1] = (low + high) / 2;
    clip[2] = high * 1.001;
    for (int i = 0; i < 3 && open_clipped(&x, clip[i]); i++) {
        int over = 0;
        compare_with_double(&x, clip[i], clipped);
        for (int t = 0; t < 4; t++)
            over += clipped[t] > clip[i];
        CHECK(i == 0 ? over == 4 : i == 1 ? over > 0 && over < 4 : over == 0,
              "clip %g: %d of 4 steps are over it", clip[i], over);
        bool same = memcmp(x.t.w, free_one.t.w, x.p.n_floats * sizeof(float)) == 0
            && memcmp(x.t.v, free_one.t.v, x.p.n_floats * sizeof(float)) == 0;
        CHECK(same == (i == 2), "clip %g: %s bits as without", clip[i],
              same ? "the same" : "other");
        tiny_close(&x);
    }
    tiny_close(&free_one);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST_TRAINING(parts_of_a_batch_add_up_to_it);
    TEST_TRAINING(bits_do_not_depend_on_threads);
    TEST_TRAINING(a_step_is_adamw_of_clipped_gradients);
    return TEST_END();
}
