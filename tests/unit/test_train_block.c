/* The block of src/train/ against torch: outputs, probabilities and all gradients of the
 * fixtures. */
#include <math.h>

#include "base/json.h"
#include "format/tensors.h"
#include "openblas.h"
#include "test.h"
#include "test_data.h"
#include "train/block.h"

static const char *const cases[] = {
    "post-layernorm-gelu-mha", "post-layernorm-gelu-tanh-gqa",
    "post-layernorm-relu-gqa",        "post-layernorm-swiglu-mha",
    "post-rmsnorm-gelu-tanh-gqa",     "post-rmsnorm-relu-mha",
    "post-rmsnorm-swiglu-gqa",        "pre-layernorm-gelu-mha",
    "pre-layernorm-relu-gqa",         "pre-layernorm-relu-mha-noncausal0",
    "pre-layernorm-relu-mha",         "pre-layernorm-swiglu-mha",
    "pre-rmsnorm-gelu-tanh-gqa",      "pre-rmsnorm-relu-gqa",
    "pre-rmsnorm-swiglu-gqa",         "pre-rmsnorm-swiglu-mha",
    "pre-rmsnorm-swiglu-mqa-window3",
};
enum { N_CASES = sizeof cases / sizeof cases[0], N_NAMES = 16 };
static const char *const names[N_NAMES] = { "wq", "wk", "wv", "wo",
                                            "bq",     "bk",     "bv",           "bo",
                                            "w_gate", "w_up",   "w_down",       "b_gate",
                                            "b_up",   "b_down", "norm1_weight", "norm2_weight" };
static const char *const norm_biases[2] = { "norm1_bias", "norm2_bias" };

typedef struct Case {
    TensorFile   file;
    BlockShape   shape;
    int          n_seqs, seq_len;
    double       theta;
    BlockWeights w, d;
    float       *grads[N_NAMES + 2], *memory;
} Case;

static const Tensor *find(const Case *c, const char *prefix, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return tensor_find(&c->file, full);
}

static void places(BlockWeights *w, float **out[N_NAMES + 2])
{
    float **all[N_NAMES + 2] = { &w->wq.w, &w->wk.w, &w->wv.w, &w->wo.w,
                                 &w->wq.b,        &w->wk.b,      &w->wv.b,        &w->wo.b,
                                 &w->w_gate.w,    &w->w_up.w,    &w->w_down.w,    &w->w_gate.b,
                                 &w->w_up.b,      &w->w_down.b,  &w->attn_norm.w, &w->ffn_norm.w,
                                 &w->attn_norm.b, &w->ffn_norm.b };
    memcpy(out, all, sizeof all);
}

static const char *name_of(int i) { return i < N_NAMES ? names[i] : norm_biases[i - N_NAMES]; }

static double number(const Json *j, const char *key)
{
    double x = 0;
    json_read_double(json_get(j, key), key, -1e9, 1e9, &x, NULL);
    return x;
}

static bool says(const Json *j, const char *key, const char *word)
{
    const char *text = "";
    json_read_string(json_get(j, key), key, &text, NULL);
    return strcmp(text, word) == 0;
}

static void read_shape(Case *c, const Json *j)
{
    bool causal = true, first = true;
    json_read_bool(json_get(j, "causal"), "causal", &causal, NULL);
    json_read_bool(json_get(j, "norm_first"), "norm_first", &first, NULL);
    c->n_seqs = (int)number(j, "batch");
    c->seq_len = (int)number(j, "length");
    c->theta = number(j, "rope_theta");
    c->shape = (BlockShape){ .d_model = (int)number(j, "d_model"),
                             .heads = (int)number(j, "n_heads"),
                             .kv_heads = (int)number(j, "n_kv_heads"),
                             .head_dim = (int)number(j, "head_dim"),
                             .d_ff = (int)number(j, "d_ff"),
                             .window = (int)number(j, "window"),
                             .causal = causal,
                             .norm = says(j, "norm", "layernorm") ? NORM_LAYER : NORM_RMS,
                             .place = first ? PLACE_PRE : PLACE_POST,
                             .eps = (float)number(j, "eps"),
                             .residual_scale = 1,
                             .ffn = says(j, "ffn", "swiglu") ? FFN_SWIGLU
                                 : says(j, "ffn", "relu")    ? FFN_RELU
                                 : says(j, "gelu", "tanh")   ? FFN_GELU_TANH
                                                             : FFN_GELU };
    c->shape.attn_scale = (float)(1 / sqrt((double)c->shape.head_dim));
}

