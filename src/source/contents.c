/* source/contents.c: what a source holds, for info: files, types, tensors. */
#include "source/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

/* ---- Tensors --------------------------------------------------------------------------------- */

static size_t count_tensors(const Source *s)
{
    size_t n = (size_t)s->file.n_tensors * (s->kind == SOURCE_MODEL_FILE) + s->gguf.n_tensors;
    for (int i = 0; i < s->n_files; i++)
        n += (size_t)s->files[i].n_tensors;
    for (int i = 0; s->kind == SOURCE_LLAMA2C && i < s->stored.n; i++)
        n += (size_t)s->rows[i].n_parts;
    return n;
}

static void add_tensors(SourceContents *c, const Tensor *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c->tensors[c->n_tensors++] = &t[i];
}

static void list_tensors(SourceContents *c, const Source *s)
{
    if (s->kind == SOURCE_MODEL_FILE)
        add_tensors(c, s->file.tensors, (size_t)s->file.n_tensors);
    add_tensors(c, s->gguf.tensors, s->gguf.n_tensors);
    for (int i = 0; i < s->n_files; i++)
        add_tensors(c, s->files[i].tensors, (size_t)s->files[i].n_tensors);
    for (int i = 0; s->kind == SOURCE_LLAMA2C && i < s->stored.n; i++)
        for (int j = 0; j < s->rows[i].n_parts; j++)
            add_tensors(c, s->rows[i].part[j].t, 1);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void add_file(SourceContents *c, const FileMap *map)
{
    if (!map->path)
        return;
    c->bytes += map->size;
    c->n_files++;
}

static void sum_files(SourceContents *c, const Source *s)
{
    struct stat st;
    if (s->kind == SOURCE_MODEL_FILE)
        add_file(c, &s->file.map);
    for (size_t i = 0; i < s->gguf.n_parts; i++)
        add_file(c, &s->gguf.part[i].map);
    add_file(c, &s->llama2c.map);
    for (int i = 0; i < s->n_files; i++)
        add_file(c, &s->files[i].map);
    if (c->n_files == 0 && file_stat(s->path, &st) == 0 && S_ISREG(st.st_mode)) {
        c->bytes   = (uint64_t)st.st_size;
        c->n_files = 1;
    }
}

/* ---- Types ----------------------------------------------------------------------------------- */

/* "Q4_K 12, F32 5": the type with the most bytes first. */
static void name_types(SourceContents *c)
{
    size_t bytes[DT_COUNT] = { 0 }, n[DT_COUNT] = { 0 };
    for (size_t i = 0; i < c->n_tensors; i++) {
        bytes[c->tensors[i]->dtype] += c->tensors[i]->n_bytes;
        n[c->tensors[i]->dtype]++;
    }
    for (;;) {
        int    best = 0;
        size_t at   = strlen(c->types);
        for (int t = 1; t < DT_COUNT; t++)
            best = bytes[t] > bytes[best] ? t : best;
        if (bytes[best] == 0)
            return;
        snprintf(c->types + at, sizeof c->types - at, "%s%s %zu", at ? ", " : "",
                 dtype_name((DType)best), n[best]);
        bytes[best] = 0;
    }
}

bool source_contents(SourceContents *out, const Source *s, Error *err)
{
    *out = (SourceContents){ .data_offset = s->file.data_offset };
    out->tensors = malloc((count_tensors(s) + 1) * sizeof *out->tensors);
    if (!out->tensors)
        return no_memory(s->path, err);
    list_tensors(out, s);
    sum_files(out, s);
    name_types(out);
    return true;
}

void source_contents_free(SourceContents *c) { free(c->tensors); }
