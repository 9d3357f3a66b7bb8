/* source/contents.h: what the files of a source hold, for reports: their tensors, types and
 * size. */
#ifndef SOURCE_CONTENTS_H
#define SOURCE_CONTENTS_H

#include "source/source.h"

typedef struct SourceContents {
    uint64_t       bytes;        /* of all files with weights; of a tokenizer alone, its file */
    size_t         n_files;
    size_t         data_offset;  /* of a model file */
    const Tensor **tensors;      /* [n_tensors] in file order, with the names that the files use */
    size_t         n_tensors;
    /* "Q4_K 12, F32 5": how many tensors of each type, most bytes first */
    char           types[160];
} SourceContents;

/* Free *out with source_contents_free. Fails only when out of memory. */
bool source_contents(SourceContents *out, const Source *s, Error *err);
void source_contents_free(SourceContents *c);

#endif
