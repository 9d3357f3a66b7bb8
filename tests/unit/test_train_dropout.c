/* Dropout: what it keeps and how it scales, that going back drops the same, and what its masks
 * depend on. */
#include <math.h>

#include "openblas.h"
#include "test.h"
#include "tiny_training.h"

enum { MANY = 200000 };

static bool open_crew(Crew *c, int threads)
{
    Error err = { 0 };
    bool  ok  = crew_open(c, threads, &err);
    CHECK(ok && c->threads == threads, "%d of %d threads: %s", c->threads, threads, err.msg);
    return ok;
}

/* Dropped ones of n are 0, kept ones the scale: dropout of ones. */
static float *mask_of(const Crew *c, float p, uint64_t seed, uint32_t step, uint32_t site,
                      uint64_t first, size_t n)
{
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = 1;
    dropout(c, x, &(DropoutKey){ .p = p, .seed = seed, .step = step, .site = site }, first, n);
    return x;
}

/* Is a count of n draws of this probability within five deviations? By chance it is not once in 1.7
 * million, and the seeds are fixed. */
static bool likely(double count, double n, double probability)
{
    return fabs(count - n * probability) <= 5 * sqrt(n * probability * (1 - probability));
}

/* ---- One mask -------------------------------------------------------------------------------- */

/* 1 - p, 1 / that and the product round, each by at most 2^-24 of itself. */
static void kept_elements_make_up_for_dropped_ones(void)
{
    static const float rates[] = { 0.01f, 0.1f, 0.3f, 0.5f, 0.9f };
    Crew crew = { 0 };
    if (!open_crew(&crew, 2))
        return;
    for (int r = 0; r < 5; r++) {
        float *x = malloc(MANY * sizeof *x), p = rates[r];
        int    dropped = 0;
        double worst = 0;
        for (int i = 0; i < MANY; i++)
            x[i] = (float)(i % 1000 - 500) + 0.25f;
        dropout(&crew, x, &(DropoutKey){ .p = p, .seed = 11, .step = 4, .site = 3 }, 0, MANY);
        for (int i = 0; i < MANY; i++) {
            double was = i % 1000 - 500 + 0.25;
            dropped += x[i] == 0;
            worst = fmax(worst, x[i] == 0 ? 0 : fabs((double)x[i] * (1 - (double)p) / was - 1));
        }
        CHECK(likely(dropped, MANY, (double)p), "rate %g: %d of %d dropped", (double)p, dropped,
              MANY);
        CHECK(worst <= 3 * 0x1p-24, "rate %g: a kept element is off by %g", (double)p, worst);
        free(x);
    }
    crew_close(&crew);
}

/* Whether one is dropped says nothing of those near it: they share draws of Philox, pieces and
 * rows. No element is in two pairs. */
static void elements_are_independent(void)
{
    static const int apart[] = { 1, 2, 3, 4, 5, 23, 64, 16384 };
    Crew   crew = { 0 };
    double p = 0.3;
    if (!open_crew(&crew, 2))
        return;
    float *x = mask_of(&crew, (float)p, 5, 9, 2, 0, MANY);
    for (int k = 0; k < 8; k++) {
        int both = 0, n = 0;
        for (int i = 0; i < MANY - apart[k]; i++)
            if (i / apart[k] % 2 == 0) {
                both += x[i] == 0 && x[i + apart[k]] == 0;
                n++;
            }
        CHECK(likely(both, n, p * p), "%d apart: both are dropped in %d of %d", apart[k], both, n);
    }
    free(x);
    crew_close(&crew);
}

/* The same mask by any number of threads, and cut anywhere: also within a draw, and where numbers
 * need more than 32 bits. */
