/* source/gguf_model.h: opens a GGUF file: converts its settings to our config and finds our tensors
 * in it. The names are those of llama.cpp, gguf-py/gguf/constants.py; src/llama-model.cpp shows
 * what they mean. */
#ifndef SOURCE_GGUF_MODEL_H
#define SOURCE_GGUF_MODEL_H

#include "source/source.h"

/* Does a file that begins with these bytes belong to the GGUF reader? Files that are too old do as
 * well, because its message says so. */
bool gguf_is(const unsigned char *head, size_t n);

/* Open s->path; of a split file, all parts. A file with only a vocabulary has no weights. */
bool gguf_model_open(Source *s, Error *err);

/* ---- Between the files of this reader ---- */

typedef struct GgufArch GgufArch;

/* The architecture of a file. INPUT if it is unknown. */
const GgufArch *gguf_arch(const GgufFile *f, Error *err);
/* does it rotate neighbouring dimensions? Then rows of q and k are reordered */
bool            gguf_arch_pairs(const GgufArch *a);

/* Make the config of the source from the key-values and from which tensors exist, and check it. A
 * setting that changes the result and is not supported is INPUT. Warnings go to source_warn. */
bool gguf_config(Source *s, const GgufArch *a, Error *err);

#endif
