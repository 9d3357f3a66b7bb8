/* source/source.c: finds out which kind of source a path is, opens it and closes it. */
#include "source/source.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/threads.h"
#include "hub/hub.h"
#include "source/hf.h"

const char *source_kind_name(SourceKind k)
{
    static const char *const names[SOURCE_KINDS] = {
        [SOURCE_MODEL_FILE] = "model file",  [SOURCE_GGUF] = "GGUF",
        [SOURCE_META] = "Meta folder",       [SOURCE_LLAMA2C] = "llama2.c",
        [SOURCE_HF] = "Hugging Face folder", [SOURCE_TOKENIZER] = "tokenizer"
    };
    return names[k];
}

static bool recognise_folder(const char *path, SourceKind *kind, Error *err)
{
    *kind = meta_folder_is(path)      ? SOURCE_META
          : hf_folder_is(path)        ? SOURCE_HF
          : tokenizer_folder_is(path) ? SOURCE_TOKENIZER
                                      : SOURCE_KINDS;
    return *kind != SOURCE_KINDS || refuse_folder(path, err);
}

static bool recognise_file(Source *s, Error *err)
{
    FileMap map;
    Error   why;
    if (!file_map_open(&map, s->path, &why))
        return refuse_missing(s->path, &why, err);
    s->kind = tokenizer_file_is(&map)                    ? SOURCE_TOKENIZER
            : hf_file_is(s->path, map.data, map.size)    ? SOURCE_HF
            : gguf_is(map.data, map.size)                ? SOURCE_GGUF
            : llama2c_is(map.data, map.size, map.size) ? SOURCE_LLAMA2C
                                                       : SOURCE_MODEL_FILE;
    bool ok = s->kind != SOURCE_MODEL_FILE || refuse_file(&map, err);
    file_map_close(&map);
    return ok;
}

static bool recognise(Source *s, Error *err)
{
    return path_is_folder(s->path) ? recognise_folder(s->path, &s->kind, err)
                                   : recognise_file(s, err);
}

bool source_inside(const char *folder, char path[PATH_BYTES], bool *found, Error *err)
{
    HubModels  models = { 0 };
    SourceKind kind;
    const bool cache = hub_cache_snapshot(folder, path);
    const char *in   = cache ? path : folder;
    if (!hf_weights_there(in) && !meta_folder_is(in))
        hub_folder_models(in, &models);
    *found = cache || models.n == 1;
    if (models.n == 1)
        memcpy(path, models.first, sizeof models.first);
    else if (!recognise_folder(in, &kind, err)
             || (kind == SOURCE_HF && !hf_weights_there(in) && !refuse_known(in, err)))
        return false;
    return true;
}

/* Record the files of weights if the reader did not do it itself. */
static bool note_weights(Source *s, Error *err)
{
    bool ok = true;
    if (s->kind == SOURCE_LLAMA2C)
        ok = source_uses(s, s->path, err);
    for (size_t i = 0; ok && s->kind == SOURCE_GGUF && i < s->gguf.n_parts; i++)
        ok = source_uses(s, s->gguf.part[i].map.path, err);
    for (int i = 0; ok && s->kind == SOURCE_META && i < s->n_files; i++)
        if (s->files[i].map.path)
            ok = source_uses(s, s->files[i].map.path, err);
    s->n_used_weights = s->n_used;
    return ok;
}

static bool open_kind(Source *s, Error *err)
{
    static bool (*const opens[SOURCE_KINDS])(Source *, Error *) = {
        [SOURCE_MODEL_FILE] = model_file_open, [SOURCE_GGUF] = gguf_model_open,
        [SOURCE_META] = meta_folder_open,      [SOURCE_LLAMA2C] = llama2c_model_open,
        [SOURCE_HF] = hf_folder_open,          [SOURCE_TOKENIZER] = open_tokenizer_source
    };
    static bool (*const opens_tokenizer[SOURCE_KINDS])(Source *, Error *) = {
        [SOURCE_GGUF] = open_tokenizer_source, [SOURCE_META] = open_tokenizer_beside,
        [SOURCE_HF] = open_tokenizer_source, [SOURCE_LLAMA2C] = open_tokenizer_beside };
    return recognise(s, err) && opens[s->kind](s, err) && note_weights(s, err)
        && (!opens_tokenizer[s->kind] || opens_tokenizer[s->kind](s, err));
}

