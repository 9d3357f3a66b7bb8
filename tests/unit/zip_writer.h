/* tests/unit/zip_writer.h: zip archives of stored entries in memory, written field by field so that
 * a test can lie in one. Checksums and times are zero. */
#ifndef ZIP_WRITER_H
#define ZIP_WRITER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct ZipOut {
    unsigned char bytes[1 << 16];
    size_t        n;
    unsigned char central[1 << 12]; /* the directory so far */
    size_t        n_central;
    unsigned      n_entries;
} ZipOut;

enum { ZIP_LOCAL = 30, ZIP_CENTRAL = 46, ZIP_END = 22, ZIP_END64 = 56, ZIP_LOCATOR = 20 };

static inline void zip_put(unsigned char *at, uint64_t value, int n_bytes)
{
    memcpy(at, &value, (size_t)n_bytes);
}

/* An entry; method and the size in the directory are as given. Returns the offset of its directory
 * header in z->central. */
static inline size_t zip_add(ZipOut *z, const char *name, const void *data, size_t n)
{
    unsigned char *local = z->bytes + z->n, *central = z->central + z->n_central;
    size_t         n_name = strlen(name), at = z->n_central;
    if (z->n + ZIP_LOCAL + n_name + n > sizeof z->bytes
        || z->n_central + ZIP_CENTRAL + n_name > sizeof z->central)
        abort();
    zip_put(local, 0x04034b50, 4);
    zip_put(local + 18, n, 4);
    zip_put(local + 22, n, 4);
    zip_put(local + 26, n_name, 2);
    memcpy(local + ZIP_LOCAL, name, n_name);
    memcpy(local + ZIP_LOCAL + n_name, data, n);
    zip_put(central, 0x02014b50, 4);
    zip_put(central + 20, n, 4);
    zip_put(central + 24, n, 4);
    zip_put(central + 28, n_name, 2);
    zip_put(central + 42, z->n, 4);
    memcpy(central + ZIP_CENTRAL, name, n_name);
    z->n += ZIP_LOCAL + n_name + n;
    z->n_central += ZIP_CENTRAL + n_name;
    z->n_entries++;
    return at;
}

/* The directory and the end record; with zip64 the long one too, and all ones in the short one.
 * Returns the directory's offset. */
static inline size_t zip_end(ZipOut *z, int zip64)
{
    size_t directory = z->n;
    memcpy(z->bytes + z->n, z->central, z->n_central);
    z->n += z->n_central;
    if (zip64) {
        unsigned char *p = z->bytes + z->n;
        zip_put(p, 0x06064b50, 4);
        zip_put(p + 4, ZIP_END64 - 12, 8);
        zip_put(p + 24, z->n_entries, 8);
        zip_put(p + 32, z->n_entries, 8);
        zip_put(p + 40, z->n_central, 8);
        zip_put(p + 48, directory, 8);
        zip_put(p + ZIP_END64, 0x07064b50, 4);
        zip_put(p + ZIP_END64 + 8, z->n, 8);
        zip_put(p + ZIP_END64 + 16, 1, 4);
        z->n += ZIP_END64 + ZIP_LOCATOR;
    }
    unsigned char *p = z->bytes + z->n;
    zip_put(p, 0x06054b50, 4);
    zip_put(p + 8, zip64 ? UINT16_MAX : z->n_entries, 2);
    zip_put(p + 10, zip64 ? UINT16_MAX : z->n_entries, 2);
    zip_put(p + 12, zip64 ? UINT32_MAX : z->n_central, 4);
    zip_put(p + 16, zip64 ? UINT32_MAX : directory, 4);
    z->n += ZIP_END;
    return directory;
}

#endif
