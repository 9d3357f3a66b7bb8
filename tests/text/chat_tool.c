/* Conversations for tests in other languages: one JSON object a line on stdin, one answer a line on
 * stdout.
 *   {"model": path, "chat": a name or the text of a template, "args", "tools": JSON texts, "date",
 *    "messages": [{"role", "content", ...}], "ids": [ids of each message, or null], "open": bool}
 * answers {"text": ..., "ids": of tblock_chat_render, "whole": of the rendered text as a whole,
 * "stop": [ids], "stop_texts": [texts], "prefix": text, "system": 0 told, 1 ignored, 2 refused}, or
 * {"error": ...}. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

typedef struct Request { JsonDoc doc; tblock_chat_message *m; size_t n; int32_t **ids; } Request;

static const char *text_of(const Request *r, const char *key)
{
    const JsonNode *j = node_get(r->doc.node, key);
    return j && j->kind == NODE_STRING ? j->text : NULL;
}

/* The messages, with the ids of those that have some. */
static bool read_messages(Request *r, Error *err)
{
    const JsonNode *list = node_get(r->doc.node, "messages"), *ids = node_get(r->doc.node, "ids");
    TextOut         o = { 0 };
    size_t          at = 0;
    if (!list || !json_out_node(&o, &r->doc, list)
        || !tblock_chat_from_json(o.text, o.n, "messages", &r->m, &r->n, err)) {
        text_out_free(&o);
        return false;
    }
    text_out_free(&o);
    r->ids = calloc(r->n + 1, sizeof *r->ids);
    JSON_NODES (i, ids) {
        if (at == r->n)
            break;
        if (i->kind == NODE_ARRAY && (r->ids[at] = calloc(i->n + 1u, sizeof **r->ids))) {
            r->m[at].ids = r->ids[at];
            JSON_NODES (id, i)
                r->ids[at][r->m[at].n_ids++] = (int32_t)id->integer;
        }
        at++;
    }
    return true;
}

static void out_ids(TextOut *o, const char *key, const int32_t *ids, size_t n)
{
    text_out(o, "\"%s\": [", key);
    for (size_t i = 0; i < n; i++)
        text_out(o, "%s%d", i ? ", " : "", ids[i]);
    text_out(o, "], ");
}

static void out_info(TextOut *o, const tblock_chat *chat)
{
    tblock_chat_info info;
    tblock_chat_describe(chat, &info);
    out_ids(o, "stop", info.stop_ids, info.n_stop_ids);
    text_out(o, "\"stop_texts\": [");
    for (size_t i = 0; i < info.n_stop_texts; i++) {
        text_out(o, "%s", i ? ", " : "");
        json_out_string(o, info.stop_texts[i], strlen(info.stop_texts[i]));
    }
    text_out(o, "], \"system\": %d, \"prefix\": ", info.system);
    json_out_string(o, info.answer_prefix, strlen(info.answer_prefix));
    text_out(o, ", ");
}

static bool answer(Request *r, const tblock_model *model, TextOut *o, Error *err)
{
    const JsonNode     *open = node_get(r->doc.node, "open");
    bool                opens = !open || node_truth(open);
    tblock_chat_options opt = { text_of(r, "chat"), text_of(r, "args"), text_of(r, "tools"),
                                text_of(r, "date") };
    tblock_chat *chat = tblock_chat_new(model, &opt, err);
    int32_t     *ids = NULL, *whole = NULL;
    char        *text = NULL;
    size_t       n_ids, n_whole, n_text;
    bool good = chat && read_messages(r, err)
        && tblock_chat_render(chat, r->m, r->n, opens, &ids, &n_ids, err)
        && tblock_chat_text(chat, r->m, r->n, opens, &text, &n_text, err)
        && tblock_tokenize(model, text, n_text, TBLOCK_PARSE_SPECIAL, &whole, &n_whole, err);
    if (good) {
        text_out(o, "{");
        out_ids(o, "ids", ids, n_ids);
        out_ids(o, "whole", whole, n_whole);
        out_info(o, chat);
        text_out(o, "\"text\": ");
        json_out_string(o, text, n_text);
    }
    for (size_t i = 0; r->ids && i < r->n; i++)
        free(r->ids[i]);
    free(r->ids);
    tblock_free(r->m);
    tblock_free(ids);
    tblock_free(whole);
    tblock_free(text);
    tblock_chat_free(chat);
    return good;
}

/* The model of the last request stays open. */
static tblock_model *model;
static char          name[4096];

static bool open_model(const char *path, Error *err)
{
    if (model && strcmp(name, path) == 0)
        return true;
    tblock_close(model);
    snprintf(name, sizeof name, "%s", path);
    return (model = tblock_open(path, NULL, err)) != NULL;
}

int main(void)
{
    char  *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
        Error   err = { 0 };
        Request r = { 0 };
        TextOut o = { 0 };
        if (!json_doc_parse(&r.doc, strdup(line), (size_t)n, 0, "request", &err)
            || !open_model(text_of(&r, "model"), &err) || !answer(&r, model, &o, &err)) {
            text_out(&o, "{\"error\": ");
            json_out_string(&o, err.msg, strlen(err.msg));
        }
        text_out(&o, "}");
        char *out = text_out_take(&o, &err);
        puts(out ? out : "{\"error\": \"no memory\"}");
        fflush(stdout);
        free(out);
        json_doc_free(&r.doc);
    }
    tblock_close(model);
    free(line);
    return 0;
}
