/* cli/vectors_out.h: writes vectors of one width: lines of JSON to standard output or a file, or a
 * numpy array to a file, which appears when it is complete. */
#ifndef CLI_VECTORS_OUT_H
#define CLI_VECTORS_OUT_H

#include "base/file.h"
#include "base/text.h"

/* Zero it to begin. */
typedef struct VectorsOut {
    OutFile file;
    bool    npy, to_file;
    int     width;
    size_t  n;
    TextOut line;
} VectorsOut;

/* path NULL: standard output. is_npy: by the name that the user gave. */
bool vectors_open(VectorsOut *v, const char *path, bool is_npy, int width, Error *err);
/* Writes the next vector, x [width], of a text of n_tokens. */
bool vectors_put(VectorsOut *v, size_t n_tokens, const float *x, Error *err);
bool vectors_commit(VectorsOut *v, Error *err);
void vectors_close(VectorsOut *v); /* without commit no file is left; accepts a zeroed one */

#endif
