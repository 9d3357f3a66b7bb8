#include "source/hf_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/hf_reader.h"

enum { MAX_CONFIG = 16 << 20 };

/* ---- Keys ---- */

/* Of a model of several kinds of input: what the whole says about its text part. */
static const char *const of_the_whole[] = { "architectures", "bos_token_id", "eos_token_id", "tie_word_embeddings", "torch_dtype", "dtype",
                                            "quantization_config" };

static const Json *look(const HfReader *r, const char *name)
{
    for (size_t i = 0; r->outer && i < sizeof of_the_whole / sizeof of_the_whole[0]; i++) {
        const Json *j = strcmp(of_the_whole[i], name) == 0 ? json_get(r->outer, name) : NULL;
        if (j && !json_is_null(j))
            return j;
    }
    return json_get(r->keys, name);
}

const Json *hf_take(HfReader *r, const char *name)
{
    const Json *j = look(r, name);
    if (j && r->n_taken < HF_MAX_TAKEN)
        r->taken[r->n_taken++] = json_key(j);
    return j;
}

bool hf_take_any(HfReader *r, const char *names, const Json **out, const char **found)
{
    char all[128], *rest = all;
    snprintf(all, sizeof all, "%s", names);
    *out   = NULL;
    *found = names;
    for (char *name; (name = strsep(&rest, "|")) != NULL;) {
        const Json *j = hf_take(r, name);
        bool        null = !j || json_is_null(j);
        char        a[80], b[80];
        if (!null && *out && !json_is_null(*out) && !hf_same(j, *out))
            return fail(r->err, INPUT, "%s: expected the same as %s, %s, found %s", hf_what(r, name), *found, hf_found(*out, a, sizeof a),
                        hf_found(j, b, sizeof b));
        if (j && (!*out || (json_is_null(*out) && !null))) {
            *out   = j;
            *found = json_key(j);
        }
    }
    return true;
}

const char *hf_what(HfReader *r, const char *key)
{
    snprintf(r->what, sizeof r->what, "%s: %s", r->path, key);
    return r->what;
}

const char *hf_found(const Json *j, char *buf, size_t n)
{
    const char *text;
    double      x;
    if (json_is_number(j) && json_read_double(j, "", -INFINITY, INFINITY, &x, NULL))
        snprintf(buf, n, "%.9g", x);
    else if (json_is_string(j) && json_read_string(j, "", &text, NULL))
        snprintf(buf, n, "'%s'", text);
    else
        snprintf(buf, n, "%s%s", json_is_array(j) || json_is_object(j) ? "an " : "", json_kind(j));
    return buf;
}

bool hf_number(HfReader *r, const char *key, const Json *j, double *out)
{
    return json_read_double(j, hf_what(r, key), -INFINITY, INFINITY, out, r->err);
}

bool hf_size(HfReader *r, const char *key, const Json *j, int *out)
{
    int64_t v;
    if (!json_read_int(j, hf_what(r, key), 1, HF_LARGEST, &v, r->err))
        return false;
    *out = (int)v;
    return true;
}

bool hf_same(const Json *a, const Json *b)
{
    const char *s, *t;
    double      x, y;
    if (a == b)
        return true;
    if (json_is_string(a) && json_is_string(b))
        return json_read_string(a, "", &s, NULL) && json_read_string(b, "", &t, NULL) && strcmp(s, t) == 0;
    if (json_is_number(a) && json_is_number(b))
        return json_read_double(a, "", -INFINITY, INFINITY, &x, NULL) && json_read_double(b, "", -INFINITY, INFINITY, &y, NULL) && x == y;
    return strcmp(json_kind(a), json_kind(b)) == 0 && json_count(a) == 0 && json_count(b) == 0;
}

/* ---- Which family ---- */

