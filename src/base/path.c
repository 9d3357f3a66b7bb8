#include "base/path.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool path_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool path_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool path_in(const char *place, const char *name, char out[PATH_BYTES])
{
    const char *slash = strrchr(place, '/');
    size_t      n     = path_is_folder(place) ? strlen(place) : slash ? (size_t)(slash - place) + 1 : 0;
    const char *join  = n && place[n - 1] != '/' ? "/" : "";
    int         len   = snprintf(out, PATH_BYTES, "%.*s%s%s", (int)n, place, join, name);
    return len > 0 && len < PATH_BYTES;
}

bool path_there(const char *place, const char *name, char out[PATH_BYTES]) { return path_in(place, name, out) && path_exists(out); }
