/* format/zip.h: finds where the entries of a zip archive are in its file. Stored entries only:
 * nothing is unpacked. */
#ifndef FORMAT_ZIP_H
#define FORMAT_ZIP_H

#include "base/file.h"

typedef struct ZipEntry {
    const char *name;    /* in the mapping, name_bytes long, without a NUL */
    size_t      name_bytes;
    size_t      header;  /* offset of its local header in the file */
    size_t      offset;  /* offset of its data in the file         */
    size_t      n_bytes;
} ZipEntry;

typedef struct ZipDirectory {
    ZipEntry *entries;   /* sorted by name */
    size_t    n_entries;
} ZipDirectory;

/* Read and check the central directory of an archive, zip64 included. Every entry must be stored
 * unpacked (a compressed or encrypted one is an error: a few bytes could stand for gigabytes), lie
 * before the directory, share no byte with another entry, have a name of its own, and say the same
 * in both of its headers. Checksums are not computed, since that would read all weights. Errors:
 * INPUT, which names the file and the entry; SYSTEM without memory (40 bytes per entry, which takes
 * at least 46 in the file). The entries point into f, which must outlive them. Free with zip_free.
 * Format: PKWARE APPNOTE.TXT 6.3.10, sections 4.3 to 4.5. */
bool zip_read(ZipDirectory *z, const FileMap *f, Error *err);
void zip_free(ZipDirectory *z); /* a zeroed one is fine */

/* NULL: no such entry. */
const ZipEntry *zip_find(const ZipDirectory *z, const char *name, size_t name_bytes);

#endif
