/* source/hf_folder.h: opens a Hugging Face folder: config.json, generation_config.json, and the
 * weights: model.safetensors, or its shards with their index, or the same with pytorch_model.bin.
 * One file of weights can also be given if config.json is beside it. */
#ifndef SOURCE_HF_FOLDER_H
#define SOURCE_HF_FOLDER_H

#include "source/source.h"

/* Is there a config.json in this folder, or beside this file of weights? head: the first n bytes of
 * the file. */
bool hf_folder_is(const char *path);
bool hf_file_is(const char *path, const unsigned char *head, size_t n);

/* Are there files of weights, or an index of them, in this folder or beside this file? */
bool hf_weights_there(const char *path);

/* Open s->path, a folder or a file of weights. */
bool hf_folder_open(Source *s, Error *err);

/* The folder that holds a source's small files: that of a file of weights, or the path itself.
 * Returns buf or s->path. */
const char *hf_folder_of(const Source *s, char *buf, size_t n);

#endif
