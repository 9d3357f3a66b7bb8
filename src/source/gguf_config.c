/* source/gguf_config.c: the settings of a GGUF file as our config. Architectures are rows of a table; what a file may have or
 * not (biases, norms of q and k, a head) is seen from its tensors, as llama.cpp does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/math64.h"
#include "source/gguf_model.h"

enum {
    PAIRS       = 1,   /* rotates neighbouring dimensions                                        */
    EMBED_SQRT  = 2,   /* the embedding is scaled by sqrt(d_model)                               */
    RENORMALIZE = 4,   /* the chosen experts' probabilities                                      */
    SHARED_GATE = 8,   /* the shared expert's output is times a sigmoid                          */
    LEARNED     = 16,  /* positions                                                              */
    PARALLEL    = 32,  /* attention and feed-forward side by side where the file says nothing    */
    LAST_SCALE  = 64,  /* big variants divide scores by sqrt(d_model / heads)                    */
    DIVIDE      = 128, /* logit_scale divides                                                    */
};

/* What is left out is as Llama has it: RMSNorm before each sublayer, SwiGLU, norms of q and k (if any) of each head. */
struct GgufArch {
    const char   *name, *family, *moe_family;  /* moe_family: of files with experts; NULL: the same            */
    Norm          norm;
    bool          norm_bias;
    NormPlacement place, parallel;             /* parallel: of files whose sublayers stand side by side        */
    FfnKind       ffn;
    QkNorm        qk_norm;                     /* of files that have these norms                               */
    unsigned      flags;
    int           full_every;                  /* of so many layers the last is without the window             */
    int           big_layers;                  /* LAST_SCALE: the layers of the big variant                    */
};

static const GgufArch archs[] = {
    { .name = "llama",     .family = "llama", .moe_family = "mixtral", .flags = PAIRS | RENORMALIZE },
    { .name = "qwen2",     .family = "qwen2" },
    { .name = "qwen3",     .family = "qwen3" },
    { .name = "qwen2moe",  .family = "qwen2_moe", .flags = SHARED_GATE },
    { .name = "qwen3moe",  .family = "qwen3_moe", .flags = RENORMALIZE },
    { .name = "phi3",      .family = "phi3" },
    { .name = "gemma",     .family = "gemma", .ffn = FFN_GEGLU, .flags = EMBED_SQRT },
    { .name = "gemma2",    .family = "gemma2", .place = PLACE_BOTH, .parallel = PLACE_BOTH, .ffn = FFN_GEGLU,
      .flags = EMBED_SQRT | LAST_SCALE, .full_every = 2, .big_layers = 46 },
    { .name = "gemma3",    .family = "gemma3_text", .place = PLACE_BOTH, .parallel = PLACE_BOTH, .ffn = FFN_GEGLU,
      .flags = EMBED_SQRT | LAST_SCALE, .full_every = 6, .big_layers = 62 },
    { .name = "olmo2",     .family = "olmo2", .place = PLACE_OUTPUT, .parallel = PLACE_OUTPUT, .qk_norm = QK_VECTOR, .full_every = 4 },
    { .name = "granite",   .family = "granite", .flags = PAIRS | DIVIDE },
    { .name = "command-r", .family = "cohere", .norm = NORM_LAYER, .place = PLACE_PARALLEL, .parallel = PLACE_PARALLEL,
      .qk_norm = QK_HEADS, .flags = PAIRS },
    { .name = "stablelm",  .family = "stablelm", .norm = NORM_LAYER, .norm_bias = true, .parallel = PLACE_PARALLEL, .qk_norm = QK_HEADS },
    { .name = "gpt2",      .family = "gpt2", .norm = NORM_LAYER, .norm_bias = true, .ffn = FFN_GELU_TANH, .flags = LEARNED },
    { .name = "gptneox",   .family = "gpt_neox", .norm = NORM_LAYER, .norm_bias = true, .parallel = PLACE_PARALLEL2, .ffn = FFN_GELU,
      .flags = PARALLEL },
};
enum { N_ARCHS = sizeof archs / sizeof archs[0], KEY_MAX = 96, SIZE_MAX_KEY = 1 << 24 };

