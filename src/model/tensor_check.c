/* model/tensor_check.c: compares names, types and shapes of a file's tensors with those of its
 * config. */
#include "model/tensor_list.h"

#include <stdio.h>
#include <string.h>

enum { TYPE_KEY = 80 }; /* room for "type." and a name */

DType element_dtype(ElementType t)
{
    static const DType map[] = {
        [EL_F32] = DT_F32, [EL_F16] = DT_F16, [EL_BF16] = DT_BF16, [EL_I8] = DT_I8, [EL_U8] = DT_U8
    };
    return map[t];
}

size_t checked_bytes(const CheckedTensor *c)
{
    size_t n = 0;
    if (c->rows) {
        WeightType t = c->rows->type; /* panels may be smaller than blocks, which repeat scales */
        return (size_t)c->rows->stack * (size_t)c->rows->rows
             * (weight_type_gguf(t) ? panel_bytes(t, c->rows->k) / PANEL_ROWS
                                    : row_source_row_bytes(c->rows));
    }
    for (int i = 0; i < part_count(c->type); i++)
        n += c->part[i]->n_bytes;
    return n;
}

void checked_release(const CheckedTensor *c)
{
    if (c->rows)
        row_source_release(c->rows);
    for (int i = 0; !c->rows && i < part_count(c->type); i++)
        file_map_release(c->map, c->part[i]->offset, c->part[i]->n_bytes);
}

size_t checked_row_bytes(const TensorSpec *s, const CheckedTensor *c)
{
    return c->rows ? row_source_row_bytes(c->rows)
                   : (size_t)(s->k ? s->k : 1) * weight_type_bytes(c->type);
}

const void *checked_rows(const TensorSpec *s, const CheckedTensor *c, int item, int first, int n,
                         void *scratch)
{
    if (c->rows) {
        const void *there = row_source_in_place(c->rows, item, first);
        if (!there)
            row_source_read(c->rows, item, first, n, scratch);
        return there ? there : scratch;
    }
    size_t      bytes = checked_row_bytes(s, c);
    const char *rows  =
        (const char *)c->part[0]->data + ((size_t)item * (size_t)s->rows + (size_t)first) * bytes;
    if ((uintptr_t)rows % weight_type_bytes(c->type) == 0)
        return rows;
    /* In another program's file the data may be unaligned. */
    return memcpy(scratch, rows, (size_t)n * bytes);
}

void checked_vector(const TensorSpec *s, const CheckedTensor *c, float *out)
{
    for (int i = 0; i < s->rows; i++) {
        uint32_t element;
        elements_to_f32(c->type, out + i, checked_rows(s, c, 0, i, 1, &element), 1);
    }
}

Panels checked_panels(const CheckedTensor *c)
{
    Panels p = { { NULL } };
    for (int i = 0; i < part_count(c->type); i++)
        p.part[i] = c->part[i]->data;
    return p;
}

/* ---- Types ----------------------------------------------------------------------------------- */

/* The type that the metadata gives a tensor; NULL: none. */
static const char *named_type(const TensorFile *f, const char *name)
{
    char key[TYPE_KEY];
    int  n = snprintf(key, sizeof key, "type.%s", name);
    return n > 0 && (size_t)n < sizeof key ? tensor_meta(f, key) : NULL;
}

static bool quantized_type(const char *name, WeightType *type)
{
    return weight_type_parse(name, type) && weight_type_quantized(*type);
}

static bool float_type(const TensorFile *f, const Tensor *t, WeightType *type, Error *err)
{
    static const WeightType map[DT_COUNT] = {
        [DT_F32] = WT_F32, [DT_F16] = WT_F16, [DT_BF16] = WT_BF16
    };
    *type = map[t->dtype];
    if (t->dtype == DT_F32 || t->dtype == DT_F16 || t->dtype == DT_BF16)
        return true;
    const char *hint = t->dtype == DT_I8 || t->dtype == DT_U8 ? " without a metadata entry " : "";
    return fail(err, INPUT, "%s: tensor %s: expected dtype F32, F16 or BF16, found %s%s%s%s",
                f->map.path, t->name, dtype_name(t->dtype), hint, *hint ? "type." : "",
                *hint ? t->name : "");
}

