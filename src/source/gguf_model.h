/* source/gguf_model.h: a GGUF file as a source: its settings as our config, its tensors as our
 * tensors. Source of the names: llama.cpp, gguf-py/gguf/constants.py; of what they mean,
 * src/llama-model.cpp. */
#ifndef SOURCE_GGUF_MODEL_H
#define SOURCE_GGUF_MODEL_H

#include "source/source.h"

/* Does a file that begins with these bytes belong to the GGUF reader (also to be told that it is
 * too old)? */
bool gguf_is(const unsigned char *head, size_t n);

/* Open s->path: all parts of a split file. A vocabulary alone has no weights. */
bool gguf_model_open(Source *s, Error *err);

/* ---- Between the files of this reader ---- */

typedef struct GgufArch GgufArch;

/* The architecture of a file; INPUT where it is none that we know. */
const GgufArch *gguf_arch(const GgufFile *f, Error *err);
/* rotates neighbours: rows of q and k are permuted to halves */
bool            gguf_arch_pairs(const GgufArch *a);

/* The config of the source, from the key-values and from which tensors there are; checked. A
 * setting that changes the result and that is not supported is INPUT. What the user should know
 * goes to source_warn. */
bool gguf_config(Source *s, const GgufArch *a, Error *err);

#endif
