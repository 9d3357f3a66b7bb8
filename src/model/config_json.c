/* model/config_json.c: the config as JSON, both ways. The keys stand in config.c's tables. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "model/config_keys.h"

/* ---- Unknown keys ---- */

/* What other programs call our keys: the likeliest mistake of all is a config.json handed over as it is. */
static const char *const foreign[][2] = {
    { "hidden_size", "d_model" },            { "dim", "d_model" },
    { "num_hidden_layers", "n_layers" },     { "num_attention_heads", "heads" },
    { "n_heads", "heads" },                  { "num_key_value_heads", "kv_heads" },
    { "n_kv_heads", "kv_heads" },            { "intermediate_size", "d_ff" },
    { "hidden_dim", "d_ff" },                { "rope_theta", "theta" },
    { "rms_norm_eps", "norm_eps" },          { "max_position_embeddings", "n_ctx" },
    { "tie_word_embeddings", "tied_embeddings" }, { "attention_bias", "qkv_bias" },
    { "mlp_bias", "ffn_bias" },              { "sliding_window", "window" },
    { "rope_scaling", "rope" },              { "rope_parameters", "rope" },
    { "bos_token_id", "bos" },               { "eos_token_id", "eos" },
    { "model_type", "family" },              { "hidden_act", "ffn" },
    { "rope_type", "type" },                 { "original_max_position_embeddings", "original_n_ctx" },
};

/* Levenshtein distance; names longer than the row are far from everything. */
static int edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    int    row[LONGEST + 1];
    size_t n = strlen(b);
    if (n > LONGEST || strlen(a) > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= n; j++)
        row[j] = (int)j;
    for (size_t i = 0; a[i]; i++) {
        int diagonal = row[0];
        row[0] = (int)i + 1;
        for (size_t j = 0; j < n; j++) {
            int change = diagonal + (a[i] != b[j]), best = row[j] < row[j + 1] ? row[j] + 1 : row[j + 1] + 1;
            diagonal   = row[j + 1];
            row[j + 1] = change < best ? change : best;
        }
    }
    return row[n];
}

static const ConfigKey *find_key(const ConfigKey *keys, const char *name)
{
    for (; keys->name; keys++)
        if (strcmp(keys->name, name) == 0)
            return keys;
    return NULL;
}

static const char *nearest_key(const ConfigKey *keys, const char *name)
{
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (strcmp(foreign[i][0], name) == 0 && find_key(keys, foreign[i][1]))
            return foreign[i][1];
    const char *best  = NULL;
    int         least = 1 + (int)(strlen(name) / 3 < 3 ? strlen(name) / 3 : 3); /* more edits are no misspelling */
    for (; keys->name; keys++) {
        int d = edit_distance(name, keys->name);
        if (d <= least && d < (int)strlen(keys->name)) {
            best  = keys->name;
            least = d - 1;
        }
    }
    return best;
}

static bool unknown_key(const ConfigKey *keys, const char *name, const char *what, Error *err)
{
    if (strcmp(name, "architectures") == 0 || strcmp(name, "transformers_version") == 0)
        return fail(err, INPUT, "%s: unknown key '%s'; this is a Hugging Face config, not a tblock "
                                "config (docs/format.md)", what, name);
    const char *hint = nearest_key(keys, name);
    return hint ? fail(err, INPUT, "%s: unknown key '%s'; the nearest known key is '%s'", what, name, hint)
                : fail(err, INPUT, "%s: unknown key '%s'", what, name);
}

/* ---- Reading ---- */

enum { WHAT_MAX = 512 };

static bool read_word(const ConfigKey *key, void *field, const Json *item, const char *name, Error *err)
{
    const char *word;
    char        list[160] = "";
    bool        flag;
    if (key->or_false && json_is_bool(item)) {
        if (!json_read_bool(item, name, &flag, err))
            return false;
        config_word_set(field, flag);
        return true;
    }
    if (!json_read_string(item, name, &word, err))
        return false;
    for (int i = 0; key->words[i]; i++) {
        if (strcmp(key->words[i], word) == 0) {
            config_word_set(field, i);
            return true;
        }
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i == 0 ? "" : key->words[i + 1] ? ", " : " or ", key->words[i]);
    }
    return fail(err, INPUT, "%s: expected %s, found '%s'", name, list, word);
}

static bool read_int(const Json *item, const char *name, double min, double max, int *out, Error *err)
{
    int64_t value;
    if (!json_read_int(item, name, (int64_t)min, (int64_t)max, &value, err))
        return false;
    *out = (int)value; /* the bounds of every key fit an int */
    return true;
}

