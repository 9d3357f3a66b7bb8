/* base/path.h: paths as text, and what exists at them. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <stdbool.h>

enum { PATH_BYTES = 4096 };

/* Is there a file, a folder or a symbolic link? A link to a missing file counts too: opening it
 * is an error, which must not look like an absent file. */
bool path_exists(const char *path);
bool path_is_folder(const char *path);

/* The last part of a path; all of one that ends in a slash. */
const char *path_name(const char *path);

bool path_ends(const char *path, const char *end); /* in `end`, with something before it */

/* Do both names mean one regular file? If neither exists yet: would they, that is, are folder
 * and name the same? "-" is standard input, as for file_read. */
bool path_same_file(const char *a, const char *b);

/* NAME in the folder `place`, with one slash between. If `place` is not a folder, NAME beside
 * that file. False: too long. */
bool path_in(const char *place, const char *name, char out[PATH_BYTES]);

/* The same, and does that file exist? */
bool path_there(const char *place, const char *name, char out[PATH_BYTES]);

#endif
