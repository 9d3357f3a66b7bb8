#include "source/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

enum { MAX_TEMPLATE = 1 << 20, MAX_JSON = 64 << 20 };

static bool keep(Source *s, const char *text, Error *err)
{
    size_t n = strlen(text);
    s->chat_template = source_alloc(s, n + 1, err);
    if (s->chat_template)
        memcpy(s->chat_template, text, n);
    return s->chat_template != NULL;
}

/* A template, or a list of {"name", "template"}: the one named default. NULL: none. */
static const char *choose(const Json *t)
{
    const char *name, *text = NULL;
    Error       ignored;
    if (json_is_string(t))
        return json_read_string(t, "", &text, &ignored) ? text : NULL;
    for (const Json *i = json_is_array(t) ? json_first(t) : NULL; i; i = json_next(i))
        if (json_read_string(json_get(i, "name"), "", &name, &ignored)
            && strcmp(name, "default") == 0
            && json_read_string(json_get(i, "template"), "", &text, &ignored))
            return text;
    return NULL;
}

static bool from_json(Source *s, const char *path, Error *err)
{
    char  *text;
    size_t n;
    if (!file_read(path, MAX_JSON, &text, &n, err))
        return false;
    Json *root = json_parse(text, n, path, err);
    free(text);
    const char *found = root ? choose(json_get(root, "chat_template")) : NULL;
    bool        ok    = root && (!found || keep(s, found, err));
    json_free(root);
    return ok;
}

bool folder_chat_template(Source *s, const char *folder, Error *err)
{
    static const char *const files[] = { "tokenizer_config.json", "chat_template.json" };
    char   path[PATH_BYTES], *text;
    size_t n;
    if (path_there(folder, "chat_template.jinja", path)) {
        if (!file_read(path, MAX_TEMPLATE, &text, &n, err))
            return false;
        bool ok = keep(s, text, err) && source_uses(s, path, err);
        free(text);
        return ok;
    }
    for (size_t i = 0; i < sizeof files / sizeof *files && !s->chat_template; i++)
        if (path_there(folder, files[i], path)
            && !(source_uses(s, path, err) && from_json(s, path, err)))
            return false;
    return true;
}
