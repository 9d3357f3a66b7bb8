/* source/hf_pooling.c: how the folder of a model of sentence-transformers makes vectors of states.
 * modules.json lists what a text goes through: the Transformer, a Pooling with a config of its own,
 * and perhaps Normalize. What is not kept is no error before somebody wants vectors. */
#include "source/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { MAX_MODULES = 1 << 20 };

static Json *open_json(Source *s, const char *path, Error *err)
{
    char  *text;
    size_t n;
    if (!source_uses(s, path, err) || !file_read(path, MAX_MODULES, &text, &n, err))
        return NULL;
    Json *root = json_parse(text, n, path, err);
    free(text);
    return root;
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
    Json       *root = open_json(s, path, err);
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

static bool read_modules(Source *s, const Json *root, Config *c, Error *err)
{
    static const char *const expected[] = { "Transformer", "Pooling", "Normalize" };
    size_t                   n = 0;
    if (!json_is_array(root) || json_count(root) < 2)
        return fail(err, INPUT, "expected Transformer and Pooling, found %zu modules",
                    json_count(root));
    for (const Json *i = json_first(root); i; i = json_next(i), n++) {
        const char *type = text_of(i, "type"), *path = text_of(i, "path");
        if (n >= 3 || !is_class(type, expected[n]))
            return fail(err, INPUT, "module %zu: expected %s, found '%.80s'", n,
                        n < 3 ? expected[n] : "none", type);
        if (n == 0 && path[0])
            return fail(err, INPUT, "module 0: path: expected this folder, found '%.80s'", path);
        if (n == 1 && !read_pooling(s, path, c, err))
            return false;
    }
    return true;
}

/* What would change the text before it becomes tokens. */
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
        Json       *root = open_json(s, path, err);
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
    Json *root = open_json(s, path, &why);
    bool  ok   = root && read_modules(s, root, c, &why), named = root && !ok;
    ok         = ok && check_texts(s, &why);
    json_free(root);
    if (!ok && why.status != INPUT)
        return fail(err, why.status, "%s", why.msg);
    if (!ok) {
        TextOut note = { 0 };
        text_out(&note, "%s%s%s", named ? path : "", named ? ": " : "", why.msg);
        c->pool      = POOL_OTHER;
        s->pool_note = source_alloc(s, note.n + 1, err);
        ok           = s->pool_note && note.text;
        if (ok)
            memcpy(s->pool_note, note.text, note.n);
        text_out_free(&note);
    }
    return ok || no_memory(path, err);
}
