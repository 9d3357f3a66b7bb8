/* cli/vectors_out.c: writes vectors as lines of JSON or as a numpy array.
 *
 * Their number is known only at the end. So an array begins with a header of fixed length, which is
 * written last: numpy.lib.format allows spaces before its line end. */
#include "cli/vectors_out.h"
#include "command.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

enum { NPY_PREFIX = 10, NPY_HEADER = 128 }; /* magic, version and length; with the text */

bool vectors_open(VectorsOut *v, const char *path, bool is_npy, int width, tblock_error *err)
{
    *v         = (VectorsOut){ .npy = is_npy, .width = width };
    v->to_file = path && out_file_open(&v->file, path, err);
    return v->to_file || !path;
}

static bool put_json(VectorsOut *v, size_t n_tokens, const float *x, tblock_error *err)
{
    v->line.n = 0;
    json_out(&v->line, "{index: %zu, tokens: %zu, embedding:", v->n, n_tokens);
    json_out_floats(&v->line, x, (size_t)v->width);
    if (!json_out(&v->line, "}\n"))
        return no_memory(NULL, err);
    if (v->to_file)
        return out_file_write(&v->file, v->line.text, v->line.n, err);
    output_write(v->line.text, v->line.n);
    return true;
}

bool vectors_put(VectorsOut *v, size_t n_tokens, const float *x, tblock_error *err)
{
    const size_t row = (size_t)v->width * sizeof *x;
    bool good = v->npy ? out_file_write_at(&v->file, NPY_HEADER + v->n * row, x, row, err)
                       : put_json(v, n_tokens, x, err);
    v->n += good;
    return good;
}

static bool put_header(VectorsOut *v, tblock_error *err)
{
    const int room = NPY_HEADER - NPY_PREFIX;
    char      header[NPY_HEADER + 1] = "\x93NUMPY\x01", text[96];
    snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %d), }",
             v->n, v->width);
    header[8] = (char)room;
    snprintf(header + NPY_PREFIX, (size_t)room + 1, "%-*s\n", room - 1, text);
    return out_file_write_at(&v->file, 0, header, NPY_HEADER, err);
}

bool vectors_commit(VectorsOut *v, tblock_error *err)
{
    return !v->to_file
        || ((!v->npy || put_header(v, err)) && out_file_commit(&v->file, err));
}

void vectors_close(VectorsOut *v)
{
    out_file_abort(&v->file);
    text_out_free(&v->line);
}
