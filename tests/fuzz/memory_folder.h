/* tests/fuzz/memory_folder.h: a folder whose files lie in memory only, for readers that look at
 * names and at what lies beside. */
#ifndef MEMORY_FOLDER_H
#define MEMORY_FOLDER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEMORY_FILES = 32 };

static char memory_folder_path[64];
static struct MemoryEntry { char name[64]; int fd; bool there; } memory_entry[MEMORY_FILES];

static inline const char *memory_path(const char *name)
{
    static char path[4][400];
    static int  at;
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%.63s/%.63s", memory_folder_path, name);
    return path[at];
}

/* The folder of a name that has one: "1_Pooling/config.json". */
static inline const char *memory_inner(const char *name)
{
    char inner[64];
    snprintf(inner, sizeof inner, "%.*s", (int)strcspn(name, "/"), name);
    return strchr(name, '/') ? memory_path(inner) : NULL;
}

static inline void memory_folder_remove(void)
{
    for (int i = 0; i < MEMORY_FILES; i++) {
        if (memory_entry[i].there)
            unlink(memory_path(memory_entry[i].name));
        if (memory_inner(memory_entry[i].name))
            rmdir(memory_inner(memory_entry[i].name));
    }
    rmdir(memory_folder_path);
}

/* The path of the one such folder of this process. */
static inline const char *memory_folder(void)
{
    if (!memory_folder_path[0]) {
        strcpy(memory_folder_path, "/tmp/tblock-fuzz.XXXXXX");
        if (!mkdtemp(memory_folder_path))
            abort();
        atexit(memory_folder_remove);
    }
    return memory_folder_path;
}

/* The folder's file of that name has this content from now on; bytes NULL: there is no such
 * file. */
static inline void memory_folder_put(const char *name, const void *bytes, size_t n)
{
    char target[64];
    int  i = 0;
    memory_folder();
    while (memory_entry[i].name[0] && strcmp(memory_entry[i].name, name) != 0)
        if (++i == MEMORY_FILES)
            abort();
    struct MemoryEntry *e = &memory_entry[i];
    if (!e->name[0]) {
        snprintf(e->name, sizeof e->name, "%s", name);
        if (memory_inner(name))
            mkdir(memory_inner(name), 0700);
        e->fd = memfd_create(name, 0);
    }
    if (bytes
        && (e->fd < 0 || ftruncate(e->fd, (off_t)n) != 0
            || (n && pwrite(e->fd, bytes, n, 0) != (ssize_t)n)))
        abort();
    snprintf(target, sizeof target, "/proc/self/fd/%d", e->fd);
    if (bytes && !e->there && symlink(target, memory_path(name)) != 0)
        abort();
    if (!bytes && e->there)
        unlink(memory_path(name));
    e->there = bytes != NULL;
}

/* Two files of one input: up to its first NUL the first one, and what follows that the second;
 * without a NUL there is no second. */
static inline bool memory_folder_put_two(const char *first, const char *second,
                                         const uint8_t *bytes, size_t n)
{
    size_t length = strnlen((const char *)bytes, n);
    bool   both = length < n;
    memory_folder_put(first, bytes, length);
    memory_folder_put(second, both ? bytes + length + 1 : NULL, both ? n - length - 1 : 0);
    return both;
}

#endif
