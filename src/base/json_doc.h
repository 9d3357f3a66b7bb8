/* base/json_doc.h: the one reader of JSON text: strictly RFC 8259, no key twice in an object, no deeper than 64. It makes one array
 * of nodes in document order, strings unescaped where they lie in the text, which is what vocabularies of many megabytes and requests
 * are read from; base/json.h makes a tree of it. The locale and the rounding mode of the host have no influence. */
#ifndef BASE_JSON_DOC_H
#define BASE_JSON_DOC_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

typedef enum NodeKind { NODE_NULL, NODE_FALSE, NODE_TRUE, NODE_INT, NODE_DOUBLE, NODE_STRING, NODE_ARRAY, NODE_OBJECT } NodeKind;

typedef struct JsonNode {
    uint32_t    kind;   /* a NodeKind                                                       */
    uint32_t    n;      /* bytes of a string, items of an array, members of an object       */
    uint32_t    key_n;
    uint32_t    skip;   /* nodes of this value, itself included: its neighbour is node + skip */
    const char *key;    /* in an object; else NULL                                          */
    union {
        const char *text;    /* ends with a NUL behind its n bytes             */
        int64_t     integer; /* a number without point or exponent, under 2^63 */
        double      number;  /* any other                                      */
    };
} JsonNode;

typedef struct JsonDoc {
    char     *text;
    JsonNode *node;     /* node[0] is the root */
    size_t    n_nodes, cap;
} JsonDoc;

/* What else is refused: NUL inside strings (\u0000), numbers that would become infinite. */
enum { JSON_NO_NUL = 1, JSON_FINITE = 2 };

/* Parse n_bytes of text, which is allocated, ends with a NUL and belongs to the document from here on, also on failure. what
 * names the source. At most 16 M values. Errors: INPUT with the byte offset, or the key that appears twice; SYSTEM. */
bool json_doc_parse(JsonDoc *d, char *text, size_t n_bytes, unsigned refused, const char *what, Error *err);
void json_doc_free(JsonDoc *d); /* a zeroed document is accepted */

/* Members or items: JSON_NODES (i, parent) { ... }; none where parent is NULL or holds none. */
static inline const JsonNode *node_end(const JsonNode *j) { return j ? j + j->skip : NULL; }
#define JSON_NODES(i, parent) \
    for (const JsonNode *i = (parent) ? (parent) + 1 : NULL, *i##_end = i ? node_end(parent) : NULL; i != i##_end; i += i->skip)

const JsonNode *node_get(const JsonNode *object, const char *key); /* NULL: absent, or no object. Linear */
bool   node_is(const JsonNode *j, const char *text);               /* is it this string? NULL is not */
bool   node_truth(const JsonNode *j);                              /* as Python: false is NULL, null, false, 0 and what is empty */
double node_number(const JsonNode *j);                             /* of a number or, as 0 and 1, a bool; else NaN */

/* What a value is, for messages: "null", "'text'", "12", "an array"; NULL: "nothing". Valid until buf goes. */
enum { NODE_TEXT = 160 };
const char *node_text(const JsonNode *j, char buf[NODE_TEXT]);

#endif