static bool read_family(char *field, size_t size, const Json *item, const char *name, Error *err)
{
    const char *text;
    if (!json_read_string(item, name, &text, err))
        return false;
    if (!text[0] || strlen(text) >= size)
        return fail(err, INPUT, "%s: expected a name of 1 to %zu bytes, found '%s'", name, size - 1, text);
    memset(field, 0, size);
    memcpy(field, text, strlen(text));
    return true;
}

static bool read_eos(Config *c, const Json *item, const char *name, Error *err)
{
    if (!json_is_array(item))
        return fail(err, INPUT, "%s: expected an array, found %s", name, json_kind(item));
    if (json_count(item) > MAX_EOS)
        return fail(err, INPUT, "%s: expected at most %d ids, found %zu", name, MAX_EOS, json_count(item));
    for (const Json *i = json_first(item); i; i = json_next(i))
        if (!read_int(i, name, 0, INT32_MAX, &c->eos[c->n_eos++], err))
            return false;
    return true;
}

static bool read_layers(Layers *set, const Json *item, const char *name, Error *err)
{
    if (!json_is_array(item))
        return fail(err, INPUT, "%s: expected an array, found %s", name, json_kind(item));
    for (const Json *i = json_first(item); i; i = json_next(i)) {
        int layer;
        if (!read_int(i, name, 0, MAX_LAYERS - 1, &layer, err))
            return false;
        layers_add(set, layer);
    }
    return true;
}

static bool read_rope(Config *c, const Json *object, const char *what, Error *err);

/* One key of the config (base is a Config) or of its rope object (base is a Rope); prefix stands before its name in messages. */
static bool read_key(const ConfigKey *key, void *base, const Json *item, const char *prefix, Error *err)
{
    char  name[WHAT_MAX];
    void *field = (char *)base + key->at;
    snprintf(name, sizeof name, "%s%s", prefix, key->name);
    switch (key->kind) {
    case KEY_INT:    return read_int(item, name, key->min, key->max, field, err);
    case KEY_DOUBLE: return json_read_double(item, name, key->min, key->max, field, err);
    case KEY_BOOL:   return json_read_bool(item, name, field, err);
    case KEY_WORD:   return read_word(key, field, item, name, err);
    case KEY_FAMILY: return read_family(field, sizeof ((Config *)base)->family, item, name, err);
    case KEY_EOS:    return read_eos(base, item, name, err);
    case KEY_LAYERS: return read_layers(field, item, name, err);
    case KEY_ROPE:   return read_rope(base, item, name, err);
    }
    return false;
}

static bool read_rope(Config *c, const Json *object, const char *what, Error *err)
{
    static const ConfigKey type_key = { .name = "type", .kind = KEY_WORD, .at = offsetof(Rope, type), .words = rope_type_words };
    Rope *r = &c->rope;
    char  prefix[WHAT_MAX + 2];
    snprintf(prefix, sizeof prefix, "%s.", what);
    if (!json_is_object(object))
        return fail(err, INPUT, "%s: expected an object, found %s", what, json_kind(object));
    const Json *type = json_get(object, "type");
    if (type && !read_key(&type_key, r, type, prefix, err))
        return false;
    for (const Json *i = json_first(object); i; i = json_next(i)) {
        const ConfigKey *key = find_key(rope_keys, json_key(i));
        if (i == type)
            continue;
        if (!key)
            return unknown_key(rope_keys, json_key(i), what, err);
        if (!(key->types >> r->type & 1))
            return fail(err, INPUT, "%s%s: expected no such key with rope type %s", prefix, key->name, rope_type_words[r->type]);
        if (!read_key(key, r, i, prefix, err))
            return false;
    }
    for (const ConfigKey *key = rope_keys; key->name; key++)
        if (key->required && (key->types >> r->type & 1) && !json_get(object, key->name))
            return fail(err, INPUT, "%s%s: expected a value with rope type %s, found none", prefix, key->name,
                        rope_type_words[r->type]);
    return true;
}

