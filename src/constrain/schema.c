/* constrain/schema.c: compiles a JSON Schema to a rule of a grammar. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include "constrain/schema_parts.h"

struct Block { Block *next; };

void *schema_keep(Schema *s, size_t n, size_t size)
{
    size_t head = sizeof(max_align_t);
    Block *b = n < (SIZE_MAX - head) / size ? calloc(1, head + n * size) : NULL;
    if (!b) {
        Error e;
        no_memory(s->what, &e);
        grammar_fail(s->g, &e);
        return NULL;
    }
    b->next = s->blocks;
    s->blocks = b;
    return (char *)b + head;
}

void schema_pointer(const Schema *s, TextOut *o, const JsonNode *at)
{
    const JsonNode *j = s->doc.node;
    text_out(o, "#");
    while (j != at) {
        size_t index = 0;
        JSON_NODES (i, j) {
            if (at >= i && at < node_end(i)) {
                text_out(o, "/");
                if (!i->key)
                    text_out(o, "%zu", index);
                for (const char *c = i->key; c && c < i->key + i->key_n; c++)
                    if (*c == '/' || *c == '~')
                        text_out(o, "~%d", *c == '/');
                    else
                        text_out_bytes(o, c, 1);
                j = i;
                break;
            }
            index++;
        }
    }
}

bool schema_refuse(Schema *s, const JsonNode *at, const char *fmt, ...)
{
    char    message[400];
    Error   e;
    TextOut o = { 0 };
    va_list list;
    va_start(list, fmt);
    vsnprintf(message, sizeof message, fmt, list);
    va_end(list);
    schema_pointer(s, &o, at);
    if (o.n > 200) /* leave room for the message */
        o.n = 200;
    if (o.failed)
        no_memory(s->what, &e);
    else
        fail(&e, INPUT, "%s: %.*s: %s", s->what, (int)o.n, o.text, message);
    text_out_free(&o);
    grammar_fail(s->g, &e);
    return false;
}

bool schema_failed(const Schema *s) { return grammar_failed(s->g, NULL); }

bool schema_enter(Schema *s, const JsonNode *at)
{
    if (s->nested == MOST_NESTED)
        return schema_refuse(s, at, "schemas that lead to one another more than %d deep",
                             MOST_NESTED);
    s->nested++;
    return !schema_failed(s);
}

static bool draft_of(Schema *s)
{
    static const struct { const char *name; Draft draft; } known[] = {
        { "draft-04/schema", DRAFT_4 },         { "draft-06/schema", DRAFT_7 },
        { "draft-07/schema", DRAFT_7 },         { "draft/2019-09/schema", DRAFT_2019 },
        { "draft/2020-12/schema", DRAFT_2020 }, { "schema", DRAFT_2020 },
    };
    const JsonNode *j = node_get(s->doc.node, "$schema");
    s->draft = DRAFT_2020;
    if (!j)
        return true;
    for (size_t i = 0; j->kind == NODE_STRING && i < sizeof known / sizeof *known; i++) {
        char url[80];
        for (int form = 0; form < 4; form++) {
            snprintf(url, sizeof url, "http%s://json-schema.org/%s%s", form & 1 ? "s" : "",
                     known[i].name, form & 2 ? "#" : "");
            s->draft = known[i].draft;
            if (node_is(j, url))
                return true;
        }
    }
    char text[NODE_TEXT];
    return schema_refuse(s, j,
                         "$schema: expected a draft of JSON Schema from 4 to 2020-12, found %s",
                         node_text(j, text));
}

/* Nodes with the same text share a number: duplicates are compiled once, and "in this one but not
 * in that one" is known to be impossible. */
static bool find_same(Schema *s)
{
    Error   e;
    ByteMap seen = { 0 };
    TextOut o = { 0 };
    /* text of a node: kind, own bytes, then the numbers of its children */
    for (size_t i = s->doc.n_nodes; i-- > 0;) {
        const JsonNode *j = s->doc.node + i;
        o.n = 0;
        text_out(&o, "%u:", (unsigned)j->kind);
        if (j->kind == NODE_STRING)
            text_out_bytes(&o, j->text, j->n);
        if (j->kind == NODE_INT || j->kind == NODE_DOUBLE)
            text_out_bytes(&o, json_spelling(&s->doc, j),
                           strspn(json_spelling(&s->doc, j), "0123456789+-.eE"));
        JSON_NODES (k, j) {
            if (k->key)
                text_out(&o, "%u:", k->key_n), text_out_bytes(&o, k->key, k->key_n);
            text_out(&o, "%u,", s->fact[k - s->doc.node].same);
        }
        bool  found;
        char *copy = schema_keep(s, o.n + 1, 1);
        if (o.failed || !copy)
            break;
        memcpy(copy, o.text, o.n);
        int32_t *at = byte_map_put(&seen, copy, o.n, (int32_t)i, &found, &e);
        if (!at)
            break;
        s->fact[i].same = (uint32_t)*at;
    }
    bool ok = !o.failed;
    text_out_free(&o);
    byte_map_free(&seen);
    if (!ok || schema_failed(s)) {
        no_memory(s->what, &e);
        grammar_fail(s->g, &e);
        return false;
    }
    return true;
}

static bool begin(Schema *s)
{
    s->fact = schema_keep(s, s->doc.n_nodes, sizeof *s->fact);
    if (!s->fact || !draft_of(s))
        return false;
    s->one_base = true;
    for (size_t i = 0; i < s->doc.n_nodes; i++) {
        const JsonNode *j = s->doc.node + i, *id = node_get(j, s->draft == DRAFT_4 ? "id" : "$id");
        s->fact[i].same = (uint32_t)i;
        s->fact[i].has_id = id && id->kind == NODE_STRING;
        s->one_base &= i == 0 || !s->fact[i].has_id;
        JSON_NODES (child, j)
            s->fact[node_index(s, child)].parent = (uint32_t)i;
    }
    return (!s->one_base || find_same(s)) && scalar_begin(s);
}

bool grammar_read_schema(Grammar *g, const char *text, size_t n, const SchemaOptions *options,
                         const char *what, TextOut *unknown, Rule *root)
{
    Error  e;
    Schema s = { .g = g, .what = what, .unknown = unknown, .any_order = options->any_order };
    if (!json_doc_read(&s.doc, text, n, 0, what, &e)) {
        grammar_fail(g, &e);
        return false;
    }
    s.at = s.doc.node;
    if (begin(&s)) {
        Symbol value = set_symbol(&s, set_of(&s, s.doc.node, false, false));
        *root = grammar_rule(g, "value");
        grammar_add(g, *root, &value, 1);
    }
    for (Block *b = s.blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(s.set);
    byte_map_free(&s.set_of);
    byte_map_free(&s.members);
    byte_map_free(&s.ids);
    json_doc_free(&s.doc);
    return !schema_failed(&s);
}
