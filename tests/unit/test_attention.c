/* tests/unit/test_attention.c: attention over a long cache, cut between threads: the bits of one
 * thread. */
#include "test.h"

#include <string.h>

#include "base/memory.h"
#include "runtime/ops.h"

enum { D = 20, GROUP = 4, MAX_THREADS = 5, MAX_TOK = 16, MAX_KV_HEADS = 3 };

static Error err;

typedef struct Job {
    Run    run;
    Model  model;
    Layer  layer;
    KvCache kv;
    Span   span[2];
    char  *scratch;
    float *q, *y;
    int    n_threads;                /* that ran */
} Job;

static float number(uint32_t *s)
{
    *s = *s * 1664525u + 1013904223u;
    return (float)(int32_t)*s * 0x1p-30f;
}

static void attend(void *arg, Team team)
{
    Job *j = arg;
    Run  r = j->run;
    r.team         = team;
    r.scratch      = j->scratch + (size_t)team.thread * r.thread_bytes;
    r.attn_scratch = (float *)(void *)((char *)r.scratch + KERNEL_SCRATCH);
    if (team.thread == 0)
        j->n_threads = team.n_threads;
    attention(&r, &r.att_out, 0);
}

/* One sequence of `length` positions whose last n_tok are asked for; as the runtime does, in pieces
 * of n_tok, so that a windowed cache has given up what lies before: a tile that must not be read is
 * a null pointer. */
typedef enum KeysAndValues { APART, EQUAL, ONCE } KeysAndValues;

static void open_job(Job *j, KvType type, int kv_heads, int window, int length, int n_tok,
                     KeysAndValues keys)
{
    *j = (Job){ .model.cfg = { .kv_lora = keys == ONCE ? 1 : 0,
                               .heads = kv_heads * GROUP,
                               .kv_heads = kv_heads,
                               .head_dim = D,
                               .window = window,
                               .n_layers = 1 } };
    const Config *c = &j->model.cfg;
    KvShape  shape = {
        .n_layers = 1, .kv_heads = kv_heads, .head_dim = D, .window = window, .type = type,
        .v_is_k = keys == ONCE
    };
    uint32_t s     = (uint32_t)(length + kv_heads);
    size_t   stride = round_up((size_t)c->heads * D, LANES), floats = (size_t)n_tok * stride;
    j->run.kernels      = kernels_select(NULL, &err);
    j->run.thread_bytes =
        round_up(KERNEL_SCRATCH + attention_scratch_floats(c) * sizeof(float), 64);
    j->scratch = aligned_alloc(64, MAX_THREADS * j->run.thread_bytes);
    j->q       = aligned_alloc(64, floats * sizeof(float));
    j->y       = aligned_alloc(64, floats * sizeof(float));
    if (!j->scratch || !j->q || !j->y || !kv_cache_init(&j->kv, &shape, 1, &err))
        exit(4);
    for (size_t i = 0; i < floats; i++)
        j->q[i] = number(&s);
    for (int pos = 0; pos < length; pos += n_tok) {
        int n = length - pos < n_tok ? length - pos : n_tok;
        if (!kv_cache_reserve(&j->kv, 0, n, &err))
            exit(4);
        for (int i = 0; i < n * kv_heads; i++) {
            float k[D], v[D];
            for (int d = 0; d < D; d++)
                k[d] = number(&s), v[d] = number(&s);
            kv_cache_put(&j->kv, j->run.kernels, 0, 0, i % kv_heads, pos + i / kv_heads, k,
                         keys == APART ? v : k);
        }
        j->kv.seq[0].length += n;
        j->span[0] = (Span){ 0, pos, 0, n };
    }
    j->run.model = &j->model, j->run.layer = &j->layer, j->run.kv_cache = &j->kv,
    j->run.span = j->span, j->run.n_spans = 1;
    j->run.n_tok = j->span[0].n_tok, j->run.attn_scale = 0.25f;
    j->run.q       = (Act){ .data = j->q, .stride = stride, .width = c->heads * D };
    j->run.att_out = (Act){ .data = j->y, .stride = stride, .width = c->heads * D };
}

static void close_job(Job *j)
{
    kv_cache_free(&j->kv);
    free(j->scratch), free(j->q), free(j->y);
}

static void compare(KvType type, int kv_heads, int window, int length, int n_tok)
{
    Job j;
    open_job(&j, type, kv_heads, window, length, n_tok, APART);
    size_t n    = (size_t)j.run.n_tok * j.run.q.stride * sizeof(float);
    float *want = malloc(n);
    memset(j.y, 0, n);
    threads_run(1, attend, &j);
    memcpy(want, j.y, n);
    for (int threads = 2; threads <= MAX_THREADS; threads++) {
        memset(j.y, 0, n);
        threads_run(threads, attend, &j);
        CHECK(memcmp(want, j.y, n) == 0,
              "type %d, %d KV heads, window %d, %d positions, %d tokens, %d threads: other bits",
        (int)type,
              kv_heads, window, length, n_tok, j.n_threads);
    }
    free(want);
    close_job(&j);
}