static bool read_config(Config *c, const Json *root, const char *what, Error *err)
{
    char prefix[WHAT_MAX + 2];
    snprintf(prefix, sizeof prefix, "%s: ", what);
    if (!json_is_object(root))
        return fail(err, INPUT, "%s: expected an object, found %s", what, json_kind(root));
    for (const Json *i = json_first(root); i; i = json_next(i)) {
        const ConfigKey *key = find_key(config_keys, json_key(i));
        if (!key)
            return unknown_key(config_keys, json_key(i), what, err);
        if (!read_key(key, c, i, prefix, err))
            return false;
    }
    for (const ConfigKey *key = config_keys; key->name; key++)
        if (key->required && !json_get(root, key->name))
            return fail(err, INPUT, "%s: %s: expected an integer, found nothing", what, key->name);
    if (!json_get(root, "kv_heads"))
        c->kv_heads = c->heads;
    if (!json_get(root, "head_dim")) {
        if (c->d_model % c->heads != 0)
            return fail(err, INPUT, "%s: head_dim: expected a value, found none: d_model %d is not "
                                    "a multiple of heads %d", what,
                        c->d_model, c->heads);
        c->head_dim = c->d_model / c->heads;
    }
    if (!json_get(root, "rotary_dim"))
        c->rotary_dim = c->head_dim;
    return config_check(c, what, err);
}

bool config_parse(Config *c, const char *json, size_t n_bytes, const char *what, Error *err)
{
    config_defaults(c);
    Json *root = json_parse(json, n_bytes, what, err);
    bool  ok   = root && read_config(c, root, what, err);
    json_free(root);
    return ok;
}

/* ---- Writing ---- */

/* The fewest digits that read back as the same double. */
static void out_double(TextOut *o, double value)
{
    if (value < 1e15 && value == (double)(int64_t)value) /* config_check bounds it below */
        text_out(o, "%" PRId64, (int64_t)value);
    else
        json_out_double(o, value);
}

static void out_rope(TextOut *o, const Rope *r);

static void out_eos(TextOut *o, const Config *c)
{
    text_out(o, "[");
    for (int i = 0; i < c->n_eos; i++)
        text_out(o, "%s%d", i ? ", " : "", c->eos[i]);
    text_out(o, "]");
}

static void out_word(TextOut *o, const ConfigKey *key, int value)
{
    if (key->or_false && value == 0)
        text_out(o, "false");
    else
        text_out(o, "\"%s\"", key->words[value]);
}

static void out_layers(TextOut *o, const Layers *set)
{
    const char *comma = "";
    text_out(o, "[");
    for (int l = 0; l < MAX_LAYERS; l++)
        if (layers_has(set, l)) {
            text_out(o, "%s%d", comma, l);
            comma = ", ";
        }
    text_out(o, "]");
}

static void out_key(TextOut *o, const ConfigKey *key, const void *base)
{
    const void *field = (const char *)base + key->at;
    text_out(o, "\"%s\": ", key->name);
    switch (key->kind) {
    case KEY_INT:    text_out(o, "%d", *(const int *)field); break;
    case KEY_DOUBLE: out_double(o, *(const double *)field); break;
    case KEY_BOOL:   text_out(o, "%s", *(const bool *)field ? "true" : "false"); break;
    case KEY_WORD:   out_word(o, key, config_word_get(field)); break;
    case KEY_LAYERS: out_layers(o, field); break;
    case KEY_FAMILY: json_out_string(o, field, strlen(field)); break;
    case KEY_EOS:    out_eos(o, base); break;
    case KEY_ROPE:   out_rope(o, field); break;
    }
}

static void out_rope(TextOut *o, const Rope *r)
{
    text_out(o, "{\"type\": \"%s\"", rope_type_words[r->type]);
    for (const ConfigKey *key = rope_keys; key->name; key++) {
        bool absent = (key->at == offsetof(Rope, attention_factor) && r->attention_factor < 0)
                   || (key->at == offsetof(Rope, mscale) && r->mscale == 0)
                   || (key->at == offsetof(Rope, mscale_all_dim) && r->mscale_all_dim == 0);
        if (absent || !(key->types >> r->type & 1))
            continue;
        text_out(o, ", ");
        out_key(o, key, r);
    }
    text_out(o, "}");
}

/* A key that is left out: it has the value that its absence means. */
static bool is_default(const ConfigKey *key, const Config *c)
{
    Config      none;
    const char *value = (const char *)c + key->at, *absent = (const char *)&none + key->at;
    size_t      n = key->kind == KEY_INT ? sizeof(int) : key->kind == KEY_DOUBLE ? sizeof(double)
                  : key->kind == KEY_BOOL ? sizeof(bool) : sizeof(Layers);
    config_defaults(&none);
    none.rotary_dim = c->head_dim;
    return memcmp(value, absent, n) == 0;
}

char *config_to_json(const Config *c, Error *err)
{
    TextOut o = { 0 };
    for (const ConfigKey *key = config_keys; key->name; key++) {
        if (key->sparse && is_default(key, c))
            continue;
        text_out(&o, "%s", key == config_keys ? "{" : ", ");
        out_key(&o, key, c);
    }
    text_out(&o, "}");
    return text_out_take(&o, err);
}
