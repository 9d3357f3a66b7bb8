/* format/gguf.h: GGUF files, the format of ggml and llama.cpp: typed key-values and tensors, in one file or several.
 *
 * All numbers are little-endian, nothing is aligned but tensor data; a string is a u64 length and its bytes:
 *   "GGUF", u32 version, u64 number of tensors, u64 number of key-values
 *   each key-value:  string key, u32 type, value (an array: u32 type of its items, u64 length, items)
 *   each tensor:     string name, u32 rank, u64 dimensions (the fastest first), u32 ggml type, u64 offset of its data
 *   zeros up to a multiple of the key general.alignment (32 where absent), from where offsets count; then the data, each
 *   tensor's at a multiple of the alignment.
 * Version 3 is version 2 plus files of big-endian machines; version 1 had 32-bit counts and lengths.
 * Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; split files: llama.cpp, tools/gguf-split.
 *
 * Checked beyond the specification: every count against the bytes that are left, 1 to 4 dimensions of at least 1 (or none),
 * rows of whole blocks, data inside the file and without overlap, no name or key twice. As in ggml the alignment may be any
 * power of two. Bytes that no tensor owns are accepted. */
#ifndef FORMAT_GGUF_H
#define FORMAT_GGUF_H

#include "format/gguf_meta.h"
#include "format/tensors.h"

/* One file. */
typedef struct GgufPart {
    FileMap  map;
    GgufMeta meta;
    uint32_t version;
    size_t   alignment, list_offset, data_offset; /* where the tensor list and the data begin */
    size_t   first_tensor, n_tensors; /* in the list of all */
} GgufPart;

typedef struct GgufFile {
    GgufPart       *part;
    size_t          n_parts;
    const GgufMeta *meta;      /* the model's: that of the first part */
    Tensor         *tensors;   /* by part, then offset. Shapes are row-major: the dimensions of the file in reverse */
    size_t          n_tensors;
    const Tensor  **by_name;   /* ascending */
    char           *names;     /* what Tensor.name points into */
} GgufFile;

/* Open and check a file, and where it is one part of several (NAME-00002-of-00003.gguf, key split.count) all of them, in
 * their order whichever was named. Tensor types: F32, F16, BF16 and the blocked DTypes; another is an error that names it.
 * Errors are INPUT and name the file and the key or tensor; SYSTEM without memory. Version 1, big-endian and older formats
 * (GGJT ...) are errors that say so. Memory is at most a small multiple of the headers' size; tensor data is not touched. */
bool gguf_open(GgufFile *f, const char *path, Error *err);
void gguf_close(GgufFile *f);                  /* a zeroed GgufFile is accepted */

const Tensor   *gguf_tensor(const GgufFile *f, const char *name);        /* NULL: no such tensor */
const GgufPart *gguf_part_of(const GgufFile *f, const Tensor *t);        /* the file that t lies in */

#endif
