/* format/little_endian.h: reads numbers at any address, aligned or not. The file and the machine
 * are both little-endian (base/platform.h). */
#ifndef FORMAT_LITTLE_ENDIAN_H
#define FORMAT_LITTLE_ENDIAN_H

#include <stdint.h>
#include <string.h>
#include "base/platform.h"

static inline uint16_t read_u16(const unsigned char *p) { uint16_t v; memcpy(&v, p, sizeof v); return v; }
static inline uint32_t read_u32(const unsigned char *p) { uint32_t v; memcpy(&v, p, sizeof v); return v; }
static inline uint64_t read_u64(const unsigned char *p) { uint64_t v; memcpy(&v, p, sizeof v); return v; }
static inline int32_t  read_i32(const unsigned char *p) { int32_t v; memcpy(&v, p, sizeof v); return v; }
static inline int64_t  read_i64(const unsigned char *p) { int64_t v; memcpy(&v, p, sizeof v); return v; }
static inline float    read_f32(const unsigned char *p) { float v; memcpy(&v, p, sizeof v); return v; }

#endif