bool gguf_arch_pairs(const GgufArch *a) { return a->flags & PAIRS; }

const GgufArch *gguf_arch(const GgufFile *f, Error *err)
{
    GgufString name;
    char       known[256] = "";
    if (!gguf_read_string(f->meta, "general.architecture", &name, err))
        return NULL;
    for (int i = 0; i < N_ARCHS; i++) {
        if (gguf_string_is(name, archs[i].name))
            return &archs[i];
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", archs[i].name);
    }
    fail(err, INPUT, "%s: key general.architecture: expected one of %s, found '%.*s'", f->meta->path, known,
         (int)(name.n < 40 ? name.n : 40), name.bytes);
    return NULL;
}

/* ---- Keys ---- */

typedef struct Reader {
    const GgufArch *arch;
    const GgufFile *f;
    Config         *c;
    Source         *source; /* for what the user should know */
    Error          *err;
} Reader;

/* "llama.context_length" */
static const char *full_key(const Reader *r, const char *key, char *buf)
{
    snprintf(buf, KEY_MAX, "%s.%s", r->arch->name, key);
    return buf;
}

static bool has(const Reader *r, const char *key)
{
    char full[KEY_MAX];
    return gguf_find(r->f->meta, full_key(r, key, full)) != NULL;
}

/* A size that must be there. */
static bool size(const Reader *r, const char *key, int *out)
{
    char    full[KEY_MAX];
    int64_t v;
    if (!gguf_read_int(r->f->meta, full_key(r, key, full), 1, SIZE_MAX_KEY, &v, r->err))
        return false;
    *out = (int)v;
    return true;
}

/* The readers below leave *out as it is where the file has no such key. */
static bool maybe_size(const Reader *r, const char *key, int *out)
{
    char    full[KEY_MAX];
    int64_t v;
    if (!has(r, key))
        return true;
    if (!gguf_read_int(r->f->meta, full_key(r, key, full), 0, SIZE_MAX_KEY, &v, r->err))
        return false;
    *out = (int)v;
    return true;
}

static bool maybe_number(const Reader *r, const char *key, double *out)
{
    char full[KEY_MAX];
    return !has(r, key) || gguf_read_number(r->f->meta, full_key(r, key, full), out, r->err);
}

static bool maybe_flag(const Reader *r, const char *key, bool *out)
{
    char full[KEY_MAX];
    return !has(r, key) || gguf_read_bool(r->f->meta, full_key(r, key, full), out, r->err);
}

/* A setting of any type as a number: true is 1; of an array the largest magnitude. */
static bool any_number(const Reader *r, const char *full, double *out)
{
    const GgufEntry *e = gguf_find(r->f->meta, full);
    int64_t          whole;
    int32_t         *list;
    size_t           n;
    bool             flag;
    if (e->type == GGUF_BOOL) {
        bool ok = gguf_read_bool(r->f->meta, full, &flag, r->err);
        *out    = flag;
        return ok;
    }
    if (e->type == GGUF_F32 || e->type == GGUF_F64)
        return gguf_read_number(r->f->meta, full, out, r->err);
    if (e->type != GGUF_ARRAY) {
        bool ok = gguf_read_int(r->f->meta, full, INT64_MIN, INT64_MAX, &whole, r->err);
        *out    = ok ? (double)whole : 0;
        return ok;
    }
    if (!gguf_read_ints(r->f->meta, full, &list, &n, r->err))
        return false;
    *out = 0;
    for (size_t i = 0; i < n; i++)
        *out = fabs((double)list[i]) > *out ? fabs((double)list[i]) : *out;
    free(list);
    return true;
}

/* Settings that change what is computed and that nothing here computes: with these values they ask for nothing. Keys that are not
 * here say what the tensors say, or nothing about the result; llama.cpp skips those that it does not know as well. */
