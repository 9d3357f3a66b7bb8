/* report/info_json.c: the report of `tblock info --json`: one object. Its keys stay from version to version; new ones come. */
#include "report/info.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void out_text(JsonOut *o, const char *key, const char *value)
{
    json_out(o, ", \"%s\": ", key);
    value ? json_out_string(o, value, strlen(value)) : json_out(o, "null");
}

/* The string or number that stands in a parsed metadata entry, null where it does not. */
static void out_copy(JsonOut *o, const char *key, const Json *value)
{
    Error       ignored;
    const char *text = NULL;
    int64_t     number;
    if (json_read_int(value, "", 0, INT64_C(1) << 53, &number, &ignored)) {
        json_out(o, ", \"%s\": %" PRId64, key, number);
        return;
    }
    json_read_string(value, "", &text, &ignored);
    out_text(o, key, text);
}

static void out_part(JsonOut *o, const CountPart *p, bool stored)
{
    char        shape[40];
    const char *comma = "";
    json_out(o, "{\"name\": \"%s\", \"shape\": %s, \"tensors\": %d, \"parameters\": %" PRIu64, p->name,
             info_shape(p, shape, sizeof shape), p->n_tensors, p->params);
    if (stored) {
        json_out(o, ", \"bytes\": %" PRIu64 ", \"dtypes\": [", p->bytes);
        for (int d = 0; d < DT_COUNT; d++)
            if (p->dtypes >> d & 1) {
                json_out(o, "%s\"%s\"", comma, dtype_name((DType)d));
                comma = ", ";
            }
        json_out(o, "]");
    }
    json_out(o, "}");
}

static void out_parameters(JsonOut *o, const Count *n, bool stored)
{
    json_out(o,
             ", \"parameters\": {\"total\": %" PRIu64 ", \"embedding\": %" PRIu64 ", \"block\": %" PRIu64
             ", \"blocks\": %" PRIu64 ", \"final_norm\": %" PRIu64 ", \"head\": %" PRIu64 "}",
             n->params, n->embed_params, n->layer_params, n->blocks_params, n->final_norm_params, n->head_params);
    json_out(o, ", \"parts\": [");
    for (int i = 0; i < n->n_parts; i++) {
        json_out(o, "%s", i ? ", " : "");
        out_part(o, &n->part[i], stored);
    }
    json_out(o, "]");
}

static void out_bytes(JsonOut *o, const Count *n, bool stored)
{
    const char *comma = "";
    json_out(o, ", \"weight_bytes\": {");
    for (int d = 0; stored && d < DT_COUNT; d++)
        if (n->bytes_of[d]) {
            json_out(o, "%s\"%s\": %" PRIu64, comma, dtype_name((DType)d), n->bytes_of[d]);
            comma = ", ";
        }
    for (int t = 0; !stored && t < WT_COUNT; t++)
        json_out(o, "%s\"%s\": %" PRIu64, t ? ", " : "", weight_type_name((WeightType)t), n[t].bytes);
    json_out(o, "}, \"kv_bytes_per_token\": {\"f32\": %" PRIu64 ", \"f16\": %" PRIu64 "}", n->kv_bytes_f32,
             n->kv_bytes_f16);
}

static void out_sources(JsonOut *o, const Json *source)
{
    const char *open = "{";
    json_out(o, ", \"source\": [");
    for (const Json *i = json_first(source); i; i = json_next(i)) {
        const Json *synth = json_get(i, "synth");
        json_out(o, "%s\"kind\": \"%s\"", open, synth ? "synth" : "file");
        out_copy(o, synth ? "synth" : "file", synth ? synth : json_get(i, "file"));
        if (!synth)
            out_copy(o, "sha256", json_get(i, "sha256"));
        json_out(o, "}");
        open = ", {";
    }
    json_out(o, "]");
}

static void out_file(JsonOut *o, const Info *info)
{
    json_out(o, ", \"file_bytes\": %zu, \"data_offset\": %zu", info->file->map.size, info->file->data_offset);
    if (info->cfg)
        out_text(o, "layout", info_layout(info->count));
    if (info->tokenizer) {
        json_out(o, ", \"tokenizer\": {\"present\": true");
        out_copy(o, "type", json_get(info->tokenizer, "type"));
        out_copy(o, "size", json_get(info->tokenizer, "size"));
        json_out(o, "}");
    } else {
        json_out(o, ", \"tokenizer\": {\"present\": false}");
    }
    out_sources(o, info->source);
    out_text(o, "sha256", info->sha256);
}

static void out_tensors(JsonOut *o, const TensorFile *f)
{
    char shape[160];
    json_out(o, ", \"tensors\": [");
    for (int i = 0; i < f->n_tensors; i++) {
        const Tensor *t = &f->tensors[i];
        json_out(o, "%s{\"name\": ", i ? ", " : "");
        json_out_string(o, t->name, strlen(t->name));
        json_out(o, ", \"dtype\": \"%s\", \"shape\": %s, \"bytes\": %zu, \"offset\": %zu}", dtype_name(t->dtype),
                 tensor_shape_text(t, shape, sizeof shape), t->n_bytes, t->offset);
    }
    json_out(o, "]");
}

bool info_json(const Info *info, const tblock_report_options *opt, char **text, Error *err)
{
    JsonOut o      = { 0 };
    char   *config = NULL;
    if (info->cfg && !(config = config_to_json(info->cfg, err)))
        return false;
    json_out(&o, "{\"path\": ");
    json_out_string(&o, info->path, strlen(info->path));
    out_text(&o, "kind", !info->file ? "config" : info->cfg ? "model" : "tokenizer");
    if (info->cfg) {
        json_out(&o, ", \"config\": %s", config);
        out_parameters(&o, info->count, info->file != NULL);
        out_bytes(&o, info->count, info->file != NULL);
    }
    if (info->file)
        out_file(&o, info);
    if (info->file && opt->tensors)
        out_tensors(&o, info->file);
    json_out(&o, "}\n");
    free(config);
    *text = json_out_take(&o, err);
    return *text != NULL;
}
