/* api/record.h: fields of receipts and logs, untrusted input (receipt_read.c, audit_log.c): each
 * must be in its range; else the message names it, what was expected and what was found. */
#ifndef API_RECORD_H
#define API_RECORD_H

#include "api/api.h"
#include "base/json.h"
#include "base/sampling.h"

/* name starts messages; key, a parameter of all below, names the field in them. */
typedef struct Record { const char *name; Error *err; } Record;

/* NAME: KEY: expected ..., found ... (INPUT); returns false. */
bool record_wrong(const Record *in, const char *key, const char *expected, const JsonNode *found);

/* An object with no other members than these, of which the first `needed` are required. Values of
 * absent members are NULL. */
bool record_members(const Record *in, const char *key, const JsonNode *object,
                    const char *const *keys, size_t n, size_t needed, const JsonNode **value);

bool record_whole(const Record *in, const char *key, const JsonNode *j, int64_t least, int64_t most,
                  int64_t *out);
/* A number, rounded to the sampler's float. */
bool record_float(const Record *in, const char *key, const JsonNode *j, float *out);
/* Appends the ids of an array to out, which has room for them. */
bool record_ids(const Record *in, const char *key, const JsonNode *j, int32_t *out, size_t *n);

/* Sampling options: those that are no numbers, then the rows of base/sampling.h. Receipts had the
 * first RECORD_FIRST from their start: each has these. A later one is absent if it is 0: off. */
enum { RECORD_SEED, RECORD_BIAS, RECORD_NUMBERS, RECORD_OPTIONS = RECORD_NUMBERS + SAMPLING_N,
       RECORD_FIRST = RECORD_NUMBERS + SAMPLING_frequency_penalty + 1 };
extern const char *const record_options[RECORD_OPTIONS];

/* Each value present replaces its field of *out. names: in messages; NULL: "sampling." and its key.
 * *ids and *bias (allocated, NULL before) are the arrays of out, also on failure. */
bool record_sampling(const Record *in, const char *const names[RECORD_OPTIONS],
                     const JsonNode *const value[RECORD_OPTIONS], SamplerOptions *out,
                     int32_t **ids, float **bias);

#endif