bool source_open(Source *s, const char *path, Error *err)
{
    return source_open_with(s, path, &(SourceOptions){ 0 }, err);
}

bool source_open_with(Source *s, const char *path, const SourceOptions *opt, Error *err)
{
    *s = (Source){
        .kind = SOURCE_MODEL_FILE, .opt = *opt, .path = strdup(path), .hash = source_hash_new()
    };
    bool ok = s->path && s->hash ? open_kind(s, err) : no_memory(path, err);
    ok      = ok && (!s->rows || stored_model_factors(&s->stored, err));
    if (!ok)
        source_close(s);
    return ok;
}

void source_close(Source *s)
{
    stored_model_free(&s->stored);
    tensor_file_close(&s->file);
    tokenizer_data_free(&s->tokenizer);
    gguf_close(&s->gguf);
    llama2c_close(&s->llama2c);
    for (int i = 0; i < s->n_files; i++)
        tensor_file_close(&s->files[i]);
    for (int i = 0; i < s->n_owned; i++)
        free(s->owned[i]);
    free(s->owned);
    free(s->config_json);
    free(s->used);
    free(s->warnings);
    source_hash_free(s->hash);
    free(s->path);
    *s = (Source){ 0 };
}

bool source_check_apart(const Source *s, const char *output, Error *err)
{
    for (int i = 0; i < s->n_used; i++)
        if (!file_check_apart(output, s->used[i], err))
            return false;
    return file_check_apart(output, s->path, err)
        && (s->kind != SOURCE_LLAMA2C || tokenizer_beside_apart(s->path, output, err));
}

/* Is a file with this name usually a part of a model? */
static bool may_be_part(const char *name)
{
    static const char *const ends[] = { ".safetensors", ".json", ".bin", ".pth",
                                        ".gguf",        ".model", ".jinja", "merges.txt" };
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n >= strlen(ends[i]) && strcmp(name + n - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

/* Calls fn for possible parts of the model at `path`: files beside it, or in that folder. */
static bool each_part(const char *path,
                      bool (*fn)(const char *path, const char *part, const void *user, Error *err),
                      const void *user, Error *err)
{
    char folder[PATH_BYTES], part[PATH_BYTES];
    if (!path_in(path, "", folder)) /* no existing path is so long */
        return true;
    DIR *d = opendir(*folder ? folder : ".");
    if (!d)
        return errno == ENOMEM ? no_memory(path, err) : true;
    bool good = true;
    for (struct dirent *e; good && (e = readdir(d)) != NULL;)
        if (path_in(path, e->d_name, part)
            && (may_be_part(e->d_name) || (e->d_name[0] != '.' && path_is_folder(part))))
            good = fn(path, part, user, err);
    closedir(d);
    return good;
}

static bool part_apart(const char *path, const char *part, const void *output, Error *err)
{
    (void)path;
    return file_check_apart(output, part, err);
}

bool source_path_apart(const char *path, const char *output, Error *err)
{
    const char *same = file_held_like(output); /* in a sandbox, which cannot list folders */
    return file_check_apart(output, path, err) && (!same || file_check_apart(output, same, err))
        && each_part(path, part_apart, output, err);
}

/* The other models beside a file are not needed: of weights, only possible shards are. */
static bool hold_part(const char *path, const char *part, const void *depth, Error *err)
{
    static const char *const weights[] = { ".safetensors", ".bin", ".pth", ".gguf" };
    const char              *name      = path_name(part);
    const bool               folder = path_is_folder(path), inner = path_is_folder(part);
    bool other = !folder && strcmp(name, "tokenizer.bin") != 0
        && (strlen(part) != strlen(path) || !strstr(name, "-of-"));
    for (size_t i = 0; other && i < sizeof weights / sizeof *weights; i++)
        if (path_ends(name, weights[i]))
            return true;
    return inner && !(folder && depth)
        ? true
        : file_hold(part, HOLD_FILE, err) && (!inner || each_part(part, hold_part, NULL, err));
}

bool source_hold(const char *path, Error *err)
{
    char        folder[PATH_BYTES], above[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    threads_hold_system();
    return file_hold(path, HOLD_FILE, err) && file_hold(folder, HOLD_PLACE, err)
        && (!meta_folder_is(path) || !path_in(path, TOKENIZER_ABOVE, above)
            || file_hold(above, HOLD_FILE, err))
        && each_part(path, hold_part, path, err);
}
