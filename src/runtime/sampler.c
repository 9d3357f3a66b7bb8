/* runtime/sampler.c: bias, penalties, temperature, top-k, top-p, min-p and the sample. sort_all is
 * the definition; the faster paths (sort_min_p, sampler_buckets.c) give the same token. */
#include "runtime/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/sampling.h"

struct tblock_sampler {
    SamplerOptions opt;
    int            vocab_size;
    float         *x;                    /* [vocab_size] logits after penalty, temperature, mask */
    float          largest;              /* of x                                              */
    Candidate     *candidate;            /* [vocab_size] */
    uint32_t      *count;                /* [vocab_size] of each id, for the penalties; zeros
                                          * between */
    Buckets        buckets;
};

/* A smaller temperature could make ordinary logits overflow to infinity when divided, and then
 * they would tie. */
static const float MIN_TEMP = 1e-6f;

const tblock_sampling_row *tblock_sampling_rows(void)
{
#define ROW(field, type, least, most, usual, option, help, low, off, parameter, name, words)       \
    { #field, offsetof(tblock_sampler_options, field), TBLOCK_##type, least, most, usual, off,     \
      option, parameter, name },
    static const tblock_sampling_row rows[] = { SAMPLING_ROWS(ROW) { 0 } };
#undef ROW
    return rows;
}

static bool allocate(Sampler *s)
{
    size_t n = (size_t)s->vocab_size;
    s->x         = malloc(n * sizeof *s->x);
    s->candidate = malloc(n * sizeof *s->candidate);
    s->count     = calloc(n, sizeof *s->count);
    s->buckets.x = s->x;
    s->buckets.p = malloc(n * sizeof *s->buckets.p);
    s->buckets.bucket = malloc(n * sizeof *s->buckets.bucket);
    s->buckets.sorted = s->candidate;
    return s->x && s->candidate && s->count && s->buckets.p && s->buckets.bucket;
}

bool sampler_set(Sampler *s, const SamplerOptions *opt, Error *err)
{
    static const char *const range = "%s: expected a number %s, found %g";
    SamplerOptions           set   = *opt;
    if (opt->temp != 0 && !(opt->temp >= MIN_TEMP && opt->temp < INFINITY))
        return fail(err, USAGE, range, "temp", "that is 0 or at least 1e-6", (double)opt->temp);
    SAMPLING_EACH (row) {
        const double x = sampling_get(opt, row);
        if (!isfinite(x) || (row->least >= 0 && x < 0) || (row->most == 1 && x > 1))
            return fail(err, USAGE, range, row->option,
                        row->least < 0   ? "that is finite"
                        : row->most == 1 ? "from 0 to 1"
                                         : "of at least 0", x);
        if (row->least > 0 && x == 0)
            sampling_put(&set, row, row->off);
    }
    for (size_t i = 0; i < opt->n_bias; i++) {
        if (opt->bias_ids[i] < 0 || opt->bias_ids[i] >= s->vocab_size)
            return fail(err, USAGE, "logit bias: token: expected 0 to %d, found %d",
                        s->vocab_size - 1, opt->bias_ids[i]);
        if (!isfinite(opt->bias[i]))
            return fail(err, USAGE, range, "logit bias", "that is finite", (double)opt->bias[i]);
    }
    s->opt = set;
    return true;
}

bool sampler_ends(const SamplerOptions *o, int32_t id)
{
    size_t i = 0;
    while (i < o->n_end_ids && o->end_ids[i] != id)
        i++;
    return i < o->n_end_ids;
}

Sampler *sampler_new(int vocab_size, const SamplerOptions *opt, Error *err)
{
    if (vocab_size < 1) {
        fail(err, USAGE, "vocab_size: expected at least 1, found %d", vocab_size);
        return NULL;
    }
    Sampler *s = calloc(1, sizeof *s);
    if (s) {
        s->vocab_size = vocab_size;
        s->buckets    = (Buckets){.kernels = kernels_select(NULL, NULL), .n = vocab_size};
    }
    if (!s || !allocate(s))
        fail(err, SYSTEM, "out of memory for a sampler of %d tokens", vocab_size);
    else if (sampler_set(s, opt, err))
        return s;
    sampler_free(s);
    return NULL;
}

