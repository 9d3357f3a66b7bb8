/* base/json.h: JSON: the parser, the tree, and output. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/text.h"

/* ---- json_doc.c ------------------------------------------------------------------------------ */

/* The only JSON parser. Strictly RFC 8259, no duplicate keys in an object, depth at most 64. It
 * makes one array of nodes in document order and unescapes strings in place, which is fast enough
 * for vocabularies of many megabytes. json.c makes a tree of it. The host's locale and rounding do
 * not matter. */

typedef enum NodeKind {
    NODE_NULL,
    NODE_FALSE,
    NODE_TRUE,
    NODE_INT,
    NODE_DOUBLE,
    NODE_STRING,
    NODE_ARRAY,
    NODE_OBJECT
} NodeKind;

typedef struct JsonNode {
    uint32_t    kind;   /* a NodeKind */
    uint32_t    n;      /* bytes of a string, items of an array, members of an object; of a number,
                         * where it starts in the document's text */
    uint32_t    key_n;
    uint32_t    skip;   /* nodes of this value, itself included: the next value is node + skip */
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

/* What else to reject: NUL inside strings (\u0000), numbers that would become infinite. */
enum { JSON_NO_NUL = 1, JSON_FINITE = 2 };

/* Parses n_bytes of text. text must be allocated and end with a NUL; the document takes it over,
 * even on failure. what names the source. At most 16 M values. Fails with INPUT, naming the byte
 * offset or the key that appears twice, or with SYSTEM. */
bool json_doc_parse(JsonDoc *d, char *text, size_t n_bytes, unsigned refused, const char *what,
                    Error *err);
/* The same for text that the caller keeps. */
bool json_doc_read(JsonDoc *d, const char *text, size_t n_bytes, unsigned refused, const char *what,
                   Error *err);
/* The same with at most so many values. */
bool json_doc_read_within(JsonDoc *d, const char *text, size_t n_bytes, unsigned refused,
                          size_t most, const char *what, Error *err);
void json_doc_free(JsonDoc *d); /* accepts a zeroed document */

/* The value of a number as C spells it, with a decimal point in every locale of the host. */
double json_to_double(const char *text);

/* Visits members or items: JSON_NODES (i, parent) { ... }. Visits none if parent is NULL or has
 * none. */
static inline const JsonNode *node_end(const JsonNode *j) { return j ? j + j->skip : NULL; }
#define JSON_NODES(i, parent) \
    for (const JsonNode *i = (parent) ? (parent) + 1 : NULL,                                       \
         *i##_end = i ? node_end(parent) : NULL; i != i##_end; i += i->skip)

/* The value of a key; NULL: absent, or not an object. Searches linearly. */
const JsonNode *node_get(const JsonNode *object, const char *key);
/* Is it this string? False for NULL. */
bool   node_is(const JsonNode *j, const char *text);
/* As Python's bool(): false for null, false, 0 and what is empty, and for NULL. */
bool   node_truth(const JsonNode *j);
/* The value of a number, or of a bool as 0 or 1; else NaN. */
double node_number(const JsonNode *j);
/* A number as it is spelled, however many digits it has. The rest of the document follows it
 * here. */
static inline const char *json_spelling(const JsonDoc *d, const JsonNode *number)
{
    return d->text + number->n;
}

/* A value for messages: "null", "'text'", "12", "an array"; NULL gives "nothing". Valid as long
 * as buf. */
enum { NODE_TEXT = 160 };
const char *node_text(const JsonNode *j, char buf[NODE_TEXT]);

/* ---- json.c ---------------------------------------------------------------------------------- */

/* JSON as a tree, for configs and metadata. json_doc.c checks the text, cJSON parses it. This file
 * adds what cJSON lacks: exact integers with a range, case-sensitive keys, iteration without linear
 * lookups. It rejects NUL inside strings and numbers too large for a double. */

typedef struct cJSON Json;

/* Does text start with a JSON object, after white space? A safetensors file may start with '{'
 * too, as a byte of its header's length. But that length has zeros among its 8 bytes, and JSON
 * text never does. */
bool json_object_begins(const void *text, size_t n_bytes);

/* Parses n_bytes of text. what names the source in messages ("model.bin: config"). Fails like
 * json_doc_parse. Neither this nor any function here depends on the locale. */
Json *json_parse(const char *text, size_t n_bytes, const char *what, Error *err);
void  json_free(Json *j); /* only the root; accepts NULL */

/* Case-sensitive. NULL: absent, or not an object. */
const Json *json_get(const Json *object, const char *key);

/* Iterates over an array or object: for (const Json *i = json_first(j); i; i = json_next(i)) */
const Json *json_first(const Json *j);
const Json *json_next(const Json *item);
const char *json_key(const Json *item); /* NULL inside an array */
size_t      json_count(const Json *j);

bool json_is_object(const Json *j);
bool json_is_array(const Json *j);
bool json_is_string(const Json *j);
bool json_is_number(const Json *j);
bool json_is_bool(const Json *j);
bool json_is_null(const Json *j);
/* "object", "array", "string", "number", "true", "false", "null", or "nothing" (NULL). */
const char *json_kind(const Json *j);

/* Typed reads. what names the value in the error: "WHAT: expected an integer from MIN to MAX,
 * found 3.5". Integers above 2^53 - 1 are rejected, because a double does not hold them exactly.
 * On failure *out is not changed. */
bool json_read_int(const Json *j, const char *what, int64_t min, int64_t max, int64_t *out,
                   Error *err);
bool json_read_double(const Json *j, const char *what, double min, double max, double *out,
                      Error *err);
bool json_read_bool(const Json *j, const char *what, bool *out, Error *err);
/* lives as long as the root */
bool json_read_string(const Json *j, const char *what, const char **out, Error *err);
/* a copy of at most `most` bytes, which replaces *out (NULL or allocated) */
bool json_copy_string(const Json *j, const char *what, size_t most, char **out, Error *err);

bool json_equal(const Json *a, const Json *b); /* ignores the order of keys */

/* ---- json_out.c ------------------------------------------------------------------------------ */

/* JSON into a TextOut; false if that failed. */

/* Writes JSON in the order of its arguments: members of an object that begins, goes on or ends
 * here, items, whole values.
 *
 *     json_out(o, "{id: %s, object: 'chat.completion', created: %lld, usage: {", id, now)
 *
 * In the form, words need no quotes, before a colon or as a value: true, false, null and numbers
 * stand for themselves, other words are strings. Text that is no word is in '...'. %d, %u, %zu,
 * %lld and the like are integers, %g the fewest digits of a double that read back (null if it is
 * not finite), %s a string in quotes (NULL: null), %i a bool, %-s JSON as it is ("": nothing).
 *
 * Commas are written where they are due by what o ends with, whatever the form has, so a value that
 * another function writes is "key:" and its call. A space follows commas and colons unless
 * o->compact; a line break of the form, and its indent, replace the one after a comma. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
bool json_out(TextOut *o, const char *form, ...);
/* A comma, if one is due before the next value. */
void json_out_comma(TextOut *o);
/* "key": a string of n bytes; NULL: "" */
bool json_out_member(TextOut *o, const char *key, const char *text, size_t n);
/* A member of a document's object, its key and its value. */
bool json_out_pair(TextOut *o, const JsonDoc *d, const JsonNode *member);

/* The functions below write a value and no comma before it. */

/* The next character of s[0 .. n), n >= 1, as it appears in a JSON string that keeps UTF-8. A
 * byte that is not UTF-8 becomes \ufffd. Returns the length of out, which has no NUL. *n_read:
 * how many bytes of s it stands for. */
enum { JSON_CHAR_BYTES = 8 };
size_t json_char(char out[JSON_CHAR_BYTES], const char *s, size_t n, size_t *n_read);
/* A string in quotes, in ASCII only. Invalid UTF-8 becomes \ufffd. */
bool json_out_string(TextOut *o, const char *s, size_t n);
/* The fewest digits that read back as x, which is finite; then with null if it is not. */
enum { JSON_NUMBER = 40 };
void json_number_text(char text[JSON_NUMBER], double x);
bool json_out_double(TextOut *o, double x);
/* An array of n numbers. */
bool json_out_floats(TextOut *o, const float *x, size_t n);
bool json_out_ints(TextOut *o, const int *x, size_t n);
/* A value of a document, with its numbers as they were spelled. */
bool json_out_node(TextOut *o, const JsonDoc *d, const JsonNode *j);

#endif
