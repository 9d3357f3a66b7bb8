/* api/record.h: fields of receipts and logs of anybody (receipt_read.c, audit_log.c): each is read
 * within its range, or the message names it, what was expected and what was found. */
#ifndef API_RECORD_H
#define API_RECORD_H

#include "api/api.h"
#include "base/json.h"

/* name begins messages; key, a parameter of all below, is the field in them. */
typedef struct Record { const char *name; Error *err; } Record;

/* NAME: KEY: expected ..., found ... (INPUT); returns false. */
bool record_wrong(const Record *in, const char *key, const char *expected, const JsonNode *found);

/* An object with no members but these, of which the first `needed` must be there. Values that are
 * not there are NULL. */
bool record_members(const Record *in, const char *key, const JsonNode *object,
                    const char *const *keys, size_t n, size_t needed, const JsonNode **value);

bool record_whole(const Record *in, const char *key, const JsonNode *j, int64_t least, int64_t most,
                  int64_t *out);
/* A number, rounded to what the sampler has. */
bool record_float(const Record *in, const char *key, const JsonNode *j, float *out);
/* Adds the ids of an array to out, which has room for them. */
bool record_ids(const Record *in, const char *key, const JsonNode *j, int32_t *out, size_t *n);

/* Sampling options, in the order of docs/receipts.md. */
enum { RECORD_TEMP, RECORD_TOP_K, RECORD_TOP_P, RECORD_MIN_P, RECORD_REPEAT, RECORD_PRESENCE,
       RECORD_FREQUENCY, RECORD_SEED, RECORD_BIAS, RECORD_OPTIONS };
extern const char *const record_options[RECORD_OPTIONS];

/* What a value that is there says replaces the field of *out. keys: as messages name them. *ids
 * and *bias, allocated, are those of out (NULL before), also on failure. */
bool record_sampling(const Record *in, const char *const keys[RECORD_OPTIONS],
                     const JsonNode *const value[RECORD_OPTIONS], SamplerOptions *out,
                     int32_t **ids, float **bias);

#endif
