/* format/npy.h: one array in a file of numpy, as a tensor. Versions 1.0 to 3.0, little-endian,
 * row-major ("C" order). */
#ifndef FORMAT_NPY_H
#define FORMAT_NPY_H

#include "format/tensors.h"

typedef struct NpyFile {
    FileMap map;
    Tensor  tensor;   /* data is in the mapping; the caller owns the name */
} NpyFile;

/* Map and check the file at path. name is the tensor's name, which must outlive f. Checked: magic,
 * version, header length, the header (a dict of exactly descr, fortran_order and shape), a type
 * that DType has, and that the shape's bytes are exactly those that follow. Errors: INPUT, which
 * names the file; SYSTEM. Close with npy_close; a zeroed NpyFile is fine. Format: numpy.lib.format,
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
bool npy_open(NpyFile *f, const char *path, const char *name, Error *err);
void npy_close(NpyFile *f);

#endif
