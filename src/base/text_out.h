/* base/text_out.h: a text that grows: JSON, reports, normalized text, what was read from a pipe. */
#ifndef BASE_TEXT_OUT_H
#define BASE_TEXT_OUT_H

#include <stdarg.h>
#include <string.h>
#include "base/error.h"

/* Zero it to begin. When memory runs out or the text would pass `most`, it stays as it is from then on, and `failed` is set:
 * a writer need not check each call, only the end. */
typedef struct TextOut {
    char  *text;   /* n bytes, not terminated; NULL: nothing was written yet */
    size_t n, cap;
    size_t most;   /* bytes that it may come to hold; 0: no limit */
    bool   failed, full; /* full: because of `most` */
} TextOut;

bool text_out_grow(TextOut *o, size_t n); /* what text_out_reserve does where there is no room */

/* Room for n more bytes behind those that are there, and for a NUL; text is then not NULL. Like all that add: false where `failed`. */
static inline bool text_out_reserve(TextOut *o, size_t n)
{
    bool room = n < o->cap - o->n && !o->failed && (!o->most || o->n + n <= o->most);
    return room || text_out_grow(o, n);
}

static inline bool text_out_bytes(TextOut *o, const char *s, size_t n)
{
    if (!text_out_reserve(o, n))
        return false;
    if (n)
        memcpy(o->text + o->n, s, n);
    o->n += n;
    return true;
}

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
bool text_out(TextOut *o, const char *fmt, ...); /* printf; the decimal point is always '.' */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 0)))
#endif
bool text_out_list(TextOut *o, const char *fmt, va_list list);

bool text_out_add(TextOut *o, const char *s, size_t n, Error *err); /* the same as text_out_bytes, but lack of memory is an error at once */

/* The text, NUL-terminated, for free(); NULL: it failed. Zeroes o. */
char *text_out_take(TextOut *o, Error *err);

void text_out_free(TextOut *o); /* the text is not wanted; zeroes o */

#endif
