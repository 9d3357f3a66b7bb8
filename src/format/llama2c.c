/* Reads llama2.c checkpoints: the header of each version, then the offset of each tensor, which
 * follows from the sizes alone, since the file has no names. */
#include "format/llama2c.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "format/bytes.h"

enum {
    MAGIC = 0x616b3432,
    HEADER_0 = 28,
    HEADER_1 = 256,
    FIELDS_AT = 8,
    SHARED_AT = 36,
    GROUP_SIZE_AT = 37
};
enum { N_FIELDS = 7 };

/* ---- Kinds of tensors ------------------------------------------------------------------------ */

typedef enum Llama2cKind {
    EMBED, ATTN_NORM, WQ, WK, WV, WO, FFN_NORM, W_GATE, W_DOWN, W_UP, FINAL_NORM, LM_HEAD, TABLES,
    N_KINDS
} Llama2cKind;

static const struct {
    const char *name;
    bool        per_layer;
} kinds[N_KINDS] = {
    [EMBED] = { "embed", false },    [ATTN_NORM] = { "attn_norm", true }, [WQ] = { "wq", true },
                [WK] = { "wk", true },
    [WV] = { "wv", true },           [WO] = { "wo", true },
                  [FFN_NORM] = { "ffn_norm", true }, [W_GATE] = { "w_gate", true },
    [W_DOWN] = { "w_down", true },   [W_UP] = { "w_up", true },
              [FINAL_NORM] = { "final_norm", false },
    [LM_HEAD] = { "lm_head", false }, [TABLES] = { "rotary tables", false },
};

/* The order of tensors in the file; TABLES exist in version 0 only. llama2.c's w1 is the gate, w2
 * is down and w3 is up. */
static const Llama2cKind order_0[N_KINDS] = {
    EMBED, ATTN_NORM, WQ, WK, WV, WO, FFN_NORM, W_GATE, W_DOWN, W_UP, FINAL_NORM, TABLES, LM_HEAD
};
static const Llama2cKind order_1[N_KINDS - 1] = { ATTN_NORM, FFN_NORM, FINAL_NORM, EMBED,
                                                  WQ,        WK,       WV,         WO,
                                                  W_GATE,    W_DOWN,   W_UP,       LM_HEAD };

static bool is_matrix(Llama2cKind kind)
{
    return kind != ATTN_NORM && kind != FFN_NORM && kind != FINAL_NORM && kind != TABLES;
}

/* [rows, columns]; a vector has one row. */
static void shape_of(Llama2cKind kind, const Llama2cDims *d, int64_t *rows, int64_t *columns)
{
    int64_t head = d->dim / d->n_heads;
    *rows = kind == EMBED || kind == LM_HEAD    ? d->vocab_size
            : kind == WK || kind == WV          ? d->n_kv_heads * head
            : kind == W_GATE || kind == W_UP    ? d->hidden_dim
            : kind == TABLES                    ? 2 * (int64_t)d->seq_len
            : is_matrix(kind)                   ? d->dim
                                                : 1;
    *columns = kind == W_DOWN ? d->hidden_dim : kind == TABLES ? head / 2 : d->dim;
}

/* ---- The header ------------------------------------------------------------------------------ */

typedef struct Llama2cHeader {
    int         version, group_size; /* group_size 0: f32 */
    Llama2cDims dims;
    bool        tied;
    size_t      n_bytes;
} Llama2cHeader;

/* The seven sizes, each with its maximum. These limits keep every product far below 2^64. */
static const struct {
    const char *name;
    size_t      at;
    int         most;
} fields[N_FIELDS] = {
    { "dim", offsetof(Llama2cDims, dim), 1 << 20 },
    { "hidden_dim", offsetof(Llama2cDims, hidden_dim), 1 << 22 },
    { "n_layers", offsetof(Llama2cDims, n_layers), 1 << 12 },
    { "n_heads", offsetof(Llama2cDims, n_heads), 1 << 14 },
    { "n_kv_heads", offsetof(Llama2cDims, n_kv_heads), 1 << 14 },
    { "vocab_size", offsetof(Llama2cDims, vocab_size), 1 << 24 },
    { "seq_len", offsetof(Llama2cDims, seq_len), 1 << 24 },
};

