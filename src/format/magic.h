/* format/magic.h: what a file is by its first bytes, for the error that says so. */
#ifndef FORMAT_MAGIC_H
#define FORMAT_MAGIC_H

#include <stddef.h>

/* The format of data that begins with these n bytes: "a GGUF file"; for formats that nothing reads any more also what to
 * do about it. NULL: unknown. */
const char *format_of(const void *data, size_t n);

#endif
