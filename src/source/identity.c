/* source/identity.c: hashes of a source: of its data, of its layout, of samples. */
#include "source/source.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* Of the data, the tokenizer and the chat template; "": not known yet. */
struct SourceHash { pthread_mutex_t mutex; char data[65], tokenizer[65], chat[65]; };

SourceHash *source_hash_new(void)
{
    SourceHash *h = calloc(1, sizeof *h);
    if (h && pthread_mutex_init(&h->mutex, NULL) != 0) {
        free(h);
        return NULL;
    }
    return h;
}

void source_hash_free(SourceHash *h)
{
    if (h)
        pthread_mutex_destroy(&h->mutex);
    free(h);
}

static Sha256 *new_hash(const Source *s, Error *err)
{
    Sha256 *sha = sha256_new();
    if (!sha)
        fail(err, SYSTEM, "%s: out of memory for a hash", s->path);
    return sha;
}

static bool compute(const Source *s, char hex[65], Error *err)
{
    Sha256 *sha = new_hash(s, err);
    if (!sha)
        return false;
    if (s->kind == SOURCE_MODEL_FILE)
        sha256_add(sha, s->file.map.data + s->file.data_offset, s->file.data_bytes);
    for (int i = 0; s->rows && i < s->stored.n; i++) {
        const RowSource *r = &s->rows[i];
        for (int j = 0; j < r->n_parts; j++)
            sha256_add(sha, r->part[j].t->data, r->part[j].t->n_bytes);
        row_source_release(r);
    }
    sha256_end(sha, hex);
    return true;
}

/* Returns hex, one of s's hashes, computing it if not known. */
static const char *once(const Source *s, char hex[65],
                        bool (*make)(const Source *, char hex[65], Error *), Error *err)
{
    pthread_mutex_lock(&s->hash->mutex);
    bool ok = hex[0] || make(s, hex, err);
    pthread_mutex_unlock(&s->hash->mutex);
    return ok ? hex : NULL;
}

static const char *computed(const Source *s, Error *err)
{
    return once(s, s->hash->data, compute, err);
}

const char *source_hash(const Source *s, Error *err)
{
    const char *recorded = source_meta(s, "sha256");
    return recorded && recorded[0] ? recorded : computed(s, err);
}

bool source_hash_check(const Source *s, Error *err)
{
    const char *recorded = source_hash(s, err), *found = recorded ? computed(s, err) : NULL;
    return found
        && (strcmp(found, recorded) == 0
            || fail(err, INPUT, "%s: sha256 of the data: expected %s, found %s", s->path, recorded,
                    found));
}

/* Of metadata, with the tensors of entries that start with tok.; "none" if there are none. */
static bool compute_texts(const Source *s, const char *const keys[3], bool tensors, char hex[65],
                          Error *err)
{
    Sha256 *sha = new_hash(s, err);
    bool    any = false;
    if (!sha)
        return false;
    for (int i = 0; i < 3 && keys[i]; i++) {
        const char *value = source_meta(s, keys[i]);
        if (!value)
            continue;
        any = true;
        sha256_add(sha, keys[i], strlen(keys[i]) + 1);
        sha256_add(sha, value, strlen(value) + 1);
    }
    for (int i = 0; tensors && i < s->file.n_tensors; i++) {
        const Tensor  *t = &s->file.tensors[i];
        const uint64_t n = t->n_bytes; /* base/cpu.h: this machine is little-endian */
        if (strncmp(t->name, "tok.", 4) != 0)
            continue;
        sha256_add(sha, t->name, strlen(t->name) + 1);
        sha256_add(sha, &n, sizeof n);
        sha256_add(sha, t->data, t->n_bytes);
    }
    sha256_end(sha, hex);
    if (!any)
        strcpy(hex, "none");
    return true;
}

static bool compute_tokenizer(const Source *s, char hex[65], Error *err)
{
    return compute_texts(s, (const char *const[3]){ "tokenizer", "special_tokens" }, true, hex,
                         err);
}

static bool compute_chat(const Source *s, char hex[65], Error *err)
{
    return compute_texts(
        s, (const char *const[3]){ "chat", "chat_template", "chat_template_tools" }, false, hex,
        err);
}

const char *source_tokenizer_hash(const Source *s, Error *err)
{
    return once(s, s->hash->tokenizer, compute_tokenizer, err);
}

const char *source_chat_hash(const Source *s, Error *err)
{
    return once(s, s->hash->chat, compute_chat, err);
}

static void add_tensor(Sha256 *sha, const Tensor *t)
{
    sha256_add(sha, t->name, strlen(t->name) + 1);
    sha256_add(sha, dtype_name(t->dtype), strlen(dtype_name(t->dtype)) + 1);
    sha256_add(sha, t->shape, (size_t)t->rank * sizeof *t->shape);
    sha256_add(sha, &t->n_bytes, sizeof t->n_bytes);
}

bool source_layout_hash(const Source *s, char hex[65], Error *err)
{
    const TensorFile *f   = &s->file;
    Sha256           *sha = new_hash(s, err);
    if (!sha)
        return false;
    for (int i = 0; i < f->n_tensors; i++)
        add_tensor(sha, &f->tensors[i]);
    for (int i = 0; s->rows && i < s->stored.n; i++)
        for (int j = 0; j < s->rows[i].n_parts; j++)
            add_tensor(sha, s->rows[i].part[j].t);
    for (int i = 0; i < f->n_meta; i++)
        if (strncmp(f->meta[i].key, "type.", 5) == 0) {
            sha256_add(sha, f->meta[i].key, strlen(f->meta[i].key) + 1);
            sha256_add(sha, f->meta[i].value, f->meta[i].value_bytes + 1);
        }
    sha256_end(sha, hex);
    return true;
}

static void add_samples(Sha256 *sha, const Tensor *t)
{
    enum { SAMPLES = 8, EACH = 64 };
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t at = t->n_bytes / SAMPLES * i, left = t->n_bytes - at;
        sha256_add(sha, (const char *)t->data + at, left < EACH ? left : EACH);
    }
}

bool source_sample_hash(const Source *s, char hex[65], Error *err)
{
    const char *recorded = source_meta(s, "sha256"), *config = source_meta(s, "config");
    char        layout[65];
    if (!source_layout_hash(s, layout, err))
        return false;
    Sha256 *sha = new_hash(s, err);
    if (!sha)
        return false;
    sha256_add(sha, layout, sizeof layout);
    if (config)
        sha256_add(sha, config, strlen(config) + 1);
    if (recorded && recorded[0])
        sha256_add(sha, recorded, strlen(recorded));
    for (int i = 0; !(recorded && recorded[0]) && i < s->file.n_tensors; i++)
        add_samples(sha, &s->file.tensors[i]);
    for (int i = 0; s->rows && i < s->stored.n; i++) {
        for (int j = 0; j < s->rows[i].n_parts; j++)
            add_samples(sha, s->rows[i].part[j].t);
        row_source_release(&s->rows[i]);
    }
    sha256_end(sha, hex);
    return true;
}
