/* format/npy.c: reads the header of a .npy file, a Python dict literal that numpy writes in one
 * form:
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 * Accepted: these three keys in any order, both kinds of quotes, and blanks anywhere. */
#include "format/npy.h"

#include <string.h>

enum { MAX_HEADER = 1 << 16 };

typedef struct NpyHeader {
    const FileMap *map;
    const char    *at, *end;
    const char    *descr;
    size_t         n_descr;
    bool           has_descr, has_order, has_shape, fortran;
    Tensor        *tensor;
} NpyHeader;

static bool spoilt(const NpyHeader *h, const char *expected, Error *err)
{
    char   found[16];
    size_t n = (size_t)(h->end - h->at);
    n = n < sizeof found ? n : sizeof found - 1;
    memcpy(found, h->at, n);
    found[n] = '\0';
    return fail(err, INPUT, "%s: header: expected %s, found '%s'", h->map->path, expected, found);
}

static void skip_blanks(NpyHeader *h)
{
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t' || *h->at == '\r'))
        h->at++;
}

static bool accept(NpyHeader *h, char c)
{
    skip_blanks(h);
    if (h->at == h->end || *h->at != c)
        return false;
    h->at++;
    return true;
}

static bool accept_word(NpyHeader *h, const char *word)
{
    size_t n = strlen(word);
    skip_blanks(h);
    if ((size_t)(h->end - h->at) < n || memcmp(h->at, word, n) != 0)
        return false;
    h->at += n;
    return true;
}

/* 'text' or "text", without escapes. */
static bool read_quoted(NpyHeader *h, const char **text, size_t *n)
{
    char quote = accept(h, '\'') ? '\'' : accept(h, '"') ? '"' : '\0';
    const char *start = h->at;
    const char *close = quote ? memchr(start, quote, (size_t)(h->end - start)) : NULL;
    if (!close || memchr(start, '\\', (size_t)(close - start)))
        return false;
    *text = start;
    *n    = (size_t)(close - start);
    h->at = close + 1;
    return true;
}

static bool read_dimension(NpyHeader *h, Error *err)
{
    int64_t x = 0;
    bool    any = false;
    skip_blanks(h);
    for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++, any = true)
        if (__builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, *h->at - '0', &x))
            return fail(err, INPUT, "%s: header: shape: a dimension overflows", h->map->path);
    if (!any)
        return spoilt(h, "a dimension", err);
    if (h->tensor->rank == TENSOR_MAX_RANK)
        return fail(err, INPUT, "%s: header: shape: expected at most %d dimensions", h->map->path,
                    TENSOR_MAX_RANK);
    h->tensor->shape[h->tensor->rank++] = x;
    return true;
}

/* (), (3,), (3, 4), (3, 4,) */
static bool read_shape(NpyHeader *h, Error *err)
{
    if (!accept(h, '('))
        return spoilt(h, "a shape in parentheses", err);
    while (!accept(h, ')')) {
        if (!read_dimension(h, err))
            return false;
        if (!accept(h, ',') && (skip_blanks(h), h->at == h->end || *h->at != ')'))
            return spoilt(h, "',' or ')'", err);
    }
    return true;
}

static bool read_value(NpyHeader *h, const char *key, size_t n_key, Error *err)
{
    bool *seen = n_key == 5 && memcmp(key, "descr", 5) == 0             ? &h->has_descr
               : n_key == 13 && memcmp(key, "fortran_order", 13) == 0 ? &h->has_order
               : n_key == 5 && memcmp(key, "shape", 5) == 0             ? &h->has_shape : NULL;
    if (!seen || *seen)
        return fail(err, INPUT, "%s: header: %s key '%.*s'", h->map->path,
                    seen ? "repeated" : "unknown", (int)(n_key < 40 ? n_key : 40), key);
    *seen = true;
    if (seen == &h->has_shape)
        return read_shape(h, err);
    if (seen == &h->has_order) {
        h->fortran = accept_word(h, "True");
        return h->fortran || accept_word(h, "False") || spoilt(h, "True or False", err);
    }
    return read_quoted(h, &h->descr, &h->n_descr)
        || spoilt(h, "the name of a type (not a structure)", err);
}

static bool read_dict(NpyHeader *h, Error *err)
{
    if (!accept(h, '{'))
        return spoilt(h, "'{'", err);
    while (!accept(h, '}')) {
        const char *key;
        size_t      n_key;
        if (!read_quoted(h, &key, &n_key))
            return spoilt(h, "a key", err);
        if (!accept(h, ':'))
            return spoilt(h, "':'", err);
        if (!read_value(h, key, n_key, err))
            return false;
        if (!accept(h, ',') && (skip_blanks(h), h->at == h->end || *h->at != '}'))
            return spoilt(h, "',' or '}'", err);
    }
    skip_blanks(h);
    if (h->at != h->end)
        return spoilt(h, "nothing after '}'", err);
    if (!h->has_descr || !h->has_order || !h->has_shape)
        return fail(err, INPUT,
                    "%s: header: expected the keys descr, fortran_order and shape, found no %s",
                    h->map->path,
                    !h->has_descr       ? "descr"
                        : !h->has_order ? "fortran_order"
                                        : "shape");
    return true;
}

