/* Turns the object of a checkpoint into named tensors: picks the dict, checks names and views
 * against the storages, and copies the views that are not row-major. */
#include "format/pth.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"

/* ---- Which dict ------------------------------------------------------------------------------ */

static bool has_tensor(const PickleValue *dict)
{
    for (size_t i = 1; i < dict->items->n; i += 2)
        if (dict->items->at[i].kind == PICKLE_TENSOR)
            return true;
    return false;
}

/* Find the dict of tensors: under one of the names that training scripts use, even beside a step
 * count or other tensors; else the object itself. */
static bool find_state_dict(const char *path, const PickleValue *object, const PickleValue **out,
                            Error *err)
{
    static const char *const keys[] = { "model", "state_dict", "model_state_dict", "module" };
    const char              *found = NULL;
    if (object->kind != PICKLE_DICT)
        return fail(err, INPUT, "%s: expected a dict of tensors, found a %s", path,
                    pickle_kind_name(object->kind));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const PickleValue *inner = pickle_get(object, keys[i]);
        if (!inner || inner->kind != PICKLE_DICT || !has_tensor(inner))
            continue;
        if (found)
            return fail(err, INPUT, "%s: expected one dict of tensors, found %s and %s", path,
                        found, keys[i]);
        found = keys[i];
        *out = inner;
    }
    if (found)
        return true;
    *out = object;
    return has_tensor(object)
           || fail(err, INPUT, "%s: expected a dict of tensors, or one under model or state_dict, "
                               "found a dict without tensors", path);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static int shown(const PickleValue *key) { return key->n < 200 ? (int)key->n : 200; }

/* Check that a name can be a C string of UTF-8, as the rest of tblock expects. */
static bool check_name(const char *path, const PickleValue *key, Error *err)
{
    if (key->kind != PICKLE_STRING)
        return fail(err, INPUT, "%s: expected a name for each tensor, found a %s", path,
                    pickle_kind_name(key->kind));
    if (key->n > PTH_NAME_MAX)
        return fail(err, INPUT, "%s: tensor %.*s...: expected a name of at most %d bytes, found %u",
                    path, shown(key), key->text, PTH_NAME_MAX, (unsigned)key->n);
    for (size_t i = 0; i < key->n;) {
        uint32_t code = 0;
        int      length = utf8_decode(key->text + i, key->n - i, &code);
        if (length < 0 || code == 0)
            return fail(err, INPUT, "%s: tensor %.*s: expected a name in UTF-8 without NUL", path,
                        shown(key), key->text);
        i += (size_t)length;
    }
    return true;
}

/* Values that a state dict may hold beside tensors. A list, a storage or a type would be something
 * that tblock does not understand. */
static bool may_be_ignored(PickleKind kind)
{
    return kind == PICKLE_NONE || kind == PICKLE_BOOL || kind == PICKLE_INT || kind == PICKLE_LONG
        || kind == PICKLE_FLOAT || kind == PICKLE_STRING || kind == PICKLE_BYTES
        || kind == PICKLE_DICT;
}

/* Check the entries and count what their tensors need. */
static bool measure(const char *path, const PickleItems *entries, size_t *n_tensors,
                    size_t *n_strings, Error *err)
{
    *n_tensors = *n_strings = 0;
    for (size_t i = 0; i < entries->n; i += 2) {
        const PickleValue *key = &entries->at[i], *value = key + 1;
        if (value->kind != PICKLE_TENSOR) {
            if (may_be_ignored(value->kind))
                continue;
            bool named = key->kind == PICKLE_STRING;
            return fail(err, INPUT, "%s: entry %.*s: expected a tensor, found a %s", path,
                        named ? shown(key) : 1, named ? key->text : "?",
                        pickle_kind_name(value->kind));
        }
        if (!check_name(path, key, err))
            return false;
        ++*n_tensors;
        /* No overflow: at most PTH_NAME_MAX for each of the objects in memory. */
        *n_strings += key->n + 1;
    }
    return *n_tensors < INT_MAX
        || fail(err, INPUT, "%s: expected at most %d tensors", path, INT_MAX);
}

/* ---- One tensor ------------------------------------------------------------------------------ */

