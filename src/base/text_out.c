/* base/text_out.c: grows the text by doubling, and prints into it in our own locale. */
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/fp_env.h"

bool text_out_grow(TextOut *o, size_t n)
{
    if (o->failed)
        return false;
    bool   absurd = n > SIZE_MAX / 4 || o->n > SIZE_MAX / 4;
    size_t cap = 2 * o->cap > o->n + n ? 2 * o->cap : o->n + n + 64;
    o->full = o->most && (absurd || o->n + n > o->most);
    char *text = absurd || o->full ? NULL : realloc(o->text, cap);
    o->failed = !text;
    if (text)
        o->text = text, o->cap = cap;
    return text != NULL;
}

bool text_out_list(TextOut *o, const char *fmt, va_list list)
{
    va_list again;
    HostEnv env;
    host_env_enter(&env);
    va_copy(again, list);
    int n = vsnprintf(NULL, 0, fmt, list);
    if (n < 0)
        o->failed = true;
    else if (text_out_reserve(o, (size_t)n))
        o->n += (size_t)vsnprintf(o->text + o->n, (size_t)n + 1, fmt, again);
    va_end(again);
    host_env_leave(&env);
    return !o->failed;
}

bool text_out(TextOut *o, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    bool good = text_out_list(o, fmt, list);
    va_end(list);
    return good;
}

bool text_out_add(TextOut *o, const char *s, size_t n, Error *err)
{
    return text_out_bytes(o, s, n) || no_memory(NULL, err);
}

char *text_out_take(TextOut *o, Error *err)
{
    char *text = NULL;
    if (text_out_reserve(o, 0)) {
        text = o->text;
        text[o->n] = 0;
        *o = (TextOut){ .compact = o->compact };
    } else {
        no_memory(NULL, err);
        text_out_free(o);
    }
    return text;
}

void text_out_free(TextOut *o)
{
    free(o->text);
    *o = (TextOut){ .compact = o->compact };
}