/* The type of a tensor that exists. */
static bool find_type(const TensorSpec *s, const TensorFile *f, const Tensor *t, WeightType *type,
                      Error *err)
{
    char        types[200];
    const char *name = named_type(f, s->name);
    if (!name)
        return float_type(f, t, type, err);
    if (!quantized_type(name, type))
        return fail(err, INPUT, "%s: metadata type.%s: expected %s, found '%s'", f->map.path,
                    s->name, weight_types_text(types, sizeof types), name);
    if (!s->k)
        return fail(err, INPUT,
                    "%s: metadata type.%s: expected no such entry for a vector, found '%s'",
                    f->map.path, s->name, name);
    int unit = weight_type_k_unit(*type);
    return s->k % unit == 0
        ? true
        : fail(
            err, INPUT,
            "%s: metadata type.%s: expected rows of a multiple of %d weights for %s, found %d (%s)",
            f->map.path, s->name, unit, name, s->k, s->k_key);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

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

/* The dimensions of the matrix that a tensor of another shape seems to be. False: it fits neither
 * layout. For panels only their number is known, so rows are assumed to be a whole number of units
 * (heads). */
static bool found_dims(const TensorSpec *s, const Tensor *t, WeightType type, int64_t dims[2])
{
    int64_t want[4];
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] > INT32_MAX)
            return false;
    dims[0] = t->rank > 0 ? t->shape[0] : 0;
    dims[1] = t->rank > 1 ? t->shape[1] : 0;
    if (s->stack > 1)
        return false;
    if (t->rank == (s->k ? 2 : 1))
        return true;
    if (!s->k || t->rank != part_shape(type, 0, s->rows, s->k, want))
        return false;
    dims[0] = dims[0] == want[0] ? s->rows : dims[0] * PANEL_ROWS / s->rows_unit * s->rows_unit;
    dims[1] = dims[1] == want[1] ? s->k : dims[1] * weight_type_step(type);
    return true;
}

/* The value of a config key that would explain the found dimension: " (kv_heads 8 in the config;
 * this fits 32)". */
static const char *likely_cause(const TensorSpec *s, const Tensor *t, WeightType type, char *buf,
                                size_t n)
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
        snprintf(buf, n, " (%s %d in the config; this fits %lld)", key, expected / unit,
                 (long long)(found / unit));
    return buf;
}

static bool wrong_shape(const TensorSpec *s, const TensorFile *f, const Tensor *t, WeightType type,
                        Error *err)
{
    int64_t plain[3], panels[4];
    int     rank = tensor_spec_shape(s, plain);
    char    want[64] = "", want_panels[128] = "", found[160], text[120], why[128];
    if (!weight_type_quantized(type))
        shape_text(rank, plain, want, sizeof want);
    if (s->k)
        snprintf(want_panels, sizeof want_panels, "%spanels %s", *want ? " or " : "",
                 shape_text(part_shape(type, 0, tensor_spec_panel_rows(s), s->k, panels), panels,
                            text, sizeof text));
    return fail(err, INPUT, "%s: tensor %s: expected %s%s, found %s%s", f->map.path, s->name, want,
                want_panels, tensor_shape_text(t, found, sizeof found),
                likely_cause(s, t, type, why, sizeof why));
}

static bool missing(const TensorSpec *s, const TensorFile *f, Error *err)
{
    char        shape[64];
    int64_t     want[3];
    int         rank = tensor_spec_shape(s, want);
    const char *why = s->bias                 ? " (the config asks for this bias)"
                    : s->role == ROLE_LM_HEAD ? " (tied_embeddings false in the config)"
                                              : "";
    return fail(err, INPUT, "%s: tensor %s: expected %s, found no such tensor%s", f->map.path,
                s->name, shape_text(rank, want, shape, sizeof shape), why);
}

/* Check the parts of a quantized matrix. The first part exists. */
static bool check_parts(const TensorSpec *s, const TensorFile *f, CheckedTensor *c, Error *err)
{
    const char *type = weight_type_name(c->type);
    for (int i = 0; i < part_count(c->type); i++) {
        char    name[sizeof s->name + 8], want[120], found[160];
        int64_t shape[4];
        int     rank  = part_shape(c->type, i, tensor_spec_panel_rows(s), s->k, shape);
        DType   dtype = element_dtype(part_element(c->type, i));
        snprintf(name, sizeof name, "%s%s", s->name, part_suffix(c->type, i));
        const Tensor *t = c->part[i] = tensor_find(f, name);
        shape_text(rank, shape, want, sizeof want);
        if (!t)
            return fail(
                err, INPUT,
                "%s: tensor %s: expected %s %s, found no such tensor (%s is %s in the metadata)",
                f->map.path, name, dtype_name(dtype), want, s->name, type);
        if (t->dtype != dtype)
            return fail(err, INPUT,
                        "%s: tensor %s: expected dtype %s, found %s (%s is %s in the metadata)",
                        f->map.path, name, dtype_name(dtype), dtype_name(t->dtype), s->name, type);
        if (i == 0 && !shape_is(t, rank, shape))
            return wrong_shape(s, f, t, c->type, err);
        if (!shape_is(t, rank, shape))
            return fail(err, INPUT, "%s: tensor %s: expected %s, found %s", f->map.path, name, want,
                        tensor_shape_text(t, found, sizeof found));
    }
    c->panels = true;
    return true;
}

