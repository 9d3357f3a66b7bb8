/* source/refuse.h: what to say of a path that is no model: what it is instead, and what to do next. Each returns false. */
#ifndef SOURCE_REFUSE_H
#define SOURCE_REFUSE_H

#include "base/file.h"

/* The path cannot be opened, and *why says so. If nothing is there and the name looks like a repository
 * of the Hugging Face hub, this says how to download it. */
bool refuse_missing(const char *path, const Error *why, Error *err);

/* A folder without a config.json, params.json or tokenizer. */
bool refuse_folder(const char *folder, Error *err);

/* A folder with a config.json and without weights. */
bool refuse_without_weights(const char *folder, Error *err);

/* A file of no kind that is known; true: nothing is known of it either, and a reader's error will have to do. */
bool refuse_file(const FileMap *map, Error *err);

#endif
