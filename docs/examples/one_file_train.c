/* How a Llama learns, in one file: one_file.c for all tokens of a sequence at once, and backwards.
 *     cc -O2 one_file_train.c -lm -o one_file_train
 *     tblock tokenize MODEL -f TEXT > IDS
 *     ./one_file_train MODEL IDS [-o FILE]
 *     ./one_file_train MODEL IDS --steps 50 [--batch 4] [--ctx 64] [--lr 1e-3] [-o FILE]
 * The first form prints the loss of the whole list as one sequence, as `tblock grad` does, and FILE
 * gets the gradients of all tensors. The second prints the loss before each step, as `tblock train
 * --init MODEL --text TEXT --validation 0` does, and FILE gets the weights after the last one. Both
 * are raw float32, in the order of the model file, matrices row after row.
 *
 * d_y is the gradient of y: by how much the loss grows if y grows a little. After each function f
 * comes f_backward: from d_y it makes the gradients of what f has read (the chain rule) and ADDS
 * them, since what is read twice gets a part from each reader. docs/train.md has the formulas.
 * Shapes are on the right; T is the number of tokens. Sums have no fixed order here, so the numbers
 * are tblock's but for rounding. The heart is block() and block_backward(). */
#define PROGRAM "one_file_train"
#include "one_file_rest.h"

static long T; /* tokens in a sequence */

/* What a layer makes of a sequence; d holds the gradient of each. */
typedef struct Values {
    float *x, *n, *q, *k, *v, *p, *a, *x_mid, *n_mid, *gate, *up, *h; /* block() has their shapes */
    float *all; /* all of them, one after the other */
    long   size;
} Values;

/* Y = X W^T: y = W x for each token                                 [T, rows] = [T, k] [k, rows] */
static void linear(float *y, const Tensor *W, const float *x)
{
    for (long t = 0; t < T; t++, x += W->k)
        for (long r = 0; r < W->rows; r++) {
            double sum = 0;
            for (long c = 0; c < W->k; c++)
                sum += (double)W->w[r * W->k + c] * (double)x[c];
            *y++ = (float)sum;
        }
}

/* d_x = W^T d_y, since x[c] goes into each y[r] with the factor W[r][c]; and d_W = d_y x^T, since
 * W[r][c] goes into y[r] with the factor x[c], for each token. */
static void linear_backward(float *d_x, const float *d_y, Tensor *W, const float *x)
{
    for (long t = 0; t < T; t++, x += W->k, d_x += W->k, d_y += W->rows)
        for (long r = 0; r < W->rows; r++)
            for (long c = 0; c < W->k; c++) {
                d_x[c] += W->w[r * W->k + c] * d_y[r];
                W->grad[r * W->k + c] += d_y[r] * x[c];
            }
}

/* 1 / sqrt(mean of x^2 + eps), of one token */
static float inverse_length(const float *x)
{
    double sum = 0;
    for (long i = 0; i < d_model; i++)
        sum += (double)x[i] * (double)x[i];
    return (float)(1 / sqrt(sum / (double)d_model + norm_eps));
}

/* y = x r * w, where r = 1 / sqrt(mean of x^2 + eps)              x, y [T, d_model], w [d_model] */
static void rms_norm(float *y, const Tensor *W, const float *x)
{
    for (long t = 0; t < T; t++, x += d_model, y += d_model) {
        float r = inverse_length(x);
        for (long i = 0; i < d_model; i++)
            y[i] = x[i] * r * W->w[i];
    }
}

/* With g = d_y w: d_x = r g, less what the change of r takes: r (x r) * mean of g (x r). */
static void rms_norm_backward(float *d_x, const float *d_y, Tensor *W, const float *x)
{
    for (long t = 0; t < T; t++, x += d_model, d_x += d_model, d_y += d_model) {
        float r = inverse_length(x);
        double mean = 0;
        for (long i = 0; i < d_model; i++)
            mean += (double)(d_y[i] * W->w[i] * x[i] * r) / (double)d_model;
        for (long i = 0; i < d_model; i++) {
            d_x[i] += r * (d_y[i] * W->w[i] - x[i] * r * (float)mean);
            W->grad[i] += d_y[i] * x[i] * r;
        }
    }
}

