/* format/zip.h: where the entries of a zip archive lie in its file. Stored entries only: nothing is unpacked. */
#ifndef FORMAT_ZIP_H
#define FORMAT_ZIP_H

#include "base/file.h"

typedef struct ZipEntry {
    const char *name;    /* in the mapping, name_bytes long, no NUL after it */
    size_t      name_bytes;
    size_t      header;  /* of the local header, in the file */
    size_t      offset;  /* of the data, in the file         */
    size_t      n_bytes;
} ZipEntry;

typedef struct ZipDirectory {
    ZipEntry *entries;   /* ascending by name */
    size_t    n_entries;
} ZipDirectory;

/* Read and check the central directory of an archive, zip64 included. Every entry has to be stored as it is (a compressed or
 * encrypted one is an error: a few bytes could stand for gigabytes), to lie before the directory, to share no byte with
 * another, to have a name of its own and to say the same in both of its headers. Checksums are not computed: that would
 * read all weights. Errors are INPUT and name the file and the entry; SYSTEM without memory (40 bytes for each entry, which
 * has at least 46 in the file). The entries point into f, which has to outlive them.
 * Format: PKWARE APPNOTE.TXT 6.3.10, sections 4.3 to 4.5. */
bool zip_read(ZipDirectory *z, const FileMap *f, Error *err);
void zip_free(ZipDirectory *z); /* a zeroed one is accepted */

const ZipEntry *zip_find(const ZipDirectory *z, const char *name, size_t name_bytes); /* NULL: no such entry */

#endif
