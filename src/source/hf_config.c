/* source/hf_config.c: converts a Hugging Face config.json to our config. */
#include "source/hf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/bytes.h"

enum { MAX_CONFIG = 16 << 20 };

/* ---- Which family ---------------------------------------------------------------------------- */

/* In a model with several kinds of input, these keys of the whole file also hold for its text
 * part. */
static const char *const of_the_whole[] = { "architectures", "bos_token_id",
                                            "eos_token_id",        "tie_word_embeddings",
                                            "torch_dtype",         "dtype",
                                            "quantization_config", NULL };

/* Move *w, the first row of its type, to the row of the text part's type. */
static bool text_part(HfReader *r, const FamilyWrapper **w, const Json *type)
{
    const FamilyWrapper *first = *w;
    const char          *text  = first->text_type;
    char                 key[64], known[128] = "", found[80];
    if (type && (!json_is_string(type) || !json_read_string(type, "", &text, NULL)))
        text = "";
    for (; (*w)->model_type && strcmp((*w)->model_type, first->model_type) == 0; (*w)++) {
        if (strcmp((*w)->text_type, text) == 0)
            return true;
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s'%s'", n ? " or " : "", (*w)->text_type);
    }
    snprintf(key, sizeof key, "%s.model_type", first->key);
    return key_wrong(&r->keys, key, "expected %s, found %s", known,
                     key_found(type, found, sizeof found));
}

/* If the model has several kinds of input, continue with the object of its text part. */
static bool unwrap(HfReader *r)
{
    const Json *whole = r->keys.json, *type = json_get(whole, "model_type");
    const char *name  = NULL;
    if (json_is_string(type) && !json_read_string(type, "", &name, NULL))
        return false;
    for (const FamilyWrapper *w = family_wrappers; name && w->model_type; w++) {
        if (strcmp(w->model_type, name) != 0)
            continue;
        const Json *inner = json_get(whole, w->key);
        r->wrapper        = w;
        r->family         = family_find(w->text_type, NULL);
        if (w->flat && (!inner || json_is_null(inner)))
            break;
        if (!json_is_object(inner))
            return key_wrong(&r->keys, w->key, "expected an object, found %s", json_kind(inner));
        if (!text_part(r, &w, json_get(inner, "model_type")))
            return false;
        r->keys.outer    = whole;
        r->keys.of_outer = of_the_whole;
        r->keys.json     = inner;
        r->wrapper       = w;
        r->family        = family_find(w->text_type, NULL);
        break;
    }
    return true;
}

/* LlamaModel for LlamaForCausalLM, Gemma3TextModel for Gemma3ForCausalLM: a model saved without its
 * head; or LlamaForSequenceClassification, with another head. */
static bool is_inside(HfReader *r, const char *architecture)
{
    static const char labels[] = "ForSequenceClassification";
    const char *with_head = r->family->architecture[0], *end = strstr(with_head, "ForCausalLM");
    size_t      n   = end ? (size_t)(end - with_head) : strlen(with_head) - 5; /* "Model" */
    if ((!end && !(r->family->has & BOTH_WAYS)) || strncmp(architecture, with_head, n) != 0)
        return false;
    architecture += n + (strncmp(architecture + n, "Text", 4) == 0 ? 4 : 0);
    r->labels = strcmp(architecture, labels) == 0;
    r->inside = r->labels || strcmp(architecture, "Model") == 0;
    return r->inside;
}

/* model_type names the family. Old files have only architectures; if both exist, they must
 * agree. */
