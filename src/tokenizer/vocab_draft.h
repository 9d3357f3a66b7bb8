/* tokenizer/vocab_draft.h: a tokenizer of another format, being read. */
#ifndef TOKENIZER_VOCAB_DRAFT_H
#define TOKENIZER_VOCAB_DRAFT_H

#include <string.h>
#include "base/hash.h"
#include "base/json.h"
#include "tokenizer/tokmake.h"

/* ---- vocab_draft.c --------------------------------------------------------------------------- */

/* A tokenizer being built, and what the readers of file formats share. Only files of this room
 * include it.
 *   vocab_draft.c    pieces, special tokens, settings; reading files
 *   vocab_finish.c   the draft's metadata entry and tensors
 *   vocab_merges.c   merges, given by the spelling of their pieces
 *   vocab_tables.c   hash tables and tries of the model file
 *   byte_level.c     byte-level vocabularies: stand-ins of bytes, split patterns by name
 *   charsmap_rules.c SentencePiece's precompiled_charsmap
 *   hf_files.c       which tokenizer a path holds; the small files beside it
 *   hf_json.c        tokenizer.json: model and added tokens
 *   hf_steps.c       the parts around the model
 *   gguf_vocab.c     vocabularies of GGUF files; gguf_pre.c says how their texts are cut
 *   spm_model.c, rank_file.c, gpt2_files.c, llama2c_vocab.c: the other file formats */

enum { DRAFT_LARGEST = 1 << 22 }; /* ids are below this */

typedef enum DraftType {
    DRAFT_SPM,
    DRAFT_SPM_UNIGRAM,
    DRAFT_BPE,
    DRAFT_BPE_CHAR,
    DRAFT_UNIGRAM
} DraftType;
/* The numbers are SentencePiece's. */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE };

/* Bits of VocabDraft.marks, for special tokens. */
enum {
    MARK_THERE = 1,
    MARK_LSTRIP = 2,
    MARK_RSTRIP = 4,
    MARK_SINGLE_WORD = 8,
    MARK_NORMALIZED = 16,
    MARK_SPECIAL = 32
};

typedef struct Text { const char *p; size_t n; } Text; /* not owned, no NUL at the end */

typedef struct IdArray { int32_t *id; size_t n, cap; } IdArray;
typedef struct Merge { uint32_t left, right, merged; } Merge;

typedef struct Setting { const char *key; char *json; } Setting;
enum { MOST_SETTINGS = 16 };

/* A trie as the model file stores it. */
typedef struct TrieTable { uint32_t (*nodes)[3]; uint8_t *labels; size_t n; } TrieTable;

typedef struct CharsmapTable {
    TrieTable trie;      /* replaced strings; the value is the number of the replacement */
    char     *bytes;     /* the replacements, ascending                                  */
    uint32_t *offsets;   /* [n + 1]                                                      */
    size_t    n;
} CharsmapTable;

typedef struct VocabDraft {
    const char *file;    /* named in messages */
    DraftType   type;
    Text       *piece;   /* raw bytes by id */
    Text       *sought;  /* how a text spells a special token, by id; n 0: its piece */
    uint8_t    *types, *marks;
    double     *scores;
    size_t      size, cap;
    IdArray      indexed; /* ids that are found by their bytes */
    Merge      *merges;
    size_t      n_merges, cap_merges;
    ByteMap     spelled; /* base vocabulary: spelling in its file to id */
    CharsmapTable charsmap;
    bool        has_charsmap;
    int32_t     bos, eos, unk;
    IdArray      prefix, suffix;
    /* The other keys of the metadata object, in their order. */
    Setting     setting[MOST_SETTINGS];
    size_t      n_settings;
    TextOut     warnings;
    const char *pattern; /* the split pattern that the user named */
    JsonDoc     doc[8];  /* parsed files; pieces and spellings point into them */
    size_t      n_docs;
    char       *held[8]; /* other texts that pieces point into */
    size_t      n_held;
    struct DraftChunk *chunk; /* memory of draft_bytes */
    char      **files;
    size_t      n_files;
    Error      *err;
} VocabDraft;

/* Free what the draft owns. A zeroed one is fine. */
void draft_free(VocabDraft *d);

