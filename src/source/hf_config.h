/* source/hf_config.h: converts the config.json of a Hugging Face folder to our config. It reads
 * both dialects, knows what an absent key means, and refuses unknown keys. What differs between
 * families is in family.c. */
#ifndef SOURCE_HF_CONFIG_H
#define SOURCE_HF_CONFIG_H

#include "base/json.h"
#include "source/family.h"
#include "source/source.h"

typedef struct HfConfig {
    Config               config;    /* passed config_check */
    const Family        *family;
    /* set if this is the text part of a model with several kinds of input */
    const FamilyWrapper *wrapper;
} HfConfig;

/* Is this JSON the config of a Hugging Face folder? Our own configs have neither of its two
 * keys. */
bool hf_config_is(const Json *root);

/* Convert root, the parsed config.json; path is its name in messages. generation_path:
 * generation_config.json, whose end-of-text ids are added, or NULL. Warnings go to source_warn.
 * hf_config_read also reads and parses the file. */
bool hf_config_parse(HfConfig *out, Source *s, const Json *root, const char *path, const char *generation_path, Error *err);
bool hf_config_read(HfConfig *out, Source *s, const char *path, const char *generation_path, Error *err);

#endif
