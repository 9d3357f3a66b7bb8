/* tokmake/gguf_pre.h: the settings of a byte-level vocabulary by its name in tokenizer.ggml.pre. */
#ifndef TOKMAKE_GGUF_PRE_H
#define TOKMAKE_GGUF_PRE_H

#include "tokmake/vocab_draft.h"

/* Sets pretokenize, ignore_merges and normalizer; *add_bos: what holds where the file does not say it. INPUT: an unknown name. */
bool gguf_pre_settings(VocabDraft *d, Text name, bool *add_bos);

#endif
