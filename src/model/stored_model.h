/* model/stored_model.h: the weights of one model in any kind of files: its config, and where each
 * of its tensors is. stored_model_from_file fills it for a model file, the room source/ for other
 * programs' files. */
#ifndef MODEL_STORED_MODEL_H
#define MODEL_STORED_MODEL_H

#include "model/config.h"
#include "model/tensor_check.h"

typedef struct StoredModel {
    const char    *path;         /* for messages; the owner of the files keeps it */
    Config         config;       /* passed config_check and config_supported */
    CheckedTensor *tensor;       /* [n], in the order of tensor_list.h */
    int            n;
    /* No bf16 matrix has a magnitude under 2^-50 except 0 (docs/numerics.md, "--math bf16"). */
    bool           bf16_min;
} StoredModel;

/* Find the tensors of a model file f. cfg is its parsed config. A tensor of f that is not known is
 * an error, so that none is ignored; names that start with "tok." or "pad." are exceptions. f must
 * outlive c. Errors: INPUT, SYSTEM. */
bool stored_model_from_file(StoredModel *c, const Config *cfg, const TensorFile *f, Error *err);

/* Bytes of all tensors, as stored. */
size_t stored_model_bytes(const StoredModel *c);

void stored_model_free(StoredModel *c);  /* a zeroed StoredModel is fine */

#endif
