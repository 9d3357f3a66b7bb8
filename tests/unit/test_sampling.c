/* tests/unit/test_sampling.c: distributions against recorded ones, the generator's known answers,
 * ties and bad values. */
#include "test.h"

#include <math.h>

#include "base/file.h"
#include "base/json.h"
#include "kernels/kernels.h"
#include "runtime/sampler.h"

static Error err;

static const SamplerOptions plain = {.temp = 1, .top_p = 1, .repeat_penalty = 1};

/* Counter and key to words: the published vectors of Random123 (kat_vectors, philox 4x32 10). */
static void philox_gives_its_known_answers(void)
{
    static const struct { uint32_t counter[4], key[2], out[4]; } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
          {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof kat / sizeof *kat; i++) {
        uint32_t out[4];
        philox4x32(kat[i].counter, kat[i].key, out);
        for (int w = 0; w < 4; w++)
            CHECK(out[w] == kat[i].out[w], "vector %zu, word %d: %08x, expected %08x", i, w, out[w],
                  kat[i].out[w]);
    }
    uint32_t out[4], seven[4] = {7, 0, 0, 0}, key[2] = {0x89abcdef, 0x01234567};
    philox4x32(seven, key, out);
    CHECK(out[0] == 0x8e94991c, "seed 0x0123456789abcdef, index 7: %08x, expected 8e94991c",
          out[0]);
}

static double option_or(const Json *options, const char *key, double absent)
{
    double      value = absent;
    const Json *j     = json_get(options, key);
    CHECK(!j || json_read_double(j, key, -1e30, 1e30, &value, &err), "%s", err.msg);
    return value;
}

static size_t read_numbers(const Json *array, double *out, size_t max)
{
    size_t n = 0;
    for (const Json *i = json_first(array); i && n < max; i = json_next(i), n++)
        CHECK(json_read_double(i, "number", -1e30, 1e30, &out[n], &err), "%s", err.msg);
    return n;
}

/* Excluded is exactly 0; what is under the range of f32 (exp gives 0 there) may be either. */
static void check_case(int line, const Json *c)
{
    enum { MAX = 256 };
    double         number[MAX], want[MAX], got[MAX] = {0}, total;
    float          logits[MAX];
    int32_t        previous[MAX];
    const Json    *o   = json_get(c, "options");
    SamplerOptions opt = {.temp           = (float)option_or(o, "temperature", 1),
                          .top_k          = (int)option_or(o, "top_k", 0),
                          .top_p          = option_or(o, "top_p", 1),
                          .min_p          = (float)option_or(o, "min_p", 0),
                          .repeat_penalty = (float)option_or(o, "repetition_penalty", 1)};
    size_t n = read_numbers(json_get(c, "logits"), number, MAX);
    for (size_t i = 0; i < n; i++)
        logits[i] = (float)number[i];
    size_t n_previous = read_numbers(json_get(c, "previous"), number, MAX);
    for (size_t i = 0; i < n_previous; i++)
        previous[i] = (int32_t)number[i];
    CHECK(read_numbers(json_get(c, "probs"), want, MAX) == n,
          "line %d: as many probabilities as logits", line);

    Sampler         *s = sampler_new((int)n, &opt, &err);
    const Candidate *candidate;
    CHECK(s, "line %d: %s", line, err.msg);
    int n_kept =
        s ? sampler_candidates(s, logits, NULL, previous, n_previous, &candidate, &total, &err) : 0;
    CHECK(n_kept > 0, "line %d: %s", line, err.msg);
    for (int i = 0; i < n_kept; i++)
        got[candidate[i].id] = (double)candidate[i].p / total;
    for (size_t i = 0; i < n; i++)
        CHECK(fabs(got[i] - want[i]) <= 1e-6 && (want[i] < 1e-37 || got[i] > 0)
                  && (want[i] > 0 || got[i] == 0),
              "line %d, id %zu: probability %.9g, expected %.9g", line, i, got[i], want[i]);
    sampler_free(s);
}

