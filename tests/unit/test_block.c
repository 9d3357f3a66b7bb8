/* tests/unit/test_block.c: the algebra of a decoder block, on small models built in memory. What
 * must be equal is compared bit by bit. */
#include "test.h"

#include <math.h>

#include "base/number.h"
#include "runtime/forward.h"

static Error err;

/* ---- Small models in memory ------------------------------------------------------------------ */

enum { MAX_OWNED = 256, MAX_TOK = 160, THREADS = 2 };

typedef struct Tiny { /* a model that owns what it points to */
    Model model;
    void *owned[MAX_OWNED];
    int   n_owned;
} Tiny;

/* Everything here is small: no memory is the end of the test. */
static void *take(Tiny *t, size_t n_bytes)
{
    void *p = aligned_alloc(64, (n_bytes + 63) / 64 * 64);
    if (!p || t->n_owned == MAX_OWNED) {
        fprintf(stderr, "test_block: no memory\n");
        exit(4);
    }
    memset(p, 0, n_bytes);
    return t->owned[t->n_owned++] = p;
}

static void tiny_free(Tiny *t)
{
    while (t->n_owned)
        free(t->owned[--t->n_owned]);
}

/* Number i of stream seed: in [-1, 1), multiples of 2^-23. */
static float noise(uint32_t seed, uint32_t i)
{
    uint64_t z = ((uint64_t)seed << 32 | i) * 0x9E3779B97F4A7C15u;
    z          = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z          = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (float)((double)(int64_t)(z >> 40) / 8388608.0 - 1.0);
}

static float *noise_vector(Tiny *t, int n, uint32_t seed, float centre, float spread)
{
    float *v = take(t, (size_t)panel_count(n) * PANEL_ROWS * sizeof *v);
    for (int i = 0; i < n; i++)
        v[i] = centre + spread * noise(seed, (uint32_t)i);
    return v;
}

/* Row-major [rows, k] to a matrix in panels. */
static Mat mat_of(Tiny *t, const float *w, int rows, int k)
{
    char *panels = take(t, (size_t)panel_count(rows) * panel_bytes(WT_F32, k));
    for (int p = 0; p < panel_count(rows); p++)
        panel_pack(WT_F32, panels + (size_t)p * panel_bytes(WT_F32, k),
                   w + (size_t)p * PANEL_ROWS * (size_t)k,
                   rows - p * PANEL_ROWS < PANEL_ROWS ? rows - p * PANEL_ROWS : PANEL_ROWS, k);
    return (Mat){.type = WT_F32, .rows = rows, .k = k, .stack = 1, .w = {{panels}}};
}

static Mat noise_mat(Tiny *t, int rows, int k, uint32_t seed)
{
    float *w = noise_vector(t, rows * k, seed, 0, 1.7f / sqrtf((float)k));
    return mat_of(t, w, rows, k);
}

static Mat zero_mat(Tiny *t, int rows, int k)
{
    return mat_of(t, take(t, (size_t)(rows * k) * sizeof(float)), rows, k);
}

/* Row r of a matrix of f32 panels begins here and goes on every 16 floats. */
static float *mat_row(const Mat *m, int r)
{
    return (float *)(uintptr_t)m->w.part[0] + (size_t)(r / PANEL_ROWS) * PANEL_ROWS * (size_t)m->k
        + r % PANEL_ROWS;
}

static Config config_of(int d_model, int heads, int kv_heads, int head_dim, int d_ff, int window)
{
    Config c;
    config_defaults(&c);
    c.d_model    = d_model;
    c.n_layers   = 1;
    c.heads      = heads;
    c.kv_heads   = kv_heads;
    c.head_dim   = head_dim;
    c.rotary_dim = head_dim;
    c.d_ff       = d_ff;
    c.vocab_size = 32;
    c.window     = window;
    return c;
}

/* One block with random weights; embedding row i is the input of token i. */
static void tiny_make(Tiny *t, Config c)
{
    memset(t, 0, sizeof *t);
    CHECK(config_check(&c, "test", &err), "%s", err.msg);
    Model *m  = &t->model;
    m->cfg    = c;
    m->embed  = (Embedding){ .type = WT_F32,
                             .rows = c.vocab_size,
                             .k = c.d_model,
                             .w = { { noise_vector(t, c.vocab_size * c.d_model, 1, 0, 1) } } };
    m->layer  = take(t, sizeof *m->layer);
    Layer *l  = m->layer;
    int    q  = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
    *l        = (Layer){.attn_norm = {.w = noise_vector(t, c.d_model, 2, 1, 0.5f)},
                        .wq        = noise_mat(t, q, c.d_model, 3),
                        .wk        = noise_mat(t, kv, c.d_model, 4),
                        .wv        = noise_mat(t, kv, c.d_model, 5),
                        .wo        = noise_mat(t, c.d_model, q, 6),
                        .ffn_norm  = {.w = noise_vector(t, c.d_model, 7, 1, 0.5f)},
                        .w_gate    = noise_mat(t, c.d_ff, c.d_model, 8),
                        .w_up      = noise_mat(t, c.d_ff, c.d_model, 9),
                        .w_down    = noise_mat(t, c.d_model, c.d_ff, 10)};
    m->final_norm.w = noise_vector(t, c.d_model, 11, 1, 0.5f);
    m->lm_head    = noise_mat(t, c.vocab_size, c.d_model, 12);
}

/* ---- Running them ---------------------------------------------------------------------------- */

static Numerics numerics;        /* of the runs */

/* the residual stream after block 0 */
typedef struct Seen { float x[MAX_TOK][64]; int width; } Seen;

static void see(void *user, const char *name, size_t first, int n_tok, const float *x,
                size_t stride)
{
    Seen *s = user;
    if (strcmp(name, "layer0") == 0)
        for (int t = 0; t < n_tok; t++)
            memcpy(s->x[first + (size_t)t], x + (size_t)t * stride, (size_t)s->width * sizeof *x);
}

/* How they are run. */
typedef struct How { const char *isa; int threads, piece; } How;
static const How usual = {"auto", THREADS, MAX_TOK};
static How       how   = {"auto", THREADS, MAX_TOK};
static int       every = 1; /* of so many tokens, the last one's logits are wanted */

/* Run tokens, in pieces; the block's output to seen (or NULL), logits [n, 32] to logits (or
 * NULL). */
