/* Imitates the few functions that a PyTorch state dict calls, after checking their arguments. */
#include "format/pickle.h"

#include <string.h>

/* ---- Globals --------------------------------------------------------------------------------- */

#define STORAGE(type, t) { .name = "torch." type "Storage", .kind = GLOBAL_STORAGE, .dtype = (t) }
#define ELEMENT(type, t) { .name = "torch." type, .kind = GLOBAL_DTYPE, .dtype = (t) }
static const PickleGlobal globals[] = {
    { .name = "collections.OrderedDict", .kind = GLOBAL_DICT },
    { .name = "torch._utils._rebuild_tensor", .kind = GLOBAL_TENSOR, .version = 1 },
    { .name = "torch._utils._rebuild_tensor_v2", .kind = GLOBAL_TENSOR, .version = 2 },
    { .name = "torch._utils._rebuild_tensor_v3", .kind = GLOBAL_TENSOR, .version = 3 },
    { .name = "torch._utils._rebuild_parameter", .kind = GLOBAL_PARAMETER },

    STORAGE("Float", DT_F32), STORAGE("Half", DT_F16), STORAGE("BFloat16", DT_BF16),
    STORAGE("Double", DT_F64),
    STORAGE("Int", DT_I32), STORAGE("Long", DT_I64), STORAGE("Short", DT_I16),
    STORAGE("Char", DT_I8),
    STORAGE("Byte", DT_U8), STORAGE("Bool", DT_BOOL),
    STORAGE("ComplexFloat", DT_COUNT), STORAGE("ComplexDouble", DT_COUNT),
    STORAGE("QInt8", DT_COUNT),
    STORAGE("QUInt8", DT_COUNT), STORAGE("QInt32", DT_COUNT), STORAGE("QUInt4x2", DT_COUNT),
    STORAGE("QUInt2x4", DT_COUNT),
    { .name = "torch.storage.UntypedStorage", .kind = GLOBAL_STORAGE, .dtype = DT_U8,
      .untyped = true },
    { .name = "torch.storage.TypedStorage", .kind = GLOBAL_STORAGE, .dtype = DT_COUNT },

    ELEMENT("float32", DT_F32), ELEMENT("float16", DT_F16), ELEMENT("bfloat16", DT_BF16),
    ELEMENT("float64", DT_F64),
    ELEMENT("int32", DT_I32), ELEMENT("int64", DT_I64), ELEMENT("int16", DT_I16),
    ELEMENT("int8", DT_I8),
    ELEMENT("uint8", DT_U8), ELEMENT("uint16", DT_U16), ELEMENT("uint32", DT_U32),
    ELEMENT("uint64", DT_U64),
    ELEMENT("bool", DT_BOOL),
    ELEMENT("complex32", DT_COUNT), ELEMENT("complex64", DT_COUNT), ELEMENT("complex128", DT_COUNT),
    ELEMENT("float8_e4m3fn", DT_COUNT), ELEMENT("float8_e5m2", DT_COUNT),
    ELEMENT("float8_e4m3fnuz", DT_COUNT),
    ELEMENT("float8_e5m2fnuz", DT_COUNT), ELEMENT("float8_e8m0fnu", DT_COUNT),
    ELEMENT("float4_e2m1fn_x2", DT_COUNT),
};

bool pickle_torch_global(const char *module, size_t n_module, const char *name, size_t n_name,
                         PickleValue *out, Error *err)
{
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        const char *full = globals[i].name;
        if (strlen(full) == n_module + 1 + n_name && memcmp(full, module, n_module) == 0
            && full[n_module] == '.' && memcmp(full + n_module + 1, name, n_name) == 0) {
            *out = (PickleValue){ .kind = PICKLE_GLOBAL, .global = &globals[i] };
            return true;
        }
    }
    return fail(err, INPUT, "global %.*s.%.*s would execute code; refused",
                n_module < 80 ? (int)n_module : 80, module, n_name < 80 ? (int)n_name : 80, name);
}

/* ---- Arguments ------------------------------------------------------------------------------- */

/* Fail with "torch._utils._rebuild_tensor_v2: WHAT: expected EXPECTED, found KIND". */
static bool unexpected(const char *where, const char *what, const char *expected,
                       const PickleValue *found, Error *err)
{
    return fail(err, INPUT, "%s: %s: expected %s, found %s", where, what, expected,
                pickle_kind_name(found->kind));
}

