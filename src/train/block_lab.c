/* train/block_lab.c: runs one block on random numbers and records every step; times the fused
 * operations; stacks blocks to see how values and gradients grow with depth. */
#include "train/block_lab.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/progress.h"

LabStat lab_stat(const float *x, size_t n)
{
    LabStat s   = { .seen = true, .n = n };
    double  sum = 0;
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i];
        if (!isfinite(v)) {
            if (s.n_bad++ == 0) {
                s.first_bad = i;
                s.bad_value = x[i];
            }
            continue;
        }
        sum += v * v;
        s.largest = fabs(v) > s.largest ? fabs(v) : s.largest;
    }
    s.rms = n > s.n_bad ? sqrt(sum / (double)(n - s.n_bad)) : 0;
    return s;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static size_t bytes_of(const Carver *c) { return c->at * sizeof(float); }

/* Divides the lab's buffers. With base NULL it only counts. */
static void carve_lab(BlockLab *lab, Carver *c, bool probs)
{
    size_t n = (size_t)lab->n_tok, d = (size_t)lab->config.d_model;
    block_acts_carve(&lab->acts, c, &lab->shape, lab->n_tok);
    lab->acts_bytes = bytes_of(c);
    block_work_carve(&lab->work, c, &lab->shape, lab->n_tok);
    lab->work_bytes = bytes_of(c) - lab->acts_bytes;
    lab->y   = carve(c, n, d);
    lab->d_y = carve(c, n, d);
    lab->d_x = carve(c, n, d);
    if (probs)
        lab->acts.probs = carve(c, n * (size_t)lab->config.heads, (size_t)lab->seq_len);
    lab->x = lab->acts.x;
}

/* Allocates what the counting pass counted, zeroed. */
static float *room_for(const Carver *c, Error *err)
{
    size_t n_bytes = c->overflow ? 0 : round_up(bytes_of(c), 64);
    float *p       = n_bytes ? aligned_alloc(64, n_bytes) : NULL;
    if (p)
        memset(p, 0, n_bytes);
    else if (c->overflow)
        fail(err, SYSTEM, "out of memory: the sizes of a block overflow");
    else
        fail(err, SYSTEM, "out of memory for %zu MB of activations", n_bytes >> 20);
    return p;
}

/* Do weights, their gradients and the counted buffers fit into memory? what: names them, for the
 * message. */
static bool fits(const BlockLab *lab, const Carver *c, const char *what, Error *err)
{
    return c->overflow
        || memory_fits(2.0 * (double)lab->params.n_floats * sizeof(float) + (double)bytes_of(c),
                       what, err);
}

static bool open_memory(BlockLab *lab, bool probs, Error *err)
{
    Carver c = { 0 };
    carve_lab(lab, &c, probs);
    if (!fits(lab, &c, "weights, their gradients and activations take", err)
        || !(lab->memory = room_for(&c, err)))
        return false;
    c = (Carver){ .base = lab->memory };
    carve_lab(lab, &c, probs);
    return (lab->w = params_array(&lab->params, err))
        && (lab->d_w = params_array(&lab->params, err));
}

static bool open_rope(BlockLab *lab, Error *err)
{
    const Config *c = &lab->config;
    int rot = c->positions == POS_ROPE ? c->rotary_dim : 0;
    lab->inv_freq = calloc((size_t)rot / 2 + 1, sizeof *lab->inv_freq);
    if (!lab->inv_freq)
        return no_memory(NULL, err);
    if (rot)
        config_inv_freq(c, false, NULL, 0, lab->inv_freq, &lab->factor);
    return rope_angles_make(&lab->rope, lab->seq_len, rot, lab->inv_freq, lab->factor, err);
}

bool lab_open(BlockLab *lab, const Config *c, bool causal, int n_seqs, int seq_len, bool probs,
              int threads, Error *err)
{
    *lab = (BlockLab){ .config = *c,
                       .n_seqs = n_seqs,
                       .seq_len = seq_len,
                       .n_tok = n_seqs * seq_len,
                       .factor = 1 };
    if (!params_layout(&lab->params, c, err))
        return false;
    lab->shape        = params_shape(&lab->params, 0);
    lab->shape.causal = causal;
    if (!open_memory(lab, probs, err)
        || !open_rope(lab, err) || !crew_open(&lab->crew, threads, err)
        || !train_ops_reserve(&lab->crew, lab->n_tok, seq_len, block_width(&lab->shape), err))
        return false;
    lab->scratch_bytes = lab->crew.scratch_floats * sizeof(float);
    return true;
}

