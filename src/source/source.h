/* source/source.h: opens any model that a user has: a model file of ours, a Hugging Face folder, a
 * .gguf ... Every command accepts every kind. This room finds out which kind a path is and converts
 * its names and settings to ours. Kernels and binding are elsewhere. */
#ifndef SOURCE_SOURCE_H
#define SOURCE_SOURCE_H

#include "format/gguf.h"
#include "format/llama2c.h"
#include "model/tensor_list.h"
#include "tokmake/tokmake.h"

typedef enum SourceKind {
    SOURCE_MODEL_FILE, SOURCE_GGUF, SOURCE_META, SOURCE_LLAMA2C, SOURCE_HF, SOURCE_TOKENIZER, SOURCE_KINDS
} SourceKind;

typedef struct SourceHash SourceHash; /* identity.c */

/* Which tokenizer to make. */
typedef struct SourceOptions {
    /* how a tokenizer splits a text if its own files do not say; NULL: unknown */
    const char *pattern;
    bool        no_tokenizer; /* do not read the tokenizer, so that no fault in it is an error */
} SourceOptions;

typedef struct Source {
    SourceKind  kind;
    SourceOptions opt;
    char       *path;             /* as it was given */
    /* SOURCE_MODEL_FILE: the file. Other kinds: a file that exists only in memory and holds the
     * tokenizer's metadata and tensors as a model file would. */
    TensorFile  file;
    StoredModel stored;
    bool        has_weights;      /* false: only a tokenizer */
    RowSource  *rows;             /* [stored.n] of other programs' files */
    char       *config_json;      /* of those, the config as our JSON */
    char       *chat_template;    /* of those, as its author wrote it; NULL: none */
    GgufFile    gguf;             /* SOURCE_GGUF */
    Llama2cFile llama2c;          /* SOURCE_LLAMA2C */
    TensorFile *files;            /* [n_files] the weights of a folder; zeroed until opened */
    int         n_files;
    /* [n_used] paths of the files that were read, in order, for the metadata "source" */
    char      **used;
    /* n_used_weights: config and weights, which come first */
    int         n_used, n_used_weights;
    char       *warnings;         /* lines for the user, each with its newline; NULL: none */
    /* SOURCE_LLAMA2C: which tokenizer beside it was taken, or why none; NULL */
    const char *tokenizer_note;
    TokenizerData tokenizer;      /* made in memory; file points into it */
    SourceHash *hash;
    void      **owned;            /* memory from source_alloc */
    int         n_owned, cap_owned;
} Source;

/* Open a source and check everything except the values of weights. Errors are INPUT with file and
 * place, or SYSTEM. */
bool source_open(Source *s, const char *path, Error *err);
bool source_open_with(Source *s, const char *path, const SourceOptions *opt, Error *err);
void source_close(Source *s);     /* a zeroed Source is accepted */

/* Fails (INPUT) if the source has only a tokenizer. */
bool source_need_weights(const Source *s, Error *err);

/* What the path is called: "GGUF" ... */
const char *source_kind_name(SourceKind k);

SourceHash *source_hash_new(void);
void        source_hash_free(SourceHash *h);

/* Room for n files in s->files, which are closed with the source. NULL: out of memory (err). */
TensorFile *source_files(Source *s, int n, Error *err);

/* Fails (USAGE, with both names) if output is one of the source's files, so that no command
 * overwrites its own input. */
bool source_check_apart(const Source *s, const char *output, Error *err);
/* The same for a source that is not open. Its files are unknown, so every file of its folder counts
 * whose name is usual for a part of a model. */
bool source_path_apart(const char *path, const char *output, Error *err);

/* Called by a reader once s->stored.config is set and checked: makes its JSON, and room for all
 * tensors and their rows. */
bool source_begin(Source *s, Error *err);

/* Zeroed memory that lives as long as the source, for the readers of this room. NULL: out of memory
 * (err). */
void *source_alloc(Source *s, size_t n_bytes, Error *err);

/* Record a file that was read (each only once), or a warning for the user. False: out of memory. */
bool source_uses(Source *s, const char *path, Error *err);
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
bool source_warn(Source *s, Error *err, const char *fmt, ...);

/* The metadata that the source would have as a model file: "tokenizer", "source", "sha256" ...
 * NULL: none. */
const char *source_meta(const Source *s, const char *key);

#endif
