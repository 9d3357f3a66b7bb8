/* api/block_input.c: reads a case, a config or a model, applies options, and loads tensors. */
#include "api/block_report.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "model/config_keys.h"

enum {
    MAX_JSON = 1 << 20,
    MAX_TOKENS = 1 << 20,
    USUAL_BATCH = 2,
    USUAL_LENGTH = 16,
    USUAL_WIDTH = 64,
    USUAL_HEADS = 4,
    N_FFNS = FFN_RELU2 + 1 /* of ffn_words */
};

/* ---- Names ----------------------------------------------------------------------------------- */

const char *block_tensor_name(TensorRole role, bool bias)
{
    const char *name = tensor_row(role)->block[bias];
    return name ? name : "";
}

/* ---- Configs --------------------------------------------------------------------------------- */

/* Reduces a model's config to one of its layers. */
static bool one_layer(Config *c, const char *what, int layer, Error *err)
{
    if (layer < 0 || layer >= c->n_layers)
        return fail(err, USAGE, "layer: expected 0 to %d (n_layers of %s is %d), found %d",
                    c->n_layers - 1, what, c->n_layers, layer);
    c->window = config_window(c, layer);
    if (c->window && c->theta_window != 0) {
        c->theta = c->theta_window;
        c->rope.type = ROPE_DEFAULT;
    }
    if (!config_moe(c, layer))
        config_no_experts(c);
    if (!config_rotates(c, layer))
        c->positions = POS_LEARNED;
    const bool state = config_state(c, layer);
    c->full_layers  = c->dense_layers = c->no_rope_layers = c->state_layers = (Layers){ 0 };
    if (state)
        layers_add(&c->state_layers, 0); /* supported() rejects it */
    else
        config_no_states(c);
    c->theta_window = c->logit_softcap = 0;
    c->n_layers = c->vocab_size = c->n_ctx = 1;
    c->mtp_layers = 0;
    c->bos   = -1;
    c->n_eos = 0;
    return true;
}

/* Only q and k of a block use positions, by rotation. Learned positions are added before the
 * first block, so any block may have them. */
static bool supported(const Config *c, const char *what, Error *err)
{
    Config rotated = *c;
    rotated.positions = POS_ROPE;
    return train_supported(&rotated, what, err);
}

static void usual_block(Config *c)
{
    config_defaults(c);
    c->d_model  = USUAL_WIDTH;
    c->heads    = USUAL_HEADS;
    c->n_layers = c->vocab_size = c->n_ctx = 1;
}

/* ---- A case: the JSON of one block ----------------------------------------------------------- */

typedef struct CaseReader { const Json *json; const char *path; Error *err; bool ok; } CaseReader;

static const Json *case_key(CaseReader *r, const char *key, bool required, char *what, size_t n)
{
    const Json *j = r->ok ? json_get(r->json, key) : NULL;
    snprintf(what, n, "%s: %s", r->path, key);
    if (r->ok && required && (!j || json_is_null(j)))
        r->ok = fail(r->err, INPUT, "%s: expected a value, found no such key", what);
    return r->ok && j && !json_is_null(j) ? j : NULL;
}

static void case_int(CaseReader *r, const char *key, bool required, int min, int max, int *out)
{
    char        what[512];
    int64_t     value;
    const Json *j = case_key(r, key, required, what, sizeof what);
    if (j && (r->ok = json_read_int(j, what, min, max, &value, r->err)))
        *out = (int)value;
}

static void case_double(CaseReader *r, const char *key, double max, double *out)
{
    char        what[512];
    const Json *j = case_key(r, key, false, what, sizeof what);
    if (j)
        r->ok = json_read_double(j, what, 0, max, out, r->err);
}

static void case_bool(CaseReader *r, const char *key, bool required, bool *out)
{
    char        what[512];
    const Json *j = case_key(r, key, required, what, sizeof what);
    if (j)
        r->ok = json_read_bool(j, what, out, r->err);
}

