/* source/folder_chat.c: the chat templates of a Hugging Face folder, and the names of its special
 * tokens, which templates write. */
#include "source/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

enum { MAX_JSON = 64 << 20 };

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

/* A template in a file of its own. */
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

/* Spells what config says of a special token, or else map: a text, {"content": text} or null. */
static void add_token(TextOut *o, const char *key, const Json *config, const Json *map)
{
    const Json *value = json_get(config, key);
    const char *text;
    Error       ignored;
    value = value ? value : json_get(map, key);
    value = json_is_object(value) ? json_get(value, "content") : value;
    if (!json_is_null(value) && !json_is_string(value))
        return;
    text_out(o, "%s\"%s\": ", o->n ? ", " : "{", key);
    if (json_is_string(value) && json_read_string(value, key, &text, &ignored))
        json_out_string(o, text, strlen(text));
    else
        text_out(o, "null");
}

const char *const special_token_keys[SPECIAL_TOKEN_KEYS] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"
};

static bool keep_special(Source *s, const char *folder, const Json *config, Error *err)
{
    Json   *map;
    TextOut o = { 0 };
    if (!read_json(s, folder, "special_tokens_map.json", &map, err))
        return false;
    for (int i = 0; i < SPECIAL_TOKEN_KEYS; i++)
        add_token(&o, special_token_keys[i], config, map);
    json_free(map);
    bool ok = o.n == 0 && !o.failed;
    if (!ok)
        ok = text_out_add(&o, "}", 1, err)
            && source_keep_chat(s, CHAT_SPECIAL_TOKENS, o.text, o.n, err);
    text_out_free(&o);
    return ok;
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