static void run(const Model *m, const int *tokens, int n, Seen *seen, float *logits)
{
    const Config *c     = &m->cfg;
    KvShape       shape = { .n_layers = 1,
                            .kv_heads = c->kv_heads,
                            .head_dim = c->head_dim,
                            .window = c->window,
                            .type = KV_F32 };
    KvCache       kv    = {0};
    Forward      *f     =
        forward_new(m, kernels_select(how.isa, &err), numerics, MAX_TOK, how.threads, 0, &err);
    bool          ok    = f && kv_cache_init(&kv, &shape, 1, &err);
    if (f)
        forward_all_threads(f);
    if (f && seen) {
        seen->width = c->d_model;
        forward_observe(f, see, seen, NULL);
    }
    for (int at = 0; ok && at < n; at += how.piece) {
        BatchToken batch[MAX_TOK];
        int        piece = n - at < how.piece ? n - at : how.piece;
        for (int t = 0; t < piece; t++)
            batch[t] = (BatchToken){ .seq = 0,
                                     .pos = at + t,
                                     .token = tokens[at + t],
                                     .logits = logits && (at + t) % every == every - 1
                                        ? logits + 32 * (at + t)
                                        : NULL };
        ok = kv_cache_reserve(&kv, 0, piece, &err);
        if (ok)
            forward(f, &kv, batch, piece, (size_t)at);
    }
    CHECK(ok, "%s", err.msg);
    kv_cache_free(&kv);
    forward_free(f);
}

static void count_up(int *tokens, int n)
{
    for (int t = 0; t < n; t++)
        tokens[t] = (t * 7 + 3) % 31; /* token 31 never appears: tests put it in */
}

static bool same_row(const Seen *a, const Seen *b, int t)
{
    return memcmp(a->x[t], b->x[t], (size_t)a->width * sizeof(float)) == 0;
}

static Seen seen_a, seen_b;

/* ---- The feed-forward network ---------------------------------------------------------------- */

static void swiglu_of_zero_is_zero(void)
{
    const Kernels *k;
    for (int i = 0; (k = kernels_table(i)); i++) {
        _Alignas(64) float gate[48] = {0}, up[48], h[48];
        for (int j = 0; j < 48; j++)
            up[j] = 1000 * noise(20, (uint32_t)j);
        k->swiglu(h, gate, up, 37);
        for (int j = 0; j < 37; j++)
            CHECK(h[j] == 0, "%s: SiLU(0) * %g is %g", k->isa, (double)up[j], (double)h[j]);
    }
}

/* A worked example by hand: d_model 4, d_ff 3. The rows of these tables are inputs; a Mat's rows
 * are outputs. */
static void the_worked_example_comes_out(void)
{
    static const float x[4]            = {1, -0.5f, 0.2f, 0.8f};
    static const float gate_in[4][3]   = {
        { .5f, -.3f, .1f }, { .2f, .4f, -.2f }, { -.1f, .3f, .5f }, { .3f, -.1f, .2f }
    };
    static const float up_in[4][3]     = {
        { .4f, .2f, -.1f }, { -.3f, .5f, .3f }, { .1f, -.2f, .4f }, { .2f, .1f, -.3f }
    };
    static const float want_gate[3]    = { .62f, -.52f, .46f },
                          want_hidden[3] = { .2943f, .0019f, -.1156f };
    float              gate_w[12], up_w[12];
    Tiny               t = {0};
    for (int o = 0; o < 3; o++)
        for (int i = 0; i < 4; i++) {
            gate_w[o * 4 + i] = gate_in[i][o];
            up_w[o * 4 + i]   = up_in[i][o];
        }
    Mat    w_gate = mat_of(&t, gate_w, 3, 4), w_up = mat_of(&t, up_w, 3, 4);
    float *in = take(&t, 64), *gate = take(&t, 64), *up = take(&t, 64), *hidden = take(&t, 64);
    void  *scratch = take(&t, KERNEL_SCRATCH);
    memcpy(in, x, sizeof x);
    const Kernels *k;
    for (int i = 0; (k = kernels_table(i)); i++) {
        MatmulArgs a = { .y = gate,
                         .y_stride = 16,
                         .x = in,
                         .x_stride = 16,
                         .w = w_gate.w,
                         .n_panels = 1,
                         .k = 4,
                         .n_tok = 1,
                         .scratch = scratch };
        k->matmul[WT_F32](&a);
        a.y = up;
        a.w = w_up.w;
        k->matmul[WT_F32](&a);
        k->swiglu(hidden, gate, up, 3);
        for (int j = 0; j < 3; j++) {
            CHECK(fabsf(gate[j] - want_gate[j]) < 1e-6f, "%s: gate %d is %g", k->isa, j,
                  (double)gate[j]);
            CHECK(fabsf(hidden[j] - want_hidden[j]) < 5.1e-5f, "%s: hidden %d is %g", k->isa, j,
                  (double)hidden[j]);
        }
    }
    tiny_free(&t);
}

/* ---- The block as a whole -------------------------------------------------------------------- */

static void a_block_of_zero_weights_is_the_identity(void)
{
    Tiny t;
    tiny_make(&t, config_of(24, 4, 2, 6, 20, 0));
    Layer *l = t.model.layer;
    Mat   *all[] = {&l->wq, &l->wk, &l->wv, &l->wo, &l->w_gate, &l->w_up, &l->w_down};
    for (int i = 0; i < 7; i++)
        *all[i] = zero_mat(&t, all[i]->rows, all[i]->k);
    int tokens[20];
    count_up(tokens, 20);
    run(&t.model, tokens, 20, &seen_a, NULL);
    for (int i = 0; i < 20; i++)
        CHECK(memcmp(seen_a.x[i], (const float *)t.model.embed.w.part[0] + 24 * tokens[i],
                     24 * sizeof(float)) == 0, "token %d is changed", i);
    tiny_free(&t);
}

/* With zero matrices each sublayer adds its output bias, attention first. */
static void biases_alone_are_added_in_order(void)
{
    Tiny t;
    Config c = config_of(24, 4, 2, 6, 20, 0);
    c.out_bias = c.ffn_bias = true;
    tiny_make(&t, c);
    Layer *l  = t.model.layer;
    l->wo     = zero_mat(&t, 24, 24);
    l->w_down = zero_mat(&t, 24, 20);
    l->wo.bias = noise_vector(&t, 24, 21, 0, 1);
    l->w_gate.bias = noise_vector(&t, 20, 22, 0, 1);
    l->w_up.bias   = noise_vector(&t, 20, 23, 0, 1);
    l->w_down.bias = noise_vector(&t, 24, 24, 0, 1);
    const int tokens[] = {5, 6, 7};
    run(&t.model, tokens, 3, &seen_a, NULL);
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < 24; d++) {
            float x = ((const float *)t.model.embed.w.part[0])[24 * tokens[i] + d];
            x += l->wo.bias[d];
            x += l->w_down.bias[d];
            CHECK(f32_bits(x) == f32_bits(seen_a.x[i][d]), "token %d, %d: %a, expected %a", i, d,
                  (double)seen_a.x[i][d], (double)x);
        }
    tiny_free(&t);
}

