/* format/gguf_meta.h: the key-values of a GGUF file, typed and checked. Strings and arrays stay in
 * the mapping. */
#ifndef FORMAT_GGUF_META_H
#define FORMAT_GGUF_META_H

#include <stdint.h>
#include "base/error.h"

/* Types, with the numbers that the file uses (gguf_metadata_value_type). */
typedef enum GgufType {
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY, GGUF_U64, GGUF_I64,
    GGUF_F64, GGUF_TYPES
} GgufType;

typedef struct GgufString {
    /* In the mapping: no NUL at the end, and not checked to be UTF-8. */
    const char *bytes;
    size_t      n;
} GgufString;

typedef struct GgufEntry {
    GgufString  key;
    GgufType    type, item; /* item: type of an array's items         */
    size_t      n_items;    /* of an array; at most INT_MAX           */
    const void *value;      /* maybe unaligned; an array's first item */
} GgufEntry;

typedef struct GgufMeta {
    const char *path;       /* for messages */
    GgufEntry  *entry;      /* sorted by key */
    size_t      n_entries;
} GgufMeta;

const char *gguf_type_name(GgufType t);                            /* "u8", "string" ... */
bool        gguf_string_is(GgufString s, const char *text);

/* NULL: no such key. */
const GgufEntry *gguf_find(const GgufMeta *m, const char *key);

/* Read the value of a key that must exist and have this type. Otherwise the result is false, and
 * err (INPUT) names file, key, expected and found (also "no such key"). Look for optional keys with
 * gguf_find first. Integers: any integer type of the file, min <= *out <= max. Numbers: f32 or f64,
 * finite. */
bool gguf_read_string(const GgufMeta *m, const char *key, GgufString *out, Error *err);
bool gguf_read_int(const GgufMeta *m, const char *key, int64_t min, int64_t max, int64_t *out, Error *err);
bool gguf_read_number(const GgufMeta *m, const char *key, double *out, Error *err);
bool gguf_read_bool(const GgufMeta *m, const char *key, bool *out, Error *err);

/* The same for arrays, in memory that the caller frees (at least one byte, even for an empty
 * array); SYSTEM without memory. Strings point into the mapping. Integers: any integer type or
 * bool, each within int32_t. Floats: f32, any value. */
bool gguf_read_strings(const GgufMeta *m, const char *key, GgufString **out, size_t *n, Error *err);
bool gguf_read_ints(const GgufMeta *m, const char *key, int32_t **out, size_t *n, Error *err);
bool gguf_read_floats(const GgufMeta *m, const char *key, float **out, size_t *n, Error *err);

/* ---- For the readers of the format ----------------------------------------------------------- */

/* A position in a mapped file. Every step checks that the bytes exist; if not, err says so. */
typedef struct GgufCursor {
    const char          *path;
    const unsigned char *data;
    size_t               size, at;
    char                 where[200]; /* "key 3 of 20", "tensor blk.0.attn_q.weight": for messages */
    Error               *err;
} GgufCursor;

/* Take the next bytes or value. what: "number of dimensions" ..., for messages. */
bool gguf_take(GgufCursor *c, const char *what, size_t n_bytes, const void **out);
bool gguf_take_u32(GgufCursor *c, const char *what, uint32_t *out);
bool gguf_take_u64(GgufCursor *c, const char *what, uint64_t *out);
bool gguf_take_string(GgufCursor *c, const char *what, size_t max_bytes, GgufString *out);

/* Check a count from the file: n things of least_bytes or more each must fit into the rest of the
 * file, and n must be at most limit. */
bool gguf_check_count(const GgufCursor *c, const char *what, uint64_t n, size_t limit, size_t least_bytes);

/* Read n key-values from the cursor on into *m, sorted; INPUT if a key comes twice. The caller
 * frees m->entry, also after a failure. */
bool gguf_meta_take(GgufMeta *m, GgufCursor *c, uint64_t n);

#endif
