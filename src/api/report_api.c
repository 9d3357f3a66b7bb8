/* api/report_api.c: gathers what a report draws: from a model file, a tokenizer alone, or a bare JSON config. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "report/info.h"

enum { MAX_CONFIG = 1 << 20 };

static bool draw(const Info *info, const tblock_report_options *opt, char **text, Error *err)
{
    return opt->json ? info_json(info, opt, text, err) : info_text(info, opt, text, err);
}

static bool report_config(const char *path, const tblock_report_options *opt, char **text, Error *err)
{
    Config c;
    Count  count[WT_COUNT];
    char  *json;
    size_t n_bytes;
    if (!file_read(path, MAX_CONFIG, &json, &n_bytes, err))
        return false;
    bool ok = config_parse(&c, json, n_bytes, path, err) && config_supported(&c, path, err);
    free(json);
    if (!ok)
        return false;
    for (int t = 0; t < WT_COUNT; t++)
        count_config(&count[t], &c, (WeightType)t);
    return draw(&(Info){ .path = path, .cfg = &c, .count = count }, opt, text, err);
}

/* Parse a metadata entry that holds JSON; an absent one is NULL and no error. */
static bool parse_meta(const TensorFile *f, const char *key, Json **out, Error *err)
{
    const char *value = tensor_meta(f, key);
    char        what[512];
    *out = NULL;
    if (!value)
        return true;
    snprintf(what, sizeof what, "%s: %s", f->map.path, key);
    *out = json_parse(value, strlen(value), what, err);
    return *out != NULL;
}

static bool report_file(const TensorFile *f, const tblock_report_options *opt, char **text, Error *err)
{
    Json       *tokenizer = NULL, *source = NULL;
    const char *json = tensor_meta(f, "config");
    Config      c;
    Count       count;
    char        what[512];
    snprintf(what, sizeof what, "%s: config", f->map.path);
    bool ok = model_file_check(f, err) && parse_meta(f, "tokenizer", &tokenizer, err) && parse_meta(f, "source", &source, err);
    if (ok && json)
        ok = config_parse(&c, json, strlen(json), what, err) && config_supported(&c, what, err) && count_file(&count, &c, f, err);
    if (ok) {
        Info info = { .path = f->map.path, .file = f, .cfg = json ? &c : NULL, .count = &count, .tokenizer = tokenizer,
                      .source = source, .sha256 = tensor_meta(f, "sha256") };
        ok = draw(&info, opt, text, err);
    }
    json_free(tokenizer);
    json_free(source);
    return ok;
}

/* A config starts with '{'. So may the header length of a safetensors file, but its upper bytes are then 0, which JSON
 * text never holds. */
static bool is_json(const FileMap *map)
{
    size_t i = 0;
    while (i < map->size && strchr(" \t\r\n", map->data[i]) && map->data[i])
        i++;
    return i < map->size && map->data[i] == '{' && !memchr(map->data, 0, map->size < 8 ? map->size : 8);
}

bool tblock_report(const char *path, const tblock_report_options *opt, char **text, tblock_error *err)
{
    static const tblock_report_options defaults = { 0 };
    FileMap    map = { 0 };
    TensorFile f   = { 0 };
    if (!opt)
        opt = &defaults;
    if (!file_map_open(&map, path, err))
        return false;
    bool config = is_json(&map);
    file_map_close(&map);
    if (config)
        return report_config(path, opt, text, err);
    bool ok = safetensors_open(&f, path, err) && report_file(&f, opt, text, err);
    tensor_file_close(&f);
    return ok;
}