static void a_later_token_never_changes_an_earlier_one(void)
{
    Tiny t;
    int  tokens[MAX_TOK];
    tiny_make(&t, config_of(24, 4, 2, 6, 20, 0));
    count_up(tokens, MAX_TOK);
    run(&t.model, tokens, MAX_TOK, &seen_a, NULL);
    for (int at = 0; at < MAX_TOK; at += 31) {
        int old    = tokens[at];
        tokens[at] = 31;
        run(&t.model, tokens, MAX_TOK, &seen_b, NULL);
        for (int i = 0; i < MAX_TOK; i++)
            CHECK(same_row(&seen_a, &seen_b, i) == (i < at), "token %d changed: position %d %s", at,
                  i, i < at ? "changed too" : "did not change");
        tokens[at] = old;
    }
    tiny_free(&t);
}

/* The logits of a tied model come from the embedding's own rows. */
static void a_tied_head_is_the_embedding(void)
{
    Tiny  t;
    float tied[3 * 32], untied[3 * 32];
    const int tokens[] = {1, 2, 3};
    tiny_make(&t, config_of(24, 4, 2, 6, 20, 0));
    t.model.lm_head = mat_of(&t, t.model.embed.w.part[0], 32, 24);
    run(&t.model, tokens, 3, NULL, untied);
    t.model.embed =
        (Embedding){ .type = WT_F32, .panels = true, .rows = 32, .k = 24, .w = t.model.lm_head.w };
    run(&t.model, tokens, 3, NULL, tied);
    CHECK(memcmp(tied, untied, sizeof tied) == 0, "logits differ");
    tiny_free(&t);
}

/* ---- Quantized matrices ---------------------------------------------------------------------- */

/* A quantized copy of a matrix; exact: f32 panels of what its codes stand for. */
static Mat quantized(Tiny *t, const Mat *m, WeightType type, Mat *exact)
{
    float *rows  = take(t, (size_t)panel_count(m->rows) * PANEL_ROWS * (size_t)m->k * sizeof *rows);
    Mat    q     = *m;
    char  *part[MAX_PARTS] = {0};
    q.type = type;
    for (int i = 0; i < part_count(type); i++)
        q.w.part[i] = part[i] = take(t, part_bytes(type, i, m->k) * (size_t)panel_count(m->rows));
    for (int p = 0; p < panel_count(m->rows); p++) {
        float *at = rows + (size_t)(p * PANEL_ROWS) * (size_t)m->k;
        void  *to[MAX_PARTS] = {0};
        for (int r = 0; r < PANEL_ROWS; r++)
            panel_row_to_f32(WT_F32, at + r * m->k, panels_from(WT_F32, m->w, p, m->k), r, m->k);
        for (int i = 0; i < part_count(type); i++)
            to[i] = part[i] + (size_t)p * part_bytes(type, i, m->k);
        panel_quantize(
            type, to, at, NULL,
            m->rows - p * PANEL_ROWS < PANEL_ROWS ? m->rows - p * PANEL_ROWS : PANEL_ROWS, m->k);
        for (int r = 0; r < PANEL_ROWS; r++)
            panel_row_to_f32(type, at + r * m->k, panels_from(type, q.w, p, m->k), r, m->k);
    }
    *exact      = mat_of(t, rows, m->rows, m->k);
    exact->bias = m->bias;
    return q;
}

/* The matrices of t become types[0 .. 8) (wq wk wv wo gate up down head; WT_F32: stays), those of
 * same what they stand for. */
static void quantize_model(Tiny *t, Model *same, Layer *layer, const WeightType types[8])
{
    Layer *l = t->model.layer;
    *layer   = *l;
    *same    = t->model;
    same->layer = layer;
    Mat *mat[]   = { &l->wq,     &l->wk,   &l->wv,     &l->wo,
                     &l->w_gate, &l->w_up, &l->w_down, &t->model.lm_head };
    Mat *exact[] = { &layer->wq,     &layer->wk,   &layer->wv,     &layer->wo,
                     &layer->w_gate, &layer->w_up, &layer->w_down, &same->lm_head };
    for (int i = 0; i < 8; i++)
        if (types[i] != WT_F32)
            *mat[i] = quantized(t, mat[i], types[i], exact[i]);
}

#define MIXED {WT_Q8, WT_Q4, WT_F32, WT_Q4, WT_Q8, WT_Q8, WT_Q4, WT_Q4}
static const WeightType mixes[3][8] = {{WT_Q8, WT_Q8, WT_Q8, WT_Q8, WT_Q8, WT_Q8, WT_Q8, WT_Q8},
                                       {WT_Q4, WT_Q4, WT_Q4, WT_Q4, WT_Q4, WT_Q4, WT_Q4, WT_Q4},
                                       MIXED};

/* A width under, at and over a superblock, and heads that are whole panels or not: every way of
 * sharing the work. */
static const struct {
    int d_model, heads, kv_heads, head_dim, d_ff;
} shapes[] = {{24, 4, 2, 6, 20}, {64, 4, 2, 16, 512}, {48, 3, 1, 16, 600}};

static void math_f32_is_that_of_the_dequantized_weights(void)
{
    static float got[MAX_TOK * 32], want[MAX_TOK * 32];
    int          tokens[MAX_TOK];
    count_up(tokens, MAX_TOK);
    for (int i = 0; i < 9; i++) {
        Tiny  t;
        Model same;
        Layer layer;
        tiny_make(&t,
                  config_of(shapes[i / 3].d_model, shapes[i / 3].heads, shapes[i / 3].kv_heads,
                            shapes[i / 3].head_dim, shapes[i / 3].d_ff, 0));
        quantize_model(&t, &same, &layer, mixes[i % 3]);
        for (int n = 1; n <= 9; n += 8) {
            run(&t.model, tokens, n, NULL, got);
            run(&same, tokens, n, NULL, want);
            CHECK(memcmp(got, want, (size_t)n * 32 * sizeof *got) == 0,
                  "shape %d, types %d, %d tokens", i / 3, i % 3, n);
        }
        tiny_free(&t);
    }
}

/* NaN where one is. (A loop of fmax alone would pass over it, and gcc 12 for aarch64 fails to
 * compile that.) */
static double largest(const float *a, const float *b, int n)
{
    double m = 0;
    for (int i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (b ? (double)b[i] : 0));
        if (isnan(d))
            return d;
        m = d > m ? d : m;
    }
    return m;
}

/* 16 bits lose 2^-15 of the largest value of a superblock, 8 bits 2^-7: some of that remains after
 * a block. */
static void integers_are_near_the_floats(void)
{
    static float got[MAX_TOK * 32], want[MAX_TOK * 32];
    int          tokens[MAX_TOK];
    count_up(tokens, MAX_TOK);
    for (int i = 0; i < 18; i++) {
        Tiny t;
        Model same;
        Layer layer;
        int   s = i / 6;
        tiny_make(&t,
                  config_of(shapes[s].d_model, shapes[s].heads, shapes[s].kv_heads,
                            shapes[s].head_dim, shapes[s].d_ff, 0));
        quantize_model(&t, &same, &layer, mixes[i % 3]);
        run(&same, tokens, 40, NULL, want);
        numerics = (Numerics){MATH_INT8, i / 3 % 2 ? 16 : 8};
        run(&t.model, tokens, 40, NULL, got);
        double d = largest(got, want, 40 * 32) / largest(want, NULL, 40 * 32),
               allowed = numerics.activations == 16 ? 2e-4 : 4e-2;
        CHECK(d > 0 && d < allowed,
              "shape %d, types %d, %d bits: %g of the largest logit, allowed %g", s, i % 3,
        numerics.activations,
              d, allowed);
        numerics = (Numerics){MATH_F32, 0};
        tiny_free(&t);
    }
}

