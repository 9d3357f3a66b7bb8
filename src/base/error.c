/* base/error.c: formats the one-line message of an error. Names from files and command lines may
 * be in it, so it passes through printable_text. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

bool fail(Error *err, int status, const char *fmt, ...)
{
    if (!err)
        return false;

    char    text[4 * sizeof err->msg];
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        snprintf(text, sizeof text, "%s", fmt);
    va_end(ap);

    printable_text(err->msg, sizeof err->msg, text, strlen(text));
    err->status = status;
    return false;
}

bool all_given(const bool *given, size_t n, const char *function, const char *names, Error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!given[i])
            return fail(err, USAGE, "%s: %.*s: expected a pointer, found NULL", function,
                        (int)strcspn(names, " ,"), names);
        names = strchr(names, ',') ? strchr(names, ',') + 2 : "";
    }
    return true;
}

bool no_memory(const char *what, Error *err)
{
    return fail(err, SYSTEM, "%s%sout of memory", what ? what : "", what ? ": " : "");
}

bool check_range(const char *name, int x, int min, int max, Error *err)
{
    return (x >= min && x <= max)
        || fail(err, USAGE, "%s: expected %d to %d, found %d", name, min, max, x);
}
