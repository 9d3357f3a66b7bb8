/* source/tokenizer_source.h: published tokenizers, alone or beside weights, as a model file would
 * hold them. */
#ifndef SOURCE_TOKENIZER_SOURCE_H
#define SOURCE_TOKENIZER_SOURCE_H

#include "source/source.h"

/* Is it a folder with tokenizer.json, tokenizer.model, or vocab.json and merges.txt; is it one such
 * file (see tokmake.h)? Looks at names and first bytes alone. */
bool tokenizer_folder_is(const char *folder);
bool tokenizer_file_is(const FileMap *m);

/* Make the source's tokenizer in memory and put it where a model file has its own: s->file. A GGUF
 * file or a folder without one has none afterwards. Errors: those of tokenizer_make and
 * tokenizer_make_gguf. */
bool open_tokenizer_source(Source *s, Error *err);

/* The same for a llama2.c file, which has none in it: tokenizer.bin or tokenizer.model in its
 * folder, whichever is first a tokenizer of as many tokens as the model has. Sets
 * s->tokenizer_note. Fails only with SYSTEM: the model can be used without one. */
bool open_tokenizer_beside(Source *s, Error *err);
/* as file_check_apart, of those two, taken or not */
bool tokenizer_beside_apart(const char *path, const char *output, Error *err);

#endif
