/* base/path.h: paths as text, and what lies there. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <stdbool.h>

enum { PATH_BYTES = 4096 };

/* Is there a file, a folder or a symbolic link? A link to a file that does not exist counts too: opening it
 * is an error, which must not pass for a file that is absent. */
bool path_exists(const char *path);
bool path_is_folder(const char *path);

/* Are both names of one regular file, or, where there is neither yet, would they be: one folder, and one name in it? "-" is standard
 * input, as for file_read. */
bool path_same_file(const char *a, const char *b);

/* NAME in a folder, with one slash between; where `place` is no folder, beside that file. False: too long. */
bool path_in(const char *place, const char *name, char out[PATH_BYTES]);

/* The same, and is there such a file? */
bool path_there(const char *place, const char *name, char out[PATH_BYTES]);

#endif
