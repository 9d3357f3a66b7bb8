/* source/source.h: a model in any format, opened: what all readers share. */
#ifndef SOURCE_SOURCE_H
#define SOURCE_SOURCE_H

#include "base/file.h"
#include "base/text.h"
#include "format/gguf.h"
#include "format/llama2c.h"
#include "model/config.h"
#include "model/model_writer.h"
#include "model/tensor_list.h"
#include "tokenizer/tokmake.h"

/* ---- refuse.c -------------------------------------------------------------------------------- */

/* The errors for a path that is not a model. They say what it is instead and what
 * to do next. */

/* The path cannot be opened; *why is the reason. If nothing exists there and the name looks like a
 * repository of the Hugging Face hub, this says how to download it. */
bool refuse_missing(const char *path, const Error *why, Error *err);

/* What a folder holds that is no model of a form that opens, or several. The next three say this
 * first. Returns true if nothing is known about it. SYSTEM: it may not be read. */
bool refuse_known(const char *folder, Error *err);

/* The same by the names of files alone, of a file too: by those beside it. */
bool refuse_form(const char *path, Error *err);

/* A GGUF file of another kind. Returns true if nothing is known about it. */
bool refuse_gguf(const GgufMeta *meta, Error *err);

/* A JSON text that is no config. Returns true if nothing is known about it. */
bool refuse_other_json(const char *path, const char *text, size_t n, Error *err);

/* A folder without a config.json, params.json or tokenizer. */
bool refuse_folder(const char *folder, Error *err);

/* A folder with a config.json and without weights. */
bool refuse_without_weights(const char *folder, Error *err);

/* A file of no known kind. Returns true if nothing is known about it; the caller then reports a
 * reader's error. */
bool refuse_file(const FileMap *map, Error *err);

/* ---- source.c -------------------------------------------------------------------------------- */

/* Opens any model that a user has: a model file of ours, a Hugging Face folder, a
 * .gguf ... Every command accepts every kind. This room finds out which kind a path is and converts
 * its names and settings to ours. Kernels and binding are elsewhere. */

typedef enum SourceKind {
    SOURCE_MODEL_FILE, SOURCE_GGUF, SOURCE_META, SOURCE_LLAMA2C, SOURCE_HF, SOURCE_TOKENIZER,
    SOURCE_KINDS
} SourceKind;

typedef struct SourceHash SourceHash; /* identity.c */

/* Which tokenizer to make. */
typedef struct SourceOptions {
    /* how a tokenizer splits a text if its own files do not say; NULL: unknown */
    const char *pattern;
    bool        no_tokenizer; /* do not read the tokenizer, so that its faults are no errors */
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
    char       *dense[2];         /* of a folder: the weights of matrices after pooling, or NULL */
    /* MTP layers that the config does not count: their tensors are ignored */
    int         next_layers;
    /* of a folder with rope type longrope: the tensor rope_factors, which its config.json holds */
    float      *rope_factors;
    RowSource  *rows;             /* [stored.n] of other programs' files */
    char       *config_json;      /* of those, the config as our JSON */
    char       *chat_meta[CHAT_METAS]; /* of those; NULL: none */
    GgufFile    gguf;             /* SOURCE_GGUF */
    Llama2cFile llama2c;          /* SOURCE_LLAMA2C */
    TensorFile *files;            /* [n_files] the weights of a folder; zeroed until opened */
    int         n_files;
    /* [n_used] paths of the files that were read, in order, for the metadata "source" */
    char      **used;
    /* n_used_weights: config and weights, which come first */
    int         n_used, n_used_weights;
    char       *warnings;         /* lines for the user, each with its newline; NULL: none */
    /* SOURCE_LLAMA2C, SOURCE_META: which tokenizer beside it was taken, or why none; NULL */
    const char *tokenizer_note;
    char       *pool_note;        /* SOURCE_HF: what config.pool "other" stands for; NULL */
    TokenizerData tokenizer;      /* made in memory; file points into it */
    SourceHash *hash;
    void      **owned;            /* memory from source_alloc */
    int         n_owned;
    size_t      cap_owned;
} Source;

/* Open a source and check everything except the values of weights; those of rope_factors too.
 * Errors are INPUT with file and position, or SYSTEM. */
bool source_open(Source *s, const char *path, Error *err);
bool source_open_with(Source *s, const char *path, const SourceOptions *opt, Error *err);
void source_close(Source *s);     /* a zeroed Source is accepted */

/* The model that a folder leads to: the snapshot of a folder of the Hub's cache, the file of an
 * only GGUF model. *found: is it another path? Fails as source_open does if the folder is none that
 * opens: a sandbox cannot list it later. */
