/* format/magic.h: recognises a file by its first bytes, so that an error can say what the file
 * is. */
#ifndef FORMAT_MAGIC_H
#define FORMAT_MAGIC_H

#include <stddef.h>

/* The format of data that begins with these n bytes, such as "a GGUF file". For formats that
 * nothing reads any more, the text also says what to do. NULL: unknown. */
const char *format_of(const void *data, size_t n);

#endif