static void distributions_are_the_recorded_ones(void)
{
    char  *text;
    size_t n_bytes;
    if (!file_read("tests/data/sampling.jsonl", 1 << 24, &text, &n_bytes, &err)) {
        SKIP("%s", err.msg);
        return;
    }
    int line = 1;
    for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1, line++) {
        Json *c = json_parse(at, (size_t)(end - at), "sampling.jsonl", &err);
        CHECK(c, "line %d: %s", line, err.msg);
        if (c)
            check_case(line, c);
        json_free(c);
    }
    CHECK(line > 40, "only %d lines", line);
    free(text);
}

static int sample(const SamplerOptions *opt, const float *logits, int n, const int32_t *previous,
                size_t n_previous, uint32_t index)
{
    int32_t  token = -1;
    Sampler *s     = sampler_new(n, opt, &err);
    CHECK(s, "%s", err.msg);
    CHECK(s && sampler_next(s, logits, NULL, previous, n_previous, index, &token, &err), "%s",
          err.msg);
    sampler_free(s);
    return token;
}

static void ties_go_to_the_lower_id(void)
{
    const float    logits[] = {1, 3, 2, 3, 3, -1};
    SamplerOptions greedy   = plain, top = plain;
    greedy.temp = 0;
    top.top_k   = 2;
    CHECK(sample(&greedy, logits, 6, NULL, 0, 0) == 1, "greedy");
    Sampler         *s = sampler_new(6, &top, &err);
    const Candidate *c;
    double           total;
    int              n = sampler_candidates(s, logits, NULL, NULL, 0, &c, &total, &err);
    CHECK(n == 2 && c[0].id == 1 && c[1].id == 3,
          "top-k 2 of three equal logits: %d kept, ids %d %d", n, c[0].id, c[1].id);
    sampler_free(s);
}

/* exp(-1e-9f) rounds to 1: distinct logits, equal probabilities. */
static void candidates_are_ordered_by_logit_not_by_probability(void)
{
    const float      logits[] = {0, 1e-9f, 0, 5e-10f};
    Sampler         *s        = sampler_new(4, &plain, &err);
    const Candidate *c;
    double           total;
    int              n = sampler_candidates(s, logits, NULL, NULL, 0, &c, &total, &err);
    CHECK(n == 4 && c[0].id == 1 && c[1].id == 3 && c[2].id == 0 && c[3].id == 2,
          "%d kept, ids %d %d %d %d", n, c[0].id, c[1].id, c[2].id,
          c[3].id);
    sampler_free(s);
}

static void the_penalty_counts_an_id_once(void)
{
    const float    logits[]   = {4, 3, -1, -1.5f};
    const int32_t  previous[] = {0, 0, 0, 2, 2};
    SamplerOptions opt        = plain;
    opt.repeat_penalty        = 2;
    Sampler         *s        = sampler_new(4, &opt, &err);
    const Candidate *c;
    double           total;
    int              n = sampler_candidates(s, logits, NULL, previous, 5, &c, &total, &err);
    CHECK(n == 4 && c[0].id == 1 && c[1].id == 0 && c[1].x == 2 && c[2].id == 3 && c[3].id == 2
              && c[3].x == -2,
          "ids %d %d %d %d, x %g %g", c[0].id, c[1].id, c[2].id, c[3].id, (double)c[1].x,
          (double)c[3].x);
    CHECK(sampler_candidates(s, logits, NULL, NULL, 0, &c, &total,
                             &err) == 4 && c[0].id == 0 && c[0].x == 4,
    "a call leaves no trace in the next");
    sampler_free(s);
}

/* Probabilities 0.4 0.3 0.2 0.1. Row {0, 0.75, 0.45}: top-p of the whole keeps 3; of what min-p
 * leaves, 0.9, it would keep 2. Rows with top-k 3: the total that top-p counts is 0.9, so 0.77 of
 * it is 0.693 (two) and 0.79 is 0.711 (three). */
