/* base/printable.h: how a terminal shows text from files and command lines: the one place that says what is safe. */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "base/utf8.h"

/* Not control characters (C0, DEL, C1), which terminals obey; not the marks and overrides of direction, which show the text around
 * them in another order (Unicode Standard Annex 9, section 2); not line and paragraph separators. */
static inline bool is_printable(uint32_t c)
{
    bool direction = c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
    return c >= 0x20 && !(c >= 0x7F && c < 0xA0) && c != 0x2028 && c != 0x2029 && !direction;
}

/* The next character of s[0 .. n), n >= 1, as it may be shown: as it is, or escaped: \n, \t, \r, \xHH for each byte of any other that is not
 * printable and for bytes that are not UTF-8. out is NUL-terminated. Returns its length; *n_read: the bytes of s it stands for. */
enum { PRINTABLE_BYTES = 17 };
static inline size_t printable(char out[PRINTABLE_BYTES], const char *s, size_t n, size_t *n_read)
{
    static const char named[][3] = { "\nn", "\tt", "\rr" };
    uint32_t code = 0;
    int      length = utf8_decode(s, n, &code);
    size_t   used = 0;
    *n_read = (size_t)(length > 0 ? length : -length);
    if (length > 0 && is_printable(code)) {
        memcpy(out, s, *n_read);
        out[*n_read] = 0;
        return *n_read;
    }
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (*s == named[i][0])
            return (size_t)snprintf(out, PRINTABLE_BYTES, "\\%c", named[i][1]);
    for (size_t i = 0; i < *n_read; i++)
        used += (size_t)snprintf(out + used, PRINTABLE_BYTES - used, "\\x%02x", (unsigned)(unsigned char)s[i]);
    return used;
}

#endif
