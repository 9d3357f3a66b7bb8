/* hub/hub.h: published models: the cache of the Hugging Face Hub on this machine, which Python
 * shares, ollama's store, and downloads from the Hub. */
#ifndef HUB_HUB_H
#define HUB_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/file.h"

/* ---- hub_name.c ------------------------------------------------------------------------------ */

/* ORG/NAME[:WHAT] of the Hub, where WHAT is a file of the repository or a quantization of its GGUF
 * files (Q4_K_M); also with hf.co/, hf:// or https://huggingface.co/ before it, and then as an
 * address of a file: ORG/NAME/resolve/REVISION/FILE. */
enum { HUB_REPO = 2 * 96 + 2, HUB_REVISION = 128 };
typedef struct HubName {
    char repo[HUB_REPO];          /* "ORG/NAME" */
    char revision[HUB_REVISION];  /* "": none was given */
    char what[PATH_BYTES];        /* "": none was given */
} HubName;

/* False: text has another form, such as that of a path. The letters of a name are those that the
 * Hub allows, and neither ".." nor "--" is in it, so no name leads out of a folder, and no two
 * names are one folder of the cache. */
bool hub_name_read(const char *text, HubName *out);

/* Is it a branch, a tag or a commit, in characters that a path and an address can have? */
bool hub_is_revision(const char *text);

/* Does text begin with n lowercase hex digits, and no more? */
bool hub_is_hex(const char *text, size_t n);

/* Could it be the path of a file in a repository? Relative, without empty parts, "." and "..". */
bool hub_is_file_path(const char *path);

/* ---- hub_files.c ----------------------------------------------------------------------------- */

/* The files of a repository, and which of them are a model. */

typedef struct HubFile {
    char    *path;     /* in the repository */
    uint64_t size;
    char     id[65];   /* hex: the sha256 of a large file (64 digits), the id of git's blob (40) */
    bool     taken;    /* hub_choose: it belongs to the model */
} HubFile;

typedef struct HubFiles { HubFile *file; size_t n, cap; } HubFiles;

HubFile *hub_files_add(HubFiles *f, const char *path, Error *err); /* NULL: no memory */
void     hub_files_free(HubFiles *f);
void     hub_files_sort(HubFiles *f); /* by path */

/* The quantization that the name of a GGUF file ends with: "Q4_K_M" of "x/Model-Q4_K_M.gguf" and
 * of "Model.Q4_K_M-00001-of-00002.gguf". Without one, or of another file, "". */
enum { HUB_TAG = 32 };
const char *hub_tag(const char *path, char tag[HUB_TAG]);

/* Takes the files that make up the model `what` (HubName) of the repository, which messages name
 * `shown`. Without what: the folder with safetensors, else pytorch_model.bin, else the one GGUF
 * model, of several the one in Q4_K_M. *open: the file to open, NULL for the whole folder. Fails
 * with INPUT and says what there is to choose from. */
bool hub_choose(HubFiles *f, const char *what, const char *shown, const HubFile **open, Error *err);

/* The GGUF models: how many, their names as in HubModels, and the first. NULL: there are none. */
const HubFile *hub_models(const HubFiles *f, size_t *n, char *names, size_t n_names);

/* ---- hub_cache.c ----------------------------------------------------------------------------- */

/* The cache as huggingface_hub keeps it: models--ORG--NAME/ with blobs/ID, refs/REVISION (holds a
 * commit) and snapshots/COMMIT/FILE, links to the blobs. The folder is that of HF_HUB_CACHE, or
 * hub in HF_HOME, in $XDG_CACHE_HOME/huggingface or in ~/.cache/huggingface. */

/* Joins parts to a path in out, by the form of printf; fails with INPUT if it is too long. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
bool hub_path(char out[PATH_BYTES], Error *err, const char *fmt, ...);

/* Fails with SYSTEM: the path, and errno in words. */
bool hub_failed(const char *path, Error *err);

enum { HUB_COMMIT = 41 };

