/* Training's forward pass against inference's: the same logits, for every part of a config that
 * both run. */
#include <math.h>

#include "api/api.h"
#include "openblas.h"
#include "source/source.h"
#include "tblock.h"
#include "temp_folder.h"
#include "test.h"
#include "train/net.h"

enum { SEQS = 2, LEN = 50, N_TOK = SEQS * LEN, VOCAB = 97 };

#define BASE "\"d_model\": 48, \"n_layers\": 3, \"heads\": 6, \"d_ff\": 80, \"vocab_size\": 97"
#define GPT  \
    "\"norm\": \"layer\", \"norm_bias\": true, \"qkv_bias\": true, \"out_bias\": true, "           \
    "\"ffn_bias\": true"
#define SCALES "\"kv_heads\": 3, \"tied_embeddings\": true, "
#define LLAMA3(factor) \
    "\"kv_heads\": 2, \"head_dim\": 16, \"rope\": {\"type\": \"llama3\", \"factor\": " factor \
    ", \"low_freq_factor\": 1, \"high_freq_factor\": 4, \"original_n_ctx\": 128}"
#define YARN(more)     \
    "\"kv_heads\": 2, \"head_dim\": 16, \"rope\": {\"type\": \"yarn\", \"factor\": 4, "            \
    "\"original_n_ctx\": 64" more "}"
#define LATE(kind) \
    "\"kv_heads\": 2, \"qk_norm\": \"" kind "\", \"qk_norm_after_rope\": true"
#define GEMMA(more) \
    "\"kv_heads\": 1, \"head_dim\": 10, \"tied_embeddings\": true, \"ffn\": \"geglu\", " \
    "\"embed_scale\": 6.928, \"norm_eps\": 0.01, \"window\": 12" more

/* What a model has beside BASE, and what it could be mistaken for, with the same tensors or fewer:
 * training another model than inference runs must show. */