static void top_p_counts_what_top_k_kept_and_comes_before_min_p(void)
{
    const float      logits[] = {logf(0.4f), logf(0.3f), logf(0.2f), logf(0.1f)};
    const Candidate *c;
    double           total;
    static const struct { int top_k; double top_p; float min_p; int kept; } want[] = {
        {0, 0.5, 0, 2}, {0, 0.5, 0.8f, 1}, {0, 0.75, 0.45f, 3}, {0, 0.69, 0, 2}, {0, 0.71, 0, 3},
        {3, 0.77, 0, 2}, {3, 0.79, 0, 3},
        {0, 1, 0.26f, 3}, {0, 1, 0.24f, 4}, {0, 1e-9, 0, 1}, {0, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        SamplerOptions opt = plain;
        opt.top_k          = want[i].top_k;
        opt.top_p          = want[i].top_p;
        opt.min_p          = want[i].min_p;
        Sampler *s         = sampler_new(4, &opt, &err);
        int      n         = sampler_candidates(s, logits, NULL, NULL, 0, &c, &total, &err);
        CHECK(n == want[i].kept, "top-k %d, top-p %g, min-p %g: %d kept, expected %d",
              want[i].top_k, want[i].top_p, (double)want[i].min_p, n,
              want[i].kept);
        double sum = 0;
        for (int j = 0; j < n; j++)
            sum += (double)c[j].p;
        CHECK(sum == total, "total %g is the sum of what remains, %g", total, sum);
        sampler_free(s);
    }
}

/* u of seed 0x0123456789abcdef, index 7 is 0x8e9499 * 2^-24 = 0.5569549: two equal candidates, the
 * second is sampled. */
static void the_sample_follows_the_generator(void)
{
    SamplerOptions opt = plain;
    opt.seed           = 0x0123456789abcdefu;
    const float two[]  = {0, 0};
    float       many[1000] = {0};
    CHECK(sample(&opt, two, 2, NULL, 0, 7) == 1, "second of two");
    CHECK(sample(&opt, many, 1000, NULL, 0, 7) == 556, "of 1000 equal ones: %d, expected 556",
          sample(&opt, many, 1000, NULL, 0, 7));
    CHECK(sample(&opt, many, 1000, NULL, 0, 7) == sample(&opt, many, 1000, NULL, 0, 7),
          "the same arguments, the same token");
}

/* 20,000 draws of probabilities 0.4 0.3 0.2 0.1; 5 standard deviations of a share are at most
 * 0.0173. Fixed seed: no flake. */
static void shares_of_many_samples_are_the_probabilities(void)
{
    const float    logits[] = {logf(0.1f), logf(0.4f), logf(0.3f), logf(0.2f)};
    int            count[4] = {0};
    const int      n        = 20000;
    SamplerOptions opt      = plain;
    opt.seed                = 42;
    Sampler *s              = sampler_new(4, &opt, &err);
    for (int i = 0; i < n; i++) {
        int32_t token = 0;
        CHECK(sampler_next(s, logits, NULL, NULL, 0, (uint32_t)i, &token, &err), "%s", err.msg);
        count[token]++;
    }
    for (int i = 0; i < 4; i++)
        CHECK(fabs(count[i] / (double)n - exp((double)logits[i])) < 0.0173, "id %d: %d of %d", i,
              count[i], n);
    sampler_free(s);
}

/* ---- The definition, word by word (docs/numerics.md), with a sort of the whole vocabulary ---- */

enum { LITERAL_MAX = 40000 };

static int literal_order(const void *a, const void *b)
{
    const Candidate *p = a, *q = b;
    return p->x > q->x ? -1 : p->x < q->x ? 1 : p->id < q->id ? -1 : 1;
}

/* The first with cum >= top_p * total counts of top-p, cum > u * total of the sample. */
static int literal_reach(const Candidate *c, int n, double share, bool beyond)
{
    double total = 0, cum = 0;
    for (int i = 0; i < n; i++)
        total += (double)c[i].p;
    for (int i = 0; i < n; i++) {
        cum += (double)c[i].p;
        if (beyond ? cum > share * total : cum >= share * total)
            return i;
    }
    return n - 1;
}

static int32_t literal_sample(const SamplerOptions *o, const float *logits, int n,
                            const int32_t *previous, int n_previous, uint32_t index)
{
    static Candidate c[LITERAL_MAX];
    static bool      seen[LITERAL_MAX];
    for (int i = 0; i < n; i++) {
        c[i]    = (Candidate){logits[i], 0, i};
        seen[i] = false;
    }
    for (int i = 0; i < n_previous; i++)
        seen[previous[i]] = true;
    for (size_t i = 0; i < o->n_bias; i++)
        c[o->bias_ids[i]].x += o->bias[i];
    for (int i = 0; i < n; i++) {
        float count = 0;
        for (int j = (int)o->n_given; j < n_previous; j++)
            count += previous[j] == i;
        if (seen[i])
            c[i].x = c[i].x > 0 ? c[i].x / o->repeat_penalty : c[i].x * o->repeat_penalty;
        if (count > 0)
            c[i].x = c[i].x - (o->frequency_penalty * count + o->presence_penalty);
        if (o->temp != 0)
            c[i].x = c[i].x / o->temp;
    }
    qsort(c, (size_t)n, sizeof *c, literal_order);
    if (o->temp == 0)
        return c[0].id;
    if (o->top_k > 0 && o->top_k < n)
        n = o->top_k;
    for (int i = 0; i < n; i++)
        c[i].p = isinf(c[0].x) ? (c[i].x == c[0].x ? 1.0f : 0.0f) : kernels_expf(c[i].x - c[0].x);
    if (o->top_p < 1)
        n = literal_reach(c, n, o->top_p, false) + 1;
    while (n > 1 && c[n - 1].p < o->min_p * c[0].p)
        n--;
    uint32_t word[4];
    philox4x32((uint32_t[4]){ index, 0, 0, 0 },
               (uint32_t[2]){ (uint32_t)o->seed, (uint32_t)(o->seed >> 32) }, word);
    return c[literal_reach(c, n, (word[0] >> 8) * 0x1p-24, true)].id;
}

static uint64_t random_state = 1;
static double   uniform(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) * 0x1p-53;
}
static int below(int n) { return (int)(uniform() * n); }