static bool find_family(HfReader *r)
{
    const Json *type = key_take(&r->keys, "model_type"),
               *list = key_take(&r->keys, "architectures");
    const Json *first = json_first(list);
    const char *name = NULL, *architecture = NULL;
    char        found[128];
    if (list && !json_is_null(list) && !json_is_array(list))
        return key_wrong(&r->keys, "architectures", "expected an array, found %s", json_kind(list));
    if (json_is_string(first) && !json_read_string(first, "", &architecture, NULL))
        architecture = NULL;
    if (json_is_string(type) && !json_read_string(type, "", &name, NULL))
        return false;
    if (!r->family && (!type || json_is_null(type) || name))
        r->family = family_find(name, architecture);
    if (!r->family)
        return key_wrong(&r->keys, "model_type",
                         "expected a family that docs/convert.md lists, found %s",
                         key_found(type, found, sizeof found));
    if (architecture && json_count(list) == 1 && is_inside(r, architecture))
        return true;
    for (int i = 0; i < 2 && architecture && json_count(list) == 1; i++)
        if (r->family->architecture[i] && strcmp(r->family->architecture[i], architecture) == 0)
            return true;
    if (r->wrapper && architecture && json_count(list) == 1
        && strcmp(r->wrapper->architecture, architecture) == 0)
        return true;
    return json_count(list) == 0
        || key_wrong(&r->keys, "architectures", "expected [%s], found %s",
                     r->family->architecture[0],
                     architecture && json_count(list) == 1 ? architecture : "another list");
}

/* ---- Keys of the table ----------------------------------------------------------------------- */

static bool read_number(HfReader *r, const FamilyKey *k, const char *name, const Json *j,
                        double *out)
{
    double x = k->absent;
    if (j && !(k->form == FORM_OR_NULL && json_is_null(j)) && !key_number(&r->keys, name, j, &x))
        return false;
    if ((j && json_is_null(j)) || isnan(x)) { /* only with FORM_OR_NULL */
        *out = 0;
        return true;
    }
    if (k->form != FORM_NUMBER && !(x > 0))
        return key_wrong(&r->keys, name, "expected a number above 0, found %.9g", x);
    *out = k->form == FORM_INVERSE ? 1.0 / x : k->form == FORM_INVERSE_ROOT ? 1.0 / sqrt(x) : x;
    return true;
}

static bool read_key(HfReader *r, const FamilyKey *k)
{
    void       *to = (char *)r->c + k->at;
    const Json *j;
    const char *name;
    if (k->form == FORM_NONE)
        return true;
    if (!key_take_any(&r->keys, k->names ? k->names : config_key_at(k->at)->hf, &j, &name))
        return false;
    switch (k->form) {
    case FORM_FLAG:
        *(bool *)to = k->absent != 0;
        return !j || key_bool(&r->keys, name, j, to);
    case FORM_SIZE:
        *(int *)to = (int)k->absent;
        return !j || key_size(&r->keys, name, j, to);
    case FORM_COUNT:
        *(int *)to = (int)k->absent;
        return !j || key_int(&r->keys, name, j, 0, KEY_LARGEST, to);
    case FORM_SIZE_OR_NULL:
        *(int *)to = j ? 0 : (int)k->absent;
        return !j || json_is_null(j) || key_size(&r->keys, name, j, to);
    default:
        return read_number(r, k, name, j, to);
    }
}

/* The family's own row for a field; NULL: the field has Llama's row. */
static const FamilyKey *own_key(const Family *f, size_t at)
{
    for (const FamilyKey *k = f->keys; k->form != FORM_END; k++)
        if (k->at == at)
            return k;
    return NULL;
}

/* The family's rows, then those of Llama that the family does not replace. */
static bool read_table(HfReader *r)
{
    for (const FamilyKey *k = r->family->keys; k->form != FORM_END; k++)
        if (!read_key(r, k))
            return false;
    for (const FamilyKey *k = family_llama_keys; k->form != FORM_END; k++)
        if (!own_key(r->family, k->at) && !read_key(r, k))
            return false;
    if (r->c->n_layers > MAX_LAYERS)
        return key_wrong(&r->keys, "n_layers", "expected at most %d, found %d", MAX_LAYERS,
                         r->c->n_layers);
    if (r->c->d_ff == 0) {
        if (r->c->d_model > KEY_LARGEST / 4)
            return key_wrong(&r->keys, "n_inner", "expected at most %d, found 4 times %d",
                             KEY_LARGEST, r->c->d_model);
        r->c->d_ff = 4 * r->c->d_model;
    }
    return true;
}

/* ---- Parts that are on or off ---------------------------------------------------------------- */