static int *field_of(Llama2cDims *d, int i) { return (int *)((char *)d + fields[i].at); }

static bool check_dims(const Llama2cHeader *h, const char *path, Error *err)
{
    Llama2cDims d = h->dims;
    for (int i = 0; i < N_FIELDS; i++)
        if (*field_of(&d, i) < 1 || *field_of(&d, i) > fields[i].most)
            return fail(err, INPUT, "%s: %s: expected a number from 1 to %d, found %d", path,
                        fields[i].name, fields[i].most, *field_of(&d, i));
    if (d.dim % d.n_heads)
        return fail(err, INPUT, "%s: dim: expected a multiple of n_heads %d, found %d", path,
                    d.n_heads, d.dim);
    if (d.n_heads % d.n_kv_heads)
        return fail(err, INPUT, "%s: n_kv_heads: expected a divisor of n_heads %d, found %d", path,
                    d.n_heads, d.n_kv_heads);
    if (d.dim / d.n_heads % 2)
        return fail(err, INPUT, "%s: dim / n_heads: expected an even number, found %d", path,
                    d.dim / d.n_heads);
    return true;
}

static void read_fields(Llama2cHeader *h, const unsigned char *p)
{
    for (int i = 0; i < N_FIELDS; i++)
        *field_of(&h->dims, i) = read_i32(p + 4 * i);
}

/* In version 0 the sign of vocab_size is a flag: negative means a separate output matrix. */
static void read_header_0(Llama2cHeader *h, const unsigned char *bytes)
{
    *h = (Llama2cHeader){ .n_bytes = HEADER_0 };
    read_fields(h, bytes);
    h->tied = h->dims.vocab_size > 0;
    if (h->dims.vocab_size < 0 && h->dims.vocab_size != INT32_MIN)
        h->dims.vocab_size = -h->dims.vocab_size;
}

static bool read_header_1(Llama2cHeader *h, const FileMap *map, Error *err)
{
    if (map->size < HEADER_1)
        return fail(err, INPUT, "%s: header: expected %d bytes, found %zu (cut short?)", map->path,
                    HEADER_1, map->size);
    const unsigned char *p = map->data;
    *h = (Llama2cHeader){ .version = read_i32(p + 4), .n_bytes = HEADER_1, .tied = p[SHARED_AT] };
    if (h->version != 1 && h->version != 2)
        return fail(err, INPUT, "%s: llama2.c version: expected 0, 1 or 2, found %d", map->path,
                    h->version);
    if (p[SHARED_AT] > 1)
        return fail(err, INPUT, "%s: shared classifier flag: expected 0 or 1, found %d", map->path,
                    p[SHARED_AT]);
    read_fields(h, p + FIELDS_AT);
    if (h->version == 2) {
        h->group_size = read_i32(p + GROUP_SIZE_AT);
        if (h->group_size < 1)
            return fail(err, INPUT, "%s: group size: expected a number of at least 1, found %d",
                        map->path, h->group_size);
    }
    return true;
}

static bool has_magic(const unsigned char *bytes, size_t n)
{
    return n >= 8 && read_u32(bytes) == MAGIC;
}

static bool read_header(Llama2cHeader *h, const FileMap *map, Error *err)
{
    if (map->size < HEADER_0)
        return fail(err, INPUT, "%s: expected a llama2.c checkpoint, found %zu bytes", map->path,
                    map->size);
    if (!has_magic(map->data, map->size))
        read_header_0(h, map->data);
    else if (!read_header_1(h, map, err))
        return false;
    return check_dims(h, map->path, err);
}

