/* source/model_file.h: opens a model file of our own (docs/format.md). */
#ifndef SOURCE_MODEL_FILE_H
#define SOURCE_MODEL_FILE_H

#include "source/source.h"

/* Open s->path and check format, version, config and tensors. */
bool model_file_open(Source *s, Error *err);

#endif
