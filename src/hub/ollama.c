/* hub/ollama.c: the models that ollama has downloaded. */
#include "hub/hub.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { MOST_MANIFEST = 1 << 20, STORES = 3 };

/* The n-th place where models may be; false: no such place. */
static bool store(int n, char out[PATH_BYTES])
{
    const char *own = getenv("OLLAMA_MODELS"), *home = getenv("HOME");
    if (own && *own)
        return n == 0 && hub_path(out, NULL, "%s", own);
    return n == 0   ? home && *home && hub_path(out, NULL, "%s/.ollama/models", home)
           : n == 1 ? hub_path(out, NULL, "/usr/share/ollama/.ollama/models")
                    : hub_path(out, NULL, "/var/lib/ollama/models");
}

/* ---- Manifests ------------------------------------------------------------------------------- */

static bool is_digest(const JsonNode *j)
{
    return j && j->kind == NODE_STRING && strncmp(j->text, "sha256:", 7) == 0
        && hub_is_hex(j->text + 7, 64);
}

/* The digest of the weights. Another layer that changes them is refused. */
static const JsonNode *weights_of(const JsonDoc *d, const char *shown, Error *err)
{
    const JsonNode *found = NULL;
    JSON_NODES (layer, node_get(d->node, "layers")) {
        const JsonNode *type = node_get(layer, "mediaType");
        if (node_is(type, "application/vnd.ollama.image.adapter")) {
            fail(err, INPUT, "%s: expected weights alone, found an adapter beside them in ollama's "
                             "manifest; give the GGUF file and --lora", shown);
            return NULL;
        }
        if (node_is(type, "application/vnd.ollama.image.model") && !found)
            found = node_get(layer, "digest");
    }
    if (is_digest(found))
        return found;
    fail(err, INPUT, "%s: expected a layer with weights and their sha256 in ollama's manifest, "
                     "found none", shown);
    return NULL;
}

/* The blob that a manifest names. */
static bool blob_of(const char *place, const char *manifest, const char *shown,
                    char path[PATH_BYTES], Error *err)
{
    char   *text = NULL;
    size_t  n;
    JsonDoc d = { 0 };
    if (!file_read(manifest, MOST_MANIFEST, &text, &n, err))
        return false;
    const bool      read = json_doc_parse(&d, text, n, JSON_NO_NUL, manifest, err);
    const JsonNode *hash = read ? weights_of(&d, shown, err) : NULL;
    bool good = hash && hub_path(path, err, "%s/blobs/sha256-%s", place, hash->text + 7);
    json_doc_free(&d);
    return good
        && (path_exists(path)
            || fail(err, INPUT, "%s: ollama's manifest names %s, which is missing; ollama pull %s "
                                "downloads it again", shown, path, shown));
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* HOST/ORG/NAME/TAG of a name; false: it has another form. */
static bool read_name(const char *name, char out[PATH_BYTES])
{
    const char *last = strrchr(name, '/'), *tag = strchr(last ? last : name, ':');
    const int   n    = tag ? (int)(tag - name) : (int)strlen(name);
    int         n_slashes = 0;
    for (const char *s = name; s < name + n; s++)
        n_slashes += *s == '/';
    return n_slashes <= 2 && hub_is_file_path(name) && *name != '.' && *name != '-'
        && (!tag || (tag[1] && !strchr(tag + 1, ':')))
        && hub_path(out, NULL, "%s%.*s/%s",
                    n_slashes == 0   ? "registry.ollama.ai/library/"
                    : n_slashes == 1 ? "registry.ollama.ai/"
                                     : "",
                    n, name, tag ? tag + 1 : "latest");
}

bool ollama_find(const char *name, char path[PATH_BYTES], bool *found, Error *err)
{
    char place[PATH_BYTES], inner[PATH_BYTES], manifest[PATH_BYTES];
    *found = false;
    if (!read_name(name, inner))
        return true;
    for (int i = 0; i < STORES; i++)
        if (store(i, place) && hub_path(manifest, NULL, "%s/manifests/%s", place, inner)
            && path_exists(manifest) && !path_is_folder(manifest))
            return *found = blob_of(place, manifest, name, path, err);
    return true;
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* HOST/ORG/NAME/TAG as people write it. */
static void short_name(const char *inner, char out[PATH_BYTES])
{
    static const char *const usual[] = { "registry.ollama.ai/library/", "registry.ollama.ai/" };
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strncmp(inner, usual[i], strlen(usual[i])) == 0) {
            inner += strlen(usual[i]);
            break;
        }
    snprintf(out, PATH_BYTES, "%s", inner);
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = ':';
}

bool ollama_manifest(const char *path, char blob[PATH_BYTES], bool *found, Error *err)
{
    static const char within[] = "/manifests/";
    char name[PATH_BYTES], blobs[PATH_BYTES], *place = realpath(path, NULL), *inner = NULL;
    int   n_slashes = 0;
    for (char *s = place; s && (s = strstr(s, within)) != NULL; s++)
        inner = s;
    for (const char *s = inner; s && *s; s++)
        n_slashes += *s == '/';
    *found = false;
    if (n_slashes == 5) { /* manifests/HOST/ORG/NAME/TAG */
        *inner = '\0';
        *found = hub_path(blobs, NULL, "%s/blobs", place) && path_is_folder(blobs);
    }
    bool good = true;
    if (*found) {
        short_name(inner + strlen(within), name);
        *found = good = blob_of(place, path, name, blob, err);
    }
    free(place);
    return good;
}

/* depth: of folders above the manifests. Those that cannot be read as one are passed over. */
static bool each_in(const char *place, const char *inner, int depth, OllamaTake *take, void *user,
                    Error *err)
{
    char path[PATH_BYTES], next[PATH_BYTES], name[PATH_BYTES];
    bool good = true;
    DIR *d    = hub_path(path, NULL, "%s/manifests/%s", place, inner) ? opendir(path) : NULL;
    for (struct dirent *e; d && good && (e = readdir(d)) != NULL;) {
        struct stat st;
        if (e->d_name[0] == '.'
            || !hub_path(next, NULL, "%s%s%s", inner, *inner ? "/" : "", e->d_name))
            continue;
        if (depth > 0) {
            good = each_in(place, next, depth - 1, take, user, err);
        } else if (hub_path(name, NULL, "%s/manifests/%s", place, next)
                   && blob_of(place, name, next, path, NULL) && stat(path, &st) == 0) {
            short_name(next, name);
            good = take(user, name, path, (uint64_t)st.st_size, err);
        }
    }
    if (d)
        closedir(d);
    return good;
}

bool ollama_each(OllamaTake *take, void *user, Error *err)
{
    char place[PATH_BYTES];
    bool good = true;
    for (int i = 0; i < STORES && good; i++)
        good = !store(i, place) || each_in(place, "", 3, take, user, err);
    return good;
}