/* Reads one of n words; expected lists them for the message. Returns its index, or `absent`. */
static int case_word(CaseReader *r, const char *key, bool required, const char *const *words, int n,
                     const char *expected, int absent)
{
    char        what[512];
    const char *word;
    const Json *j = case_key(r, key, required, what, sizeof what);
    if (!j || !(r->ok = json_read_string(j, what, &word, r->err)))
        return absent;
    for (int i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    r->ok = fail(r->err, INPUT, "%s: expected %s, found '%s'", what, expected, word);
    return absent;
}

static void case_ffn(CaseReader *r, Config *c)
{
    static const char *const forms[] = { "erf", "tanh" };
    int ffn  = case_word(r, "ffn", true, ffn_words, N_FFNS,
                         "swiglu, geglu, gelu, gelu_tanh, geglu_erf, relu or relu2", 0);
    int form = case_word(r, "gelu", false, forms, 2, "erf or tanh", -1);
    c->ffn = (FfnKind)ffn;
    if (form >= 0 && (c->ffn == FFN_GELU || c->ffn == FFN_GELU_TANH))
        c->ffn = form ? FFN_GELU_TANH : FFN_GELU;
    if (form >= 0 && (c->ffn == FFN_GEGLU || c->ffn == FFN_GEGLU_ERF))
        c->ffn = form ? FFN_GEGLU : FFN_GEGLU_ERF;
}

static bool read_case(BlockInput *in, const Json *json, Error *err)
{
    static const char *const norms[] = { "rmsnorm", "layernorm" };
    Config    *c = &in->config;
    CaseReader r = { json, in->path, err, true };
    bool       first = true, bias = false;
    usual_block(c);
    case_int(&r, "d_model", true, 1, 1 << 20, &c->d_model);
    case_int(&r, "n_heads", true, 1, 1 << 20, &c->heads);
    case_int(&r, "n_kv_heads", false, 1, 1 << 20, &c->kv_heads);
    case_int(&r, "head_dim", false, 1, 1 << 20, &c->head_dim);
    case_int(&r, "d_ff", true, 1, INT_MAX / 2, &c->d_ff);
    case_int(&r, "window", false, 0, INT_MAX / 2, &c->window);
    case_int(&r, "batch", false, 1, MAX_TOKENS, &in->n_seqs);
    case_int(&r, "length", false, 1, MAX_TOKENS, &in->seq_len);
    case_bool(&r, "norm_first", true, &first);
    case_bool(&r, "bias", false, &bias);
    case_bool(&r, "causal", false, &in->causal);
    c->norm           = (Norm)case_word(&r, "norm", true, norms, 2, "rmsnorm or layernorm", 0);
    c->norm_placement = first ? PLACE_PRE : PLACE_POST;
    c->qkv_bias = c->out_bias = c->ffn_bias = bias;
    c->norm_bias = bias && c->norm == NORM_LAYER;
    c->theta = 0;
    case_double(&r, "rope_theta", 1e15, &c->theta);
    case_double(&r, "eps", 1, &c->norm_eps);
    case_ffn(&r, c);
    if (c->theta == 0) {
        c->positions = POS_LEARNED;
        c->theta     = 10000;
    }
    return r.ok;
}

/* ---- Options --------------------------------------------------------------------------------- */

static bool choose(const char *option, const char *word, const char *const *words, int n, int *out,
                   Error *err)
{
    for (int i = 0; word && i < n; i++)
        if (strcmp(word, words[i]) == 0) {
            *out = i;
            return true;
        }
    return word ? fail(err, USAGE, "%s: unknown value '%s'", option, word) : true;
}

static bool choose_words(Config *c, const tblock_block_options *o, Error *err)
{
    static const char *const norms[] = { "rms", "layer" },
                             *const places[] = { "pre", "post", "both", "output" };
    static const NormPlacement place_of[] = { PLACE_PRE, PLACE_POST, PLACE_BOTH, PLACE_OUTPUT };
    int norm = (int)c->norm, place = -1, ffn = (int)c->ffn;
    if (!choose("norm", o->norm, norms, 2, &norm, err)
        || !choose("placement", o->placement, places, 4, &place, err)
        || !choose("ffn", o->ffn, ffn_words, N_FFNS, &ffn, err))
        return false;
    c->norm = (Norm)norm;
    c->ffn  = (FfnKind)ffn;
    if (place >= 0)
        c->norm_placement = place_of[place];
    return true;
}

/* Replaces values of the config by the options, and derives what follows from both. */
static bool apply_options(BlockInput *in, Error *err)
{
    const tblock_block_options *o = in->opt;
    Config *c = &in->config;
    if (!choose_words(c, o, err))
        return false;
    if ((o->heads && o->heads != c->heads) || o->d_model) {
        c->head_dim = o->head_dim ? c->head_dim : 0;
        c->kv_heads = o->heads && !o->kv_heads ? 0 : c->kv_heads;
    }
    c->d_model  = o->d_model ? o->d_model : c->d_model;
    c->heads    = o->heads ? o->heads : c->heads;
    c->kv_heads = o->kv_heads ? o->kv_heads : c->kv_heads ? c->kv_heads : c->heads;
    bool whole  = c->rotary_dim == c->head_dim || c->rotary_dim == 0;
    if (!o->head_dim && c->head_dim == 0 && c->heads > 0 && c->d_model % c->heads != 0)
        return fail(err, INPUT, "%s%sheads: expected a divisor of d_model %d, or a head_dim with "
                                "it, found %d", in->path ? in->path : "",
                    in->path ? ": " : "", c->d_model, c->heads);
    c->head_dim = o->head_dim ? o->head_dim : c->head_dim ? c->head_dim : c->d_model / c->heads;
    c->rotary_dim = whole || c->rotary_dim > c->head_dim ? c->head_dim : c->rotary_dim;
    c->d_ff   = o->d_ff ? o->d_ff
        : c->d_ff         ? c->d_ff
        : config_gated(c) ? (c->d_model * 8 / 3 + 15) / 16 * 16
                          : 4 * c->d_model;
    c->window = o->window ? (o->window < 0 ? 0 : o->window) : c->window;
    if (o->bias)
        c->qkv_bias = c->out_bias = c->ffn_bias = true;
    c->norm_bias = c->norm == NORM_LAYER && (c->norm_bias || o->bias);
    c->theta     = o->theta != 0 ? o->theta : c->theta;
    c->norm_eps  = o->eps != 0 ? o->eps : c->norm_eps;
    c->positions = o->no_rope ? POS_LEARNED : o->theta != 0 ? POS_ROPE : c->positions;
    in->causal  &= !o->non_causal;
    return true;
}

static bool check_options(const tblock_block_options *o, Error *err)
{
    const struct { const char *name; int x, max; } numbers[] = {
        { "d_model", o->d_model, 1 << 20 }, { "heads", o->heads, 1 << 20 },
        { "kv_heads", o->kv_heads, 1 << 20 },
        { "head_dim", o->head_dim, 1 << 20 }, { "d_ff", o->d_ff, 1 << 22 },
        { "batch", o->batch, MAX_TOKENS }, { "length", o->length, MAX_TOKENS },
        { "stack", o->stack, TBLOCK_BLOCK_MAX_STACK }, { "check", o->check, 1 << 20 },
        { "threads", o->threads, 1024 },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!check_range(numbers[i].name, numbers[i].x, 0, numbers[i].max, err))
            return false;
    if (o->no_rope && o->theta != 0)
        return fail(err, USAGE, "theta: expected none with no_rope, found %g", o->theta);
    return true;
}

/* ---- Given tensors --------------------------------------------------------------------------- */

static const Tensor *given(const BlockInput *in, const char *name, int rank, const int64_t *shape,
                           Error *err)
{
    Tensor        expected = { .rank = rank };
    char          found[96], wanted[96];
    const Tensor *t = tensor_find(&in->tensors, name);
    memcpy(expected.shape, shape, (size_t)rank * sizeof *shape);
    tensor_shape_text(&expected, wanted, sizeof wanted);
    if (!t)
        fail(err, INPUT, "%s: tensor %s: expected F32 %s, found no such tensor", in->opt->tensors,
             name, wanted);
    else if (t->dtype != DT_F32 || t->rank != rank
             || memcmp(t->shape, shape, (size_t)rank * sizeof *shape) != 0) {
        fail(err, INPUT, "%s: tensor %s: expected F32 %s, found %s %s", in->opt->tensors, name,
             wanted, dtype_name(t->dtype), tensor_shape_text(t, found, sizeof found));
        t = NULL;
    }
    return t;
}

/* Copies a tensor's values. Fails if one is not finite, naming its index. */
static bool take_values(const BlockInput *in, const Tensor *t, float *out, Error *err)
{
    memcpy(out, t->data, t->n_bytes);
    LabStat s = lab_stat(out, t->n_elements);
    char    place[160] = "";
    size_t  rest = s.first_bad, at[TENSOR_MAX_RANK] = { 0 }, used = 0;
    if (s.n_bad == 0)
        return true;
    for (int i = t->rank; i-- > 0; rest /= (size_t)t->shape[i])
        at[i] = rest % (size_t)t->shape[i];
    for (int i = 0; i < t->rank && used < sizeof place; i++)
        used += (size_t)snprintf(place + used, sizeof place - used, "%s%zu", i ? ", " : "", at[i]);
    return fail(err, INPUT, "%s: tensor %s: expected finite numbers, found %g at [%s]%s",
                in->opt->tensors, t->name, (double)s.bad_value, place,
                s.n_bad > 1 ? " and more" : "");
}

/* Batch and length: from options or case, else from the tensor x, else the defaults. */
static bool choose_size(BlockInput *in, Error *err)
{
    const tblock_block_options *o = in->opt;
    const Tensor *x = in->input_given ? tensor_find(&in->tensors, "x") : NULL;
    in->n_seqs  = o->batch ? o->batch : in->n_seqs;
    in->seq_len = o->length ? o->length : in->seq_len;
    if (x && x->rank == 3 && x->shape[0] > 0 && x->shape[1] > 0 && x->shape[0] <= MAX_TOKENS
        && x->shape[1] <= MAX_TOKENS) {
        in->n_seqs  = in->n_seqs ? in->n_seqs : (int)x->shape[0];
        in->seq_len = in->seq_len ? in->seq_len : (int)x->shape[1];
    }
    in->n_seqs  = in->n_seqs ? in->n_seqs : USUAL_BATCH;
    in->seq_len = in->seq_len ? in->seq_len : USUAL_LENGTH;
    int most = in->config.heads > 1024 ? INT_MAX / 2 / in->config.heads : MAX_TOKENS;
    return in->n_seqs <= most / in->seq_len
        ? true
        : fail(err, USAGE, "batch, length: expected at most %d tokens, found %d x %d", most,
               in->n_seqs, in->seq_len);
}

/* Rejects a given weight that the block does not have, or that comes from a model: it would be
 * ignored silently. */
static bool check_given(const BlockInput *in, Error *err)
{
    int64_t size[3] = { in->n_seqs, in->seq_len, in->config.d_model };
    if (!given(in, "x", 3, size, err) || !given(in, "dy", 3, size, err))
        return false;
    for (int i = 0; i < 2 * ROLE_COUNT; i++) {
        const char *name = block_tensor_name((TensorRole)(i / 2), i % 2);
        bool        has = false, of_model = in->origin == BLOCK_OF_MODEL;
        for (TensorSpec s = tensor_list_start(); !of_model && tensor_list_next(&in->config, &s);)
            has |= s.layer == 0 && (int)s.role == i / 2 && s.bias == i % 2;
        if (*name && !has && tensor_find(&in->tensors, name))
            return fail(err, INPUT,
                        "%s: tensor %s: expected no such tensor, because the block of "
                        "%s has %s",
                        in->opt->tensors, name, in->path ? in->path : "these options",
                        of_model ? "its own weights" : "no such part");
    }
    return true;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static bool is_case(const Json *j) { return json_get(j, "norm_first") || json_get(j, "n_heads"); }

static bool open_json(BlockInput *in, const char *text, size_t n, Error *err)
{
    Json *j  = json_parse(text, n, in->path, err);
    bool  ok = j != NULL;
    if (ok && is_case(j))
        ok = in->opt->layer ? fail(err, USAGE, "layer: expected none, because %s is a single "
                                               "block, found %d", in->path, in->opt->layer)
                            : read_case(in, j, err);
    else if (ok)
        ok = config_parse(&in->config, text, n, in->path, err)
            && one_layer(&in->config, in->path, in->opt->layer, err);
    json_free(j);
    return ok;
}

static bool looks_like_json(const char *path)
{
    FileMap map = { 0 };
    if (!file_map_open(&map, path, NULL)) /* a folder; source_open reports what else is wrong */
        return false;
    bool json = json_object_begins(map.data, map.size);
    file_map_close(&map);
    return json;
}

static bool open_path(BlockInput *in, Error *err)
{
    char  *text;
    size_t n;
    if (looks_like_json(in->path)) {
        bool ok = file_read(in->path, MAX_JSON, &text, &n, err) && open_json(in, text, n, err);
        free(text);
        return ok;
    }
    if (!source_open(&in->source, in->path, err) || !source_need_weights(&in->source, err))
        return false;
    in->origin = BLOCK_OF_MODEL;
    in->config = in->source.stored.config;
    return one_layer(&in->config, in->path, in->opt->layer, err);
}

/* Do the options change the block? */
static bool changes(const tblock_block_options *o)
{
    return o->norm || o->placement || o->ffn || o->d_model || o->heads || o->kv_heads || o->head_dim
        || o->d_ff || o->window || o->bias;
}

bool block_input_open(BlockInput *in, const char *path, const tblock_block_options *opt, Error *err)
{
    const char *what = path ? path : "the block";
    *in = (BlockInput){ .path = path, .opt = opt, .causal = true, .origin = BLOCK_SEEDED };
    if (!check_options(opt, err))
        return false;
    if (!path && opt->layer)
        return fail(err, USAGE, "layer: expected none without a model or its config, found %d",
                    opt->layer);
    if (!path)
        usual_block(&in->config);
    else if (!open_path(in, err))
        return false;
    if (opt->tensors) {
        if (!safetensors_open(&in->tensors, opt->tensors, err))
            return false;
        in->origin      = in->origin == BLOCK_OF_MODEL ? BLOCK_OF_MODEL : BLOCK_GIVEN;
        in->input_given = true;
    }
    if (!apply_options(in, err) || !config_check(&in->config, what, err)
        || !supported(&in->config, what, err)) {
        if (err && err->status == INPUT && (!path || changes(opt)))
            err->status = USAGE; /* the file is fine; the options do not fit it */
        return false;
    }
    return choose_size(in, err) && (!in->input_given || check_given(in, err));
}

void block_input_close(BlockInput *in)
{
    source_close(&in->source);
    tensor_file_close(&in->tensors);
    *in = (BlockInput){ 0 };
}

int block_input_most(const BlockInput *in)
{
    return in->origin == BLOCK_OF_MODEL ? in->source.stored.config.n_layers - in->opt->layer
                                        : TBLOCK_BLOCK_MAX_STACK;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static const char *spell_shape(const TensorSpec *s, char out[64])
{
    Tensor t = { 0 };
    t.rank   = tensor_spec_shape(s, t.shape);
    return tensor_shape_text(&t, out, 64);
}

static bool load_from_model(const BlockInput *in, const TensorSpec *want, int layer, float *w,
                            Error *err)
{
    const StoredModel *c = &in->source.stored;
    int i = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(&c->config, &s); i++) {
        if (s.layer != layer || s.role != want->role || s.bias != want->bias)
            continue;
        if (s.rows != want->rows || s.k != want->k || s.stack != 1) {
            char expected[64], found[64];
            return fail(err, INPUT,
                        "%s: tensor %s: expected %s for a block of these options, found %s",
                        in->path, s.name, spell_shape(want, expected), spell_shape(&s, found));
        }
        bool ok = params_load_tensor(&s, &c->tensor[i], in->path, w, err);
        checked_release(&c->tensor[i]);
        return ok;
    }
    return fail(err, INPUT, "%s: layer %d: tensor %s: expected it for a block of these options, "
                            "found no such tensor", in->path, layer, want->part);
}

static bool load_given(const BlockInput *in, const TensorSpec *want, float *w, Error *err)
{
    int64_t       shape[3];
    int           rank = tensor_spec_shape(want, shape);
    const Tensor *t    = given(in, block_tensor_name(want->role, want->bias), rank, shape, err);
    return t && take_values(in, t, w, err);
}

bool block_input_weights(const BlockInput *in, BlockLab *lab, int b, Error *err)
{
    if (in->origin == BLOCK_SEEDED)
        lab_fill_weights(lab, in->opt->seed, b);
    for (int i = 0; in->origin != BLOCK_SEEDED && i < lab->params.n; i++) {
        const TensorSpec *s = &lab->params.spec[i];
        float            *w = lab->w + lab->params.at[i];
        if (s->layer == 0
            && !(in->origin == BLOCK_GIVEN ? load_given(in, s, w, err)
                                           : load_from_model(in, s, in->opt->layer + b, w, err)))
            return false;
    }
    return true;
}

bool block_input_values(const BlockInput *in, BlockLab *lab, Error *err)
{
    if (!in->input_given) {
        lab_fill_input(lab, in->opt->seed);
        return true;
    }
    return take_values(in, tensor_find(&in->tensors, "x"), lab->x, err)
        && take_values(in, tensor_find(&in->tensors, "dy"), lab->d_y, err);
}
