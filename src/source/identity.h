/* source/identity.h: a hash that tells which weights a source has. Goldens and saved states record
 * it, so that they are not used with other weights. */
#ifndef SOURCE_IDENTITY_H
#define SOURCE_IDENTITY_H

#include "source/source.h"

/* The sha256 in hex. For a model file: of its data section, from its metadata if recorded there.
 * For other files: of the bytes of all tensors in the order of tensor_list.h, each tensor's parts
 * as they are in their files. The first call reads all of them. The result lives as long as the
 * source; any thread may call. NULL: out of memory (SYSTEM). */
const char *source_hash(const Source *s, Error *err);

/* A hash of the names, types and shapes of those tensors. */
bool source_layout_hash(const Source *s, char hex[65], Error *err);

#endif
