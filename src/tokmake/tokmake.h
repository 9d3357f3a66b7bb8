/* tokmake/tokmake.h: makes the tokenizer of a model file (docs/format.md, section Tokenizer) from what is published: the
 * metadata entry and the tensors tok.*, byte for byte those that tools/convert.py writes. Knows nothing of encoding: the
 * room text uses what is made here, from a file or from memory. */
#ifndef TOKMAKE_TOKMAKE_H
#define TOKMAKE_TOKMAKE_H

#include "format/gguf_meta.h"
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
    char           *path;      /* as given, for messages                                                      */
    char           *metadata;  /* the JSON text of the entry "tokenizer"; NULL: there is no tokenizer           */
    TokenizerTensor tensor[TOKENIZER_MOST_TENSORS]; /* in file order */
    int             n_tensors;
    char          **files;     /* every file that was read, in that order                                     */
    size_t          n_files;
    char           *warnings;  /* lines for the user, each with its newline; NULL: none                       */
} TokenizerData;

typedef struct TokenizerMakeOptions {
    const char *pattern;  /* how a text is split, for files that do not say it: gpt2, llama3, cl100k, o200k, qwen2; NULL */
    int32_t     bos, eos; /* of the model's config, taken where a folder's files name none; -1: none              */
} TokenizerMakeOptions;

/* From a folder, Hugging Face's (tokenizer.json, tokenizer.model, or vocab.json with merges.txt, in this order, and
 * what the small files beside them add: tokenizer_config.json, special_tokens_map.json, added_tokens.json), or from one file:
 * tokenizer.json, a SentencePiece model (BPE or unigram), tiktoken ranks (special_tokens.json beside), vocab.json
 * (merges.txt beside), tokenizer.bin of llama2.c. opt may be NULL. Where path holds no tokenizer: true, and
 * out->metadata is NULL. Errors: INPUT naming file, key, expected and found; USAGE for a pattern that is unknown or not
 * needed; SYSTEM. Memory: a small multiple of the files, each at most 256 MB. */
bool tokenizer_make(TokenizerData *out, const char *path, const TokenizerMakeOptions *opt, Error *err);

/* Do the first bytes of a file look like a SentencePiece model, tiktoken ranks or a tokenizer.bin? (JSON does not.) */
bool tokenizer_looks_like(const char *head, size_t n);

/* From the key-values of a GGUF file: models llama (SentencePiece BPE) and gpt2 (byte-level BPE, cut by the way that
 * tokenizer.ggml.pre names). Where the file has no vocabulary: true, and out->metadata is NULL. Errors: INPUT naming the key, also
 * for a model or a pre that is not known; SYSTEM. */
bool tokenizer_make_gguf(TokenizerData *out, const GgufMeta *meta, Error *err);

/* From merges that were trained (text/bpe_train.h): left, right and merged id; ids 0 .. 255 are the bytes, later ones come in order. pattern:
 * how a text is split, as in TokenizerMakeOptions. path: for messages. There are no special tokens. Errors: USAGE (pattern), SYSTEM. */
bool tokenizer_make_trained(TokenizerData *out, const char *path, const char *pattern, const int32_t (*merges)[3], size_t n_merges,
                            Error *err);

/* The value of "pretokenize" that such a tokenizer has: JSON; the caller frees. NULL: USAGE (pattern), SYSTEM. */
char *tokenizer_pretokenize_steps(const char *pattern, Error *err);

/* Lines, each with its newline, that name tokenizer files of a folder that are of a kind that is not read; NULL: none, or no
 * memory. The caller frees. */
char *tokenizer_files_not_read(const char *folder);

/* The same as an open model file: *f is for tokenizer_open, and is closed by tensor_file_close; d must outlive it. */
bool tokenizer_data_view(TensorFile *f, const TokenizerData *d, Error *err);

void tokenizer_data_free(TokenizerData *d); /* a zeroed one is accepted */

#endif
