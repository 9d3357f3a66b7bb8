/* Reads the central directory of a zip archive: the end record, the zip64 record, then each entry,
 * which is compared with the local header before its data. */
#include "format/pth.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "format/bytes.h"

enum {
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    COMMENT_MAX = 65535
};
enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    LOCATOR = 0x07064b50,
    END64 = 0x06064b50
};
enum { ENCRYPTED = 1 << 0, SIZES_FOLLOW = 1 << 3 }; /* bits of an entry's flags */
enum { ZIP64_FIELD = 1 };

/* The central directory. */
typedef struct CentralDir {
    size_t offset, n_bytes, n_entries;
} CentralDir;

/* ---- The end of the archive ------------------------------------------------------------------ */

/* Find the record at the end of the file. Only a comment follows, whose length it states. */
static bool find_end(const FileMap *f, size_t *end, Error *err)
{
    size_t least = f->size > END_BYTES + COMMENT_MAX ? f->size - END_BYTES - COMMENT_MAX : 0;
    for (size_t at = f->size >= END_BYTES ? f->size - END_BYTES + 1 : 0; at-- > least;) {
        const unsigned char *p = f->data + at;
        if (read_u32(p) == END && at + END_BYTES + read_u16(p + 20) == f->size) {
            *end = at;
            return true;
        }
    }
    return fail(err, INPUT,
                "%s: expected a zip directory at the end of the file, found none (cut short?)",
                f->path);
}

/* Does a field of the short record fit the long one? All ones mean "see zip64". */
static bool agrees(uint64_t small, uint64_t all_ones, uint64_t large)
{
    return small == all_ones || small == large;
}

/* Read the zip64 record, if there is one, from before the end record; *end is then its offset. */
static bool read_end64(const FileMap *f, size_t *end, CentralDir *dir, Error *err)
{
    if (*end < LOCATOR_BYTES || read_u32(f->data + *end - LOCATOR_BYTES) != LOCATOR)
        return true;
    size_t   locator = *end - LOCATOR_BYTES;
    uint64_t at = read_u64(f->data + locator + 8);
    if (locator < END64_BYTES || at > locator - END64_BYTES || read_u32(f->data + at) != END64)
        return fail(err, INPUT,
                    "%s: zip64: expected the end record at byte %llu, found no such record",
                    f->path, (unsigned long long)at);
    const unsigned char *p = f->data + at, *small = f->data + *end;
    if (read_u64(p + 4) != locator - at - 12)
        return fail(err, INPUT, "%s: zip64: expected an end record of %zu bytes, found %llu",
                    f->path, locator - (size_t)at - 12, (unsigned long long)read_u64(p + 4));
    if (read_u32(p + 16) != 0 || read_u32(p + 20) != 0 || read_u64(p + 24) != read_u64(p + 32))
        return fail(err, INPUT, "%s: zip64: expected one archive file, found a part of several",
                    f->path);
    *dir = (CentralDir){ .n_entries = read_u64(p + 32),
                         .n_bytes = read_u64(p + 40),
                         .offset = read_u64(p + 48) };
    if (!agrees(read_u16(small + 10), UINT16_MAX, dir->n_entries)
        || !agrees(read_u32(small + 12), UINT32_MAX, dir->n_bytes)
        || !agrees(read_u32(small + 16), UINT32_MAX, dir->offset))
        return fail(err, INPUT, "%s: zip directory: the zip64 record contradicts the end record",
                    f->path);
    *end = (size_t)at;
    return true;
}

static bool find_directory(const FileMap *f, CentralDir *dir, Error *err)
{
    size_t end = 0, dir_end;
    if (!find_end(f, &end, err))
        return false;
    const unsigned char *p = f->data + end;
    if (read_u16(p + 4) != read_u16(p + 6) || read_u16(p + 8) != read_u16(p + 10)
        || (read_u16(p + 4) != 0 && read_u16(p + 4) != UINT16_MAX))
        return fail(err, INPUT,
                    "%s: zip directory: expected one archive file, found a part of several",
                    f->path);
    *dir = (CentralDir){ .n_entries = read_u16(p + 10),
                         .n_bytes = read_u32(p + 12),
                         .offset = read_u32(p + 16) };
    if (!read_end64(f, &end, dir, err))
        return false;
    if (!add_size(dir->offset, dir->n_bytes, &dir_end) || dir_end != end)
        return fail(err, INPUT, "%s: zip directory: expected it to end at byte %zu, found %zu "
                                "bytes from byte %zu", f->path, end,
                    dir->n_bytes, dir->offset);
    if (dir->n_entries > dir->n_bytes / CENTRAL_BYTES)
        return fail(err, INPUT, "%s: zip directory: %zu entries do not fit its %zu bytes", f->path,
                    dir->n_entries, dir->n_bytes);
    return true;
}