static bool unwrap(HfReader *r)
{
    const Json *type = json_get(r->keys, "model_type");
    const char *name = NULL;
    if (json_is_string(type) && !json_read_string(type, "", &name, NULL))
        return false;
    for (const FamilyWrapper *w = family_wrappers; name && w->model_type; w++) {
        if (strcmp(w->model_type, name) != 0)
            continue;
        const Json *inner = json_get(r->keys, w->key), *inner_type = json_get(inner, "model_type");
        const char *text = w->text_type;
        if (!json_is_object(inner))
            return fail(r->err, INPUT, "%s: expected an object, found %s", hf_what(r, w->key), json_kind(inner));
        if (inner_type && (!json_is_string(inner_type) || !json_read_string(inner_type, "", &text, NULL) || strcmp(text, w->text_type) != 0))
            return fail(r->err, INPUT, "%s.model_type: expected '%s', found %s", hf_what(r, w->key), w->text_type, json_kind(inner_type));
        r->outer   = r->keys;
        r->keys    = inner;
        r->wrapper = w;
        r->family  = family_find(w->text_type, NULL);
    }
    return true;
}

static void known_types(char *out, size_t n)
{
    size_t at = 0;
    out[0] = '\0';
    for (const Family *f = families; f->name; f++)
        at += (size_t)snprintf(out + at, n - at, "%s%s", at ? ", " : "", f->name);
    for (const FamilyWrapper *w = family_wrappers; w->model_type; w++)
        at += (size_t)snprintf(out + at, n - at, ", %s", w->model_type);
}

static bool find_family(HfReader *r)
{
    const Json *type = look(r, "model_type"), *list = look(r, "architectures"), *first = json_first(list);
    const char *name = NULL, *architecture = NULL;
    char        known[512], found[128];
    if (list && !json_is_null(list) && !json_is_array(list))
        return fail(r->err, INPUT, "%s: expected an array, found %s", hf_what(r, "architectures"), json_kind(list));
    if (json_is_string(first) && !json_read_string(first, "", &architecture, NULL))
        architecture = NULL;
    if (json_is_string(type) && !json_read_string(type, "", &name, NULL))
        return false;
    if (!r->family && (!type || json_is_null(type) || name))
        r->family = family_find(name, architecture);
    known_types(known, sizeof known);
    if (!r->family)
        return fail(r->err, INPUT, "%s: expected one of %s, found %s", hf_what(r, "model_type"), known, hf_found(type, found, sizeof found));
    for (int i = 0; i < 2 && architecture && json_count(list) == 1; i++)
        if (r->family->architecture[i] && strcmp(r->family->architecture[i], architecture) == 0)
            return true;
    return json_count(list) == 0
        || fail(r->err, INPUT, "%s: expected [%s], found %s", hf_what(r, "architectures"), r->family->architecture[0],
                architecture && json_count(list) == 1 ? architecture : "another list");
}

/* ---- Keys of the table ---- */

static bool read_number(HfReader *r, const FamilyKey *k, const char *name, const Json *j, double *out)
{
    double x = k->absent;
    if (j && !(k->form == FORM_OR_NULL && json_is_null(j)) && !hf_number(r, name, j, &x))
        return false;
    if ((j && json_is_null(j)) || isnan(x)) { /* FORM_OR_NULL alone */
        *out = 0;
        return true;
    }
    if (k->form != FORM_NUMBER && !(x > 0))
        return fail(r->err, INPUT, "%s: expected a number above 0, found %.9g", hf_what(r, name), x);
    *out = k->form == FORM_INVERSE ? 1.0 / x : k->form == FORM_INVERSE_ROOT ? 1.0 / sqrt(x) : x;
    return true;
}