void lab_close(BlockLab *lab)
{
    crew_close(&lab->crew);
    rope_angles_free(&lab->rope);
    params_free(&lab->params);
    free(lab->inv_freq);
    free(lab->memory);
    free(lab->w);
    free(lab->d_w);
    *lab = (BlockLab){ 0 };
}

/* ---- Numbers from a seed --------------------------------------------------------------------- */

enum { FILL_PIECE = 16384, INPUT_TENSOR = 1 << 20 }; /* multiple of 4; x's number as a tensor */

typedef struct Fill { float *x, middle, reach; uint64_t seed; uint32_t tensor, block; } Fill;

/* Philox gives four numbers: key = seed, counter = (number / 4 in 64 bits, tensor, block). */
static void fill_piece(void *arg, size_t at, int n)
{
    const Fill    *f = arg;
    const uint32_t key[2] = { (uint32_t)f->seed, (uint32_t)(f->seed >> 32) };
    for (size_t j = at, end = at + (size_t)n; j < end; j += 4) {
        uint32_t word[4];
        philox4x32((uint32_t[4]){ (uint32_t)(j / 4), (uint32_t)((uint64_t)j / 4 >> 32), f->tensor,
                                  f->block },
                   key, word);
        for (size_t k = 0; k < 4 && j + k < end; k++)
            f->x[j + k] = f->middle + f->reach * (float)(((double)word[k] + 0.5) * 0x1p-31 - 1);
    }
}

/* Fills x [n] with uniform numbers from middle - reach to middle + reach. */
static void fill(const BlockLab *lab, float *x, size_t n, float middle, double reach, uint64_t seed,
                 int tensor, int block)
{
    Fill f = { x, middle, (float)reach, seed, (uint32_t)tensor, (uint32_t)block };
    crew_cut(&lab->crew, n, FILL_PIECE, fill_piece, &f);
}

void lab_fill_weights(BlockLab *lab, uint64_t seed, int block)
{
    for (int i = 0; i < lab->params.n; i++) {
        const TensorSpec *s = &lab->params.spec[i];
        /* A uniform number of reach r has variance r^2 / 3: sqrt(3 / k) gives 1 / k. */
        double reach = s->k ? sqrt(3.0 / s->k) : 0.1;
        if (s->layer == 0)
            fill(lab, lab->w + lab->params.at[i], params_length(&lab->params, i),
                 s->k || s->bias ? 0 : 1, reach, seed, i, block);
    }
}

void lab_fill_input(BlockLab *lab, uint64_t seed)
{
    size_t n = (size_t)lab->n_tok * (size_t)lab->config.d_model;
    fill(lab, lab->x, n, 0, sqrt(3), seed, INPUT_TENSOR, 0);
    fill(lab, lab->d_y, n, 0, sqrt(3), seed, INPUT_TENSOR + 1, 0);
}

/* ---- Running --------------------------------------------------------------------------------- */

static BlockCall call_of(const BlockLab *lab, const BlockWeights *w, const BlockObserver *o)
{
    return (BlockCall){ .crew = &lab->crew,
                        .shape = &lab->shape,
                        .w = w,
                        .rope = &lab->rope,
                        .work = &lab->work,
                        .n_seqs = lab->n_seqs,
                        .seq_len = lab->seq_len,
                        .observer = o };
}

static void note(void *user, BlockStep step, bool gradient, const float *value, size_t n)
{
    BlockLab *lab = user;
    LabStat  *s   = gradient ? &lab->gradient[step] : &lab->value[step];
    if (s->seen) /* the backward pass computes it again */
        return;
    *s = lab_stat(value, n);
    if (gradient)
        lab->back[lab->n_back++] = step;
    else
        lab->order[lab->n_order++] = step;
}

