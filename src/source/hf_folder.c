/* source/hf_folder.c: the files of a Hugging Face folder: config, weights or shards. */
#include "source/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "format/pth.h"
#include "source/source.h"

enum { MAX_INDEX = 256 << 20, MAX_SHARDS = 1 << 10 };

/* ---- Paths ----------------------------------------------------------------------------------- */

/* The length of the folder in a file's path, with its slash; 0 if it has none. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

bool hf_folder_is(const char *path)
{
    char config[PATH_BYTES];
    return path_is_folder(path) && path_there(path, "config.json", config);
}

/* Our model files say so in their metadata, whatever files are beside them. */
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
    return (safe || pth_is(head, n)) && path_there(path, "config.json", config)
        && !(safe && is_ours(path));
}

const char *hf_folder_of(const Source *s, char *buf, size_t n)
{
    size_t len = folder_length(s->path);
    if (s->kind != SOURCE_HF || path_is_folder(s->path) || len >= n)
        return s->path;
    memcpy(buf, s->path, len);
    buf[len] = '\0';
    return len ? buf : ".";
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* The two kinds of files, in the order in which they are looked for. */
static const struct WeightFiles {
    const char *single, *index; bool (*open)(TensorFile *, const char *, Error *);
} kinds[] = {
    { "model.safetensors", "model.safetensors.index.json", safetensors_open },
    { "pytorch_model.bin", "pytorch_model.bin.index.json", pth_open },
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

bool hf_weights_there(const char *path)
{
    char at[PATH_BYTES];
    for (int k = 0; k < N_KINDS; k++)
        if (path_there(path, kinds[k].single, at) || path_there(path, kinds[k].index, at))
            return true;
    return false;
}

static bool open_single(Source *s, const char *path, const struct WeightFiles *kind, Error *err)
{
    return source_uses(s, path, err) && source_files(s, 1, err)
        && kind->open(&s->files[0], path, err);
}

/* The index says in which shard each tensor is. */
typedef struct ShardOfTensor { const char *tensor, *shard; } ShardOfTensor;
typedef struct Index {
    const char    *path;
    ShardOfTensor *place;    /* [n], ascending by tensor */
    size_t         n;
    const char   **shards;   /* [n_shards] in the order in which they first occur */
    int            n_shards;
} Index;

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const ShardOfTensor *)a)->tensor, ((const ShardOfTensor *)b)->tensor);
}

static const char *shard_of(const Index *x, const char *tensor)
{
    ShardOfTensor        key = { tensor, NULL };
    const ShardOfTensor *p   = bsearch(&key, x->place, x->n, sizeof key, by_tensor);
    return p ? p->shard : NULL;
}

