/* source/hf_config.h: config.json of a Hugging Face folder to our config: both dialects, absent keys, and the refusal of what is
 * not known. What is special about a family stands in family.c. */
#ifndef SOURCE_HF_CONFIG_H
#define SOURCE_HF_CONFIG_H

#include "source/family.h"
#include "source/source.h"

typedef struct HfConfig {
    Config               config;    /* passed config_check */
    const Family        *family;
    const FamilyWrapper *wrapper;   /* a model of several kinds of input, of which this is the text part; else NULL */
} HfConfig;

/* path: config.json; generation_path: generation_config.json, whose ends of text count too, or NULL. What the user should
 * know goes to source_warn. */
bool hf_config_read(HfConfig *out, Source *s, const char *path, const char *generation_path, Error *err);

#endif
