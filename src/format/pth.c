/* Opens PyTorch checkpoints in both forms, zip and legacy: finds the pickle and where each
 * storage's bytes are. pth_tensors.c makes the tensors. */
#include "format/pth.h"

#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "format/bytes.h"

static const unsigned char zip_magic[] = { 'P', 'K', 3, 4 };
/* The long 0x1950a86a20f9469cfc6c with its length before it: the first pickle of the legacy
 * form. */
static const unsigned char legacy_magic[] = { 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                              0x20, 0x6a, 0xa8, 0x50, 0x19 };

enum { PROTO = 0x80, FRAME = 0x95, LONG1 = 0x8a, LEGACY_PROTOCOL = 1001 };

typedef struct PthReader {
    TensorFile *f;
    Pickle      pickle;
    PickleValue object;
    PthStorages storages;
    char        what[400]; /* "FILE: data.pkl", for the pickle's messages */
} PthReader;

/* ---- Which form ------------------------------------------------------------------------------ */

static bool is_zip(const unsigned char *bytes, size_t n)
{
    return n >= sizeof zip_magic && memcmp(bytes, zip_magic, sizeof zip_magic) == 0;
}

static bool is_legacy(const unsigned char *bytes, size_t n)
{
    size_t at = 2; /* after PROTO and its version */
    if (n < 2 || bytes[0] != PROTO)
        return false;
    if (n > at && bytes[at] == FRAME) /* from protocol 4: FRAME and 8 bytes of length */
        at += 9;
    return n > at + sizeof legacy_magic && bytes[at] == LONG1
        && memcmp(bytes + at + 1, legacy_magic, sizeof legacy_magic) == 0;
}

bool pth_is(const unsigned char *bytes, size_t n)
{
    return is_zip(bytes, n) || is_legacy(bytes, n);
}

/* ---- The zip form ---------------------------------------------------------------------------- */

/* Find the one entry FOLDER/data.pkl. *folder_bytes includes the slash. */
static bool find_object(const FileMap *map, const ZipDirectory *zip, const ZipEntry **out,
                        size_t *folder_bytes, Error *err)
{
    static const char name[] = "/data.pkl";
    const size_t      n = sizeof name - 1;
    *out = NULL;
    for (size_t i = 0; i < zip->n_entries; i++) {
        const ZipEntry *e = &zip->entries[i];
        if (e->name_bytes <= n || memcmp(e->name + e->name_bytes - n, name, n) != 0)
            continue;
        if (*out)
            return fail(err, INPUT, "%s: expected one entry FOLDER/data.pkl, found several",
                        map->path);
        *out = e;
        *folder_bytes = e->name_bytes - n + 1;
    }
    return *out
        || fail(err, INPUT,
                "%s: expected a PyTorch checkpoint, found a zip archive without FOLDER/data.pkl",
                map->path);
}

/* Find the entry FOLDER/NAME in the object's folder; NULL: none. */
static const ZipEntry *find_beside(const ZipDirectory *zip, const ZipEntry *object,
                                   size_t folder_bytes, const char *name, size_t n)
{
    char full[1024];
    if (folder_bytes > sizeof full || n > sizeof full - folder_bytes)
        return NULL;
    memcpy(full, object->name, folder_bytes);
    memcpy(full + folder_bytes, name, n);
    return zip_find(zip, full, folder_bytes + n);
}

static bool check_kind(const FileMap *map, const ZipDirectory *zip, const ZipEntry *object,
                       size_t folder_bytes, Error *err)
{
    static const char order[] = "byteorder", script[] = "constants.pkl", little[] = "little";
    if (find_beside(zip, object, folder_bytes, script, sizeof script - 1))
        return fail(
            err, INPUT,
            "%s: expected a checkpoint of weights, found a TorchScript archive (constants.pkl)",
            map->path);
    const ZipEntry *e = find_beside(zip, object, folder_bytes, order, sizeof order - 1);
    if (e
        && (e->n_bytes != sizeof little - 1
            || memcmp(map->data + e->offset, little, e->n_bytes) != 0))
        return fail(err, INPUT, "%s: byteorder: expected little, found %.*s", map->path,
                    e->n_bytes < 40 ? (int)e->n_bytes : 40, (const char *)map->data + e->offset);
    return true;
}

