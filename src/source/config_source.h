/* source/config_source.h: reads a config file without weights. */
#ifndef SOURCE_CONFIG_SOURCE_H
#define SOURCE_CONFIG_SOURCE_H

#include "model/config.h"

/* Read a JSON config: one of ours (docs/format.md), or the config.json of a Hugging Face folder. It
 * has passed config_check; the caller calls config_supported. Errors: INPUT with file and key, or
 * SYSTEM. */
bool config_source_read(Config *c, const char *path, Error *err);

#endif