/* ---- One entry ------------------------------------------------------------------------------- */

/* For %.*s in a message. */
#define NAME(e) ((e)->name_bytes < 100 ? (int)(e)->name_bytes : 100), (e)->name

/* One header of the central directory, with the fields that zip64 may replace. */
typedef struct Central {
    const unsigned char *p, *extra;
    size_t               n_extra;
    uint64_t             packed, n_bytes, header;
} Central;

/* Values that are all ones are replaced by the 64-bit values of the extra field, in this order. */
static bool read_zip64_field(Central *c, const unsigned char *field, size_t n)
{
    uint64_t *const values[] = { &c->n_bytes, &c->packed, &c->header };
    for (int i = 0; i < 3; i++) {
        if (*values[i] != UINT32_MAX)
            continue;
        if (n < 8)
            return false;
        *values[i] = read_u64(field);
        field += 8;
        n -= 8;
    }
    return true;
}

static bool read_extra(Central *c)
{
    bool seen = false;
    for (size_t at = 0; at < c->n_extra;) {
        if (c->n_extra - at < 4 || read_u16(c->extra + at + 2) > c->n_extra - at - 4)
            return false;
        size_t n = read_u16(c->extra + at + 2);
        if (read_u16(c->extra + at) == ZIP64_FIELD
            && (seen || !read_zip64_field(c, c->extra + at + 4, n)))
            return false;
        seen |= read_u16(c->extra + at) == ZIP64_FIELD;
        at += 4 + n;
    }
    return true;
}

static bool check_storage(const FileMap *f, const Central *c, const ZipEntry *e, Error *err)
{
    unsigned method = read_u16(c->p + 10);
    if (read_u16(c->p + 8) & ENCRYPTED)
        return fail(err, INPUT, "%s: zip entry %.*s: expected unencrypted data, found encrypted "
                                "data", f->path, NAME(e));
    if (method != 0)
        return fail(err, INPUT,
                    "%s: zip entry %.*s: expected stored data (method 0, as torch.save writes), "
                    "found method %u%s",
                    f->path, NAME(e), method,
                    method == 8 ? ", deflate: pack the archive again without compression" : "");
    if (c->packed != c->n_bytes)
        return fail(
            err, INPUT,
            "%s: zip entry %.*s: expected one size of stored data, found %llu and %llu bytes",
            f->path, NAME(e), (unsigned long long)c->packed, (unsigned long long)c->n_bytes);
    return true;
}

/* Check that the header before the data says the same. A streaming writer leaves its sizes zero. */
static bool read_local(const FileMap *f, const CentralDir *dir, const Central *c, ZipEntry *e,
                       Error *err)
{
    if (dir->offset < LOCAL_BYTES || c->header > dir->offset - LOCAL_BYTES
        || read_u32(f->data + c->header) != LOCAL)
        return fail(err, INPUT, "%s: zip entry %.*s: expected its header at byte %llu, found none",
                    f->path, NAME(e), (unsigned long long)c->header);
    const unsigned char *p = f->data + c->header;
    size_t room = dir->offset - (size_t)c->header - LOCAL_BYTES, n_name = read_u16(p + 26),
           n_extra = read_u16(p + 28);
    if (n_name != e->name_bytes || n_name > room || memcmp(p + LOCAL_BYTES, e->name, n_name) != 0
        || read_u16(p + 8) != read_u16(c->p + 10))
        return fail(err, INPUT, "%s: zip entry %.*s: the header at byte %llu belongs to another "
                                "entry", f->path, NAME(e),
                    (unsigned long long)c->header);
    uint32_t n_bytes = read_u32(p + 22), packed = read_u32(p + 18);
    if (!(read_u16(p + 6) & SIZES_FOLLOW)
        && (!agrees(n_bytes, UINT32_MAX, e->n_bytes) || !agrees(packed, UINT32_MAX, e->n_bytes)))
        return fail(err, INPUT,
                    "%s: zip entry %.*s: expected %zu bytes in its header too, found %u", f->path,
                    NAME(e), e->n_bytes, (unsigned)n_bytes);
    if (n_extra > room - n_name || e->n_bytes > room - n_name - n_extra)
        return fail(err, INPUT, "%s: zip entry %.*s: %zu bytes from byte %llu go past the end of "
                                "the data at byte %zu", f->path, NAME(e),
                    e->n_bytes, (unsigned long long)c->header, dir->offset);
    e->header = (size_t)c->header;
    e->offset = e->header + LOCAL_BYTES + n_name + n_extra;
    return true;
}

