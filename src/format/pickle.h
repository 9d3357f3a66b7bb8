/* format/pickle.h: pickles, read as data, and the objects of PyTorch in them. */
#ifndef FORMAT_PICKLE_H
#define FORMAT_PICKLE_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "format/tensors.h"

/* ---- pickle.c -------------------------------------------------------------------------------- */

/* Reads Python pickles as PyTorch's torch.save writes them, without executing
 * anything.
 *
 * A pickle is a program for a small stack machine. Python's machine calls whatever function the
 * program names. This one knows the instructions that build plain data, and a fixed list of globals
 * (pickle_torch.c) that it imitates. Any other global, and every instruction that would call
 * something else, is rejected with an error that names it, as in torch.load(weights_only=True).
 * Source: Lib/pickletools.py of CPython (the instructions), torch/serialization.py (how a tensor is
 * stored). */

typedef enum PickleKind {
    PICKLE_NONE, PICKLE_BOOL, PICKLE_INT, PICKLE_LONG, PICKLE_FLOAT, PICKLE_STRING, PICKLE_BYTES,
    PICKLE_TUPLE, PICKLE_LIST, PICKLE_DICT, PICKLE_GLOBAL, PICKLE_STORAGE, PICKLE_TENSOR
} PickleKind;

typedef struct PickleItems   PickleItems;
typedef struct PickleGlobal  PickleGlobal;
typedef struct PickleStorage PickleStorage;
typedef struct PickleTensor  PickleTensor;

typedef struct PickleValue {
    PickleKind kind;
    uint32_t   n;                     /* bytes of a string, of bytes, of a long */
    union {
        int64_t              i;       /* int, bool */
        double               f;
        /* string, bytes, long (little-endian two's complement, over 8 bytes): points into the
         * pickle, without a NUL at the end; UTF-8 is not checked. */
        const char          *text;
        /* tuple, list, dict (key, value, key, value ...). May be shared and cyclic. */
        PickleItems         *items;
        const PickleGlobal  *global;
        const PickleStorage *storage;
        const PickleTensor  *tensor;
    };
} PickleValue;

struct PickleItems {
    PickleValue *at;
    size_t       n, cap;
};

/* The elements of one or more tensors. Not checked against a file, but no number is negative. */
struct PickleStorage {
    /* An UntypedStorage: n_elements are bytes and dtype is U8. */
    bool        untyped;
    DType       dtype;
    const char *key;                  /* its name in the file, key_bytes long */
    size_t      key_bytes;
    int64_t     n_elements;
    /* The visible part: all of it, except in some very old files. */
    int64_t     view_first, view_elements;
};

/* A view of a storage. offset, shape and stride are in elements, and none is negative. Not checked
 * against the storage. */
struct PickleTensor {
    const PickleStorage *storage;
    DType                dtype;
    int                  rank;
    int64_t              offset, shape[TENSOR_MAX_RANK], stride[TENSOR_MAX_RANK];
};

/* Memory for the values of pickles; start with a zeroed struct. Values live until pickle_free, and
 * only as long as the bytes they came from. */
typedef struct Pickle {
    struct PickleBlock *blocks;
    /* Bytes used, and their limit. 0: PICKLE_MEMORY_MAX, far more than any list of weights
     * needs. */
    size_t              used, limit;
    /* Every storage that was named, in order, one entry for each time. */
    PickleItems         storages;
} Pickle;

enum { PICKLE_MEMORY_MAX = 256 << 20 };

/* Read one pickle (protocol 2 to 5) from the start of n bytes; *used is where it ends. what names
 * it in messages ("x.pth: data.pkl"). Errors: INPUT, with the byte; SYSTEM without memory. Time is
 * linear in the bytes read and the memory used. */
bool pickle_read(Pickle *p, const unsigned char *bytes, size_t n, const char *what,
                 PickleValue *out, size_t *used, Error *err);
void pickle_free(Pickle *p);

const char *pickle_kind_name(PickleKind kind);                     /* "int", "dict" ... */
/* Is v a string or bytes equal to text? */
bool        pickle_is_text(const PickleValue *v, const char *text);
/* The last entry of that key; NULL: none. */
const PickleValue *pickle_get(const PickleValue *dict, const char *key);

/* ---- For the machine and what it stands in for (pickle_torch.c) ------------------------------ */

/* Zeroed memory; NULL: over the limit, or no memory. */
void *pickle_alloc(Pickle *p, size_t n_bytes, Error *err);
bool  pickle_append(Pickle *p, PickleItems *items, PickleValue v, Error *err);
/* A new tuple, list or dict with a copy of the n values at from. */
bool  pickle_new_items(Pickle *p, PickleKind kind, const PickleValue *from, size_t n,
                       PickleValue *out, Error *err);

/* ---- pickle_torch.c -------------------------------------------------------------------------- */

/* The globals that a PyTorch state dict names, and what calling each of them
 * would return. Nothing else is ever called: any other global is an error already where it is
 * named. */

typedef enum PickleGlobalKind {
    GLOBAL_DICT,
    GLOBAL_TENSOR,
    GLOBAL_PARAMETER,
    GLOBAL_STORAGE,
    GLOBAL_DTYPE
} PickleGlobalKind;

struct PickleGlobal {
    const char      *name;    /* "torch._utils._rebuild_tensor_v2" */
    PickleGlobalKind kind;
    int              version; /* of _rebuild_tensor: 1, 2, 3                    */
    DType            dtype;   /* of a storage or dtype; DT_COUNT: no DType fits */
    bool             untyped;
};

/* Errors of these three functions: INPUT, without a position in the file; SYSTEM. */

/* Find the global MODULE.NAME. The names have no NUL at the end. Any other global is an error. */
bool pickle_torch_global(const char *module, size_t n_module, const char *name, size_t n_name,
                         PickleValue *out, Error *err);

/* The result of global(*args): a dict or a tensor. args: a tuple. */
bool pickle_torch_call(Pickle *p, const PickleValue *global, const PickleValue *args,
                       PickleValue *out, Error *err);

/* The storage of a persistent id: ("storage", type, key, location, number of elements[, view]). */
bool pickle_torch_storage(Pickle *p, const PickleValue *id, PickleValue *out, Error *err);

#endif
