/* hub/hub_files.c: which files of a repository are a model. */
#include "hub/hub.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

/* ---- The list -------------------------------------------------------------------------------- */

HubFile *hub_files_add(HubFiles *f, const char *path, Error *err)
{
    if (f->n == f->cap) {
        const size_t cap  = f->cap ? 2 * f->cap : 32;
        HubFile     *more = realloc(f->file, cap * sizeof *more);
        if (!more) {
            no_memory(path, err);
            return NULL;
        }
        f->file = more;
        f->cap  = cap;
    }
    HubFile *file = &f->file[f->n];
    *file         = (HubFile){ .path = strdup(path) };
    if (!file->path) {
        no_memory(path, err);
        return NULL;
    }
    f->n++;
    return file;
}

void hub_files_free(HubFiles *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->file[i].path);
    free(f->file);
    *f = (HubFiles){ 0 };
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const HubFile *)a)->path, ((const HubFile *)b)->path);
}

void hub_files_sort(HubFiles *f)
{
    if (f->n)
        qsort(f->file, f->n, sizeof *f->file, by_path);
}

static HubFile *file_at(const HubFiles *f, const char *path)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->file[i].path, path) == 0)
            return &f->file[i];
    return NULL;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

/* The length of a path without ".gguf" and without "-00001-of-00002"; 0: no GGUF file. */
static size_t stem_length(const char *path)
{
    size_t n = strlen(path);
    if (!path_ends(path, ".gguf"))
        return 0;
    n -= 5;
    int end = 0;
    if (n > 15 && sscanf(path + n - 15, "-%*5[0-9]-of-%*5[0-9]%n", &end) == 0 && end == 15)
        n -= 15;
    return n;
}

/* Files of another kind under the same ending: the picture encoder of a model that also sees. */
static bool is_model(const HubFile *file)
{
    return stem_length(file->path) && !strstr(path_name(file->path), "mmproj")
        && !strstr(path_name(file->path), "imatrix");
}

static bool same_stem(const HubFile *a, const HubFile *b)
{
    const size_t n = stem_length(a->path);
    return n && n == stem_length(b->path) && memcmp(a->path, b->path, n) == 0;
}

const char *hub_tag(const char *path, char tag[HUB_TAG])
{
    const size_t n     = stem_length(path);
    size_t       start = n;
    while (start > 0 && (isalnum((unsigned char)path[start - 1]) || path[start - 1] == '_'))
        start--;
    /* a name whose parts are joined by "_": its tag begins at the last Q, IQ, F or BF and digit */
    for (size_t i = start; i < n; i++)
        if ((i == start || path[i - 1] == '_') && strchr("QIFBTMqifbtm", path[i])
            && strcspn(path + i, "0123456789") <= 3) {
            start = i;
            break;
        }
    snprintf(tag, HUB_TAG, "%.*s", n ? (int)(n - start) : 0, path + start);
    return tag;
}

/* Does the name say this quantization, in letters of either case? */
static bool has_tag(const HubFile *file, const char *tag)
{
    const size_t n_tag = strlen(tag), n = stem_length(file->path);
    return is_model(file) && n >= n_tag && strncasecmp(file->path + n - n_tag, tag, n_tag) == 0
        && (n == n_tag || strchr("-._/", file->path[n - n_tag - 1]));
}

/* Lists the models of this tag ("": all) by their paths or their tags, up to a dozen. */
static void list_models(const HubFiles *f, const char *tag, bool paths, char *out, size_t n_out)
{
    TextOut text = { 0 };
    size_t  n    = 0;
    for (size_t i = 0; i < f->n; i++) {
        char        own[HUB_TAG];
        const char *name = paths ? f->file[i].path : hub_tag(f->file[i].path, own);
        if (!is_model(&f->file[i]) || (*tag && !has_tag(&f->file[i], tag))
            || (i && same_stem(&f->file[i], &f->file[i - 1])))
            continue;
        if (n++ < 12)
            text_out(&text, "%s%s", n > 1 ? ", " : "", *name ? name : f->file[i].path);
    }
    if (n > 12)
        text_out(&text, " and %zu more", n - 12);
    snprintf(out, n_out, "%.*s", (int)text.n, text.text ? text.text : "");
    text_out_free(&text);
}

/* The first file of the only model with this tag ("": with any). *n: how many models there are. */
static HubFile *only_model(const HubFiles *f, const char *tag, size_t *n)
{
    HubFile *first = NULL;
    *n             = 0;
    for (size_t i = 0; i < f->n; i++)
        if (*tag ? has_tag(&f->file[i], tag) : is_model(&f->file[i])) {
            *n += !first || !same_stem(first, &f->file[i]);
            first = first ? first : &f->file[i];
        }
    return *n == 1 ? first : NULL;
}