void sampler_free(Sampler *s)
{
    if (!s)
        return;
    free(s->x);
    free(s->buckets.p);
    free(s->buckets.bucket);
    free(s->candidate);
    free(s->count);
    free(s);
}

static int by_x_then_id(const void *a, const void *b)
{
    const Candidate *p = a, *q = b;
    return candidate_before(p, q) ? -1 : 1;
}

void candidates_sort(Candidate *c, int n) { qsort(c, (size_t)n, sizeof *c, by_x_then_id); }

/* Restores the heap order below i. The worst candidate is on top. */
static void sift_down(Candidate *heap, int n, int i)
{
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && candidate_before(&heap[child], &heap[child + 1]))
            child++;
        if (!candidate_before(&heap[i], &heap[child]))
            return;
        Candidate t = heap[i];
        heap[i]     = heap[child];
        heap[child] = t;
    }
}

/* The k best of x, unordered. A heap of k avoids sorting a large vocabulary for a small k. */
static void select_best(const float *x, int n, Candidate *heap, int k)
{
    for (int i = 0; i < k; i++)
        heap[i] = (Candidate){.x = x[i], .id = i};
    for (int i = k / 2 - 1; i >= 0 && k < n; i--)
        sift_down(heap, k, i);
    for (int i = k; i < n; i++)
        if (x[i] > heap[0].x) { /* at equal x the lower id, already in the heap, is better */
            heap[0] = (Candidate){.x = x[i], .id = i};
            sift_down(heap, k, 0);
        }
}

enum { BLOCK = 64 }; /* a constant trip count, so that the compiler vectorizes */

/* Rejects NaN, and logits that are all -inf, which rank no token. The first loop has no branch, so
 * it vectorizes; only after it look for the token. */
static bool check_logits(const float *x, int n, Error *err)
{
    int bad = 0, some = 0, i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        for (int j = 0; j < BLOCK; j++) {
            bad  |= x[i + j] != x[i + j];
            some |= x[i + j] > -INFINITY;
        }
    for (; i < n; i++) {
        bad  |= x[i] != x[i];
        some |= x[i] > -INFINITY;
    }
    for (i = 0; bad && i < n; i++)
        if (isnan(x[i]))
            return fail(err, INPUT, "the logit of token %d is NaN: cannot sample", i);
    return some || fail(err, INPUT, "every logit is -inf: cannot sample");
}

/* Counts each id of previous [n]. False: one is out of range; nothing is counted then. */
static bool count_tokens(Sampler *s, const int32_t *previous, size_t n, Error *err)
{
    for (size_t j = 0; j < n; j++)
        if (previous[j] < 0 || previous[j] >= s->vocab_size)
            return fail(err, INPUT, "previous token %d: expected 0 to %d", previous[j],
                        s->vocab_size - 1);
    for (size_t j = 0; j < n; j++)
        s->count[previous[j]]++;
    return true;
}

/* The repetition penalty (Keskar et al. 2019, CTRL), once for each distinct id. False: an id out
 * of range. */
static bool penalise_repetition(Sampler *s, const int32_t *previous, size_t n, Error *err)
{
    const float rp = s->opt.repeat_penalty;
    if (rp == 1)
        return true;
    if (!count_tokens(s, previous, n, err))
        return false;
    for (size_t j = 0; j < n; j++) {
        const int32_t id = previous[j];
        if (s->count[id])
            s->x[id] = s->x[id] > 0 ? s->x[id] / rp : s->x[id] * rp;
        s->count[id] = 0;
    }
    return true;
}

/* The penalties of OpenAI's API, for the tokens generated. */
static bool penalise_sampled(Sampler *s, const int32_t *sampled, size_t n, Error *err)
{
    const float presence = s->opt.presence_penalty, frequency = s->opt.frequency_penalty;
    if (presence == 0 && frequency == 0)
        return true;
    if (!count_tokens(s, sampled, n, err))
        return false;
    for (size_t j = 0; j < n; j++) {
        const int32_t id = sampled[j];
        if (s->count[id])
            s->x[id] -= frequency * (float)s->count[id] + presence;
        s->count[id] = 0;
    }
    return true;
}

