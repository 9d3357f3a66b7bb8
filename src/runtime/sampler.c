#include "runtime/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

struct tblock_sampler {
    SamplerOptions opt;
    int            vocab_size;
    Candidate     *candidate;            /* [vocab_size] */
    unsigned char *seen;                 /* [vocab_size]: the penalty counts an id once */
};

/* Under it a division of ordinary logits could overflow, and what overflowed could not be told apart. */
static const float MIN_TEMP = 1e-6f;

Sampler *sampler_new(int vocab_size, const SamplerOptions *opt, Error *err)
{
    static const char *const range = "%s: expected a number %s, found %g";
    bool ok = true;
    if (opt->temp != 0 && !(opt->temp >= MIN_TEMP && opt->temp < INFINITY))
        ok = fail(err, USAGE, range, "temp", "that is 0 or at least 1e-6", (double)opt->temp);
    else if (opt->top_k < 0)
        ok = fail(err, USAGE, range, "top-k", "from 0 up", (double)opt->top_k);
    else if (!(opt->top_p >= 0 && opt->top_p <= 1))
        ok = fail(err, USAGE, range, "top-p", "from 0 to 1", opt->top_p);
    else if (!(opt->min_p >= 0 && opt->min_p <= 1))
        ok = fail(err, USAGE, range, "min-p", "from 0 to 1", (double)opt->min_p);
    else if (!(opt->repeat_penalty >= 0 && opt->repeat_penalty < INFINITY))
        ok = fail(err, USAGE, range, "repeat-penalty", "from 0 up", (double)opt->repeat_penalty);
    else if (vocab_size < 1)
        ok = fail(err, USAGE, "vocab_size: expected at least 1, found %d", vocab_size);
    if (!ok)
        return NULL;

    Sampler *s = calloc(1, sizeof *s);
    if (s) {
        s->opt        = *opt;
        if (opt->top_p == 0)
            s->opt.top_p = 1;
        if (opt->repeat_penalty == 0)
            s->opt.repeat_penalty = 1;
        s->vocab_size = vocab_size;
        s->candidate  = malloc((size_t)vocab_size * sizeof *s->candidate);
        s->seen       = calloc((size_t)vocab_size, 1);
    }
    if (!s || !s->candidate || !s->seen) {
        sampler_free(s);
        fail(err, SYSTEM, "out of memory for a sampler of %d tokens", vocab_size);
        return NULL;
    }
    return s;
}

void sampler_free(Sampler *s)
{
    if (!s)
        return;
    free(s->candidate);
    free(s->seen);
    free(s);
}

static int by_x_then_id(const void *a, const void *b)
{
    const Candidate *p = a, *q = b;
    if (p->x != q->x)
        return p->x > q->x ? -1 : 1;
    return p->id < q->id ? -1 : 1;
}

static bool before(const Candidate *a, const Candidate *b) { return a->x > b->x || (a->x == b->x && a->id < b->id); }

static void sift_down(Candidate *heap, int n, int i) /* the worst candidate is on top */
{
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&heap[child], &heap[child + 1]))
            child++;
        if (!before(&heap[i], &heap[child]))
            return;
        Candidate t = heap[i];
        heap[i]     = heap[child];
        heap[child] = t;
    }
}

/* Bring the k best to the front, in no order: a heap of k, so that a large vocabulary is not sorted for a small k. */
static void select_best(Candidate *c, int n, int k)
{
    for (int i = k / 2 - 1; i >= 0; i--)
        sift_down(c, k, i);
    for (int i = k; i < n; i++)
        if (before(&c[i], &c[0])) {
            Candidate t = c[0];
            c[0]        = c[i];
            c[i]        = t;
            sift_down(c, k, 0);
        }
}

/* Logits with the repetition penalty, once for each distinct id. False: a NaN, or an id out of range. */
static bool penalise(Sampler *s, const float *logits, const int32_t *previous, size_t n_previous, Error *err)
{
    float rp = s->opt.repeat_penalty;
    for (int i = 0; i < s->vocab_size; i++) {
        if (isnan(logits[i]))
            return fail(err, INPUT, "logit of token %d is NaN: nothing can be drawn", i);
        s->candidate[i] = (Candidate){.x = logits[i], .id = i};
    }
    bool ok = true;
    for (size_t j = 0; j < n_previous && rp != 1; j++) {
        int32_t id = previous[j];
        if (id < 0 || id >= s->vocab_size) {
            ok = fail(err, INPUT, "previous token %d: expected 0 to %d", id, s->vocab_size - 1);
            break;
        }
        float x = logits[id];
        if (!s->seen[id])
            s->candidate[id].x = x > 0 ? x / rp : x * rp;
        s->seen[id] = 1;
    }
    for (size_t j = 0; j < n_previous && rp != 1; j++)
        if (previous[j] >= 0 && previous[j] < s->vocab_size)
            s->seen[previous[j]] = 0;
    return ok;
}

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

/* p = exp(x - m). An infinite m (an infinite logit) shares the weight among x = m. */
static void weigh(Candidate *c, int n)
{
    float m = c[0].x;
    for (int i = 0; i < n; i++)
        c[i].p = isinf(m) ? (c[i].x == m ? 1.0f : 0.0f) : kernels_expf(c[i].x - m);
}

int sampler_candidates(Sampler *s, const float *logits, const int32_t *previous, size_t n_previous,
                       const Candidate **candidates, double *total, Error *err)
{
    Candidate *c = s->candidate;
    int        n = s->vocab_size;
    if (!penalise(s, logits, previous, n_previous, err))
        return 0;

    bool greedy = s->opt.temp == 0;
    for (int i = 0; i < n && !greedy; i++)
        c[i].x = c[i].x / s->opt.temp;
    int k = greedy ? 1 : s->opt.top_k > 0 && s->opt.top_k < n ? s->opt.top_k : n;
    if (k < n)
        select_best(c, n, k);
    n = k;
    qsort(c, (size_t)n, sizeof *c, by_x_then_id);
    weigh(c, n);

    if (s->opt.top_p < 1)
        n = keep_top_p(c, n, s->opt.top_p);
    float floor_p = s->opt.min_p * c[0].p;
    while (n > 1 && !(c[n - 1].p >= floor_p && c[n - 1].p > 0)) /* weights descend: what min-p excludes is the tail */
        n--;

    *total = 0;
    for (int i = 0; i < n; i++)
        *total += (double)c[i].p;
    *candidates = c;
    return n;
}

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
        memcpy(c, next, sizeof c);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

bool sampler_next(Sampler *s, const float *logits, const int32_t *previous, size_t n_previous, uint32_t index, int32_t *token,
                  Error *err)
{
    const Candidate *c;
    double           total, cum = 0;
    int              n = sampler_candidates(s, logits, previous, n_previous, &c, &total, err);
    if (n == 0)
        return false;

    uint32_t word[4];
    philox4x32((uint32_t[4]){index, 0, 0, 0}, (uint32_t[2]){(uint32_t)s->opt.seed, (uint32_t)(s->opt.seed >> 32)}, word);
    double u = (double)(word[0] >> 8) * 0x1p-24;
    for (int i = 0; i < n; i++) {
        cum += (double)c[i].p;
        if (cum > u * total) {
            *token = c[i].id;
            return true;
        }
    }
    *token = c[n - 1].id; /* not reached: u < 1 and cum ends at total */
    return true;
}