static bool find_entry_of(PthReader *r, const ZipDirectory *zip, const ZipEntry *object,
                          size_t folder_bytes, PthStorage *s, Error *err)
{
    const char *path = r->f->map.path;
    char        name[512];
    size_t      n = sizeof "data/" - 1;
    int         shown = s->key_bytes < 100 ? (int)s->key_bytes : 100;
    memcpy(name, "data/", n);
    const ZipEntry *e = NULL;
    if (s->key_bytes <= sizeof name - n) {
        memcpy(name + n, s->key, s->key_bytes);
        e = find_beside(zip, object, folder_bytes, name, n + s->key_bytes);
    }
    if (!e)
        return fail(err, INPUT, "%s: storage %.*s: expected an entry data/%.*s, found none", path,
                    shown, s->key, shown, s->key);
    if (e->n_bytes != s->n_bytes)
        return fail(err, INPUT, "%s: storage %.*s: expected %zu bytes in its entry, found %zu",
                    path, shown, s->key, s->n_bytes, e->n_bytes);
    s->offset = e->offset;
    s->found = true;
    return true;
}

static bool read_zip_object(PthReader *r, const ZipDirectory *zip, Error *err)
{
    const FileMap  *map = &r->f->map;
    const ZipEntry *object = NULL;
    size_t          folder_bytes = 0, used;
    if (!find_object(map, zip, &object, &folder_bytes, err)
        || !check_kind(map, zip, object, folder_bytes, err))
        return false;
    snprintf(r->what, sizeof r->what, "%.380s: data.pkl", map->path);
    if (!pickle_read(&r->pickle, map->data + object->offset, object->n_bytes, r->what, &r->object,
                     &used, err)
        || !pth_storages_collect(&r->storages, &r->pickle, map->path, err))
        return false;
    if (used != object->n_bytes)
        return fail(err, INPUT, "%s: expected it to end with its pickle at byte %zu, found %zu "
                                "bytes", r->what, used, object->n_bytes);
    for (size_t i = 0; i < r->storages.n; i++)
        if (!find_entry_of(r, zip, object, folder_bytes, &r->storages.at[i], err))
            return false;
    return true;
}

static bool read_zip(PthReader *r, Error *err)
{
    ZipDirectory zip;
    bool         ok = zip_read(&zip, &r->f->map, err) && read_zip_object(r, &zip, err);
    zip_free(&zip);
    return ok;
}

/* ---- The legacy form ------------------------------------------------------------------------- */

/* Read the pickle at byte *at of the file, and move *at past it. */
static bool next_pickle(PthReader *r, size_t *at, const char *name, PickleValue *out, Error *err)
{
    const FileMap *map = &r->f->map;
    size_t         used = 0;
    snprintf(r->what, sizeof r->what, "%.300s: %s (from byte %zu)", map->path, name, *at);
    if (!pickle_read(&r->pickle, map->data + *at, map->size - *at, r->what, out, &used, err))
        return false;
    *at += used;
    return true;
}

static bool read_legacy_head(PthReader *r, size_t *at, Error *err)
{
    const char *path = r->f->map.path;
    PickleValue magic, version, machine;
    if (!next_pickle(r, at, "magic number", &magic, err)
        || !next_pickle(r, at, "protocol version", &version, err))
        return false;
    if (version.kind != PICKLE_INT || version.i != LEGACY_PROTOCOL)
        return fail(err, INPUT, "%s: protocol version: expected %d, found another", path,
                    LEGACY_PROTOCOL);
    if (!next_pickle(r, at, "machine description", &machine, err))
        return false;
    const PickleValue *little = pickle_get(&machine, "little_endian");
    if (!little || little->kind != PICKLE_BOOL || !little->i)
        return fail(err, INPUT, "%s: little_endian: expected True, found %s", path,
                    little ? "a big-endian file" : "no such entry");
    return true;
}

