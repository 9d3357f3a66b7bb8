/* source/hf_reader.h: keys taken out of a config.json one by one; what is left over at the end has to be harmless. Private to
 * hf_config.c and hf_rope.c. */
#ifndef SOURCE_HF_READER_H
#define SOURCE_HF_READER_H

#include "base/json.h"
#include "source/hf_config.h"

enum { HF_MAX_TAKEN = 96, HF_WHAT = 4096 + 128, HF_LARGEST = 1 << 24 };

typedef struct HfReader {
    const char          *path;      /* of config.json */
    const Json          *keys;      /* of the text part where there are several */
    const Json          *outer;     /* then the whole file; else NULL */
    const FamilyWrapper *wrapper;
    const Family        *family;
    Config              *c;
    const char          *taken[HF_MAX_TAKEN]; /* keys that need not be harmless */
    size_t               n_taken;
    char                 what[HF_WHAT];
    Source              *source;    /* gets the warnings */
    Error               *err;
} HfReader;

/* The value of a key; NULL: absent. */
const Json *hf_take(HfReader *r, const char *name);

/* Of one that has several spellings, separated by "|", which must agree; *found: the one that is there, or names. A value of
 * null counts only where no spelling has another. */
bool hf_take_any(HfReader *r, const char *names, const Json **out, const char **found);

/* "PATH: KEY" for messages, until the next call. */
const char *hf_what(HfReader *r, const char *key);

/* A value as a message shows it: 3, 'gelu', an array. Returns buf. */
const char *hf_found(const Json *j, char *buf, size_t n);

bool hf_number(HfReader *r, const char *key, const Json *j, double *out);
bool hf_size(HfReader *r, const char *key, const Json *j, int *out);

/* Are two values the same? Arrays and objects are so only where they are empty or one. */
bool hf_same(const Json *a, const Json *b);

/* theta, scaling and rotated dimensions: hf_rope.c. */
bool hf_rope_read(HfReader *r);

#endif
