/* source/hf_pooling.c: how a sentence-transformers folder pools hidden states into a vector.
 * modules.json lists the modules in order: the Transformer, a Pooling with its own config, matrices
 * (Dense) with their own files, and perhaps Normalize. Anything unsupported is an error only when
 * vectors are requested. */
#include "source/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { MAX_MODULES = 1 << 20 };

/* An object, or the list of modules. */
static Json *open_json(Source *s, const char *path, bool list, Error *err)
{
    char  *text;
    size_t n;
    if (!source_uses(s, path, err) || !file_read(path, MAX_MODULES, &text, &n, err))
        return NULL;
    Json *root = json_parse(text, n, path, err);
    free(text);
    if (!root || (list ? json_is_array(root) : json_is_object(root)))
        return root;
    fail(err, INPUT, "%s: expected an %s, found %s", path, list ? "array" : "object",
         json_kind(root));
    json_free(root);
    return NULL;
}

static const char *text_of(const Json *object, const char *key)
{
    const char *text;
    Error       ignored;
    const Json *j = json_get(object, key);
    return json_is_string(j) && json_read_string(j, key, &text, &ignored) ? text : "";
}

/* The names of a mode: as a flag, of older files, and as the word of `pooling_mode`. */
static const struct Mode { const char *flag, *word; PoolKind kind; } modes[] = {
    { "pooling_mode_mean_tokens",          "mean",                 POOL_MEAN  },
    { "pooling_mode_lasttoken",            "lasttoken",            POOL_LAST  },
    { "pooling_mode_cls_token",            "cls",                  POOL_CLS   },
    { "pooling_mode_max_tokens",           "max",                  POOL_OTHER },
    { "pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", POOL_OTHER },
    { "pooling_mode_weightedmean_tokens",  "weightedmean",         POOL_OTHER },
};
enum { N_MODES = sizeof modes / sizeof modes[0] };

/* Absent, all but the first are false, as in sentence-transformers' class Pooling. */
static bool read_mode(const Json *root, const char *path, const struct Mode **out, Error *err)
{
    const Json *word = json_get(root, "pooling_mode");
    char        what[PATH_BYTES + 64];
    int         n = 0;
    bool        on;
    for (int i = 0; i < N_MODES; i++) {
        const Json *j = json_get(root, modes[i].flag);
        snprintf(what, sizeof what, "%s: %s", path, modes[i].flag);
        on = i == 0;
        if (word && !json_is_null(word))
            on = strcmp(text_of(root, "pooling_mode"), modes[i].word) == 0;
        else if (j && !json_read_bool(j, what, &on, err))
            return false;
        if (on)
            *out = &modes[i];
        n += on;
    }
    return n == 1
        || fail(err, INPUT, "%s: expected one way of pooling that is known, found %d", path, n);
}

static bool read_pooling(Source *s, const char *folder, Config *c, Error *err)
{
    char               name[256], path[PATH_BYTES];
    const struct Mode *mode = NULL;
    bool               prompt = true;
    if (!folder[0] || strchr(folder, '/') || folder[0] == '.'
        || snprintf(name, sizeof name, "%s/config.json", folder) >= (int)sizeof name
        || !path_there(s->path, name, path))
        return fail(err, INPUT, "path: expected the folder of Pooling, with a config.json, found "
                                "'%.80s'", folder);
    Json       *root = open_json(s, path, false, err);
    const Json *with = json_get(root, "include_prompt");
    bool        ok   = root && read_mode(root, path, &mode, err)
        && (!with || json_read_bool(with, "include_prompt", &prompt, err));
    if (ok && !prompt)
        ok = fail(err, INPUT, "%s: include_prompt: expected true, found false", path);
    if (ok && mode->kind == POOL_OTHER)
        ok = fail(err, INPUT, "%s: expected mean, lasttoken or cls, found %s", path, mode->word);
    if (ok)
        c->pool = mode->kind;
    json_free(root);
    return ok;
}

