/* source/hf_reader.h: the state of reading a config.json key by key. Keys that nobody asked for
 * must be harmless, which is checked at the end. Private to hf_config.c and hf_rope.c. */
#ifndef SOURCE_HF_READER_H
#define SOURCE_HF_READER_H

#include "model/config_keys.h"
#include "source/hf_config.h"

typedef struct HfReader {
    KeyReader            keys;      /* of the text part, if there are several */
    const FamilyWrapper *wrapper;
    const Family        *family;
    Config              *c;
    Source              *source;    /* gets the warnings */
} HfReader;

/* Read theta, scaling and the number of rotated dimensions: hf_rope.c. */
bool hf_rope_read(HfReader *r);

#endif
