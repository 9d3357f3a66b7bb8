/* base/printable.c: escapes characters that a terminal should not receive. */
#include "base/text.h"

#include <stdio.h>
#include <string.h>

size_t printable(char out[PRINTABLE_BYTES], const char *s, size_t n, size_t *n_read)
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
        used += (size_t)snprintf(out + used, PRINTABLE_BYTES - used, "\\x%02x",
                                 (unsigned)(unsigned char)s[i]);
    return used;
}

size_t printable_text(char *out, size_t n_out, const char *s, size_t n)
{
    static const char dots[] = "...";
    size_t used = 0, cut = 0; /* cut: the last end that leaves room for "..." */
    for (size_t i = 0, n_read; i < n; i += n_read) {
        char   shown[PRINTABLE_BYTES];
        size_t n_shown = printable(shown, s + i, n - i, &n_read);
        if (used + n_shown >= n_out) {
            memcpy(out + cut, dots, sizeof dots);
            return cut + sizeof dots - 1;
        }
        memcpy(out + used, shown, n_shown);
        used += n_shown;
        if (used + sizeof dots <= n_out)
            cut = used;
    }
    out[used] = 0;
    return used;
}