bool source_inside(const char *folder, char path[PATH_BYTES], bool *found, Error *err);

/* Fails (INPUT) if the source has only a tokenizer (refuse.c). */
bool source_need_weights(const Source *s, Error *err);

/* What the path is called: "GGUF" ... */
const char *source_kind_name(SourceKind k);

SourceHash *source_hash_new(void);
void        source_hash_free(SourceHash *h);

/* Fails (USAGE, with both names) if output is one of the source's files, so that no command
 * overwrites its own input. */
bool source_check_apart(const Source *s, const char *output, Error *err);
/* The same for a source that is not open. Its files are unknown, so every file in its folder that
 * is named like a part of a model counts. */
bool source_path_apart(const char *path, const char *output, Error *err);

/* Holds (file_hold) what a model, a tokenizer or an adapter at `path` is read from: the file and
 * the files beside it that belong to it, or the files of the folder and its subfolders. */
bool source_hold(const char *path, Error *err);

/* ---- source_parts.c -------------------------------------------------------------------------- */

/* Room for n files in s->files, which are closed with the source. NULL: out of memory (err). */
TensorFile *source_files(Source *s, int n, Error *err);

/* Called by a reader once s->stored.config is set and checked: makes its JSON, and allocates all
 * tensors and their rows. */
bool source_begin(Source *s, Error *err);

/* Zeroed memory that lives as long as the source, for the readers of this room. NULL: out of memory
 * (err). */
void *source_alloc(Source *s, size_t n_bytes, Error *err);

/* Let r read a vector of n floats that was computed, not stored in a file. It is copied. */
bool source_made_vector(Source *s, RowSource *r, const char *name, const float *values, int n,
                        Error *err);

/* Record a file that was read (each only once), or a warning for the user. False: out of memory. */
bool source_uses(Source *s, const char *path, Error *err);
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
bool source_warn(Source *s, Error *err, const char *fmt, ...);

/* The metadata that the source would have as a model file: "tokenizer", "source", "sha256" ...
 * NULL: none. */
const char *source_meta(const Source *s, const char *key);

/* ---- contents.c ------------------------------------------------------------------------------ */

/* What the files of a source hold, for reports: their tensors, types and
 * size. */

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

/* ---- identity.c ------------------------------------------------------------------------------ */

/* A hash that identifies a source's weights. Goldens and saved states record it, so that they are
 * not used with other weights. */

/* The sha256 in hex. For a model file: of its data section, from its metadata if recorded there.
 * For other files: of the bytes of all tensors in the order of tensor_list.h, each tensor's parts
 * as they are in their files. The first call reads all of them. The result lives as long as the
 * source; any thread may call. NULL: out of memory (SYSTEM). */
const char *source_hash(const Source *s, Error *err);
/* Is it that of the data? The first call reads all of them. Fails with INPUT if not. */
bool source_hash_check(const Source *s, Error *err);

/* The sha256 in hex of the tokenizer (rules, special tokens, vocabulary) and of the chat template,
 * as docs/format.md, "Hashes", says; "none" without one. Lifetime and errors: as above. */
const char *source_tokenizer_hash(const Source *s, Error *err);
const char *source_chat_hash(const Source *s, Error *err);

/* A hash that distinguishes models without reading them whole: the config, the layout, the recorded
 * sha256 or, without one, samples of each tensor. */
bool source_sample_hash(const Source *s, char hex[65], Error *err);

/* A hash of the names, types and shapes of those tensors. */
bool source_layout_hash(const Source *s, char hex[65], Error *err);

/* ---- config_source.c ------------------------------------------------------------------------- */

/* Reads a config file without weights. */

/* Read a JSON config: one of ours (docs/format.md), or the config.json of a Hugging Face folder. It
 * has passed config_check; the caller calls config_supported. Errors: INPUT with file and key, or
 * SYSTEM. */
bool config_source_read(Config *c, const char *path, Error *err);

/* ---- tokenizer_source.c ---------------------------------------------------------------------- */

/* Reads published tokenizers, alone or beside weights, into the form of
 * a model file. */

/* Is this a folder with tokenizer.json, tokenizer.model, or vocab.json and merges.txt? Is this one
 * such file (see tokmake.h)? Both look only at names and first bytes. */
bool tokenizer_folder_is(const char *folder);
bool tokenizer_file_is(const FileMap *m);

/* Make the source's tokenizer in memory and put it into s->file, where a model file has its own. If
 * a GGUF file or a folder has none, s->file stays empty. Errors: those of tokenizer_make and
 * tokenizer_make_gguf. */
bool open_tokenizer_source(Source *s, Error *err);