static void a_mask_depends_on_numbers_alone(void)
{
    static const uint64_t first[] = { 0, 5, ((uint64_t)1 << 34) - 7 };
    for (int threads = 1; threads <= 3; threads++)
        for (int f = 0; f < 3; f++) {
            Crew one = { 0 }, more = { 0 };
            if (!open_crew(&one, 1) || !open_crew(&more, threads)) {
                crew_close(&one);
                return;
            }
            float *whole = mask_of(&one, 0.4f, 8, 1, 6, first[f], MANY),
                  *same = mask_of(&more, 0.4f, 8, 1, 6, first[f], MANY);
            CHECK(memcmp(whole, same, MANY * sizeof *whole) == 0, "%d threads from %llu", threads,
                  (unsigned long long)first[f]);
            for (size_t at = 0, n = 1; at < MANY; at += n, n = 2 * n + 1) {
                n = n < MANY - at ? n : MANY - at;
                float *part = mask_of(&more, 0.4f, 8, 1, 6, first[f] + at, n);
                CHECK(memcmp(whole + at, part, n * sizeof *part) == 0,
                      "%d threads: %zu from %llu + %zu", threads, n, (unsigned long long)first[f],
                      at);
                free(part);
            }
            free(whole);
            free(same);
            crew_close(&one);
            crew_close(&more);
        }
}

/* Numbers are counted in 64 bits: 2^34 of them, whose draws take all of 32, do not begin anew. */
static void masks_do_not_repeat(void)
{
    Crew crew = { 0 };
    int  same = 0;
    if (!open_crew(&crew, 2))
        return;
    float *low = mask_of(&crew, 0.5f, 3, 2, 1, 0, MANY),
          *high = mask_of(&crew, 0.5f, 3, 2, 1, (uint64_t)1 << 34, MANY);
    for (int i = 0; i < MANY; i++)
        same += (low[i] == 0) == (high[i] == 0);
    CHECK(likely(same, MANY, 0.5), "%d of %d are the same 2^34 on", same, MANY);
    free(low);
    free(high);
    crew_close(&crew);
}

/* ---- A block: forward and backward ----------------------------------------------------------- */

enum { SEQS = 2, LEN = 29 };

/* Everything that a block shows, by step: values, and gradients. */
typedef struct Seen { float *value[2][BLOCK_STEPS]; } Seen;

static void keep(void *user, BlockStep step, bool gradient, const float *value, size_t n)
{
    Seen *s = user;
    free(s->value[gradient][step]);
    s->value[gradient][step] = malloc(n * sizeof *value);
    memcpy(s->value[gradient][step], value, n * sizeof *value);
}

/* Forward from params_scatter's numbers and back from others, with dropout 0.4. */
static bool see_block(Seen *seen, const Params *p, Crew *crew, uint64_t first_seq)
{
    BlockShape    shape = params_shape(p, 0);
    size_t        n = (size_t)SEQS * LEN * (size_t)shape.d_model;
    Error         err = { 0 };
    BlockActs     acts;
    BlockWork     work;
    BlockObserver observer = { keep, seen };
    float *w = params_array(p, &err), *g = params_array(p, &err), *out = calloc(2 * n, sizeof *out),
          *memory = NULL;
    Carver        c = { 0 };
    bool          ok = train_ops_reserve(crew, SEQS * LEN, LEN, block_width(&shape), &err);
    for (int pass = 0; ok && pass < 2; pass++) {
        c = (Carver){ .base = memory };
        block_acts_carve(&acts, &c, &shape, SEQS * LEN);
        block_work_carve(&work, &c, &shape, SEQS * LEN);
        memory = pass == 0 ? aligned_alloc(64, c.at * sizeof *memory) : memory;
    }
    CHECK(ok && w && g && memory, "%s", err.msg);
    ok = ok && w && g && memory;
    if (ok) {
        params_scatter(p, w, 2);
        BlockWeights weights = params_block(p, w, 0, false), d = params_block(p, g, 0, true);
        BlockCall    call = { .crew = crew,
                              .shape = &shape,
                              .w = &weights,
                              .work = &work,
                              .n_seqs = SEQS,
                              .seq_len = LEN,
                              .drop = { .p = 0.4f, .seed = 21, .step = 6, .site = 5 },
                              .observer = &observer,
                              .first_seq = first_seq };
        for (size_t i = 0; i < n; i++) {
            acts.x[i] = (float)((i * 37 + 11) % 101) / 50 - 1;
            out[n + i] = (float)((i * 53 + 29) % 97) / 50 - 0.97f;
        }
        block_forward(&call, &acts, out);
        block_backward(&call, &acts, &d, out + n);
    }
    free(w);
    free(g);
    free(out);
    free(memory);
    return ok;
}

