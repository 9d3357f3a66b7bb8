/* format/pickle_torch.h: the globals that a PyTorch state dict names, and what calling each of them would make. Nothing else
 * is ever called: a global that is not in this list cannot even be named. */
#ifndef FORMAT_PICKLE_TORCH_H
#define FORMAT_PICKLE_TORCH_H

#include "format/pickle.h"

typedef enum PickleGlobalKind { GLOBAL_DICT, GLOBAL_TENSOR, GLOBAL_PARAMETER, GLOBAL_STORAGE, GLOBAL_DTYPE } PickleGlobalKind;

struct PickleGlobal {
    const char      *name;    /* "torch._utils._rebuild_tensor_v2" */
    PickleGlobalKind kind;
    int              version; /* of _rebuild_tensor: 1, 2, 3       */
    DType            dtype;   /* of a storage or dtype; DT_COUNT: one that no DType stands for */
    bool             untyped;
};

/* The errors of all three are INPUT without a place, or SYSTEM without memory. */

/* The global MODULE.NAME; neither has a NUL after it. Refuses every other. */
bool pickle_torch_global(const char *module, size_t n_module, const char *name, size_t n_name, PickleValue *out, Error *err);

/* What global(*args) returns: a dict, or a tensor. args: a tuple. */
bool pickle_torch_call(Pickle *p, const PickleValue *global, const PickleValue *args, PickleValue *out, Error *err);

/* The storage that a persistent id stands for: ("storage", type, key, location, number of elements[, view]). */
bool pickle_torch_storage(Pickle *p, const PickleValue *id, PickleValue *out, Error *err);

#endif
