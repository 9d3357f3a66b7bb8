/* format/npy.h: one array in a file of numpy, as a tensor. Versions 1.0 to 3.0, little-endian, in row-major ("C") order. */
#ifndef FORMAT_NPY_H
#define FORMAT_NPY_H

#include "format/tensors.h"

typedef struct NpyFile {
    FileMap map;
    Tensor  tensor;   /* data lies in the mapping; the name is the caller's */
} NpyFile;

/* Map and check the file at path; name: what its tensor is called, which must outlive f. Checked: magic, version, header
 * length, the header (a dict of exactly descr, fortran_order and shape), a type that DType has, the shape against the bytes that
 * follow, which must be all. Errors are INPUT and name the file, SYSTEM without memory. A zeroed NpyFile may be closed.
 * Format: numpy.lib.format, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
bool npy_open(NpyFile *f, const char *path, const char *name, Error *err);
void npy_close(NpyFile *f);

#endif