/* Shapes that logits have, and ones meant to break a sum or an order: ties, steps of a half, all
 * equal, hardly different, a head that takes all, weights under the range of f32, infinities. */
static void random_logits(float *x, int n, int kind)
{
    for (int i = 0; i < n; i++) {
        double g = sqrt(-2 * log(uniform() + 1e-300)) * cos(6.283185307179586 * uniform());
        double value[8] = { 2.5 * g,
                            rint(4 * g) / 2,
                            1.5,
                            1e-3 * g,
                            40 * g,
                            0.2 * g,
                            -0.6931471805599453 * below(30),
                            g };
        x[i] = (float)value[kind];
        if (kind == 7 && below(50) == 0)
            x[i] = below(200) ? -INFINITY : 3e38f;
    }
    for (int i = 0; i < 30 && kind % 2 == 0 && kind != 2; i++)
        x[below(n)] = (float)(12 + 6 * uniform());
    if (kind == 7 && below(4) == 0)
        x[below(n)] = INFINITY;
}

static int32_t bias_ids[5];
static float   bias[5];

static SamplerOptions random_options(int n)
{
    static const float  temps[] = { 1, 1, 0.8f, 0.1f, 3, 1e-6f, 0 },
                        min_ps[] = { 0, 0, 0.05f, 0.5f, 1, 1e-6f, 1e-40f };
    static const double top_ps[] = {1, 1, 0.95, 0.5, 0.1, 1e-9, 0.999999, 1 - 0x1p-50};
    for (int i = 0; i < 5; i++) {
        bias_ids[i] = below(n);
        bias[i]     = (float)(below(3) ? 20 * uniform() - 10 : 200 * below(2) - 100);
    }
    return (SamplerOptions){.temp           = temps[below(7)],
                            .top_k          = below(3) ? 0 : 1 + below(below(2) ? 700 : n + 5),
                            .top_p          = top_ps[below(8)],
                            .min_p          = min_ps[below(7)],
                            .repeat_penalty = below(3) ? 1 : 1.3f,
                            .presence_penalty = below(3) ? 0 : (float)(4 * uniform() - 2),
                            .frequency_penalty = below(3) ? 0 : (float)(4 * uniform() - 2),
                            .bias_ids       = bias_ids,
                            .bias           = bias,
                            .n_bias         = below(2) ? 5 : 0,
                            .n_given        = (size_t)below(64),
                            .seed           = (uint64_t)below(1 << 30)};
}

