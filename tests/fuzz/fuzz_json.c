/* tests/fuzz/fuzz_json.c: any bytes as JSON. base/json takes what base/json_doc takes, but for NUL
 * in strings and numbers that are too large (base/json_doc.c). What base/json reads cJSON's own
 * parser reads alike, and it comes back from its writer. */
#include <cjson/cJSON.h>
#include "base/json.h"
#include "fuzz.h"

/* Every node inside the document, each within its parent. */
static void walk(const JsonNode *j)
{
    char text[NODE_TEXT];
    (void)node_truth(j);
    (void)node_number(j);
    claim(strlen(node_text(j, text)) < NODE_TEXT);
    if (j->kind == NODE_STRING)
        touch(j->text, j->n);
    size_t members = 0;
    if (j->kind == NODE_ARRAY || j->kind == NODE_OBJECT) {
        JSON_NODES (i, j) {
            claim(i->skip >= 1 && i + i->skip <= node_end(j));
            if (j->kind == NODE_OBJECT)
                touch(i->key, i->key_n);
            walk(i);
            members++;
        }
        claim(members == j->n);
    }
}

/* As text again, with the same members. */
static void write_again(TextOut *o, const Json *j)
{
    double x;
    if (json_is_object(j) || json_is_array(j)) {
        text_out(o, json_is_object(j) ? "{" : "[");
        for (const Json *i = json_first(j); i; i = json_next(i)) {
            if (i != json_first(j))
                text_out(o, ",");
            if (json_key(i)) {
                json_out_string(o, json_key(i), strlen(json_key(i)));
                text_out(o, ":");
            }
            write_again(o, i);
        }
        text_out(o, json_is_object(j) ? "}" : "]");
    } else if (json_is_string(j)) {
        const char *s = NULL;
        claim(json_read_string(j, "", &s, NULL));
        json_out_string(o, s, strlen(s));
    } else if (json_is_number(j) && json_read_double(j, "", -1e308, 1e308, &x, NULL)) {
        json_out_double(o, x);
    } else {
        text_out(o, "%s", json_is_bool(j) ? json_kind(j) : "null");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    Error   e = { 0 }, e2 = { 0 };
    JsonDoc d = { 0 };
    char   *text = exact_copy(bytes, n);
    Json   *j = json_parse(text, n, "text", &e);
    said(j != NULL, &e);
    const char *end = text; /* of what cJSON reads: it cuts numbers after 63 characters */
    cJSON      *theirs = j ? cJSON_ParseWithLengthOpts(text, n, &end, false) : NULL;
    while (end < text + n && strchr(" \t\r\n", *end))
        end++;
    claim(!theirs || end < text + n || cJSON_Compare(j, theirs, true));
    cJSON_Delete(theirs);
    if (said(json_doc_parse(&d, text, n, 0, "text", &e2), &e2)) {
        walk(d.node);
        claim(j || strstr(e.msg, "NUL") || strstr(e.msg, "too large"));
    } else {
        claim(!j);
    }
    json_doc_free(&d);
    if (j) {
        TextOut o = { 0 };
        write_again(&o, j);
        char *again = text_out_take(&o, &e);
        Json *k = again ? json_parse(again, strlen(again), "again", &e) : NULL;
        claim(k && json_count(k) == json_count(j));
        json_free(k);
        free(again);
    }
    json_free(j);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "json"); }
#endif
