/* tokenizer/tokmake.h: makes the tokenizer of a model file (docs/format.md, section "Tokenizer")
 * from published files: the metadata entry and the tensors tok.*. Knows nothing of encoding:
 * tokenizer.h uses the result, from a file or from memory. */
#ifndef TOKENIZER_TOKMAKE_H
#define TOKENIZER_TOKMAKE_H

#include "format/gguf.h"
#include "format/tensors.h"

typedef struct TokenizerTensor {
    const char *name;
    DType       dtype;
    int         rank;
    int64_t     shape[2];
    size_t      n_bytes;
    void       *data;
} TokenizerTensor;

enum { TOKENIZER_MOST_TENSORS = 12 };

typedef struct TokenizerData {
    char           *path;      /* as given, for messages */
    char           *metadata;  /* JSON text of the entry "tokenizer"; NULL: there is no tokenizer */
    TokenizerTensor tensor[TOKENIZER_MOST_TENSORS]; /* in file order */
    int             n_tensors;
    char          **files;     /* every file that was read, in order */
    size_t          n_files;
    char           *warnings;  /* lines for the user; NULL: none */
} TokenizerData;

typedef struct TokenizerMakeOptions {
    /* How a text is split, for files that do not say: gpt2, llama3, cl100k, o200k, qwen2; or
     * NULL. */
    const char *pattern;
    /* From the model's config, used if a folder's own files name none; -1: none. */
    int32_t     bos, eos;
} TokenizerMakeOptions;

/* Make the tokenizer of a folder or a file:
 *   a folder        Hugging Face's: tokenizer.json, tokenizer.model, or vocab.json with merges.txt,
 *                   in this order; and tokenizer_config.json, special_tokens_map.json and
 *                   added_tokens.json beside them
 *   one file        tokenizer.json, a SentencePiece model (BPE or unigram), tiktoken ranks
 *                   (special_tokens.json beside), vocab.json (merges.txt beside), or tokenizer.bin
 *                   of llama2.c
 * opt may be NULL. If path holds no tokenizer, the result is true and out->metadata is NULL. Free
 * out with tokenizer_data_free. Errors: INPUT, which names file, key, expected and found; USAGE (a
 * pattern that is unknown or not needed); SYSTEM. Memory: a small multiple of the files, which have
 * at most 256 MB each. */
bool tokenizer_make(TokenizerData *out, const char *path, const TokenizerMakeOptions *opt,
                    Error *err);

/* Do the first bytes of a file look like a SentencePiece model, tiktoken ranks or a tokenizer.bin?
 * JSON is not recognized here. */
bool tokenizer_looks_like(const char *head, size_t n);

/* Make the tokenizer of a GGUF file from its key-values. Supported models are llama (SentencePiece
 * BPE) and gpt2 (byte-level BPE, split as tokenizer.ggml.pre says). If the file has no vocabulary,
 * the result is true and out->metadata is NULL. Errors: INPUT, which names the key, also for an
 * unknown model or pre; SYSTEM. */
bool tokenizer_make_gguf(TokenizerData *out, const GgufMeta *meta, Error *err);

/* Make a tokenizer from merges that tblock trained (bpe_train.c): left, right and merged id.
 * Ids 0 .. 255 are the bytes; later ids come in order. pattern: how a text is split, as in
 * TokenizerMakeOptions. path: for messages. The tokenizer has no special tokens. Errors: USAGE
 * (pattern), SYSTEM. */
bool tokenizer_make_trained(TokenizerData *out, const char *path, const char *pattern,
                            const int32_t (*merges)[3], size_t n_merges, Error *err);

/* The value of "pretokenize" in such a tokenizer, as JSON; the caller frees. NULL: USAGE (pattern),
 * SYSTEM. */
char *tokenizer_pretokenize_steps(const char *pattern, Error *err);

/* Lines that name the tokenizer files of a folder that tblock cannot read. The caller frees them.
 * NULL: none, or no memory. */
char *tokenizer_files_not_read(const char *folder);

/* Present d as an open model file, for tokenizer_open. Close *f with tensor_file_close; d must
 * outlive it. Errors: SYSTEM. */
bool tokenizer_data_view(TensorFile *f, const TokenizerData *d, Error *err);

void tokenizer_data_free(TokenizerData *d); /* a zeroed one is fine */

#endif
