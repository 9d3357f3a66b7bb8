/* model/data_check.h: checks the data of a model file. Unlike opening, this reads every byte. */
#ifndef MODEL_DATA_CHECK_H
#define MODEL_DATA_CHECK_H

#include "base/progress.h"
#include "model/stored_model.h"

/* CHECK_NONE: there was nothing to check. */
typedef enum CheckAnswer { CHECK_OK, CHECK_BAD, CHECK_NONE } CheckAnswer;

typedef struct CheckPart {
    CheckAnswer answer;
    char        found[256]; /* BAD: the first fault, with its tensor and place; else "" */
    int         n_bad;      /* tensors that have a fault                                */
} CheckPart;

typedef struct DataCheck {
    /* The sha256 of the data section is the one in the metadata. NONE: the metadata has none. */
    CheckPart hash;
    /* Padding is zero: the rows that fill panels, the odd halves of bf16 pairs, and the pad.N
     * tensors. In quantized panels, padding decodes to 0. */
    CheckPart padding;
    /* No weight and no scale is infinite or NaN. NONE: a file without weights. */
    CheckPart finite;
    bool      ok;           /* no part is BAD */
} DataCheck;

/* Check a model file f. c is NULL for a file without weights. If c's weights are in another
 * program's files, f holds none of them; then only the values are checked, as they are after
 * conversion. progress may be NULL. Errors: SYSTEM, no memory. */
bool data_check(DataCheck *out, const StoredModel *c, const TensorFile *f, const Progress *progress, Error *err);

/* True if nothing is BAD. Otherwise err gets this status and names the first fault. */
bool data_check_answer(const DataCheck *d, const char *path, int status, Error *err);

/* Check only `finite`, and stop at the first bad tensor. Errors: SYSTEM, no memory. */
bool data_check_finite(CheckPart *out, const StoredModel *c, Error *err);

#endif
