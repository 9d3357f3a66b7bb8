/* model/model_writer.h: write a model file (docs/format.md) tensor after tensor: names, shapes,
 * padding, metadata and the hash are taken care of here; the caller gives the tensors' bytes in the
 * order of tensor_list.h, a quantized matrix part after part. */
#ifndef MODEL_MODEL_WRITER_H
#define MODEL_MODEL_WRITER_H

#include "format/tensors.h"
#include "model/tensor_list.h"
#include "quant/quant.h"

typedef struct ModelWriter ModelWriter;

/* What goes into a file. */
typedef struct ModelContents {
    const Config     *config;     /* passed config_check; NULL: only a tokenizer */
    /* of each tensor of the config (tensor_list.h); those of vectors are not looked at: F32. bf16
     * that is appended has no magnitude but 0 under 2^-50, as retype_store leaves it */
    const WeightType *types;
    const char       *source;     /* JSON for the metadata */
    /* the file whose tokenizer and chat format are copied; NULL: none */
    const TensorFile *tokenizer;
    bool              row_major;  /* layout `rows`; false: rows16 */
    /* matrices are holes, which read as zeros: only vectors are appended, and no sha256 is
     * recorded */
    bool              sparse;
    /* a chat format, JSON, instead of that of the tokenizer's file; NULL */
    const char       *chat;
    /* written where the tokenizer's file has none and there is a tokenizer; NULL: none */
    const char       *chat_template;
} ModelContents;

/* The next tensor of the file, as tensor_list_next (tensor_list_start comes first), in the layout
 * of the file. */
bool model_contents_next(const ModelContents *what, TensorSpec *s);

/* Begin a file. NULL on failure. Nothing appears at path before model_writer_end. */
ModelWriter *model_writer_new(const char *path, const ModelContents *what, Error *err);

/* Append bytes of the tensors, in order; a piece may end anywhere inside a tensor (a part) but not
 * span two. The tokenizer is not appended: it follows by itself. */
bool model_writer_append(ModelWriter *w, const void *data, size_t n_bytes, Error *err);

/* Replace the source given at first by one of as many bytes; before the end. */
bool model_writer_source(ModelWriter *w, const char *source, Error *err);

/* all bytes must have been appended; frees w either way */
bool model_writer_end(ModelWriter *w, Error *err);
void model_writer_abort(ModelWriter *w);           /* removes what was written; NULL is accepted */

#endif