/* Bias and penalties, in the order of the definition. */
static bool adjust(Sampler *s, const int32_t *previous, size_t n_previous, Error *err)
{
    const size_t n_given = s->opt.n_given < n_previous ? s->opt.n_given : n_previous;
    for (size_t i = 0; i < s->opt.n_bias; i++)
        s->x[s->opt.bias_ids[i]] += s->opt.bias[i];
    return penalise_repetition(s, previous, n_previous, err)
        && penalise_sampled(s, previous + n_given, n_previous - n_given, err);
}

static float largest_of(const float *x, int n)
{
    float lane[BLOCK], m = x[0];
    int   i = 0;
    for (int j = 0; j < BLOCK; j++)
        lane[j] = m;
    for (; i + BLOCK <= n; i += BLOCK)
        for (int j = 0; j < BLOCK; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (int j = 0; j < BLOCK; j++)
        m = lane[j] > m ? lane[j] : m;
    for (; i < n; i++)
        m = x[i] > m ? x[i] : m;
    return m;
}

/* The mask: tokens whose bit is not set get -inf. Allowed ones are raised to at least -FLT_MAX, so
 * that they never tie with masked ones. */
static void leave_out(float *x, int n, const uint64_t *allowed)
{
    int i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        for (int j = 0; j < BLOCK; j++)
            x[i + j] = x[i + j] < -FLT_MAX ? -FLT_MAX : x[i + j];
    for (; i < n; i++)
        x[i] = x[i] < -FLT_MAX ? -FLT_MAX : x[i];
    for (i = 0; i < n; i += 64) {
        const int some = n - i < 64 ? n - i : 64;
        uint64_t  out = ~allowed[i / 64] & UINT64_MAX >> (64 - some);
        if (out == UINT64_MAX)
            for (int j = 0; j < 64; j++)
                x[i + j] = -INFINITY;
        else
            for (; out; out &= out - 1)
                x[i + __builtin_ctzll(out)] = -INFINITY;
    }
}

/* Masks the end tokens while n_sampled is too few. */
static void leave_out_ends(Sampler *s, size_t n_sampled)
{
    for (size_t i = 0; n_sampled < (size_t)s->opt.min_tokens && i < s->opt.n_end_ids; i++)
        if (s->opt.end_ids[i] >= 0 && s->opt.end_ids[i] < s->vocab_size)
            s->x[s->opt.end_ids[i]] = -INFINITY;
}

/* Sets x to the logits after bias, penalties, temperature and mask, and finds the largest. */
static bool prepare(Sampler *s, const float *logits, const uint64_t *allowed,
                    const int32_t *previous, size_t n_previous, Error *err)
{
    const float temp = s->opt.temp;
    const int   n    = s->vocab_size;
    float      *x    = s->x;
    if (!check_logits(logits, n, err))
        return false;
    memcpy(x, logits, (size_t)n * sizeof *x);
    if (!adjust(s, previous, n_previous, err))
        return false;
    if (temp != 0 && temp != 1) {
        int i = 0;
        for (; i + BLOCK <= n; i += BLOCK)
            for (int j = 0; j < BLOCK; j++)
                x[i + j] /= temp;
        for (; i < n; i++)
            x[i] /= temp;
    }
    if (allowed)
        leave_out(x, n, allowed);
    leave_out_ends(s, n_previous < s->opt.n_given ? 0 : n_previous - s->opt.n_given);
    s->largest = largest_of(x, n);
    return s->largest > -INFINITY
        || fail(err, INPUT, "every logit is -inf after bias, penalties, temperature and "
                            "constraint: cannot sample");
}

/* How many of the candidates, best first, reach top_p of the total weight (Holtzman et al.
 * 2019). */
static int keep_top_p(const Candidate *c, int n, double top_p)
{
    double total = 0, cum = 0;
    for (int i = 0; i < n; i++)
        total += (double)c[i].p;
    for (int i = 0; i < n; i++) {
        cum += (double)c[i].p;
        if (cum >= top_p * total)
            return i + 1;
    }
    return n;
}

/* p = exp(x - m). If m is infinite, all x = m share the weight. */
static void weigh(Candidate *c, int n)
{
    float m = c[0].x;
    for (int i = 0; i < n; i++)
        c[i].p = isinf(m) ? (c[i].x == m ? 1.0f : 0.0f) : kernels_expf(c[i].x - m);
}

/* Sorts and weights c[0 .. n), the n best candidates, and keeps what top-p and min-p allow.
 * Returns how many. */
static int finish(const SamplerOptions *opt, Candidate *c, int n, double *total)
{
    candidates_sort(c, n);
    weigh(c, n);
    if (opt->top_p < 1)
        n = keep_top_p(c, n, opt->top_p);
    float floor_p = opt->min_p * c[0].p;
    while (n > 1 && !(c[n - 1].p >= floor_p && c[n - 1].p > 0)) /* weights descend: drops a tail */
        n--;
    *total = 0;
    for (int i = 0; i < n; i++)
        *total += (double)c[i].p;
    return n;
}

/* The definition: everything from x. */
static int sort_all(Sampler *s, double *total)
{
    int n = s->vocab_size,
        k = s->opt.temp == 0                   ? 1
        : s->opt.top_k > 0 && s->opt.top_k < n ? s->opt.top_k
                                               : n;
    select_best(s->x, n, s->candidate, k);
    return finish(&s->opt, s->candidate, k, total);
}

/* If only min-p applies: sorts just the candidates that it might keep. Returns 0 if they are
 * many. The error of exp is far below the margin of 1e-3. */
static int sort_min_p(Sampler *s, double *total)
{
    enum { FEW = 4096 };
    int         n     = 0;
    const float lowest = (float)(math64_log((double)s->opt.min_p) - 1e-3), m = s->largest;
    for (int i = 0; i < s->vocab_size; i++)
        if (s->x[i] - m >= lowest) {
            if (n == FEW)
                return 0;
            s->candidate[n++] = (Candidate){.x = s->x[i], .id = i};
        }
    return finish(&s->opt, s->candidate, n, total);
}

int sampler_candidates(Sampler *s, const float *logits, const uint64_t *allowed,
                       const int32_t *previous, size_t n_previous, const Candidate **candidates,
                       double *total, Error *err)
{
    *candidates = s->candidate;
    return prepare(s, logits, allowed, previous, n_previous, err) ? sort_all(s, total) : 0;
}

const float *sampler_adjusted(const Sampler *s) { return s->x; }

double sampler_uniform(uint64_t seed, uint32_t index)
{
    uint32_t word[4];
    philox4x32((uint32_t[4]){ index, 0, 0, 0 },
               (uint32_t[2]){ (uint32_t)seed, (uint32_t)(seed >> 32) }, word);
    return (double)(word[0] >> 8) * 0x1p-24;
}

static int32_t first_equal(const float *x, float m)
{
    int32_t i = 0;
    while (x[i] != m)
        i++;
    return i;
}

int32_t candidates_sample(const Candidate *c, int n, double total, double u)
{
    double cum = 0;
    for (int i = 0; i < n; i++) {
        cum += (double)c[i].p;
        if (cum > u * total)
            return c[i].id;
    }
    return c[n - 1].id; /* not reached: u < 1, and cum ends at total */
}

bool sampler_next(Sampler *s, const float *logits, const uint64_t *allowed, const int32_t *previous,
                  size_t n_previous, uint32_t index, int32_t *token, Error *err)
{
    enum { SMALL = 512 }; /* up to this many, sorting beats a pass over all */
    const SamplerOptions *o = &s->opt;
    if (!prepare(s, logits, allowed, previous, n_previous, err))
        return false;
    if (o->temp == 0) {
        *token = first_equal(s->x, s->largest);
        return true;
    }
    const double u = sampler_uniform(o->seed, index);

    bool   few = s->vocab_size <= SMALL || (o->top_k > 0 && o->top_k <= SMALL) || isinf(s->largest);
    double total;
    int    n = !few && o->min_p > 0 && o->top_p == 1 && o->top_k == 0 ? sort_min_p(s, &total) : 0;
    s->buckets.largest = s->largest;
    if (n == 0 && !few && buckets_sample(&s->buckets, o, u, token))
        return true;
    if (n == 0)
        n = sort_all(s, &total);
    *token = candidates_sample(s->candidate, n, total, u);
    return true;
}
