/* source/refuse.c: errors for a path that is no model, naming the likely mistake. */
#include "source/source.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/nearest.h"
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

/* The path of the file in the same folder whose name is nearest to this one's, the first in byte
 * order. False: none is near. */
static bool find_near(const char *path, char near[PATH_BYTES])
{
    const char *name = path_name(path);
    const int   n    = (int)(name - path);
    char        folder[PATH_BYTES], best[256] = "";
    int         least = 0;
    const bool  asks = strlen(name) >= 4
        && hub_path(folder, NULL, "%.*s", n ? n : 1, n ? path : ".");
    DIR *d = asks ? opendir(folder) : NULL;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        Nearest one = { name, 0, 0 };
        nearest_offer(&one, e->d_name);
        const int order = *best && one.distance == least ? strcmp(e->d_name, best)
                                                         : one.distance - least;
        if (e->d_name[0] != '.' && nearest_answer(&one) && (!*best || order < 0)) {
            snprintf(best, sizeof best, "%s", e->d_name);
            least = one.distance;
        }
    }
    if (d)
        closedir(d);
    return *best && hub_path(near, NULL, "%.*s%s", n, path, best);
}

bool refuse_missing(const char *path, const Error *why, Error *err)
{
    char near[PATH_BYTES];
    if (why->status != INPUT || path_exists(path))
        return fail(err, why->status, "%s", why->msg);
    if (is_published(path))
        return fail(err, INPUT, "%s: no such file or folder, and no such model in the cache of the "
                                "Hub; to download it: tblock pull %s", path, path);
    if (strstr(path, "://"))
        return fail(err, INPUT, "%s: expected a file or a folder, found an address: download it "
                                "first, as with curl -LO, and give the file (tblock pull takes "
                                "addresses of huggingface.co)", path);
    if (find_near(path, near))
        return fail(err, INPUT, "%s; did you mean %s?", why->msg, near);
    if (!strchr(path, '/') && !is_file_name(path))
        return fail(err, INPUT, "%s: no such file or folder, and no such model of ollama; tblock "
                                "list shows the models that are here, tblock pull ORG/NAME "
                                "downloads one", path);
    return fail(err, why->status, "%s", why->msg);
}

/* ---- Folders --------------------------------------------------------------------------------- */

/* Find the first name, in byte order, in the folder or beside the file that contains `part` and
 * ends with `end`. False: none. */
static bool find_file(const char *place, const char *part, const char *end, char name[256])
{
    char folder[PATH_BYTES];
    DIR *d = path_in(place, "", folder) ? opendir(*folder ? folder : ".") : NULL;
    *name = '\0';
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (path_ends(e->d_name, end) && strstr(e->d_name, part)
            && (!*name || strcmp(e->d_name, name) < 0))
            snprintf(name, 256, "%s", e->d_name);
    if (d)
        closedir(d);
    return *name != '\0';
}

bool refuse_form(const char *path, Error *err)
{
#define ONNX "tblock reads no ONNX: take safetensors or GGUF of it (tblock pull ORG/NAME)"
#define OLLAMA "this is the store of ollama: give NAME:TAG (tblock list shows them)"
    static const struct { const char *part, *end, *hint; } forms[] = {
        { "adapter_config", ".json", "this is a LoRA adapter: give the model that this file names "
                                     "as base, and the adapter's folder by --lora" },
        { "consolidated", ".safetensors", "this is Mistral's own form: take config.json and "
                                          "model.safetensors of the same repository (tblock pull "
                                          "ORG/NAME)" },
        { "-of-0", ".safetensors", "model.safetensors.index.json, the index of the shards, is "
                                   "missing: download it, as with tblock pull ORG/NAME" },
        { "-of-0", ".bin", "pytorch_model.bin.index.json, the index of the shards, is missing: "
                           "download it, as with tblock pull ORG/NAME" },
        { "", ".onnx", ONNX }, { "onnx", "", ONNX },
        { "models--", "", "this is the cache of the Hugging Face Hub: give ORG/NAME (tblock list "
                          "shows them) or a folder in it" },
        { "snapshots", "", "this is a model in the cache of the Hugging Face Hub, with no snapshot "
                           "or several: give one of the folders in it" },
        { "sha256-", "", OLLAMA }, { "manifests", "", OLLAMA } };
    char name[256];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (find_file(path, forms[i].part, forms[i].end, name))
            return fail(err, INPUT, "%s: expected a model, found %s: %s", path, name,
                        forms[i].hint);
    return true;
}

bool refuse_known(const char *folder, Error *err)
{
    struct stat st;
    char        path[PATH_BYTES];
    HubModels   models;
    DIR        *d = opendir(folder);
    if (d)
        closedir(d);
    if (d ? path_in(folder, "config.json", path) && file_stat(path, &st) != 0 && errno == EACCES
          : errno == EACCES)
        return fail(err, SYSTEM, "%s: cannot open: %s", folder, strerror(EACCES));
    hub_folder_models(folder, &models);
    if (models.n)
        return fail(err, INPUT, "%s: expected one model, found %zu in GGUF: give one of them, as "
                                "in %s: %s", folder, models.n, models.first, models.names);
    return refuse_form(folder, err);
}

