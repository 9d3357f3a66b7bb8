/* base/checked.h: multiply and add sizes that come from a file. False if the result overflows. */
#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>

static inline bool mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool add_size(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; } /* n far from SIZE_MAX */

#endif