/* Find the storage of one key: at *at is an int64 count, then the elements. */
static bool read_legacy_storage(PthReader *r, size_t *at, const PickleValue *key, Error *err)
{
    const FileMap *map = &r->f->map;
    int            shown = key->n < 100 ? (int)key->n : 100;
    if (key->kind != PICKLE_STRING)
        return fail(err, INPUT, "%s: storage keys: expected strings, found a %s", map->path,
                    pickle_kind_name(key->kind));
    PthStorage *s = pth_storages_find(&r->storages, key->text, key->n);
    if (!s || s->found)
        return fail(err, INPUT, "%s: storage keys: %.*s %s", map->path, shown, key->text,
                    s ? "appears twice" : "has no tensor");
    if (map->size - *at < 8)
        return fail(err, INPUT,
                    "%s: storage %.*s: expected its size at byte %zu, found the end of the file "
                    "(cut short?)",
                    map->path, shown, key->text, *at);
    int64_t n = read_i64(map->data + *at);
    size_t  n_bytes;
    *at += 8;
    if (n < 0 || !mul_size((size_t)n, s->element_bytes, &n_bytes) || n_bytes != s->n_bytes)
        return fail(err, INPUT, "%s: storage %.*s: expected %zu elements of %zu bytes, found %lld",
                    map->path, shown, key->text, s->n_bytes / s->element_bytes, s->element_bytes,
                    (long long)n);
    if (n_bytes > map->size - *at)
        return fail(err, INPUT, "%s: storage %.*s: expected %zu bytes from byte %zu, found %zu "
                                "(cut short?)", map->path, shown, key->text,
                    n_bytes, *at, map->size - *at);
    s->offset = *at;
    s->found = true;
    *at += n_bytes;
    return true;
}

static bool read_legacy(PthReader *r, Error *err)
{
    const FileMap *map = &r->f->map;
    size_t         at = 0;
    PickleValue    keys;
    if (!read_legacy_head(r, &at, err) || !next_pickle(r, &at, "object", &r->object, err)
        || !pth_storages_collect(&r->storages, &r->pickle, map->path, err)
        || !next_pickle(r, &at, "storage keys", &keys, err))
        return false;
    if (keys.kind != PICKLE_LIST)
        return fail(err, INPUT, "%s: storage keys: expected a list, found a %s", map->path,
                    pickle_kind_name(keys.kind));
    for (size_t i = 0; i < keys.items->n; i++)
        if (!read_legacy_storage(r, &at, &keys.items->at[i], err))
            return false;
    if (at != map->size)
        return fail(err, INPUT, "%s: expected the file to end with its last storage at byte %zu, "
                                "found %zu bytes", map->path, at, map->size);
    return true;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static bool read_form(PthReader *r, Error *err)
{
    const FileMap *map = &r->f->map;
    if (is_zip(map->data, map->size))
        return read_zip(r, err);
    if (is_legacy(map->data, map->size))
        return read_legacy(r, err);
    return fail(
        err, INPUT,
        "%s: expected a PyTorch checkpoint (a zip archive or the legacy form), found another file",
        map->path);
}

bool pth_open(TensorFile *f, const char *path, Error *err)
{
    *f = (TensorFile){ 0 };
    if (!file_map_open(&f->map, path, err))
        return false;
    f->data_bytes = f->map.size;
    PthReader r = { .f = f };
    bool   ok = read_form(&r, err) && pth_tensors_make(f, &r.object, &r.storages, err);
    pth_storages_free(&r.storages);
    pickle_free(&r.pickle);
    if (!ok)
        tensor_file_close(f);
    return ok;
}
