#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/utf8.h"

/* One character of a message as it may be shown: printable UTF-8 as it is, anything else (control characters of both
 * ranges, stray bytes) as \xHH for each byte. Returns the length in out. */
static size_t show(char out[16], const char *s, int *n_read, size_t n)
{
    uint32_t code = 0;
    int      length = utf8_decode(s, n, &code);
    bool     plain = length > 0 && code >= 0x20 && !(code >= 0x7F && code < 0xA0) && code != 0x2028 && code != 0x2029;
    *n_read = length > 0 ? length : -length;
    if (plain) {
        memcpy(out, s, (size_t)length);
        return (size_t)length;
    }
    size_t used = 0;
    for (int i = 0; i < *n_read; i++)
        used += (size_t)snprintf(out + used, 5, "\\x%02x", (unsigned)(unsigned char)s[i]);
    return used;
}

bool fail(Error *err, int status, const char *fmt, ...)
{
    static const char dots[] = "...";
    if (!err)
        return false;

    char    text[4 * sizeof err->msg];
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        snprintf(text, sizeof text, "%s", fmt);
    va_end(ap);

    char   msg[sizeof err->msg];
    size_t n = strlen(text), used = 0, cut = 0; /* cut: where the message still leaves room for the dots */
    for (size_t i = 0; i < n;) {
        char   shown[16];
        int    n_read;
        size_t n_shown = show(shown, text + i, &n_read, n - i);
        if (used + n_shown >= sizeof msg) {
            memcpy(msg + cut, dots, 3);
            used = cut + 3;
            break;
        }
        memcpy(msg + used, shown, n_shown);
        used += n_shown;
        i += (size_t)n_read;
        if (used + sizeof dots <= sizeof msg)
            cut = used;
    }
    memcpy(err->msg, msg, used);
    err->msg[used] = 0;
    err->status = status;
    return false;
}
