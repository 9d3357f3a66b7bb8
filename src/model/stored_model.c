/* model/stored_model.c: a config and where each of its tensors is in a file. */
#include "model/tensor_list.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

static bool find_tensors(StoredModel *c, const TensorFile *f, Error *err)
{
    int i = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(&c->config, &s); i++)
        if (!tensor_check(&s, f, &c->tensor[i], err))
            return false;
    return true;
}

bool stored_model_factors(const StoredModel *c, Error *err)
{
    int        at = 0, good = 0;
    TensorSpec s  = tensor_list_start();
    while (tensor_list_next(&c->config, &s) && s.role != ROLE_ROPE_FACTORS)
        at++;
    if (at == c->n)
        return true;
    float *v = malloc((size_t)s.rows * sizeof *v);
    if (!v)
        return fail(err, SYSTEM, "%s: out of memory for %s", c->path, s.name);
    checked_vector(&s, &c->tensor[at], v);
    while (good < s.rows && v[good] > 0 && v[good] <= FLT_MAX)
        good++;
    bool ok = good == s.rows
        || fail(err, INPUT, "%s: rope_factors: expected finite numbers above 0, found %g", c->path,
                (double)v[good]);
    free(v);
    return ok;
}

bool stored_model_from_file(StoredModel *c, const Config *cfg, const TensorFile *f, Error *err)
{
    const char *path = f->map.path, *least = tensor_meta(f, "bf16_min");
    *c = (StoredModel){ .path = path,
                        .config = *cfg,
                        .bf16_min = least && strcmp(least, "2^-50") == 0 };
    if (!config_check(cfg, path, err) || !config_supported(cfg, path, err)
        || !tensor_check_unknown(cfg, f, err)) {
        stored_model_free(c);
        return false;
    }
    c->n      = tensor_list_count(cfg);
    c->tensor = calloc((size_t)c->n, sizeof *c->tensor);
    bool ok   = c->tensor ? find_tensors(c, f, err) && stored_model_factors(c, err)
                          : fail(err, SYSTEM, "%s: out of memory for %d tensors", path, c->n);
    if (!ok)
        stored_model_free(c);
    return ok;
}

size_t stored_model_bytes(const StoredModel *c)
{
    size_t n = 0;
    for (int i = 0; i < c->n; i++)
        n += checked_bytes(&c->tensor[i]);
    return n;
}

void stored_model_free(StoredModel *c)
{
    free(c->tensor);
    *c = (StoredModel){ 0 };
}