static void turn_on(Config *c, unsigned has)
{
    c->qkv_bias      |= (has & HAS_QKV_BIAS) != 0;
    c->out_bias      |= (has & HAS_OUT_BIAS) != 0;
    c->ffn_bias      |= (has & HAS_FFN_BIAS) != 0;
    c->norm_bias     |= (has & HAS_NORM_BIAS) != 0;
    c->renormalize   |= (has & HAS_RENORMALIZE) != 0;
    c->shared_router |= (has & HAS_SHARED_ROUTER) != 0;
    c->choice_bias   |= (has & HAS_CHOICE_BIAS) != 0;
    c->expert_bias   |= (has & HAS_EXPERT_BIAS) != 0;
    c->router_bias   |= (has & HAS_EXPERT_BIAS) != 0;
    c->attn_sinks    |= (has & HAS_SINKS) != 0;
    c->expert_input_scaled   |= (has & SCORES_SCALE_INPUT) != 0;
    c->query_scale_unrotated |= (has & UNROTATED_SCALED) != 0;
    if (has & SHARED_AS_WIDE)
        c->shared_d_ff = c->expert_d_ff;
    if (has & SIGMOID_ROUTER)
        c->router_score = ROUTER_SIGMOID;
    if (has & EXPERTS_AS_WIDE)
        c->expert_d_ff = c->d_ff;
    if (has & EMBED_SCALED)
        c->embed_scale = sqrt(c->d_model);
}

/* What the family has in every model, then what its flags turn on. */
static bool read_flags(HfReader *r)
{
    const Family *f = r->family;
    Config       *c = r->c;
    c->norm           = f->norm;
    c->norm_placement = f->placement;
    c->qk_norm        = f->qk_norm;
    c->qk_norm_after_rope = f->has & QK_NORM_ROTATED;
    c->positions      = f->positions;
    turn_on(c, f->has);
    if (!own_key(f, offsetof(Config, renormalize_min)))
        c->renormalize_min = f->renormalize_min;
    c->renormalize_add = f->renormalize_add;
    for (const FamilyFlag *g = f->flags; g < f->flags + 4 && g->name; g++) {
        const Json *j  = key_take(&r->keys, g->name);
        bool        on = g->absent;
        if (j && !json_read_bool(j, key_what(&r->keys, g->name), &on, r->keys.err))
            return false;
        double value = on ? g->if_true : g->if_false;
        if (on)
            turn_on(c, g->has);
        if (g->form == FORM_SIZE)
            memcpy((char *)c + g->at, &(int){ (int)value }, sizeof(int));
        else if (g->form == FORM_NUMBER)
            memcpy((char *)c + g->at, &value, sizeof value);
    }
    c->qk_norm_after_rope &= c->qk_norm != QK_NONE;
    if (own_key(f, offsetof(Config, query_scale)) && !c->query_scale_unrotated)
        c->query_scale = 0;
    if (c->query_scale == 0) {
        c->query_scale_length    = 0;
        c->query_scale_unrotated = false;
    }
    return true;
}

static bool read_activation(HfReader *r)
{
    const Family *f    = r->family;
    const Json   *j    = NULL;
    const char   *key  = f->act_keys[0], *word = f->act;
    char          known[160], found[80];
    for (int i = 0; i < 2 && f->act_keys[i]; i++) {
        const Json *k = key_take(&r->keys, f->act_keys[i]);
        if (!j && k && !json_is_null(k)) {
            j   = k;
            key = f->act_keys[i];
        }
    }
    if (j && (!json_is_string(j) || !json_read_string(j, "", &word, NULL)))
        word = "";
    if (family_activation(f, word, &r->c->ffn))
        return true;
    family_activations(f, known, sizeof known);
    return key_wrong(&r->keys, key, "expected one of %s, found %s", known,
                     key_found(j, found, sizeof found));
}

