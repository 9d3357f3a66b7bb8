/* The default types, and the user's exceptions to them. */
#include "model/model_writer.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* One "PATTERN=TYPE". */
typedef struct Keep { char *pattern; WeightType type; bool used; } Keep;

WeightType type_plan_default(const TensorSpec *s, WeightType target)
{
    Quantized q = tensor_row(s->role)->quantized;
    if (q == AS_FLOATS && weight_type_quantized(target))
        return WT_F32;
    return q == AT_LEAST_Q8 && target == WT_Q4 ? WT_Q8 : target;
}

static bool parse(Keep *k, const char *text, Error *err)
{
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text || !weight_type_parse_made(equals + 1, &k->type))
        return fail(
            err, USAGE,
            "keep: expected PATTERN=TYPE with a type of f32, f16, bf16, q8 or q4, found '%s'%s",
            text, equals ? weight_type_hint(equals + 1) : "");
    k->pattern = strdup(text);
    if (!k->pattern)
        return no_memory(NULL, err);
    k->pattern[equals - text] = '\0';
    return true;
}

/* The first pattern that matches decides. The others are only marked as used. */
static WeightType choose(const TensorSpec *s, WeightType target, Keep *keep, size_t n)
{
    WeightType type  = type_plan_default(s, target);
    bool       found = false;
    for (size_t i = 0; i < n; i++) {
        if (fnmatch(keep[i].pattern, s->name, 0) != 0)
            continue;
        type         = found ? type : keep[i].type;
        found        = true;
        keep[i].used = true;
    }
    return type;
}

static bool check_source(const TensorSpec *s, const StoredModel *from, WeightType have,
                         WeightType type, Error *err)
{
    /* What q8_16 holds exactly, q8 and q4 hold in fewer bits. */
    if (!weight_type_quantized(have) || !weight_type_quantized(type) || have == type
        || have == WT_Q8_16)
        return true;
    return fail(err, INPUT, "%s: tensor %s: expected floats to convert to %s, found %s: quantizing "
                            "again would lose precision twice; tblock quantize --requantize does "
                            "it and says what is lost", from->path, s->name, weight_type_name(type),
                weight_type_name(have));
}

static bool parse_all(Keep *keep, const char *const *texts, size_t n_keep, Error *err)
{
    for (size_t i = 0; i < n_keep; i++)
        if (!parse(&keep[i], texts[i], err))
            return false;
    return true;
}

static bool fill(WeightType *types, const Config *c, const char *name, WeightType target,
                 Keep *keep, const char *const *texts, size_t n_keep, Error *err)
{
    int at = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s); at++)
        types[at] = s.k ? choose(&s, target, keep, n_keep) : WT_F32;
    for (size_t i = 0; i < n_keep; i++)
        if (!keep[i].used)
            return fail(err, USAGE, "keep: '%s' matches no matrix of %s; use the names of a model "
                                    "file, such as embed or layers.0.wq", texts[i], name);
    return true;
}

static bool check_sources(const WeightType *types, const Config *c, const StoredModel *from,
                          Error *err)
{
    int at = 0;
    for (TensorSpec s = tensor_list_start(); from && tensor_list_next(c, &s); at++)
        if (s.k && !check_source(&s, from, from->tensor[at].type, types[at], err))
            return false;
    return true;
}

WeightType *type_plan_new(const Config *c, const StoredModel *from, const char *name,
                          WeightType target, const char *const *keep, size_t n_keep, Error *err)
{
    WeightType *types = calloc((size_t)tensor_list_count(c), sizeof *types);
    Keep       *k     = calloc(n_keep + 1, sizeof *k);
    bool        ok    = types && k
        ? parse_all(k, keep, n_keep, err) && fill(types, c, name, target, k, keep, n_keep, err)
                      && check_sources(types, c, from, err)
        : no_memory(NULL, err);
    for (size_t i = 0; k && i < n_keep; i++)
        free(k[i].pattern);
    free(k);
    if (ok)
        return types;
    free(types);
    return NULL;
}
