/* tokmake/gguf_pre.h: the settings of a byte-level vocabulary by its name in tokenizer.ggml.pre. */
#ifndef TOKMAKE_GGUF_PRE_H
#define TOKMAKE_GGUF_PRE_H

#include "tokmake/vocab_draft.h"

/* Set pretokenize, ignore_merges and normalizer. *add_bos becomes the default for files that do not
 * say whether BOS is added. Errors: INPUT (an unknown name), SYSTEM. */
bool gguf_pre_settings(VocabDraft *d, Text name, bool *add_bos);

#endif
