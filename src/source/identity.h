/* source/identity.h: which weights are these? Recorded with what is computed from them (goldens,
 * states). */
#ifndef SOURCE_IDENTITY_H
#define SOURCE_IDENTITY_H

#include "source/source.h"

/* sha256 in hex. Of a model file: of its data section, as its metadata say or, where they do not,
 * computed. Of other files: of the bytes of all tensors in the order of tensor_list.h, each
 * tensor's parts as they lie in their files; that is read through once, when it is first asked for.
 * Lives as long as the source; from any thread. NULL: no memory (SYSTEM). */
const char *source_hash(const Source *s, Error *err);

/* The names, types and shapes that those bytes have, as a hash. */
bool source_layout_hash(const Source *s, char hex[65], Error *err);

#endif
