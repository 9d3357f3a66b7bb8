/* format/gguf.h: GGUF files, the format of ggml and llama.cpp: typed key-values and tensors, in one
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
 * Checked beyond the specification: every count against the bytes that are left; 0 to 4 dimensions
 * of at least 1; rows are whole blocks; data is inside the file and does not overlap; no name or
 * key comes twice. As in ggml, the alignment may be any power of two. Bytes that belong to no
 * tensor are accepted. */
#ifndef FORMAT_GGUF_H
#define FORMAT_GGUF_H

#include "format/gguf_meta.h"
#include "format/tensors.h"

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

#endif
