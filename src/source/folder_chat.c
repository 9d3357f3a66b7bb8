/* source/folder_chat.c: the chat templates of a Hugging Face folder, and the names of its special
 * tokens, which templates use. */
#include "source/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

enum { MAX_JSON = 64 << 20, MOST_OWN_TOKENS = 1000 };

bool source_keep_chat(Source *s, ChatMeta which, const char *text, size_t n, Error *err)
{
    if (n > MOST_CHAT_META || memchr(text, 0, n))
        return true;
    char *copy = source_alloc(s, n + 1, err);
    if (copy)
        memcpy(copy, text, n);
    s->chat_meta[which] = copy;
    return copy != NULL;
}

bool source_keep_special(Source *s, TextOut *members, Error *err)
{
    bool ok = members->n == 0 && !members->failed;
    if (!ok)
        ok = text_out_add(members, "}", 1, err)
            && source_keep_chat(s, CHAT_SPECIAL_TOKENS, members->text, members->n, err);
    text_out_free(members);
    return ok;
}

static bool keep_string(Source *s, ChatMeta which, const Json *j, Error *err)
{
    const char *text;
    Error       ignored;
    return !json_is_string(j) || !json_read_string(j, "", &text, &ignored)
        || source_keep_chat(s, which, text, strlen(text), err);
}

/* A template, or a list of {"name", "template"}. */
static bool keep_templates(Source *s, const Json *t, Error *err)
{
    const char *name;
    Error       ignored;
    bool        ok = keep_string(s, CHAT_TEMPLATE, t, err);
    for (const Json *i = json_is_array(t) ? json_first(t) : NULL; ok && i; i = json_next(i)) {
        if (!json_read_string(json_get(i, "name"), "", &name, &ignored))
            continue;
        const Json *text = json_get(i, "template");
        if (strcmp(name, "default") == 0)
            ok = keep_string(s, CHAT_TEMPLATE, text, err);
        else if (strcmp(name, "tool_use") == 0)
            ok = keep_string(s, CHAT_TEMPLATE_TOOLS, text, err);
    }
    return ok;
}

static bool has_template(const Source *s)
{
    return s->chat_meta[CHAT_TEMPLATE] || s->chat_meta[CHAT_TEMPLATE_TOOLS];
}

/* The JSON of a file of the folder. *root is NULL if there is none. */
static bool read_json(Source *s, const char *folder, const char *name, Json **root, Error *err)
{
    char   path[PATH_BYTES], *text;
    size_t n;
    *root = NULL;
    if (!path_there(folder, name, path))
        return true;
    if (!source_uses(s, path, err) || !file_read(path, MAX_JSON, &text, &n, err))
        return false;
    *root = json_parse(text, n, path, err);
    free(text);
    return *root != NULL;
}

/* A template in a separate file. */
static bool read_template(Source *s, const char *folder, const char *name, ChatMeta which,
                          Error *err)
{
    char   path[PATH_BYTES], *text;
    size_t n;
    if (!path_there(folder, name, path))
        return true;
    if (!file_read(path, MOST_CHAT_META, &text, &n, err))
        return false;
    bool ok = source_keep_chat(s, which, text, n, err) && source_uses(s, path, err);
    free(text);
    return ok;
}

/* Writes a special token: a string, {"content": string} or null. */
static void out_token(TextOut *o, const char *key, const Json *value)
{
    const char *text;
    Error       ignored;
    value = json_is_object(value) ? json_get(value, "content") : value;
    if (!json_is_null(value) && !json_is_string(value))
        return;
    if (!json_is_string(value) || !json_read_string(value, key, &text, &ignored))
        text = NULL;
    json_out(o, o->n ? "%s: %s" : "{%s: %s", key, text);
}

const char *const special_token_keys[SPECIAL_TOKEN_KEYS] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"
};

static bool is_standard(const char *key)
{
    for (int i = 0; i < SPECIAL_TOKEN_KEYS; i++)
        if (strcmp(key, special_token_keys[i]) == 0)
            return true;
    return false;
}

/* A model-specific token: a string or an AddedToken. */
static bool is_token(const Json *value)
{
    const char *type;
    Error       ignored;
    return json_is_string(value)
        || (json_read_string(json_get(value, "__type"), "", &type, &ignored)
            && strcmp(type, "AddedToken") == 0);
}

static void out_tokens_of(TextOut *o, const Json *object)
{
    int left = MOST_OWN_TOKENS;
    for (const Json *i = json_is_object(object) ? json_first(object) : NULL; i && left-- > 0;
         i = json_next(i))
        if (!is_standard(json_key(i)) && is_token(i))
            out_token(o, json_key(i), i);
}

/* Tokens with model-specific names: those of the object extra_special_tokens and keys that end with
 * _token; without any, those of model_specific_special_tokens. Source: transformers,
 * tokenization_utils_base.py. */
static void out_own_tokens(TextOut *o, const Json *config, const Json *extra)
{
    size_t before = o->n;
    int    left = MOST_OWN_TOKENS;
    out_tokens_of(o, extra);
    for (const Json *i = json_is_object(config) ? json_first(config) : NULL; i && left > 0;
         i = json_next(i)) {
        size_t n = strlen(json_key(i));
        if (n >= 6 && strcmp(json_key(i) + n - 6, "_token") == 0 && left-- > 0
            && !is_standard(json_key(i)) && is_token(i) && !json_get(extra, json_key(i)))
            out_token(o, json_key(i), i);
    }
    if (o->n == before)
        out_tokens_of(o, json_get(config, "model_specific_special_tokens"));
}

static bool keep_special(Source *s, const char *folder, const Json *config, Error *err)
{
    Json       *map;
    const Json *extra = json_get(config, "extra_special_tokens"); /* may be a list of others */
    TextOut     o = { 0 };
    if (!read_json(s, folder, "special_tokens_map.json", &map, err))
        return false;
    for (int i = 0; i < SPECIAL_TOKEN_KEYS; i++) {
        const char *key = special_token_keys[i];
        const Json *from = json_get(extra, key) ? extra : json_get(config, key) ? config : map;
        out_token(&o, key, json_get(from, key));
    }
    out_own_tokens(&o, config, extra);
    json_free(map);
    return source_keep_special(s, &o, err);
}

bool folder_chat(Source *s, const char *folder, Error *err)
{
    Json *config, *processor = NULL;
    if (!read_template(s, folder, "chat_template.jinja", CHAT_TEMPLATE, err)
        || !read_template(s, folder, "additional_chat_templates/tool_use.jinja",
                          CHAT_TEMPLATE_TOOLS, err)
        || !read_json(s, folder, "tokenizer_config.json", &config, err))
        return false;
    bool ok = (has_template(s) || keep_templates(s, json_get(config, "chat_template"), err))
        && keep_special(s, folder, config, err);
    json_free(config);
    if (ok && !has_template(s))
        ok = read_json(s, folder, "chat_template.json", &processor, err)
            && keep_templates(s, json_get(processor, "chat_template"), err);
    json_free(processor);
    return ok;
}