static bool open_case(Case *c, const char *name)
{
    char        path[512], *text;
    size_t      n;
    Error       err = { 0 };
    float     **w[N_NAMES + 2], **d[N_NAMES + 2];
    char recorded[128];
    snprintf(recorded, sizeof recorded, "fixtures/blocks/%s.json", name);
    if (!test_data(path, recorded) || !file_read(path, 1 << 16, &text, &n, &err))
        return false;
    Json *j = json_parse(text, n, path, &err);
    read_shape(c, j);
    json_free(j);
    free(text);
    strcpy(strrchr(path, '.'), ".safetensors");
    CHECK(safetensors_open(&c->file, path, &err), "%s", err.msg);
    places(&c->w, w);
    places(&c->d, d);
    for (int i = 0; i < N_NAMES + 2; i++) {
        const Tensor *t = find(c, "", name_of(i));
        *w[i] = t ? (float *)t->data : NULL;
        *d[i] = c->grads[i] = t ? calloc(t->n_elements, sizeof(float)) : NULL;
    }
    return true;
}

static void close_case(Case *c)
{
    for (int i = 0; i < N_NAMES + 2; i++)
        free(c->grads[i]);
    free(c->memory);
    tensor_file_close(&c->file);
}

static double largest_difference(const float *x, const Tensor *t)
{
    double most = 0;
    for (size_t i = 0; t && i < t->n_elements; i++)
        most = fmax(most, fabs((double)x[i] - (double)((const float *)t->data)[i]));
    return t ? most : INFINITY;
}

static void check_case(Case *c, const char *name, int threads)
{
    int         n_tok = c->n_seqs * c->seq_len;
    size_t      size = (size_t)n_tok * (size_t)c->shape.d_model;
    Crew        crew = { 0 };
    RopeAngles  rope = { 0 };
    BlockActs   acts;
    BlockWork   work;
    Carver      carver = { 0 };
    double      inv_freq[64];
    Error       err = { 0 };
    float      *out = NULL, *d_x = NULL, *probs = NULL;
    for (int pass = 0; pass < 2; pass++) {
        block_acts_carve(&acts, &carver, &c->shape, n_tok);
        block_work_carve(&work, &carver, &c->shape, n_tok);
        out   = carve(&carver, 1, size);
        d_x   = carve(&carver, 1, size);
        probs = carve(&carver, (size_t)(n_tok * c->shape.heads), (size_t)c->seq_len);
        if (pass == 0)
            carver = (Carver){ .base = c->memory = aligned_alloc(64, carver.at * sizeof(float)) };
    }
    acts.probs = probs;
    for (int i = 0; i < c->shape.head_dim / 2; i++)
        inv_freq[i] = 1 / pow(c->theta, 2.0 * i / c->shape.head_dim);
    if (!crew_open(&crew, threads, &err)
        || !train_ops_reserve(&crew, n_tok, c->seq_len, block_width(&c->shape), &err)
        || (c->theta > 0
            && !rope_angles_make(&rope, c->seq_len, c->shape.head_dim, inv_freq, 1, &err))) {
        CHECK(false, "%s", err.msg);
        crew_close(&crew);
        return;
    }
    BlockCall call = { .crew = &crew,
                       .shape = &c->shape,
                       .w = &c->w,
                       .rope = &rope,
                       .work = &work,
                       .n_seqs = c->n_seqs,
                       .seq_len = c->seq_len };
    memcpy(acts.x, tensor_find(&c->file, "x")->data, size * sizeof *out);
    memcpy(d_x, tensor_find(&c->file, "dy")->data, size * sizeof *out);
    block_forward(&call, &acts, out);
    double y = largest_difference(out, tensor_find(&c->file, "y")),
           p = largest_difference(probs, tensor_find(&c->file, "attn"));
    block_backward(&call, &acts, &c->d, d_x);
    double dx = largest_difference(d_x, tensor_find(&c->file, "dx"));
    CHECK(y <= 1e-5 && p <= 1e-5 && dx <= 1e-4, "%s: y differs by %g, attn by %g, dx by %g", name,
          y, p, dx);
    for (int i = 0; i < N_NAMES + 2; i++)
        if (c->grads[i]) {
            double d = largest_difference(c->grads[i], find(c, "grad.", name_of(i)));
            CHECK(d <= 1e-4, "%s: grad.%s differs by %g", name, name_of(i), d);
        }
    rope_angles_free(&rope);
    crew_close(&crew);
}

static void blocks_and_gradients_are_torchs(void)
{
    int n_opened = 0;
    for (int i = 0; i < N_CASES; i++) {
        Case c = { 0 };
        if (open_case(&c, cases[i])) {
            check_case(&c, cases[i], 1 + i % 3);
            n_opened++;
        }
        close_case(&c);
    }
    CHECK(n_opened >= 5, "%d blocks", n_opened); /* ours are five */
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST_TRAINING(blocks_and_gradients_are_torchs);
    return TEST_END();
}
