/* A Llama in one file: ids of tokens (pieces of a text) in, ids of the next ones out.
 *     cc -O2 -ffp-contract=off one_file.c -lm -o one_file
 *     ./one_file MODEL --ids 1,2,3 [-n N] [-o FILE]
 * Prints N more ids (0), those of `tblock run`. FILE: logits, raw float32 [tokens, vocab_size].
 * Read it from top to bottom, or from forward(). The block is that of "Attention Is All You Need"
 * (Vaswani et al. 2017) as LLaMA has it (Touvron et al. 2023, section 2.2). Shapes are on the
 * right: [k] is a vector, [rows, k] a matrix. Floats are rounded, so the order of a sum shows in
 * its last bits: each sum has the order of docs/numerics.md, and all bits are tblock's. fmaf(a, b,
 * c) is a * b + c, rounded once. What is no transformer, such as files, is in one_file_rest.h. */
#include "one_file_rest.h"

static float *k_cache, *v_cache; /* of all tokens: [n_layers, n_tok, kv_heads, head_dim] */

/* y = W x. Each y[r] is a sum of k products, 256 of them at a time.       [rows] = [rows, k] [k] */
static void matmul(float *y, const Tensor *W, const float *x)
{
    for (long r = 0; r < W->rows; r++) {
        y[r] = 0;
        for (long first = 0; first < W->k; first += 256) {
            float sum = 0;
            for (long c = first; c < W->k && c < first + 256; c++)
                sum = fmaf(W->w[r * W->k + c], x[c], sum);
            y[r] = y[r] + sum;
        }
    }
}

/* The sum of x[i]^2, or of x[i]: 16 sums side by side, as wide processors add, then one.  [size] */
static float lanes(const float *x, long size, int squares)
{
    float lane[16] = { 0 };
    for (long i = 0; i < size; i++)
        lane[i % 16] = fmaf(x[i], squares ? x[i] : 1, lane[i % 16]);
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] = lane[i] + lane[i + half];
    return lane[0];
}

/* y = x / sqrt(mean of x^2 + eps) * w (RMSNorm: Zhang and Sennrich 2019)           all [d_model] */
static void rms_norm(float *y, const float *x, const Tensor *t)
{
    float r = 1 / sqrtf(lanes(x, d_model, 1) / (float)d_model + (float)norm_eps);
    for (long i = 0; i < d_model; i++)
        y[i] = (x[i] * r) * t->w[i];
}

/* e^x as 2^z e^r, z whole and r small. libm's expf has other last bits on other machines. */
static float exponential(float x)
{
    static const float factor[] = { 0x1.6ac71cp-10f, 0x1.123ddep-7f, 0x1.555858p-5f, 0x1.55548cp-3f,
                                    0x1.fffffcp-2f, 1, 1 }; /* about 1/6!, 1/5!, 1/4!, 1/3!, 1/2! */
    if (!(x >= -87.33654f && x <= 88.72283f))
        return x > 0 ? INFINITY : x < 0 ? 0 : x;
    float z = fmaf(x, 0x1.715476p+0f, 0x1.8p23f) - 0x1.8p23f; /* x / ln 2, to the nearest */
    float r = fmaf(z, 0x1.05c610p-29f, fmaf(z, -0x1.62e430p-1f, x)), e = 0;
    for (int i = 0; i < 7; i++)
        e = fmaf(e, r, factor[i]);
    return ldexpf(e, (int)z);
}

/* A smooth bend: nearly 0 for x below 0, nearly x above (Hendrycks and Gimpel 2016). */
static float silu(float x) { return x < -88.72283f ? -0.0f : x / (1 + exponential(-x)); }

/* RoPE (Su et al. 2021): numbers i and i + head_dim / 2 of a head are a point in a plane, which
 * turns by pos / theta^(2i / head_dim) radians. So q k depends on how far apart two tokens are. */