/* Every shape with every mix of types: a prompt at once or token by token, on any number of
 * threads, with any instruction set. */
static void integers_are_the_same_however_they_are_shared(void)
{
    enum { N = 9 };
    static float want[N * 32], got[N * 32];
    int          tokens[N];
    count_up(tokens, N);
    for (int i = 0; i < 9; i++) {
        Tiny  t;
        Model same;
        Layer layer;
        int   s = i / 3;
        tiny_make(&t,
                  config_of(shapes[s].d_model, shapes[s].heads, shapes[s].kv_heads,
                            shapes[s].head_dim, shapes[s].d_ff, 0));
        quantize_model(&t, &same, &layer, mixes[i % 3]);
        numerics = (Numerics){MATH_INT8, 0};
        how      = (How){"scalar", 1, N};
        run(&t.model, tokens, N, NULL, want);
        for (int v = 0; v < 6; v++) {
            static const How ways[] = { { "auto", 1, 5 }, { "auto", 2, 1 }, { "scalar", 2, N },
                                        { "auto", 3, 1 }, { "auto", 3, N }, { "scalar", 7, 5 } };
            how = ways[v];
            run(&t.model, tokens, N, NULL, got);
            CHECK(memcmp(got, want, N * 32 * sizeof *got) == 0,
                  "shape %d, types %d: %s, %d threads, pieces of %d", s, i % 3, how.isa,
                  how.threads, how.piece);
        }
        how      = usual;
        numerics = (Numerics){MATH_F32, 0};
        tiny_free(&t);
    }
}

/* Panels of bf16: every weight rounded. */
static Mat rounded(Tiny *t, const Mat *m)
{
    Mat    b    = *m;
    size_t one  = panel_bytes(WT_BF16, m->k);
    char  *to   = take(t, one * (size_t)panel_count(m->rows));
    float *row  = take(t, (size_t)(PANEL_ROWS * m->k) * sizeof *row);
    for (int p = 0; p < panel_count(m->rows); p++) {
        for (int r = 0; r < PANEL_ROWS; r++)
            panel_row_to_f32(WT_F32, row + r * m->k, panels_from(WT_F32, m->w, p, m->k), r, m->k);
        uint16_t *half = take(t, (size_t)(PANEL_ROWS * m->k) * sizeof *half);
        elements_from_f32(WT_BF16, half, row, (size_t)(PANEL_ROWS * m->k));
        panel_pack(WT_BF16, to + (size_t)p * one, half, PANEL_ROWS, m->k);
    }
    b.type      = WT_BF16;
    b.w.part[0] = to;
    return b;
}

/* bf16 matrices beside a quantized one: near the floats, and the same however they are shared. */
static void math_bf16_is_near_the_floats_and_the_same_everywhere(void)
{
    enum { N = 19 };
    static float want[N * 32], got[N * 32], one[N * 32];
    int          tokens[N];
    Tiny         t;
    Mat          unused;
    count_up(tokens, N);
    tiny_make(&t, config_of(64, 4, 2, 16, 512, 0));
    Layer *l     = t.model.layer;
    Mat   *mat[] = {&l->wq, &l->wk, &l->wo, &l->w_gate, &l->w_down, &t.model.lm_head};
    for (int i = 0; i < 6; i++)
        *mat[i] = rounded(&t, mat[i]);
    l->w_up = quantized(&t, &l->w_up, WT_Q8, &unused);
    run(&t.model, tokens, N, NULL, want);
    numerics = (Numerics){MATH_BF16, 0};
    how      = (How){"scalar", 1, N};
    run(&t.model, tokens, N, NULL, one);
    double d = largest(one, want, N * 32) / largest(want, NULL, N * 32);
    CHECK(d > 1e-5 && d < 2e-2, "%g of the largest logit", d);
    for (int v = 0; v < 4; v++) {
        how = (How){"auto", 1 + v, v == 1 ? 1 : N};
        run(&t.model, tokens, N, NULL, got);
        CHECK(memcmp(got, one, sizeof got) == 0, "%d threads", how.threads);
    }
    how      = usual;
    numerics = (Numerics){MATH_F32, 0};
    tiny_free(&t);
}

static void tiny_bf16_weights_are_found(void)
{
    Tiny t;
    tiny_make(&t, config_of(64, 4, 2, 16, 512, 0));
    Layer *l = t.model.layer;
    l->w_up  = rounded(&t, &l->w_up);
    CHECK(bf16_weights_check(&t.model, "a.bin", &err), "%s", err.msg);
    uint16_t *last = (uint16_t *)(uintptr_t)l->w_up.w.part[0] + 512 * 64 - 1;
    *last = f32_to_bf16(-0x1p-50f);
    CHECK(bf16_weights_check(&t.model, "a.bin", &err), "%s", err.msg);
    *last = (uint16_t)(*last - 1);
    CHECK(!bf16_weights_check(&t.model, "a.bin", &err) && err.status == INPUT && strstr(err.msg,
        "a.bin: tensor layers.0.w_up"), "%s",
          err.msg);
    tiny_free(&t);
}

static void tiny_weights_of_any_expert_are_found(void)
{
    Tiny   t;
    Config c = config_of(32, 4, 2, 8, 16, 0);
    c.n_experts = 3, c.experts_used = 1, c.expert_d_ff = 16;
    tiny_make(&t, c);
    Layer *l = t.model.layer;
    Mat    one = noise_mat(&t, 3 * 16, 32, 77); /* three of 16 rows, each a panel */
    l->expert_up = rounded(&t, &one);
    l->expert_up.rows = 16, l->expert_up.stack = 3;
    CHECK(bf16_weights_check(&t.model, "a.bin", &err), "%s", err.msg);
    ((uint16_t *)(uintptr_t)l->expert_up.w.part[0])[3 * 16 * 32 - 1] = 1;
    CHECK(!bf16_weights_check(&t.model, "a.bin", &err) && strstr(err.msg,
        "tensor layers.0.expert_up"), "%s", err.msg);
    tiny_free(&t);
}