static void no_way_of_choosing_parts_from_the_definition(void)
{
    static float logits[LITERAL_MAX];
    for (int round = 0; round < 400 && test_case_state == 0; round++) {
        int n = round % 50 == 49 ? LITERAL_MAX
            : round % 7 == 0     ? 1 + below(40)
                                 : 500 + below(3000),
            kind = round % 8;
        random_logits(logits, n, kind);
        SamplerOptions o = random_options(n);
        int32_t        previous[64];
        for (int i = 0; i < 64; i++)
            previous[i] = below(below(2) ? n : 10 < n ? 10 : n);
        Sampler *s = sampler_new(n, &o, &err);
        for (int i = 0; i < (n > 10000 ? 2 : 6); i++) {
            uint32_t index = (uint32_t)below(1 << 20);
            int32_t  token = -1, want = literal_sample(&o, logits, n, previous, 64, index);
            CHECK(sampler_next(s, logits, NULL, previous, 64, index, &token, &err) && token == want,
                  "round %d, %d logits of kind %d, temp %g, top-k %d, top-p %.17g, min-p %g, "
                  "penalty %g, seed %llu, index %u: "
                  "token %d, expected %d",
                  round, n, kind, (double)o.temp, o.top_k, o.top_p, (double)o.min_p,
                  (double)o.repeat_penalty, (unsigned long long)o.seed, index, token, want);
        }
        sampler_free(s);
    }
}

/* Equal weights: every sum is an integer, so that sums meet their targets exactly. */
static void a_sum_that_meets_its_target_exactly_is_no_more_than_it(void)
{
    static float   logits[16384];
    SamplerOptions o = plain;
    for (int i = 0; i < 100; i++) {
        o.seed  = (uint64_t)i;
        o.top_p = i % 2 ? 1 : 0.5;
        CHECK(sample(&o, logits, 16384, NULL, 0, 3)
                  == literal_sample(&o, logits, 16384, NULL, 0, 3), "seed %d", i);
    }
}

/* Three candidates and a tail whose sum depends on its order in the last bits; top-p is the share
 * of the first two, give or take such a bit, so that rounding decides whether the third is kept. */
static void a_share_that_ends_within_rounding_is_cut_as_the_definition_cuts(void)
{
    enum { N = 3000 };
    static float logits[N], p[N];
    for (int round = 0; round < 25; round++) {
        for (int i = 0; i < N; i++)
            logits[i] = i < 3 ? (float)i / -8 : (float)(-22 - 12 * uniform());
        double total = 0;
        for (int i = 0; i < N; i++)
            p[i] = kernels_expf(logits[i]);
        Sampler         *s = sampler_new(N, &plain, &err);
        const Candidate *c;
        CHECK(sampler_candidates(s, logits, NULL, NULL, 0, &c, &total, &err) == N, "%s", err.msg);
        sampler_free(s);
        for (int bit = -3; bit <= 3; bit++)
            for (int seed = 0; seed < 4; seed++) {
                SamplerOptions o = plain;
                o.top_p = (((double)p[0] + (double)p[1]) / total) * (1 + bit * 0x1p-52);
                o.seed  = (uint64_t)seed;
                int32_t got = sample(&o, logits, N, NULL, 0, 1),
                        want = literal_sample(&o, logits, N, NULL, 0, 1);
                CHECK(got == want, "round %d, bit %d, seed %d: token %d, expected %d", round, bit,
                      seed, got, want);
            }
    }
}

static void a_nan_logit_is_an_error(void)
{
    const float logits[] = {1, NAN, 2};
    for (int temp = 0; temp < 2; temp++) {
        SamplerOptions opt = plain;
        opt.temp           = (float)temp;
        Sampler *s         = sampler_new(3, &opt, &err);
        int32_t  token     = -7;
        memset(&err, 0, sizeof err);
        CHECK(!sampler_next(s, logits, NULL, NULL, 0, 0, &token,
                            &err) && err.status == INPUT && token == -7,
        "temp %d: token %d, status %d", temp,
              token, err.status);
        sampler_free(s);
    }
}

static void infinite_logits_have_an_answer(void)
{
    const float one[] = { 1, INFINITY, 2 }, none[] = { -INFINITY, 3, -INFINITY };
    CHECK(sample(&plain, one, 3, NULL, 0, 0) == 1, "+inf takes all");
    CHECK(sample(&plain, none, 3, NULL, 0, 0) == 1, "-inf is never drawn");
}