static void rotate(float *x, long n_heads, long pos)                       /* [n_heads, head_dim] */
{
    for (long h = 0, half = head_dim / 2; h < n_heads; h++, x += head_dim)
        for (long i = 0; i < half; i++) {
            double angle = (double)pos * (1 / pow(theta, 2.0 * (double)i / (double)head_dim));
            float c = (float)cos(angle), s = (float)sin(angle), x0 = x[i], x1 = x[i + half];
            x[i] = fmaf(x0, c, -(x1 * s));
            x[i + half] = fmaf(x1, c, x0 * s);
        }
}

/* softmax(q K^T / sqrt(head_dim)) V of one head: the mean of the v of tokens 0 .. pos, each v with
 * the weight exp(score), where the score q k says how well its k fits q. 64 tokens at a time: m is
 * the largest score so far, l the sum of p = exp(score - m), o that of p v; a new m scales l and o
 * (Milakov and Gimelshein 2018).     y, q, o [head_dim]; K, V [pos + 1, head_dim], kv_dim apart */
static void attention(float *y, const float *q, const float *k, const float *v, long pos)
{
    float scale = (float)(1 / sqrt((double)head_dim)), m = -INFINITY, l = 0, o[1024] = { 0 };
    for (long first = 0; first <= pos; first += 64, k += 64 * kv_dim, v += 64 * kv_dim) {
        long n_seen = pos - first < 64 ? pos - first + 1 : 64;
        float p[64] = { 0 }, tile_m = -INFINITY;
        for (long t = 0; t < n_seen; t++) {
            for (long d = 0; d < head_dim; d++)
                p[t] = fmaf(q[d], k[t * kv_dim + d], p[t]);
            p[t] = p[t] * scale;
            tile_m = p[t] > tile_m ? p[t] : tile_m;
        }
        for (long t = 0; t < n_seen; t++)
            p[t] = exponential(p[t] - tile_m);
        float tile_l = lanes(p, n_seen, 0), new_m = m > tile_m ? m : tile_m;
        float by = exponential(m - new_m), tile_by = exponential(tile_m - new_m);
        for (long d = 0; d < head_dim; d++) {
            float tile_o = 0;
            for (long t = 0; t < n_seen; t++)
                tile_o = fmaf(p[t], v[t * kv_dim + d], tile_o);
            o[d] = fmaf(o[d], by, tile_o * tile_by);
        }
        l = fmaf(l, by, tile_l * tile_by);
        m = new_m;
    }
    for (long d = 0; d < head_dim; d++)
        y[d] = o[d] * (1 / l);
}

/* A score for each id that may follow this token, which is at pos. x stands for the token: a layer
 * adds what attention finds in it and in those before it, then what a small network makes of x. */
static void forward(float *logits, long token, long pos, long n_tok)
{
    static float *x, *n, *q, *a, *y, *gate, *up;
    if (!x)
        x = floats(1, d_model), n = floats(1, d_model), q = floats(1, q_dim), a = floats(1, q_dim),
        y = floats(1, d_model), gate = floats(1, d_ff), up = floats(1, d_ff);
    memcpy(x, embed->w + token * d_model, (size_t)d_model * sizeof *x); /* x    [d_model] */
    for (long l = 0; l < n_layers; l++) {
        const Layer *w = &layer[l];
        float *k = k_cache + l * n_tok * kv_dim, *v = v_cache + l * n_tok * kv_dim;
        rms_norm(n, x, w->attn_norm);                                /* n    [d_model] */
        matmul(q, w->wq, n);                                         /* q    [heads, head_dim] */
        matmul(k + pos * kv_dim, w->wk, n);                          /* k    [kv_heads, head_dim] */
        matmul(v + pos * kv_dim, w->wv, n);                          /* v    [kv_heads, head_dim] */
        rotate(q, heads, pos);
        rotate(k + pos * kv_dim, kv_heads, pos);
        for (long h = 0; h < heads; h++) { /* some share K and V, "GQA" (Ainslie et al. 2023) */
            long kv = h * kv_heads / heads * head_dim;
            attention(a + h * head_dim, q + h * head_dim, k + kv, v + kv, pos);
        }
        matmul(y, w->wo, a);                                         /* y    [d_model] */
        for (long i = 0; i < d_model; i++)
            x[i] = x[i] + y[i];
        rms_norm(n, x, w->ffn_norm);
        matmul(gate, w->w_gate, n);                                  /* gate [d_ff] */
        matmul(up, w->w_up, n);                                      /* up   [d_ff] */
        for (long i = 0; i < d_ff; i++)
            gate[i] = silu(gate[i]) * up[i];                         /* SwiGLU (Shazeer 2020) */
        matmul(y, w->w_down, gate);
        for (long i = 0; i < d_model; i++)
            x[i] = x[i] + y[i];
    }
    rms_norm(x, x, final_norm);
    matmul(logits, lm_head, x);                                      /* logits [vocab_size] */
}

