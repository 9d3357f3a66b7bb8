/* format/bytes.h: numbers in files, and how a file begins. */
#ifndef FORMAT_BYTES_H
#define FORMAT_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/cpu.h"
#include "base/error.h"

/* ---- little endian --------------------------------------------------------------------------- */

/* Reads numbers at any address, aligned or not. The file and the machine
 * are both little-endian (base/cpu.h). */

static inline uint16_t read_u16(const unsigned char *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint32_t read_u32(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint64_t read_u64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline int32_t  read_i32(const unsigned char *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline int64_t  read_i64(const unsigned char *p)
{
    int64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline float    read_f32(const unsigned char *p)
{
    float v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* ---- magic.c --------------------------------------------------------------------------------- */

/* Recognizes a file by its first bytes, so that an error can say what the file is. */

/* The format of data that begins with these n bytes, such as "a GGUF file". For obsolete formats,
 * the text also says what to do. NULL: unknown. */
const char *format_of(const void *data, size_t n);

/* Fails (INPUT) if this is what a failed download leaves: a Git LFS pointer, a web page. */
bool format_downloaded(const char *path, const void *data, size_t n, Error *err);

#endif
