/* format/tensors.h: from bytes to named tensors. Lives here: data types, open files of tensors, the
 * safetensors reader and writer. Knows nothing of layers; the other formats of this room have
 * headers of their own. */
#ifndef FORMAT_TENSORS_H
#define FORMAT_TENSORS_H

#include "base/file.h"
#include "quant/quant.h"

enum { TENSOR_MAX_RANK = 8 };

/* The types before DT_BLOCKS are those of safetensors, in which each element stands alone. The
 * types from DT_BLOCKS on, in the order of BlockType, exist in GGUF files only; their rows are
 * whole blocks. */
typedef enum DType {
    DT_BOOL,
    DT_U8,
    DT_I8,
    DT_I16,
    DT_U16,
    DT_F8_E4M3,
    DT_F8_E5M2,
    DT_F8_E8M0,
    DT_F16,
    DT_BF16,
    DT_I32,
    DT_U32,
    DT_F32,
    DT_F64,
    DT_I64,
    DT_U64,
#define DT_ID(ID, ...) DT_##ID,
    BLOCK_LIST(DT_ID) DT_COUNT,
    DT_BLOCKS = DT_U64 + 1
} DType;

static inline bool      dtype_blocked(DType t) { return t >= DT_BLOCKS; }
/* t must be blocked. */
static inline BlockType dtype_block_type(DType t) { return (BlockType)(t - DT_BLOCKS); }

/* "F32" as in safetensors, "Q4_K" as in ggml. */
const char *dtype_name(DType t);
bool        dtype_parse(const char *name, DType *out); /* safetensors' types only */
size_t      dtype_block_elements(DType t);           /* 1 if t is not blocked */
size_t      dtype_block_bytes(DType t);
size_t      dtype_bytes(DType t);                    /* of one element; t is not blocked */

typedef struct Tensor {
    const char *name;
    DType       dtype;
    int         rank;
    int64_t     shape[TENSOR_MAX_RANK];
    size_t      n_elements, n_bytes;
    size_t      offset;      /* in the file; SIZE_MAX: a copy in memory (TensorFile.copies) */
    const void *data;        /* in the mapping or in copies */
} Tensor;

typedef struct MetaEntry {
    const char *key, *value; /* unescaped, NUL-terminated */
    size_t      value_bytes;
} MetaEntry;

typedef struct TensorFile {
    FileMap        map;
    Tensor        *tensors;  /* in file order: by offset; empty tensors in header order */
    int            n_tensors;
    size_t         data_offset, data_bytes;
    MetaEntry     *meta;     /* sorted by key */
    int            n_meta;
    const Tensor **by_name;  /* sorted by name, for tensor_find */
    char          *strings;  /* names and metadata point into it */
    unsigned char *copies;   /* values that the file does not hold in row-major order (pth.h) */
} TensorFile;

/* Open and check a safetensors file: the header's length (at most 100 MB), the JSON (at most 2^22
 * values; a matrix has 8), every offset (in range, no overlap, no gap, nothing after the last
 * tensor), the size of each tensor against shape and dtype without overflow, that no name comes
 * twice, and that metadata values are strings. Data need not be aligned. Errors: INPUT, which names
 * the file and the tensor; SYSTEM without memory. Close with tensor_file_close. Format:
 * https://github.com/huggingface/safetensors, README "Format". */
bool safetensors_open(TensorFile *f, const char *path, Error *err);
/* The same with file_map_open_private. */
bool safetensors_open_private(TensorFile *f, const char *path, Error *err);
void tensor_file_close(TensorFile *f);               /* a zeroed TensorFile is fine */

const Tensor *tensor_find(const TensorFile *f, const char *name);   /* NULL: no such tensor */
const char   *tensor_meta(const TensorFile *f, const char *key);    /* NULL: no such entry  */

/* The same for any list of n pointers to tensors, which tensors_sort has sorted by name. */
void          tensors_sort(const Tensor **by_name, size_t n);
const Tensor *tensors_find(const Tensor *const *by_name, size_t n, const char *name);

/* Write "[3, 4]" into buf of n >= 1 bytes, cut if it does not fit. Returns buf. For messages. */
const char *tensor_shape_text(const Tensor *t, char *buf, size_t n);

/* The number of elements and bytes of a shape. False: overflow, a negative dimension, or rows that
 * are not whole blocks of dtype. */
bool shape_bytes(DType dtype, int rank, const int64_t *shape, size_t *n_elements, size_t *n_bytes);

/* ---- Writing --------------------------------------------------------------------------------- */

/* Writes a safetensors file. Declare the tensors in file order, then begin, then write the data (in
 * any order and from any thread, without overlap), then end. Only then does the file appear under
 * its name. data_align is a power of two: spaces pad the header so that the data section starts at
 * a multiple of it (at least 8, as the format recommends). Names and metadata are UTF-8. Errors:
 * those of out_file_open and out_file_write_at; SYSTEM for a caller's mistake (a name twice, a
 * patch of another length, too few bytes), which names the tensor. */
typedef struct TensorWriter TensorWriter;
TensorWriter *tensor_writer_new(const char *path, size_t data_align, Error *err);
bool tensor_writer_meta(TensorWriter *w, const char *key, const char *value, Error *err);
bool tensor_writer_declare(TensorWriter *w, const char *name, DType dtype, int rank,
                           const int64_t *shape, Error *err);
/* Make the tensor that was declared last a hole: it counts as written, reads as zeros and takes no
 * disk space. */
void tensor_writer_hole(TensorWriter *w);
bool tensor_writer_begin(TensorWriter *w, Error *err);
/* Write n_bytes of tensor i (in order of declaration), from its byte `at` on. */
bool tensor_writer_put(TensorWriter *w, int i, size_t at, const void *data, size_t n_bytes,
                       Error *err);
/* Replace the value of a metadata key by one of the same length, before end. For a hash that is
 * known only at the end. */
bool tensor_writer_patch_meta(TensorWriter *w, const char *key, const char *value, Error *err);
/* Checks that all bytes were written. Frees w in any case. */
bool tensor_writer_end(TensorWriter *w, Error *err);
void tensor_writer_abort(TensorWriter *w);            /* removes the temporary file; NULL is fine */

#endif
