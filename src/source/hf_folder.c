#include "source/hf_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "format/pth.h"
#include "source/hf_tensors.h"

enum { PATH_BYTES = 4096, MAX_INDEX = 256 << 20, MAX_SHARDS = 1 << 12 };

/* ---- Paths ---- */

/* The folder of a file's path, with its last slash; "" where it has none. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* NAME in the folder, or where path is no folder beside the file. False: too long. */
static bool path_in(const char *path, const char *name, char out[PATH_BYTES])
{
    int n = is_folder(path) ? snprintf(out, PATH_BYTES, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", name)
                            : snprintf(out, PATH_BYTES, "%.*s%s", (int)folder_length(path), path, name);
    return n > 0 && n < PATH_BYTES;
}

static bool there(const char *path, const char *name, char out[PATH_BYTES])
{
    struct stat st;
    return path_in(path, name, out) && stat(out, &st) == 0;
}

bool hf_folder_is(const char *path)
{
    char config[PATH_BYTES];
    return is_folder(path) && there(path, "config.json", config);
}

/* A model file of ours says so in its metadata, whatever lies beside it. */
static bool is_ours(const char *path)
{
    TensorFile  f;
    const char *format;
    if (!safetensors_open(&f, path, NULL))
        return false;
    format    = tensor_meta(&f, "format");
    bool ours = format && strcmp(format, "tblock") == 0;
    tensor_file_close(&f);
    return ours;
}

bool hf_file_is(const char *path, const unsigned char *head, size_t n)
{
    char   config[PATH_BYTES];
    size_t len = strlen(path);
    bool   safe = len > 12 && strcmp(path + len - 12, ".safetensors") == 0;
    return (safe || pth_is(head, n)) && there(path, "config.json", config) && !(safe && is_ours(path));
}

const char *hf_folder_of(const Source *s, char *buf, size_t n)
{
    size_t len = folder_length(s->path);
    if (s->kind != SOURCE_HF || is_folder(s->path) || len >= n)
        return s->path;
    memcpy(buf, s->path, len);
    buf[len] = '\0';
    return len ? buf : ".";
}

/* ---- Weights ---- */

/* The two kinds of files, in the order in which they are looked for. */
static const struct Kind { const char *single, *index; bool (*open)(TensorFile *, const char *, Error *); } kinds[] = {
    { "model.safetensors", "model.safetensors.index.json", safetensors_open },
    { "pytorch_model.bin", "pytorch_model.bin.index.json", pth_open },
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static bool open_single(Source *s, const char *path, const struct Kind *kind, Error *err)
{
    return source_uses(s, path, err) && source_files(s, 1, err) && kind->open(&s->files[0], path, err);
}

/* Where the index says that a tensor is; NULL: nowhere. */
static const char *place_of(const Json *map, const char *tensor)
{
    const char *shard = NULL;
    const Json *j     = json_get(map, tensor);
    return j && json_read_string(j, "", &shard, NULL) ? shard : NULL;
}

/* Every tensor of a shard is where the index says. json_get is linear, but the index usually names them in the file's order. */
static bool check_shard(const TensorFile *f, const Json *map, const char *shard, const char *index, Error *err)
{
    for (int i = 0; i < f->n_tensors; i++) {
        const char *said = place_of(map, f->tensors[i].name);
        if (!said || strcmp(said, shard) != 0)
            return fail(err, INPUT, "%s: tensor %s: expected a place in %s, found %s%s", f->map.path, f->tensors[i].name, index,
                        said ? "the shard " : "none", said ? said : "");
    }
    return true;
}

/* The different files that the index names, in the order in which they first occur. NULL: see err. */
static const char **shard_names(Source *s, const Json *map, const char *index, int *n, Error *err)
{
    const char **names = source_alloc(s, MAX_SHARDS * sizeof *names, err);
    *n = 0;
    for (const Json *i = names ? json_first(map) : NULL; i; i = json_next(i)) {
        const char *name;
        int         k = *n;
        if (!json_is_string(i) || !json_read_string(i, "", &name, NULL)) {
            fail(err, INPUT, "%s: weight_map: expected an object of file names, found %s", index, json_kind(i));
            return NULL;
        }
        if (k && strcmp(names[k - 1], name) == 0)
            continue;
        while (k > 0 && strcmp(names[k - 1], name) != 0)
            k--;
        if (k > 0)
            continue;
        if (strchr(name, '/') || !name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || *n == MAX_SHARDS) {
            fail(err, INPUT, "%s: weight_map: expected plain file names, found '%s'", index, name);
            return NULL;
        }
        names[(*n)++] = name;
    }
    return names;
}

static bool open_shards(Source *s, const Json *map, const char *index, const struct Kind *kind, Error *err)
{
    char         path[PATH_BYTES];
    int          n, n_tensors = 0;
    const char **names = shard_names(s, map, index, &n, err);
    if (!names || !source_files(s, n, err))
        return false;
    for (int i = 0; i < n; i++) {
        if (!there(s->path, names[i], path))
            return fail(err, INPUT, "%s: shard %s: expected a file in the same folder, found no such file", index, names[i]);
        if (!source_uses(s, path, err) || !kind->open(&s->files[i], path, err)
            || !check_shard(&s->files[i], map, names[i], index, err))
            return false;
        n_tensors += s->files[i].n_tensors;
    }
    if ((size_t)n_tensors == json_count(map))
        return true;
    for (const Json *i = json_first(map); i; i = json_next(i)) {
        bool found = false;
        for (int k = 0; k < n && !found; k++)
            found = tensor_find(&s->files[k], json_key(i)) != NULL;
        if (!found)
            return fail(err, INPUT, "%s: tensor %s: expected the tensor that %s lists, found none", place_of(map, json_key(i)), json_key(i),
                        index);
    }
    return true;
}

static bool open_index(Source *s, const char *index, const struct Kind *kind, Error *err)
{
    char  *text;
    size_t n;
    if (!source_uses(s, index, err) || !file_read(index, MAX_INDEX, &text, &n, err))
        return false;
    Json *root = json_parse(text, n, index, err);
    free(text);
    const Json *map = json_get(root, "weight_map");
    bool        ok  = root && (json_is_object(map) && json_count(map) ? open_shards(s, map, index, kind, err)
                                                                      : fail(err, INPUT, "%s: weight_map: expected an object of file names, found %s",
                                                                             index, json_kind(map)));
    json_free(root);
    return ok;
}

static bool open_weights(Source *s, Error *err)
{
    char path[PATH_BYTES];
    if (!is_folder(s->path)) {
        size_t n = strlen(s->path);
        return open_single(s, s->path, n > 12 && strcmp(s->path + n - 12, ".safetensors") == 0 ? &kinds[0] : &kinds[1], err);
    }
    for (int k = 0; k < N_KINDS; k++) {
        if (there(s->path, kinds[k].single, path))
            return open_single(s, path, &kinds[k], err);
        if (there(s->path, kinds[k].index, path))
            return open_index(s, path, &kinds[k], err);
    }
    return fail(err, INPUT, "%s: expected model.safetensors, pytorch_model.bin or the index of their shards, found none", s->path);
}

bool hf_folder_open(Source *s, Error *err)
{
    char     config[PATH_BYTES], generation[PATH_BYTES];
    HfConfig h;
    if (!there(s->path, "config.json", config))
        return fail(err, INPUT, "%s: expected config.json, found none", s->path);
    bool more = there(s->path, "generation_config.json", generation);
    if (!source_uses(s, config, err) || (more && !source_uses(s, generation, err))
        || !hf_config_read(&h, s, config, more ? generation : NULL, err) || !config_supported(&h.config, config, err)
        || !open_weights(s, err))
        return false;
    s->checkpoint.path   = s->path;
    s->checkpoint.config = h.config;
    s->config_json       = config_to_json(&h.config, err);
    s->has_weights       = s->config_json && hf_tensors_bind(s, &h, err);
    return s->has_weights;
}
