/* The chat formats for tests in other languages: one JSON object a line on stdin, one answer a line
 * on stdout.
 *   {"format": JSON text | "named": NAME | "template": Jinja program, "messages": [{"role",
 *     "content"}], "open": bool,
 *    "bos": text, "eos": text}
 * answers {"text": ..., "spans": [[kind, start, end], ...], "format": JSON text} or {"error": ...,
 * "format": ...}.
 *   {"model": path, "chat": name or JSON text, "messages": [{"role", "content", "ids"}]}
 * answers {"ids": of tblock_chat_render, "whole": of the rendered text as a whole, "text": ...,
 * "stop": [ids], "stop_texts": n}. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "text/chat_format.h"

enum { MOST_MESSAGES = 64 };

static const char *text_of(const Json *j, const char *key, const char *fallback)
{
    const char *text = fallback;
    const Json *item = json_get(j, key);
    if (item)
        json_read_string(item, key, &text, NULL);
    return text;
}

static char *format_of(const Json *j, Error *err)
{
    char       *json = NULL;
    const char *program = text_of(j, "template", NULL);
    if (program)
        return chat_format_recognise(program, strlen(program), "template", &json, err) ? json
                                                                                       : NULL;
    return strdup(text_of(j, "format", ""));
}

static size_t messages_of(const Json *j, ChatMessage *m, Error *err)
{
    size_t n = 0;
    for (const Json *i = json_first(json_get(j, "messages")); i && n < MOST_MESSAGES;
         i = json_next(i), n++) {
        const char *role = text_of(i, "role", ""), *content = text_of(i, "content", ""),
                   *drawn = text_of(i, "drawn", NULL);
        ChatRole    r = strcmp(role, "system") == 0 ? CHAT_SYSTEM
               : strcmp(role, "user") == 0          ? CHAT_USER
                                                    : CHAT_ASSISTANT;
        if (r == CHAT_ASSISTANT && strcmp(role, "assistant") != 0)
            fail(err, INPUT, "role %s", role);
        m[n] = (ChatMessage){ r, content, strlen(content), drawn, drawn ? strlen(drawn) : 0 };
    }
    return n;
}

static void answer(const Json *j)
{
    static const char *const kinds[] = { "content", "drawn", "bos", "eos" };
    ChatMessage m[MOST_MESSAGES];
    Error       err = { 0 };
    ChatText    out = { 0 };
    TextOut     o = { 0 };
    const char *named = text_of(j, "named", NULL);
    char       *json = named ? NULL : format_of(j, &err);
    ChatFormat *f = named ? chat_format_named(named, &err)
        : json            ? chat_format_parse(json, strlen(json), "format", &err)
                          : NULL;
    bool        open = true;
    if (json_get(j, "open"))
        json_read_bool(json_get(j, "open"), "open", &open, NULL);
    size_t n = messages_of(j, m, &err);
    bool   ok = f && !err.status
        && chat_render(f, m, n, open, text_of(j, "bos", ""), text_of(j, "eos", ""), &out, &err);
    text_out(&o, ok ? "{\"text\": " : "{\"error\": ");
    json_out_string(&o, ok ? out.text : err.msg, ok ? out.n : strlen(err.msg));
    text_out(&o, ", \"spans\": [");
    for (size_t i = 0; ok && i < out.n_spans; i++)
        text_out(&o, "%s[\"%s\", %zu, %zu]", i ? ", " : "", kinds[out.span[i].kind],
                 out.span[i].start, out.span[i].end);
    text_out(&o, "], \"format\": ");
    json_out_string(&o, json ? json : "", json ? strlen(json) : 0);
    text_out(&o, "}");
    char *line = text_out_take(&o, &err);
    puts(line ? line : "{\"error\": \"no memory\"}");
    fflush(stdout);
    free(line);
    free(json);
    chat_text_free(&out);
    chat_format_free(f);
}

static void out_ids(TextOut *o, const char *key, const int32_t *ids, size_t n)
{
    text_out(o, "\"%s\": [", key);
    for (size_t i = 0; i < n; i++)
        text_out(o, "%s%d", i ? ", " : "", ids[i]);
    text_out(o, "], ");
}

/* The ids array of a message; caller frees. */
static int32_t *ids_of(const Json *j, size_t *n)
{
    const Json *list = json_get(j, "ids");
    int32_t    *ids = calloc(json_count(list) + 1, sizeof *ids);
    *n = 0;
    for (const Json *i = json_first(list); i && ids; i = json_next(i)) {
        int64_t id = 0;
        json_read_int(i, "ids", 0, INT32_MAX, &id, NULL);
        ids[(*n)++] = (int32_t)id;
    }
    return ids;
}

static void answer_of_model(const Json *j)
{
    tblock_chat_message m[MOST_MESSAGES];
    tblock_error   err = { 0 };
    tblock_model  *model = tblock_open(text_of(j, "model", ""), NULL, &err);
    tblock_chat   *chat = model ? tblock_chat_new(model, text_of(j, "chat", NULL), &err) : NULL;
    tblock_chat_info info = { 0 };
    TextOut        o = { 0 };
    char          *text = NULL;
    int32_t       *ids = NULL, *whole = NULL;
    size_t         n = 0, n_ids, n_whole, n_text;
    for (const Json *i = json_first(json_get(j, "messages")); i && n < MOST_MESSAGES;
         i = json_next(i), n++) {
        m[n] = (tblock_chat_message){ .role = text_of(i, "role", ""),
                                      .text = text_of(i, "content", "") };
        m[n].n_bytes = strlen(m[n].text);
        m[n].ids = ids_of(i, &m[n].n_ids);
    }
    text_out(&o, "{");
    bool ok = chat && tblock_chat_render(chat, m, n, true, &ids, &n_ids, &err)
        && tblock_chat_text(chat, m, n, true, &text, &n_text, &err)
        && tblock_tokenize(model, text, n_text, TBLOCK_PARSE_SPECIAL, &whole, &n_whole, &err);
    if (ok) {
        tblock_chat_describe(chat, &info);
        out_ids(&o, "ids", ids, n_ids);
        out_ids(&o, "whole", whole, n_whole);
        out_ids(&o, "stop", info.stop_ids, info.n_stop_ids);
    }
    text_out(&o, "\"stop_texts\": %zu, \"%s\": ", info.n_stop_texts, ok ? "text" : "error");
    json_out_string(&o, ok ? text : err.msg, ok ? n_text : strlen(err.msg));
    text_out(&o, "}");
    char *line = text_out_take(&o, &err);
    puts(line ? line : "{\"error\": \"no memory\"}");
    fflush(stdout);
    for (size_t i = 0; i < n; i++)
        free((int32_t *)(uintptr_t)m[i].ids);
    free(line);
    tblock_free(text);
    tblock_free(ids);
    tblock_free(whole);
    tblock_chat_free(chat);
    tblock_close(model);
}

int main(void)
{
    char  *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
        Error err = { 0 };
        Json *j = json_parse(line, (size_t)n, "request", &err);
        if (j && json_get(j, "model"))
            answer_of_model(j);
        else if (j)
            answer(j);
        else
            printf("{\"error\": \"request: no JSON\"}\n");
        json_free(j);
    }
    free(line);
    return 0;
}
