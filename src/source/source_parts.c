/* source/source_parts.c: what the readers of this room put into a source: memory with its lifetime,
 * files, tensors, warnings, metadata. */
#include "source/source.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void *source_alloc(Source *s, size_t n_bytes, Error *err)
{
    if (!ARRAY_ROOM(s->owned, s->cap_owned, (size_t)s->n_owned + 1)) {
        no_memory(s->path, err);
        return NULL;
    }
    void *p = calloc(1, n_bytes ? n_bytes : 1);
    if (!p)
        no_memory(s->path, err);
    else
        s->owned[s->n_owned++] = p;
    return p;
}

TensorFile *source_files(Source *s, int n, Error *err)
{
    s->files   = source_alloc(s, (size_t)n * sizeof *s->files, err);
    s->n_files = s->files ? n : 0;
    return s->files;
}

bool source_begin(Source *s, Error *err)
{
    StoredModel *c  = &s->stored;
    c->path        = s->path;
    c->n           = tensor_list_count(&c->config);
    c->tensor      = calloc((size_t)c->n, sizeof *c->tensor);
    s->rows        = source_alloc(s, (size_t)c->n * sizeof *s->rows, err);
    s->config_json = config_to_json(&c->config, err);
    return c->tensor && s->rows && s->config_json ? true : no_memory(s->path, err);
}

bool source_made_vector(Source *s, RowSource *r, const char *name, const float *values, int n,
                        Error *err)
{
    size_t  n_bytes = (size_t)n * sizeof *values;
    Tensor *t       = source_alloc(s, sizeof *t, err);
    float  *copy    = t ? source_alloc(s, n_bytes, err) : NULL;
    r->part         = copy ? source_alloc(s, sizeof *r->part, err) : NULL;
    if (!r->part)
        return false;
    memcpy(copy, values, n_bytes);
    *t = (Tensor){ .name = name, .dtype = DT_F32, .rank = 1, .shape = { n },
                   .n_elements = (size_t)n, .n_bytes = n_bytes, .offset = SIZE_MAX, .data = copy };
    *r = (RowSource){ .stack = 1, .rows = n, .k = 1, .name = name, .type = WT_F32, .n_parts = 1,
                      .part = r->part };
    r->part[0] = (SourcePart){ t, NULL };
    return true;
}

bool source_uses(Source *s, const char *path, Error *err)
{
    size_t n = strlen(path) + 1;
    for (int i = 0; i < s->n_used; i++) /* all files of a source are in one folder */
        if (strcmp(path_name(s->used[i]), path_name(path)) == 0)
            return true;
    char *copy = source_alloc(s, n, err), **grown;
    if (!copy)
        return false;
    grown = realloc(s->used, (size_t)(s->n_used + 1) * sizeof *grown);
    if (!grown)
        return no_memory(s->path, err);
    s->used              = grown;
    s->used[s->n_used++] = memcpy(copy, path, n);
    return true;
}

bool source_warn(Source *s, Error *err, const char *fmt, ...)
{
    char    line[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    if (n < 0)
        return true;
    size_t at = s->warnings ? strlen(s->warnings) : 0, len = strlen(line);
    char  *grown = realloc(s->warnings, at + len + 2);
    if (!grown)
        return no_memory(s->path, err);
    memcpy(grown + at, line, len);
    memcpy(grown + at + len, "\n", 2);
    s->warnings = grown;
    return true;
}

const char *source_meta(const Source *s, const char *key)
{
    if (s->config_json && strcmp(key, "config") == 0)
        return s->config_json;
    for (int i = 0; i < CHAT_METAS; i++)
        if (s->chat_meta[i] && strcmp(key, chat_meta_keys[i]) == 0)
            return s->chat_meta[i];
    return tensor_meta(&s->file, key);
}
