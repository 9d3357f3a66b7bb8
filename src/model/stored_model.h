/* model/stored_model.h: the weights of one model, whatever kind of files they are in: a config, and
 * where each of its tensors is. A model file's come from stored_model_from_file; those of other
 * programs' files from the room source/. */
#ifndef MODEL_STORED_MODEL_H
#define MODEL_STORED_MODEL_H

#include "model/config.h"
#include "model/tensor_check.h"

typedef struct StoredModel {
    /* of the file or folder, for messages; the owner of the files keeps it */
    const char    *path;
    Config         config;       /* passed config_check and config_supported */
    CheckedTensor *tensor;       /* [n] in the order of tensor_list.h */
    int            n;
    /* no magnitude under 2^-50 but 0 in any bf16 matrix (docs/numerics.md, "--math bf16") */
    bool           bf16_min;
} StoredModel;

/* The tensors of a model file. cfg: its config, parsed. Every tensor of f must be known: one that
 * would be ignored is an error, tensors whose name starts with "tok." or "pad." excepted. f must
 * outlive c. */
bool stored_model_from_file(StoredModel *c, const Config *cfg, const TensorFile *f, Error *err);

/* Of all tensors, as stored. */
size_t stored_model_bytes(const StoredModel *c);

void stored_model_free(StoredModel *c);  /* a zeroed StoredModel is accepted */

#endif