/* ---- Where the tensors are ------------------------------------------------------------------- */

/* Bytes of one tensor of a kind; group_size 0: f32. The limits of the sizes rule out overflow. */
static size_t bytes_of(Llama2cKind kind, const Llama2cHeader *h)
{
    int64_t rows, columns;
    shape_of(kind, &h->dims, &rows, &columns);
    size_t n = (size_t)rows * (size_t)columns;
    return h->group_size && is_matrix(kind) ? n + n / (size_t)h->group_size * sizeof(float)
                                            : n * sizeof(float);
}

static bool is_present(Llama2cKind kind, const Llama2cHeader *h)
{
    return kind != LM_HEAD || !h->tied;
}

static int kinds_of(const Llama2cHeader *h, const Llama2cKind **order)
{
    *order = h->version ? order_1 : order_0;
    return h->version ? N_KINDS - 1 : N_KINDS;
}

static size_t copies_of(Llama2cKind kind, const Llama2cHeader *h)
{
    return kinds[kind].per_layer ? (size_t)h->dims.n_layers : 1;
}

static size_t file_bytes(const Llama2cHeader *h)
{
    const Llama2cKind *order;
    size_t      total = h->n_bytes;
    int         n = kinds_of(h, &order);
    for (int i = 0; i < n; i++)
        if (is_present(order[i], h))
            total += copies_of(order[i], h) * bytes_of(order[i], h);
    return total;
}

bool llama2c_is(const unsigned char *bytes, size_t n, size_t file_size)
{
    Llama2cHeader h;
    if (has_magic(bytes, n))
        return true;
    if (n < HEADER_0)
        return false;
    read_header_0(&h, bytes);
    return check_dims(&h, "", NULL) && file_size <= file_bytes(&h);
}

static void place(Llama2cTensor *t, const FileMap *map, const Llama2cHeader *h, Llama2cKind kind,
                  int layer, size_t offset)
{
    int64_t rows, columns;
    shape_of(kind, &h->dims, &rows, &columns);
    bool matrix = is_matrix(kind), quantized = matrix && h->group_size;
    *t = (Llama2cTensor){ .rank = matrix ? 2 : 1,
                          .shape = { matrix ? rows : columns, matrix ? columns : 0 },
                          .n_elements = (size_t)rows * (size_t)columns,
                          .offset = offset,
                          .n_bytes = bytes_of(kind, h),
                          .pair_heads = kind == WQ ? h->dims.n_heads
                              : kind == WK         ? h->dims.n_kv_heads
                                                   : 0 };
    if (kinds[kind].per_layer)
        snprintf(t->name, sizeof t->name, "layers.%d.%s", layer, kinds[kind].name);
    else
        snprintf(t->name, sizeof t->name, "%s", kinds[kind].name);
    if (!quantized) {
        /* Aligned: only whole floats are before it. */
        t->f32 = (const float *)(const void *)(map->data + offset);
        return;
    }
    t->group_size = h->group_size;
    t->codes = (const int8_t *)(map->data + offset);
    t->scales = map->data + offset + t->n_elements;
}

/* No group may cross from one matrix into the next. */
static bool check_groups(const Llama2cHeader *h, const char *path, Error *err)
{
    for (int kind = 0; kind < N_KINDS && h->group_size; kind++) {
        int64_t rows, columns;
        shape_of((Llama2cKind)kind, &h->dims, &rows, &columns);
        if (is_matrix((Llama2cKind)kind) && is_present((Llama2cKind)kind, h)
            && rows * columns % h->group_size)
            return fail(err, INPUT, "%s: tensor %s: expected a number of elements that is a "
                                    "multiple of the group size %d, found %lld", path,
                        kinds[kind].name, h->group_size, (long long)(rows * columns));
    }
    return true;
}

