/* api/chat_messages.c: conversations as JSON, in the common form. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

/* ---- Writing --------------------------------------------------------------------------------- */

static bool is_message(const JsonNode *j)
{
    const JsonNode *role = node_get(j, "role");
    return role && role->kind == NODE_STRING;
}

/* Fails for what tblock_chat_from_json would not read. */
static bool check_message(const tblock_chat_message *m, size_t i, Error *err)
{
    JsonDoc d = { 0 };
    Error   why = { 0 };
    if (m->json) {
        bool good = json_doc_read(&d, m->json, strlen(m->json), JSON_NO_NUL, "json", &why)
            && is_message(d.node);
        json_doc_free(&d);
        if (!good && why.status == SYSTEM)
            return fail(err, SYSTEM, "%s", why.msg);
        return good || fail(err, USAGE, "message %zu: json: expected an object with a role", i + 1);
    }
    if (!m->role)
        return fail(err, USAGE, "message %zu: role: expected a text, found none", i + 1);
    return !m->n_bytes || !memchr(m->text, 0, m->n_bytes)
        || fail(err, USAGE, "message %zu: content: expected text without NUL, found one", i + 1);
}

static void out_message(TextOut *o, const tblock_chat_message *m)
{
    if (m->json) {
        text_out_bytes(o, m->json, strlen(m->json));
        return;
    }
    json_out(o, "{role: %s", m->role);
    json_out_member(o, "content", m->text, m->n_bytes);
    json_out(o, "}");
}

bool tblock_chat_to_json(const tblock_chat_message *m, size_t n, char **json, tblock_error *err)
{
    NEED(false, err, json);
    *json = NULL;
    NEED(false, err, m || !n);
    TextOut o = { 0 };
    if (n > CHAT_MOST_MESSAGES)
        return fail(err, USAGE, "messages: expected at most %d, found %zu", CHAT_MOST_MESSAGES, n);
    for (size_t i = 0; i < n; i++)
        if (!check_message(&m[i], i, err))
            return false;
    json_out(&o, "{messages: [");
    for (size_t i = 0; i < n; i++) {
        text_out(&o, "%s\n  ", i ? "," : "");
        out_message(&o, &m[i]);
    }
    text_out(&o, "\n]}\n");
    *json = text_out_take(&o, err);
    return *json != NULL;
}

bool tblock_chat_save(const tblock_chat_message *m, size_t n, const char *path, tblock_error *err)
{
    NEED(false, err, m || !n, path);
    char *json;
    bool  good = tblock_chat_to_json(m, n, &json, err) && file_write(path, json, strlen(json), err);
    tblock_free(json);
    return good;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Appends a text and its NUL; its offset goes to *at. */
static void keep(TextOut *o, const char *text, size_t n, size_t *at)
{
    *at = o->n;
    text_out_bytes(o, text, n);
    text_out_bytes(o, "", 1);
}

/* The offsets of a message's texts in a growing text. */
typedef struct Places { size_t role, text, n, json; bool whole; } Places;

/* A message with more than role and content is kept whole. */
static bool read_message(const JsonDoc *d, const JsonNode *j, const char *what, size_t i,
                         TextOut *o, Places *p, Error *err)
{
    const JsonNode *role = node_get(j, "role"), *content = node_get(j, "content");
    char            found[NODE_TEXT];
    if (j->kind != NODE_OBJECT)
        return fail(err, INPUT, "%s: message %zu: expected an object with a role, found %s", what,
                    i + 1, node_text(j, found));
    if (!is_message(j))
        return fail(err, INPUT, "%s: message %zu: role: expected a text, found %s", what, i + 1,
                    node_text(role, found));
    bool plain = content && content->kind == NODE_STRING;
    p->whole = !plain || j->n != 2;
    p->n     = plain ? content->n : 0;
    keep(o, role->text, role->n, &p->role);
    keep(o, plain ? content->text : "", p->n, &p->text);
    if (p->whole) {
        p->json = o->n;
        json_out_node(o, d, j);
        text_out_bytes(o, "", 1);
    }
    return true;
}

/* Messages and their texts in one allocation. */
static tblock_chat_message *own(const Places *p, size_t n, const TextOut *texts, Error *err)
{
    tblock_chat_message *out = malloc(n * sizeof *out + texts->n + 1);
    if (!out || texts->failed) {
        free(out);
        no_memory(NULL, err);
        return NULL;
    }
    char *text = (char *)(out + n);
    if (texts->n)
        memcpy(text, texts->text, texts->n);
    for (size_t i = 0; i < n; i++)
        out[i] = (tblock_chat_message){ .role = text + p[i].role,
                                        .text = text + p[i].text,
                                        .n_bytes = p[i].n,
                                        .json = p[i].whole ? text + p[i].json : NULL };
    return out;
}

static bool read_all(const JsonDoc *d, const char *what, tblock_chat_message **messages, size_t *n,
                     Error *err)
{
    const JsonNode *root = d->node, *list = root;
    TextOut         texts = { 0 };
    char            found[NODE_TEXT];
    size_t          i = 0;
    if (root->kind == NODE_OBJECT)
        list = node_get(root, "messages");
    if (!list || list->kind != NODE_ARRAY || list->n > CHAT_MOST_MESSAGES)
        return fail(err, INPUT, "%s: expected {\"messages\": [...]}, found %s", what,
                    node_text(list, found));
    Places *place = calloc(list->n + 1, sizeof *place);
    bool    ok = place || no_memory(NULL, err);
    JSON_NODES (j, ok ? list : NULL) {
        ok = ok && read_message(d, j, what, i, &texts, &place[i], err);
        i++;
    }
    *messages = ok ? own(place, i, &texts, err) : NULL;
    *n        = *messages ? i : 0;
    free(place);
    text_out_free(&texts);
    return *messages != NULL;
}

bool tblock_chat_from_json(const char *json, size_t n_bytes, const char *what,
                           tblock_chat_message **messages, size_t *n, tblock_error *err)
{
    NEED(false, err, messages, n);
    *messages = NULL;
    *n = 0;
    NEED(false, err, json || !n_bytes, what);
    JsonDoc d = { 0 };
    bool ok   = json_doc_read(&d, json, n_bytes, JSON_NO_NUL | JSON_FINITE, what, err)
        && read_all(&d, what, messages, n, err);
    json_doc_free(&d);
    return ok;
}
