#include "base/text_out.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/host_env.h"

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

bool text_out(TextOut *o, const char *fmt, ...)
{
    va_list ap, again;
    HostEnv env;
    host_env_enter(&env);
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0)
        o->failed = true;
    else if (text_out_reserve(o, (size_t)n))
        o->n += (size_t)vsnprintf(o->text + o->n, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    host_env_leave(&env);
    return !o->failed;
}

char *text_out_take(TextOut *o, Error *err)
{
    char *text = NULL;
    if (text_out_reserve(o, 0)) {
        text = o->text;
        text[o->n] = 0;
        *o = (TextOut){ 0 };
    } else {
        no_memory(NULL, err);
        text_out_free(o);
    }
    return text;
}

void text_out_free(TextOut *o)
{
    free(o->text);
    *o = (TextOut){ 0 };
}