/* A class of sentence-transformers by its own name, the last part of the path to it. */
static bool is_class(const char *type, const char *name)
{
    const char *last = strrchr(type, '.');
    return strncmp(type, "sentence_transformers.", 22) == 0 && strcmp(last + 1, name) == 0;
}

/* ---- Dense ----------------------------------------------------------------------------------- */

static bool dense_act(const char *path, const char *word, DenseAct *out, Error *err)
{
    static const struct { const char *name; DenseAct act; } acts[] = {
        { "Identity", DENSE_PLAIN }, { "Tanh", DENSE_TANH }, { "ReLU", DENSE_RELU },
        { "Sigmoid", DENSE_SIGMOID },
    };
    const char *last = strrchr(word, '.');
    for (size_t i = 0; last && strncmp(word, "torch.nn.", 9) == 0
                       && i < sizeof acts / sizeof acts[0]; i++)
        if (strcmp(last + 1, acts[i].name) == 0) {
            *out = acts[i].act;
            return true;
        }
    return fail(err, INPUT, "%s: activation_function: expected Identity, Tanh, ReLU or Sigmoid of "
                            "torch.nn, found '%.80s'", path, word);
}

/* A key that must have its no-effect value. */
static bool check_plain(const Json *root, const char *path, Error *err)
{
    static const char *const known = " in_features out_features bias activation_function ";
    for (const Json *i = json_first(root); i; i = json_next(i)) {
        char word[64];
        bool on;
        const bool short_ = snprintf(word, sizeof word, " %s ", json_key(i)) < (int)sizeof word;
        if (json_is_null(i) || (short_ && strstr(known, word)))
            continue;
        if (strcmp(json_key(i), "use_residual") == 0 && json_is_bool(i)
            && json_read_bool(i, "", &on, NULL) && !on)
            continue;
        if (strncmp(json_key(i), "module_", 7) == 0 && json_is_string(i)
            && strcmp(text_of(root, json_key(i)), "sentence_embedding") == 0)
            continue;
        return fail(err, INPUT, "%s: key '%.80s': not kept, and may change the vectors", path,
                    json_key(i));
    }
    return true;
}

/* The keys that are absent have the defaults of sentence-transformers' class Dense. */
static bool read_dense(Source *s, const char *folder, Config *c, Error *err)
{
    static const char usual[] = "torch.nn.modules.activation.Tanh";
    char     path[PATH_BYTES], weights[PATH_BYTES], name[256], other[256];
    int64_t  k = 0, rows = 0;
    bool     bias = true;
    DenseAct act = DENSE_PLAIN;
    const bool second = c->dense1 > 0;
    if (!folder[0] || strchr(folder, '/') || folder[0] == '.' || c->dense2
        || snprintf(name, sizeof name, "%s/config.json", folder) >= (int)sizeof name
        || !path_there(s->path, name, path))
        return fail(err, INPUT, "path: expected the folder of one of at most two Dense, with a "
                                "config.json, found '%.80s'", folder);
    snprintf(name, sizeof name, "%.200s/model.safetensors", folder);
    snprintf(other, sizeof other, "%.200s/pytorch_model.bin", folder);
    if (!path_there(s->path, name, weights) && !path_there(s->path, other, weights))
        return fail(err, INPUT, "%s: expected model.safetensors or pytorch_model.bin beside it, "
                                "found none", path);
    Json       *root = open_json(s, path, false, err);
    const Json *with = json_get(root, "bias"), *word = json_get(root, "activation_function");
    bool ok = root && check_plain(root, path, err)
        && json_read_int(json_get(root, "in_features"), "in_features", 1, MAX_WIDTH, &k, err)
        && json_read_int(json_get(root, "out_features"), "out_features", 1, MAX_WIDTH, &rows, err)
        && (!with || json_read_bool(with, "bias", &bias, err))
        && dense_act(path, word ? text_of(root, "activation_function") : usual, &act, err);
    const int before = second ? c->dense1 : c->d_model;
    if (ok && k != before)
        ok = fail(err, INPUT, "%s: in_features: expected %d, found %lld", path, before,
                  (long long)k);
    if (ok && second) {
        c->dense2 = (int)rows, c->dense2_bias = bias, c->dense2_act = act;
    } else if (ok) {
        c->dense1 = (int)rows, c->dense1_bias = bias, c->dense1_act = act;
    }
    json_free(root);
    char **to = &s->dense[second];
    *to       = ok ? source_alloc(s, strlen(weights) + 1, err) : NULL;
    if (*to)
        memcpy(*to, weights, strlen(weights) + 1);
    return ok && *to;
}

