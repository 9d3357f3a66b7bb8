/* source/config_source.c: a bare config, ours or a config.json, without weights. */
#include "source/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "model/config_keys.h"
#include "source/hf.h"

enum { MAX_CONFIG = 1 << 20 };

static bool read_hugging_face(Config *c, const Json *root, const char *path, Error *err)
{
    HfConfig hf;
    /* The reader writes its warnings here. They are about weights and are dropped. */
    Source   s  = { .path = strdup(path) };
    bool     ok = s.path ? hf_config_parse(&hf, &s, root, path, NULL, err) : no_memory(path, err);
    if (ok)
        *c = hf.config;
    source_close(&s);
    return ok;
}

bool config_source_read(Config *c, const char *path, Error *err)
{
    char  *text;
    size_t n_bytes;
    if (!file_read(path, MAX_CONFIG, &text, &n_bytes, err))
        return false;
    Json *root = refuse_other_json(path, text, n_bytes, err)
        ? json_parse(text, n_bytes, path, err) : NULL;
    free(text);
    bool ok = root
        && (hf_config_is(root) ? read_hugging_face(c, root, path, err)
                               : config_parse_json(c, root, path, err));
    json_free(root);
    return ok;
}