/* Fill in what read_table left 0: as many KV heads as heads, and heads that divide the width. */
static bool read_heads(HfReader *r)
{
    Config          *c   = r->c;
    const FamilyKey *dim = own_key(r->family, offsetof(Config, head_dim));
    if (c->kv_heads == 0)
        c->kv_heads = c->heads;
    if (c->kv_lora > 0)
        return true;
    if (c->head_dim == 0 && c->d_model % c->heads != 0)
        return key_wrong(&r->keys, "hidden_size",
                         "expected a multiple of num_attention_heads %d%s, found %d", c->heads,
                         dim && dim->form == FORM_NONE ? "" : ", or a head_dim", c->d_model);
    if (c->head_dim == 0)
        c->head_dim = c->d_model / c->heads;
    return true;
}

/* Latent attention: kv_heads means nothing, but transformers wants as many as heads. Its two norms
 * ignore rms_norm_eps, in DeepSeek's own code too. */
#define LATENT_NORM_EPS 1e-6
static bool read_latent(HfReader *r)
{
    Config     *c     = r->c;
    const Json *pairs = r->family->has & LATENT_KV ? key_take(&r->keys, "rope_interleave") : NULL;
    bool        on    = true;
    if (c->kv_lora == 0)
        return true;
    if (pairs && !json_is_null(pairs)
        && !json_read_bool(pairs, key_what(&r->keys, "rope_interleave"), &on, r->keys.err))
        return false;
    r->halves = pairs && !on;
    if (c->kv_heads != c->heads)
        return key_wrong(&r->keys, "num_key_value_heads",
                         "expected as many as num_attention_heads %d, found %d", c->heads,
                         c->kv_heads);
    c->latent_norm_eps = c->norm_eps != LATENT_NORM_EPS ? LATENT_NORM_EPS : 0;
    family_latent(c);
    return true;
}

/* ---- Pooling and labels ---------------------------------------------------------------------- */

/* nvidia's key: how hidden states are pooled, if no modules.json says it. */
static bool read_pool(HfReader *r)
{
    static const struct { const char *word; PoolKind kind; } words[] = {
        { "avg", POOL_MEAN }, { "last", POOL_LAST }, { "cls", POOL_CLS }
    };
    const Json *j    = key_take(&r->keys, "pooling");
    const char *word = "";
    if (!j || json_is_null(j))
        return true;
    if (!json_read_string(j, key_what(&r->keys, "pooling"), &word, r->keys.err))
        return false;
    r->c->pool = POOL_OTHER;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i].word) == 0)
            r->c->pool = words[i].kind;
    return true;
}

/* The function that sentence-transformers' CrossEncoder applies to one logit: sigmoid, unless this
 * names another. */
static bool read_label(HfReader *r)
{
    const Json *own = key_take(&r->keys, "sentence_transformers"),
               *old = key_take(&r->keys, "sbert_ce_default_activation_function"),
               *act = json_is_object(own) ? json_get(own, "activation_fn") : old;
    const char *word = "", *last;
    double      t    = 1;
    const Json *temperature = r->labels ? key_take(&r->keys, "temperature") : NULL;
    if (temperature && !json_is_null(temperature)
        && !key_number(&r->keys, "temperature", temperature, &t))
        return false;
    if (t != 1)
        return key_wrong(&r->keys, "temperature", "expected 1 with a head of labels, found %.9g",
                         t);
    if (!act || json_is_null(act) || !r->labels)
        return true;
    if (!json_read_string(act, key_what(&r->keys, "activation_fn"), &word, r->keys.err))
        return false;
    last         = strrchr(word, '.') ? strrchr(word, '.') + 1 : word;
    r->raw_label = strcmp(last, "Identity") == 0;
    return r->raw_label || strcmp(last, "Sigmoid") == 0
        || key_wrong(&r->keys, "activation_fn", "expected Sigmoid or Identity of torch.nn, found "
                                                "'%.80s'", word);
}

/* MTP layers predict further tokens. They are not needed. */
static bool read_next(HfReader *r)
{
    const Json *j;
    const char *name;
    int        *n = &r->source->next_layers;
    *n = r->family->next_layers;
    return *n == 0
        || (key_take_any(&r->keys, "num_nextn_predict_layers|num_mtp_layers", &j, &name)
            && (!j || json_is_null(j) || key_int(&r->keys, name, j, 0, MAX_LAYERS, n)));
}

