/* Opens GGUF files: the header of each part, the parts of a split file in order, then the list of
 * all tensors. gguf_meta.c reads the key-values, gguf_tensors.c the tensor list of one part. */
#include "format/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "format/bytes.h"

enum { MAX_TENSORS = 1 << 20, MOST_PARTS = 65535, DEFAULT_ALIGNMENT = 32 };

/* ---- The header of one file ------------------------------------------------------------------ */

static bool check_magic(const FileMap *m, Error *err)
{
    if (m->size >= 4 && memcmp(m->data, "GGUF", 4) == 0)
        return true;
    const char *other = format_of(m->data, m->size);
    if (other)
        return fail(err, INPUT, "%s: expected a GGUF file, found %s", m->path, other);
    return fail(err, INPUT, "%s: expected a GGUF file, found %zu bytes that do not begin with GGUF",
                m->path, m->size);
}

static bool check_version(const char *path, uint32_t version, Error *err)
{
    if (version == 2 || version == 3)
        return true;
    if (version == 1)
        return fail(err, INPUT, "%s: expected GGUF version 2 or 3, found version 1 of August 2023: "
                                "convert the model again from its source", path);
    if (version && (version & 0xFFFF) == 0)
        return fail(err, INPUT, "%s: expected a little-endian GGUF file, found a big-endian one: "
                                "convert the model again from its source, or use "
                                "gguf_convert_endian of the Python package gguf", path);
    return fail(err, INPUT, "%s: expected GGUF version 2 or 3, found version %u", path, version);
}

static bool read_alignment(GgufPart *p, Error *err)
{
    static const char key[] = "general.alignment";
    int64_t           value = DEFAULT_ALIGNMENT;
    if (gguf_find(&p->meta, key) && !gguf_read_int(&p->meta, key, 1, INT32_MAX, &value, err))
        return false;
    if (value & (value - 1))
        return fail(err, INPUT, "%s: key %s: expected a power of two, found %lld", p->map.path, key,
                    (long long)value);
    p->alignment = (size_t)value;
    return true;
}

/* Read everything before the tensor list; the cursor is then at the list. */
static bool read_head(GgufPart *p, GgufCursor *c, Error *err)
{
    const void *magic;
    uint64_t    n_tensors, n_entries;
    if (!check_magic(&p->map, err))
        return false;
    *c = (GgufCursor){
        .path = p->map.path, .data = p->map.data, .size = p->map.size, .where = "header", .err = err
    };
    if (!gguf_take(c, "magic", 4, &magic) || !gguf_take_u32(c, "version", &p->version)
        || !check_version(c->path, p->version, err)
        || !gguf_take_u64(c, "number of tensors", &n_tensors)
        || !gguf_take_u64(c, "number of key-values", &n_entries))
        return false;
    if (!gguf_check_count(c, "tensors", n_tensors, MAX_TENSORS, GGUF_LEAST_INFO))
        return false;
    p->n_tensors = (size_t)n_tensors;
    return gguf_meta_take(&p->meta, c, n_entries) && read_alignment(p, err);
}

/* If this fails, the caller closes the part with the others. */
static bool open_part(GgufPart *p, const char *path, Error *err)
{
    GgufCursor c;
    if (!file_map_open(&p->map, path, err) || !read_head(p, &c, err))
        return false;
    p->list_offset = c.at;
    return true;
}

static void close_part(GgufPart *p)
{
    free(p->meta.entry);
    file_map_close(&p->map);
}

/* ---- Split files ----------------------------------------------------------------------------- */

typedef struct Split {
    int64_t no, count, n_tensors; /* no counts from 0; count 1: not split */
} Split;

static bool read_split(const GgufPart *p, Split *s, Error *err)
{
    *s = (Split){ .count = 1 };
    if (!gguf_find(&p->meta, "split.count"))
        return true;
    if (!gguf_read_int(&p->meta, "split.count", 0, MOST_PARTS, &s->count, err))
        return false;
    if (s->count < 2) { /* gguf-split --merge leaves a count of 0 */
        s->count = 1;
        return true;
    }
    return gguf_read_int(&p->meta, "split.no", 0, s->count - 1, &s->no, err)
           && gguf_read_int(&p->meta, "split.tensors.count", 0, MAX_TENSORS, &s->n_tensors, err);
}

/* The end of a part's file name: "-00002-of-00003.gguf". */
static const char *suffix_of(char buf[64], int64_t no, int64_t count)
{
    snprintf(buf, 64, "-%05lld-of-%05lld.gguf", (long long)no + 1, (long long)count);
    return buf;
}

/* *n_prefix: the bytes of path before that suffix. */
static bool split_prefix(const char *path, const Split *s, size_t *n_prefix, Error *err)
{
    char        buf[64];
    const char *suffix = suffix_of(buf, s->no, s->count);
    size_t      n = strlen(path), n_suffix = strlen(suffix);
    if (n < n_suffix || strcmp(path + n - n_suffix, suffix) != 0)
        return fail(err, INPUT, "%s: part %lld of %lld (keys split.no, split.count): expected a "
                                "file name that ends in %s", path,
                    (long long)s->no + 1, (long long)s->count, suffix);
    *n_prefix = n - n_suffix;
    return true;
}

