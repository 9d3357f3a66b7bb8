/* format/gguf_tensors.h: the tensor list of one GGUF file. Part of the reader (gguf.h). */
#ifndef FORMAT_GGUF_TENSORS_H
#define FORMAT_GGUF_TENSORS_H

#include "format/gguf_meta.h"
#include "format/tensors.h"

enum {
    GGUF_MAX_NAME   = 64,         /* bytes of a name: the specification's limit */
    GGUF_LEAST_INFO = 8 + 4 + 4 + 8 /* least bytes of an entry: name length, rank, type, offset */
};

/* Read n entries from the cursor on into t[0 .. n), sorted by offset. The names go into `names`,
 * which has n times GGUF_MAX_NAME + 1 bytes. *data_offset: where the data begins. Everything is
 * checked except that no name comes twice. Errors: INPUT. */
bool gguf_tensors_take(Tensor *t, char *names, size_t n, GgufCursor *c, size_t alignment, size_t *data_offset);

#endif