static inline bool is_sentencepiece_draft(const VocabDraft *d)
{
    return d->type == DRAFT_SPM || d->type == DRAFT_SPM_UNIGRAM;
}
static inline bool is_merging_draft(const VocabDraft *d)
{
    return d->type == DRAFT_BPE || d->type == DRAFT_BPE_CHAR;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

bool draft_reserve(VocabDraft *d, size_t size);                 /* room for that many ids; SYSTEM */
/* Add a piece at the end or in a hole. The bytes are not copied. Errors: INPUT (the id), SYSTEM. */
bool draft_add(VocabDraft *d, int64_t id, Text piece, int type);
/* From now on, the bytes of id can be looked up. */
bool draft_index(VocabDraft *d, int32_t id);
/* Memory that lives as long as the draft; NULL: SYSTEM. */
char *draft_bytes(VocabDraft *d, size_t n);
/* Replace *t by a copy of its bytes. */
bool draft_copy(VocabDraft *d, Text *t);
/* Append a merge. Errors: INPUT (too many), SYSTEM. */
bool draft_merge(VocabDraft *d, Merge m);
/* First id with these bytes; -1: none. */
int32_t draft_find(const VocabDraft *d, Text piece);
/* Turn <0xNN> into byte pieces. *all: are they there? All 256 or none must be; else INPUT. */
bool draft_byte_pieces(VocabDraft *d, bool *all);
/* Note how the file spells id. Of two equal spellings, the later counts. */
bool draft_spell(VocabDraft *d, Text spelling, int32_t id);
/* Append an id; the list is freed with free(l->id). False: SYSTEM. */
bool id_list_add(IdArray *l, int32_t id, Error *err);

/* Mark id as a token that is matched as a whole. Only an id's first marks count, so files may
 * repeat each other. */
void draft_mark(VocabDraft *d, int32_t id, unsigned marks);

/* Add a token that stands for bytes and is also matched as a whole if a text has its spelling: an
 * added token that is spelled like a piece, such as U+00E9, the stand-in of byte 0xE9. */
bool draft_add_spelled(VocabDraft *d, int64_t id, Text piece, Text spelling, unsigned marks);
/* Add a token {"content", "special", "lstrip" ...}, which is matched by rules of its own. If
 * `spellings` has its text already, the token keeps that id. Errors: INPUT, SYSTEM. */
bool draft_add_token(VocabDraft *d, int64_t id, const JsonNode *entry, const ByteMap *spellings);
/* The same for a token that is not in JSON. */
bool draft_add_plain_token(VocabDraft *d, int64_t id, Text content, bool special, unsigned marks,
                           const ByteMap *spellings);
unsigned marks_of(const JsonNode *entry); /* bits for lstrip, rstrip, single_word ... */

static inline bool text_is(Text a, Text b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
#define TEXT(literal) ((Text){ "" literal, sizeof(literal) - 1 })
static inline Text node_bytes(const JsonNode *j) { return (Text){ j->text, j->n }; }
static inline bool is_kind(const JsonNode *j, NodeKind kind) { return j && j->kind == kind; }
#define SHOWN(t) ((t).n < 100 ? (int)(t).n : 100), (t).p /* for %.*s */

/* Reads merges one after the other. Of two merges of one pair, the later counts (with first_holds,
 * the first). */
typedef struct PairMap { struct PairSlot {
    uint64_t key; int32_t row; } *slot; size_t mask, n; HashSeed seed;
} PairMap;
typedef struct MergeReader {
    VocabDraft         *d;
    const ByteMap *ids;   /* spellings of the vocabulary, to ids */
    const char    *what;  /* "model.merges", for messages        */
    bool           first_holds;
    size_t         n;     /* entries read so far                */
    PairMap        seen;  /* (left, right) to the row of merges */
    char          *scratch;
    size_t         cap;
} MergeReader;
/* Read one merge, given as two spellings or as "left right". Errors: INPUT (a piece that is not in
 * the vocabulary), SYSTEM. */
bool merge_read(MergeReader *r, Text left, Text right);
bool merge_read_pair(MergeReader *r, Text spelled);
/* Always call this: it removes the rows that do not count, and frees memory. */
void merge_reader_end(MergeReader *r);

/* ---- Settings, warnings ---------------------------------------------------------------------- */

/* Set a key of the metadata object to JSON; takes ownership of value's text. Errors: SYSTEM. */
bool draft_set(VocabDraft *d, const char *key, TextOut *value);
bool draft_set_bool(VocabDraft *d, const char *key, bool value);
/* Has this key been set to exactly this JSON? */
bool draft_has_setting(const VocabDraft *d, const char *key, const char *json);
/* Append a pretokenize step to a list. */
void draft_set_split(TextOut *o, const char *regex, size_t n, const char *behavior, bool invert);

/* ---- Files ----------------------------------------------------------------------------------- */

/* Read a file of at most 256 MB. The text lives as long as the draft. */
bool draft_read(VocabDraft *d, const char *path, Text *text);
/* Read the first bytes of a file. */
bool draft_read_head(VocabDraft *d, const char *path, char head[256], size_t *n);
/* Parse a file that is a JSON object. path must live as long as the draft (draft_path). */
bool draft_read_object(VocabDraft *d, const char *path, const JsonNode **root);
/* The same, but *root is NULL if there is no such file. */
bool draft_read_object_if_there(VocabDraft *d, const char *path, const JsonNode **root);
/* folder/name; NULL: SYSTEM. */
const char *draft_path(VocabDraft *d, const char *folder, const char *name);
/* The folder of a file; NULL: SYSTEM. */
const char *draft_folder(VocabDraft *d, const char *path);

/* Fail with INPUT: "FILE: ", the text, ", found " and j. Returns false. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
bool draft_expected(VocabDraft *d, const JsonNode *j, const char *form, ...);

/* Find member `key` of node, which must be of `kind` (object or array). *out is NULL if it is
 * absent or null. INPUT if it is something else. */
bool draft_member(VocabDraft *d, const JsonNode *node, const char *key, NodeKind kind,
                  const char *what, const JsonNode **out);

/* ---- Formats: each reader fills a zeroed draft; file, pattern and err are set ---------------- */

/* Reject a split pattern from the user if the file has its own (USAGE). */
bool no_pattern(VocabDraft *d, const char *path);

/* Read a whole tokenizer.json; only its added tokens (known: with draft_add_known). Errors: INPUT,
 * SYSTEM. */
bool hf_json_read(VocabDraft *d, const JsonNode *root);
bool hf_json_added_tokens(VocabDraft *d, const JsonNode *entries, const ByteMap *spellings,
                          bool known);
/* As draft_add_token. But if a SentencePiece draft has the token under this id already, the piece
 * keeps its type and is only marked. */
bool draft_add_known(VocabDraft *d, int64_t id, const JsonNode *entry, const ByteMap *spellings);
/* Read a vocabulary {spelling: id}. what comes before an entry in messages. */
bool hf_read_vocab(VocabDraft *d, const JsonNode *ids, const char *what);

/* The parts of a tokenizer.json around its model, in hf_steps.c. Errors: INPUT, SYSTEM. */
bool hf_pre_tokenizer(VocabDraft *d, const JsonNode *node, TextOut *steps, bool *byte_level,
                      bool *add_prefix_space);
bool hf_normalizer(VocabDraft *d, const JsonNode *node);
bool hf_decoder(VocabDraft *d, const JsonNode *node);
bool hf_post_processor(VocabDraft *d, const JsonNode *node);

/* X_looks_like: could a file that begins with head[0 .. n) have this format? X_read reads it.
 * Errors: INPUT, SYSTEM. */
bool spm_model_looks_like(const char *head, size_t n);
bool spm_model_read(VocabDraft *d, const char *path);
bool rank_file_looks_like(const char *head, size_t n);
bool rank_file_read(VocabDraft *d, const char *path);
bool llama2c_vocab_looks_like(const char *head, size_t n);
bool llama2c_vocab_read(VocabDraft *d, const char *path);
bool gpt2_files_read(VocabDraft *d, const char *folder);

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Make a hash table of the model file. Hashes come in the order of insertion and their keys are
 * distinct. values NULL: 0, 1, 2 ... The caller frees *table. Errors: SYSTEM. */
bool table_make(const uint64_t *hashes, const int32_t *values, size_t n, int32_t **table,
                size_t *slots, Error *err);
/* The keys are distinct and not empty. Free with trie_table_free. Errors: SYSTEM. */
bool trie_make(const Text *keys, const int32_t *values, size_t n, TrieTable *out, Error *err);
void trie_table_free(TrieTable *t);

/* ---- Byte level ------------------------------------------------------------------------------ */

/* The bytes that a vocabulary entry stands for, at most spelling.n of them. False: it holds a
 * character that stands for no byte. */
bool byte_level_decode(Text spelling, char *out, size_t *n);
/* The split pattern of ByteLevel itself. */
extern const char BYTE_LEVEL_GPT2[];
/* Set pretokenize, add_prefix_space and normalizer for a named pattern. USAGE: unknown name. */
bool byte_level_settings(VocabDraft *d, const char *pattern);
const char *byte_level_pattern(const char *name);           /* NULL: unknown name */

bool byte_of(Text piece, char *byte); /* "<0x0A>" to its byte */
/* out: 3 bytes for each 4 of text. False: not base64. */
bool base64_decode(Text text, char *out, size_t *n);
/* Read a precompiled_charsmap into d->charsmap. Errors: INPUT, SYSTEM. */
bool charsmap_read(VocabDraft *d, Text blob, const char *what);

/* Turn the draft into the metadata entry and the tensors of out. Errors: SYSTEM. */
bool draft_finish(VocabDraft *d, TokenizerData *out);

/* ---- gguf_pre.c ------------------------------------------------------------------------------ */

/* The settings of a byte-level vocabulary by its name in tokenizer.ggml.pre. */

/* Set pretokenize, ignore_merges and normalizer. *add_bos becomes the default for files that do not
 * say whether BOS is added. Errors: INPUT (an unknown name), SYSTEM. */
bool gguf_pre_settings(VocabDraft *d, Text name, bool *add_bos);

#endif
