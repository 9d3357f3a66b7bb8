/* base/json_doc.h: the one reader of JSON text. Strictly RFC 8259, no key twice in an object,
 * depth at most 64. It makes one array of nodes in document order and unescapes strings in
 * place, which is fast enough for vocabularies of many megabytes. base/json.h makes a tree of
 * it. The host's locale and rounding do not matter. */
#ifndef BASE_JSON_DOC_H
#define BASE_JSON_DOC_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

typedef enum NodeKind { NODE_NULL, NODE_FALSE, NODE_TRUE, NODE_INT, NODE_DOUBLE, NODE_STRING, NODE_ARRAY, NODE_OBJECT } NodeKind;

typedef struct JsonNode {
    uint32_t    kind;   /* a NodeKind */
    uint32_t    n;      /* bytes of a string, items of an array, members of an object */
    uint32_t    key_n;
    uint32_t    skip;   /* nodes of this value, with itself: the next one is at node + skip */
    const char *key;    /* NULL outside objects */
    union {
        const char *text;    /* n bytes, then a NUL */
        int64_t     integer; /* a number without point or exponent, under 10^18 */
        double      number;  /* any other number */
    };
} JsonNode;

typedef struct JsonDoc {
    char     *text;
    JsonNode *node;     /* node[0] is the root */
    size_t    n_nodes, cap;
} JsonDoc;

/* What to refuse besides: NUL inside strings (\u0000), numbers that would become infinite. */
enum { JSON_NO_NUL = 1, JSON_FINITE = 2 };

/* Parses n_bytes of text. text must be allocated and end with a NUL; the document takes it over,
 * even on failure. what names the source. At most 16 M values. Fails with INPUT, naming the byte
 * offset or the key that appears twice, or with SYSTEM. */
bool json_doc_parse(JsonDoc *d, char *text, size_t n_bytes, unsigned refused, const char *what, Error *err);
void json_doc_free(JsonDoc *d); /* accepts a zeroed document */

/* Visits members or items: JSON_NODES (i, parent) { ... }. Visits none if parent is NULL or has
 * none. */
static inline const JsonNode *node_end(const JsonNode *j) { return j ? j + j->skip : NULL; }
#define JSON_NODES(i, parent) \
    for (const JsonNode *i = (parent) ? (parent) + 1 : NULL, *i##_end = i ? node_end(parent) : NULL; i != i##_end; i += i->skip)

/* The value of a key; NULL: absent, or not an object. Searches linearly. */
const JsonNode *node_get(const JsonNode *object, const char *key);
/* Is it this string? False for NULL. */
bool   node_is(const JsonNode *j, const char *text);
/* As Python's bool(): false for null, false, 0 and what is empty, and for NULL. */
bool   node_truth(const JsonNode *j);
/* The value of a number, or of a bool as 0 or 1; else NaN. */
double node_number(const JsonNode *j);

/* A value for messages: "null", "'text'", "12", "an array"; NULL gives "nothing". Valid as long
 * as buf. */
enum { NODE_TEXT = 160 };
const char *node_text(const JsonNode *j, char buf[NODE_TEXT]);

#endif