/* '<f4' is byte order, kind, bytes. Types of one byte may have '|' as byte order. */
static bool read_type(const NpyHeader *h, DType *out, Error *err)
{
    static const struct { const char name[4]; DType type; } types[] = {
        {"f4", DT_F32}, {"f8", DT_F64}, {"f2", DT_F16}, {"i4", DT_I32}, {"i8", DT_I64},
        {"i2", DT_I16}, {"u2", DT_U16},
        {"u4", DT_U32}, {"u8", DT_U64}, {"i1", DT_I8}, {"u1", DT_U8}, {"b1", DT_BOOL},
    };
    int  n = (int)(h->n_descr < 20 ? h->n_descr : 20);
    for (size_t i = 0; h->n_descr == 3 && i < sizeof types / sizeof *types; i++)
        if (memcmp(h->descr + 1, types[i].name, 2) == 0
            && (h->descr[0] == '<' || (h->descr[0] == '|' && types[i].name[1] == '1'))) {
            *out = types[i].type;
            return true;
        }
    return fail(err, INPUT,
                "%s: header: descr: expected a little-endian number such as '<f4', '<f8', '<i4' or "
                "'<i8', found '%.*s'",
                h->map->path, n, h->descr);
}

/* Find the header's text. Before it come magic, version and the text's length in two or four
 * bytes. */
static bool find_text(const FileMap *m, size_t *start, size_t *n, Error *err)
{
    static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    if (m->size < 10 || memcmp(m->data, magic, sizeof magic) != 0)
        return fail(err, INPUT, "%s: expected a NumPy .npy file, found another kind of file",
                    m->path);
    int major = m->data[6], minor = m->data[7];
    if (major < 1 || major > 3 || minor != 0)
        return fail(err, INPUT, "%s: version: expected 1.0, 2.0 or 3.0, found %d.%d", m->path,
                    major, minor);
    *start = major == 1 ? 10 : 12;
    if (m->size < *start)
        return fail(err, INPUT, "%s: the header is cut short", m->path);
    *n = m->data[8] | (size_t)m->data[9] << 8;
    if (major > 1)
        *n |= (size_t)m->data[10] << 16 | (size_t)m->data[11] << 24;
    if (*n > MAX_HEADER)
        return fail(err, INPUT, "%s: header length: expected at most %d, found %zu", m->path,
                    MAX_HEADER, *n);
    if (*n > m->size - *start)
        return fail(err, INPUT,
                    "%s: the header of %zu bytes does not fit a file of %zu bytes (cut short?)",
                    m->path, *n, m->size);
    return true;
}

static bool read_mapped(NpyFile *f, Error *err)
{
    size_t  start = 0, n = 0;
    Tensor *t = &f->tensor;
    char    shape[200];
    if (!find_text(&f->map, &start, &n, err))
        return false;
    NpyHeader h = {.map = &f->map, .at = (const char *)f->map.data + start, .tensor = t};
    h.end = h.at + n;
    if (!read_dict(&h, err) || !read_type(&h, &t->dtype, err))
        return false;
    tensor_shape_text(t, shape, sizeof shape);
    if (h.fortran && t->rank > 1)
        return fail(err, INPUT, "%s: header: fortran_order: expected False, found True: use "
                                "numpy.ascontiguousarray before saving",
                    f->map.path);
    if (!shape_bytes(t->dtype, t->rank, t->shape, &t->n_elements, &t->n_bytes))
        return fail(err, INPUT, "%s: the size of %s %s overflows", f->map.path,
                    dtype_name(t->dtype), shape);
    t->offset = start + n;
    if (f->map.size - t->offset != t->n_bytes)
        return fail(err, INPUT, "%s: expected %zu bytes for %s %s, found %zu after the header",
                    f->map.path, t->n_bytes, dtype_name(t->dtype), shape, f->map.size - t->offset);
    t->data = f->map.data + t->offset;
    return true;
}

bool npy_open(NpyFile *f, const char *path, const char *name, Error *err)
{
    *f = (NpyFile){.tensor.name = name};
    if (!file_map_open(&f->map, path, err))
        return false;
    if (read_mapped(f, err))
        return true;
    npy_close(f);
    return false;
}

void npy_close(NpyFile *f)
{
    file_map_close(&f->map);
    *f = (NpyFile){0};
}