/* One half: where forward added nothing, the gradient stops; elsewhere both are scaled alike.
 * before: the stream that was added to. The sum takes half an ulp of the larger of before and sum
 * (at most 8), which a quotient by |y| >= 1/64 shows as 64 * 2^-22. */
static void compare_half(const Seen *s, const char *what, const float *mask, const float *before,
                         BlockStep y, BlockStep add, size_t n, double scale)
{
    const float *given = s->value[0][y], *sum = s->value[0][add], *d_given = s->value[1][y],
                *d_sum = s->value[1][add];
    for (size_t i = 0; i < n; i++) {
        double was = (double)given[i], added = (double)sum[i] - (double)before[i],
               came = (double)d_sum[i], passed = (double)d_given[i];
        double by = scale * (double)mask[i];
        bool   sure = fabs(was) >= 1.0 / 64;
        CHECK((mask[i] == 0) == (added == 0), "%s, element %zu: %g was added of %g", what, i, added,
              was);
        CHECK((mask[i] == 0) == (passed == 0), "%s, element %zu: %g went back of %g", what, i,
              passed, came);
        CHECK(!sure || fabs(added / was - by) <= 64 * 0x1p-22,
              "%s, element %zu: %g was added of %g", what, i, added, was);
        CHECK(fabs(passed - by * came) <= 0x1p-22 * fabs(passed),
              "%s, element %zu: %g went back of %g", what, i, passed, came);
    }
}

static void compare_block(Crew *crew, NormPlacement place, double residual_scale)
{
    Config  c = tiny_config();
    Params  p = { 0 };
    Seen    s = { 0 };
    Error   err = { 0 };
    char    what[80];
    size_t  n = (size_t)SEQS * LEN * (size_t)c.d_model;
    uint64_t first_seq = 3;
    c.norm_placement = place;
    c.residual_scale = residual_scale;
    CHECK(params_layout(&p, &c, &err), "%s", err.msg);
    if (err.status == 0 && see_block(&s, &p, crew, first_seq)) {
        bool         post = place == PLACE_POST, out = place == PLACE_BOTH || place == PLACE_OUTPUT;
        BlockStep y[2] = { out ? STEP_ATTN_POST : STEP_ATTN_Y, out ? STEP_FFN_POST : STEP_FFN_Y },
                  add[2] = { STEP_ATTN_ADD, STEP_FFN_ADD };
        const float *before[2] = { s.value[0][STEP_X],
                                   s.value[0][post ? STEP_ATTN_NORM : STEP_ATTN_ADD] };
        for (int half = 0; half < 2; half++) {
            float *mask = mask_of(crew, 0.4f, 21, 6, 5 + (uint32_t)half,
                                  first_seq * LEN * (uint64_t)c.d_model, n);
            snprintf(what, sizeof what, "placement %d, residual_scale %g, half %d", place,
                     residual_scale, half);
            compare_half(&s, what, mask, before[half], y[half], add[half], n, residual_scale);
            free(mask);
        }
    }
    for (int i = 0; i < 2 * BLOCK_STEPS; i++)
        free(s.value[i / BLOCK_STEPS][i % BLOCK_STEPS]);
    params_free(&p);
}

static void back_drops_what_forward_dropped(void)
{
    static const NormPlacement places[] = { PLACE_PRE, PLACE_POST, PLACE_BOTH, PLACE_OUTPUT };
    Crew crew = { 0 };
    if (!open_crew(&crew, 2))
        return;
    for (int i = 0; i < 4; i++) {
        compare_block(&crew, places[i], 1);
        compare_block(&crew, places[i], 0.5);
    }
    crew_close(&crew);
}

/* ---- The whole model ------------------------------------------------------------------------- */

typedef struct Model {
    Params p; Crew crew; Net *net; float *w, *g; int32_t token[64], target[64]; int n_seqs;
} Model;

