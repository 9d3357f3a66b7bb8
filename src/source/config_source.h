/* source/config_source.h: a config alone, without weights. */
#ifndef SOURCE_CONFIG_SOURCE_H
#define SOURCE_CONFIG_SOURCE_H

#include "model/config.h"

/* Read a JSON config: ours (docs/format.md), or the config.json of a Hugging Face folder. Passes
 * config_check; the caller asks whether it is supported. Errors: INPUT naming file and key,
 * SYSTEM. */
bool config_source_read(Config *c, const char *path, Error *err);

#endif