/* Returns the seconds of both passes together; the shortest time of each is kept in lab. */
static double pass(BlockLab *lab, const BlockObserver *observer)
{
    size_t       n = (size_t)lab->n_tok * (size_t)lab->config.d_model;
    BlockWeights w = params_block(&lab->params, lab->w, 0, false),
                 d = params_block(&lab->params, lab->d_w, 0, true);
    BlockCall    b = call_of(lab, &w, observer);
    memset(lab->d_w, 0, lab->params.n_floats * sizeof *lab->d_w);
    memcpy(lab->d_x, lab->d_y, n * sizeof *lab->d_x);
    double start = clock_seconds();
    block_forward(&b, &lab->acts, lab->y);
    double middle = clock_seconds();
    block_backward(&b, &lab->acts, &d, lab->d_x);
    double end = clock_seconds();
    lab->forward_seconds  = fmin(lab->forward_seconds, middle - start);
    lab->backward_seconds = fmin(lab->backward_seconds, end - middle);
    return end - start;
}

/* First runs without an observer, for the time: up to four times if it is short, because the
 * first run also wakes the threads. Then once with an observer, which reads every value and so
 * takes longer. */
void lab_run(BlockLab *lab)
{
    BlockObserver observer = { note, lab };
    lab->n_order = lab->n_back = 0;
    memset(lab->value, 0, sizeof lab->value);
    memset(lab->gradient, 0, sizeof lab->gradient);
    lab->forward_seconds = lab->backward_seconds = INFINITY;
    for (int i = 0; i < 4 && pass(lab, NULL) < 0.1; i++)
        ;
    double forward = lab->forward_seconds, backward = lab->backward_seconds;
    pass(lab, &observer);
    lab->forward_seconds  = forward;
    lab->backward_seconds = backward;
}

/* ---- The fused residual + norm --------------------------------------------------------------- */

typedef struct FusedRoom { float *sum, *xn, *d_x, *d_y, *d_w, *d_b; } FusedRoom;

static FusedRoom carve_fused(Carver *c, size_t n, size_t d)
{
    FusedRoom r = { carve(c, 1, n), carve(c, 1, n), carve(c, 1, n),
                    carve(c, 1, n), carve(c, 1, d), carve(c, 1, d) };
    return r;
}

static void plain_pass(const BlockLab *lab, const FusedRoom *r, const NormParams *p, size_t n)
{
    NormParams d = { p->kind, r->d_w, p->b ? r->d_b : NULL, p->eps, p->n };
    residual_add(&lab->crew, r->sum, lab->x, lab->y, lab->shape.residual_scale, n);
    norm_forward(&lab->crew, r->xn, r->sum, p, lab->n_tok);
    norm_backward_rows(&lab->crew, r->d_x, &d, r->sum, p, lab->d_y, lab->n_tok);
    memcpy(r->d_y, r->d_x, n * sizeof *r->d_y);
    scale_all(&lab->crew, r->d_y, lab->shape.residual_scale, n);
}

static void fused_pass(const BlockLab *lab, const FusedRoom *r, const NormParams *p)
{
    NormParams d = { p->kind, r->d_w, p->b ? r->d_b : NULL, p->eps, p->n };
    residual_norm_forward(&lab->crew, r->sum, r->xn, lab->x, lab->y, lab->shape.residual_scale, p,
                          lab->n_tok);
    residual_norm_backward(&lab->crew, r->d_x, r->d_y, &d, r->sum, p, lab->d_y,
                           lab->shape.residual_scale, lab->n_tok);
}