/* Whatever the temperature, with a constraint or without; also where penalties make them so. */
static void no_logit_above_minus_infinity_is_an_error(void)
{
    enum { N = 70 };
    float         logits[N];
    const uint64_t allowed[2] = { 6, 1 }, nothing[2] = { 0 };
    for (int trial = 0; trial < 8; trial++) {
        SamplerOptions opt   = plain;
        int            kind  = trial / 2;
        int32_t        token = -7, last = N - 1;
        opt.temp             = (float)(trial % 2);
        for (int i = 0; i < N; i++)
            logits[i] = kind < 2 ? -INFINITY : kind == 2 && i == last ? -3e38f : kind == 2
                ? -INFINITY : 1;
        if (kind == 2)
            opt.repeat_penalty = 2;
        Sampler *s = sampler_new(N, &opt, &err);
        memset(&err, 0, sizeof err);
        const uint64_t *mask    = kind == 1 ? allowed : kind == 3 ? nothing : NULL;
        const bool      sampled = sampler_next(s, logits, mask, &last, 1, 0, &token, &err);
        CHECK(!sampled && err.status == INPUT && token == -7 && strstr(err.msg, "-inf"),
              "trial %d: token %d, status %d: %s", trial, token, err.status, err.msg);
        sampler_free(s);
    }
}

static void options_out_of_range_are_refused(void)
{
    const SamplerOptions bad[] = {
        {.temp = -1, .top_p = 1, .repeat_penalty = 1},
         {.temp = NAN, .top_p = 1, .repeat_penalty = 1},
        {.temp = 1, .top_p = -0.1, .repeat_penalty = 1},
        {.temp = 1, .top_p = 1.5, .repeat_penalty = 1},
        /* a quotient would overflow */
        {.temp = 1, .top_p = NAN, .repeat_penalty = 1},
        {.temp = 1e-7f, .top_p = 1, .repeat_penalty = 1},
        {.temp = 1, .top_p = 1, .repeat_penalty = 1, .top_k = -1},
        {.temp = 1, .top_p = 1, .repeat_penalty = 1, .min_p = -0.5f},
        {.temp = 1, .top_p = 1, .repeat_penalty = NAN},
        {.temp = 1, .top_p = 1, .repeat_penalty = 1, .min_tokens = -1},
        {.temp = 1, .top_p = 1, .repeat_penalty = 1, .frequency_penalty = INFINITY},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memset(&err, 0, sizeof err);
        Sampler *s = sampler_new(10, &bad[i], &err);
        CHECK(!s && err.status == USAGE && err.msg[0], "case %zu: status %d '%s'", i, err.status,
              err.msg);
        sampler_free(s);
    }
    Sampler      *s          =
        sampler_new(3, &(SamplerOptions){ .temp = 1, .top_p = 1, .repeat_penalty = 1.5f }, &err);
    const float   logits[]   = {1, 2, 3};
    const int32_t previous[] = {3};
    int32_t       token;
    CHECK(!sampler_next(s, logits, NULL, previous, 1, 0, &token, &err), "previous id 3 of 3");
    sampler_free(s);
}

