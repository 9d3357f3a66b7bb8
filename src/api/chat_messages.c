/* api/chat_messages.c: conversations as JSON, in the form that most programs use. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

/* Refuses to write what tblock_chat_from_json would not read. */
static bool check_messages(const tblock_chat_message *m, size_t n, Error *err)
{
    ChatRole role;
    if (n > CHAT_MOST_MESSAGES)
        return fail(err, USAGE, "messages: expected at most %d, found %zu", CHAT_MOST_MESSAGES, n);
    for (size_t i = 0; i < n; i++) {
        if (!chat_role_parse(m[i].role, &role))
            return fail(err, USAGE,
                        "message %zu: role: expected system, user or assistant, found '%s'", i + 1,
                        m[i].role ? m[i].role : "");
        if (m[i].n_bytes && memchr(m[i].text, 0, m[i].n_bytes))
            return fail(err, USAGE, "message %zu: content: expected text without NUL, found one",
                        i + 1);
    }
    return true;
}

bool tblock_chat_to_json(const tblock_chat_message *m, size_t n, char **json, tblock_error *err)
{
    TextOut o = { 0 };
    *json = NULL;
    if (!check_messages(m, n, err))
        return false;
    text_out(&o, "{\"messages\": [");
    for (size_t i = 0; i < n; i++) {
        text_out(&o, "%s\n  {\"role\": ", i ? "," : "");
        json_out_string(&o, m[i].role, strlen(m[i].role));
        text_out(&o, ", \"content\": ");
        json_out_string(&o, m[i].text, m[i].n_bytes);
        text_out(&o, "}");
    }
    text_out(&o, "\n]}\n");
    *json = text_out_take(&o, err);
    return *json != NULL;
}

bool tblock_chat_save(const tblock_chat_message *m, size_t n, const char *path, tblock_error *err)
{
    char *json;
    bool  good = tblock_chat_to_json(m, n, &json, err) && file_write(path, json, strlen(json), err);
    tblock_free(json);
    return good;
}

/* Reads one message; the result points into the parsed text. */
static bool read_message(const Json *j, const char *what, size_t i, tblock_chat_message *out,
                         Error *err)
{
    char        name[512];
    const char *role, *text;
    ChatRole    parsed;
    snprintf(name, sizeof name, "%.400s: message %zu", what, i + 1);
    if (!json_is_object(j))
        return fail(err, INPUT, "%s: expected an object with role and content, found %s", name,
                    json_kind(j));
    snprintf(name, sizeof name, "%.400s: message %zu: role", what, i + 1);
    if (!json_read_string(json_get(j, "role"), name, &role, err))
        return false;
    if (!chat_role_parse(role, &parsed))
        return fail(err, INPUT, "%s: expected system, user or assistant, found '%s'", name, role);
    snprintf(name, sizeof name, "%.400s: message %zu: content", what, i + 1);
    if (!json_read_string(json_get(j, "content"), name, &text, err))
        return false;
    *out = (tblock_chat_message){ .role = chat_role_name(parsed),
                                  .text = text,
                                  .n_bytes = strlen(text) };
    return true;
}

/* Copies messages and their texts into one allocation. */
static tblock_chat_message *own(const tblock_chat_message *m, size_t n, Error *err)
{
    size_t bytes = n * sizeof *m + 1;
    for (size_t i = 0; i < n; i++)
        if (!add_size(bytes, m[i].n_bytes + 1, &bytes)) {
            no_memory(NULL, err);
            return NULL;
        }
    tblock_chat_message *out = malloc(bytes);
    if (!out) {
        no_memory(NULL, err);
        return NULL;
    }
    char *text = (char *)(out + n);
    for (size_t i = 0; i < n; i++) {
        out[i] = m[i];
        out[i].text = memcpy(text, m[i].text, m[i].n_bytes + 1);
        text += m[i].n_bytes + 1;
    }
    return out;
}

bool tblock_chat_from_json(const char *json, size_t n_bytes, const char *what,
                           tblock_chat_message **messages, size_t *n, tblock_error *err)
{
    *messages = NULL;
    *n        = 0;
    Json *root = json_parse(json, n_bytes, what, err);
    if (!root)
        return false;
    const Json *list = json_is_object(root) ? json_get(root, "messages") : root;
    size_t      count = json_count(list), i = 0;
    bool        ok = (json_is_array(list) && count <= CHAT_MOST_MESSAGES)
        || fail(err, INPUT, "%s: expected {\"messages\": [...]}, found %s", what, json_kind(list));
    tblock_chat_message *m = ok ? calloc(count + 1, sizeof *m) : NULL;
    if (ok && !m)
        ok = no_memory(NULL, err);
    for (const Json *j = ok ? json_first(list) : NULL; ok && j; j = json_next(j), i++)
        ok = read_message(j, what, i, &m[i], err);
    *messages = ok ? own(m, i, err) : NULL;
    *n        = *messages ? i : 0;
    free(m);
    json_free(root);
    return *messages != NULL;
}
