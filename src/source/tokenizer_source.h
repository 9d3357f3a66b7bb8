/* source/tokenizer_source.h: published tokenizers, alone or beside weights, as a model file would hold them. */
#ifndef SOURCE_TOKENIZER_SOURCE_H
#define SOURCE_TOKENIZER_SOURCE_H

#include "source/source.h"

/* Does path hold a tokenizer that is no model file: a folder with tokenizer.json, tokenizer.model, or vocab.json and merges.txt; or
 * one such file (see tokmake.h)? Looks at names and first bytes alone. */
bool tokenizer_source_is(const char *path);

/* Make the source's tokenizer in memory and put it where a model file has its own: s->file. A GGUF file or a folder without one
 * has none afterwards. Errors: those of tokenizer_make and tokenizer_make_gguf. */
bool open_tokenizer_source(Source *s, Error *err);

#endif