static void model_close(Model *m)
{
    net_free(m->net);
    free(m->w);
    free(m->g);
    params_free(&m->p);
    crew_close(&m->crew);
}

static bool model_open(Model *m, const Config *c, int n_seqs, int seq_len)
{
    Error err = { 0 };
    *m = (Model){ .n_seqs = n_seqs };
    bool ok = open_crew(&m->crew, 2) && params_layout(&m->p, c, &err)
        && (m->w = params_array(&m->p, &err)) && (m->g = params_array(&m->p, &err))
        && (m->net = net_new(&m->p, &m->crew, n_seqs, seq_len, &err));
    CHECK(ok, "%s", err.msg);
    for (int i = 0; i < 64; i++) {
        m->token[i]  = (i * 5 + 1) % c->vocab_size; /* no two of the first 37 are the same */
        m->target[i] = (i * i + 3) % c->vocab_size;
    }
    if (ok)
        params_scatter(&m->p, m->w, 4);
    else
        model_close(m);
    return ok;
}

static double model_loss(Model *m, bool gradient, DropoutKey key, uint64_t first_seq)
{
    NetBatch b = { .token = m->token,
                   .target = m->target,
                   .n_seqs = m->n_seqs,
                   .first_seq = first_seq,
                   .drop = key };
    if (gradient)
        memset(m->g, 0, m->p.n_floats * sizeof *m->g);
    return net_loss(m->net, m->w, gradient ? m->g : NULL, &b, 1);
}

/* (L(w + h u) - L(w - h u)) / 2h along a tensor's own gradient, u = g / |g|: it should be |g|. A
 * loss of about 60 in f32 arithmetic has errors of about 1e-6 of it, h is chosen so that the
 * difference is about 0.1, and bending adds about as much: 1% is far from the tenths that a wrong
 * mask makes (5e-4 is the most). Tensors whose gradient is under a hundredth of the largest
 * tensor's are left to the check without dropout. */
static void check_slopes(Model *m, const char *what, DropoutKey key)
{
    float *w = params_array(&m->p, NULL), *g = params_array(&m->p, NULL), *home = m->w;
    double norm[64], largest = 0;
    int    looked = 0;
    model_loss(m, true, key, 3);
    memcpy(g, m->g, m->p.n_floats * sizeof *g);
    for (int i = 0; i < m->p.n; i++) {
        double sum = 0;
        for (size_t j = m->p.at[i]; j < m->p.at[i] + params_length(&m->p, i); j++)
            sum += (double)g[j] * (double)g[j];
        norm[i] = sqrt(sum);
        largest = fmax(largest, norm[i]);
    }
    for (int i = 0; i < m->p.n; i++) {
        double h = 0.05 / norm[i], side[2];
        if (norm[i] < largest / 100)
            continue;
        for (int up = 0; up < 2; up++) {
            memcpy(w, home, m->p.n_floats * sizeof *w);
            for (size_t j = m->p.at[i]; j < m->p.at[i] + params_length(&m->p, i); j++)
                w[j] = (float)((double)home[j] + (up ? h : -h) * (double)g[j] / norm[i]);
            m->w = w;
            side[up] = model_loss(m, false, key, 3);
            m->w = home;
        }
        double slope = (side[1] - side[0]) / (2 * h);
        CHECK(fabs(slope - norm[i]) <= 0.01 * norm[i], "%s: %s: slope %g, gradient %g", what,
              m->p.spec[i].name, slope, norm[i]);
        looked++;
    }
    CHECK(looked > m->p.n / 2, "%s: looked at %d of %d tensors", what, looked, m->p.n);
    free(w);
    free(g);
}

static void gradients_are_those_of_what_is_left(void)
{
    static const NormPlacement places[] = { PLACE_PRE, PLACE_POST, PLACE_BOTH, PLACE_OUTPUT };
    for (int i = 0; i < 5; i++) {
        Config c = tiny_config();
        Model  m;
        char   what[80];
        c.norm_placement  = places[i % 4];
        c.tied_embeddings = i == 4;
        c.residual_scale  = i == 4 ? 0.7 : 1;
        snprintf(what, sizeof what, "placement %d%s", c.norm_placement, i == 4 ? ", tied" : "");
        if (!model_open(&m, &c, 2, 9))
            return;
        check_slopes(&m, what, (DropoutKey){ .p = 0.4f, .seed = 13, .step = 7 });
        model_close(&m);
    }
}