static bool nothing_unknown(const Reader *r)
{
    static const struct Unknown { const char *key; double harmless[2]; } unknown[] = {
        { "attention.max_alibi_bias", { 0, 0 } },      { "attention.clamp_kqv", { 0, 0 } },
        { "attention.causal", { 1, 1 } },              { "attention.temperature_scale", { 0, 0 } },
        { "attention.temperature_length", { 0, 0 } },  { "attention.output_scale", { 0, 1 } },
        { "attention.value_scale", { 0, 1 } },         { "attention.shared_kv_layers", { 0, 0 } },
        { "attention.q_lora_rank", { 0, 0 } },         { "attention.kv_lora_rank", { 0, 0 } },
        { "expert_weights_scale", { 0, 1 } },          { "expert_gating_func", { 0, 1 } },
        { "expert_group_count", { 0, 1 } },            { "leading_dense_block_count", { 0, 0 } },
        { "interleave_moe_layer_step", { 0, 1 } },     { "moe_every_n_layers", { 0, 1 } },
        { "no_rope_layer_step", { 0, 0 } },            { "rope.scaling.alpha", { 0, 1 } },
        { "rope.scaling.yarn_log_multiplier", { 0, 0 } }, { "rope.scaling.yarn_ext_factor", { -1, 1 } },
        { "rope.scaling.yarn_attn_factor", { -1, 1 } }, { "swin_norm", { 0, 0 } },
    };
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        char   full[KEY_MAX];
        double x;
        if (!has(r, unknown[i].key))
            continue;
        if (!any_number(r, full_key(r, unknown[i].key, full), &x))
            return false;
        if (x != unknown[i].harmless[0] && x != unknown[i].harmless[1])
            return fail(r->err, INPUT, "%s: key %s: expected %g, found %g: it would change the result, and is not supported",
                        r->f->meta->path, full, unknown[i].harmless[1], x);
    }
    return true;
}

/* A size that the file has for each layer; it must be the same for all. */
static bool layer_size(const Reader *r, const char *key, int *out)
{
    char             full[KEY_MAX];
    const GgufEntry *e = gguf_find(r->f->meta, full_key(r, key, full));
    if (!e || e->type != GGUF_ARRAY)
        return maybe_size(r, key, out);
    int32_t *v;
    size_t   n;
    if (!gguf_read_ints(r->f->meta, full, &v, &n, r->err))
        return false;
    bool same = n > 0;
    for (size_t i = 1; same && i < n; i++)
        same = v[i] == v[0];
    if (same)
        *out = v[0];
    free(v);
    return same ? true : fail(r->err, INPUT, "%s: key %s: expected the same number for all layers, found others", r->f->meta->path, full);
}

static const Tensor *first_layer_tensor(const Reader *r, const char *name)
{
    char full[KEY_MAX];
    snprintf(full, sizeof full, "blk.0.%s", name);
    return gguf_tensor(r->f, full);
}

/* ---- Parts of the config ---- */

static bool read_sizes(const Reader *r)
{
    Config       *c = r->c;
    const Tensor *embed = gguf_tensor(r->f, "token_embd.weight");
    if (!size(r, "embedding_length", &c->d_model) || !size(r, "block_count", &c->n_layers) || !size(r, "context_length", &c->n_ctx)
        || !layer_size(r, "attention.head_count", &c->heads))
        return false;
    if (c->heads < 1)
        return size(r, "attention.head_count", &c->heads); /* its message */
    if (c->d_model % c->heads != 0 && !has(r, "attention.key_length"))
        return fail(r->err, INPUT, "%s: key %s.embedding_length: expected a multiple of head_count %d, found %d", r->f->meta->path,
                    r->arch->name, c->heads, c->d_model);
    c->kv_heads = c->heads;
    c->head_dim = c->d_model / c->heads;
    if (!layer_size(r, "attention.head_count_kv", &c->kv_heads) || !layer_size(r, "feed_forward_length", &c->d_ff)
        || !maybe_size(r, "attention.key_length", &c->head_dim))
        return false;
    int v_dim = c->head_dim;
    if (!maybe_size(r, "attention.value_length", &v_dim))
        return false;
    if (v_dim != c->head_dim)
        return fail(r->err, INPUT, "%s: key %s.attention.value_length: expected key_length %d, found %d", r->f->meta->path,
                    r->arch->name, c->head_dim, v_dim);
    if (!embed || embed->rank != 2 || embed->shape[0] > SIZE_MAX_KEY)
        return fail(r->err, INPUT, "%s: tensor token_embd.weight: expected a matrix, found %s", r->f->meta->path,
                    embed ? "another shape" : "no such tensor");
    c->vocab_size = (int)embed->shape[0];
    return true;
}

