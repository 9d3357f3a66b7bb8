/* base/printable.h: how a terminal shows text from files and command lines: the one place that says what is safe. */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
size_t printable(char out[PRINTABLE_BYTES], const char *s, size_t n, size_t *n_read);

/* All of s[0 .. n) like that, cut at a character with "..." where it does not fit into n_out bytes (at least 4) with its NUL. Returns
 * the length. */
size_t printable_text(char *out, size_t n_out, const char *s, size_t n);

#endif