static bool check_size(const Llama2cHeader *h, const FileMap *map, Error *err)
{
    size_t             expected = file_bytes(h);
    const Llama2cDims *d = &h->dims;
    if (map->size == expected)
        return true;
    return fail(err, INPUT,
                "%s: expected %zu bytes for dim %d, hidden_dim %d, n_layers %d, n_heads %d, "
                "n_kv_heads %d, vocab_size %d, "
                "seq_len %d, found %zu (%s)",
                map->path, expected, d->dim, d->hidden_dim, d->n_layers, d->n_heads, d->n_kv_heads,
                d->vocab_size, d->seq_len, map->size,
                map->size < expected ? "cut short" : "or not a llama2.c file");
}

static void place_all(Llama2cFile *f, const Llama2cHeader *h)
{
    const Llama2cKind *order;
    size_t      offset = h->n_bytes;
    int         n = kinds_of(h, &order);
    for (int i = 0; i < n; i++) {
        Llama2cKind kind = order[i];
        if (!is_present(kind, h))
            continue;
        if (kind == TABLES)
            f->rope_cos = (const float *)(const void *)(f->map.data + offset);
        for (size_t layer = 0; layer < copies_of(kind, h); layer++, offset += bytes_of(kind, h))
            if (kind != TABLES)
                place(&f->tensors[f->n_tensors++], &f->map, h, kind, (int)layer, offset);
    }
}

/* ---- The whole ------------------------------------------------------------------------------- */

static bool read_mapped(Llama2cFile *f, Error *err)
{
    Llama2cHeader h;
    if (!read_header(&h, &f->map, err) || !check_groups(&h, f->map.path, err)
        || !check_size(&h, &f->map, err))
        return false;
    f->version = h.version;
    f->dims = h.dims;
    f->tied = h.tied;
    f->tensors = calloc(N_KINDS * (size_t)h.dims.n_layers, sizeof *f->tensors);
    if (!f->tensors)
        return fail(err, SYSTEM, "%s: out of memory for the tensors of %d layers", f->map.path,
                    h.dims.n_layers);
    place_all(f, &h);
    return true;
}

bool llama2c_open(Llama2cFile *f, const char *path, Error *err)
{
    *f = (Llama2cFile){ 0 };
    if (!file_map_open(&f->map, path, err))
        return false;
    bool ok = read_mapped(f, err);
    if (!ok)
        llama2c_close(f);
    return ok;
}

void llama2c_close(Llama2cFile *f)
{
    free(f->tensors);
    file_map_close(&f->map);
    *f = (Llama2cFile){ 0 };
}

const Llama2cTensor *llama2c_find(const Llama2cFile *f, const char *name)
{
    for (int i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i].name, name) == 0)
            return &f->tensors[i];
    return NULL;
}

void llama2c_read(const Llama2cTensor *t, size_t first, size_t n, float *out)
{
    if (t->f32) {
        memcpy(out, t->f32 + first, n * sizeof *out);
        return;
    }
    size_t group_size = (size_t)t->group_size;
    for (size_t i = first; i < first + n;) {
        float  scale = read_f32(t->scales + i / group_size * sizeof scale);
        size_t end = (i / group_size + 1) * group_size;
        for (end = end < first + n ? end : first + n; i < end; i++)
            *out++ = (float)t->codes[i] * scale;
    }
}

bool llama2c_rope_agrees(const Llama2cFile *f)
{
    if (!f->rope_cos)
        return true;
    int half = f->dims.dim / f->dims.n_heads / 2,
        position = f->dims.seq_len - 1 < 8 ? f->dims.seq_len - 1 : 8;
    for (int i = 0; i < half; i++) {
        double s, expected,
            found = (double)f->rope_cos[(size_t)position * (size_t)half + (size_t)i];
        math64_sincos(position * math64_pow(10000.0, -(double)i / half), &s, &expected);
        if (!(fabs(found - expected) <= 1e-3)) /* also false for NaN */
            return false;
    }
    return true;
}
