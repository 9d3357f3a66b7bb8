/* base/json.h: JSON as a tree of cJSON's, for configs and metadata: the text is read by base/json_doc.h, without NUL inside strings and
 * numbers too large for a double; exact integers with range; case-sensitive keys; iteration without linear lookups. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdint.h>
#include "base/error.h"
#include "base/text_out.h"

typedef struct cJSON Json;

/* Does text begin with a JSON object, after white space? A safetensors file may begin with '{' too: the
 * length of its header. That has zeros among its 8 bytes, which JSON text never has. */
bool json_object_begins(const void *text, size_t n_bytes);

/* Parse n_bytes of text. what names the source in messages ("model.bin: config"). Errors are those of json_doc_parse. The locale has no
 * influence here, nor anywhere in this file. */
Json *json_parse(const char *text, size_t n_bytes, const char *what, Error *err);
void  json_free(Json *j); /* only the root; NULL is accepted */

const Json *json_get(const Json *object, const char *key); /* NULL when absent or not an object; case-sensitive */

/* Iteration over an array or object: for (const Json *i = json_first(j); i; i = json_next(i)) */
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
const char *json_kind(const Json *j); /* "object", "array", "string", "number", "true", "false", "null", "nothing" (NULL) */

/* Typed reads; what names the value in the error: "WHAT: expected an integer from MIN to MAX, found 3.5". Numbers over
 * 2^53 - 1 are refused as not exact. *out is untouched on failure. */
bool json_read_int(const Json *j, const char *what, int64_t min, int64_t max, int64_t *out, Error *err);
bool json_read_double(const Json *j, const char *what, double min, double max, double *out, Error *err);
bool json_read_bool(const Json *j, const char *what, bool *out, Error *err);
bool json_read_string(const Json *j, const char *what, const char **out, Error *err); /* lives as long as the root */

bool json_equal(const Json *a, const Json *b); /* the order of an object's keys does not matter */

/* JSON of our own, into a growing text; false where that failed. */
/* The next character of s[0 .. n), n >= 1, in a JSON string that keeps UTF-8; a byte that is not UTF-8 becomes \ufffd.
 * Returns the length of out, which is not terminated; *n_read: the bytes of s that it stands for. */
enum { JSON_CHAR_BYTES = 8 };
size_t json_char(char out[JSON_CHAR_BYTES], const char *s, size_t n, size_t *n_read);
bool json_out_string(TextOut *o, const char *s, size_t n); /* quoted, ASCII only, invalid UTF-8 becomes \ufffd */
bool json_out_double(TextOut *o, double x);                /* fewest digits that read back as x; null when not finite */

#endif