static void activations_are_as_wide_as_their_place_asks(void)
{
    const Mat q8 = { .type = WT_Q8, .rows = 1 }, q4 = { .type = WT_Q4, .rows = 1 },
              f = { .type = WT_F32, .rows = 1 };
    Layer     l[3] = { { .w_gate = q8 },
                       {.wq = q4, .wk = q8, .wv = f, .wo = f, .w_gate = q4, .w_up = f, .w_down = f},
                       { .w_gate = q4, .wo = q4 } };
    Model     m    = {.cfg = config_of(16, 1, 1, 16, 16, 0), .layer = l, .lm_head = f};
    const Numerics automatic = { MATH_INT8, 0 }, eight = { MATH_INT8, 8 },
                   sixteen = { MATH_INT8, 16 }, floats = { MATH_F32, 0 };
    m.cfg.n_layers = 3;
    CHECK(input_ints(automatic, &m, 1, INPUT_QKV) == INT16
          && input_ints(automatic, &m, 1, INPUT_FFN) == INT8, "auto");
    CHECK(input_ints(automatic, &m, 0, INPUT_FFN) == INT16
          && input_ints(automatic, &m, 2, INPUT_FFN) == INT16
          && input_ints(automatic, &m, 2, INPUT_WO) == INT8, "the first and the last layer");
    CHECK(input_ints(eight, &m, 1, INPUT_QKV) == INT8
          && input_ints(sixteen, &m, 1, INPUT_FFN) == INT16, "given");
    CHECK(input_ints(automatic, &m, 1, INPUT_WO) == INT_NONE
          && input_ints(sixteen, &m, 1, INPUT_HEAD) == INT_NONE, "floats");
    CHECK(input_ints(floats, &m, 1, INPUT_QKV) == INT_NONE, "math f32");
    CHECK(strcmp(activations_name(automatic, &m), "auto") == 0
          && strcmp(numerics_version(automatic, &m), "3") == 0, "%s of version %s",
          activations_name(automatic, &m), numerics_version(automatic, &m));
    m.cfg.norm_placement = PLACE_PARALLEL; /* one norm for all of them */
    CHECK(input_ints(automatic, &m, 1, INPUT_QKV) == INT16
          && input_ints(automatic, &m, 1, INPUT_FFN) == INT16, "parallel");
}

/* The version that a golden records is that of the arithmetic its run used. */
static void eight_bits_that_q8_reads_alone_have_a_scale_for_32(void)
{
    const Mat q8 = { .type = WT_Q8, .rows = 1 }, q4 = { .type = WT_Q4, .rows = 1 },
              gguf = { .type = WT_Q6_K, .rows = 1 };
    Layer     l = {.wq = q8, .wk = q8, .wv = q8, .w_gate = q4, .w_up = q8, .w_down = gguf};
    Model     m = {.cfg = config_of(16, 1, 1, 16, 16, 0), .layer = &l, .lm_head = q8};
    const Numerics automatic = { MATH_INT8, 0 }, eight = { MATH_INT8, 8 };
    CHECK(input_ints(eight, &m, 0, INPUT_QKV) == INT8_BY_32
          && input_ints(eight, &m, 0, INPUT_HEAD) == INT8_BY_32, "alone");
    CHECK(input_ints(eight, &m, 0, INPUT_FFN) == INT8
          && input_ints(eight, &m, 0, INPUT_DOWN) == INT8, "beside others");
    CHECK(strcmp(activations_name(eight, &m), "8") == 0, "%s", activations_name(eight, &m));
    CHECK(strcmp(numerics_version(eight, &m), "2") == 0
          && strcmp(numerics_version(automatic, &m), "3") == 0, "versions");
    l.wq = gguf, m.lm_head = q4;
    CHECK(input_ints(eight, &m, 0, INPUT_QKV) == INT8
          && strcmp(numerics_version(eight, &m), "1") == 0, "a GGUF type in every group");
    l.wq.type = WT_MXFP4;
    CHECK(input_ints(eight, &m, 0, INPUT_QKV) == INT8_BY_32
          && strcmp(numerics_version(eight, &m), "2") == 0, "q8 beside mxfp4");
    l.wq.type = WT_Q8_0;
    CHECK(input_ints(eight, &m, 0, INPUT_QKV) == INT8_BY_32
          && strcmp(numerics_version(eight, &m), "3") == 0, "q8 beside q8_0");
    l.wq.type = WT_MXFP4, l.w_up.type = WT_Q4_1;
    CHECK(input_ints(eight, &m, 0, INPUT_FFN) == INT8 /* q4 beside it */
          && strcmp(numerics_version(eight, &m), "3") == 0
          && strcmp(numerics_version((Numerics){ MATH_F32, 0 }, &m), "1") == 0, "q4_1");
}

/* ---- What docs/numerics.md says of blocks other than Llama's, step by step ------------------- */

enum { W = 40, FF = 24, EXPERTS = 6, USED = 3, SHARED = 20 };

/* y = W x + bias: one chain for each row, since k is under 257. */
static void chain(float *y, const Mat *w, const float *x)
{
    for (int r = 0; r < w->rows; r++) {
        float c = 0;
        for (int i = 0; i < w->k; i++)
            c = fmaf(mat_row(w, r)[i * PANEL_ROWS], x[i], c);
        y[r] = (w->bias ? w->bias[r] : 0.0f) + c;
    }
}

static void network(const Config *c, float *y, const Mat *gate, const Mat *up, const Mat *down,
                    const float *x)
{
    const Kernels *k = kernels_select("scalar", &err);
    float          g[FF], u[FF];
    chain(g, gate->rows ? gate : up, x);
    if (gate->rows)
        chain(u, up, x);
    if (c->ffn == FFN_SWIGLU)
        k->swiglu(g, g, u, up->rows);
    else if (c->ffn == FFN_GEGLU)
        k->geglu(g, g, u, up->rows);
    else
        k->gelu(g, g, up->rows);
    chain(y, down, g);
}

/* y = the experts' sum; the shared one last. */
static void literal_experts(const Config *c, const Layer *l, float *y, const float *x)
{
    const Kernels *k = kernels_select("scalar", &err);
    float          p[EXPERTS], f[W], t = 0, gate = 0;
    bool           chosen[EXPERTS] = {0};
    chain(p, &l->router, x);
    k->softmax(p, EXPERTS);
    for (int i = 0; i < USED; i++) {
        int best = -1;
        for (int e = 0; e < EXPERTS; e++)
            if (!chosen[e] && (best < 0 || p[e] > p[best]))
                best = e;
        chosen[best] = true;
    }
    for (int e = 0; e < EXPERTS; e++)
        t = chosen[e] ? t + p[e] : t;
    memset(y, 0, W * sizeof *y);
    for (int e = 0; e < EXPERTS; e++) {
        Mat gate_e = mat_item(&l->expert_gate, e), up = mat_item(&l->expert_up, e),
            down = mat_item(&l->expert_down, e);
        if (!chosen[e])
            continue;
        network(c, f, &gate_e, &up, &down, x);
        for (int i = 0; i < W; i++)
            y[i] = fmaf(c->renormalize ? p[e] / t : p[e], f[i], y[i]);
    }
    if (!c->shared_d_ff)
        return;
    network(c, f, &l->shared_gate, &l->shared_up, &l->shared_down, x);
    chain(&gate, &l->shared_router, x);
    k->sigmoid(&gate, &gate, 1);
    for (int i = 0; i < W; i++)
        y[i] = c->shared_router ? fmaf(gate, f[i], y[i]) : y[i] + f[i];
}

