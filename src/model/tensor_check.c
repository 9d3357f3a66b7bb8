/* model/tensor_check.c: names, types and shapes of a file's tensors against those of its config. */
#include "model/tensor_check.h"

#include <stdio.h>
#include <string.h>

static bool weight_type_of(DType d, WeightType *type)
{
    static const WeightType map[DT_COUNT] = { [DT_F32] = WT_F32, [DT_F16] = WT_F16, [DT_BF16] = WT_BF16 };
    *type = map[d];
    return d == DT_F32 || d == DT_F16 || d == DT_BF16;
}

static bool shape_is(const Tensor *t, int rank, const int64_t *shape)
{
    return t->rank == rank && memcmp(t->shape, shape, (size_t)rank * sizeof *shape) == 0;
}

static const char *shape_text(int rank, const int64_t *shape, char *buf, size_t n)
{
    Tensor t = { .rank = rank };
    memcpy(t.shape, shape, (size_t)rank * sizeof *shape);
    return tensor_shape_text(&t, buf, n);
}

/* The matrix that a tensor of another shape seems to be; false where it has neither layout. Of panels, only the count is
 * known: rows are taken to be a whole number of units (heads). */
static bool found_dims(const TensorSpec *s, const Tensor *t, WeightType type, int64_t dims[2])
{
    int64_t want[4];
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] > INT32_MAX)
            return false;
    dims[0] = t->rank > 0 ? t->shape[0] : 0;
    dims[1] = t->rank > 1 ? t->shape[1] : 0;
    if (t->rank == (s->k ? 2 : 1))
        return true;
    if (!s->k || t->rank != part_shape(type, 0, s->rows, s->k, want))
        return false;
    dims[0] = dims[0] == want[0] ? s->rows : dims[0] * PANEL_ROWS / s->rows_unit * s->rows_unit;
    dims[1] = dims[1] == want[1] ? s->k : t->rank == 4 ? dims[1] * 2 : dims[1];
    return true;
}

/* The value of a config key that would explain the found dimension: " (kv_heads 8 in the config; this fits 32)". */
static const char *likely_cause(const TensorSpec *s, const Tensor *t, WeightType type, char *buf, size_t n)
{
    int64_t dims[2];
    buf[0] = '\0';
    if (!found_dims(s, t, type, dims))
        return buf;
    bool        in_rows = dims[0] != s->rows;
    int64_t     found   = in_rows ? dims[0] : dims[1];
    int         unit    = in_rows ? s->rows_unit : s->k_unit, expected = in_rows ? s->rows : s->k;
    const char *key     = in_rows ? s->rows_key : s->k_key;
    if (s->k && dims[0] == s->k && dims[1] == s->rows)
        snprintf(buf, n, " (the transpose)");
    else if (in_rows && dims[1] != s->k)
        snprintf(buf, n, " (neither dimension fits the config)");
    else if (found > 0 && found != expected && found % unit == 0)
        snprintf(buf, n, " (%s %d in the config; this fits %lld)", key, expected / unit, (long long)(found / unit));
    return buf;
}

static bool wrong_shape(const TensorSpec *s, const TensorFile *f, const CheckedTensor *c, Error *err)
{
    int64_t plain[2] = { s->rows, s->k }, panels[4];
    char    want[64], want_panels[128] = "", found[160], text[120], why[128];
    shape_text(s->k ? 2 : 1, plain, want, sizeof want);
    if (s->k)
        snprintf(want_panels, sizeof want_panels, " or panels %s",
                 shape_text(part_shape(c->type, 0, s->rows, s->k, panels), panels, text, sizeof text));
    return fail(err, INPUT, "%s: tensor %s: expected %s%s, found %s%s", f->map.path, s->name, want, want_panels,
                tensor_shape_text(c->t, found, sizeof found), likely_cause(s, c->t, c->type, why, sizeof why));
}

static bool missing(const TensorSpec *s, const TensorFile *f, Error *err)
{
    char        shape[64];
    const char *why = s->role == ROLE_LM_HEAD ? " (tied_embeddings false in the config)"
                    : s->bias                 ? " (the config asks for this bias)"
                                              : "";
    return fail(err, INPUT, "%s: tensor %s: expected %s, found no such tensor%s", f->map.path, s->name,
                shape_text(s->k ? 2 : 1, (int64_t[]){ s->rows, s->k }, shape, sizeof shape), why);
}

bool tensor_check(const TensorSpec *s, const TensorFile *f, CheckedTensor *out, Error *err)
{
    CheckedTensor c = { .t = tensor_find(f, s->name) };
    if (!c.t)
        return missing(s, f, err);
    if (!weight_type_of(c.t->dtype, &c.type))
        return fail(err, INPUT, "%s: tensor %s: expected dtype F32, F16 or BF16, found %s", f->map.path, s->name,
                    dtype_name(c.t->dtype));
    if (s->k == 0) {
        if (!shape_is(c.t, 1, (int64_t[]){ s->rows }))
            return wrong_shape(s, f, &c, err);
    } else if (!shape_is(c.t, 2, (int64_t[]){ s->rows, s->k })) {
        int64_t shape[4];
        c.panels = true;
        if (!shape_is(c.t, part_shape(c.type, 0, s->rows, s->k, shape), shape))
            return wrong_shape(s, f, &c, err);
    }
    *out = c;
    return true;
}

bool tensor_check_unknown(const Config *c, const TensorFile *f, Error *err)
{
    for (int i = 0; i < f->n_tensors; i++) {
        const char *name = f->tensors[i].name;
        char        why[96];
        if (strncmp(name, "tok.", 4) != 0 && strncmp(name, "pad.", 4) != 0 && !tensor_list_has(c, name))
            return fail(err, INPUT, "%s: tensor %s: expected no such tensor%s", f->map.path, name,
                        tensor_list_why_absent(c, name, why, sizeof why));
    }
    for (int i = 0; i < f->n_meta; i++)
        if (strncmp(f->meta[i].key, "type.", 5) == 0)
            return fail(err, INPUT, "%s: tensor %s: weight type '%s' is not supported", f->map.path, f->meta[i].key + 5,
                        f->meta[i].value);
    return true;
}
