/* Reads the tensor list of one GGUF file: names, shapes, types, then where the data is. */
#include "format/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

enum { MAX_RANK = 4 }; /* ggml's limit */

/* ---- Types ----------------------------------------------------------------------------------- */

/* The types by their number in enum ggml_type (ggml.h). No name: the number is unused in GGUF
 * files. */
static const struct {
    const char *name;
    DType       dtype; /* DT_COUNT: unsupported */
} ggml_types[] = {
#define BLOCKS(ID, number, ...) [number] = { #ID, DT_##ID },
#define NO(number, name)        [number] = { name, DT_COUNT }
    BLOCK_LIST(BLOCKS)
    [0] = { "F32", DT_F32 }, [1] = { "F16", DT_F16 }, [30] = { "BF16", DT_BF16 },
    NO(4, "Q4_2"), NO(5, "Q4_3"), NO(9, "Q8_1"), NO(15, "Q8_K"), NO(24, "I8"), NO(25, "I16"),
    NO(26, "I32"), NO(27, "I64"), NO(28, "F64"), NO(31, "Q4_0_4_4"), NO(32, "Q4_0_4_8"),
    NO(33, "Q4_0_8_8"), NO(36, "IQ4_NL_4_4"),
    NO(37, "IQ4_NL_4_8"), NO(38, "IQ4_NL_8_8"), NO(40, "NVFP4"), NO(41, "Q1_0"),
};

static bool take_dtype(GgufCursor *c, DType *out)
{
    uint32_t type;
    if (!gguf_take_u32(c, "type", &type))
        return false;
    bool        known = type < sizeof ggml_types / sizeof *ggml_types;
    const char *name = known ? ggml_types[type].name : "unknown";
    *out = known ? ggml_types[type].dtype : DT_COUNT;
    if (*out == DT_COUNT)
        return fail(c->err, INPUT,
                    "%s: %s: expected a type of F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K "
                    "to Q6_K, IQ1_S to IQ4_XS, TQ1_0, TQ2_0 or MXFP4, found %s (ggml type %u)",
                    c->path, c->where, name, type);
    return true;
}

/* ---- One entry ------------------------------------------------------------------------------- */

static bool take_name(GgufCursor *c, Tensor *t, char name[GGUF_MAX_NAME + 1])
{
    GgufString s;
    if (!gguf_take_string(c, "name", GGUF_MAX_NAME, &s))
        return false;
    if (memchr(s.bytes, 0, s.n))
        return fail(c->err, INPUT, "%s: %s: name: expected no NUL byte, found one", c->path,
                    c->where);
    memcpy(name, s.bytes, s.n);
    name[s.n] = 0;
    t->name = name;
    snprintf(c->where, sizeof c->where, "tensor %s", name);
    return true;
}

/* The file lists the fastest dimension first; a Tensor has it last. */
static bool take_shape(GgufCursor *c, Tensor *t)
{
    uint32_t rank;
    if (!gguf_take_u32(c, "number of dimensions", &rank))
        return false;
    if (rank > MAX_RANK)
        return fail(c->err, INPUT, "%s: %s: expected at most %d dimensions, found %u", c->path,
                    c->where, MAX_RANK, rank);
    t->rank = (int)rank;
    for (int i = 0; i < t->rank; i++) {
        uint64_t n;
        if (!gguf_take_u64(c, "dimension", &n))
            return false;
        if (n < 1 || n > INT64_MAX)
            return fail(c->err, INPUT,
                        "%s: %s: dimension %d: expected at least 1 and less than 2^63, found %llu",
                        c->path, c->where, i, (unsigned long long)n);
        t->shape[t->rank - 1 - i] = (int64_t)n;
    }
    return true;
}

static bool check_size(GgufCursor *c, Tensor *t)
{
    char    shape[100];
    int64_t per_block = (int64_t)dtype_block_elements(t->dtype),
            row = t->rank ? t->shape[t->rank - 1] : 1;
    if (row % per_block)
        return fail(c->err, INPUT, "%s: %s: expected rows of a multiple of %lld for %s, found %lld",
                    c->path, c->where, (long long)per_block, dtype_name(t->dtype), (long long)row);
    if (!shape_bytes(t->dtype, t->rank, t->shape, &t->n_elements, &t->n_bytes))
        return fail(c->err, INPUT, "%s: %s: the size of %s %s overflows", c->path, c->where,
                    dtype_name(t->dtype), tensor_shape_text(t, shape, sizeof shape));
    return true;
}

static bool take_tensor(GgufCursor *c, Tensor *t, char name[GGUF_MAX_NAME + 1])
{
    /* It counts from the data section, whose offset is known only after the last entry. */
    uint64_t offset;
    if (!take_name(c, t, name) || !take_shape(c, t) || !take_dtype(c, &t->dtype)
        || !check_size(c, t) || !gguf_take_u64(c, "offset", &offset))
        return false;
    t->offset = (size_t)offset;
    return true;
}

/* ---- The list -------------------------------------------------------------------------------- */

static bool place(const GgufCursor *c, Tensor *t, size_t alignment, size_t data_offset)
{
    if (t->offset % alignment)
        return fail(c->err, INPUT,
                    "%s: tensor %s: expected an offset that is a multiple of %zu "
                    "(general.alignment), found %zu",
                    c->path, t->name, alignment, t->offset);
    size_t room = data_offset < c->size ? c->size - data_offset : 0;
    if (t->offset > room || t->n_bytes > room - t->offset)
        return fail(
            c->err, INPUT,
            "%s: tensor %s: %zu bytes at %zu of the data do not fit its %zu bytes (cut short?)",
            c->path, t->name, t->n_bytes, t->offset, room);
    t->offset += data_offset;
    t->data = c->data + t->offset;
    return true;
}

/* Only tensors that overlap can have the same offset, since no tensor is empty. */
static int by_offset(const void *a, const void *b)
{
    const Tensor *s = a, *t = b;
    return (s->offset > t->offset) - (s->offset < t->offset);
}

bool gguf_tensors_take(Tensor *t, char *names, size_t n, GgufCursor *c, size_t alignment,
                       size_t *data_offset)
{
    for (size_t i = 0; i < n; i++) {
        snprintf(c->where, sizeof c->where, "tensor %zu of %zu", i + 1, n);
        if (!take_tensor(c, &t[i], names + i * (GGUF_MAX_NAME + 1)))
            return false;
    }
    *data_offset = round_up(c->at, alignment);
    for (size_t i = 0; i < n; i++)
        if (!place(c, &t[i], alignment, *data_offset))
            return false;
    if (n)
        qsort(t, n, sizeof *t, by_offset);
    for (size_t i = 1; i < n; i++)
        if (t[i].offset - t[i - 1].offset < t[i - 1].n_bytes)
            return fail(
                c->err, INPUT,
                "%s: tensor %s: its data at %zu overlaps that of tensor %s, %zu bytes at %zu",
                c->path, t[i].name, t[i].offset - *data_offset, t[i - 1].name, t[i - 1].n_bytes,
                t[i - 1].offset - *data_offset);
    return true;
}