static void threads_that_share_a_head_give_its_bits(void)
{
    static const int windows[] = { 0, 1000, 1025 }, lengths[] = { 63, 300, 1089, 2000 },
                     tokens[] = { 1, 5, MAX_TOK };
    for (int type = 0; type < KV_COUNT; type++)
        for (int kv_heads = 1; kv_heads <= MAX_KV_HEADS; kv_heads++)
            for (int w = 0; w < 3; w++)
                for (int i = 0; i < 12; i++)
                    compare((KvType)type, kv_heads, windows[w], lengths[i / 3], tokens[i % 3]);
}

/* Latent attention: a cache that holds one vector for K and V, and one that holds it twice. */
static void k_that_is_v_is_kept_once_with_the_bits_of_both(void)
{
    for (int type = 0; type < KV_COUNT; type++)
        for (int i = 0; i < 4; i++) {
            int window = i % 2 ? 100 : 0, n_tok = i / 2 ? MAX_TOK : 1;
            Job two, one;
            open_job(&two, (KvType)type, 1, window, 600, n_tok, EQUAL);
            open_job(&one, (KvType)type, 1, window, 600, n_tok, ONCE);
            size_t n = (size_t)n_tok * two.run.q.stride * sizeof(float);
            CHECK(one.kv.bytes < two.kv.bytes, "%zu bytes and %zu", one.kv.bytes, two.kv.bytes);
            memset(two.y, 0, n);
            threads_run(1, attend, &two);
            for (int threads = 1; threads <= MAX_THREADS; threads++) {
                memset(one.y, 0, n);
                threads_run(threads, attend, &one);
                CHECK(memcmp(one.y, two.y, n) == 0, "type %d, window %d, %d tokens, %d threads",
                      type, window, n_tok, threads);
            }
            close_job(&two);
            close_job(&one);
        }
}

/* 64 queries fill the scratch of a thread with 42 tiles: the whole takes two strips of two
 * threads. */
static void a_cache_longer_than_the_scratch_is_taken_in_strips(void)
{
    compare(KV_Q8, 1, 0, 2 * 42 * KV_TILE + 100, MAX_TOK);
    compare(KV_F32, 1, 2 * 42 * KV_TILE + 99, 2 * 42 * KV_TILE + 700, MAX_TOK);
}

/* NaN in every tile that no query of the call sees, through the cache's own tables: one number read
 * from there would show. */
static void spoil_tiles_outside(Job *j, int window)
{
    KvTiles *t      = &j->kv.seq[0].layer[0];
    int      oldest = j->span[0].pos - window + 1;
    for (int i = 0; i < t->n; i++)
        if ((i + 1) * KV_TILE <= oldest) {
            if (!t->tile[i])
                exit(4);
            memset(t->tile[i]->data, 0xff, j->kv.tile_bytes);
        }
}

/* The cache is one without a window, so that it has given up nothing: what is not read is there,
 * and wrong. */
static void a_window_reads_its_own_tiles_only(void)
{
    static const int windows[] = { 1, 63, 64, 65, 200, 1000 }, tokens[] = { 1, 16 };
    for (int type = 0; type < KV_COUNT; type++)
        for (int i = 0; i < 12; i++) {
            Job j;
            int window = windows[i / 2], n_tok = tokens[i % 2];
            open_job(&j, (KvType)type, 2, 0, 1600, n_tok, APART);
            j.model.cfg.window = window;
            size_t n    = (size_t)j.run.n_tok * j.run.q.stride * sizeof(float);
            float *want = malloc(n);
            memset(j.y, 0, n);
            threads_run(1, attend, &j);
            memcpy(want, j.y, n);
            spoil_tiles_outside(&j, window);
            for (int threads = 1; threads <= 3; threads++) {
                memset(j.y, 0, n);
                threads_run(threads, attend, &j);
                CHECK(memcmp(want, j.y, n) == 0,
                      "type %d, window %d, %d tokens, %d threads: a tile outside was read", type,
                window, n_tok,
                      threads);
            }
            free(want);
            close_job(&j);
        }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(threads_that_share_a_head_give_its_bits);
    TEST(k_that_is_v_is_kept_once_with_the_bits_of_both);
    TEST(a_cache_longer_than_the_scratch_is_taken_in_strips);
    TEST(a_window_reads_its_own_tiles_only);
    return TEST_END();
}