static bool read_norms(const Reader *r)
{
    Config *c = r->c;
    bool    parallel = r->arch->flags & PARALLEL;
    c->norm      = r->arch->norm;
    c->norm_bias = r->arch->norm_bias;
    if (!maybe_flag(r, "use_parallel_residual", &parallel))
        return false;
    /* stablelm says it by having no second norm */
    if (r->arch->parallel == PLACE_PARALLEL && r->arch->place == PLACE_PRE && !first_layer_tensor(r, "ffn_norm.weight"))
        parallel = true;
    c->norm_placement = parallel ? r->arch->parallel : r->arch->place;
    const char *key = c->norm == NORM_RMS ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
    char        full[KEY_MAX];
    return gguf_read_number(r->f->meta, full_key(r, key, full), &c->norm_eps, r->err);
}

static void see_tensors(const Reader *r)
{
    Config *c = r->c;
    c->tied_embeddings = !gguf_tensor(r->f, "output.weight");
    c->qkv_bias = first_layer_tensor(r, "attn_q.bias") || first_layer_tensor(r, "attn_qkv.bias");
    c->out_bias = first_layer_tensor(r, "attn_output.bias") != NULL;
    c->ffn_bias = first_layer_tensor(r, "ffn_up.bias") != NULL;
    if (first_layer_tensor(r, "attn_q_norm.weight"))
        c->qk_norm = r->arch->qk_norm ? r->arch->qk_norm : QK_HEAD;
}

/* The layers without a window from a list of flags, true where there is one. */
static bool listed_windows(const Reader *r)
{
    Config  *c = r->c;
    char     full[KEY_MAX];
    int32_t *list;
    size_t   n;
    if (!gguf_read_ints(r->f->meta, full_key(r, "attention.sliding_window_pattern", full), &list, &n, r->err))
        return false;
    bool ok = n >= (size_t)c->n_layers || fail(r->err, INPUT, "%s: key %s: expected %d items, one for each layer, found %zu",
                                               r->f->meta->path, full, c->n_layers, n);
    for (int l = 0; ok && c->window && l < c->n_layers && l < MAX_LAYERS; l++)
        if (!list[l])
            layers_add(&c->full_layers, l);
    free(list);
    return ok;
}

static bool read_window(const Reader *r)
{
    Config          *c     = r->c;
    int              every = r->arch->full_every, n_full = 0;
    char             full[KEY_MAX];
    const GgufEntry *pattern = gguf_find(r->f->meta, full_key(r, "attention.sliding_window_pattern", full));
    bool             listed  = pattern && pattern->type == GGUF_ARRAY;
    if (!maybe_size(r, "attention.sliding_window", &c->window)
        || !(listed ? listed_windows(r) : maybe_size(r, "attention.sliding_window_pattern", &every)))
        return false;
    for (int l = 0; !listed && c->window && every > 0 && l < c->n_layers && l < MAX_LAYERS; l++)
        if ((l + 1) % every == 0)
            layers_add(&c->full_layers, l);
    for (int l = 0; l < c->n_layers && l < MAX_LAYERS; l++)
        n_full += layers_has(&c->full_layers, l);
    if (c->window >= c->n_ctx || n_full == c->n_layers) { /* it would hide nothing */
        c->window      = 0;
        c->full_layers = (Layers){ 0 };
    }
    return true;
}

