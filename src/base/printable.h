/* base/printable.h: how a terminal shows text from files and command lines. This is the one
 * place that says what is safe. */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Not printable are control characters (C0, DEL, C1), which terminals obey; marks and overrides
 * of direction, which reorder the text around them (Unicode Standard Annex 9, section 2); line
 * and paragraph separators. */
static inline bool is_printable(uint32_t c)
{
    bool direction = c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
    return c >= 0x20 && !(c >= 0x7F && c < 0xA0) && c != 0x2028 && c != 0x2029 && !direction;
}

/* The next character of s[0 .. n), n >= 1, as it may be shown: unchanged, or escaped as \n, \t,
 * \r, or \xHH for each byte of other characters that are not printable and for bytes that are
 * not UTF-8. out ends with a NUL. Returns its length. *n_read: how many bytes of s it stands
 * for. */
enum { PRINTABLE_BYTES = 17 };
size_t printable(char out[PRINTABLE_BYTES], const char *s, size_t n, size_t *n_read);

/* All of s[0 .. n) like that. If it does not fit into n_out bytes (at least 4, with the NUL), it
 * is cut at a character and ends with "...". Returns the length. */
size_t printable_text(char *out, size_t n_out, const char *s, size_t n);

#endif
