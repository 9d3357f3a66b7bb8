#include "model/tensor_list.h"

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
    bool ok   = c->tensor ? find_tensors(c, f, err)
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
