/* model/model_writer.h: writes a model file (docs/format.md) tensor after tensor. It takes care of
 * names, shapes, padding, metadata and the hash. The caller gives the bytes of the tensors in the
 * order of tensor_list.h; a quantized matrix comes part after part. */
#ifndef MODEL_MODEL_WRITER_H
#define MODEL_MODEL_WRITER_H

#include "format/tensors.h"
#include "model/tensor_list.h"
#include "quant/quant.h"

typedef struct ModelWriter ModelWriter;

/* What goes into a file. */
typedef struct ModelContents {
    const Config     *config;     /* passed config_check; NULL: only a tokenizer */
    /* The type of each tensor of the config (tensor_list.h); vectors are always F32. The caller's
     * bf16 weights must have no magnitude under 2^-50 except 0, as retype_store leaves them. */
    const WeightType *types;
    const char       *source;     /* JSON for the metadata */
    /* The file to copy the tokenizer and chat format from; NULL: none. */
    const TensorFile *tokenizer;
    bool              row_major;  /* layout `rows` instead of rows16 */
    /* Matrices are holes, which read as zeros. Then only vectors are appended, and no sha256 is
     * recorded. */
    bool              sparse;
    /* The JSON of a chat format to use instead of the tokenizer file's; NULL: none. */
    const char       *chat;
    /* A chat template to write if there is a tokenizer whose file has no template; NULL: none. */
    const char       *chat_template;
} ModelContents;

/* Go to the next tensor of the file, in the file's layout; otherwise as tensor_list_next. Begin
 * with tensor_list_start. */
bool model_contents_next(const ModelContents *what, TensorSpec *s);

/* Begin a file. Nothing appears at path before model_writer_end. NULL: an error. */
ModelWriter *model_writer_new(const char *path, const ModelContents *what, Error *err);

/* Append bytes of the tensors, in order. A piece may end anywhere inside a tensor (or part) but
 * must not span two. The tokenizer is not appended: it is written automatically. */
bool model_writer_append(ModelWriter *w, const void *data, size_t n_bytes, Error *err);

/* Replace the source by one with as many bytes. Call it before the end. */
bool model_writer_source(ModelWriter *w, const char *source, Error *err);

/* All bytes must have been appended. Frees w in any case. */
bool model_writer_end(ModelWriter *w, Error *err);
void model_writer_abort(ModelWriter *w);           /* removes what was written; NULL is fine */

#endif