/* Transformer, Pooling, up to two Dense, and perhaps Normalize. */
static const char *expected_module(size_t n, const char *type, bool *last)
{
    static const char *const first[] = { "Transformer", "Pooling" };
    const char *name = *last ? "none" : n < 2 ? first[n] : is_class(type, "Dense") ? "Dense"
                                                                                   : "Normalize";
    *last |= strcmp(name, "Normalize") == 0;
    return name;
}

static bool read_modules(Source *s, const Json *root, Config *c, Error *err)
{
    size_t n    = 0;
    bool   last = false;
    if (json_count(root) < 2)
        return fail(err, INPUT, "expected Transformer and Pooling, found %zu modules",
                    json_count(root));
    for (const Json *i = json_first(root); i; i = json_next(i), n++) {
        const char *type = text_of(i, "type"), *path = text_of(i, "path");
        const char *expected = expected_module(n, type, &last);
        if (!is_class(type, expected))
            return fail(err, INPUT, "module %zu: expected %s, found '%.80s'", n, expected, type);
        if (n == 0 && path[0])
            return fail(err, INPUT, "module 0: path: expected this folder, found '%.80s'", path);
        if ((n == 1 && !read_pooling(s, path, c, err))
            || (n > 1 && !last && !read_dense(s, path, c, err)))
            return false;
    }
    return true;
}

/* Settings that would change the text before it becomes tokens. */
static bool check_texts(Source *s, Error *err)
{
    static const struct { const char *file, *key; } settings[] = {
        { "config_sentence_transformers.json", "default_prompt_name" },
        { "sentence_bert_config.json", "do_lower_case" },
    };
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof settings / sizeof settings[0]; i++) {
        char path[PATH_BYTES];
        if (!path_there(s->path, settings[i].file, path))
            continue;
        Json       *root = open_json(s, path, false, err);
        const Json *j    = json_get(root, settings[i].key);
        bool        on   = j && !json_is_null(j);
        if (json_is_bool(j))
            ok = json_read_bool(j, settings[i].key, &on, err);
        ok = ok && root
            && (!on || fail(err, INPUT, "%s: %s: expected none, found %.80s", path,
                            settings[i].key, json_is_bool(j) ? "true"
                                                             : text_of(root, settings[i].key)));
        json_free(root);
    }
    return ok;
}

bool hf_pooling_read(Source *s, Config *c, Error *err)
{
    char  path[PATH_BYTES];
    Error why = { 0 };
    if (!path_there(s->path, "modules.json", path))
        return true;
    Json *root = open_json(s, path, true, &why);
    bool  ok   = root && read_modules(s, root, c, &why), named = root && !ok;
    ok         = ok && check_texts(s, &why);
    json_free(root);
    if (!ok && why.status != INPUT)
        return fail(err, why.status, "%s", why.msg);
    if (!ok) {
        TextOut note = { 0 };
        text_out(&note, "%s%s%s", named ? path : "", named ? ": " : "", why.msg);
        c->pool        = POOL_OTHER;
        c->dense1      = c->dense2 = 0;
        c->dense1_bias = c->dense2_bias = false;
        c->dense1_act  = c->dense2_act = DENSE_PLAIN;
        s->pool_note = source_alloc(s, note.n + 1, err);
        ok           = s->pool_note && note.text;
        if (ok)
            memcpy(s->pool_note, note.text, note.n);
        text_out_free(&note);
    }
    return ok || no_memory(path, err);
}
