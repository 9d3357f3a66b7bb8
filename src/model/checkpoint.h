/* model/checkpoint.h: the weights of one model, whatever kind of files they are in: a config, and where each of its tensors is.
 * A model file's come from checkpoint_from_file; those of other programs' files from the room source/. */
#ifndef MODEL_CHECKPOINT_H
#define MODEL_CHECKPOINT_H

#include "model/config.h"
#include "model/tensor_check.h"

typedef struct Checkpoint {
    const char    *path;         /* of the file or folder, for messages; the owner of the files keeps it */
    Config         config;       /* passed config_check and config_supported */
    CheckedTensor *tensor;       /* [n] in the order of tensor_list.h */
    int            n;
    bool           bf16_min;     /* no magnitude under 2^-50 but 0 in any bf16 matrix (docs/numerics.md, "--math bf16") */
} Checkpoint;

/* The tensors of a model file. cfg: its config, parsed. Every tensor of f must be known: one that would be ignored is an
 * error, tensors whose name starts with "tok." or "pad." excepted. f must outlive c. */
bool checkpoint_from_file(Checkpoint *c, const Config *cfg, const TensorFile *f, Error *err);

/* Of all tensors, as stored. */
size_t checkpoint_bytes(const Checkpoint *c);

void checkpoint_free(Checkpoint *c);  /* a zeroed Checkpoint is accepted */

#endif