static bool read_scales(const Reader *r)
{
    Config  *c     = r->c;
    unsigned flags = r->arch->flags;
    if (flags & EMBED_SQRT)
        c->embed_scale = sqrt((double)c->d_model);
    if (flags & LAST_SCALE && c->n_layers == r->arch->big_layers)
        c->attn_scale = 1 / sqrt((double)c->d_model / c->heads);
    if (!maybe_number(r, "embedding_scale", &c->embed_scale) || !maybe_number(r, "residual_scale", &c->residual_scale)
        || !maybe_number(r, "attention.scale", &c->attn_scale) || !maybe_number(r, "logit_scale", &c->logit_scale)
        || !maybe_number(r, "attn_logit_softcapping", &c->attn_softcap)
        || !maybe_number(r, "final_logit_softcapping", &c->logit_softcap))
        return false;
    if (flags & DIVIDE && c->logit_scale != 0)
        c->logit_scale = 1 / c->logit_scale;
    return true;
}

static bool read_experts(const Reader *r)
{
    Config *c = r->c;
    if (!maybe_size(r, "expert_count", &c->n_experts))
        return false;
    if (c->n_experts == 0)
        return true;
    c->expert_d_ff = c->d_ff;
    if (!size(r, "expert_used_count", &c->experts_used) || !maybe_size(r, "expert_feed_forward_length", &c->expert_d_ff)
        || !maybe_size(r, "expert_shared_feed_forward_length", &c->shared_d_ff))
        return false;
    const Tensor *shared = first_layer_tensor(r, "ffn_gate_shexp.weight");
    if (shared && c->shared_d_ff == 0 && shared->rank == 2 && shared->shape[0] <= SIZE_MAX_KEY)
        c->shared_d_ff = (int)shared->shape[0];
    c->renormalize   = r->arch->flags & RENORMALIZE;
    if (!maybe_flag(r, "expert_weights_norm", &c->renormalize))
        return false;
    c->shared_router = r->arch->flags & SHARED_GATE && c->shared_d_ff > 0;
    if (c->d_ff == 0)
        c->d_ff = c->expert_d_ff;
    return true;
}

static bool read_yarn(const Reader *r)
{
    Rope *rope = &r->c->rope;
    rope->original_n_ctx = r->c->n_ctx;
    double n = rope->original_n_ctx, attn = -1;
    if (!maybe_number(r, "rope.scaling.attn_factor", &attn) || !maybe_number(r, "rope.scaling.yarn_beta_fast", &rope->beta_fast)
        || !maybe_number(r, "rope.scaling.yarn_beta_slow", &rope->beta_slow))
        return false;
    int original = (int)n;
    if (!maybe_size(r, "rope.scaling.original_context_length", &original))
        return false;
    rope->original_n_ctx = original;
    if (attn > 0 && attn != 1) /* there it is times what the factor gives */
        rope->attention_factor = attn * (0.1 * math64_log(rope->factor) + 1);
    return true;
}

