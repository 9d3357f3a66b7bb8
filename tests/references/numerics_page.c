/* A Llama model computed from docs/numerics.md and docs/format.md alone: one file, no header of the
 * project, one thread, no kernel. The names are those of the page. What it computes must be what
 * `tblock logits --hidden` wrote, in every bit; numerics_page.sh runs it.
 *   numerics_page MODEL LOGITS TOKENS    MODEL: of the shape of models/shakespeare.json, in bf16
 * Compile with -ffp-contract=off: every fma that the page names is written fmaf. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { D_MODEL = 192, N_LAYERS = 6, HEADS = 6, KV_HEADS = 3, HEAD_DIM = 32, D_FF = 512 };
enum { VOCAB_SIZE = 1024, N_CTX = 256, Q_DIM = HEADS * HEAD_DIM, KV_DIM = KV_HEADS * HEAD_DIM };
static const double theta = 10000, norm_eps = 1e-5;

/* ---- docs/format.md: files of tensors ------------------------------------------------------- */

typedef struct File {
    char *header;
    const unsigned char *data;
    size_t n_data;
} File;

static void stop(const char *what, const char *name)
{
    printf("FAIL numerics_page: %s: %s\n", name, what);
    exit(1);
}

static File file_open(const char *path)
{
    FILE *f = fopen(path, "rb");
    long n = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    char *bytes = n > 8 ? malloc((size_t)n) : NULL;
    uint64_t n_header = 0;
    if (!bytes || fseek(f, 0, SEEK_SET) != 0 || fread(bytes, 1, (size_t)n, f) != (size_t)n)
        stop("cannot be read", path);
    fclose(f);
    memcpy(&n_header, bytes, 8);
    if (n_header == 0 || n_header > (uint64_t)n - 8)
        stop("is no safetensors file", path);
    bytes[8 + n_header - 1] = '\0'; /* the last brace, or a space after it */
    return (File){ bytes + 8, (unsigned char *)bytes + 8 + n_header, (size_t)n - 8 - n_header };
}

/* The n bytes of a tensor, whose line of the header is spelled as the page says. */
static const void *tensor(const File *f, const char *name, const char *dtype, size_t n)
{
    char start[100];
    size_t from = 0, to = 0;
    snprintf(start, sizeof start, "\"%s\": {\"dtype\": \"%s\", ", name, dtype);
    const char *at = strstr(f->header, start);
    at = at ? strstr(at, "\"data_offsets\": [") : NULL;
    if (!at || sscanf(at, "\"data_offsets\": [%zu, %zu]", &from, &to) != 2)
        stop("no such tensor", name);
    if (to > f->n_data || to < n || to - n != from)
        stop("a tensor of another size", name);
    return f->data + from;
}

/* Of layer l, a vector, which is F32, where k is 1; else a matrix, bf16 in panels of 16 rows, as
 * [rows, k]. */
static const float *weights(const File *f, const char *format, int l, size_t rows, size_t k)
{
    char name[40];
    snprintf(name, sizeof name, format, l);
    if (k == 1)
        return tensor(f, name, "F32", rows * sizeof(float));
    const unsigned char *panels = tensor(f, name, "BF16", rows * k * 2);
    float *w = malloc(rows * k * sizeof(float));
    if (!w)
        stop("no memory", name);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < k; c++) { /* [p, c / 2, r, c % 2]: the upper half of a float */
            size_t i = ((r / 16 * (k / 2) + c / 2) * 16 + r % 16) * 2 + c % 2;
            uint32_t bits = (uint32_t)panels[2 * i] << 16 | (uint32_t)panels[2 * i + 1] << 24;
            memcpy(&w[r * k + c], &bits, 4);
        }
    return w;
}

/* ---- docs/numerics.md ------------------------------------------------------------------------ */

/* Conventions: the lanes of a 16-lane sum are folded 8+8, 4+4, 2+2, 1+1. */
static float fold(float *lane)
{
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] = lane[i] + lane[i + half];
    return lane[0];
}

/* "Float weights, --math f32": y[r] = W[r] x, in chunks of 256 along k. */
static void product(float *y, const float *w, const float *x, int rows, int k)
{
    for (int r = 0; r < rows; r++, w += k) {
        float acc = 0;
        for (int first = 0; first < k; first += 256) {
            float c = 0;
            for (int i = first; i < k && i < first + 256; i++)
                c = fmaf(w[i], x[i], c);
            acc = acc + c;
        }
        y[r] = acc;
    }
}

/* "Norms and sums": RMSNorm of d_model elements. */
static void rms_norm(float *y, const float *x, const float *w)
{
    float lane[16] = { 0 };
    for (int i = 0; i < D_MODEL; i++)
        lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
    float ss = fold(lane);
    float r = 1 / sqrtf(ss / (float)D_MODEL + (float)norm_eps);
    for (int i = 0; i < D_MODEL; i++)
        y[i] = (x[i] * r) * w[i];
}

