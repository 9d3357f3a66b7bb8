/* format/pickle.h: Python pickles as PyTorch's torch.save writes them, read without executing anything.
 *
 * A pickle is a program for a small stack machine, and Python's own machine calls whatever function the program names. This
 * one knows the instructions that build plain data, and a fixed list of globals (pickle_torch.h) that it stands in for; any
 * other global and every instruction that would call something is an error that names it, as torch.load(weights_only=True).
 * Source: Lib/pickletools.py of CPython (the instructions), torch/serialization.py (what stands for a tensor). */
#ifndef FORMAT_PICKLE_H
#define FORMAT_PICKLE_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "format/tensors.h"

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
    uint32_t   n;                     /* bytes of a string, of bytes, of a long                              */
    union {
        int64_t              i;       /* int, bool                                                           */
        double               f;
        const char          *text;    /* string, bytes, long (little-endian, two's complement, over 8 bytes):
                                       * in the pickle's own bytes, no NUL after it, UTF-8 not checked       */
        PickleItems         *items;   /* tuple, list, dict (key, value, key, value ...); may be shared, cyclic */
        const PickleGlobal  *global;
        const PickleStorage *storage;
        const PickleTensor  *tensor;
    };
} PickleValue;

struct PickleItems {
    PickleValue *at;
    size_t       n, cap;
};

/* The elements of one or more tensors. Not checked against a file; numbers are not negative. */
struct PickleStorage {
    bool        untyped;              /* an UntypedStorage: n_elements are bytes, dtype is U8                */
    DType       dtype;
    const char *key;                  /* its name in the file, key_bytes long                                */
    size_t      key_bytes;
    int64_t     n_elements;
    int64_t     view_first, view_elements; /* the part that is seen: all of it but in some very old files    */
};

/* A view of a storage; offset, shape and stride in elements, none negative. Not checked against the storage. */
struct PickleTensor {
    const PickleStorage *storage;
    DType                dtype;
    int                  rank;
    int64_t              offset, shape[TENSOR_MAX_RANK], stride[TENSOR_MAX_RANK];
};

/* What pickles were read into; zero it to begin. Values live until pickle_free and as long as the bytes they came from. */
typedef struct Pickle {
    struct PickleBlock *blocks;
    size_t              used, limit;  /* bytes: at most limit; 0: PICKLE_MEMORY_MAX, far over any list of weights */
    PickleItems         storages;     /* every storage that was named, in order, one entry each time         */
} Pickle;

enum { PICKLE_MEMORY_MAX = 256 << 20 };

/* Read one pickle (protocol 2 to 5) from the start of n bytes; *used: where it ends. what names it in messages ("x.pth:
 * data.pkl"). Errors are INPUT with the byte, SYSTEM without memory. Time is linear in the bytes read and the memory used. */
bool pickle_read(Pickle *p, const unsigned char *bytes, size_t n, const char *what, PickleValue *out, size_t *used, Error *err);
void pickle_free(Pickle *p);

const char *pickle_kind_name(PickleKind kind);                     /* "int", "dict", "torch storage" ...          */
bool        pickle_is_text(const PickleValue *v, const char *text); /* a string or bytes equal to text            */
const PickleValue *pickle_get(const PickleValue *dict, const char *key); /* the last such entry; NULL: none        */

/* ---- For the machine and what it stands in for (pickle_torch.c) ---- */

void *pickle_alloc(Pickle *p, size_t n_bytes, Error *err);         /* zeroed; NULL: over the limit, or no memory   */
bool  pickle_append(Pickle *p, PickleItems *items, PickleValue v, Error *err);
bool  pickle_new_items(Pickle *p, PickleKind kind, const PickleValue *from, size_t n, PickleValue *out, Error *err); /* copies */

#endif
