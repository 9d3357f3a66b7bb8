/* source/contents.h: what lies in the files of a source, for reports. */
#ifndef SOURCE_CONTENTS_H
#define SOURCE_CONTENTS_H

#include "source/source.h"

typedef struct SourceContents {
    uint64_t       bytes;        /* of all files with weights (a tokenizer alone: of its file) */
    size_t         n_files;
    size_t         data_offset;  /* of a model file */
    const Tensor **tensors;      /* [n_tensors] as the files call them; in file order */
    size_t         n_tensors;
    /* "Q4_K 12, F32 5": how many tensors of each type, most bytes first */
    char           types[160];
} SourceContents;

/* *out is the caller's to free with source_contents_free. Fails only without memory. */
bool source_contents(SourceContents *out, const Source *s, Error *err);
void source_contents_free(SourceContents *c);

#endif
