/* source/source.h: whatever a user has on the disk, opened: a model file of ours, a Hugging Face folder, a .gguf ... All commands
 * take all of them. Lives here: which kind a path is, and how its names and settings become ours. Does not: kernels, binding. */
#ifndef SOURCE_SOURCE_H
#define SOURCE_SOURCE_H

#include "model/checkpoint.h"

typedef enum SourceKind { SOURCE_MODEL_FILE, SOURCE_KINDS } SourceKind;

typedef struct Source {
    SourceKind  kind;
    char       *path;             /* as it was given                                                  */
    TensorFile  file;             /* SOURCE_MODEL_FILE: the file. Others: a file that exists in memory only and holds the
                                     metadata and the tensors of a tokenizer as a model file would     */
    Checkpoint  checkpoint;
    bool        has_weights;      /* else only a tokenizer                                            */
} Source;

/* Open and check everything but the values of weights. Errors are INPUT, naming file and place, or SYSTEM. */
bool source_open(Source *s, const char *path, Error *err);
void source_close(Source *s);     /* a zeroed Source is accepted */

/* Metadata of a model file as it would be if the source was converted: "tokenizer", "source", "sha256" ...; NULL: none. */
const char *source_meta(const Source *s, const char *key);

#endif
