/* format/gguf.h: GGUF, the format of ggml and llama.cpp. */
#ifndef FORMAT_GGUF_H
#define FORMAT_GGUF_H

#include <stdint.h>
#include "base/error.h"
#include "format/tensors.h"

/* ---- gguf_meta.c ----------------------------------------------------------------------------- */

/* The key-values of a GGUF file, typed and checked. Strings and arrays stay in
 * the mapping. */

/* Types, with the numbers that the file uses (gguf_metadata_value_type). */
typedef enum GgufType {
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING,
    GGUF_ARRAY, GGUF_U64, GGUF_I64,
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
bool gguf_read_int(const GgufMeta *m, const char *key, int64_t min, int64_t max, int64_t *out,
                   Error *err);
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
bool gguf_check_count(const GgufCursor *c, const char *what, uint64_t n, size_t limit,
                      size_t least_bytes);

/* Read n key-values from the cursor on into *m, sorted; INPUT if a key comes twice. The caller
 * frees m->entry, also after a failure. */
bool gguf_meta_take(GgufMeta *m, GgufCursor *c, uint64_t n);

/* ---- gguf.c ---------------------------------------------------------------------------------- */

/* GGUF files, the format of ggml and llama.cpp: typed key-values and tensors, in one
 * file or several.
 *
 * All numbers are little-endian, and only tensor data is aligned. A string is a u64 length and its
 * bytes. The file in order:
 *   "GGUF", u32 version, u64 number of tensors, u64 number of key-values
 *   each key-value:  string key, u32 type, value (an array: u32 type of its items, u64 length,
 *                    items)
 *   each tensor:     string name, u32 rank, u64 dimensions (the fastest first), u32 ggml type, u64
 *                    offset of its data
 *   zeros up to a multiple of the key general.alignment (32 if absent)
 *   the data, each tensor's at a multiple of the alignment; offsets count from here
 * Version 3 is version 2 plus files of big-endian machines. Version 1 had 32-bit counts and
 * lengths.
 * Sources: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; for split files llama.cpp,
 * tools/gguf-split.
 *
 * Checked beyond the specification: every count against the remaining bytes; 0 to 4 dimensions of
 * at least 1; rows are whole blocks; data is inside the file and does not overlap; no name or key
 * comes twice. As in ggml, the alignment may be any power of two. Bytes that belong to no tensor
 * are accepted. */

/* One file. */
typedef struct GgufPart {
    FileMap  map;
    GgufMeta meta;
    uint32_t version;
    /* list_offset, data_offset: where the tensor list and the data begin. */
    size_t   alignment, list_offset, data_offset;
    size_t   first_tensor, n_tensors; /* in GgufFile.tensors */
} GgufPart;

typedef struct GgufFile {
    GgufPart       *part;
    size_t          n_parts;
    const GgufMeta *meta;      /* the model's key-values: those of the first part */
    /* Sorted by part, then offset. Shapes are row-major: the file's dimensions in reverse. */
    Tensor         *tensors;
    size_t          n_tensors;
    const Tensor  **by_name;   /* ascending */
    char           *names;     /* Tensor.name points into it */
} GgufFile;

/* Open and check a file. If it is one part of several (NAME-00002-of-00003.gguf, key split.count),
 * all parts are opened, in their order. Tensor types are F32, F16, BF16 and the blocked DTypes; any
 * other is an error that names it. Errors: INPUT, which names the file and the key or tensor, also
 * for version 1, big-endian files and older formats (GGJT ...); SYSTEM without memory. Memory is a
 * small multiple of the headers' size; tensor data is not touched. Close with gguf_close. */
bool gguf_open(GgufFile *f, const char *path, Error *err);
void gguf_close(GgufFile *f);                  /* a zeroed GgufFile is fine */

const Tensor   *gguf_tensor(const GgufFile *f, const char *name);        /* NULL: no such tensor */
const GgufPart *gguf_part_of(const GgufFile *f, const Tensor *t);        /* the part that holds t */

/* ---- gguf_tensors.c -------------------------------------------------------------------------- */

/* The tensor list of one GGUF file. Part of the reader (gguf.h). */

enum {
    GGUF_MAX_NAME   = 64,         /* bytes of a name: the specification's limit */
    GGUF_LEAST_INFO = 8 + 4 + 4 + 8 /* least bytes of an entry: name length, rank, type, offset */
};

/* Read n entries from the cursor on into t[0 .. n), sorted by offset. The names go into `names`,
 * which has n times GGUF_MAX_NAME + 1 bytes. *data_offset: where the data begins. Everything is
 * checked except that no name comes twice. Errors: INPUT. */
bool gguf_tensors_take(Tensor *t, char *names, size_t n, GgufCursor *c, size_t alignment,
                       size_t *data_offset);

#endif