/* RoPE turns each pair of numbers by an angle (direction 1). Turned back by the same angle
 * (direction -1), the gradient of the result is that of the pair.       x [T, n_heads, head_dim] */
static void rotate(float *x, long n_heads, int direction)
{
    for (long i = 0, half = head_dim / 2; i < T * n_heads * half; i++) {
        float *a = x + i / half * head_dim + i % half, *b = a + half, old = *a;
        double angle = (double)(i / half / n_heads) /
                       pow(theta, 2.0 * (double)(i % half) / (double)head_dim) * direction;
        *a = (float)cos(angle) * old - (float)sin(angle) * *b;
        *b = (float)cos(angle) * *b + (float)sin(angle) * old;
    }
}

static float dot(const float *a, const float *b) /* [head_dim] */
{
    double sum = 0;
    for (long d = 0; d < head_dim; d++)
        sum += (double)a[d] * (double)b[d];
    return (float)sum;
}

/* p = softmax(q k / sqrt(head_dim)), a = p v: of each head and token t, over the tokens u <= t.
 *     q, a [T, heads, head_dim]; k, v [T, kv_heads, head_dim]; p [heads, T, T] */
static void attention(Values *s)
{
    memset(s->a, 0, (size_t)(T * q_dim) * sizeof *s->a);
    for (long h = 0; h < heads; h++)
        for (long t = 0, kv = h * kv_heads / heads * head_dim; t < T; t++) {
            float *p = s->p + (h * T + t) * T, *a = s->a + t * q_dim + h * head_dim;
            float *q = s->q + t * q_dim + h * head_dim, largest = -INFINITY, sum = 0;
            for (long u = 0; u <= t; u++) {
                p[u] = dot(q, s->k + u * kv_dim + kv) / sqrtf((float)head_dim);
                largest = p[u] > largest ? p[u] : largest;
            }
            for (long u = 0; u <= t; u++)
                sum += p[u] = expf(p[u] - largest);
            for (long u = 0; u <= t; u++) {
                p[u] /= sum;
                for (long d = 0; d < head_dim; d++)
                    a[d] += p[u] * s->v[u * kv_dim + kv + d];
            }
        }
}

/* a is a sum of p v, so d_v = p d_a and d_p = d_a v. A larger score raises its own p and lowers the
 * others of its token, so d_score = p (d_p - the sum of all p d_p). A score is q k, so
 * d_q = d_score k and d_k = d_score q. */
static void attention_backward(Values *d, const Values *s)
{
    float *d_p = floats(1, T);
    for (long h = 0; h < heads; h++)
        for (long t = 0, kv = h * kv_heads / heads * head_dim; t < T; t++) {
            const float *p = s->p + (h * T + t) * T, *d_a = d->a + t * q_dim + h * head_dim;
            long at = t * q_dim + h * head_dim;
            float sum = 0;
            for (long u = 0; u <= t; u++) {
                d_p[u] = dot(d_a, s->v + u * kv_dim + kv);
                sum += p[u] * d_p[u];
            }
            for (long u = 0; u <= t; u++) {
                float d_score = p[u] * (d_p[u] - sum) / sqrtf((float)head_dim);
                for (long i = 0, j = u * kv_dim + kv; i < head_dim; i++, j++) {
                    d->v[j] += p[u] * d_a[i];
                    d->q[at + i] += d_score * s->k[j];
                    d->k[j] += d_score * s->q[at + i];
                }
            }
        }
    free(d_p);
}

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* h = SiLU(gate) * up, SiLU(x) = x sigmoid(x)                                          [T, d_ff] */
static void swiglu(Values *s)
{
    for (long i = 0; i < T * d_ff; i++)
        s->h[i] = s->gate[i] * sigmoid(s->gate[i]) * s->up[i];
}

/* The derivative of SiLU is sigmoid(x) (1 + x (1 - sigmoid(x))). */
static void swiglu_backward(Values *d, const Values *s)
{
    for (long i = 0; i < T * d_ff; i++) {
        float g = s->gate[i], sg = sigmoid(g);
        d->up[i] += d->h[i] * g * sg;
        d->gate[i] += d->h[i] * s->up[i] * sg * (1 + g * (1 - sg));
    }
}

