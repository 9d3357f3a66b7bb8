/* source/refuse.h: the errors for a path that is not a model. They say what it is instead and what
 * to do next. */
#ifndef SOURCE_REFUSE_H
#define SOURCE_REFUSE_H

#include "base/file.h"

/* The path cannot be opened; *why is the reason. If nothing exists there and the name looks like a
 * repository of the Hugging Face hub, this says how to download it. */
bool refuse_missing(const char *path, const Error *why, Error *err);

/* A folder without a config.json, params.json or tokenizer. */
bool refuse_folder(const char *folder, Error *err);

/* A folder with a config.json and without weights. */
bool refuse_without_weights(const char *folder, Error *err);

/* A file of no known kind. Returns true if nothing is known about it; the caller then uses the
 * error of a reader. */
bool refuse_file(const FileMap *map, Error *err);

#endif
