/* model/config_keys.h: one table of the keys of a config (our field, its kind and range, its name
 * in other programs' files), and one reader for all of these files. Private to the readers of
 * configs: config_json.c in this room, and those of source/. */
#ifndef MODEL_CONFIG_KEYS_H
#define MODEL_CONFIG_KEYS_H

#include "base/json.h"
#include "format/gguf.h"
#include "model/config.h"

/* ---- The table ------------------------------------------------------------------------------- */

/* Bounds: with them every size of a model fits 62 bits, every row count and K fits an int with room
 * for padding, and an angle (position * inv_freq <= n_ctx) stays where math64_sincos is exact
 * enough. */
enum {
    MAX_WIDTH  = 1 << 20,  /* d_model, heads * head_dim  */
    MAX_FF     = 1 << 22,
    MAX_VOCAB  = 1 << 24,
    MAX_EXPERTS = 1 << 12,
    MAX_HEADS  = 1 << 14,
    MAX_HEAD   = 1 << 13,
    MAX_CTX    = 1 << 24
};

typedef enum KeyKind {
    KEY_INT,
    KEY_DOUBLE,
    KEY_BOOL,
    KEY_WORD,
    KEY_FAMILY,
    KEY_ROPE,
    KEY_EOS,
    KEY_LAYERS
} KeyKind;

enum {
    KEY_REQUIRED   = 1,  /* in our own JSON */
    KEY_SPARSE     = 2,  /* written only if it is not the default */
    KEY_OR_FALSE   = 4,  /* KEY_WORD: false is the first word, true the second */
    KEY_OF_EXPERTS = 8,  /* only with n_experts */
    KEY_PER_LAYER  = 16, /* a GGUF file may list it for each layer; all must be the same */
    KEY_OF_STATES  = 32, /* only with state_layers */
};

typedef struct ConfigKey {
    const char *name;         /* ours; NULL ends a table */
    KeyKind     kind;
    size_t      at;           /* offset in Config, or in Rope */
    double      min, max;     /* inclusive; KEY_INT and KEY_DOUBLE */
    unsigned    flags;
    /* their names; NULL: none. hf: spellings separated by "|"; gguf: without the architecture */
    const char *hf, *gguf, *meta;
    const char *const *words; /* KEY_WORD: spelling of each value of the enum, NULL-terminated */
    unsigned    types;        /* keys of rope: bit mask of the RopeTypes that have this key */
    /* keys of rope: the types that need it, in our JSON and in a Hugging Face config */
    unsigned    needed, hf_needed;
} ConfigKey;

extern const ConfigKey config_keys[]; /* in the order of docs/format.md */
extern const ConfigKey rope_keys[];
extern const char *const rope_type_words[], *const ffn_words[]; /* NULL ends */

/* The row of a field of Config. */
const ConfigKey *config_key_at(size_t at);

/* Bytes of a field that can be left out (KEY_SPARSE); does it have its default value? */
size_t config_key_size(const ConfigKey *key);
bool   config_key_default(const ConfigKey *key, const Config *c);

/* The value of an enum field (all are int-sized). */
int  config_word_get(const void *field);
void config_word_set(void *field, int value);

/* ---- The reader: config_reader.c ------------------------------------------------------------- */

/* KEY_LARGEST: other programs' sizes are read up to here. config_check rejects what is too large
 * for us, in the words of our own config. */
enum { KEYS_TAKEN = 96, KEY_WHAT = 4096 + 160, KEY_LARGEST = 1 << 24 };

/* The keys and values of a file: an object of JSON, or the metadata of a GGUF file. */
typedef struct KeyReader {
    const char     *path;              /* for messages */
    /* of the keys in messages ("rope."); GGUF: in the file too ("llama.") */
    const char     *prefix;
    const Json     *json;
    const GgufMeta *gguf;              /* else NULL */
    /* the object around json, if it holds some of the keys; or NULL */
    const Json     *outer;
    const char *const *of_outer;       /* those keys; NULL ends */
    const char     *taken[KEYS_TAKEN]; /* keys that were read */
    size_t          n_taken;
    char            what[KEY_WHAT];
    Error          *err;
} KeyReader;

/* "FILE: KEY" for messages, until the next call. */
const char *key_what(KeyReader *r, const char *name);

/* Fail with "FILE: KEY: " and the rest. Returns false. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
bool key_wrong(KeyReader *r, const char *name, const char *fmt, ...);

/* JSON: the value of a key, which counts as taken from here on. NULL: absent. */
const Json *key_take(KeyReader *r, const char *name);
/* The same for several spellings, separated by "|", which must agree. *found: the spelling that is
 * there, or names. A value of null counts only if no other spelling has a value. */
bool key_take_any(KeyReader *r, const char *names, const Json **out, const char **found);
/* The next key after `at` that was not taken; NULL: none. `at` NULL: from the first key on. */
const Json *key_left(const KeyReader *r, const Json *at);
/* A value as a message shows it: 3, 'gelu', an array. Returns buf. */
const char *key_found(const Json *j, char *buf, size_t n);
/* Are two values the same? Arrays and objects are the same only if both are empty. */
bool key_same(const Json *a, const Json *b);

/* GGUF: does the key exist? And its full name, "llama.context_length". */
enum { GGUF_NAME = 128 };
bool        key_there(const KeyReader *r, const char *name);
const char *gguf_name(const KeyReader *r, const char *name, char buf[GGUF_NAME]);

/* Read a value into a field. JSON: j is the value, name is for messages. GGUF: the value of name,
 * which must exist. */
bool key_int(KeyReader *r, const char *name, const Json *j, int min, int max, int *out);
bool key_size(KeyReader *r, const char *name, const Json *j, int *out);      /* 1 to KEY_LARGEST */
bool key_number(KeyReader *r, const char *name, const Json *j, double *out); /* any */
bool key_bool(KeyReader *r, const char *name, const Json *j, bool *out);

/* Read a number or flag (KEY_INT, KEY_DOUBLE, KEY_BOOL) into its field of base. JSON: in the range
 * of its row. GGUF: sizes up to KEY_LARGEST, any number. */
bool key_read(KeyReader *r, const ConfigKey *key, const char *name, const Json *j, void *base);

/* config_parse for a JSON text that is parsed already. */
bool config_parse_json(Config *c, const Json *root, const char *what, Error *err);

#endif