static Mat noise_stack(Tiny *t, int n, int rows, int k, uint32_t seed)
{
    char *panels = take(t, (size_t)(n * panel_count(rows)) * panel_bytes(WT_F32, k));
    for (int i = 0; i < n; i++) {
        Mat one = noise_mat(t, rows, k, seed + (uint32_t)i);
        memcpy(panels + (size_t)(i * panel_count(rows)) * panel_bytes(WT_F32, k), one.w.part[0],
               (size_t)panel_count(rows) * panel_bytes(WT_F32, k));
    }
    return (Mat){.type = WT_F32, .rows = rows, .k = k, .stack = n, .w = {{panels}}};
}

static void make_experts(Tiny *t, Config c)
{
    tiny_make(t, c);
    Layer *l = t->model.layer;
    l->w_gate = l->w_up = l->w_down = (Mat){.rows = 0};
    l->router      = noise_mat(t, EXPERTS, W, 90);
    l->expert_gate = noise_stack(t, EXPERTS, FF, W, 100);
    l->expert_up   = noise_stack(t, EXPERTS, FF, W, 110);
    l->expert_down = noise_stack(t, EXPERTS, W, FF, 120);
    /* of experts 1 and 4 the same: a tie */
    for (int i = 0; i < W; i++)
        mat_row(&l->router, 4)[i * PANEL_ROWS] = mat_row(&l->router, 1)[i * PANEL_ROWS];
    if (c.shared_d_ff) {
        if (c.shared_router)
            l->shared_router = noise_mat(t, 1, W, 130);
        l->shared_gate   = noise_mat(t, SHARED, W, 131);
        l->shared_up     = noise_mat(t, SHARED, W, 132);
        l->shared_down   = noise_mat(t, W, SHARED, 133);
    }
}

/* Attention adds 0, so the residual stream after the block is what the definition makes of the
 * embedding. */
static void compare_feed_forward(Tiny *t, const char *what)
{
    enum { N = 30 };
    static Seen    seen;
    const Config  *c = &t->model.cfg;
    Layer         *l = t->model.layer;
    const Kernels *k = kernels_select("scalar", &err);
    int            tokens[N];
    float          want[W], n[W], y[W];
    l->wo = zero_mat(t, W, l->wq.rows);
    count_up(tokens, N);
    for (int piece = 1; piece <= N; piece += 29) {
        how = (How){"auto", THREADS, piece};
        run(&t->model, tokens, N, &seen, NULL);
        for (int i = 0; i < N; i++) {
            embedding_row(&t->model.embed, tokens[i], want, NULL);
            for (int j = 0; j < W; j++)
                want[j] = want[j] * (float)c->embed_scale;
            memcpy(n, want, sizeof n);
            const float *norm =
                c->norm_placement == PLACE_PARALLEL ? l->attn_norm.w : l->ffn_norm.w;
            if (c->norm_placement != PLACE_OUTPUT)
                k->rms_norm(n, n, norm, W, (float)c->norm_eps);
            if (config_moe(c, 0))
                literal_experts(c, l, y, n);
            else
                network(c, y, &l->w_gate, &l->w_up, &l->w_down, n);
            if (l->ffn_post_norm.w)
                k->rms_norm(y, y, l->ffn_post_norm.w, W, (float)c->norm_eps);
            for (int j = 0; j < W; j++)
                want[j] = want[j] + y[j] * (float)c->residual_scale;
            CHECK(memcmp(want, seen.x[i], sizeof want) == 0,
                  "%s, pieces of %d, token %d: other bits", what, piece, i);
        }
    }
    how = usual;
    tiny_free(t);
}

static void experts_are_summed_as_defined(void)
{
    for (int i = 0; i < 12; i++) {
        Tiny   t;
        Config c = config_of(W, 4, 2, 8, FF, 0);
        c.n_experts = EXPERTS, c.experts_used = USED, c.expert_d_ff = FF;
        c.renormalize    = i % 2;
        c.shared_d_ff    = i / 2 % 3 ? SHARED : 0;
        c.shared_router  = i / 2 % 3 == 2;
        c.ffn            = i < 6 ? FFN_SWIGLU : FFN_GEGLU;
        c.residual_scale = i % 4 ? 0.3 : 1;
        c.norm_placement = i % 5 == 4 ? PLACE_BOTH : i % 5 == 3 ? PLACE_PARALLEL : PLACE_PRE;
        make_experts(&t, c);
        if (c.norm_placement == PLACE_BOTH) {
            t.model.layer->attn_post_norm.w = noise_vector(&t, W, 140, 1, 0.5f);
            t.model.layer->ffn_post_norm.w  = noise_vector(&t, W, 141, 1, 0.5f);
        }
        compare_feed_forward(&t, "experts");
    }
}

static void blocks_of_every_placement_are_as_defined(void)
{
    static const NormPlacement places[] = { PLACE_PRE, PLACE_BOTH, PLACE_PARALLEL, PLACE_PARALLEL2,
                                            PLACE_OUTPUT };
    for (int i = 0; i < 10; i++) {
        Tiny   t;
        Config c = config_of(W, 4, 2, 8, FF, 0);
        c.norm_placement = places[i % 5];
        c.ffn            = i < 5 ? FFN_GEGLU : FFN_GELU;
        c.embed_scale    = i < 5 ? 1 : 3.7;
        c.residual_scale = i < 5 ? 1 : 0.7;
        tiny_make(&t, c);
        Layer *l = t.model.layer;
        if (c.ffn == FFN_GELU) {
            l->w_gate    = (Mat){.rows = 0};
            l->w_up.bias = noise_vector(&t, FF, 150, 0, 1);
        }
        if (c.norm_placement == PLACE_BOTH || c.norm_placement == PLACE_OUTPUT) {
            l->attn_post_norm.w = noise_vector(&t, W, 151, 1, 0.5f);
            l->ffn_post_norm.w  = noise_vector(&t, W, 152, 1, 0.5f);
        }
        if (c.norm_placement == PLACE_OUTPUT)
            l->attn_norm.w = l->ffn_norm.w = NULL;
        compare_feed_forward(&t, "placement");
    }
}

/* Rows without logits end in the last block. Those of the others, and K and V for later pieces, are
 * what they are where all rows go on. */
static void logits_are_those_of_a_pass_that_wants_all(Tiny *t, const char *what)
{
    enum { N = 30 };
    static float all[N * 32], some[N * 32];
    int          tokens[N];
    count_up(tokens, N);
    run(&t->model, tokens, N, NULL, all);
    for (int piece = 7; piece <= N; piece += 23)
        for (int threads = 1; threads <= THREADS; threads++)
            for (every = 2; every <= N; every += 4) {
                how = (How){ "auto", threads, piece };
                memset(some, 0, sizeof some);
                run(&t->model, tokens, N, NULL, some);
                for (int i = every - 1; i < N; i += every)
                    CHECK(memcmp(all + 32 * i, some + 32 * i, 32 * sizeof *all) == 0,
                          "%s, %d threads, pieces of %d, one in %d, token %d: other bits", what,
                          threads, piece, every, i);
            }
    how   = usual;
    every = 1;
    tiny_free(t);
}