/* Do the elements follow one another in row-major order? A dimension of 1 may have any stride. */
static bool is_row_major(const PickleTensor *p)
{
    size_t expected = 1; /* no overflow: the number of elements was checked */
    for (int i = p->rank - 1; i >= 0; i--) {
        if (p->shape[i] != 1 && (size_t)p->stride[i] != expected)
            return false;
        expected *= (size_t)p->shape[i];
    }
    return true;
}

/* The number of elements from the first to the last one of the view. False: overflow. */
static bool span_of(const PickleTensor *p, size_t *span)
{
    *span = 1;
    for (int i = 0; i < p->rank; i++) {
        size_t step;
        if (!mul_size((size_t)p->shape[i] - 1, (size_t)p->stride[i], &step)
            || !add_size(*span, step, span))
            return false;
    }
    return true;
}

/* Find the file offset of the part of a storage that a tensor sees. */
static bool locate(const TensorFile *f, Tensor *t, const PickleTensor *p,
                   const PthStorages *storages, Error *err)
{
    const PickleStorage *s = p->storage;
    const PthStorage    *place = pth_storages_find(storages, s->key, s->key_bytes);
    int                  key_shown = s->key_bytes < 100 ? (int)s->key_bytes : 100;
    if (!place || !place->found)
        return fail(err, INPUT, "%s: tensor %s: expected its storage %.*s in the file, found no "
                                "such storage", f->map.path, t->name, key_shown, s->key);

    /* No overflow: the storage is in the file. */
    size_t element = dtype_bytes(t->dtype),
           storage_bytes = (size_t)s->view_elements * dtype_bytes(s->dtype);
    size_t span = 0, end, end_bytes;
    char   shape[200];
    if ((t->n_elements && !span_of(p, &span)) || !add_size((size_t)p->offset, span, &end)
        || !mul_size(end, element, &end_bytes))
        end_bytes = SIZE_MAX;
    if (end_bytes > storage_bytes)
        return fail(err, INPUT,
                    "%s: tensor %s: %s from element %lld does not fit into its storage "
                    "%.*s of %zu bytes",
                    f->map.path, t->name, tensor_shape_text(t, shape, sizeof shape),
                    (long long)p->offset, key_shown, s->key, storage_bytes);
    t->offset =
        place->offset + (size_t)s->view_first * dtype_bytes(s->dtype) + (size_t)p->offset * element;
    t->data = f->map.data + t->offset;
    return true;
}

