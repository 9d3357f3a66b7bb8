/* base/platform.h: what every file relies on: little-endian x86-64 or aarch64, IEEE arithmetic
 * as written. */
#ifndef BASE_PLATFORM_H
#define BASE_PLATFORM_H

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "tblock runs only on x86-64 and aarch64: it uses files in place and is exact to the bit"
#endif
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tblock needs a little-endian machine: it uses the weights directly from the file"
#endif
#if defined(__FAST_MATH__)
#error "build tblock without -ffast-math: it changes bits"
#endif
_Static_assert(sizeof(float) == 4 && sizeof(double) == 8 && sizeof(void *) == 8, "IEEE floats and 64-bit addresses");

#endif