const HubFile *hub_models(const HubFiles *f, size_t *n, char *names, size_t n_names)
{
    const HubFile *first = only_model(f, "", n);
    list_models(f, "", true, names, n_names);
    for (size_t i = 0; *n > 1 && !first; i++)
        first = is_model(&f->file[i]) ? &f->file[i] : NULL;
    return first;
}

static void take_parts(HubFiles *f, HubFile *first)
{
    first->taken = true;
    for (size_t i = 0; i < f->n; i++)
        f->file[i].taken |= same_stem(first, &f->file[i]);
}

static bool choose_gguf(HubFiles *f, const char *tag, const char *shown, const HubFile **open,
                        Error *err)
{
    char     there[400];
    size_t   n;
    HubFile *first = only_model(f, tag, &n);
    if (n > 1 && !*tag) {
        size_t n_usual;
        first = only_model(f, "Q4_K_M", &n_usual);
    }
    if (first) {
        take_parts(f, first);
        *open = first;
        return true;
    }
    list_models(f, n ? tag : "", n && *tag, there, sizeof there);
    if (n > 1)
        return fail(err, INPUT, "%s: expected one model, found %zu; say which, as in %s:%.*s: %s",
                    shown, n, shown, (int)strcspn(there, ","), there,
                    there);
    if (*there)
        return fail(err, INPUT, "%s: expected a file or a quantization %s, found %s", shown, tag,
                    there);
    return fail(err, INPUT, "%s: expected model*.safetensors or pytorch_model*.bin with a "
                            "config.json, or a .gguf%s%s, found none of these", shown,
                *tag ? " in " : "", tag);
}

/* ---- Folders --------------------------------------------------------------------------------- */

/* What tblock reads beside the weights; "*" stands for any characters but a slash. */
static bool is_beside(const char *path)
{
    static const char *const names[] = {
        "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "tokenizer.model", "special_tokens_map.json", "added_tokens.json", "vocab.json",
        "merges.txt", "chat_template.jinja", "chat_template.json", "tekken.json",
        "special_tokens.json", "modules.json", "config_sentence_transformers.json",
        "sentence_bert_config.json", "adapter_config.json", "params.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(path, names[i]) == 0)
            return true;
    /* sentence-transformers: 1_Pooling/config.json, 2_Dense/model.safetensors */
    const char *slash = strchr(path, '/');
    return slash && !strchr(slash + 1, '/')
        && ((isdigit((unsigned char)*path) && path[1] == '_'
             && (strcmp(slash, "/config.json") == 0 || strcmp(slash, "/model.safetensors") == 0))
            || strncmp(path, "additional_chat_templates/", 26) == 0);
}

static void take_beside(HubFiles *f)
{
    for (size_t i = 0; i < f->n; i++)
        f->file[i].taken |= is_beside(f->file[i].path);
}

/* Takes the shards that an index lists: NAME-00001-of-00002, wherever "of" stands in the name. */
static bool take_shards(HubFiles *f, const char *index, const char *end)
{
    HubFile *list = file_at(f, index);
    bool     any  = false;
    for (size_t i = 0; list && i < f->n; i++) {
        HubFile *file = &f->file[i];
        if (strstr(file->path, "-of-") && path_ends(file->path, end) && !strchr(file->path, '/')
            && strncmp(file->path, "consolidated", 12) != 0)
            file->taken = any = true;
    }
    if (any)
        list->taken = true;
    return any;
}

/* The same order as in hf_folder.c, and an adapter's folder. */
static bool take_folder(HubFiles *f)
{
    static const char *const kinds[][3] = {
        { "model.safetensors", "model.safetensors.index.json", ".safetensors" },
        { "adapter_model.safetensors", "", "" },
        { "pytorch_model.bin", "pytorch_model.bin.index.json", ".bin" } };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const bool  adapter = i == 1;
        HubFile    *whole   = file_at(f, kinds[i][0]);
        if (!file_at(f, adapter ? "adapter_config.json" : "config.json"))
            continue;
        if (whole)
            whole->taken = true;
        if (whole || take_shards(f, kinds[i][1], kinds[i][2])) {
            take_beside(f);
            return true;
        }
    }
    return false;
}

bool hub_choose(HubFiles *f, const char *what, const char *shown, const HubFile **open, Error *err)
{
    HubFile *file = *what ? file_at(f, what) : NULL;
    *open         = NULL;
    for (size_t i = 0; i < f->n; i++)
        f->file[i].taken = false;
    if (!file)
        return (!*what && take_folder(f)) || choose_gguf(f, what, shown, open, err);
    take_parts(f, file);
    if (path_ends(what, ".safetensors") || path_ends(what, ".bin"))
        take_beside(f); /* it needs its config */
    *open = file;
    return true;
}
