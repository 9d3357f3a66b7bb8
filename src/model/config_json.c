/* model/config_json.c: reads and writes a config as JSON; its keys are in config_keys.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/config_keys.h"

/* ---- Unknown keys ---------------------------------------------------------------------------- */

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
            int change = diagonal + (a[i] != b[j]),
                best = row[j] < row[j + 1] ? row[j] + 1 : row[j + 1] + 1;
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

/* names: separated by "|", or NULL. */
static bool is_spelling(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = names && n ? strstr(names, name) : NULL; p; p = strstr(p + 1, name))
        if ((p == names || p[-1] == '|') && (!p[n] || p[n] == '|'))
            return true;
    return false;
}

static const char *nearest_key(const ConfigKey *keys, const char *name)
{
    /* the likeliest mistake is a Hugging Face config.json */
    for (const ConfigKey *key = keys; key->name; key++)
        if (is_spelling(key->hf, name) || is_spelling(key->meta, name))
            return key->name;
    const char *best  = NULL;
    /* more edits are no typo */
    int         least = 1 + (int)(strlen(name) / 3 < 3 ? strlen(name) / 3 : 3);
    for (; keys->name; keys++) {
        int d = edit_distance(name, keys->name);
        if (d <= least && d < (int)strlen(keys->name)) {
            best  = keys->name;
            least = d - 1;
        }
    }
    return best;
}

/* part: the part of the config that has the key, "rope: " or "". */
static bool unknown_key(const ConfigKey *keys, const char *name, const char *what, const char *part,
                        Error *err)
{
    if (strcmp(name, "architectures") == 0 || strcmp(name, "transformers_version") == 0)
        return fail(err, INPUT,
                    "%s: %sunknown key '%s'; this is a Hugging Face config, not a tblock "
                    "config (docs/format.md)",
                    what, part, name);
    const char *hint = nearest_key(keys, name);
    return hint ? fail(err, INPUT, "%s: %sunknown key '%s'; the nearest known key is '%s'", what,
                       part, name, hint)
                : fail(err, INPUT, "%s: %sunknown key '%s'", what, part, name);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool read_word(KeyReader *r, const ConfigKey *key, const Json *item, void *field)
{
    const char *word;
    char        list[160] = "";
    bool        flag;
    if (key->flags & KEY_OR_FALSE && json_is_bool(item)) {
        if (!key_bool(r, key->name, item, &flag))
            return false;
        config_word_set(field, flag);
        return true;
    }
    if (!json_read_string(item, key_what(r, key->name), &word, r->err))
        return false;
    for (int i = 0; key->words[i]; i++) {
        if (strcmp(key->words[i], word) == 0) {
            config_word_set(field, i);
            return true;
        }
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s",
                 i == 0                  ? ""
                     : key->words[i + 1] ? ", "
                                         : " or ",
                 key->words[i]);
    }
    return key_wrong(r, key->name, "expected %s, found '%s'", list, word);
}

static bool read_family(KeyReader *r, const Json *item, char *field, size_t size)
{
    const char *text;
    if (!json_read_string(item, key_what(r, "family"), &text, r->err))
        return false;
    if (!text[0] || strlen(text) >= size)
        return key_wrong(r, "family", "expected a name of 1 to %zu bytes, found '%s'", size - 1,
                         text);
    memset(field, 0, size);
    memcpy(field, text, strlen(text));
    return true;
}

/* An array of ids or of layers. */
static bool read_list(KeyReader *r, const ConfigKey *key, const Json *item, Config *c)
{
    bool eos = key->kind == KEY_EOS;
    int  value;
    if (!json_is_array(item))
        return key_wrong(r, key->name, "expected an array, found %s", json_kind(item));
    if (eos && json_count(item) > MAX_EOS)
        return key_wrong(r, key->name, "expected at most %d ids, found %zu", MAX_EOS,
                         json_count(item));
    for (const Json *i = json_first(item); i; i = json_next(i)) {
        if (!key_int(r, key->name, i, 0, eos ? INT32_MAX : MAX_LAYERS - 1, &value))
            return false;
        if (eos)
            c->eos[c->n_eos++] = value;
        else
            layers_add((Layers *)((char *)c + key->at), value);
    }
    return true;
}

static bool read_rope(Rope *rope, const Json *object, const char *what, Error *err)
{
    static const ConfigKey type_key = { .name = "type", .words = rope_type_words };
    KeyReader   r    = { .path = what, .prefix = "rope.", .json = object, .err = err };
    const Json *type = key_take(&r, "type");
    if (!json_is_object(object))
        return fail(err, INPUT, "%s: rope: expected an object, found %s", what, json_kind(object));
    if (type && !read_word(&r, &type_key, type, &rope->type))
        return false;
    for (const Json *i = json_first(object); i; i = json_next(i)) {
        const ConfigKey *key = find_key(rope_keys, json_key(i));
        if (i == type)
            continue;
        if (!key)
            return unknown_key(rope_keys, json_key(i), what, "rope: ", err);
        if (!(key->types >> rope->type & 1))
            return key_wrong(&r, key->name, "expected no such key with rope type %s",
                             rope_type_words[rope->type]);
        if (!key_read(&r, key, key->name, i, rope))
            return false;
    }
    for (const ConfigKey *key = rope_keys; key->name; key++)
        if (key->needed >> rope->type & 1 && !json_get(object, key->name))
            return key_wrong(&r, key->name, "expected a value with rope type %s, found none",
                             rope_type_words[rope->type]);
    return true;
}