/* "exp and its family". E is the polynomial of that name in r. */
static float page_exp(float x)
{
    if (isnan(x))
        return x;
    if (x > 88.72283f)
        return INFINITY;
    if (x < -87.33654f)
        return 0;
    float n = fmaf(x, 0x1.715476p+0f, 0x1.8p23f) - 0x1.8p23f;
    float r = fmaf(n, -0x1.62e430p-1f, x);
    r = fmaf(n, 0x1.05c610p-29f, r);
    float e = 0x1.6ac71cp-10f;
    e = fmaf(e, r, 0x1.123ddep-7f);
    e = fmaf(e, r, 0x1.555858p-5f);
    e = fmaf(e, r, 0x1.55548cp-3f);
    e = fmaf(e, r, 0x1.fffffcp-2f);
    float y = fmaf(fmaf(e, r, 1), r, 1);
    int32_t bits;
    memcpy(&bits, &y, 4);
    bits += (int32_t)n * (1 << 23);
    memcpy(&y, &bits, 4);
    return y;
}

static float silu(float x) { return x < -88.72283f ? -0.0f : x / (1 + page_exp(-x)); }

/* "Rotary embedding": all dimensions of n heads at position pos. */
static void rotate(float *x, int n, int pos)
{
    for (int h = 0; h < n; h++, x += HEAD_DIM)
        for (int i = 0; i < HEAD_DIM / 2; i++) {
            double inv_freq = 1 / pow(theta, (2.0 * i) / HEAD_DIM), angle = pos * inv_freq;
            float c = (float)cos(angle), s = (float)sin(angle);
            float x0 = x[i], x1 = x[i + HEAD_DIM / 2];
            x[i] = fmaf(x0, c, -(x1 * s));
            x[i + HEAD_DIM / 2] = fmaf(x1, c, x0 * s);
        }
}

/* "Attention": y of one head at position pos, which sees 0 .. pos. Row t of k and v starts at
 * t * KV_DIM. */
typedef struct Partial {
    float m, l, o[HEAD_DIM];
} Partial;

/* The positions first .. end - 1 of one tile. */
static Partial one_tile(const float *q, const float *k, const float *v, int first, int end)
{
    Partial tile = { .m = -INFINITY };
    float scale = (float)(1 / sqrt((double)HEAD_DIM)), s[64], p[64], lane[16] = { 0 };
    for (int t = first; t < end; t++) {
        float a = 0;
        for (int d = 0; d < HEAD_DIM; d++)
            a = fmaf(q[d], k[t * KV_DIM + d], a);
        s[t - first] = a * scale;
        tile.m = s[t - first] > tile.m ? s[t - first] : tile.m;
    }
    for (int t = first; t < end; t++) {
        p[t - first] = page_exp(s[t - first] - tile.m);
        lane[t % 16] = lane[t % 16] + p[t - first];
    }
    tile.l = fold(lane);
    for (int d = 0; d < HEAD_DIM; d++)
        for (int t = first; t < end; t++)
            tile.o[d] = fmaf(p[t - first], v[t * KV_DIM + d], tile.o[d]);
    return tile;
}

static void attention(float *y, const float *q, const float *k, const float *v, int pos)
{
    Partial run = one_tile(q, k, v, 0, pos < 64 ? pos + 1 : 64);
    for (int first = 64; first <= pos; first += 64) {
        Partial tile = one_tile(q, k, v, first, pos < first + 64 ? pos + 1 : first + 64);
        float new_m = tile.m > run.m ? tile.m : run.m;
        float run_by = page_exp(run.m - new_m);
        float tile_by = page_exp(tile.m - new_m);
        run.m = new_m;
        run.l = fmaf(run.l, run_by, tile.l * tile_by);
        for (int d = 0; d < HEAD_DIM; d++)
            run.o[d] = fmaf(run.o[d], run_by, tile.o[d] * tile_by);
    }
    float r = 1 / run.l;
    for (int d = 0; d < HEAD_DIM; d++)
        y[d] = run.o[d] * r;
}

/* ---- "A Llama model", layer by layer for all positions --------------------------------------- */

static int n_tok;
static float x[N_CTX][D_MODEL], k[N_CTX * KV_DIM], v[N_CTX * KV_DIM], logits[N_CTX][VOCAB_SIZE];
static long n_values, n_differ;

static void add(float *to, const float *y)
{
    for (int i = 0; i < D_MODEL; i++)
        to[i] = to[i] + y[i];
}