/* A model whose masks can be read off: wo and w_down are 0, so the gradient of a place's output
 * goes back to nothing but the place's bias, and along the residual stream to the embedding of the
 * position's token: all are the same vector, masked. */
enum { WIDTH = 512, SITES = 5 };

static bool open_readable(Model *m, int seq_len)
{
    Config c = tiny_config();
    c.d_model = WIDTH;
    if (!model_open(m, &c, 1, seq_len))
        return false;
    for (int l = 0; l < 2; l++) {
        memset(params_find(&m->p, m->w, l, ROLE_WO, false), 0, (size_t)WIDTH * 24 * sizeof(float));
        memset(params_find(&m->p, m->w, l, ROLE_W_DOWN, false), 0,
               (size_t)WIDTH * 100 * sizeof(float));
    }
    return true;
}

/* The place's gradient; of the embedding (0) at a position. */
static const float *site_gradient(const Model *m, int site, int position)
{
    if (site == 0)
        return params_find(&m->p, m->g, -1, ROLE_EMBED, false) + (size_t)m->token[position] * WIDTH;
    return params_find(&m->p, m->g, (site - 1) / 2, site % 2 ? ROLE_WO : ROLE_W_DOWN, true);
}

static int alike(const bool *a, const bool *b)
{
    int n = 0;
    for (int i = 0; i < WIDTH; i++)
        n += a[i] == b[i];
    return n;
}

static void see_masks(bool (*mask)[WIDTH], const Model *m, int position)
{
    for (int site = 0; site < SITES; site++)
        for (int i = 0; i < WIDTH; i++)
            mask[site][i] = site_gradient(m, site, position)[i] != 0;
}

/* Masks of five places, in two steps, sequences and seeds: any two of the forty agree on half of
 * what they mask, as chance does. */
static void masks_differ_by_seed_step_place_and_sequence(void)
{
    enum { ALL = 8 * SITES };
    static bool mask[ALL][WIDTH];
    Model m;
    if (!open_readable(&m, 1))
        return;
    for (uint32_t i = 0; i < 8; i++) {
        model_loss(&m, true, (DropoutKey){ .p = 0.5f, .seed = 40 + i / 4, .step = i / 2 % 2 },
                   i % 2);
        see_masks(mask + i * SITES, &m, 0);
    }
    for (int a = 0; a < ALL; a++)
        for (int b = a + 1; b < ALL; b++) {
            int n = alike(mask[a], mask[b]);
            CHECK(
                likely(n, WIDTH, 0.5),
                "masks %d and %d (place + 5 * (sequence + 2 * step + 4 * seed)) agree in %d of %d",
                a, b, n, WIDTH);
        }
    model_close(&m);
}

/* A sequence of two: its positions have masks of their own, numbers that follow each other. */
static void masks_differ_by_position(void)
{
    static bool pair[2][SITES][WIDTH], one[2][SITES][WIDTH];
    const DropoutKey key = { .p = 0.5f, .seed = 40 };
    Model two, single;
    if (!open_readable(&two, 2))
        return;
    model_loss(&two, true, key, 0);
    for (int i = 0; i < 2; i++)
        see_masks(pair[i], &two, i);
    CHECK(likely(alike(pair[0][0], pair[1][0]), WIDTH, 0.5), "two positions agree in %d of %d",
          alike(pair[0][0], pair[1][0]), WIDTH);
    if (open_readable(&single, 1)) {
        for (uint64_t i = 0; i < 2; i++) {
            model_loss(&single, true, key, i);
            see_masks(one[i], &single, 0);
            CHECK(alike(pair[i][0], one[i][0]) == WIDTH, "position %d and sequence %d agree in %d",
                  (int)i, (int)i, alike(pair[i][0], one[i][0]));
        }
        model_close(&single);
    }
    model_close(&two);
}

