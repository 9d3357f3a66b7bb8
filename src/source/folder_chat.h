/* source/folder_chat.h: the chat template of a Hugging Face folder. */
#ifndef SOURCE_FOLDER_CHAT_H
#define SOURCE_FOLDER_CHAT_H

#include "source/source.h"

/* Set s->chat_template from chat_template.jinja, tokenizer_config.json or chat_template.json,
 * whichever is the first to hold one. If it holds several by name, take "default". A folder without
 * one is no error. Source: transformers, tokenization_utils_base.py. */
bool folder_chat_template(Source *s, const char *folder, Error *err);

#endif