static bool same(const float *a, const float *b, size_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

bool lab_fused(BlockLab *lab, LabFused *out, Error *err)
{
    enum { TIMES = 5 };
    size_t n = (size_t)lab->n_tok * (size_t)lab->config.d_model, d = (size_t)lab->config.d_model;
    BlockWeights w = params_block(&lab->params, lab->w, 0, false);
    Weight       norm = w.ffn_norm.w ? w.ffn_norm : w.ffn_post_norm;
    NormParams   p = { lab->shape.norm, norm.w, norm.b, lab->shape.eps, lab->config.d_model };
    FusedRoom    room[2];
    Carver       c = { 0 };
    carve_fused(&c, n, d);
    carve_fused(&c, n, d);
    float *memory = room_for(&c, err);
    if (!memory)
        return false;
    *out = (LabFused){ .fused_seconds = INFINITY, .plain_seconds = INFINITY };
    c    = (Carver){ .base = memory };
    room[0] = carve_fused(&c, n, d);
    room[1] = carve_fused(&c, n, d);
    for (int i = 0; i < TIMES; i++) {
        for (int k = 0; k < 2; k++) { /* both are added to, so start from the same */
            memcpy(room[k].d_x, lab->d_x, n * sizeof(float));
            memset(room[k].d_w, 0, d * sizeof(float));
            memset(room[k].d_b, 0, d * sizeof(float));
        }
        double start = clock_seconds();
        plain_pass(lab, &room[0], &p, n);
        double middle = clock_seconds();
        fused_pass(lab, &room[1], &p);
        out->plain_seconds = fmin(out->plain_seconds, middle - start);
        out->fused_seconds = fmin(out->fused_seconds, clock_seconds() - middle);
    }
    out->forward_same  = same(room[0].sum, room[1].sum, n) && same(room[0].xn, room[1].xn, n);
    out->backward_same = same(room[0].d_x, room[1].d_x, n) && same(room[0].d_y, room[1].d_y, n)
        && same(room[0].d_w, room[1].d_w, d) && same(room[0].d_b, room[1].d_b, d);
    free(memory);
    return true;
}

/* ---- Blocks one on another ------------------------------------------------------------------- */

/* Infinite if a value is not finite: something overflowed, and it has no size. */
double lab_rms(const float *x, size_t n)
{
    LabStat s = lab_stat(x, n);
    return s.n_bad ? (double)INFINITY : s.rms;
}

/* A block that norms the output of a half has no norm of its input (or sum). Another placement
 * needs one, so it borrows the norm of the output. */
static BlockWeights stack_weights(const BlockLab *lab)
{
    BlockWeights w = params_block(&lab->params, lab->w, 0, false);
    if (!w.attn_norm.w) {
        w.attn_norm = w.attn_post_norm;
        w.ffn_norm  = w.ffn_post_norm;
    }
    return w;
}

/* Runs n blocks forward, then backward. ratio[i] compares the gradient before block i with d_y. */
static bool run_stack(BlockLab *lab, const BlockShape *s, BlockActs *acts, float *out, float *d_x,
                      int n, LabWeights weights, void *user, double *ratio,
                      const Progress *progress, Error *err)
{
    static const BlockWeights none = { 0 }; /* gradients of weights are not wanted */
    size_t size = (size_t)lab->n_tok * (size_t)s->d_model;
    double whole = lab_rms(lab->d_y, size);
    memcpy(acts[0].x, lab->x, size * sizeof(float));
    memcpy(d_x, lab->d_y, size * sizeof(float));
    ratio[n] = 1;
    for (int i = 0; i < 2 * n; i++) {
        int l = i < n ? i : 2 * n - 1 - i;
        if (weights && !weights(user, lab, l, err))
            return false;
        BlockWeights w = stack_weights(lab);
        BlockCall    b = call_of(lab, &w, NULL);
        b.shape = s;
        if (i < n) {
            block_forward(&b, &acts[l], l + 1 < n ? acts[l + 1].x : out);
        } else {
            block_backward(&b, &acts[l], &none, d_x);
            ratio[l] = whole > 0 ? lab_rms(d_x, size) / whole : (double)NAN;
        }
        if (!progress_tell(progress, i + 1, 2 * n, err))
            return false;
    }
    return true;
}

bool lab_stack(BlockLab *lab, NormPlacement place, int n, LabWeights weights, void *user,
               double *rms, double *ratio, const Progress *progress, Error *err)
{
    BlockShape s    = lab->shape;
    size_t     size = (size_t)lab->n_tok * (size_t)s.d_model;
    BlockActs *acts = calloc((size_t)n, sizeof *acts);
    float     *memory = NULL, *out = NULL, *d_x = NULL;
    Carver     c = { 0 };
    bool       ok = acts != NULL || no_memory(NULL, err);
    assert(n > 0);
    s.place = place;
    for (int pass = 0; ok && pass < 2; pass++) {
        for (int l = 0; l < n; l++)
            block_acts_carve(&acts[l], &c, &s, lab->n_tok);
        out = carve(&c, 1, size);
        d_x = carve(&c, 1, size);
        if (pass == 0)
            ok = fits(lab, &c, "a stack of blocks takes", err)
                && (memory = room_for(&c, err)) != NULL;
        c = (Carver){ .base = memory };
    }
    ok = ok && run_stack(lab, &s, acts, out, d_x, n, weights, user, ratio, progress, err);
    for (int l = 0; ok && l <= n; l++)
        rms[l] = lab_rms(l < n ? acts[l].x : out, size);
    free(memory);
    free(acts);
    return ok;
}
