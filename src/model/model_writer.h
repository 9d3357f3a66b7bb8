/* model/model_writer.h: writes a model file: types, rows, their conversion. */
#ifndef MODEL_MODEL_WRITER_H
#define MODEL_MODEL_WRITER_H

#include "format/tensors.h"
#include "model/tensor_list.h"
#include "quant/quant.h"

/* ---- type_plan.c ----------------------------------------------------------------------------- */

/* Decides the type of each matrix when a model is quantized, into a file or
 * while it is loaded. */

/* The type of a matrix if the user does not say otherwise: `target`, except for the two ends of a
 * quantized model (docs/quantize.md) and for the small matrices that choose experts. */
WeightType type_plan_default(const TensorSpec *s, WeightType target);

/* The types of all tensors of the config, in order [tensor_list_count]; vectors are F32. keep:
 * "PATTERN=TYPE", a glob on the names of matrices; the first that matches counts. from: where the
 * weights come from; NULL: not known yet, or whatever they are. name: for messages. The caller
 * frees the array. NULL: USAGE (keep is wrong or matches no matrix), INPUT (a quantized matrix
 * would have to be quantized again), SYSTEM. */
WeightType *type_plan_new(const Config *c, const StoredModel *from, const char *name,
                          WeightType target, const char *const *keep, size_t n_keep, Error *err);

/* ---- retype.c -------------------------------------------------------------------------------- */

/* Converts weights from one type to another, 16 rows at a time. `quantize` writes a
 * file with it, and a model that is loaded with another type is made with it, so both hold the same
 * bits. */

typedef enum RetypeFault { RETYPE_GOOD, RETYPE_NOT_FINITE, RETYPE_TOO_LARGE } RetypeFault;

/* What happened to some rows. */
typedef struct RetypeReport {
    /* If measured, sums of squares: of the differences between stored and given values; of the
     * given values. */
    double      error2, sum2;
    /* Weights; and those too small for the type, which became 0: bf16 under 2^-50, f16 under 2^-25,
     * q8 and q4 if the scale of their 256 is under 2^-25. */
    uint64_t    n, flushed;
    RetypeFault fault;            /* about the first weight that cannot be stored */
    int         row, column;      /* row: counted from the first of these rows */
    float       value;
} RetypeReport;

/* Bytes of scratch memory (64-byte aligned) that the functions below need for matrices of up to k
 * columns. */
size_t retype_scratch_bytes(int k);
size_t retype_rows_bytes(int k);   /* bytes of 16 rows of floats */

/* Read rows first .. first + n - 1 of matrix `item` of a stack (else 0) as f32 [n, k], 64-byte
 * aligned. They are in one panel of 16. Exact; quantized weights are rounded once. The tensor may
 * be unaligned. */
void retype_read(const TensorSpec *s, const CheckedTensor *t, int item, int first, int n,
                 float *rows, void *scratch);

/* Store n rows as one panel, or row by row; part i goes to to[i]. Weights are rounded to nearest;
 * bf16 magnitudes under 2^-50 become 0 (docs/numerics.md, "--math bf16"). measure: also compute the
 * sums of squares. If the report has a fault, the stored bytes mean nothing. weight: as in
 * panel_quantize. */
void retype_store(WeightType type, bool panels, void *const to[MAX_PARTS], const float *rows,
                  const float *weight, int n, int k, bool measure, void *scratch,
                  RetypeReport *report);

/* Store 16 rows in the type that they have: panel number `block` of the stack, which is rows first
 * .. first + n - 1 of matrix `item`. Every bit is kept, even of NaN, but bf16 magnitudes under
 * 2^-50 become 0. rows: room for 16 rows of floats. */
void retype_copy(const TensorSpec *s, const CheckedTensor *t, bool panels,
                 void *const to[MAX_PARTS], int block, int item, int first, int n, void *rows,
                 RetypeReport *report);

/* Write a vector as f32 [s->rows], exact, and check it as retype_store does. The report's row is
 * the index of a fault. */
void retype_vector(const TensorSpec *s, const CheckedTensor *t, float *out, RetypeReport *report);

/* Add a later report to a sum. The earlier of two faults stays. first_row: of the later report. */
void retype_sum(RetypeReport *sum, const RetypeReport *later, int first_row);

/* Fail with the message of a fault (INPUT): file, tensor, row, column. Returns false. */
bool retype_fail(const RetypeReport *report, const char *path, const TensorSpec *s, WeightType type,
                 Error *err);

/* ---- model_writer.c -------------------------------------------------------------------------- */

/* Writes a model file (docs/format.md) tensor after tensor. It takes care of
 * names, shapes, padding, metadata and the hash. The caller gives the bytes of the tensors in the
 * order of tensor_list.h; a quantized matrix comes part after part. */

typedef struct ModelWriter ModelWriter;

/* The metadata entries for chat (docs/format.md, "Chat"). */
typedef enum ChatMeta { CHAT_TEMPLATE, CHAT_TEMPLATE_TOOLS, CHAT_SPECIAL_TOKENS } ChatMeta;
enum { CHAT_METAS = CHAT_SPECIAL_TOKENS + 1, MOST_CHAT_META = 1 << 20 }; /* bytes of one */
extern const char *const chat_meta_keys[CHAT_METAS];

/* What goes into a file. */
typedef struct ModelContents {
    const Config     *config;     /* passed config_check; NULL: only a tokenizer */
    /* The type of each tensor of the config (tensor_list.h); vectors are always F32. The caller's
     * bf16 weights must have no magnitude under 2^-50 except 0, as retype_store leaves them. */
    const WeightType *types;
    const char       *source;     /* JSON for the metadata */
    /* The file to copy the tokenizer and the entries for chat from; NULL: none. */
    const TensorFile *tokenizer;
    bool              row_major;  /* layout `rows` instead of rows16 */
    /* Matrices are holes, which read as zeros. Then only vectors are appended, and no sha256 is
     * recorded. */
    bool              sparse;
    /* Entries for chat to write if there is a tokenizer whose file lacks them; each may be NULL. */
    const char       *chat_meta[CHAT_METAS];
    /* A chat template to write instead of all others; NULL: none. */
    const char       *forced_template;
} ModelContents;

/* Go to the next tensor of the file, in the file's layout; otherwise as tensor_list_next. Begin
 * with tensor_list_start. */
bool model_contents_next(const ModelContents *what, TensorSpec *s);

/* Begin a file. Nothing appears at path before model_writer_end. NULL: an error. */
ModelWriter *model_writer_new(const char *path, const ModelContents *what, Error *err);

/* Append bytes of the tensors, in order. A chunk may end anywhere inside a tensor (or part) but
 * must not span two. The tokenizer is not appended: it is written automatically. */
bool model_writer_append(ModelWriter *w, const void *data, size_t n_bytes, Error *err);

/* Replace the source by one with as many bytes. Call it before the end. */
bool model_writer_source(ModelWriter *w, const char *source, Error *err);

/* All bytes must have been appended. Frees w in any case. */
bool model_writer_end(ModelWriter *w, Error *err);
void model_writer_abort(ModelWriter *w);           /* removes what was written; NULL is fine */

#endif