static bool read_key(HfReader *r, const FamilyKey *k)
{
    void       *to = (char *)r->c + k->at;
    const Json *j;
    const char *name;
    if (!hf_take_any(r, k->names, &j, &name))
        return false;
    switch (k->form) {
    case FORM_FLAG:
        *(bool *)to = k->absent != 0;
        return !j || json_read_bool(j, hf_what(r, name), to, r->err);
    case FORM_SIZE_OR_4D:
        *(int *)to = 0;
        return !j || json_is_null(j) || hf_size(r, name, j, to);
    case FORM_SIZE:
        *(int *)to = (int)k->absent;
        return !j || hf_size(r, name, j, to);
    default:
        return read_number(r, k, name, j, to);
    }
}

static bool read_table(HfReader *r)
{
    const FamilyKey *own = r->family->keys;
    for (const FamilyKey *k = own; k->form != FORM_END; k++)
        if (!read_key(r, k))
            return false;
    for (const FamilyKey *k = family_llama_keys; k->form != FORM_END; k++) {
        bool again = false;
        for (const FamilyKey *o = own; o->form != FORM_END; o++)
            again |= o->at == k->at;
        if (!again && !read_key(r, k))
            return false;
    }
    if (r->c->n_layers > MAX_LAYERS)
        return fail(r->err, INPUT, "%s: n_layers: expected at most %d, found %d", r->path, MAX_LAYERS, r->c->n_layers);
    if (r->c->d_ff == 0) {
        if (r->c->d_model > HF_LARGEST / 4)
            return fail(r->err, INPUT, "%s: expected at most %d, found 4 times %d", hf_what(r, "n_inner"), HF_LARGEST, r->c->d_model);
        r->c->d_ff = 4 * r->c->d_model;
    }
    return true;
}

/* ---- Parts that are on or off ---- */

static void turn_on(Config *c, unsigned has)
{
    c->qkv_bias      |= (has & HAS_QKV_BIAS) != 0;
    c->out_bias      |= (has & HAS_OUT_BIAS) != 0;
    c->ffn_bias      |= (has & HAS_FFN_BIAS) != 0;
    c->norm_bias     |= (has & HAS_NORM_BIAS) != 0;
    c->renormalize   |= (has & HAS_RENORMALIZE) != 0;
    c->shared_router |= (has & HAS_SHARED_ROUTER) != 0;
    if (has & EXPERTS_AS_WIDE)
        c->expert_d_ff = c->d_ff;
    if (has & EMBED_SCALED)
        c->embed_scale = sqrt(c->d_model);
}