static void rows_without_logits_end_in_the_last_block(void)
{
    static const NormPlacement places[] = { PLACE_PRE, PLACE_PARALLEL, PLACE_PARALLEL2 };
    for (int i = 0; i < 6; i++) {
        Tiny   t;
        Config c         = config_of(W, 4, i % 2 ? 1 : 2, 8, FF, i % 2 ? 0 : 9);
        c.norm_placement = places[i % 3];
        if (i < 3) {
            tiny_make(&t, c);
        } else {
            c.n_experts = EXPERTS, c.experts_used = USED, c.expert_d_ff = FF;
            make_experts(&t, c);
        }
        logits_are_those_of_a_pass_that_wants_all(&t, i < 3 ? "one network" : "experts");
    }
}

/* Layers between the first and the last are spared, but for q, k and v. */
static void gguf_types_take_16_bits_where_8_cost_most(void)
{
    enum { LAYERS = 24, MIDDLE = 5 };
    const Mat q8 = { .type = WT_Q8, .rows = 1 }, q6_k = { .type = WT_Q6_K, .rows = 1 },
              f = { .type = WT_F32, .rows = 1 };
    Layer     l[LAYERS] = { 0 };
    Model     m = {.cfg = config_of(16, 1, 1, 16, 16, 0), .layer = l, .lm_head = f};
    Numerics  n;
    m.cfg.n_layers = LAYERS;
    for (int i = 0; i < LAYERS; i++)
        l[i] = (Layer){ .wq = q6_k, .wk = q8, .wv = f, .wo = q8, .w_gate = q8, .w_up = f,
                        .w_down = q6_k };
    CHECK(numerics_choose(&n, &m, NULL, NULL,
                          &err) && n.math == MATH_INT8 && model_is_quantized(&m), "auto");
    for (int i = 0; i < LAYERS; i++) {
        CHECK(input_ints(n, &m, i, INPUT_QKV) == INT16, "q, k and v of layer %d", i);
        CHECK(input_ints(n, &m, i, INPUT_DOWN) == (i % 23 ? INT8 : INT16), "layer %d", i);
        CHECK(input_ints(n, &m, i, INPUT_FFN) == (i % 23 ? INT8_BY_32 : INT16)
              && input_ints(n, &m, i, INPUT_WO) == INT8_BY_32, "q8 of layer %d", i);
    }
    CHECK(strcmp(activations_name(n, &m), "auto") == 0, "%s", activations_name(n, &m));
    CHECK(numerics_choose(&n, &m, NULL, "16", &err)
          && input_ints(n, &m, MIDDLE, INPUT_DOWN) == INT16, "16 for all");
    CHECK(numerics_choose(&n, &m, NULL, "8", &err)
          && input_ints(n, &m, 0, INPUT_WO) == INT8_BY_32
          && input_ints(n, &m, 0, INPUT_QKV) == INT8, "8 for all");
    m.lm_head = q6_k;
    CHECK(input_ints(n, &m, 0, INPUT_HEAD) == INT8, "8 for the head");
    CHECK(numerics_choose(&n, &m, NULL, NULL, &err) && input_ints(n, &m, 0, INPUT_HEAD) == INT16,
          "the head decides near ties");
    for (int i = 0; i < LAYERS; i++)
        l[i].wo = q6_k;
    CHECK(input_ints(n, &m, 0, INPUT_WO) == INT8, "attention's output is spared");
    CHECK(numerics_choose(&n, &m, "f32", NULL, &err) && !input_ints(n, &m, 0, INPUT_HEAD),
          "math f32");
    CHECK(!numerics_choose(&n, &m, "f32", "8", &err) && err.status == USAGE,
          "integers that nobody makes");
}

/* ---- Attention ------------------------------------------------------------------------------- */

static void softmax_rows_sum_to_one(void)
{
    const Kernels *k;
    for (int i = 0; (k = kernels_table(i)); i++)
        for (int n = 1; n <= 300; n += 13) {
            _Alignas(64) float x[304];
            double sum = 0;
            for (int j = 0; j < n; j++)
                x[j] = 20 * noise(30, (uint32_t)(n * 1000 + j));
            k->softmax(x, n);
            for (int j = 0; j < n; j++) {
                CHECK(x[j] >= 0 && x[j] <= 1, "%s: p is %g", k->isa, (double)x[j]);
                sum += (double)x[j];
            }
            CHECK(fabs(sum - 1) < 1e-6, "%s: %d values sum to %.9g", k->isa, n, sum);
        }
}

/* Attention's weights sum to 1: where every value vector is the same, that vector comes out,
 * whatever the scores. w_v = 0 with a bias gives the same v everywhere; wo = identity and w_down =
 * 0 show it. */
static void attention_to_equal_values_gives_that_value(void)
{
    static const int windows[] = {0, 5, 64, 100};
    for (int w = 0; w < 4; w++) {
        Tiny   t;
        Config c   = config_of(24, 4, 2, 6, 20, windows[w]);
        c.qkv_bias = true;
        tiny_make(&t, c);
        Layer *l   = t.model.layer;
        l->wv      = zero_mat(&t, 12, 24);
        l->wv.bias = noise_vector(&t, 12, 31, 0, 1);
        l->w_down  = zero_mat(&t, 24, 20);
        l->wo      = zero_mat(&t, 24, 24);
        for (int i = 0; i < 24; i++)
            mat_row(&l->wo, i)[i * PANEL_ROWS] = 1;
        int tokens[MAX_TOK];
        count_up(tokens, MAX_TOK);
        run(&t.model, tokens, MAX_TOK, &seen_a, NULL);
        for (int i = 0; i < MAX_TOK; i++)
            for (int d = 0; d < 24; d++) {
                float x = ((const float *)t.model.embed.w.part[0])[24 * tokens[i] + d],
                      v = l->wv.bias[d / 12 * 6 + d % 6];
                CHECK(fabsf(seen_a.x[i][d] - x - v) < 2e-6f,
                      "window %d, position %d, %d: %g, expected %g", windows[w], i, d,
                      (double)(seen_a.x[i][d] - x), (double)v);
            }
        tiny_free(&t);
    }
}

