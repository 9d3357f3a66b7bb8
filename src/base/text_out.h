/* base/text_out.h: a growing text: JSON, reports, normalized text, input from a pipe. */
#ifndef BASE_TEXT_OUT_H
#define BASE_TEXT_OUT_H

#include <stdarg.h>
#include <string.h>
#include "base/error.h"

/* Zero it to begin. If memory runs out or the text would exceed `most`, it stops growing and
 * sets `failed`. So a writer need not check each call, only the end. */
typedef struct TextOut {
    char  *text;   /* n bytes, no NUL; NULL: nothing written yet */
    size_t n, cap;
    size_t most;   /* the most bytes it may hold; 0: no limit */
    bool   failed, full; /* full: because of `most` */
} TextOut;

bool text_out_grow(TextOut *o, size_t n); /* private: text_out_reserve when there is no room */

/* Makes room for n more bytes and a NUL; then text is not NULL. Like all functions that add, it
 * returns false if `failed`. */
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

/* The same as text_out_bytes, but reports lack of memory at once. */
bool text_out_add(TextOut *o, const char *s, size_t n, Error *err);

/* Returns the text, NUL-terminated; free() it. NULL: it failed. Zeroes o. */
char *text_out_take(TextOut *o, Error *err);

void text_out_free(TextOut *o); /* drops the text; zeroes o */

#endif
