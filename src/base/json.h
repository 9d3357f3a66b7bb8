/* base/json.h: JSON as a tree, for configs and metadata. json_doc.h reads the text, cJSON holds
 * the tree. This file adds what cJSON lacks: exact integers with a range, case-sensitive keys,
 * iteration without linear lookups. It refuses NUL inside strings and numbers too large for a
 * double. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdint.h>
#include "base/error.h"
#include "base/text_out.h"

typedef struct cJSON Json;

/* Does text begin with a JSON object, after white space? A safetensors file may begin with '{'
 * too, which is then a byte of its header's length. But that length has zeros among its 8 bytes,
 * and JSON text never has. */
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
 * found 3.5". Integers above 2^53 - 1 are refused, because a double does not hold them exactly.
 * On failure *out is not changed. */
bool json_read_int(const Json *j, const char *what, int64_t min, int64_t max, int64_t *out, Error *err);
bool json_read_double(const Json *j, const char *what, double min, double max, double *out, Error *err);
bool json_read_bool(const Json *j, const char *what, bool *out, Error *err);
bool json_read_string(const Json *j, const char *what, const char **out, Error *err); /* lives as long as the root */

bool json_equal(const Json *a, const Json *b); /* ignores the order of keys */

/* ---- Output into a growing text; false if that failed ---- */

/* The next character of s[0 .. n), n >= 1, as it appears in a JSON string that keeps UTF-8. A
 * byte that is not UTF-8 becomes \ufffd. Returns the length of out, which has no NUL. *n_read:
 * how many bytes of s it stands for. */
enum { JSON_CHAR_BYTES = 8 };
size_t json_char(char out[JSON_CHAR_BYTES], const char *s, size_t n, size_t *n_read);
/* A string in quotes, in ASCII only. Invalid UTF-8 becomes \ufffd. */
bool json_out_string(TextOut *o, const char *s, size_t n);
/* The fewest digits that read back as x; null if x is not finite. */
bool json_out_double(TextOut *o, double x);

#endif
