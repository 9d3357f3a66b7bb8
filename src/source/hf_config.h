/* source/hf_config.h: config.json of a Hugging Face folder to our config: both dialects, absent
 * keys, and the refusal of what is not known. What is special about a family stands in family.c. */
#ifndef SOURCE_HF_CONFIG_H
#define SOURCE_HF_CONFIG_H

#include "base/json.h"
#include "source/family.h"
#include "source/source.h"

typedef struct HfConfig {
    Config               config;    /* passed config_check */
    const Family        *family;
    /* a model of several kinds of input, of which this is the text part; else NULL */
    const FamilyWrapper *wrapper;
} HfConfig;

/* Is this JSON the config of a Hugging Face folder? Ours has neither of its keys. */
bool hf_config_is(const Json *root);

/* Root: config.json, which path names in messages; generation_path: generation_config.json, whose
 * ends of text count too, or NULL. What the user should know goes to source_warn. hf_config_read
 * reads the file too. */
bool hf_config_parse(HfConfig *out, Source *s, const Json *root, const char *path, const char *generation_path, Error *err);
bool hf_config_read(HfConfig *out, Source *s, const char *path, const char *generation_path, Error *err);

#endif
