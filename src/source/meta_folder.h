/* source/meta_folder.h: opens a folder as Meta publishes Llama: params.json and
 * consolidated.00.pth, .01.pth ..., each with one shard of the tensor-parallel layers. Mistral's
 * first releases have the same form. Sources: https://github.com/meta-llama/llama, llama/model.py
 * (names, widths, which dimension is cut); transformers, convert_llama_weights_to_hf.py (what no
 * file says: contexts, ids, the scaling of small models). */
#ifndef SOURCE_META_FOLDER_H
#define SOURCE_META_FOLDER_H

#include "source/source.h"

/* Does the folder hold a params.json and a consolidated.00.pth? */
bool meta_folder_is(const char *path);

bool meta_folder_open(Source *s, Error *err);

#endif