static const struct Row { const char *has, *instead;
} rows[] = {
    { "\"kv_heads\": 2", "\"kv_heads\": 2, \"theta\": 20000" },
    { "\"norm_eps\": 0.01, \"tied_embeddings\": true",
      "\"norm_eps\": 0.011, \"tied_embeddings\": true" },
    /* multipliers */
    { SCALES "\"embed_scale\": 5.5", SCALES "\"embed_scale\": 5.6" },
    { SCALES "\"residual_scale\": 0.3", SCALES "\"residual_scale\": 0.31" },
    { SCALES "\"logit_scale\": 0.125", SCALES "\"logit_scale\": 0.13" },
    { SCALES "\"attn_scale\": 0.2", SCALES "\"attn_scale\": 0.21" },
    { "\"embed_scale\": 12, \"residual_scale\": 0.22, \"logit_scale\": 0.25, \"attn_scale\": "
      "0.0625",
      "\"attn_scale\": 0.0625" },
    /* norms: where, and of what */
    { "\"norm_placement\": \"both\"", "\"norm_placement\": \"pre\"" },
    { "\"norm_placement\": \"both\", \"residual_scale\": 0.5, " GPT,
      "\"norm_placement\": \"both\", " GPT },
    { "\"norm_placement\": \"output\", \"qk_norm\": \"vector\"", "\"norm_placement\": \"output\"" },
    { "\"norm_placement\": \"output\", " GPT, "\"norm_placement\": \"output\"" },
    { "\"kv_heads\": 2, \"qk_norm\": \"head\"", "\"kv_heads\": 2" },
    { "\"kv_heads\": 2, \"qk_norm\": \"head\", \"norm\": \"layer\"",
      "\"kv_heads\": 2, \"qk_norm\": \"head\"" },
    /* positions and windows */
    { "\"kv_heads\": 1, \"rope\": {\"type\": \"linear\", \"factor\": 2}", "\"kv_heads\": 1" },
    { LLAMA3("8"), LLAMA3("9") },
    { YARN(""), YARN(", \"attention_factor\": 1.1") },
    { YARN(", \"truncate\": false, \"beta_fast\": 4"), YARN(", \"truncate\": false") },
    { YARN(", \"mscale\": 1.5, \"mscale_all_dim\": 0.5"), YARN("") },
    { "\"head_dim\": 12, \"rotary_dim\": 4", "\"head_dim\": 12, \"rotary_dim\": 6" },
    { "\"window\": 20", "\"window\": 21" },
    { "\"window\": 20, \"full_layers\": [1]", "\"window\": 20, \"full_layers\": [2]" },
    { GEMMA(", \"full_layers\": [2], \"theta_window\": 100"), GEMMA(", \"full_layers\": [2]") },
    { GEMMA(", \"full_layers\": [0], \"theta_window\": 100, \"qk_norm\": \"head\", "
            "\"norm_placement\": \"both\""),
      GEMMA(", \"full_layers\": [0], \"theta_window\": 120, \"qk_norm\": \"head\", "
            "\"norm_placement\": \"both\"") },
    { "\"window\": 9, \"full_layers\": [1], \"theta_window\": 300, \"rope\": {\"type\": "
      "\"linear\", \"factor\": 3}",
      "\"window\": 9, \"full_layers\": [1], \"rope\": {\"type\": \"linear\", \"factor\": 3}" },
    { LATE("head"), "\"kv_heads\": 2, \"qk_norm\": \"head\"" },
    { LATE("vector") ", \"no_rope_layers\": [1]", LATE("vector") },
    { "\"kv_heads\": 2, \"no_rope_layers\": [1]", "\"kv_heads\": 2" },
    { "\"window\": 9, \"full_layers\": [1], \"theta_window\": 300, \"no_rope_layers\": [0, 1]",
      "\"window\": 9, \"full_layers\": [1], \"theta_window\": 300, \"no_rope_layers\": [0]" },
    /* feed-forward and biases */
    { GPT ", \"ffn\": \"gelu\", \"tied_embeddings\": true",
      GPT ", \"ffn\": \"gelu_tanh\", \"tied_embeddings\": true" },
    { GPT ", \"ffn\": \"gelu_tanh\", \"rotary_dim\": 4",
      GPT ", \"ffn\": \"gelu\", \"rotary_dim\": 4" },
    { GPT ", \"ffn\": \"relu\"", GPT ", \"ffn\": \"gelu\"" },
    { "\"ffn\": \"relu2\"", "\"ffn\": \"relu\"" },
    { "\"ffn\": \"geglu\"", "\"ffn\": \"geglu_erf\"" },
    { "\"ffn\": \"geglu_erf\", \"qkv_bias\": true", "\"ffn\": \"geglu\", \"qkv_bias\": true" },
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static bool read_config(Config *c, const char *more, Error *err)
{
    char json[1024];
    int  n = snprintf(json, sizeof json, "{" BASE ", %s}", more);
    return config_parse(c, json, (size_t)n, more, err);
}

/* ---- The model file -------------------------------------------------------------------------- */

typedef struct Values { const Params *p; const float *w; } Values;

static void make_block(void *user, const WeightBlock *b)
{
    const Values *v = user;
    const float  *w = v->w + v->p->at[b->tensor];
    size_t        k = (size_t)b->spec->k;
    memcpy(k ? b->rows : b->to[0], w + (size_t)b->first * (k ? k : 1),
           (size_t)b->n * (k ? k : 1) * sizeof *w);
    if (k)
        retype_store(b->type, b->panels, b->to, b->rows, NULL, b->n, b->spec->k, false,
                     b->scratch, b->report);
}

static bool write_values(const char *path, const Params *p, const float *w, Error *err)
{
    WeightType type[128];
    for (int i = 0; i < p->n; i++)
        type[i] = WT_F32;
    ModelContents contents = { .config = &p->config, .types = type, .source = "[]" };
    Values        values = { p, w };
    return weight_stream_write(&(WeightStream){ .path = path,
                                                .contents = &contents,
                                                .threads = 1,
                                                .make = make_block,
                                                .user = &values },
                               err);
}

/* ---- Both passes ----------------------------------------------------------------------------- */

static void tokens(int32_t *token)
{
    for (int t = 0; t < N_TOK; t++)
        token[t] = (t * 7 + t * t + t / LEN) % VOCAB;
}

static bool infer(const char *path, float *logits, Error *err)
{
    int32_t         token[N_TOK];
    tblock_item     item[N_TOK];
    tblock_model   *m = tblock_open(path, NULL, err);
    tblock_context *c = m
        ? tblock_context_new(m, &(tblock_context_options){ .threads = 2, .n_seqs = SEQS }, err)
        : NULL;
    tokens(token);
    for (int t = 0; t < N_TOK; t++)
        item[t] =
            (tblock_item){ .seq = t / LEN, .pos = t % LEN, .token = token[t], .want_logits = true };
    bool ok = c && tblock_decode(c, item, N_TOK, err);
    for (int t = 0; ok && t < N_TOK; t++)
        memcpy(logits + t * VOCAB, tblock_logits(c, (size_t)t), VOCAB * sizeof *logits);
    tblock_context_free(c);
    tblock_close(m);
    return ok;
}

static bool train_logits(const Params *p, Crew *crew, const float *w, float *logits, Error *err)
{
    int32_t token[N_TOK];
    Net    *net = net_new(p, crew, SEQS, LEN, err);
    tokens(token);
    if (net)
        net_logits(net, w, token, SEQS, logits);
    net_free(net);
    return net != NULL;
}

/* The file's parameters as training reads them: the bits that were written. */
static bool load(const char *path, const Params *p, float *w, Error *err)
{
    Source source = { 0 };
    bool   ok = source_open(&source, path, err) && params_load(p, w, &source.stored, err);
    source_close(&source);
    return ok;
}

/* Largest difference, by the largest logit. */
static double apart(const float *a, const float *b)
{
    double most = 0, largest = 0;
    for (int i = 0; i < N_TOK * VOCAB; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        most    = d <= most ? most : d; /* NaN is the most */
        largest = fmax(largest, fabs((double)b[i]));
    }
    return most / largest;
}

/* Both passes are f32, with the same kernels for all but products of matrices and attention, where
 * sums have another order: each differs by some 2^-24 of the size of its terms, in 3 layers some
 * twenty times one after the other, the worst of 9,700 logits: 5e-6. What is closest to another
 * model, the two forms of GELU, makes a difference of 1.4e-4. */
static const double LIMIT = 5e-6, SHOWS = 1e-4;

static void compare_row(const struct Row *r, const char *path, Crew *crew)
{
    static float inference[N_TOK * VOCAB], training[N_TOK * VOCAB];
    Config c, instead;
    Params p = { 0 };
    Error  err = { 0 };
    bool   ok = read_config(&c, r->has, &err) && read_config(&instead, r->instead, &err)
        && train_supported(&c, r->has, &err) && params_layout(&p, &c, &err);
    float *w = ok ? params_array(&p, &err) : NULL, *read = w ? params_array(&p, &err) : NULL;
    if (read) {
        params_scatter(&p, w, 3);
        ok = write_values(path, &p, w, &err) && load(path, &p, read, &err)
            && infer(path, inference, &err) && train_logits(&p, crew, read, training, &err);
        CHECK(!ok || memcmp(w, read, p.n_floats * sizeof *w) == 0,
              "%s: other parameters than were written", r->has);
        CHECK(!ok || apart(training, inference) <= LIMIT, "%s: logits are %g apart", r->has,
              apart(training, inference));
        p.config = instead;
        ok = ok && train_logits(&p, crew, read, training, &err);
        CHECK(!ok || !(apart(training, inference) < SHOWS), "%s: of %s the logits are %g apart",
              r->has, r->instead, apart(training, inference));
    }
    CHECK(err.status == 0, "%s: %s", r->has, err.msg);
    free(w);
    free(read);
    params_free(&p);
    remove(path);
}

static void trainings_forward_pass_is_inferences(void)
{
    Crew  crew = { 0 };
    Error err = { 0 };
    CHECK(crew_open(&crew, 2, &err), "%s", err.msg);
    CHECK(make_folder(), "no folder");
    for (int i = 0; i < N_ROWS && err.status == 0; i++)
        compare_row(&rows[i], in_folder("model.bin"), &crew);
    remove(folder);
    crew_close(&crew);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST_TRAINING(trainings_forward_pass_is_inferences);
    return TEST_END();
}
