/* tokmake/vocab_draft.h: a tokenizer while it is made, and what the readers of the file formats share; nobody else includes it.
 *   vocab_draft.c    pieces, special tokens, settings; files that are read
 *   vocab_finish.c   the draft's metadata entry and tensors
 *   vocab_merges.c   merges by the spelling of their pieces
 *   vocab_tables.c   hash tables and tries of the model file
 *   byte_level.c     byte-level vocabularies: stand-ins of the bytes, split patterns by name
 *   charsmap_rules.c SentencePiece's precompiled_charsmap
 *   hf_files.c       which tokenizer a path holds; the small files beside it
 *   hf_json.c        tokenizer.json: model and added tokens; hf_steps.c: the parts around; regex_syntax.c: their patterns
 *   gguf_vocab.c     vocabularies of GGUF files; gguf_pre.c: how their texts are cut
 *   spm_model.c, rank_file.c, gpt2_files.c, llama2c_vocab.c: the other files */
#ifndef TOKMAKE_VOCAB_DRAFT_H
#define TOKMAKE_VOCAB_DRAFT_H

#include <string.h>
#include "base/byte_map.h"
#include "base/json.h"
#include "base/json_doc.h"
#include "tokmake/tokmake.h"

enum { DRAFT_LARGEST = 1 << 22 }; /* ids */

typedef enum DraftType { DRAFT_SPM, DRAFT_SPM_UNIGRAM, DRAFT_BPE, DRAFT_BPE_CHAR, DRAFT_UNIGRAM } DraftType;
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE }; /* SentencePiece's */

/* Special tokens: bits of VocabDraft.marks. */
enum { MARK_THERE = 1, MARK_LSTRIP = 2, MARK_RSTRIP = 4, MARK_SINGLE_WORD = 8, MARK_NORMALIZED = 16, MARK_SPECIAL = 32 };

typedef struct Text { const char *p; size_t n; } Text; /* not owned, no NUL behind it */

typedef struct IdArray { int32_t *id; size_t n, cap; } IdArray;
typedef struct Merge { uint32_t left, right, merged; } Merge;

typedef struct Setting { const char *key; char *json; } Setting;
enum { MOST_SETTINGS = 16 };

/* A trie in the model file's form. */
typedef struct TrieTable { uint32_t (*nodes)[3]; uint8_t *labels; size_t n; } TrieTable;

typedef struct CharsmapTable {
    TrieTable trie;      /* what is replaced, with the number of its replacement */
    char     *bytes;     /* the replacements, ascending                          */
    uint32_t *offsets;   /* [n + 1]                                              */
    size_t    n;
} CharsmapTable;

typedef struct VocabDraft {
    const char *file;    /* whose fault it is, in messages */
    DraftType   type;
    Text       *piece;   /* raw bytes by id */
    uint8_t    *types, *marks;
    double     *scores;
    size_t      size, cap;
    IdArray      indexed; /* the ids whose bytes can be looked up */
    Merge      *merges;
    size_t      n_merges, cap_merges;
    ByteMap     spelled; /* the base vocabulary as its file spells it, to ids */
    CharsmapTable charsmap;
    bool        has_charsmap;
    int32_t     bos, eos, unk;
    IdArray      prefix, suffix;
    Setting     setting[MOST_SETTINGS]; /* the other keys of the metadata object, in their order */
    size_t      n_settings;
    TextOut     warnings;
    const char *pattern; /* the option */
    JsonDoc     doc[8];  /* what was parsed: pieces and spellings point into them */
    size_t      n_docs;
    char       *held[8]; /* other texts that pieces point into */
    size_t      n_held;
    struct DraftChunk *chunk; /* and bytes of our own */
    char      **files;
    size_t      n_files;
    Error      *err;
} VocabDraft;

void draft_free(VocabDraft *d);

static inline bool is_sentencepiece_draft(const VocabDraft *d) { return d->type == DRAFT_SPM || d->type == DRAFT_SPM_UNIGRAM; }
static inline bool is_merging_draft(const VocabDraft *d) { return d->type == DRAFT_BPE || d->type == DRAFT_BPE_CHAR; }

/* ---- Pieces ---- */

bool draft_reserve(VocabDraft *d, size_t size);                 /* room for so many ids, before they come; SYSTEM */
bool draft_add(VocabDraft *d, int64_t id, Text piece, int type); /* at the end or in a hole; the bytes are not copied */
bool draft_index(VocabDraft *d, int32_t id);                    /* its bytes can be looked up */
char *draft_bytes(VocabDraft *d, size_t n);                     /* memory that lives as long as the draft; NULL: SYSTEM */
bool draft_copy(VocabDraft *d, Text *t);                        /* t becomes a copy of its bytes */
bool draft_merge(VocabDraft *d, Merge m);
int32_t draft_find(const VocabDraft *d, Text piece);            /* the first id with these bytes, -1 */
bool draft_byte_pieces(VocabDraft *d, bool *all);               /* <0xNN> become byte pieces; all or none, else INPUT */
bool draft_spell(VocabDraft *d, Text spelling, int32_t id);     /* the later of two equal ones holds */
bool id_list_add(IdArray *l, int32_t id, Error *err);

/* A token matched as a whole. The first word on an id holds, so that files may repeat each other. */
void draft_mark(VocabDraft *d, int32_t id, unsigned marks);

/* An added token {"content", "special", "lstrip" ...} by its own rules: a spelling that is there keeps its id. */
bool draft_add_token(VocabDraft *d, int64_t id, const JsonNode *entry, const ByteMap *spellings);
bool draft_add_plain_token(VocabDraft *d, int64_t id, Text content, bool special, unsigned marks, const ByteMap *spellings);
unsigned marks_of(const JsonNode *entry); /* lstrip, rstrip, single_word, normalized, special */

