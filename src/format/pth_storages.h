/* format/pth_storages.h: where the bytes of a checkpoint's storages are in its file. Private to
 * pth.c and its parts. */
#ifndef FORMAT_PTH_STORAGES_H
#define FORMAT_PTH_STORAGES_H

#include "format/pickle.h"

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

#endif