bool tensor_check(const TensorSpec *s, const TensorFile *f, CheckedTensor *out, Error *err)
{
    const Tensor *t = tensor_find(f, s->name);
    CheckedTensor c = { .part = { t }, .map = &f->map };
    int64_t       plain[3];
    int           rank = tensor_spec_shape(s, plain);
    if (!t)
        return missing(s, f, err);
    if (!find_type(s, f, t, &c.type, err))
        return false;
    if (weight_type_quantized(c.type)) {
        if (!check_parts(s, f, &c, err))
            return false;
    } else if (s->k == 0) {
        if (!shape_is(t, rank, plain))
            return wrong_shape(s, f, t, c.type, err);
    } else if (!shape_is(t, rank, plain)) {
        int64_t shape[4];
        c.panels = true;
        if (!shape_is(t, part_shape(c.type, 0, tensor_spec_panel_rows(s), s->k, shape), shape))
            return wrong_shape(s, f, t, c.type, err);
    }
    *out = c;
    return true;
}

/* ---- Tensors that the config does not have --------------------------------------------------- */

/* A name such as layers.0.wq.d is a part of a matrix, whose name goes to base. False: not of a
 * matrix of the config. */
static bool split_part(const Config *c, const char *name, char *base, size_t n, const char **suffix)
{
    *suffix = strrchr(name, '.');
    if (!*suffix || (size_t)(*suffix - name) >= n
        || (strcmp(*suffix, ".s") != 0 && strcmp(*suffix, ".z") != 0 && strcmp(*suffix, ".d") != 0))
        return false;
    snprintf(base, n, "%.*s", (int)(*suffix - name), name);
    return tensor_list_has_matrix(c, base);
}

static bool check_name(const Config *c, const TensorFile *f, const char *name, Error *err)
{
    char        base[64], why[128];
    const char *suffix, *named;
    WeightType  type;
    if (tensor_list_has(c, name))
        return true;
    if (!split_part(c, name, base, sizeof base, &suffix))
        return fail(err, INPUT, "%s: tensor %s: expected no such tensor%s", f->map.path, name,
                    tensor_list_why_absent(c, name, why, sizeof why));
    named = named_type(f, base);
    for (int i = 1; named && quantized_type(named, &type) && i < part_count(type); i++)
        if (strcmp(part_suffix(type, i), suffix) == 0)
            return true;
    snprintf(why, sizeof why,
             named ? "%s is %.8s in the metadata" : "the metadata has no entry type.%s", base,
             named);
    return fail(err, INPUT, "%s: tensor %s: expected no such tensor (%s)", f->map.path, name, why);
}

bool tensor_check_unknown(const Config *c, const TensorFile *f, Error *err)
{
    WeightType type;
    char       types[200];
    for (int i = 0; i < f->n_meta; i++) {
        const char *key = f->meta[i].key, *value = f->meta[i].value;
        if (strncmp(key, "type.", 5) != 0)
            continue;
        if (!tensor_list_has_matrix(c, key + 5))
            return fail(err, INPUT, "%s: metadata %s: expected a matrix of the config, found "
                                    "another name", f->map.path, key);
        if (!quantized_type(value, &type))
            return fail(err, INPUT, "%s: metadata %s: expected %s, found '%s'", f->map.path, key,
                        weight_types_text(types, sizeof types), value);
    }
    for (int i = 0; i < f->n_tensors; i++) {
        const char *name = f->tensors[i].name;
        if (strncmp(name, "tok.", 4) != 0 && strncmp(name, "pad.", 4) != 0
            && !check_name(c, f, name, err))
            return false;
    }
    return true;
}
