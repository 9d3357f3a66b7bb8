/* source/refuse.c: errors for a path that is no model, naming the likely mistake. */
#include "source/source.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "format/bytes.h"
#include "hub/hub.h"
#include "source/hf.h"

/* ---- Nothing there --------------------------------------------------------------------------- */

static bool is_file_name(const char *name)
{
    static const char *const ends[] = { ".bin", ".gguf", ".safetensors", ".json",
                                        ".pth", ".pt",   ".model",       ".txt" };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (path_ends(name, ends[i]))
            return true;
    return false;
}

/* A name of the Hub; not a path that starts with an existing folder, nor one of a file. */
static bool is_published(const char *path)
{
    HubName hub;
    if (!hub_name_read(path, &hub) || is_file_name(hub.repo))
        return false;
    hub.repo[strcspn(hub.repo, "/")] = '\0';
    return !path_exists(hub.repo);
}

bool refuse_missing(const char *path, const Error *why, Error *err)
{
    if (why->status == INPUT && !path_exists(path) && is_published(path))
        return fail(err, INPUT, "%s: no such file or folder, and no such model in the cache of the "
                                "Hub; to download it: tblock pull %s", path, path);
    return fail(err, why->status, "%s", why->msg);
}

/* ---- Folders --------------------------------------------------------------------------------- */

/* Find the first name in the folder, in byte order, that ends with `end`. False: none. */
static bool find_file(const char *folder, const char *end, char name[256])
{
    DIR *d = opendir(folder);
    *name = '\0';
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (path_ends(e->d_name, end) && strlen(e->d_name) < 256
            && (!*name || strcmp(e->d_name, name) < 0))
            snprintf(name, 256, "%s", e->d_name);
    if (d)
        closedir(d);
    return *name != '\0';
}

bool refuse_folder(const char *folder, Error *err)
{
    char        name[256], path[PATH_BYTES];
    const char *expected = "expected a folder with config.json, with params.json and "
                           "consolidated.00.pth, or with a tokenizer";
    if (find_file(folder, ".gguf", name) && path_in(folder, name, path))
        return fail(err, INPUT, "%s: %s, found %s: give that file itself, %s", folder, expected,
                    name, path);
    if (path_there(folder, "snapshots", path))
        return fail(err, INPUT,
                    "%s: %s, found a cache of the Hugging Face hub: give one of the folders in %s",
                    folder, expected, path);
    if (find_file(folder, ".safetensors", name))
        return fail(err, INPUT, "%s: %s, found %s without a config.json: put the config.json of "
                                "that model beside it", folder, expected, name);
    return fail(err, INPUT, "%s: %s, found none of these", folder, expected);
}

bool refuse_without_weights(const char *folder, Error *err)
{
    char        name[256], path[PATH_BYTES];
    const char *expected =
        "expected model.safetensors, pytorch_model.bin or the index of their shards";
    if (find_file(folder, ".gguf", name) && path_in(folder, name, path))
        return fail(err, INPUT, "%s: %s, found %s: give that file itself, %s", folder, expected,
                    name, path);
    if (find_file(folder, ".safetensors", name) && path_in(folder, name, path))
        return fail(err, INPUT,
                    "%s: %s, found %s: give that file itself, or download the index of the shards",
                    folder, expected, name);
    return fail(err, INPUT,
                "%s: %s, found a config without weights: download them, as with tblock pull "
                "ORG/NAME", folder, expected);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Are the first bytes text? That is UTF-8 without the control characters that text never has. */
static bool is_text(const FileMap *m)
{
    size_t   n = m->size < 512 ? m->size : 512;
    uint32_t code = 0;
    for (size_t i = 0; i < n;) {
        int length = utf8_decode((const char *)m->data + i, m->size - i, &code);
        if (length < 0 || code == 0x7F
            || (code < 0x20 && !(code >= '\t' && code <= '\r') && code != 0x1B))
            return false;
        i += (size_t)length;
    }
    return n > 0;
}

static bool refuse_json(const FileMap *m, Error *err)
{
    bool index = memmem(m->data, m->size, "\"weight_map\"", 12) != NULL;
    if (index || hf_weights_there(m->path))
        return fail(err, INPUT,
                    "%s: expected a model, found the %s of one: give the folder that it is in",
                    m->path, index ? "index of the shards" : "config");
    return fail(err, INPUT, "%s: expected a model, found a JSON text; a config has no weights: use "
                            "tblock info to see what it describes, or tblock synth CONFIG -o FILE "
                            "to write a model with random weights", m->path);
}

bool refuse_file(const FileMap *m, Error *err)
{
    const char *other = format_of(m->data, m->size);
    if (other && strcmp(other, "a safetensors file") == 0)
        return true;
    if (json_object_begins(m->data, m->size))
        return refuse_json(m, err);
    if (other || is_text(m))
        return fail(err, INPUT,
                    "%s: expected a model (a model file, a Hugging Face folder, a .gguf, a Meta "
                    "folder or a llama2.c .bin), found %s",
                    m->path, other ? other : "a text file");
    return true;
}
