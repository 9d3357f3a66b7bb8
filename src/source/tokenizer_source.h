/* source/tokenizer_source.h: reads published tokenizers, alone or beside weights, into the form of
 * a model file. */
#ifndef SOURCE_TOKENIZER_SOURCE_H
#define SOURCE_TOKENIZER_SOURCE_H

#include "source/source.h"

/* Is this a folder with tokenizer.json, tokenizer.model, or vocab.json and merges.txt? Is this one
 * such file (see tokmake.h)? Both look only at names and first bytes. */
bool tokenizer_folder_is(const char *folder);
bool tokenizer_file_is(const FileMap *m);

/* Make the source's tokenizer in memory and put it into s->file, where a model file has its own. If
 * a GGUF file or a folder has none, s->file stays empty. Errors: those of tokenizer_make and
 * tokenizer_make_gguf. */
bool open_tokenizer_source(Source *s, Error *err);

/* The same for a llama2.c file, which holds no tokenizer. Takes tokenizer.bin or tokenizer.model
 * from its folder, the first that has as many tokens as the model. Sets s->tokenizer_note. Fails
 * only with SYSTEM, because the model can be used without a tokenizer. */
bool open_tokenizer_beside(Source *s, Error *err);
/* file_check_apart for those two files, whether they were taken or not */
bool tokenizer_beside_apart(const char *path, const char *output, Error *err);

#endif