static void attention_sublayer(const File *f, int l)
{
    const float *norm = weights(f, "layers.%d.attn_norm", l, D_MODEL, 1);
    const float *wq = weights(f, "layers.%d.wq", l, Q_DIM, D_MODEL);
    const float *wk = weights(f, "layers.%d.wk", l, KV_DIM, D_MODEL);
    const float *wv = weights(f, "layers.%d.wv", l, KV_DIM, D_MODEL);
    const float *wo = weights(f, "layers.%d.wo", l, D_MODEL, Q_DIM);
    for (int pos = 0; pos < n_tok; pos++) {
        float n[D_MODEL], q[Q_DIM], y[Q_DIM], out[D_MODEL];
        float *k_pos = k + pos * KV_DIM, *v_pos = v + pos * KV_DIM;
        rms_norm(n, x[pos], norm);
        product(q, wq, n, Q_DIM, D_MODEL);
        product(k_pos, wk, n, KV_DIM, D_MODEL);
        product(v_pos, wv, n, KV_DIM, D_MODEL);
        rotate(q, HEADS, pos);
        rotate(k_pos, KV_HEADS, pos);
        for (int h = 0; h < HEADS; h++) {
            int kv = h * KV_HEADS / HEADS * HEAD_DIM;
            attention(y + h * HEAD_DIM, q + h * HEAD_DIM, k + kv, v + kv, pos);
        }
        product(out, wo, y, D_MODEL, Q_DIM);
        add(x[pos], out);
    }
}

static void feed_forward(const File *f, int l)
{
    const float *norm = weights(f, "layers.%d.ffn_norm", l, D_MODEL, 1);
    const float *w_gate = weights(f, "layers.%d.w_gate", l, D_FF, D_MODEL);
    const float *w_up = weights(f, "layers.%d.w_up", l, D_FF, D_MODEL);
    const float *w_down = weights(f, "layers.%d.w_down", l, D_MODEL, D_FF);
    for (int pos = 0; pos < n_tok; pos++) {
        float n[D_MODEL], gate[D_FF], up[D_FF], out[D_MODEL];
        rms_norm(n, x[pos], norm);
        product(gate, w_gate, n, D_FF, D_MODEL);
        product(up, w_up, n, D_FF, D_MODEL);
        for (int i = 0; i < D_FF; i++)
            gate[i] = silu(gate[i]) * up[i];
        product(out, w_down, gate, D_MODEL, D_FF);
        add(x[pos], out);
    }
}

/* All positions of x or of the logits, in every bit. */
static void compare(const File *f, const char *format, int l, const void *ours, size_t width)
{
    char name[40];
    snprintf(name, sizeof name, format, l);
    size_t n = (size_t)n_tok * width;
    const float *theirs = tensor(f, name, "F32", n * sizeof(float)), *mine = ours;
    long differ = 0;
    for (size_t i = 0; i < n; i++)
        differ += memcmp(theirs + i, mine + i, sizeof(float)) != 0;
    if (differ)
        printf("note: %s: %ld of %zu differ\n", name, differ, n);
    n_values += (long)n;
    n_differ += differ;
}

int main(int argc, char **argv)
{
    if (argc != 4 || (n_tok = atoi(argv[3])) < 1 || n_tok > N_CTX)
        stop("expected MODEL LOGITS TOKENS", "arguments");
    File model = file_open(argv[1]), golden = file_open(argv[2]);
    const int32_t *tokens = tensor(&golden, "tokens", "I32", (size_t)n_tok * sizeof *tokens);
    const float *embed = weights(&model, "embed", 0, VOCAB_SIZE, D_MODEL); /* the head too */
    const float *norm = weights(&model, "final_norm", 0, D_MODEL, 1);

    for (int pos = 0; pos < n_tok; pos++)
        memcpy(x[pos], embed + (size_t)tokens[pos] * D_MODEL, sizeof x[pos]);
    compare(&golden, "hidden.embed", 0, x, D_MODEL);
    for (int l = 0; l < N_LAYERS; l++) {
        attention_sublayer(&model, l);
        compare(&golden, "hidden.layer%d.attn", l, x, D_MODEL);
        feed_forward(&model, l);
        compare(&golden, "hidden.layer%d", l, x, D_MODEL);
    }
    for (int pos = 0; pos < n_tok; pos++) {
        rms_norm(x[pos], x[pos], norm);
        product(logits[pos], embed, x[pos], VOCAB_SIZE, D_MODEL);
    }
    compare(&golden, "hidden.final_norm", 0, x, D_MODEL);
    compare(&golden, "logits", 0, logits, VOCAB_SIZE);
    printf("%s numerics_page: %ld of %ld values differ\n", n_differ ? "FAIL" : "ok", n_differ,
           n_values);
    return n_differ != 0;
}