static bool open_sibling(GgufPart *p, const char *path, const Split *first, int64_t no, Error *err)
{
    Split s;
    Error e = { 0 };
    if (!open_part(p, path, &e) || !read_split(p, &s, &e))
        return fail(err, e.status, "%s (part %lld of %lld)", e.msg, (long long)no + 1,
                    (long long)first->count);
    if (s.no != no || s.count != first->count || s.n_tensors != first->n_tensors)
        return fail(err, INPUT,
                    "%s: expected part %lld of %lld, %lld tensors in total (keys "
                    "split.no, split.count, split.tensors.count), found part %lld of "
                    "%lld, %lld tensors",
                    path, (long long)no + 1, (long long)first->count, (long long)first->n_tensors,
                    (long long)s.no + 1, (long long)s.count, (long long)s.n_tensors);
    return true;
}

/* f holds one part: open the others, and put all in order. */
static bool open_siblings(GgufFile *f, const char *path, const Split *split, Error *err)
{
    size_t    n_prefix = 0;
    GgufPart *part = NULL;
    char     *name = NULL, suffix[64];
    bool      ok = split_prefix(path, split, &n_prefix, err);
    if (ok) {
        part = calloc((size_t)split->count, sizeof *part);
        name = malloc(n_prefix + sizeof suffix);
        if (!part || !name) {
            free(part);
            free(name);
            return fail(err, SYSTEM, "%s: out of memory for %lld parts", path,
                        (long long)split->count);
        }
        part[split->no] = f->part[0];
        free(f->part);
        f->part = part;
        f->n_parts = (size_t)split->count;
    }
    for (int64_t i = 0; i < split->count && ok; i++) {
        if (i == split->no)
            continue;
        snprintf(name, n_prefix + sizeof suffix, "%.*s%s", (int)n_prefix, path,
                 suffix_of(suffix, i, split->count));
        ok = open_sibling(&part[i], name, split, i, err);
    }
    free(name);
    return ok;
}

static bool open_parts(GgufFile *f, const char *path, Error *err)
{
    Split split;
    f->part = calloc(1, sizeof *f->part);
    if (!f->part)
        return no_memory(path, err);
    f->n_parts = 1;
    if (!open_part(&f->part[0], path, err) || !read_split(&f->part[0], &split, err)
        || (split.count > 1 && !open_siblings(f, path, &split, err)))
        return false;
    for (size_t i = 0; i < f->n_parts; i++) {
        f->part[i].first_tensor = f->n_tensors;
        f->n_tensors += f->part[i].n_tensors; /* no overflow: 2^16 parts of 2^20 */
    }
    if (split.count > 1 && f->n_tensors != (size_t)split.n_tensors)
        return fail(err, INPUT, "%s: key split.tensors.count: expected %zu, the number of tensors "
                                "in all %zu parts, found %lld", path, f->n_tensors,
                    f->n_parts, (long long)split.n_tensors);
    f->meta = &f->part[0].meta;
    return true;
}

/* ---- The tensors of all parts ---------------------------------------------------------------- */

static bool read_list(GgufFile *f, GgufPart *p, Error *err)
{
    GgufCursor c = { .path = p->map.path,
                     .data = p->map.data,
                     .size = p->map.size,
                     .at = p->list_offset,
                     .err = err };
    return gguf_tensors_take(f->tensors + p->first_tensor,
                             f->names + p->first_tensor * (GGUF_MAX_NAME + 1), p->n_tensors, &c,
                             p->alignment, &p->data_offset);
}

static bool check_names(const GgufFile *f, Error *err)
{
    for (size_t i = 1; i < f->n_tensors; i++) {
        const Tensor *s = f->by_name[i - 1], *t = f->by_name[i];
        if (strcmp(s->name, t->name) != 0)
            continue;
        const char *a = gguf_part_of(f, s)->map.path, *b = gguf_part_of(f, t)->map.path;
        return fail(err, INPUT, "%s: tensor %s appears twice%s%s", b, t->name,
                    a == b ? "" : ", also in ", a == b ? "" : a);
    }
    return true;
}

static bool read_tensors(GgufFile *f, Error *err)
{
    size_t n = f->n_tensors;
    f->tensors = calloc(n + 1, sizeof *f->tensors);
    f->by_name = calloc(n + 1, sizeof *f->by_name);
    f->names = calloc(n + 1, GGUF_MAX_NAME + 1);
    if (!f->tensors || !f->by_name || !f->names)
        return fail(err, SYSTEM, "%s: out of memory for %zu tensors", f->part[0].map.path, n);
    for (size_t i = 0; i < f->n_parts; i++)
        if (!read_list(f, &f->part[i], err))
            return false;
    for (size_t i = 0; i < n; i++)
        f->by_name[i] = &f->tensors[i];
    tensors_sort(f->by_name, n);
    return check_names(f, err);
}

/* ---- The whole ------------------------------------------------------------------------------- */

bool gguf_open(GgufFile *f, const char *path, Error *err)
{
    *f = (GgufFile){ 0 };
    if (open_parts(f, path, err) && read_tensors(f, err))
        return true;
    gguf_close(f);
    return false;
}

void gguf_close(GgufFile *f)
{
    for (size_t i = 0; i < f->n_parts; i++)
        close_part(&f->part[i]);
    free(f->part);
    free(f->tensors);
    free(f->by_name);
    free(f->names);
    *f = (GgufFile){ 0 };
}

const Tensor *gguf_tensor(const GgufFile *f, const char *name)
{
    return tensors_find(f->by_name, f->n_tensors, name);
}

const GgufPart *gguf_part_of(const GgufFile *f, const Tensor *t)
{
    size_t i = (size_t)(t - f->tensors), part = 1;
    BISECT (part, f->n_parts, f->part[part].first_tensor <= i);
    return &f->part[part - 1];
}
