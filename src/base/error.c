#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/printable.h"

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
        char   shown[PRINTABLE_BYTES];
        size_t n_read, n_shown = printable(shown, text + i, n - i, &n_read);
        if (used + n_shown >= sizeof msg) {
            memcpy(msg + cut, dots, 3);
            used = cut + 3;
            break;
        }
        memcpy(msg + used, shown, n_shown);
        used += n_shown;
        i += n_read;
        if (used + sizeof dots <= sizeof msg)
            cut = used;
    }
    memcpy(err->msg, msg, used);
    err->msg[used] = 0;
    err->status = status;
    return false;
}