/* Add a file that the index names. It is mostly the last one, so the search starts at the end. */
static bool add_shard(Index *x, const char *name, Error *err)
{
    for (int k = x->n_shards; k > 0; k--)
        if (strcmp(x->shards[k - 1], name) == 0)
            return true;
    if (strchr(name, '/') || !name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return fail(err, INPUT, "%s: weight_map: expected plain file names, found '%s'", x->path,
                    name);
    if (x->n_shards == MAX_SHARDS)
        return fail(err, INPUT, "%s: weight_map: expected at most %d files, found more", x->path,
                    MAX_SHARDS);
    x->shards[x->n_shards++] = name;
    return true;
}

/* The index keeps pointers into map's texts. */
static bool read_index(Source *s, Index *x, const Json *map, Error *err)
{
    if (!json_is_object(map) || json_count(map) == 0)
        return fail(err, INPUT, "%s: weight_map: expected an object of file names, found %s",
                    x->path, json_kind(map));
    x->place  = source_alloc(s, json_count(map) * sizeof *x->place, err);
    x->shards = source_alloc(s, MAX_SHARDS * sizeof *x->shards, err);
    if (!x->place || !x->shards)
        return false;
    for (const Json *i = json_first(map); i; i = json_next(i)) {
        const char *shard;
        if (!json_is_string(i) || !json_read_string(i, "", &shard, NULL))
            return fail(err, INPUT, "%s: weight_map: expected an object of file names, found %s",
                        x->path, json_kind(i));
        if (!add_shard(x, shard, err))
            return false;
        x->place[x->n++] = (ShardOfTensor){ json_key(i), shard };
    }
    qsort(x->place, x->n, sizeof *x->place, by_tensor);
    return true;
}

/* Check that every tensor of a shard is where the index says: a shard of another model may have the
 * same name. */
static bool check_shard(const TensorFile *f, const Index *x, const char *shard, Error *err)
{
    for (int i = 0; i < f->n_tensors; i++) {
        const char *said = shard_of(x, f->tensors[i].name);
        if (!said || strcmp(said, shard) != 0)
            return fail(err, INPUT, "%s: tensor %s: expected a place in %s, found %s%s",
                        f->map.path, f->tensors[i].name, x->path, said ? "the shard " : "none",
                        said ? said : "");
    }
    return true;
}

/* Shard number `first` is missing, mostly because a download was interrupted. Count the others that
 * are missing too. */
static bool refuse_shard(const Source *s, const Index *x, int first, Error *err)
{
    char path[PATH_BYTES];
    int  missing = 0;
    for (int i = first; i < x->n_shards; i++)
        missing += !path_there(s->path, x->shards[i], path);
    return fail(
        err, INPUT,
        "%s: expected its %d shards in the same folder, found no such file: %s (missing: %d): "
        "finish the download, as with tblock pull ORG/NAME",
        x->path, x->n_shards, x->shards[first], missing);
}

static bool open_shards(Source *s, const Index *x, const struct WeightFiles *kind, Error *err)
{
    char   path[PATH_BYTES];
    size_t n_tensors = 0;
    if (!source_files(s, x->n_shards, err))
        return false;
    for (int i = 0; i < x->n_shards; i++) {
        if (!path_there(s->path, x->shards[i], path))
            return refuse_shard(s, x, i, err);
        if (!source_uses(s, path, err) || !kind->open(&s->files[i], path, err)
            || !check_shard(&s->files[i], x, x->shards[i], err))
            return false;
        n_tensors += (size_t)s->files[i].n_tensors;
    }
    for (size_t i = 0; n_tensors != x->n && i < x->n; i++) {
        int k = 0;
        while (strcmp(x->shards[k], x->place[i].shard) != 0)
            k++;
        if (!tensor_find(&s->files[k], x->place[i].tensor))
            return fail(err, INPUT, "%s: tensor %s: expected the tensor that %s lists, found none",
                        s->files[k].map.path, x->place[i].tensor, x->path);
    }
    return true;
}

static bool open_index(Source *s, const char *index, const struct WeightFiles *kind, Error *err)
{
    char  *text;
    size_t n;
    if (!source_uses(s, index, err) || !file_read(index, MAX_INDEX, &text, &n, err))
        return false;
    Json *root = json_parse(text, n, index, err);
    free(text);
    Index x  = { .path = index };
    bool  ok = root && read_index(s, &x, json_get(root, "weight_map"), err)
        && open_shards(s, &x, kind, err);
    json_free(root);
    return ok;
}

static bool open_weights(Source *s, Error *err)
{
    char path[PATH_BYTES];
    if (!path_is_folder(s->path)) {
        size_t n = strlen(s->path);
        return open_single(
            s, s->path,
            n > 12 && strcmp(s->path + n - 12, ".safetensors") == 0 ? &kinds[0] : &kinds[1], err);
    }
    for (int k = 0; k < N_KINDS; k++) {
        if (path_there(s->path, kinds[k].single, path))
            return open_single(s, path, &kinds[k], err);
        if (path_there(s->path, kinds[k].index, path))
            return open_index(s, path, &kinds[k], err);
    }
    return refuse_without_weights(s->path, err);
}

/* The files of matrices after pooling come last. */
static bool open_dense(Source *s, Error *err)
{
    TensorFile *before = s->files;
    int         n = s->n_files, more = 0;
    while (more < 2 && s->dense[more])
        more++;
    if (!more)
        return true;
    if (!source_files(s, n + more, err)) {
        s->files   = before;
        s->n_files = n;
        return false;
    }
    memcpy(s->files, before, (size_t)n * sizeof *before);
    for (int i = 0; i < more; i++) {
        size_t length = strlen(s->dense[i]);
        bool   safe   = length > 12 && strcmp(s->dense[i] + length - 12, ".safetensors") == 0;
        if (!source_uses(s, s->dense[i], err)
            || !kinds[safe ? 0 : 1].open(&s->files[n + i], s->dense[i], err))
            return false;
    }
    return true;
}

bool hf_folder_open(Source *s, Error *err)
{
    char     config[PATH_BYTES], generation[PATH_BYTES];
    HfConfig h;
    if (!path_there(s->path, "config.json", config))
        return fail(err, INPUT, "%s: expected config.json, found none", s->path);
    bool more = path_there(s->path, "generation_config.json", generation);
    if (!source_uses(s, config, err) || (more && !source_uses(s, generation, err))
        || !hf_config_read(&h, s, config, more ? generation : NULL, err)
        || !config_supported(&h.config, config, err) || !open_weights(s, err))
        return false;
    s->stored.config = h.config;
    s->has_weights   = hf_pooling_read(s, &s->stored.config, err) && open_dense(s, err)
        && hf_tensors_bind(s, &h, err);
    return s->has_weights;
}
