/* The template interpreter for tests in other languages: one JSON object a line on stdin, one
 * answer a line on stdout.
 *   {"template": text, "given": variables, "own": variables, "date": "YYYY-MM-DD"}
 * answers {"text": ..., "mark": a '1' for each byte that is the template's, else '0'} or {"error":
 * ...}. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "text/jinja.h"

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

static void answer(const JsonNode *j)
{
    Error           e = { 0 };
    JinjaText       out = { 0 };
    const JsonNode *text = node_get(j, "template"), *date = node_get(j, "date");

    static const char *const roles[] = { "system", "user", "assistant", "tool", NULL };
    JinjaInput in = { node_get(j, "own"), node_get(j, "given"),
                      date && date->kind == NODE_STRING ? date->text : NULL, roles };
    Jinja          *t = jinja_parse(text->text, text->n, "template", &e);
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
}

int main(void)
{
    char   *line = NULL;
    size_t  cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, stdin)) > 0) {
        JsonDoc d;
        Error   e = { 0 };
        char   *copy = malloc((size_t)n + 1);
        if (!copy)
            break;
        memcpy(copy, line, (size_t)n + 1);
        if (json_doc_parse(&d, copy, (size_t)n, 0, "request", &e))
            answer(d.node);
        else
            printf("{\"error\": \"bad request\"}\n");
        fflush(stdout);
        json_doc_free(&d);
    }
    free(line);
    return 0;
}