/* A token that is not allowed is as if its logit were -inf; one that is never loses to it. */
static void what_is_not_allowed_is_not_sampled(void)
{
    enum { N = 1000 };
    static float logits[N], less[N];
    uint64_t     allowed[(N + 63) / 64];
    for (int trial = 0; trial < 300; trial++) {
        SamplerOptions o = { .temp = (float)(trial % 4), .top_k = trial % 3 ? 0 : 7,
                             .min_p = trial % 5 ? 0 : 0.1f, .seed = (uint64_t)trial };
        Sampler       *s = sampler_new(N, &o, &err);
        int32_t        token = -1, want = -1;
        int            some = -1;
        memset(allowed, 0, sizeof allowed);
        for (int i = 0; i < N; i++) {
            uint32_t bits = (uint32_t)(trial * N + i) * 2654435761u;
            bool     good = bits >> 20 & 1 && (trial % 7 || i % 250 == 9);
            logits[i]     = (float)(bits >> 8) * 0x1p-22f - 2;
            allowed[i / 64] |= (uint64_t)good << i % 64;
            less[i]          = good ? logits[i] : -INFINITY;
            some             = good && some < 0 ? i : some;
        }
        allowed[0] |= some < 0 ? 1 : 0;
        less[0]     = some < 0 ? logits[0] : less[0];
        bool sampled = s && sampler_next(s, logits, allowed, NULL, 0, 5, &token, &err)
            && sampler_next(s, less, NULL, NULL, 0, 5, &want, &err);
        CHECK(sampled && token == want, "trial %d: expected %d, found %d", trial, want, token);
        for (int i = 0; i < N; i++)
            logits[i] = allowed[i / 64] >> i % 64 & 1 ? -INFINITY : 1;
        sampled = sampler_next(s, logits, allowed, NULL, 0, 5, &token, &err);
        CHECK(sampled && allowed[token / 64] >> token % 64 & 1, "trial %d: %d at -inf", trial,
              token);
        CHECK(o.temp != 0 || token == (some < 0 ? 0 : some), "trial %d: the first is best", trial);
        sampler_free(s);
    }
}

/* As if their logits were -inf, also for tokens that a constraint allows, until enough were sampled
 * after the prompt. An id that the vocabulary lacks is no error. */
static void end_tokens_are_masked_until_min_tokens_are_sampled(void)
{
    enum { N = 700, GIVEN = 3, LEAST = 5 };
    static float  logits[N], less[N];
    const int32_t ends[] = { 9, 650, N + 1, -1 };
    int32_t       previous[GIVEN + LEAST + 2] = { 9 };
    uint64_t      allowed[(N + 63) / 64];
    memset(allowed, 0xff, sizeof allowed);
    for (int trial = 0; trial < 40; trial++) {
        SamplerOptions o = { .temp = (float)(trial % 4) / 2, .top_k = trial % 3 ? 0 : 7,
                             .n_given = GIVEN, .min_tokens = LEAST, .end_ids = ends,
                             .n_end_ids = 4, .seed = (uint64_t)trial };
        Sampler       *s = sampler_new(N, &o, &err);
        o.min_tokens     = 0;
        Sampler       *free_one = sampler_new(N, &o, &err);
        for (int i = 0; i < N; i++)
            logits[i] = less[i] = (float)((uint32_t)(trial * N + i) * 2654435761u >> 8) * 0x1p-22f;
        logits[9] = logits[650] = 5;
        less[9] = less[650] = -INFINITY;
        for (size_t n = 0; s && free_one && n < sizeof previous / sizeof *previous; n++) {
            const bool masked = n < GIVEN + LEAST;
            int32_t    token = -1, want = -1;
            CHECK(sampler_next(s, logits, trial % 2 ? allowed : NULL, previous, n, (uint32_t)n,
                               &token, &err)
                      && sampler_next(free_one, masked ? less : logits, NULL, previous, n,
                                      (uint32_t)n, &want, &err)
                      && token == want && (masked || o.temp != 0 || token == 9),
                  "trial %d, %zu before: expected %d, found %d: %s", trial, n, want, token,
                  err.msg);
        }
        sampler_free(s);
        sampler_free(free_one);
    }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(philox_gives_its_known_answers);
    TEST(distributions_are_the_recorded_ones);
    TEST(ties_go_to_the_lower_id);
    TEST(candidates_are_ordered_by_logit_not_by_probability);
    TEST(the_penalty_counts_an_id_once);
    TEST(top_p_counts_what_top_k_kept_and_comes_before_min_p);
    TEST(the_sample_follows_the_generator);
    TEST(shares_of_many_samples_are_the_probabilities);
    TEST(no_way_of_choosing_parts_from_the_definition);
    TEST(a_sum_that_meets_its_target_exactly_is_no_more_than_it);
    TEST(a_share_that_ends_within_rounding_is_cut_as_the_definition_cuts);
    TEST(a_nan_logit_is_an_error);
    TEST(infinite_logits_have_an_answer);
    TEST(no_logit_above_minus_infinity_is_an_error);
    TEST(options_out_of_range_are_refused);
    TEST(what_is_not_allowed_is_not_sampled);
    TEST(end_tokens_are_masked_until_min_tokens_are_sampled);
    return TEST_END();
}
