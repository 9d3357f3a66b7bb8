/* format/pickle_torch.h: the globals that a PyTorch state dict names, and what calling each of them
 * would return. Nothing else is ever called: a global outside this list cannot even be named. */
#ifndef FORMAT_PICKLE_TORCH_H
#define FORMAT_PICKLE_TORCH_H

#include "format/pickle.h"

typedef enum PickleGlobalKind { GLOBAL_DICT, GLOBAL_TENSOR, GLOBAL_PARAMETER, GLOBAL_STORAGE, GLOBAL_DTYPE } PickleGlobalKind;

struct PickleGlobal {
    const char      *name;    /* "torch._utils._rebuild_tensor_v2" */
    PickleGlobalKind kind;
    int              version; /* of _rebuild_tensor: 1, 2, 3                    */
    DType            dtype;   /* of a storage or dtype; DT_COUNT: no DType fits */
    bool             untyped;
};

/* Errors of these three functions: INPUT, without a place in the file; SYSTEM. */

/* Find the global MODULE.NAME. The names have no NUL at the end. Any other global is refused. */
bool pickle_torch_global(const char *module, size_t n_module, const char *name, size_t n_name, PickleValue *out, Error *err);

/* The result of global(*args): a dict or a tensor. args: a tuple. */
bool pickle_torch_call(Pickle *p, const PickleValue *global, const PickleValue *args, PickleValue *out, Error *err);

/* The storage that a persistent id means: ("storage", type, key, location, number of elements[,
 * view]). */
bool pickle_torch_storage(Pickle *p, const PickleValue *id, PickleValue *out, Error *err);

#endif
