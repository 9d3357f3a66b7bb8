/* source/hf_bind.h: what hf_tensors.c, which binds a folder's tensors to ours, and hf_names.c
 * share. */
#ifndef SOURCE_HF_BIND_H
#define SOURCE_HF_BIND_H

#include "source/hf.h"

enum { NAME_BYTES = HF_NAME };

/* A tensor of the folder by its name. */
typedef struct NamedTensor {
    const char *name; const Tensor *t; const TensorFile *file; bool used;
} NamedTensor;

typedef struct HfBinder {
    Source         *s;
    const HfConfig *h;
    const Config   *c;
    const char     *prefix;   /* what "@" stands for */
    NamedTensor    *named;    /* [n], ascending by name */
    size_t          n;
    Error          *err;
} HfBinder;

/* Fill in named. */
bool hf_list_names(HfBinder *b);

/* NULL: there is none. */
NamedTensor *hf_find(const HfBinder *b, const char *name);
/* The codes of a quantized matrix, by the name that its weights would have; NULL: it is not
 * quantized. */
NamedTensor *hf_find_codes(const HfBinder *b, const char *name);

/* Fails if a tensor is neither bound nor known to be of no use: it would change the result. */
bool hf_check_rest(HfBinder *b);

#endif
