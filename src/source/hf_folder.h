/* source/hf_folder.h: a Hugging Face folder as a source: config.json, generation_config.json, and
 * the weights of model.safetensors, its shards with their index, or pytorch_model.bin likewise; or
 * one such file alone with config.json beside it. */
#ifndef SOURCE_HF_FOLDER_H
#define SOURCE_HF_FOLDER_H

#include "source/source.h"

/* Is there a config.json in this folder, or beside this file of weights (whose first n bytes are
 * head)? */
bool hf_folder_is(const char *path);
bool hf_file_is(const char *path, const unsigned char *head, size_t n);

/* Are there files of weights, or an index, in this folder or beside this file? */
bool hf_weights_there(const char *path);

/* Open s->path, which is one of both. */
bool hf_folder_open(Source *s, Error *err);

/* Where a source's small files are: the folder of a file of weights, else the path itself. Returns
 * buf or s->path. */
const char *hf_folder_of(const Source *s, char *buf, size_t n);

#endif
