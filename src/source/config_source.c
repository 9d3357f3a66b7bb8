#include "source/config_source.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "source/hf_config.h"

enum { MAX_CONFIG = 1 << 20 };

static bool is_hugging_face(const char *json, size_t n_bytes, const char *path)
{
    Json *root = json_parse(json, n_bytes, path, NULL);
    bool  is   = json_get(root, "model_type") || json_get(root, "architectures");
    json_free(root);
    return is;
}

static bool read_hugging_face(Config *c, const char *path, Error *err)
{
    HfConfig hf;
    Source   s  = { .path = strdup(path) };
    bool     ok = s.path ? hf_config_read(&hf, &s, path, NULL, err) : no_memory(path, err);
    if (ok)
        *c = hf.config;
    source_close(&s);
    return ok;
}

bool config_source_read(Config *c, const char *path, Error *err)
{
    char  *json;
    size_t n_bytes;
    if (!file_read(path, MAX_CONFIG, &json, &n_bytes, err))
        return false;
    bool ok = is_hugging_face(json, n_bytes, path) ? read_hugging_face(c, path, err) : config_parse(c, json, n_bytes, path, err);
    free(json);
    return ok;
}