/* ---- The block, and its mirror ---- */

/* x += attention(norm(x)); x += ffn(norm(x)). Keeps in s what block_backward needs. */
static void block(float *x, const Layer *w, Values *s)
{
    float *y = floats(T, d_model);
    memcpy(s->x, x, (size_t)(T * d_model) * sizeof *x);     /* x    [T, d_model] */
    rms_norm(s->n, w->attn_norm, s->x);                     /* n    [T, d_model] */
    linear(s->q, w->wq, s->n);                              /* q    [T, heads, head_dim] */
    linear(s->k, w->wk, s->n);                              /* k    [T, kv_heads, head_dim] */
    linear(s->v, w->wv, s->n);                              /* v    [T, kv_heads, head_dim] */
    rotate(s->q, heads, 1);
    rotate(s->k, kv_heads, 1);
    attention(s);                                           /* a    [T, heads, head_dim] */
    linear(y, w->wo, s->a);                                 /* y    [T, d_model] */
    for (long i = 0; i < T * d_model; i++)
        s->x_mid[i] = x[i] + y[i];                          /* x_mid, n_mid [T, d_model] */
    rms_norm(s->n_mid, w->ffn_norm, s->x_mid);
    linear(s->gate, w->w_gate, s->n_mid);                   /* gate [T, d_ff] */
    linear(s->up, w->w_up, s->n_mid);                       /* up   [T, d_ff] */
    swiglu(s);                                              /* h    [T, d_ff] */
    linear(y, w->w_down, s->h);
    for (long i = 0; i < T * d_model; i++)
        x[i] = s->x_mid[i] + y[i];
    free(y);
}

/* The same from the last line to the first. d_x comes in as the gradient of what block() made of x,
 * and goes out as that of x. An addition hands its gradient to both terms: so d_x stays, for x
 * itself, and what comes back through the sublayer is added to it by the norm at its start. */
static void block_backward(float *d_x, const Layer *w, const Values *s, Values *d)
{
    memset(d->all, 0, (size_t)d->size * sizeof *d->all);
    linear_backward(d->h, d_x, w->w_down, s->h);              /* x = x_mid + w_down h */
    swiglu_backward(d, s);                                    /* h = SiLU(gate) * up */
    linear_backward(d->n_mid, d->up, w->w_up, s->n_mid);      /* up = w_up n_mid */
    linear_backward(d->n_mid, d->gate, w->w_gate, s->n_mid);  /* gate = w_gate n_mid */
    rms_norm_backward(d_x, d->n_mid, w->ffn_norm, s->x_mid);  /* n_mid = norm(x_mid) */
    linear_backward(d->a, d_x, w->wo, s->a);                  /* x_mid = x + wo a */
    attention_backward(d, s);                                 /* a = attention(q, k, v) */
    rotate(d->k, kv_heads, -1);
    rotate(d->q, heads, -1);
    linear_backward(d->n, d->v, w->wv, s->n);                 /* v = wv n */
    linear_backward(d->n, d->k, w->wk, s->n);                 /* k = wk n */
    linear_backward(d->n, d->q, w->wq, s->n);                 /* q = wq n */
    rms_norm_backward(d_x, d->n, w->attn_norm, s->x);         /* n = norm(x) */
}

/* ---- The whole model ---- */

static Values *saved, d; /* [n_layers]; of one layer */

static void values_alloc(Values *s)
{
    const struct { float **to; long size; } part[] = {
        { &s->x, T * d_model }, { &s->n, T * d_model },     { &s->q, T * q_dim },
        { &s->k, T * kv_dim },  { &s->v, T * kv_dim },      { &s->p, heads * T * T },
        { &s->a, T * q_dim },   { &s->x_mid, T * d_model }, { &s->n_mid, T * d_model },
        { &s->gate, T * d_ff }, { &s->up, T * d_ff },       { &s->h, T * d_ff },
    };
    const long n = sizeof part / sizeof *part;
    for (long i = 0; i < n; i++)
        s->size += part[i].size;
    s->all = floats(1, s->size);
    for (long i = 0, at = 0; i < n; at += part[i++].size)
        *part[i].to = s->all + at;
}

