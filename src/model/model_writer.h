/* model/model_writer.h: write a model file (docs/format.md) tensor after tensor: names, shapes, padding, metadata and the
 * hash are taken care of here; the caller gives the tensors' bytes in the order of tensor_list.h. */
#ifndef MODEL_MODEL_WRITER_H
#define MODEL_MODEL_WRITER_H

#include "format/tensors.h"
#include "model/tensor_list.h"
#include "quant/quant.h"

typedef struct ModelWriter ModelWriter;

/* Begin a file in layout rows16 with matrices of one type and vectors in F32. source is JSON for the metadata. c passed
 * config_check. NULL on failure. Nothing appears at path before model_writer_end. */
ModelWriter *model_writer_new(const char *path, const Config *c, WeightType type, const char *source, Error *err);

/* Append bytes of the tensors, in order; a piece may end anywhere inside a tensor but not span two. */
bool model_writer_append(ModelWriter *w, const void *data, size_t n_bytes, Error *err);

bool model_writer_end(ModelWriter *w, Error *err); /* all bytes must have been appended; frees w either way */
void model_writer_abort(ModelWriter *w);           /* removes what was written; NULL is accepted            */

#endif
