/* format/pth.h: PyTorch's .pth: a zip archive of a pickle and of storages. */
#ifndef FORMAT_PTH_H
#define FORMAT_PTH_H

#include <stddef.h>
#include "base/file.h"
#include "format/pickle.h"
#include "format/tensors.h"

/* ---- zip.c ----------------------------------------------------------------------------------- */

/* Finds where the entries of a zip archive are in its file. Stored entries only:
 * nothing is unpacked. */

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
 * before the directory, share no byte with another entry, have a unique name, and say the same in
 * both of its headers. Checksums are not computed, since that would read all weights. Errors:
 * INPUT, which names the file and the entry; SYSTEM without memory (40 bytes per entry, which takes
 * at least 46 in the file). The entries point into f, which must outlive them. Free with zip_free.
 * Format: PKWARE APPNOTE.TXT 6.3.10, sections 4.3 to 4.5. */
bool zip_read(ZipDirectory *z, const FileMap *f, Error *err);
void zip_free(ZipDirectory *z); /* a zeroed one is fine */

/* NULL: no such entry. */
const ZipEntry *zip_find(const ZipDirectory *z, const char *name, size_t name_bytes);

/* ---- pth.c ----------------------------------------------------------------------------------- */

/* PyTorch checkpoints (.pth, .pt, pytorch_model.bin) as named tensors. Nothing is
 * executed.
 *
 * torch.save has two forms. Since PyTorch 1.6 it writes a zip archive of stored entries in one
 * folder: ARCHIVE/data.pkl (a pickle of the object), ARCHIVE/data/KEY (the bytes of each storage),
 * ARCHIVE/byteorder. Before, it wrote five pickles in a row (a magic number, protocol version 1001,
 * facts about the machine, the object, the list of storage keys), then for each key an int64 number
 * of elements and the bytes. Source: torch/serialization.py of PyTorch 2.15, _save and
 * _legacy_save. */

/* Is a file that begins with these n bytes (64 are enough) a zip archive or a legacy checkpoint? */
bool pth_is(const unsigned char *bytes, size_t n);

/* Open a checkpoint whose object is a dict of tensors (a state dict), or a dict with a state dict
 * under exactly one of "model", "state_dict", "model_state_dict", "module". Entries that are not
 * tensors are left out if they are numbers, strings, None or dicts; others are an error.
 *
 * Tensors are in the order of the dict, and f->meta is empty. Data is in the mapping, maybe
 * unaligned. Tensors that are not row-major there (transposed, broadcast) are copied; their offset
 * is SIZE_MAX, and all copies together may take at most PTH_COPIES_FREE bytes plus the file's size.
 * Tensors may share bytes (tied weights).
 *
 * Errors: INPUT, which names the file and the position; SYSTEM without memory. Rejected: any global
 * or instruction that would run code (the error names it); zip entries that are compressed, overlap
 * or contradict each other (zip.c); a storage whose size is not its entry's; a view outside its
 * storage; a name that comes twice; big-endian values; TorchScript archives. Memory is bounded by
 * the file's size and PICKLE_MEMORY_MAX; time is linear in both. Close with tensor_file_close. */
bool pth_open(TensorFile *f, const char *path, Error *err);

enum { PTH_COPIES_FREE = 64 << 20, PTH_NAME_MAX = 4096 }; /* bytes */

/* ---- pth_storages.c -------------------------------------------------------------------------- */

/* Where the bytes of a checkpoint's storages are in its file. Private to
 * pth.c and its parts. */

typedef struct PthStorage {
    const char *key;            /* key_bytes long, in the pickle */
    size_t      key_bytes, element_bytes, n_bytes;
    size_t      offset;         /* in the file */
    bool        found;          /* is offset set? */
} PthStorage;

typedef struct PthStorages {
    PthStorage *at;             /* ascending by key */
    size_t      n;
} PthStorages;

/* List the distinct storages that pickles named; none is found yet. path is for messages. Errors:
 * INPUT if a key comes with two sizes or a size overflows; SYSTEM without memory. */
bool pth_storages_collect(PthStorages *s, const Pickle *p, const char *path, Error *err);
void pth_storages_free(PthStorages *s);

/* NULL: none has this key. */
PthStorage *pth_storages_find(const PthStorages *s, const char *key, size_t key_bytes);

/* ---- pth_tensors.c --------------------------------------------------------------------------- */

/* From a checkpoint's object to named tensors. Private to pth.c. */

/* Fill f's tensors, names and copies from the object, as pth.h says; f->map must be open. Errors:
 * as pth_open. Close f also after a failure. */
bool pth_tensors_make(TensorFile *f, const PickleValue *object, const PthStorages *storages,
                      Error *err);

#endif
