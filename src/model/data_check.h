/* model/data_check.h: is a model file's data what it says it is? Reads every byte, unlike
 * opening. */
#ifndef MODEL_DATA_CHECK_H
#define MODEL_DATA_CHECK_H

#include "base/progress.h"
#include "model/stored_model.h"

/* NONE: there was nothing to check */
typedef enum CheckAnswer { CHECK_OK, CHECK_BAD, CHECK_NONE } CheckAnswer;

typedef struct CheckPart {
    CheckAnswer answer;
    char        found[256]; /* BAD: what was found first, tensor and place named; else "" */
    int         n_bad;      /* tensors with something wrong                              */
} CheckPart;

typedef struct DataCheck {
    CheckPart hash; /* sha256 of the data section is the one in the metadata; NONE: none recorded */
    /* rows that fill panels, odd bf16 halves and pad.N tensors are zero; what fills quantized
     * panels decodes to 0 */
    CheckPart padding;
    CheckPart finite; /* no weight and no scale is infinite or NaN; NONE: a file without weights */
    bool      ok;     /* nothing is BAD */
} DataCheck;

/* c: NULL for a file without weights. f: the model file; of other programs' files, whose f holds no
 * weights, only the values are looked at, as this program makes them of the file. progress may be
 * NULL. Fails only without memory. */
bool data_check(DataCheck *out, const StoredModel *c, const TensorFile *f, const Progress *progress, Error *err);

/* Is all well? If not: false, and err has this status and names what was found first. */
bool data_check_answer(const DataCheck *d, const char *path, int status, Error *err);

/* Only the part `finite`, up to the first tensor that is not. Fails only without memory. */
bool data_check_finite(CheckPart *out, const StoredModel *c, Error *err);

#endif