static bool read_key(KeyReader *r, const ConfigKey *key, const Json *item, Config *c)
{
    void *field = (char *)c + key->at;
    switch (key->kind) {
    case KEY_WORD:   return read_word(r, key, item, field);
    case KEY_FAMILY: return read_family(r, item, field, sizeof c->family);
    case KEY_EOS:
    case KEY_LAYERS: return read_list(r, key, item, c);
    case KEY_ROPE:   return read_rope(field, item, r->path, r->err);
    default:         return key_read(r, key, key->name, item, c);
    }
}

static bool read_config(Config *c, const Json *root, const char *what, Error *err)
{
    KeyReader r = { .path = what, .prefix = "", .json = root, .err = err };
    if (!json_is_object(root))
        return fail(err, INPUT, "%s: expected an object, found %s", what, json_kind(root));
    for (const Json *i = json_first(root); i; i = json_next(i)) {
        const ConfigKey *key = find_key(config_keys, json_key(i));
        if (!key)
            return unknown_key(config_keys, json_key(i), what, "", err);
        if (!read_key(&r, key, i, c))
            return false;
    }
    for (const ConfigKey *key = config_keys; key->name; key++)
        if (key->flags & KEY_REQUIRED && !json_get(root, key->name))
            return key_wrong(&r, key->name, "expected an integer, found nothing");
    if (!json_get(root, "kv_heads"))
        c->kv_heads = c->heads;
    if (!json_get(root, "head_dim")) {
        if (c->d_model % c->heads != 0)
            return key_wrong(
                &r, "head_dim",
                "expected a value, found none: d_model %d is not a multiple of heads %d",
                c->d_model, c->heads);
        c->head_dim = c->d_model / c->heads;
    }
    if (!json_get(root, "rotary_dim"))
        c->rotary_dim = c->head_dim;
    return config_check(c, what, err);
}

bool config_parse_json(Config *c, const Json *root, const char *what, Error *err)
{
    config_defaults(c);
    return read_config(c, root, what, err);
}

bool config_parse(Config *c, const char *json, size_t n_bytes, const char *what, Error *err)
{
    Json *root = json_parse(json, n_bytes, what, err);
    bool  ok   = root && config_parse_json(c, root, what, err);
    json_free(root);
    return ok;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* The fewest digits that read back as the same double. */
static void out_double(TextOut *o, double value)
{
    if (value < 1e15 && value == (double)(int64_t)value) /* config_check bounds it below */
        text_out(o, "%" PRId64, (int64_t)value);
    else
        json_out_double(o, value);
}

static void out_rope(TextOut *o, const Rope *r);

static void out_layers(TextOut *o, const Layers *set)
{
    json_out(o, "[");
    for (int l = 0; l < MAX_LAYERS; l++)
        if (layers_has(set, l))
            json_out(o, "%d", l);
    json_out(o, "]");
}

static void out_key(TextOut *o, const ConfigKey *key, const void *base)
{
    const void   *field  = (const char *)base + key->at;
    const Config *config = base;
    int           word;
    json_out(o, "%s:", key->name);
    switch (key->kind) {
    case KEY_INT:    json_out(o, "%d", *(const int *)field); break;
    case KEY_DOUBLE: out_double(o, *(const double *)field); break;
    case KEY_BOOL:   json_out(o, "%i", *(const bool *)field); break;
    case KEY_WORD:
        word = config_word_get(field);
        if (key->flags & KEY_OR_FALSE && word == 0)
            json_out(o, "false");
        else
            json_out(o, "%s", key->words[word]);
        break;
    case KEY_LAYERS: out_layers(o, field); break;
    case KEY_FAMILY: json_out(o, "%s", (const char *)field); break;
    case KEY_EOS:    json_out_ints(o, config->eos, (size_t)config->n_eos); break;
    case KEY_ROPE:   out_rope(o, field); break;
    }
}

static void out_rope(TextOut *o, const Rope *r)
{
    json_out(o, "{type: %s", rope_type_words[r->type]);
    for (const ConfigKey *key = rope_keys; key->name; key++) {
        bool absent = (key->at == offsetof(Rope, attention_factor) && r->attention_factor < 0)
                   || (key->at == offsetof(Rope, mscale) && r->mscale == 0)
                   || (key->at == offsetof(Rope, mscale_all_dim) && r->mscale_all_dim == 0);
        if (absent || !(key->types >> r->type & 1))
            continue;
        out_key(o, key, r);
    }
    json_out(o, "}");
}

char *config_to_json(const Config *c, Error *err)
{
    TextOut o = { 0 };
    json_out(&o, "{");
    for (const ConfigKey *key = config_keys; key->name; key++)
        if (!(key->flags & KEY_SPARSE) || !config_key_default(key, c))
            out_key(&o, key, c);
    json_out(&o, "}");
    return text_out_take(&o, err);
}