static bool make_tensor(const TensorFile *f, Tensor *t, const PickleTensor *p,
                        const PthStorages *storages, Error *err)
{
    char shape[200];
    t->dtype = p->dtype;
    t->rank = p->rank;
    memcpy(t->shape, p->shape, sizeof t->shape);
    if (p->dtype != p->storage->dtype && !p->storage->untyped)
        return fail(err, INPUT, "%s: tensor %s: expected %s, the type of its storage, found %s",
                    f->map.path, t->name, dtype_name(p->storage->dtype), dtype_name(p->dtype));
    if (!shape_bytes(t->dtype, t->rank, t->shape, &t->n_elements, &t->n_bytes))
        return fail(err, INPUT, "%s: tensor %s: the size of %s %s overflows", f->map.path, t->name,
                    dtype_name(t->dtype), tensor_shape_text(t, shape, sizeof shape));
    return locate(f, t, p, storages, err);
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* Copy one element. With a constant length, each memcpy is one move. */
static void copy_element(unsigned char *out, const unsigned char *from, size_t n_bytes)
{
    switch (n_bytes) {
    case 1: *out = *from; break;
    case 2: memcpy(out, from, 2); break;
    case 4: memcpy(out, from, 4); break;
    default: memcpy(out, from, 8);
    }
}

/* Copy a view, which was checked, element by element in row-major order. */
static void copy_view(unsigned char *out, const PickleTensor *p, const Tensor *t)
{
    const unsigned char *data = t->data;
    size_t               element = dtype_bytes(t->dtype), at = 0;
    int64_t              index[TENSOR_MAX_RANK] = { 0 };
    for (size_t n = 0; n < t->n_elements; n++) {
        copy_element(out + n * element, data + at * element, element);
        for (int i = p->rank - 1; i >= 0; i--) {
            at += (size_t)p->stride[i];
            if (++index[i] < p->shape[i])
                break;
            at -= (size_t)p->stride[i] * (size_t)p->shape[i];
            index[i] = 0;
        }
    }
}

static bool needs_copy(const PickleTensor *p, const Tensor *t)
{
    return t->n_elements && !is_row_major(p);
}

/* Copy the views that are not row-major, into one block of memory. */
static bool make_copies(TensorFile *f, const PickleTensor *const *views, Error *err)
{
    /* No overflow: a mapping is far smaller than SIZE_MAX. */
    size_t total = 0, at = 0, most = f->map.size + PTH_COPIES_FREE;
    for (int i = 0; i < f->n_tensors; i++) {
        const Tensor *t = &f->tensors[i];
        if (needs_copy(views[i], t) && (!add_size(total, t->n_bytes, &total) || total > most - 16))
            return fail(err, INPUT, "%s: tensor %s: tensors that are not row-major are copied: "
                                    "expected at most %zu bytes of them, found more", f->map.path,
                        t->name, most);
        total = round_up(total, 16);
    }
    if (total == 0)
        return true;
    f->copies = malloc(total);
    if (!f->copies)
        return fail(err, SYSTEM,
                    "%s: out of memory for %zu bytes of tensors that are not row-major",
                    f->map.path, total);
    for (int i = 0; i < f->n_tensors; i++) {
        Tensor *t = &f->tensors[i];
        if (!needs_copy(views[i], t))
            continue;
        copy_view(f->copies + at, views[i], t);
        t->data = f->copies + at;
        t->offset = SIZE_MAX;
        at = round_up(at + t->n_bytes, 16);
    }
    return true;
}

/* ---- All ------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const Tensor *const *)a)->name, (*(const Tensor *const *)b)->name);
}

static bool sort_names(TensorFile *f, Error *err)
{
    for (int i = 0; i < f->n_tensors; i++)
        f->by_name[i] = &f->tensors[i];
    qsort(f->by_name, (size_t)f->n_tensors, sizeof *f->by_name, by_name);
    for (int i = 1; i < f->n_tensors; i++)
        if (strcmp(f->by_name[i - 1]->name, f->by_name[i]->name) == 0)
            return fail(err, INPUT, "%s: tensor %s appears twice", f->map.path,
                        f->by_name[i]->name);
    return true;
}

static bool make_all(TensorFile *f, const PickleItems *entries, const PthStorages *storages,
                     const PickleTensor **views, Error *err)
{
    char *name = f->strings;
    for (size_t i = 0; i < entries->n; i += 2) {
        const PickleValue *key = &entries->at[i], *value = key + 1;
        if (value->kind != PICKLE_TENSOR)
            continue;
        Tensor *t = &f->tensors[f->n_tensors];
        memcpy(name, key->text, key->n);
        t->name = name;
        name += key->n + 1;
        if (!make_tensor(f, t, value->tensor, storages, err))
            return false;
        views[f->n_tensors++] = value->tensor;
    }
    return sort_names(f, err) && make_copies(f, views, err);
}

bool pth_tensors_make(TensorFile *f, const PickleValue *object, const PthStorages *storages,
                      Error *err)
{
    const PickleValue *dict = NULL;
    size_t             n_tensors, n_strings;
    if (!find_state_dict(f->map.path, object, &dict, err)
        || !measure(f->map.path, dict->items, &n_tensors, &n_strings, err))
        return false;
    const PickleTensor **views = calloc(n_tensors + 1, sizeof *views);
    f->tensors = calloc(n_tensors + 1, sizeof *f->tensors);
    f->by_name = calloc(n_tensors + 1, sizeof *f->by_name);
    f->strings = calloc(n_strings + 1, 1);
    bool ok = views && f->tensors && f->by_name && f->strings
        ? make_all(f, dict->items, storages, views, err)
        : fail(err, SYSTEM, "%s: out of memory for %zu tensors", f->map.path, n_tensors);
    free(views);
    return ok;
}
