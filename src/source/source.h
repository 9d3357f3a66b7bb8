/* source/source.h: whatever a user has on the disk, opened: a model file of ours, a Hugging Face
 * folder, a .gguf ... All commands take all of them. Lives here: which kind a path is, and how its
 * names and settings become ours. Does not: kernels, binding. */
#ifndef SOURCE_SOURCE_H
#define SOURCE_SOURCE_H

#include "format/gguf.h"
#include "format/llama2c.h"
#include "model/stored_model.h"
#include "tokmake/tokmake.h"

typedef enum SourceKind {
    SOURCE_MODEL_FILE, SOURCE_GGUF, SOURCE_META, SOURCE_LLAMA2C, SOURCE_HF, SOURCE_TOKENIZER, SOURCE_KINDS
} SourceKind;

typedef struct SourceHash SourceHash; /* identity.c */

/* Which tokenizer to make. */
typedef struct SourceOptions {
    /* how a folder's or file's own tokenizer splits a text, where it does not say; NULL */
    const char *pattern;
    bool        no_tokenizer;     /* leave it alone, whatever is wrong with it */
} SourceOptions;

typedef struct Source {
    SourceKind  kind;
    SourceOptions opt;
    char       *path;             /* as it was given */
    /* SOURCE_MODEL_FILE: the file. Others: one that exists in memory only, with the metadata and the
     * tensors of a tokenizer as a model file would have them. */
    TensorFile  file;
    StoredModel stored;
    bool        has_weights;      /* else only a tokenizer */
    RowSource  *rows;             /* [stored.n] of another program's files */
    char       *config_json;      /* of those, the config in our words */
    char       *chat_template;    /* of those, as its author wrote it; NULL: none */
    GgufFile    gguf;             /* SOURCE_GGUF */
    Llama2cFile llama2c;          /* SOURCE_LLAMA2C */
    TensorFile *files;            /* [n_files] the weights of a folder; unopened ones are zeroed */
    int         n_files;
    /* [n_used] paths of the files that were read, in that order; for the metadata "source" */
    char      **used;
    /* those of config and weights come first */
    int         n_used, n_used_weights;
    char       *warnings;         /* lines for the user, each with its newline; NULL: none */
    /* SOURCE_LLAMA2C: which tokenizer beside it was taken, or why none; NULL */
    const char *tokenizer_note;
    TokenizerData tokenizer;      /* made in memory: what file points into */
    SourceHash *hash;
    void      **owned;            /* source_alloc */
    int         n_owned, cap_owned;
} Source;

/* Open and check everything but the values of weights. Errors are INPUT, naming file and place, or
 * SYSTEM. */
bool source_open(Source *s, const char *path, Error *err);
bool source_open_with(Source *s, const char *path, const SourceOptions *opt, Error *err);
void source_close(Source *s);     /* a zeroed Source is accepted */

/* Fails (INPUT) if the source has only a tokenizer. */
bool source_need_weights(const Source *s, Error *err);

/* What the path is called: "GGUF" ... */
const char *source_kind_name(SourceKind k);

SourceHash *source_hash_new(void);
void        source_hash_free(SourceHash *h);

/* Room for n files in s->files, closed with the source. NULL: none left (err). */
TensorFile *source_files(Source *s, int n, Error *err);

/* An output must replace none of the files that the source consists of: fails (USAGE, naming
 * both). */
bool source_check_apart(const Source *s, const char *output, Error *err);
/* The same of a source that is not open, or cannot be: what it consists of is unknown, so that
 * every file in its folder counts that is named as a part of one. */
bool source_path_apart(const char *path, const char *output, Error *err);

/* For a reader that has the config (s->stored.config, checked): its JSON, and room for all tensors
 * and their rows. */
bool source_begin(Source *s, Error *err);

/* Zeroed memory that lives as long as the source. NULL: none left (err). For the readers of this
 * room. */
void *source_alloc(Source *s, size_t n_bytes, Error *err);

/* Note a file that was read (once), or a line for the user. False: no memory (err). */
bool source_uses(Source *s, const char *path, Error *err);
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
bool source_warn(Source *s, Error *err, const char *fmt, ...);

/* Metadata of a model file as it would be if the source was converted: "tokenizer", "source",
 * "sha256" ...; NULL: none. */
const char *source_meta(const Source *s, const char *key);

#endif
