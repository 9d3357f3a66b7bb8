/* base/path.c: compares and joins paths. Files are the same if device and inode are, under any
 * names. */
#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool path_exists(const char *path)
{
    return file_is_there(path);
}

bool path_is_folder(const char *path)
{
    struct stat st;
    return file_stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

bool path_ends(const char *path, const char *end)
{
    size_t n = strlen(path), n_end = strlen(end);
    return n > n_end && strcmp(path + n - n_end, end) == 0;
}

static int look_at(const char *path, struct stat *st)
{
    return strcmp(path, "-") == 0 ? file_fstat(STDIN_FILENO, st) : file_stat(path, st);
}

/* The folder and the name of a file that does not exist yet. False if the folder does not
 * exist. */
static bool place_of(const char *path, struct stat *folder, const char **name)
{
    char        text[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    int         n = slash ? snprintf(text, sizeof text, "%.*s", (int)(slash - path) + 1, path)
                          : snprintf(text, sizeof text, ".");
    *name = slash ? slash + 1 : path;
    return n < PATH_BYTES && file_stat(text, folder) == 0;
}

bool path_same_file(const char *a, const char *b)
{
    struct stat one, other;
    const char *name, *other_name;
    bool        there = look_at(a, &one) == 0;
    if (there != (look_at(b, &other) == 0))
        return false;
    if (there)
        return S_ISREG(one.st_mode) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
    return place_of(a, &one, &name) && place_of(b, &other, &other_name)
        && one.st_dev == other.st_dev && one.st_ino == other.st_ino
        && strcmp(name, other_name) == 0;
}

bool path_in(const char *place, const char *name, char out[PATH_BYTES])
{
    const char *slash = strrchr(place, '/');
    size_t n = path_is_folder(place) ? strlen(place) : slash ? (size_t)(slash - place) + 1 : 0;
    const char *join  = n && place[n - 1] != '/' ? "/" : "";
    int         len   = snprintf(out, PATH_BYTES, "%.*s%s%s", (int)n, place, join, name);
    return len > 0 && len < PATH_BYTES;
}

bool path_there(const char *place, const char *name, char out[PATH_BYTES])
{
    return path_in(place, name, out) && path_exists(out);
}
