/* source/model_file.c: a model file of ours. */
#include "source/source.h"

#include <stdio.h>
#include <string.h>

#include "tblock.h"

static bool check(const TensorFile *f, Error *err)
{
    const char *format = tensor_meta(f, "format"), *version = tensor_meta(f, "version");
    if (format && strcmp(format, "tblock-checkpoint") == 0)
        return fail(err, INPUT,
                    "%s: expected a model, found a training checkpoint: `tblock train "
                    "-o OUT --resume` continues from OUT.ckpt and writes the model",
                    f->map.path);
    if (!format || strcmp(format, "tblock") != 0)
        return refuse_form(f->map.path, err) && fail(err, INPUT,
                    "%s: metadata format: expected \"tblock\", found %s%s%s: other programs' "
                    "weights need their config.json beside them",
                    f->map.path, format ? "\"" : "", format ? format : "no such entry",
                    format ? "\"" : "");
    if (!version || strcmp(version, "1") != 0)
        return fail(
            err, INPUT,
            "%s: metadata version: expected 1, found %s: this tblock (%s) is older than the file",
            f->map.path, version ? version : "no such entry", TBLOCK_VERSION);
    if (!tensor_meta(f, "config") && !tensor_meta(f, "tokenizer"))
        return fail(err, INPUT, "%s: metadata: expected a config or a tokenizer, found neither",
                    f->map.path);
    return true;
}

bool model_file_open(Source *s, Error *err)
{
    Config config;
    char   what[512];
    if (!safetensors_open(&s->file, s->path, err) || !check(&s->file, err))
        return false;
    const char *json = tensor_meta(&s->file, "config");
    if (!json)
        return true;
    snprintf(what, sizeof what, "%s: config", s->path);
    s->has_weights = config_parse(&config, json, strlen(json), what, err)
        && config_supported(&config, what, err)
        && stored_model_from_file(&s->stored, &config, &s->file, err);
    return s->has_weights;
}
