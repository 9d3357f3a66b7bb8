/* The template interpreter for tests in other languages: one JSON object a line on stdin, one
 * answer a line on stdout.
 *   {"template": text, "given": variables, "own": variables, "date": "YYYY-MM-DD"}
 * answers {"text": ..., "mark": a '1' for each byte that is the template's, else '0'} or {"error":
 * ...}. In place of "template" may stand "entry" (an entry `chat` of a model file, whose template
 * is run) or "builtin" (the name of a built-in template; null: answers {"names": [...]}). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "chat/chat_template.h"
#include "chat/jinja.h"
#include "requests.h"

static void print_text(const JinjaText *t)
{
    TextOut o = { 0 };
    text_out(&o, "{\"text\": ");
    json_out_string(&o, t->text, t->n);
    text_out(&o, ", \"mark\": \"");
    for (size_t i = 0; i < t->n; i++)
        text_out_bytes(&o, t->mark[i] ? "1" : "0", 1);
    text_out(&o, "\"}\n");
    if (!o.failed)
        fwrite(o.text, 1, o.n, stdout);
    text_out_free(&o);
}

static void print_names(void)
{
    const char *name;
    printf("{\"names\": [");
    for (size_t i = 0; (name = chat_builtin_name(i)); i++)
        printf("%s\"%s\"", i ? ", " : "", name);
    printf("]}\n");
}

/* The template that is asked for; the caller frees. NULL: refused. */
static char *template_of(const JsonNode *j, size_t *n, Error *err)
{
    const JsonNode *entry = node_get(j, "entry"), *builtin = node_get(j, "builtin"),
                   *text = node_get(j, "template");
    const char *ours = builtin ? chat_builtin_template(builtin->text) : NULL;
    char *t = entry ? chat_entry_template(entry->text, entry->n, "entry", err)
        : ours      ? strdup(ours)
                    : NULL;
    if (text && (t = malloc(text->n + (size_t)1)))
        memcpy(t, text->text, text->n + (size_t)1);
    *n = text ? text->n : t ? strlen(t) : 0;
    return t;
}

static void answer(const JsonNode *j)
{
    Error           e = { 0 };
    JinjaText       out = { 0 };
    const JsonNode *date = node_get(j, "date"), *builtin = node_get(j, "builtin");
    if (builtin && builtin->kind == NODE_NULL) {
        print_names();
        return;
    }

    static const char *const roles[] = { "system", "user", "assistant", "tool", NULL };
    JinjaInput in = { node_get(j, "own"), node_get(j, "given"),
                      date && date->kind == NODE_STRING ? date->text : NULL, roles };
    size_t     n;
    char      *text = template_of(j, &n, &e);
    Jinja     *t = text ? jinja_parse(text, n, "template", &e) : NULL;
    if (t && jinja_render(t, &in, &out, &e)) {
        print_text(&out);
    } else {
        TextOut o = { 0 };
        json_out_string(&o, e.msg, strlen(e.msg));
        printf("{\"error\": %.*s}\n", (int)o.n, o.text);
        text_out_free(&o);
    }
    jinja_text_free(&out);
    jinja_free(t);
    free(text);
}

int main(void) { return answer_requests(answer); }