/* Read the entry at *at of the directory, and move *at past it. */
static bool read_entry(const FileMap *f, const CentralDir *dir, size_t *at, ZipEntry *e, Error *err)
{
    size_t               room = dir->offset + dir->n_bytes - *at;
    const unsigned char *p = f->data + *at;
    if (room < CENTRAL_BYTES || read_u32(p) != CENTRAL)
        return fail(err, INPUT, "%s: zip directory: expected an entry at byte %zu, found none",
                    f->path, *at);
    size_t n_name = read_u16(p + 28), n_extra = read_u16(p + 30), n_comment = read_u16(p + 32);
    if (n_name + n_extra + n_comment > room - CENTRAL_BYTES)
        return fail(err, INPUT, "%s: zip directory: the entry at byte %zu goes past its end",
                    f->path, *at);
    Central c = { .p = p, .extra = p + CENTRAL_BYTES + n_name, .n_extra = n_extra,
                  .packed = read_u32(p + 20), .n_bytes = read_u32(p + 24),
                  .header = read_u32(p + 42) };
    *e = (ZipEntry){ .name = (const char *)p + CENTRAL_BYTES, .name_bytes = n_name };
    if (!read_extra(&c))
        return fail(err, INPUT, "%s: zip entry %.*s: its extra fields are malformed", f->path,
                    NAME(e));
    e->n_bytes = (size_t)c.n_bytes;
    *at += CENTRAL_BYTES + n_name + n_extra + n_comment;
    return check_storage(f, &c, e, err) && read_local(f, dir, &c, e, err);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int by_header(const void *a, const void *b)
{
    size_t x = ((const ZipEntry *)a)->header, y = ((const ZipEntry *)b)->header;
    return (x > y) - (x < y);
}

static int by_name(const void *a, const void *b)
{
    const ZipEntry *x = a, *y = b;
    int order =
        memcmp(x->name, y->name, x->name_bytes < y->name_bytes ? x->name_bytes : y->name_bytes);
    return order ? order : (x->name_bytes > y->name_bytes) - (x->name_bytes < y->name_bytes);
}

/* Check that no byte belongs to two entries and no name comes twice. Leaves the entries sorted by
 * name. */
static bool check_entries(ZipDirectory *z, const FileMap *f, Error *err)
{
    if (z->n_entries == 0)
        return true;
    qsort(z->entries, z->n_entries, sizeof *z->entries, by_header);
    for (size_t i = 1; i < z->n_entries; i++) {
        const ZipEntry *e = &z->entries[i];
        if (e->header < e[-1].offset + e[-1].n_bytes)
            return fail(err, INPUT, "%s: zip entry %.*s: it overlaps entry %.*s", f->path, NAME(e),
                        NAME(e - 1));
    }
    qsort(z->entries, z->n_entries, sizeof *z->entries, by_name);
    for (size_t i = 1; i < z->n_entries; i++)
        if (by_name(&z->entries[i - 1], &z->entries[i]) == 0)
            return fail(err, INPUT, "%s: zip entry %.*s appears twice", f->path,
                        NAME(&z->entries[i]));
    return true;
}

static bool read_entries(ZipDirectory *z, const FileMap *f, const CentralDir *dir, Error *err)
{
    size_t at = dir->offset;
    for (; z->n_entries < dir->n_entries; z->n_entries++)
        if (!read_entry(f, dir, &at, &z->entries[z->n_entries], err))
            return false;
    if (at != dir->offset + dir->n_bytes)
        return fail(err, INPUT,
                    "%s: zip directory: expected %zu bytes for its %zu entries, found %zu", f->path,
                    at - dir->offset, dir->n_entries, dir->n_bytes);
    return true;
}

bool zip_read(ZipDirectory *z, const FileMap *f, Error *err)
{
    CentralDir dir = { 0 };
    *z = (ZipDirectory){ 0 };
    if (!find_directory(f, &dir, err))
        return false;
    z->entries = calloc(dir.n_entries + 1, sizeof *z->entries);
    if (!z->entries)
        return fail(err, SYSTEM, "%s: out of memory for %zu zip entries", f->path, dir.n_entries);
    if (read_entries(z, f, &dir, err) && check_entries(z, f, err))
        return true;
    zip_free(z);
    return false;
}

void zip_free(ZipDirectory *z)
{
    free(z->entries);
    *z = (ZipDirectory){ 0 };
}

const ZipEntry *zip_find(const ZipDirectory *z, const char *name, size_t name_bytes)
{
    ZipEntry key = { .name = name, .name_bytes = name_bytes };
    return z->n_entries ? bsearch(&key, z->entries, z->n_entries, sizeof *z->entries, by_name)
                        : NULL;
}
