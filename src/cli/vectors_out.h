/* cli/vectors_out.h: vectors of one width, as lines of JSON on standard output or in a file, or as
 * an array of numpy in a file, which appears when all is written. */
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

/* path NULL: standard output. is_npy: of the name that the user gave. */
bool vectors_open(VectorsOut *v, const char *path, bool is_npy, int width, Error *err);
/* The next one, x [width], of a text of n_tokens. */
bool vectors_put(VectorsOut *v, size_t n_tokens, const float *x, Error *err);
bool vectors_commit(VectorsOut *v, Error *err);
void vectors_close(VectorsOut *v); /* without commit nothing is left; accepts a zeroed one */

#endif