bool refuse_folder(const char *folder, Error *err)
{
    char        name[256];
    const char *expected = "expected a folder with config.json, with params.json and "
                           "consolidated.00.pth, with a .gguf or with a tokenizer";
    if (!refuse_known(folder, err))
        return false;
    if (find_file(folder, "", ".safetensors", name))
        return fail(err, INPUT, "%s: %s, found %s without a config.json: put the config.json of "
                                "that model beside it", folder, expected, name);
    return fail(err, INPUT, "%s: %s, found none of these", folder, expected);
}

bool refuse_without_weights(const char *folder, Error *err)
{
    char        name[256], path[PATH_BYTES];
    const char *expected =
        "expected model.safetensors, pytorch_model.bin or the index of their shards";
    if (!refuse_known(folder, err))
        return false;
    if (find_file(folder, "", ".safetensors", name) && path_in(folder, name, path))
        return fail(err, INPUT, "%s: %s, found %s: give that file itself", folder, expected, name);
    return fail(err, INPUT,
                "%s: %s, found a config without weights: download them, as with tblock pull "
                "ORG/NAME", folder, expected);
}

bool source_need_weights(const Source *s, Error *err)
{
    return s->has_weights
        || ((!path_is_folder(s->path) || refuse_known(s->path, err))
            && fail(err, INPUT, "%s: expected weights, found only a tokenizer", s->path));
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* JSON texts that are no configs, by what is in them. */
bool refuse_other_json(const char *path, const char *text, size_t n, Error *err)
{
    static const char *const kinds[][2] = {
        { "\"weight_map\"", "the index of the shards of one: give the folder that it is in" },
        { "\"peft_type\"", "the config of a LoRA adapter: give the model, and the folder of this "
                           "file by --lora" },
        { "vnd.ollama.image.", "ollama's manifest, not in its store: give NAME:TAG (tblock list "
                               "shows them)" } };
    const char *found = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !found; i++)
        if (memmem(text, n, kinds[i][0], strlen(kinds[i][0])))
            found = kinds[i][1];
    if (strcmp(path_name(path), "params.json") == 0 && memmem(text, n, "\"dim\"", 5))
        found = "params.json of one by Meta or Mistral: give the folder that it is in";
    if (n > 8 && memcmp(text, "{\"error\"", 8) == 0)
        found = "the answer of a server to a download that failed: download it again";
    return !found || fail(err, INPUT, "%s: expected a model or its config, found %s", path, found);
}

static bool refuse_json(const FileMap *m, Error *err)
{
    if (!refuse_other_json(m->path, (const char *)m->data, m->size, err))
        return false;
    if (hf_weights_there(m->path))
        return fail(err, INPUT,
                    "%s: expected a model, found the config of one: give the folder that it is in",
                    m->path);
    return fail(err, INPUT, "%s: expected a model, found a JSON text; a config has no weights: use "
                            "tblock info to see what it describes, or tblock synth CONFIG -o FILE "
                            "to write a model with random weights", m->path);
}

/* How a file begins that is not what it is called: an empty one, one of zeros. */
static const char *nothing_in(const FileMap *m)
{
    const unsigned char *p = m->data;
    const size_t         n = m->size < 4096 ? m->size : 4096;
    if (n == 0)
        return "an empty file: download it again";
    return n < 64 || p[0] || memcmp(p, p + 1, n - 1) != 0
        ? NULL : "zeros (a download that did not finish?): download it again";
}

/* What the keys of a GGUF file say that it is, other than a model. */
bool refuse_gguf(const GgufMeta *meta, Error *err)
{
    static const char *const kinds[][3] = {
        { "general.type", "adapter", "a LoRA adapter: give its model, and this file by --lora" },
        { "general.type", "mmproj", "a picture encoder (mmproj): give the .gguf of the model" },
        { "general.type", "imatrix", "an importance matrix: give it to quantize by --imatrix" },
        { "general.architecture", "clip", "a picture encoder (mmproj): give the .gguf of the "
                                          "model" } };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        GgufString value;
        if (gguf_find(meta, kinds[i][0]) && gguf_read_string(meta, kinds[i][0], &value, NULL)
            && gguf_string_is(value, kinds[i][1]))
            return fail(err, INPUT, "%s: expected a model, found %s", meta->path, kinds[i][2]);
    }
    return true;
}

bool refuse_file(const FileMap *m, Error *err)
{
    const char *other = format_of(m->data, m->size);
    other             = other ? other : nothing_in(m);
    if (other && strcmp(other, "a safetensors file") == 0)
        return true;
    if (json_object_begins(m->data, m->size))
        return refuse_json(m, err);
    if (other || text_begins((const char *)m->data, m->size))
        return fail(err, INPUT,
                    "%s: expected a model (a model file, a Hugging Face folder, a .gguf, a Meta "
                    "folder or a llama2.c .bin), found %s",
                    m->path, other ? other : "a text file");
    return true;
}