/* Where huggingface_hub keeps what: its cache, or the token of the user. Fails with USAGE if no
 * variable and no home says it. */
bool hub_cache_place(char out[PATH_BYTES], Error *err);
bool hub_home(char out[PATH_BYTES], Error *err);

/* The folder of a repository in the cache. */
bool hub_cache_repo(const char *repo, char out[PATH_BYTES], Error *err);

/* The commit that the cache has for a revision ("": main, or else the only one there). False: it
 * has none. */
bool hub_cache_commit(const char *folder, const char *revision, char commit[HUB_COMMIT]);

/* The files of a snapshot, with the sizes of their blobs; sorted. A link whose blob is missing has
 * the size UINT64_MAX. */
bool hub_cache_files(const char *snapshot, HubFiles *out, Error *err);

/* The snapshot (main, or else the only one) that a folder of the cache leads to: models--ORG--NAME,
 * or `snapshots` in it. False: it is another folder, or has no such snapshot. */
bool hub_cache_snapshot(const char *folder, char snapshot[PATH_BYTES]);

/* The GGUF models in a folder, not in its subfolders. A split model counts once, picture encoders
 * and importance matrices do not count. A folder that cannot be read has none. */
typedef struct HubModels {
    size_t n;
    char   first[PATH_BYTES]; /* the file to open of the first by name; "": none */
    char   names[400];        /* "a.gguf, b.gguf", up to a dozen, as far as they fit */
} HubModels;
void hub_folder_models(const char *folder, HubModels *out);

/* The path of a published model in one of the stores. *found: is it there? Fails if it is there and
 * cannot be used: parts are missing, or it must be said which file is meant. */
bool hub_cache_find(const HubName *name, const char *shown, char path[PATH_BYTES], bool *found,
                    Error *err);

/* ---- ollama.c -------------------------------------------------------------------------------- */

/* ollama's store, of OLLAMA_MODELS, ~/.ollama/models or the service's: manifests/HOST/ORG/NAME/TAG
 * name the blob of the weights, a GGUF file. */

/* [HOST/][ORG/]NAME[:TAG], as ollama reads it. */
bool ollama_find(const char *name, char path[PATH_BYTES], bool *found, Error *err);

/* The weights that a manifest names, if `path` is a file in `manifests` of a store (one that has
 * `blobs` too). *found: is it? Fails if it is and cannot be used. */
bool ollama_manifest(const char *path, char blob[PATH_BYTES], bool *found, Error *err);

/* Calls `take` for each model of the store with its name, path and size. */
typedef bool OllamaTake(void *user, const char *name, const char *path, uint64_t size, Error *err);
bool ollama_each(OllamaTake *take, void *user, Error *err);

/* ---- hub_http.c ------------------------------------------------------------------------------ */

/* GET by libcurl, which is loaded at the first use. */

typedef struct HttpReply {
    long     status;         /* 0: none came */
    int64_t  start;          /* of the bytes in a reply with status 206; -1: not said */
    int64_t  retry_after;    /* seconds; -1: not said */
    uint64_t taken;          /* bytes of its body that were taken before */
    char     error_code[64]; /* what the Hub calls the error: RepoNotFound, GatedRepo ...; or "" */
} HttpReply;

/* Takes n bytes of the body of a reply with status 200 or 206. False ends the transfer. */
typedef bool HttpTake(void *user, const HttpReply *reply, const void *data, size_t n);

typedef struct Http Http;

/* bearer: the token of an account, NULL for none. It goes to the host of the first address alone,
 * not to those of redirects. Fails with SYSTEM if libcurl cannot be loaded. */
Http *http_open(const char *bearer, Error *err);
void  http_close(Http *h); /* accepts NULL */

/* Gets the bytes of url from byte `from` on; a server without ranges sends all (status 200). True:
 * a reply came, whatever its status. A redirect from https leads to https alone. Fails with SYSTEM:
 * *cut says that trying again may help. */
bool http_get(Http *h, const char *url, uint64_t from, HttpTake *take, void *user,
              HttpReply *reply, bool *cut, Error *err);

#endif