static void a_window_sees_exactly_its_positions(void)
{
    static const int windows[] = {1, 2, 8, 63, 64, 65, 100}, changed[] = {0, 1, 37, 63, 64, 100};
    for (int w = 0; w < 7; w++) {
        Tiny t;
        int  tokens[MAX_TOK];
        tiny_make(&t, config_of(24, 4, 2, 6, 20, windows[w]));
        count_up(tokens, MAX_TOK);
        run(&t.model, tokens, MAX_TOK, &seen_a, NULL);
        for (int j = 0; j < 6; j++) {
            int at = changed[j], old = tokens[at];
            tokens[at] = 31;
            run(&t.model, tokens, MAX_TOK, &seen_b, NULL);
            for (int i = 0; i < MAX_TOK; i++) {
                bool sees = i >= at && i - at < windows[w];
                CHECK(same_row(&seen_a, &seen_b, i) == !sees,
                      "window %d: position %d %s position %d", windows[w], i,
                      sees ? "does not see" : "sees", at);
            }
            tokens[at] = old;
        }
        tiny_free(&t);
    }
}

/* The same heads of K and V, stored once for a group or once for each query head. */
static void grouped_heads_equal_repeated_heads(void)
{
    static const int kv_heads[] = {1, 2, 3};
    for (int g = 0; g < 3; g++) {
        enum { D = 30, HEADS = 6, DIM = 10 };
        Tiny gqa, mha;
        int  tokens[MAX_TOK], group = HEADS / kv_heads[g];
        tiny_make(&gqa, config_of(D, HEADS, kv_heads[g], DIM, 20, 0));
        tiny_make(&mha, config_of(D, HEADS, HEADS, DIM, 20, 0));
        const Mat *from[] = { &gqa.model.layer->wk, &gqa.model.layer->wv },
                  *to[] = { &mha.model.layer->wk, &mha.model.layer->wv };
        for (int m = 0; m < 2; m++)
            for (int r = 0; r < HEADS * DIM; r++)
                for (int k = 0; k < D; k++)
                    mat_row(to[m], r)[k * PANEL_ROWS] =
                        mat_row(from[m], r / DIM / group * DIM + r % DIM)[k * PANEL_ROWS];
        count_up(tokens, MAX_TOK);
        run(&gqa.model, tokens, MAX_TOK, &seen_a, NULL);
        run(&mha.model, tokens, MAX_TOK, &seen_b, NULL);
        for (int i = 0; i < MAX_TOK; i++)
            CHECK(same_row(&seen_a, &seen_b, i), "%d KV heads: position %d differs", kv_heads[g],
                  i);
        tiny_free(&gqa);
        tiny_free(&mha);
    }
}

/* ---- Rotary embedding ------------------------------------------------------------------------ */

enum { ROPE_DIM = 20 };

static void rotate(const Kernels *k, float *x, int pos)
{
    Config c = config_of(ROPE_DIM, 1, 1, ROPE_DIM, 8, 0);
    double inv_freq[ROPE_DIM / 2], factor, s, co;
    float  cosine[ROPE_DIM / 2], sine[ROPE_DIM / 2];
    config_inv_freq(&c, false, NULL, 0, inv_freq, &factor);
    for (int i = 0; i < ROPE_DIM / 2; i++) {
        math64_sincos(pos * inv_freq[i], &s, &co);
        cosine[i] = (float)(co * factor);
        sine[i]   = (float)(s * factor);
    }
    k->rope(x, 1, ROPE_DIM, ROPE_DIM, cosine, sine);
}

static double dot(const float *a, const float *b)
{
    double sum = 0;
    for (int i = 0; i < ROPE_DIM; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void vectors_of(float *q, float *k)
{
    for (int i = 0; i < ROPE_DIM; i++) {
        q[i] = noise(40, (uint32_t)i);
        k[i] = noise(41, (uint32_t)i);
    }
}

static void rope_keeps_norms(void)
{
    static const int positions[] = {0, 1, 2, 63, 1000, 131071, 1048576};
    const Kernels *kernels;
    for (int i = 0; (kernels = kernels_table(i)); i++)
        for (int p = 0; p < 7; p++) {
            _Alignas(64) float q[32], k[32];
            vectors_of(q, k);
            double before = dot(q, q);
            rotate(kernels, q, positions[p]);
            CHECK(fabs(dot(q, q) - before) < 1e-6 * before, "%s: position %d: %.9g, before %.9g",
                  kernels->isa, positions[p], dot(q, q), before);
        }
}

static void rope_depends_on_relative_position_only(void)
{
    static const int shifts[] = {1, 17, 64, 5000, 1000000}, distances[] = {0, 1, 5, 100};
    const Kernels *kernels;
    for (int i = 0; (kernels = kernels_table(i)); i++)
        for (int d = 0; d < 4; d++) {
            double at_zero = 0;
            for (int s = -1; s < 5; s++) {
                _Alignas(64) float q[32], k[32];
                int shift = s < 0 ? 0 : shifts[s];
                vectors_of(q, k);
                rotate(kernels, q, shift + distances[d]);
                rotate(kernels, k, shift);
                if (s < 0)
                    at_zero = dot(q, k);
                CHECK(fabs(dot(q, k) - at_zero) < 2e-6,
                      "%s: distance %d, shifted by %d: %.9g, expected %.9g", kernels->isa,
                distances[d], shift,
                      dot(q, k), at_zero);
            }
        }
}

static void rope_at_position_zero_changes_nothing(void)
{
    const Kernels *kernels;
    for (int i = 0; (kernels = kernels_table(i)); i++) {
        _Alignas(64) float q[32], k[32], before[32];
        vectors_of(q, k);
        memcpy(before, q, sizeof q);
        rotate(kernels, q, 0);
        CHECK(memcmp(before, q, ROPE_DIM * sizeof *q) == 0, "%s", kernels->isa);
    }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(swiglu_of_zero_is_zero);
    TEST(the_worked_example_comes_out);
    TEST(a_block_of_zero_weights_is_the_identity);
    TEST(biases_alone_are_added_in_order);
    TEST(a_later_token_never_changes_an_earlier_one);
    TEST(a_tied_head_is_the_embedding);
    TEST(math_f32_is_that_of_the_dequantized_weights);
    TEST(integers_are_near_the_floats);
    TEST(integers_are_the_same_however_they_are_shared);
    TEST(math_bf16_is_near_the_floats_and_the_same_everywhere);
    TEST(tiny_bf16_weights_are_found);
    TEST(tiny_weights_of_any_expert_are_found);
    TEST(activations_are_as_wide_as_their_place_asks);
    TEST(eight_bits_that_q8_reads_alone_have_a_scale_for_32);
    TEST(experts_are_summed_as_defined);
    TEST(blocks_of_every_placement_are_as_defined);
    TEST(rows_without_logits_end_in_the_last_block);
    TEST(gguf_types_take_16_bits_where_8_cost_most);
    TEST(softmax_rows_sum_to_one);
    TEST(attention_to_equal_values_gives_that_value);
    TEST(a_window_sees_exactly_its_positions);
    TEST(grouped_heads_equal_repeated_heads);
    TEST(rope_keeps_norms);
    TEST(rope_depends_on_relative_position_only);
    TEST(rope_at_position_zero_changes_nothing);
    return TEST_END();
}