static bool read_flags(HfReader *r)
{
    const Family *f = r->family;
    Config       *c = r->c;
    c->norm           = f->norm;
    c->norm_placement = f->placement;
    c->qk_norm        = f->qk_norm;
    c->positions      = f->positions;
    turn_on(c, f->has);
    for (const FamilyFlag *g = f->flags; g < f->flags + 4 && g->name; g++) {
        const Json *j  = hf_take(r, g->name);
        bool        on = g->absent;
        if (j && !json_read_bool(j, hf_what(r, g->name), &on, r->err))
            return false;
        double value = on ? g->if_true : g->if_false;
        if (on)
            turn_on(c, g->has);
        if (g->form == FORM_SIZE)
            memcpy((char *)c + g->at, &(int){ (int)value }, sizeof(int));
        else if (g->form == FORM_NUMBER)
            memcpy((char *)c + g->at, &value, sizeof value);
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
        const Json *k = hf_take(r, f->act_keys[i]);
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
    return fail(r->err, INPUT, "%s: expected one of %s, found %s", hf_what(r, key), known, hf_found(j, found, sizeof found));
}

static bool read_heads(HfReader *r)
{
    Config     *c = r->c;
    unsigned    has = r->family->has;
    const Json *kv = has & NO_KV_HEADS ? NULL : hf_take(r, "num_key_value_heads"), *dim = has & NO_HEAD_DIM ? NULL : hf_take(r, "head_dim");
    c->kv_heads = kv ? 0 : r->family->kv_heads;
    if (kv && !json_is_null(kv) && !hf_size(r, "num_key_value_heads", kv, &c->kv_heads))
        return false;
    if (c->kv_heads == 0 || has & NO_KV_HEADS)
        c->kv_heads = c->heads;
    c->head_dim = dim ? 0 : r->family->head_dim;
    if (dim && !json_is_null(dim) && !hf_size(r, "head_dim", dim, &c->head_dim))
        return false;
    if (c->head_dim == 0 && c->d_model % c->heads != 0)
        return fail(r->err, INPUT, "%s: expected a multiple of num_attention_heads %d%s, found %d", hf_what(r, "hidden_size"), c->heads,
                    has & NO_HEAD_DIM ? "" : ", or a head_dim", c->d_model);
    c->head_dim = c->head_dim ? c->head_dim : c->d_model / c->heads;
    return true;
}

/* ---- Windows ---- */

/* Layers without a window by the family's rule. */
static bool full_layers(HfReader *r, bool windowed, Layers *full)
{
    const Family *f = r->family;
    int64_t       first = 28;
    int           every = f->window_every;
    const Json   *j;
    const char   *name;
    if (f->window == WINDOW_LAST) {
        j = hf_take(r, "max_window_layers");
        if (j && !json_is_null(j) && !json_read_int(j, hf_what(r, "max_window_layers"), 0, INT32_MAX, &first, r->err))
            return false;
        for (int l = 0; l < r->c->n_layers && l < first; l++)
            layers_add(full, l);
    } else if (f->window == WINDOW_EVERY) {
        if (!hf_take_any(r, "sliding_window_pattern|_sliding_window_pattern", &j, &name)
            || (j && !json_is_null(j) && !hf_size(r, name, j, &every)))
            return false;
        for (int l = every - 1; l < r->c->n_layers; l += every)
            layers_add(full, l);
    } else if (f->window == WINDOW_NAMED && windowed && (!look(r, "layer_types") || json_is_null(look(r, "layer_types")))) {
        return fail(r->err, INPUT, "%s: expected the layers with a window, as use_sliding_window is true, found no such key",
                    hf_what(r, "layer_types"));
    }
    return true;
}

/* layer_types: the layers without a window; families with the same everywhere must agree with it. */
static bool layer_types(HfReader *r, const Json *list, Layers *full)
{
    Config *c       = r->c;
    bool    sliding = c->window > 0, both = sliding && r->family->window > WINDOW_ALL;
    char    key[32], found[80], hint[48] = "no sliding_window";
    int     l = 0;
    if (!json_is_array(list) || json_count(list) != (size_t)c->n_layers)
        return fail(r->err, INPUT, "%s: expected %d entries, found %zu", hf_what(r, "layer_types"), c->n_layers, json_count(list));
    *full = (Layers){ 0 };
    for (const Json *i = json_first(list); i; i = json_next(i), l++) {
        const char *word = "";
        bool        is_full, good;
        if (json_is_string(i) && !json_read_string(i, "", &word, NULL))
            return false;
        is_full = strcmp(word, "full_attention") == 0;
        good    = is_full ? both || !sliding : sliding && strcmp(word, "sliding_attention") == 0;
        snprintf(key, sizeof key, "layer_types[%d]", l);
        if (sliding)
            snprintf(hint, sizeof hint, "sliding_window %d", c->window);
        if (!good)
            return fail(r->err, INPUT, "%s: expected %s, found %s (%s)", hf_what(r, key),
                        both ? "'sliding_attention' or 'full_attention'" : sliding ? "'sliding_attention'" : "'full_attention'",
                        hf_found(i, found, sizeof found), hint);
        if (is_full && sliding)
            layers_add(full, l);
    }
    return true;
}

static bool read_window(HfReader *r)
{
    const Family *f = r->family;
    Config       *c = r->c;
    bool          on = f->window != WINDOW_NONE;
    int           n_full = 0;
    if (f->window == WINDOW_LAST || f->window == WINDOW_NAMED) {
        const Json *use = hf_take(r, "use_sliding_window");
        on = false;
        if (use && !json_read_bool(use, hf_what(r, "use_sliding_window"), &on, r->err))
            return false;
    }
    const Json *size = f->window == WINDOW_NONE ? NULL : hf_take(r, "sliding_window");
    if (on && !size)
        c->window = f->window_absent;
    else if (on && !json_is_null(size) && !hf_size(r, "sliding_window", size, &c->window))
        return false;
    Layers      full  = { 0 };
    const Json *types;
    if (!full_layers(r, c->window > 0, &full))
        return false;
    types = hf_take(r, "layer_types");
    if (types && !json_is_null(types) && !layer_types(r, types, &full))
        return false;
    for (int l = 0; l < c->n_layers; l++)
        n_full += layers_has(&full, l);
    if (c->window == 0 || n_full == c->n_layers) {
        c->window       = 0;
        c->theta_window = 0;
    } else {
        c->full_layers = full;
    }
    return true;
}

/* ---- Experts ---- */

static bool read_experts(HfReader *r)
{
    Config     *c = r->c;
    int         step = 1, n_dense = 0;
    const Json *list, *j;
    if (c->n_experts == 0)
        return true;
    list = hf_take(r, "mlp_only_layers");
    j    = hf_take(r, "decoder_sparse_step");
    if (list && !json_is_null(list) && !json_is_array(list))
        return fail(r->err, INPUT, "%s: expected an array of layers, found %s", hf_what(r, "mlp_only_layers"), json_kind(list));
    if (j && !hf_size(r, "decoder_sparse_step", j, &step))
        return false;
    for (int l = 0; l < c->n_layers; l++)
        if ((l + 1) % step != 0)
            layers_add(&c->dense_layers, l);
    for (const Json *i = json_first(list); i; i = json_next(i)) {
        int64_t l;
        if (!json_read_int(i, hf_what(r, "mlp_only_layers"), 0, INT32_MAX, &l, r->err))
            return false;
        if (l < c->n_layers)
            layers_add(&c->dense_layers, (int)l);
    }
    for (int l = 0; l < c->n_layers; l++)
        n_dense += layers_has(&c->dense_layers, l);
    if (n_dense == c->n_layers) {
        c->n_experts = c->experts_used = c->expert_d_ff = c->shared_d_ff = 0;
        c->renormalize = c->shared_router = false;
        c->dense_layers = (Layers){ 0 };
    }
    return true;
}

/* ---- Ids ---- */

/* Ids outside of the vocabulary (a family's default in a smaller model) never occur: left out. */
static bool add_id(HfReader *r, const char *what, const Json *j, int *ids, int *n, int most)
{
    int64_t id;
    if (!json_read_int(j, what, 0, INT32_MAX, &id, r->err))
        return false;
    if (id >= r->c->vocab_size)
        return source_warn(r->source, r->err, "%s: %lld is outside of vocab_size %d: left out", what, (long long)id, r->c->vocab_size);
    for (int i = 0; i < *n; i++)
        if (ids[i] == id)
            return true;
    if (*n == most)
        return fail(r->err, INPUT, "%s: expected at most %d ids, found more", what, most);
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
    const Json *bos = hf_take(r, "bos_token_id"), *eos = hf_take(r, "eos_token_id");
    int         first[MAX_EOS + 1] = { 0 }, n = 0;
    if (!add_ids(r, hf_what(r, "bos_token_id"), bos, first, &n, MAX_EOS) || !add_ids(r, hf_what(r, "eos_token_id"), eos, c->eos, &c->n_eos, MAX_EOS))
        return false;
    if (!bos && r->family->bos >= 0 && r->family->bos < c->vocab_size)
        first[n++] = r->family->bos;
    c->bos = n ? first[0] : -1;
    if (!eos && r->family->eos >= 0 && r->family->eos < c->vocab_size)
        c->eos[c->n_eos++] = r->family->eos;
    return true;
}

/* ---- What is left over ---- */

static bool has_value(const char *allowed, const Json *j)
{
    bool   flag;
    double x;
    if (json_is_bool(j) && json_read_bool(j, "", &flag, NULL))
        return strstr(allowed, flag ? "true" : "false") != NULL;
    if (json_is_number(j) && json_read_double(j, "", -INFINITY, INFINITY, &x, NULL))
        return (x == 0 && strchr(allowed, '0')) || (x == 1 && strchr(allowed, '1'));
    if (json_is_object(j))
        return json_count(j) == 0 && strcmp(allowed, "{}") == 0;
    const char *text;
    return json_is_string(j) && json_read_string(j, "", &text, NULL) && allowed[0] == '"' && strlen(allowed) == strlen(text) + 2
        && strncmp(allowed + 1, text, strlen(text)) == 0;
}

static bool check_left(HfReader *r)
{
    char found[80];
    for (const Json *i = json_first(r->keys); i; i = json_next(i)) {
        const char *key = json_key(i), *allowed = family_key_harmless_value(key);
        bool        taken = json_is_null(i) || family_key_harmless(key) || (r->family->unused_key && strcmp(key, r->family->unused_key) == 0);
        for (size_t t = 0; t < r->n_taken && !taken; t++)
            taken = strcmp(r->taken[t], key) == 0;
        if (taken)
            continue;
        if (!allowed)
            return fail(r->err, INPUT, "%s: key '%s': unknown, and may change the result", r->path, key);
        if (!has_value(allowed, i))
            return fail(r->err, INPUT, "%s: expected %s, found %s", hf_what(r, key), allowed, hf_found(i, found, sizeof found));
    }
    return true;
}

/* ---- The file ---- */

static bool not_quantized(HfReader *r)
{
    const Json *q = hf_take(r, "quantization_config"), *method = json_get(q, "quant_method");
    char        found[80];
    return !q || json_is_null(q)
        || fail(r->err, INPUT, "%s: expected weights that are not quantized, found %s", hf_what(r, "quantization_config"),
                hf_found(method ? method : q, found, sizeof found));
}

static bool read_config(HfReader *r)
{
    return unwrap(r) && find_family(r) && not_quantized(r) && read_table(r) && read_flags(r) && read_activation(r) && read_heads(r)
        && hf_rope_read(r) && read_window(r) && read_experts(r) && read_ids(r) && check_left(r);
}

static Json *open_json(const char *path, Error *err)
{
    char  *text;
    size_t n;
    if (!file_read(path, MAX_CONFIG, &text, &n, err))
        return NULL;
    Json *root = json_parse(text, n, path, err);
    free(text);
    if (root && !json_is_object(root)) {
        fail(err, INPUT, "%s: expected a JSON object, found %s", path, json_kind(root));
        json_free(root);
        root = NULL;
    }
    return root;
}

static bool more_ends(HfReader *r, const char *path)
{
    char  what[HF_WHAT];
    Json *root = open_json(path, r->err);
    snprintf(what, sizeof what, "%s: eos_token_id", path);
    bool ok = root && add_ids(r, what, json_get(root, "eos_token_id"), r->c->eos, &r->c->n_eos, MAX_EOS);
    json_free(root);
    return ok;
}

bool hf_config_read(HfConfig *out, Source *s, const char *path, const char *generation_path, Error *err)
{
    Json    *root = open_json(path, err);
    HfReader r    = { .path = path, .keys = root, .c = &out->config, .source = s, .err = err };
    config_defaults(&out->config);
    bool ok = root && read_config(&r);
    out->family  = r.family;
    out->wrapper = r.wrapper;
    if (ok)
        snprintf(out->config.family, sizeof out->config.family, "%s", r.family->name);
    ok = ok && (!generation_path || more_ends(&r, generation_path)) && config_check(&out->config, path, err);
    json_free(root);
    return ok;
}