/* One id by chance, each as likely as softmax(logits / 0.8) says (temperature): of the 40 likeliest
 * (top-k), and of these, of the fewest with 95% of their probability (top-p). Spoils the logits. */
static long sample(float *logits, long index)
{
    long id[40] = { 0 }, i, size = vocab_size < 40 ? vocab_size : 40;
    double p[40], total = 0, sum = 0;
    float m = 0;
    for (long j = 0; j < vocab_size; j++)
        logits[j] = logits[j] / 0.8f;
    for (i = 0; i < size; total += p[i++]) {
        for (long j = 1; j < vocab_size; j++)
            id[i] = logits[j] > logits[id[i]] ? j : id[i];
        m = i ? m : logits[id[0]];
        p[i] = exponential(logits[id[i]] - m);
        logits[id[i]] = -INFINITY;
    }
    for (i = 0; sum < 0.95 * total; i++)
        sum += p[i];
    double target = (double)(philox((uint32_t)index, 0, 0, 0, 0) >> 40) * 0x1p-24 * sum;
    for (i = 0, sum = p[0]; sum <= target; sum += p[i])
        i++;
    return id[i];
}

int main(int argc, char **argv)
{
    const char *ids = NULL, *count = "0", *output = NULL, *unknown = NULL;
    for (int i = 2; i + 1 < argc; i += 2)
        *(!strcmp(argv[i], "--ids") ? &ids : !strcmp(argv[i], "-n") ? &count
          : !strcmp(argv[i], "-o") ? &output : &unknown) = argv[i + 1];
    if (argc % 2 || !ids || unknown)
        FAIL("expected MODEL --ids 1,2,3 [-n N] [-o FILE]");
    read_model(argv[1]);
    long n_more = read_number(&count, 0, n_ctx), n_ids, *id = read_ids(ids, n_ctx, n_more, &n_ids);
    long n_tok = n_ids + n_more;
    k_cache = floats(n_layers * n_tok, kv_dim), v_cache = floats(n_layers * n_tok, kv_dim);
    float *logits = floats(1, vocab_size);
    FILE *file = output ? fopen(output, "wb") : NULL;
    if (output && !file)
        FAIL("%s: cannot be written: %s", output, strerror(errno));
    for (long pos = 0; pos < n_tok; pos++) {
        forward(logits, id[pos], pos, n_tok);
        if (file && fwrite(logits, sizeof *logits, (size_t)vocab_size, file) != (size_t)vocab_size)
            FAIL("%s: cannot be written: %s", output, strerror(errno));
        if (pos + 1 >= n_ids && pos + 1 < n_tok)
            printf("%ld\n", id[pos + 1] = sample(logits, pos + 1));
    }
    if (file && fclose(file) != 0)
        FAIL("%s: cannot be written: %s", output, strerror(errno));
    free(id), free(logits);
    return 0;
}