/* ---- Where nothing is dropped ---------------------------------------------------------------- */

static bool held_back(Tiny *x, int most, double *loss)
{
    return trainer_validate(&x->t, (size_t)most, false, loss, NULL);
}

/* Two trainings from the same parameters, with dropout and without: what a step computes
 * differs, what is held back is read alike, before the step and, from the same parameters again,
 * after it. */
static void what_is_held_back_is_read_whole(void)
{
    Config        c = tiny_config();
    TrainSettings s = tiny_settings();
    Tiny          plain, dropping;
    double        loss[2], norm;
    s.micro = 3;
    if (!tiny_open(&plain, &c, &s, 2))
        return;
    s.dropout = 0.5;
    if (tiny_open(&dropping, &c, &s, 2)) {
        for (int most = 0; most < 4; most += 3) {
            bool ok = held_back(&plain, most, &loss[0]) && held_back(&dropping, most, &loss[1]);
            CHECK(ok && isfinite(loss[0]) && loss[0] == loss[1],
                  "%d windows held back: %.17g, with dropout %.17g", most, loss[0], loss[1]);
        }
        loss[0] = tiny_step(&plain, &norm);
        loss[1] = tiny_step(&dropping, &norm);
        CHECK(fabs(loss[0] - loss[1]) > 1e-3, "a step: %.17g, with dropout %.17g", loss[0],
              loss[1]);
        memcpy(plain.t.w, dropping.t.w, plain.p.n_floats * sizeof(float));
        bool ok = held_back(&plain, 0, &loss[0]) && held_back(&dropping, 0, &loss[1]);
        CHECK(ok && loss[0] == loss[1], "after a step: %.17g, with dropout %.17g", loss[0],
              loss[1]);
        tiny_close(&dropping);
    }
    tiny_close(&plain);
}

/* Rate 0: not a bit changes, NaN and -0 neither; the logits that tests and `verify` see have no
 * dropout. */
static void rate_0_changes_nothing(void)
{
    Config c = tiny_config();
    Model  m;
    float  odd[4] = { NAN, -0.0f, INFINITY, 1e-40f }, same[4];
    if (!model_open(&m, &c, 2, 9))
        return;
    memcpy(same, odd, sizeof same);
    dropout(&m.crew, odd, &(DropoutKey){ .p = 0, .seed = 1 }, 0, 4);
    CHECK(memcmp(odd, same, sizeof same) == 0, "%g %g %g %g", (double)odd[0], (double)odd[1],
          (double)odd[2], (double)odd[3]);
    double whole = model_loss(&m, true, (DropoutKey){ 0 }, 0), other;
    float *g = params_array(&m.p, NULL);
    memcpy(g, m.g, m.p.n_floats * sizeof *g);
    other = model_loss(&m, true, (DropoutKey){ .p = 0, .seed = 77, .step = 5 }, 2);
    CHECK(other == whole && memcmp(g, m.g, m.p.n_floats * sizeof *g) == 0,
          "loss %.17g, without a key %.17g", other, whole);
    other = model_loss(&m, true, (DropoutKey){ .p = 0.01f, .seed = 77, .step = 5 }, 2);
    CHECK(other != whole && memcmp(g, m.g, m.p.n_floats * sizeof *g) != 0, "rate 0.01: loss %.17g",
          other);
    free(g);
    model_close(&m);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST_TRAINING(kept_elements_make_up_for_dropped_ones);
    TEST_TRAINING(elements_are_independent);
    TEST_TRAINING(a_mask_depends_on_numbers_alone);
    TEST_TRAINING(masks_do_not_repeat);
    TEST_TRAINING(back_drops_what_forward_dropped);
    TEST_TRAINING(gradients_are_those_of_what_is_left);
    TEST_TRAINING(masks_differ_by_seed_step_place_and_sequence);
    TEST_TRAINING(masks_differ_by_position);
    TEST_TRAINING(what_is_held_back_is_read_whole);
    TEST_TRAINING(rate_0_changes_nothing);
    return TEST_END();
}