static bool read_size(const PickleValue *v, const char *where, const char *what, int64_t *out,
                      Error *err)
{
    if (v->kind != PICKLE_INT)
        return unexpected(where, what, "a number from 0 to 2^63 - 1", v, err);
    if (v->i < 0)
        return fail(err, INPUT, "%s: %s: expected a number of at least 0, found %lld", where, what,
                    (long long)v->i);
    *out = v->i;
    return true;
}

static bool read_sizes(const PickleValue *v, const char *where, const char *what, int *rank,
                       int64_t *out, Error *err)
{
    if (v->kind != PICKLE_TUPLE && v->kind != PICKLE_LIST)
        return unexpected(where, what, "a tuple", v, err);
    if (v->items->n > TENSOR_MAX_RANK)
        return fail(err, INPUT, "%s: %s: expected at most %d dimensions, found %zu", where, what,
                    TENSOR_MAX_RANK, v->items->n);
    *rank = (int)v->items->n;
    for (int i = 0; i < *rank; i++)
        if (!read_size(&v->items->at[i], where, what, &out[i], err))
            return false;
    return true;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* OrderedDict(), or in Python 2 OrderedDict([[key, value], ...]). */
static bool make_dict(Pickle *p, const PickleItems *args, PickleValue *out, Error *err)
{
    static const char where[] = "collections.OrderedDict";
    if (!pickle_new_items(p, PICKLE_DICT, NULL, 0, out, err))
        return false;
    if (args->n == 0)
        return true;
    if (args->n > 1 || (args->at[0].kind != PICKLE_LIST && args->at[0].kind != PICKLE_TUPLE))
        return unexpected(where, "argument", "a list of pairs", &args->at[0], err);
    const PickleItems *pairs = args->at[0].items;
    for (size_t i = 0; i < pairs->n; i++) {
        const PickleValue *pair = &pairs->at[i];
        if ((pair->kind != PICKLE_LIST && pair->kind != PICKLE_TUPLE) || pair->items->n != 2)
            return unexpected(where, "entry", "a pair", pair, err);
        if (!pickle_append(p, out->items, pair->items->at[0], err)
            || !pickle_append(p, out->items, pair->items->at[1], err))
            return false;
    }
    return true;
}

/* Flags of a tensor that change what its bytes mean (conj, neg). There must be none. */
static bool check_metadata(const PickleValue *v, const char *where, Error *err)
{
    if (v->kind == PICKLE_NONE || (v->kind == PICKLE_DICT && v->items->n == 0))
        return true;
    return fail(err, INPUT, "%s: expected no tensor metadata (conj, neg), found some", where);
}

static bool read_element_type(const PickleValue *v, const char *where, DType *out, Error *err)
{
    if (v->kind != PICKLE_GLOBAL || v->global->kind != GLOBAL_DTYPE)
        return unexpected(where, "dtype", "a torch dtype", v, err);
    *out = v->global->dtype;
    return *out != DT_COUNT
        || fail(err, INPUT, "%s: element type %s is not supported", where, v->global->name);
}

/* _rebuild_tensor(storage, offset, size, stride); _v2 adds requires_grad, hooks[, metadata]; _v3
 * adds requires_grad, hooks, dtype[, metadata]. */
static bool make_tensor(Pickle *p, const PickleGlobal *g, const PickleItems *args, PickleValue *out,
                        Error *err)
{
    static const struct {
        size_t least, most;
    } count[] = { { 0, 0 }, { 4, 4 }, { 6, 7 }, { 7, 8 } };
    size_t least = count[g->version].least, most = count[g->version].most;
    if (args->n < least || args->n > most)
        return fail(err, INPUT, "%s: expected %zu to %zu arguments, found %zu", g->name, least,
                    most, args->n);
    const PickleValue *arg = args->at;
    if (arg[0].kind != PICKLE_STORAGE)
        return unexpected(g->name, "storage", "a storage", &arg[0], err);

    int           n_strides;
    PickleTensor *t = pickle_alloc(p, sizeof *t, err);
    if (!t)
        return false;
    t->storage = arg[0].storage;
    t->dtype = t->storage->dtype;
    if (!read_size(&arg[1], g->name, "offset", &t->offset, err)
        || !read_sizes(&arg[2], g->name, "size", &t->rank, t->shape, err)
        || !read_sizes(&arg[3], g->name, "stride", &n_strides, t->stride, err))
        return false;
    if (n_strides != t->rank)
        return fail(err, INPUT, "%s: expected a stride for each of %d dimensions, found %d",
                    g->name, t->rank, n_strides);
    if (g->version == 3 && !read_element_type(&arg[6], g->name, &t->dtype, err))
        return false;
    if (args->n == most && g->version >= 2 && !check_metadata(&arg[most - 1], g->name, err))
        return false;
    *out = (PickleValue){ .kind = PICKLE_TENSOR, .tensor = t };
    return true;
}

bool pickle_torch_call(Pickle *p, const PickleValue *global, const PickleValue *args,
                       PickleValue *out, Error *err)
{
    if (global->kind != PICKLE_GLOBAL)
        return fail(err, INPUT, "calling a %s would execute code; refused",
                    pickle_kind_name(global->kind));
    const PickleGlobal *g = global->global;
    if (args->kind != PICKLE_TUPLE)
        return unexpected(g->name, "arguments", "a tuple", args, err);
    switch (g->kind) {
    case GLOBAL_DICT:   return make_dict(p, args->items, out, err);
    case GLOBAL_TENSOR: return make_tensor(p, g, args->items, out, err);
    case GLOBAL_PARAMETER: /* Parameter(tensor, requires_grad, hooks) */
        if (args->items->n != 3 || args->items->at[0].kind != PICKLE_TENSOR)
            return fail(err, INPUT, "%s: expected a tensor and two more arguments", g->name);
        *out = args->items->at[0];
        return true;
    case GLOBAL_STORAGE:
    case GLOBAL_DTYPE: break;
    }
    return fail(err, INPUT, "calling %s would execute code; refused", g->name);
}

/* ---- Storages -------------------------------------------------------------------------------- */

/* Before PyTorch 0.4, a storage may be a part of another one: (key, first element, number of
 * elements). */
static bool read_view(const PickleValue *v, PickleStorage *s, Error *err)
{
    static const char where[] = "storage view";
    if (v->kind == PICKLE_NONE)
        return true;
    if (v->kind != PICKLE_TUPLE || v->items->n != 3)
        return unexpected("storage", "view", "None or (key, offset, size)", v, err);
    if (!read_size(&v->items->at[1], where, "offset", &s->view_first, err)
        || !read_size(&v->items->at[2], where, "size", &s->view_elements, err))
        return false;
    if (s->view_first > s->n_elements || s->view_elements > s->n_elements - s->view_first)
        return fail(err, INPUT,
                    "%s: %lld elements from element %lld do not fit into its storage "
                    "of %lld",
                    where, (long long)s->view_elements, (long long)s->view_first,
                    (long long)s->n_elements);
    return true;
}

bool pickle_torch_storage(Pickle *p, const PickleValue *id, PickleValue *out, Error *err)
{
    static const char where[] = "storage";
    if (id->kind != PICKLE_TUPLE || id->items->n < 5 || id->items->n > 6
        || !pickle_is_text(&id->items->at[0], "storage"))
        return fail(err, INPUT,
                    "persistent id: expected (\"storage\", type, key, location, size), found "
                    "another object");
    const PickleValue *part = id->items->at;
    if (part[1].kind != PICKLE_GLOBAL || part[1].global->kind != GLOBAL_STORAGE)
        return unexpected(where, "type", "a torch storage type", &part[1], err);
    if (part[1].global->dtype == DT_COUNT)
        return fail(err, INPUT, "storage: elements of %s are not supported", part[1].global->name);
    if (part[2].kind != PICKLE_STRING)
        return unexpected(where, "key", "a string", &part[2], err);

    PickleStorage *s = pickle_alloc(p, sizeof *s, err);
    if (!s)
        return false;
    *s = (PickleStorage){ .untyped = part[1].global->untyped,
                          .dtype = part[1].global->dtype,
                          .key = part[2].text,
                          .key_bytes = part[2].n };
    if (!read_size(&part[4], where, "size", &s->n_elements, err))
        return false;
    s->view_elements = s->n_elements;
    if (id->items->n == 6 && !read_view(&part[5], s, err))
        return false;
    *out = (PickleValue){ .kind = PICKLE_STORAGE, .storage = s };
    return pickle_append(p, &p->storages, *out, err);
}
