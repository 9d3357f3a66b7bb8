/* source/model_file.h: a model file (docs/format.md) as a source. */
#ifndef SOURCE_MODEL_FILE_H
#define SOURCE_MODEL_FILE_H

#include "source/source.h"

/* Open s->path: format and version, config, tensors. */
bool model_file_open(Source *s, Error *err);

#endif
