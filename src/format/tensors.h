/* format/tensors.h: bytes to named tensors. Has never heard of a layer. */
#ifndef FORMAT_TENSORS_H
#define FORMAT_TENSORS_H

#include "base/file.h"
#include "quant/ggml_blocks.h"

enum { TENSOR_MAX_RANK = 8 };

/* The types below DT_BLOCKS are those of safetensors: elements that stand alone. Those from DT_BLOCKS on, in the order of
 * BlockType, are in GGUF files only: rows are whole blocks of them. */
typedef enum DType {
    DT_BOOL, DT_U8, DT_I8, DT_I16, DT_U16, DT_F16, DT_BF16, DT_I32, DT_U32, DT_F32, DT_F64, DT_I64, DT_U64, DT_BLOCKS,
    DT_Q4_0 = DT_BLOCKS, DT_Q4_1, DT_Q5_0, DT_Q5_1, DT_Q8_0, DT_Q2_K, DT_Q3_K, DT_Q4_K, DT_Q5_K, DT_Q6_K, DT_IQ4_NL, DT_IQ4_XS,
    DT_MXFP4, DT_COUNT
} DType;

static inline bool      dtype_blocked(DType t) { return t >= DT_BLOCKS; }
static inline BlockType dtype_block_type(DType t) { return (BlockType)(t - DT_BLOCKS); } /* of a blocked one */

const char *dtype_name(DType t);                     /* "F32": the spelling of safetensors; "Q4_K": that of ggml */
bool        dtype_parse(const char *name, DType *out); /* a type of safetensors */
size_t      dtype_block_elements(DType t);           /* 1 for a type that is not blocked */
size_t      dtype_block_bytes(DType t);
size_t      dtype_bytes(DType t);                    /* of one element; not for a blocked type */

typedef struct Tensor {
    const char *name;
    DType       dtype;
    int         rank;
    int64_t     shape[TENSOR_MAX_RANK];
    size_t      n_elements, n_bytes;
    size_t      offset;      /* in the file; SIZE_MAX: a copy that lies in memory only (TensorFile.copies) */
    const void *data;        /* in the mapping or in copies */
} Tensor;

typedef struct MetaEntry {
    const char *key, *value; /* unescaped, NUL-terminated */
    size_t      value_bytes;
} MetaEntry;

typedef struct TensorFile {
    FileMap        map;
    Tensor        *tensors;  /* in file order (ascending offset; header order among empty ones) */
    int            n_tensors;
    size_t         data_offset, data_bytes;
    MetaEntry     *meta;     /* ascending by key */
    int            n_meta;
    const Tensor **by_name;  /* ascending by name, for tensor_find */
    char          *strings;  /* what the names and metadata point into */
    unsigned char *copies;   /* values that the file does not hold in row-major order (pth.h); NULL: none */
} TensorFile;

/* Open and check a safetensors file: header length (at most 100 MB), JSON, every offset (in range, no overlap, no hole,
 * nothing after the last tensor), sizes against shape and dtype with overflow seen, duplicate names, metadata values
 * that are not strings. Offsets need not be aligned. Errors are INPUT and name the file and the tensor; SYSTEM without
 * memory. Format: https://github.com/huggingface/safetensors, README "Format". */
bool safetensors_open(TensorFile *f, const char *path, Error *err);
bool safetensors_open_private(TensorFile *f, const char *path, Error *err); /* mapped by file_map_open_private */
void tensor_file_close(TensorFile *f);               /* a zeroed TensorFile is accepted */

const Tensor *tensor_find(const TensorFile *f, const char *name);   /* NULL: no such tensor */
const char   *tensor_meta(const TensorFile *f, const char *key);    /* NULL: no such entry  */

/* The same for any list of n pointers to tensors, once tensors_sort has put it in ascending order of names. */
void          tensors_sort(const Tensor **by_name, size_t n);
const Tensor *tensors_find(const Tensor *const *by_name, size_t n, const char *name);

/* "[3, 4]" into buf of n >= 1 bytes, cut where it does not fit; returns buf. For messages. */
const char *tensor_shape_text(const Tensor *t, char *buf, size_t n);

/* The number of elements of a shape and its bytes; false where they overflow, a dimension is negative or rows are not whole
 * blocks of dtype. */
bool shape_bytes(DType dtype, int rank, const int64_t *shape, size_t *n_elements, size_t *n_bytes);

/* ---- Writing ---- */

/* Declare tensors first (in file order), then begin, then write the data (any order, any thread, non-overlapping), then
 * end: the file appears under its name only then. data_align: a power of two; the header is padded with spaces so that
 * the data section starts on a multiple of it (under 8 pads to 8, as the format recommends). Names and metadata are
 * UTF-8. Errors are those of out_file_open and out_file_write_at; misuse by the caller (a name twice, a patch of
 * another length, too few bytes) is SYSTEM with a message that names the tensor. */
typedef struct TensorWriter TensorWriter;
TensorWriter *tensor_writer_new(const char *path, size_t data_align, Error *err);
bool tensor_writer_meta(TensorWriter *w, const char *key, const char *value, Error *err);
bool tensor_writer_declare(TensorWriter *w, const char *name, DType dtype, int rank, const int64_t *shape, Error *err);
/* The tensor that was declared last is a hole: it counts as written, reads as zeros and takes no space on the disk. */
void tensor_writer_hole(TensorWriter *w);
bool tensor_writer_begin(TensorWriter *w, Error *err);
/* Write n_bytes of tensor number i (order of declaration) at byte `at` of it. */
bool tensor_writer_put(TensorWriter *w, int i, size_t at, const void *data, size_t n_bytes, Error *err);
/* Replace the value of a metadata key by one of the same length (for a hash known only at the end). Before end. */
bool tensor_writer_patch_meta(TensorWriter *w, const char *key, const char *value, Error *err);
bool tensor_writer_end(TensorWriter *w, Error *err);  /* checks all bytes were written; frees w either way */
void tensor_writer_abort(TensorWriter *w);            /* removes the temporary file; NULL is accepted */

#endif