/* The loss of one token: -log p[target], p = softmax(logits). The logits become their gradient,
 * which is p, less 1 at the target; divided by n_targets, as the loss is a mean.   [vocab_size] */
static double cross_entropy(float *logits, long target, long n_targets)
{
    float largest = -INFINITY, at_target = logits[target];
    double sum = 0;
    for (long i = 0; i < vocab_size; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    for (long i = 0; i < vocab_size; i++)
        sum += (double)(logits[i] = expf(logits[i] - largest));
    for (long i = 0; i < vocab_size; i++)
        logits[i] = (float)((double)logits[i] / sum - (i == target)) / (float)n_targets;
    return (double)(largest - at_target) + log(sum);
}

/* The sum of the losses of the T tokens after id[0] .. id[T - 1], each predicted from those before
 * it. Adds the gradients of that sum over n_targets to those of the tensors. */
static double loss_and_gradients(const long *id, long n_targets)
{
    float *x = floats(T, d_model), *n = floats(T, d_model), *logits = floats(T, vocab_size);
    float *d_x = floats(T, d_model), *d_n = floats(T, d_model);
    double loss = 0;
    for (long t = 0; t < T; t++)
        memcpy(x + t * d_model, embed->w + id[t] * d_model, (size_t)d_model * sizeof *x);
    for (long l = 0; l < n_layers; l++)
        block(x, &layer[l], &saved[l]);
    rms_norm(n, final_norm, x);
    linear(logits, lm_head, n);                                      /* [T, vocab_size] */
    for (long t = 0; t < T; t++)
        loss += cross_entropy(logits + t * vocab_size, id[t + 1], n_targets);

    linear_backward(d_n, logits, lm_head, n);                        /* logits is d_logits now */
    rms_norm_backward(d_x, d_n, final_norm, x);
    for (long l = n_layers - 1; l >= 0; l--)
        block_backward(d_x, &layer[l], &saved[l], &d);
    for (long t = 0; t < T; t++)
        for (long i = 0; i < d_model; i++)
            embed->grad[id[t] * d_model + i] += d_x[t * d_model + i];
    free(x), free(n), free(logits), free(d_x), free(d_n);
    return loss;
}

/* AdamW (Loshchilov and Hutter 2019): m and v are running means of the gradient and of its square,
 * and a weight moves by m / sqrt(v). If all gradients as one vector are longer than 1, they are
 * scaled to that first. They are 0 afterwards, for the next step; step counts from 1. */
static void adamw(long step, double rate)
{
    const double beta1 = 0.9, beta2 = 0.95, decay = 0.1;
    double length = 0;
    for (Tensor *t = tensors; t < tensors + n_tensors; t++)
        for (long i = 0; i < t->rows * t->k; i++)
            length += (double)t->grad[i] * (double)t->grad[i];
    double clip = length > 1 ? 1 / sqrt(length) : 1;
    double m_share = 1 - pow(beta1, (double)step), v_share = 1 - pow(beta2, (double)step);
    for (Tensor *t = tensors; t < tensors + n_tensors; t++)
        for (long i = 0; i < t->rows * t->k; i++) {
            double g = (double)t->grad[i] * clip, keep = 1 - (t->rows > 1 ? rate * decay : 0);
            t->m[i] = (float)(beta1 * (double)t->m[i] + (1 - beta1) * g);
            t->v[i] = (float)(beta2 * (double)t->v[i] + (1 - beta2) * g * g);
            double change = (double)t->m[i] / m_share / (sqrt((double)t->v[i] / v_share) + 1e-8);
            t->w[i] = (float)((double)t->w[i] * keep - rate * change);
            t->grad[i] = 0;
        }
}

/* Up from 0 for a twentieth of the steps, then down to a tenth of lr along half a cosine. */
static double learning_rate(double lr, long step, long n_steps)
{
    long warmup = n_steps / 20;
    if (step < warmup)
        return lr * (double)(step + 1) / (double)warmup;
    double done = (double)(step - warmup) / (double)(n_steps - warmup);
    return lr / 10 + 0.5 * (lr - lr / 10) * (1 + cos(3.14159265358979323846 * done));
}

static char *read_text(const char *name)
{
    FILE *f = fopen(name, "rb");
    long size = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    char *text = size >= 0 ? calloc((size_t)size + 1, 1) : NULL;
    if (!text || fseek(f, 0, SEEK_SET) != 0 || fread(text, 1, (size_t)size, f) != (size_t)size)
        FAIL("%s: cannot be read: %s", name, strerror(errno));
    fclose(f);
    return text;
}

/* All tensors, or their gradients, one after the other. */
static void write_tensors(const char *name, int gradients)
{
    FILE *f = fopen(name, "wb");
    int ok = f != NULL;
    for (Tensor *t = tensors; ok && t < tensors + n_tensors; t++) {
        size_t n = (size_t)(t->rows * t->k);
        ok = fwrite(gradients ? t->grad : t->w, sizeof(float), n, f) == n;
    }
    if (!f || fclose(f) != 0 || !ok)
        FAIL("%s: cannot be written: %s", name, strerror(errno));
}

int main(int argc, char **argv)
{
    static const char usage[] =
        "expected MODEL IDS [--steps N] [--batch B] [--ctx T] [--lr F] [-o FILE]";
    const char *steps = "0", *batch = "4", *ctx = "64", *rate = "1e-3", *output = NULL;
    const struct { const char *name, **to; } option[] = {
        { "--steps", &steps }, { "--batch", &batch }, { "--ctx", &ctx }, { "--lr", &rate },
        { "-o", &output } };
    if (argc < 3 || argc % 2 == 0)
        FAIL("%s", usage);
    for (int i = 3, k; i < argc; i += 2) {
        for (k = 0; k < 5 && strcmp(argv[i], option[k].name) != 0; k++) {}
        if (k == 5)
            FAIL("%s", usage);
        *option[k].to = argv[i + 1];
    }
    read_model(argv[1]);
    long n_ids, n_steps = read_number(&steps, 0, 1 << 20);
    long n_seqs = n_steps ? read_number(&batch, 1, 1 << 16) : 1;
    char *text = read_text(argv[2]), *end;
    long *id = read_ids(text, 1L << 40, 0, &n_ids);
    double lr = strtod(rate, &end), loss;
    if (end == rate || *end || !(lr >= 0 && lr <= 1000))
        FAIL("--lr: expected a number from 0 to 1000, found '%s'", rate);
    T = n_steps ? read_number(&ctx, 1, n_ctx) : n_ids - 1;
    if (T < 1 || T > n_ctx || n_ids <= T)
        FAIL("%s: expected more than %ld ids, at most %ld of them in a sequence, found %ld",
             argv[2], T < 1 || !n_steps ? 1 : T, n_ctx, n_ids);
    for (Tensor *t = tensors; t < tensors + n_tensors; t++)
        t->grad = floats(t->rows, t->k), t->m = floats(t->rows, t->k), t->v = floats(t->rows, t->k);
    saved = calloc((size_t)n_layers, sizeof *saved);
    if (!saved)
        FAIL("out of memory");
    for (long l = 0; l < n_layers; l++)
        values_alloc(&saved[l]);
    values_alloc(&d);
    for (long step = 0; step < n_steps || step == 0; step++) {
        loss = 0;
        for (long i = 0; i < n_seqs; i++) { /* each a part of the text from a random place on */
            uint64_t word = philox((uint32_t)i, (uint32_t)step, 0, 2, 0);
            double u = (double)(word >> 32) * 0x1p-32 + (double)((uint32_t)word >> 11) * 0x1p-53;
            long first = n_steps ? (long)(u * (double)(n_ids - T)) : 0;
            loss += loss_and_gradients(id + first, n_seqs * T);
        }
        printf("%.7f\n", loss / (double)(n_seqs * T));
        if (n_steps)
            adamw(step + 1, learning_rate(lr, step, n_steps));
    }
    if (output)
        write_tensors(output, n_steps == 0);
    free(text), free(id);
    return 0;
}