/* ---- Ids ------------------------------------------------------------------------------------- */

/* Skip ids outside of the vocabulary: they never occur. A small model of a family often has the
 * family's large ids as its default. */
static bool add_id(HfReader *r, const char *what, const Json *j, int *ids, int *n, int most)
{
    int64_t id;
    if (!json_read_int(j, what, 0, INT32_MAX, &id, r->keys.err))
        return false;
    if (id >= r->c->vocab_size)
        return source_warn(r->source, r->keys.err, "%s: %lld is outside of vocab_size %d: left out",
                           what, (long long)id, r->c->vocab_size);
    for (int i = 0; i < *n; i++)
        if (ids[i] == id)
            return true;
    if (*n == most)
        return fail(r->keys.err, INPUT, "%s: expected at most %d ids, found more", what, most);
    ids[(*n)++] = (int)id;
    return true;
}

static bool add_ids(HfReader *r, const char *what, const Json *j, int *ids, int *n, int most)
{
    if (!j || json_is_null(j))
        return true;
    if (!json_is_array(j))
        return add_id(r, what, j, ids, n, most);
    for (const Json *i = json_first(j); i; i = json_next(i))
        if (!add_id(r, what, i, ids, n, most))
            return false;
    return true;
}

static bool read_ids(HfReader *r)
{
    Config     *c   = r->c;
    const Json *bos = key_take(&r->keys, "bos_token_id"), *eos = key_take(&r->keys, "eos_token_id");
    int         first[MAX_EOS + 1] = { 0 }, n = 0;
    if (!add_ids(r, key_what(&r->keys, "bos_token_id"), bos, first, &n, MAX_EOS)
        || !add_ids(r, key_what(&r->keys, "eos_token_id"), eos, c->eos, &c->n_eos, MAX_EOS))
        return false;
    if (!bos && r->family->bos >= 0 && r->family->bos < c->vocab_size)
        first[n++] = r->family->bos;
    c->bos = n ? first[0] : -1;
    if (eos && !(json_is_null(eos) && r->family->eos_null))
        return true;
    const int ends[] = { r->family->eos, r->family->eos_more[0], r->family->eos_more[1] };
    for (int i = 0; i < 3; i++)
        if (ends[i] >= (i > 0) && ends[i] < c->vocab_size)
            c->eos[c->n_eos++] = ends[i];
    return true;
}

/* ---- What is left over ----------------------------------------------------------------------- */

