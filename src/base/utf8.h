/* base/utf8.h: a strict UTF-8 decoder: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decodes the character at s, of which n >= 1 bytes may be read. Returns its length, 1 to 4, and
 * sets *code. If the bytes are not a character, it returns minus the length of the longest
 * prefix of one (at least 1): Unicode recommends to replace this unit by one U+FFFD (Unicode 15,
 * section 3.9, "maximal subpart"). Then *code is not changed. */
static inline int utf8_decode(const char *s, size_t n, uint32_t *code)
{
    const unsigned char *p = (const unsigned char *)s;
    if (p[0] < 0x80) {
        *code = p[0];
        return 1;
    }
    if (p[0] < 0xC2 || p[0] > 0xF4)
        return -1;
    int length = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    /* The second byte's range excludes overlong forms, surrogates, and values above U+10FFFF. */
    unsigned low  = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    unsigned high = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    uint32_t c = p[0] & (0x7Fu >> length);
    for (int i = 1; i < length; i++) {
        if ((size_t)i >= n || p[i] < low || p[i] > high)
            return -i;
        c = c << 6 | (p[i] & 0x3Fu);
        low = 0x80, high = 0xBF;
    }
    *code = c;
    return length;
}

#endif