static bool read_rope(const Reader *r)
{
    Config    *c = r->c;
    Rope      *rope = &c->rope;
    char       full[KEY_MAX];
    GgufString type = { "linear", 6 };  /* what llama.cpp takes it for where only a factor is said */
    c->rotary_dim = c->head_dim;
    if (!maybe_number(r, "rope.freq_base", &c->theta) || !maybe_size(r, "rope.dimension_count", &c->rotary_dim))
        return false;
    if (has(r, "rope.scaling.type") && !gguf_read_string(r->f->meta, full_key(r, "rope.scaling.type", full), &type, r->err))
        return false;
    if (gguf_tensor(r->f, "rope_freqs.weight"))
        rope->type = ROPE_FACTORS;
    if (gguf_tensor(r->f, "rope_factors_long.weight") || gguf_tensor(r->f, "rope_factors_short.weight")
        || gguf_string_is(type, "longrope"))
        return fail(r->err, INPUT, "%s: rope type longrope is not supported", r->f->meta->path);
    if (gguf_string_is(type, "none"))
        return true;
    bool linear = gguf_string_is(type, "linear");
    if (!linear && !gguf_string_is(type, "yarn"))
        return fail(r->err, INPUT, "%s: key %s: expected none, linear or yarn, found '%.*s'", r->f->meta->path, full,
                    (int)(type.n < 40 ? type.n : 40), type.bytes);
    double factor = 0;
    if (!maybe_number(r, has(r, "rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear", &factor)) /* the older name */
        return false;
    if (factor == 0 || factor == 1) /* 0: none */
        return true;
    if (rope->type == ROPE_FACTORS)
        return fail(r->err, INPUT, "%s: key %s: expected 1 beside tensor rope_freqs.weight, found %g", r->f->meta->path,
                    full_key(r, "rope.scaling.factor", full), factor);
    rope->factor = factor;
    if (c->window && strcmp(r->arch->name, "olmo2") == 0)
        return fail(r->err, INPUT, "%s: key %s: expected 1 in a model with windows, found %g", r->f->meta->path,
                    full_key(r, "rope.scaling.factor", full), factor);
    rope->type = linear ? ROPE_LINEAR : ROPE_YARN;
    return linear || read_yarn(r);
}

/* Gemma 3: layers with a window rotate by a base of their own, not scaled. */
static bool read_window_theta(const Reader *r)
{
    Config *c = r->c;
    if (strcmp(r->arch->name, "gemma3") != 0 || c->window == 0)
        return true;
    c->theta_window = 10000;
    return maybe_number(r, "rope.freq_base_swa", &c->theta_window);
}

/* An id of the vocabulary; -1 where there is no such key, or an id (such as -1) that no token has and that never occurs. */
static bool read_id(const Reader *r, const char *key, int *out)
{
    int64_t id;
    *out = -1;
    if (!gguf_find(r->f->meta, key))
        return true;
    if (!gguf_read_int(r->f->meta, key, INT64_MIN, INT64_MAX, &id, r->err))
        return false;
    if (id >= 0 && id < r->c->vocab_size)
        *out = (int)id;
    else if (id != -1 && id != UINT32_MAX)
        return source_warn(r->source, r->err, "%s: key %s: %lld is outside of the vocabulary of %d: left out", r->f->meta->path, key,
                           (long long)id, r->c->vocab_size);
    return true;
}

static bool read_ids(const Reader *r)
{
    static const char *const ends[] = { "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id" };
    Config *c = r->c;
    if (!read_id(r, "tokenizer.ggml.bos_token_id", &c->bos))
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        int  id;
        bool known = false;
        if (!read_id(r, ends[i], &id))
            return false;
        for (int j = 0; j < c->n_eos; j++)
            known |= c->eos[j] == id;
        if (id >= 0 && !known)
            c->eos[c->n_eos++] = id;
    }
    return true;
}

bool gguf_config(Source *s, const GgufArch *a, Error *err)
{
    Config     *out  = &s->checkpoint.config;
    const char *path = s->path;
    Reader      r    = { a, &s->gguf, out, s, err };
    config_defaults(out);
    out->ffn       = a->ffn;
    out->positions = a->flags & LEARNED ? POS_LEARNED : POS_ROPE;
    if (!read_sizes(&r) || !read_norms(&r) || !read_window(&r) || !read_scales(&r) || !read_experts(&r) || !read_rope(&r)
        || !read_window_theta(&r) || !read_ids(&r) || !nothing_unknown(&r))
        return false;
    see_tensors(&r);
    snprintf(out->family, sizeof out->family, "%s", out->n_experts && a->moe_family ? a->moe_family : a->family);
    return config_check(out, path, err) && config_supported(out, path, err);
}
