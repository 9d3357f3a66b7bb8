/* source/hf_reader.h: a config.json being read, key by key; what is left over at the end has to be
 * harmless. Private to hf_config.c and hf_rope.c. */
#ifndef SOURCE_HF_READER_H
#define SOURCE_HF_READER_H

#include "model/config_keys.h"
#include "source/hf_config.h"

typedef struct HfReader {
    KeyReader            keys;      /* of the text part where there are several */
    const FamilyWrapper *wrapper;
    const Family        *family;
    Config              *c;
    Source              *source;    /* gets the warnings */
} HfReader;

/* theta, scaling and rotated dimensions: hf_rope.c. */
bool hf_rope_read(HfReader *r);

#endif