static bool has_number(const char *allowed, double x)
{
    for (const char *p = allowed; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (*p >= '0' && *p <= '9' && (double)strtol(p, NULL, 10) == x)
            return true;
    return false;
}

static bool has_value(const char *allowed, const Json *j)
{
    bool   flag;
    double x;
    if (json_is_bool(j) && json_read_bool(j, "", &flag, NULL))
        return strstr(allowed, flag ? "true" : "false") != NULL;
    if (json_is_number(j) && json_read_double(j, "", -INFINITY, INFINITY, &x, NULL))
        return has_number(allowed, x);
    if (json_is_object(j))
        return json_count(j) == 0 && strcmp(allowed, "{}") == 0;
    const char *text;
    return json_is_string(j) && json_read_string(j, "", &text, NULL) && allowed[0] == '"'
        && strlen(allowed) == strlen(text) + 2 && strncmp(allowed + 1, text, strlen(text)) == 0;
}

/* Does a key change nothing in this family, whatever its value? *allowed: the value with which it
 * does not. */
static bool fixed_key(const Family *f, const char *key, const char **allowed)
{
    for (size_t i = 0; i < sizeof f->fixed / sizeof f->fixed[0] && f->fixed[i][0]; i++)
        if (strcmp(f->fixed[i][0], key) == 0) {
            *allowed = f->fixed[i][1];
            return !*allowed;
        }
    return false;
}

/* Is it about images, in the outer object or in the text part's? */
static bool of_other_parts(const FamilyWrapper *w, const char *key)
{
    char word[64];
    return w && w->ignored && snprintf(word, sizeof word, " %s ", key) < (int)sizeof word
        && strstr(w->ignored, word);
}

/* A key that was not read must be known to be harmless: a new key of a family may change the
 * result. */
static bool check_left(HfReader *r)
{
    char found[80];
    for (const Json *i = key_left(&r->keys, NULL); i; i = key_left(&r->keys, i)) {
        const char *key = json_key(i), *allowed = family_key_harmless_value(key);
        if (json_is_null(i) || family_key_harmless(key) || of_other_parts(r->wrapper, key)
            || fixed_key(r->family, key, &allowed))
            continue;
        if (!allowed)
            return fail(r->keys.err, INPUT, "%s: key '%s': unknown, and may change the result",
                        r->keys.path, key);
        if (!has_value(allowed, i))
            return key_wrong(&r->keys, key, "expected %s, found %s", allowed,
                             key_found(i, found, sizeof found));
    }
    return true;
}

/* ---- The file -------------------------------------------------------------------------------- */

static bool read_config(HfReader *r, HfQuant *quant)
{
    return unwrap(r) && find_family(r) && hf_quant_read(r, quant) && read_table(r) && read_flags(r)
        && read_activation(r) && read_heads(r) && hf_rope_read(r)
        && read_latent(r) && hf_state_layers(r) && hf_no_rope_layers(r) && hf_window_layers(r)
        && hf_directions(r) && read_pool(r) && read_label(r) && hf_layer_thetas(r)
        && hf_experts(r) && read_next(r)
        && read_ids(r) && check_left(r);
}

static Json *open_json(const char *path, Error *err)
{
    char  *text;
    size_t n;
    if (!file_read(path, MAX_CONFIG, &text, &n, err))
        return NULL;
    Json *root = format_downloaded(path, text, n, err) ? json_parse(text, n, path, err) : NULL;
    free(text);
    if (root && !json_is_object(root)) {
        fail(err, INPUT, "%s: expected a JSON object, found %s", path, json_kind(root));
        json_free(root);
        root = NULL;
    }
    return root;
}

/* Chat models often list the end of a turn only in generation_config.json. */
static bool more_ends(HfReader *r, const char *path)
{
    char  what[KEY_WHAT];
    Json *root = open_json(path, r->keys.err);
    snprintf(what, sizeof what, "%s: eos_token_id", path);
    bool ok =
        root && add_ids(r, what, json_get(root, "eos_token_id"), r->c->eos, &r->c->n_eos, MAX_EOS);
    json_free(root);
    return ok;
}

bool hf_config_is(const Json *root)
{
    return json_get(root, "model_type") || json_get(root, "architectures");
}

bool hf_config_parse(HfConfig *out, Source *s, const Json *root, const char *path,
                     const char *generation_path, Error *err)
{
    HfReader r = { .keys = { .path = path, .prefix = "", .json = root, .err = err },
                   .c = &out->config,
                   .source = s };
    config_defaults(&out->config);
    if (!read_config(&r, &out->quant))
        return false;
    out->family  = r.family;
    out->wrapper = r.wrapper;
    out->halves  = r.halves;
    out->inside    = r.inside;
    out->labels    = r.labels;
    out->raw_label = r.raw_label;
    const Json *tied  = r.wrapper ? json_get(root, "tie_word_embeddings") : NULL;
    out->head_decides = r.wrapper && r.wrapper->head_decides && (!tied || json_is_null(tied));
    const Json *own = r.wrapper && r.wrapper->either_ties ? json_get(root, r.wrapper->key) : NULL;
    bool        ties;
    const Json *tie = json_get(own, "tie_word_embeddings");
    if (json_is_bool(tie) && json_read_bool(tie, "", &ties, NULL))
        out->config.tied_embeddings |= ties;
    snprintf(out->config.family, sizeof out->config.family, "%s", r.family->name);
    return (!generation_path || more_ends(&r, generation_path))
        && config_check(&out->config, path, err);
}

bool hf_config_read(HfConfig *out, Source *s, const char *path, const char *generation_path,
                    Error *err)
{
    Json *root = open_json(path, err);
    bool  ok   = root && hf_config_parse(out, s, root, path, generation_path, err);
    json_free(root);
    return ok;
}