/* The same for a llama2.c file, which holds no tokenizer. Takes tokenizer.bin or tokenizer.model
 * from its folder, the first with as many tokens as the model. And for Meta's folder, which has its
 * own, or one above it. Sets s->tokenizer_note. Fails only with SYSTEM, because the model can be
 * used without a tokenizer. */
bool open_tokenizer_beside(Source *s, Error *err);
#define TOKENIZER_ABOVE "../tokenizer.model"
/* file_check_apart for those two files, whether they were taken or not */
bool tokenizer_beside_apart(const char *path, const char *output, Error *err);

/* ---- folder_chat.c --------------------------------------------------------------------------- */

/* The chat templates of a Hugging Face folder, and the names of its special tokens, which templates
 * use. */

/* Set s->chat_meta. The templates are those of chat_template.jinja and additional_chat_templates,
 * tokenizer_config.json or chat_template.json, whichever has one first; of several by name,
 * "default" and "tool_use". The special tokens are those of tokenizer_config.json, else of
 * special_tokens_map.json. A folder without any is no error. Source: transformers,
 * tokenization_utils_base.py. */
bool folder_chat(Source *s, const char *folder, Error *err);

/* Set s->chat_meta[which] to a copy of text. One that is too long or contains NUL is left out. */
bool source_keep_chat(Source *s, ChatMeta which, const char *text, size_t n, Error *err);
/* Keep the special tokens: a JSON object without its closing brace, or nothing; it is freed. */
bool source_keep_special(Source *s, TextOut *members, Error *err);

/* "bos_token", "eos_token", ...: the special tokens that transformers names. */
enum { SPECIAL_TOKEN_KEYS = 7 };
extern const char *const special_token_keys[SPECIAL_TOKEN_KEYS];

/* ---- gguf_model.c ---------------------------------------------------------------------------- */

/* Opens a GGUF file: converts its settings to our config and finds our tensors
 * in it. The names are those of llama.cpp, gguf-py/gguf/constants.py; src/llama-model.cpp shows
 * what they mean. */

/* Does a file that begins with these bytes belong to the GGUF reader? Files that are too old do
 * too, because its message says so. */
bool gguf_is(const unsigned char *head, size_t n);

/* GGUF's name of a tensor of ours, "blk.0.attn_q.weight". base: as in tensor_rows.h, "=" before a
 * name without an end; part: "", or what follows in adapters. */
enum { GGUF_NAME_BYTES = 80 };
void gguf_tensor_name(const TensorSpec *s, const char *base, const char *part,
                      char name[GGUF_NAME_BYTES]);

/* Open s->path; of a split file, all parts. A file with only a vocabulary has no weights. */
bool gguf_model_open(Source *s, Error *err);

/* ---- Between the files of this reader -------------------------------------------------------- */

typedef struct GgufArch GgufArch;

/* The architecture of a file. INPUT if it is unknown. */
const GgufArch *gguf_arch(const GgufFile *f, Error *err);
/* does it rotate neighbouring dimensions? Then rows of q and k are reordered */
bool            gguf_arch_pairs(const GgufArch *a);
/* do its files hold models of this family? */
bool            gguf_arch_of(const GgufArch *a, const char *family);
/* what it calls a tensor; usual: as most do */
const char     *gguf_arch_name(const GgufArch *a, TensorRole role, const char *usual);

/* Make the config of the source from the key-values and from which tensors exist, and check it. A
 * setting that changes the result and is not supported is INPUT. Warnings go to source_warn. */
bool gguf_config(Source *s, const GgufArch *a, Error *err);

/* ---- llama2c_model.c ------------------------------------------------------------------------- */

/* Opens a model file of karpathy/llama2.c (format/llama2c.h). */

bool llama2c_model_open(Source *s, Error *err);

/* ---- meta_folder.c --------------------------------------------------------------------------- */

/* Opens a folder as Meta publishes Llama: params.json and
 * consolidated.00.pth, .01.pth ..., each with one shard of the tensor-parallel layers. Mistral's
 * first releases have the same form. Sources: https://github.com/meta-llama/llama, llama/model.py
 * (names, widths, which dimension is cut); transformers, convert_llama_weights_to_hf.py (what no
 * file says: contexts, ids, the scaling of small models). */

/* Does the folder hold a params.json and a consolidated.00.pth? */
bool meta_folder_is(const char *path);

bool meta_folder_open(Source *s, Error *err);

/* ---- model_file.c ---------------------------------------------------------------------------- */

/* Opens a model file of our own (docs/format.md). */

/* Open s->path and check format, version, config and tensors. */
bool model_file_open(Source *s, Error *err);

#endif