static inline bool text_is(Text a, Text b) { return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); }
#define TEXT(literal) ((Text){ "" literal, sizeof(literal) - 1 })
static inline Text node_bytes(const JsonNode *j) { return (Text){ j->text, j->n }; }
static inline bool is_kind(const JsonNode *j, NodeKind kind) { return j && j->kind == kind; }
#define SHOWN(t) ((t).n < 100 ? (int)(t).n : 100), (t).p /* for %.*s */

/* Merges one after the other; of two of one pair the later holds, or the first. */
typedef struct PairMap { struct PairSlot { uint64_t key; int32_t row; } *slot; size_t mask, n; HashSeed seed; } PairMap;
typedef struct MergeReader {
    VocabDraft         *d;
    const ByteMap *ids;   /* spellings of the vocabulary             */
    const char    *what;  /* "model.merges", for messages            */
    bool           first_holds;
    size_t         n;     /* merges so far                           */
    PairMap        seen;  /* the row of a pair                       */
    char          *scratch;
    size_t         cap;
} MergeReader;
bool merge_read(MergeReader *r, Text left, Text right);
bool merge_read_pair(MergeReader *r, Text spelled); /* "left right" */
void merge_reader_end(MergeReader *r);              /* in any case: makes d->merges whole, frees */

/* ---- Settings, warnings ---- */

bool draft_set(VocabDraft *d, const char *key, TextOut *value); /* takes value's text; SYSTEM */
bool draft_set_bool(VocabDraft *d, const char *key, bool value);
bool draft_has_setting(const VocabDraft *d, const char *key, const char *json);
void draft_set_split(TextOut *o, const char *regex, size_t n, const char *behavior, bool invert); /* a pretokenize step */

/* ---- Files ---- */

/* Read a file (at most 256 MB), kept as long as the draft. */
bool draft_read(VocabDraft *d, const char *path, Text *text);
bool draft_read_head(VocabDraft *d, const char *path, char head[256], size_t *n); /* its first bytes */
/* Parse a JSON object. path must live as long as the draft (draft_path). */
bool draft_read_object(VocabDraft *d, const char *path, const JsonNode **root);
bool draft_read_object_if_there(VocabDraft *d, const char *path, const JsonNode **root); /* *root NULL: there is no such file */
const char *draft_path(VocabDraft *d, const char *folder, const char *name);             /* NULL: SYSTEM */
const char *draft_folder(VocabDraft *d, const char *path);                               /* of a file */

/* node's member key, an object or array: *out; NULL where it is absent or null. INPUT where it is something else. */
bool draft_member(VocabDraft *d, const JsonNode *node, const char *key, NodeKind kind, const char *what, const JsonNode **out);

/* ---- Formats: each fills a zeroed draft (file, pattern and err set) ---- */

bool no_pattern(VocabDraft *d, const char *path);
bool hf_json_read(VocabDraft *d, const JsonNode *root);
bool hf_json_added_tokens(VocabDraft *d, const JsonNode *entries, const ByteMap *spellings, bool known);
bool draft_add_known(VocabDraft *d, int64_t id, const JsonNode *entry, const ByteMap *spellings);
bool hf_read_vocab(VocabDraft *d, const JsonNode *ids, const char *what);

bool hf_pre_tokenizer(VocabDraft *d, const JsonNode *node, TextOut *steps, bool *byte_level, bool *add_prefix_space);
bool hf_normalizer(VocabDraft *d, const JsonNode *node);
bool hf_decoder(VocabDraft *d, const JsonNode *node);
bool hf_post_processor(VocabDraft *d, const JsonNode *node);
bool regex_syntax_check(VocabDraft *d, const char *what, Text regex);

bool spm_model_looks_like(const char *head, size_t n);
bool spm_model_read(VocabDraft *d, const char *path);
bool rank_file_looks_like(const char *head, size_t n);
bool rank_file_read(VocabDraft *d, const char *path);
bool llama2c_vocab_looks_like(const char *head, size_t n);
bool llama2c_vocab_read(VocabDraft *d, const char *path);
bool gpt2_files_read(VocabDraft *d, const char *folder);

/* ---- Tables ---- */

/* A hash table of the model file: hashes in the order of insertion, values or (NULL) 0, 1, 2 ...; keys are distinct. */
bool table_make(const uint64_t *hashes, const int32_t *values, size_t n, int32_t **table, size_t *slots, Error *err);
bool trie_make(const Text *keys, const int32_t *values, size_t n, TrieTable *out, Error *err); /* distinct, not empty */
void trie_table_free(TrieTable *t);

/* ---- Byte level ---- */

/* The bytes that a vocabulary entry stands for, at most spelling.n of them; false: it holds a character that stands for none. */
bool byte_level_decode(Text spelling, char *out, size_t *n);
extern const char BYTE_LEVEL_GPT2[];                        /* ByteLevel's own split pattern */
bool byte_level_settings(VocabDraft *d, const char *pattern);    /* pretokenize, add_prefix_space, normalizer; INPUT: unknown name */
const char *byte_level_pattern(const char *name);           /* NULL: unknown */

bool byte_of(Text piece, char *byte); /* "<0x0A>" */
bool base64_decode(Text text, char *out, size_t *n); /* out: 3 bytes for each 4; false: no base64 */
bool charsmap_read(VocabDraft *d, Text blob, const char *what);

bool draft_finish(VocabDraft *d, TokenizerData *out);

#endif
