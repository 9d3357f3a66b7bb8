/* Opens a tokenizer: reads the metadata entry, opens the tables, and builds the sets of special
 * tokens and user-defined symbols. */
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unicode.h"

enum { MOST_TEMPLATE_IDS = 64 };

/* ---- The metadata entry ---------------------------------------------------------------------- */

static const char *const TYPE[TOKENIZER_TYPES] = { "spm", "spm_unigram", "bpe", "bpe_char",
                                                   "unigram" };

typedef struct TokenizerReader {
    Tokenizer        *t;
    const TensorFile *file;
    const char       *what; /* "model.bin: tokenizer": begins every message */
    Error            *err;
} TokenizerReader;

static bool read_id(TokenizerReader *r, const Json *j, const char *name, int32_t least,
                    int32_t *out)
{
    int64_t id;
    if (!json_read_int(j, name, least, r->t->vocab.size - 1, &id, r->err))
        return false;
    *out = (int32_t)id;
    return true;
}

static bool read_ids(TokenizerReader *r, const Json *j, const char *name, int32_t **ids, size_t *n)
{
    size_t count = json_count(j);
    if (!json_is_array(j) || count > MOST_TEMPLATE_IDS)
        return fail(r->err, INPUT, "%s: expected an array of at most %d ids, found %s of %zu", name,
                    MOST_TEMPLATE_IDS, json_kind(j), count);
    *ids = malloc((count + 1) * sizeof **ids);
    if (!*ids)
        return no_memory(name, r->err);
    for (const Json *i = json_first(j); i; i = json_next(i), (*n)++)
        if (!read_id(r, i, name, 0, *ids + *n))
            return false;
    return true;
}

static bool read_special_token(TokenizerReader *r, const Json *j, const char *name,
                               SpecialToken *out)
{
    *out = (SpecialToken){ .id = -1, .special = true };
    if (!json_is_object(j))
        return fail(r->err, INPUT, "%s: expected an object, found %s", name, json_kind(j));
    for (const Json *i = json_first(j); i; i = json_next(i)) {
        const char *key = json_key(i);
        char        key_name[512];
        snprintf(key_name, sizeof key_name, "%.420s: %.64s", name, key);
        bool *flag = strcmp(key, "lstrip") == 0        ? &out->lstrip
                     : strcmp(key, "rstrip") == 0      ? &out->rstrip
                     : strcmp(key, "single_word") == 0 ? &out->single_word
                     : strcmp(key, "normalized") == 0  ? &out->normalized
                     : strcmp(key, "special") == 0     ? &out->special
                                                       : NULL;
        bool text = r->t->type == BPE && strcmp(key, "text") == 0;
        if (strcmp(key, "id") != 0 && !flag && !text)
            return fail(r->err, INPUT, "%s: unknown key", key_name);
        if (text   ? !json_copy_string(i, key_name, SIZE_MAX, &out->text, r->err)
            : flag ? !json_read_bool(i, key_name, flag, r->err)
                 : !read_id(r, i, key_name, 0, &out->id))
            return false;
    }
    return out->id >= 0 || fail(r->err, INPUT, "%s: expected an id, found none", name);
}

static bool read_special(TokenizerReader *r, const Json *j, const char *name)
{
    Tokenizer *t = r->t;
    if (!json_is_array(j))
        return fail(r->err, INPUT, "%s: expected an array, found %s", name, json_kind(j));
    t->special = calloc(json_count(j) + 1, sizeof *t->special);
    if (!t->special)
        return no_memory(name, r->err);
    for (const Json *i = json_first(j); i; i = json_next(i)) {
        char item[512];
        snprintf(item, sizeof item, "%.400s: entry %zu", name, t->n_special);
        if (!read_special_token(r, i, item, &t->special[t->n_special++])) /* counts if it fails */
            return false;
    }
    return true;
}

static bool read_decode_strip(TokenizerReader *r, const Json *j, const char *name)
{
    const char *text;
    if (!json_read_string(j, name, &text, r->err))
        return false;
    r->t->decode_strip = strcmp(text, "space") == 0 ? STRIP_SPACE
        : strcmp(text, "first_piece") == 0          ? STRIP_FIRST_PIECE
                                                    : STRIP_NONE;
    return r->t->decode_strip
        || fail(r->err, INPUT, "%s: expected 'space' or 'first_piece', found '%s'", name, text);
}

enum {
    SP = 1 << SPM | 1 << SPM_UNIGRAM,
    JSON_BPE = 1 << BPE | 1 << BPE_CHAR,
    JSON_ALL = JSON_BPE | 1 << UNIGRAM
};

/* The flag called `key`, or NULL if this type of tokenizer has no such flag. */
static bool *flag_of(Tokenizer *t, const char *key)
{
    const struct { const char *key; int types; bool *flag; } row[] = {
        { "add_dummy_prefix", SP, &t->add_dummy_prefix },
        { "remove_extra_whitespaces", SP, &t->remove_extra_whitespaces },
        { "escape_whitespaces", SP, &t->escape_whitespaces },
        { "charsmap", SP, &t->has_charsmap },
        { "byte_fallback", SP | 1 << BPE_CHAR | 1 << UNIGRAM, &t->byte_fallback },
        { "fuse_unk", 1 << BPE_CHAR, &t->fuse_unk },
        { "drop_unknown", JSON_BPE, &t->drop_unknown },
        { "add_prefix_space", 1 << BPE, &t->add_prefix_space },
        { "ignore_merges", JSON_BPE, &t->ignore_merges },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (row[i].types & 1 << t->type && strcmp(key, row[i].key) == 0)
            return row[i].flag;
    return NULL;
}

static bool read_key(TokenizerReader *r, const char *key, const Json *j)
{
    Tokenizer *t = r->t;
    int32_t    checked_only;
    char       name[512];
    snprintf(name, sizeof name, "%.420s: %.64s", r->what, key);
    if (strcmp(key, "type") == 0 || strcmp(key, "size") == 0)
        return true; /* read_type and read_metadata took them */
    if (strcmp(key, "bos") == 0 || strcmp(key, "eos") == 0)
        /* The model's config has them too. Text needs only the template, so they are checked and
         * ignored. */
        return read_id(r, j, name, -1, &checked_only);
    if (strcmp(key, "unk") == 0)
        return read_id(r, j, name, -1, &t->unk);
    if (strcmp(key, "prefix") == 0)
        return read_ids(r, j, name, &t->prefix, &t->n_prefix);
    if (strcmp(key, "suffix") == 0)
        return read_ids(r, j, name, &t->suffix, &t->n_suffix);
    if (strcmp(key, "special") == 0)
        return read_special(r, j, name);
    bool json = (JSON_ALL & 1 << t->type) != 0;
    if (json && strcmp(key, "pretokenize") == 0)
        return pretokenizer_open(&t->pretokenizer, j, name, r->err);
    if (json && strcmp(key, "normalizer") == 0)
        return normalizer_open(&t->normalizer, j, r->file, name, r->err);
    if (json && t->type != BPE && strcmp(key, "decode_strip") == 0)
        return read_decode_strip(r, j, name);
    if (!json && strcmp(key, "unk_surface") == 0)
        return json_copy_string(j, name, SIZE_MAX, &t->unk_surface, r->err);
    bool *flag = flag_of(t, key);
    if (!flag)
        return fail(r->err, INPUT, "%s: unknown key in a tokenizer of type %s", name,
                    TYPE[t->type]);
    return json_read_bool(j, name, flag, r->err);
}

static bool read_type(Tokenizer *t, const Json *j, const char *name, Error *err)
{
    const char *type = NULL;
    if (!json_read_string(j, name, &type, err))
        return false;
    for (int i = 0; i < TOKENIZER_TYPES; i++)
        if (strcmp(type, TYPE[i]) == 0) {
            t->type = (TokenizerType)i;
            return true;
        }
    return fail(err, INPUT, "%s: expected spm, spm_unigram, bpe, bpe_char or unigram, found '%s'",
                name, type);
}

static bool read_metadata(Tokenizer *t, const TensorFile *f, const Json *j, const char *what,
                          Error *err)
{
    static const enum VocabKind kind[TOKENIZER_TYPES] = { VOCAB_SCORES, VOCAB_TRIE, VOCAB_MERGES,
                                                          VOCAB_MERGES, VOCAB_TRIE };
    TokenizerReader  r = { t, f, what, err };
    int64_t size;
    char    name[512];
    if (!json_is_object(j))
        return fail(err, INPUT, "%s: expected an object, found %s", what, json_kind(j));
    snprintf(name, sizeof name, "%.400s: type", what);
    if (!read_type(t, json_get(j, "type"), name, err))
        return false;
    snprintf(name, sizeof name, "%.400s: size", what);
    if (!json_read_int(json_get(j, "size"), name, 1, INT32_MAX - 1, &size, err))
        return false;
    if (!vocab_open(&t->vocab, f, kind[t->type], t->type != BPE, (int)size, err))
        return false;
    t->add_dummy_prefix = t->remove_extra_whitespaces = t->escape_whitespaces = is_sentencepiece(t);
    for (const Json *i = json_first(j); i; i = json_next(i))
        if (!read_key(&r, json_key(i), i))
            return false;
    if (t->has_charsmap && !charsmap_open(&t->charsmap, f, err))
        return false;
    return is_sentencepiece(t) || t->pretokenizer
        || fail(err, INPUT, "%s: pretokenize: expected an array, found nothing", what);
}

/* ---- Tables made from it --------------------------------------------------------------------- */

/* Normalize a special token that is searched in normalized text. */
static bool normalize_pattern(const Tokenizer *t, SpecialToken *s, const char **bytes, size_t *n,
                              Error *err)
{
    TextOut   out = { 0 }, scratch = { 0 };
    RegexRun *run = NULL;
    size_t    budget = normalizer_budget(*n);
    bool ok = regex_begin(&run, err)
        && normalizer_run(t->normalizer, run, *bytes, *n, &out, &scratch, &budget, err);
    regex_end(run);
    free(scratch.text);
    s->pattern = out.text;
    *bytes = out.text;
    *n     = out.n;
    return ok;
}

static bool index_special(Tokenizer *t, const char *what, Error *err)
{
    for (size_t i = 0; i < t->n_special; i++) {
        SpecialToken *s = &t->special[i];
        size_t      n;
        const char *bytes = vocab_bytes(&t->vocab, s->id, &n);
        if (n && s->text) {
            bytes = s->text;
            n     = strlen(bytes);
        }
        if (n == 0)
            return fail(
                err, INPUT,
                "%s: special: entry %zu: expected a piece with bytes, found an empty one (id %d)",
                what, i, s->id);
        if (s->normalized && t->normalizer && !normalize_pattern(t, s, &bytes, &n, err))
            return false;
        PieceSet *set = t->special_set[s->normalized];
        if (n
            && (!piece_set_add(&set[true], bytes, n, (int32_t)i, err)
                || (!s->special && !piece_set_add(&set[false], bytes, n, (int32_t)i, err))))
            return false;
    }
    for (int i = 0; i < 4; i++)
        piece_set_sort(&t->special_set[i / 2][i % 2]);
    return true;
}

/* Does p have a U+2581 that follows another character? */
static bool has_inner_space(const char *p, size_t n)
{
    const char *at = p, *end = p + n;
    while ((at = memchr(at, (unsigned char)META_SPACE[0], (size_t)(end - at))) != NULL) {
        size_t before = (size_t)(at - p);
        if ((size_t)(end - at) >= META_SPACE_BYTES && memcmp(at, META_SPACE, META_SPACE_BYTES) == 0
            && before
            && (before < META_SPACE_BYTES
                || memcmp(at - META_SPACE_BYTES, META_SPACE, META_SPACE_BYTES) != 0))
            return true;
        at++;
    }
    return false;
}

static bool index_pieces(Tokenizer *t, const char *what, Error *err)
{
    const Vocab *v = &t->vocab;
    bool spm = is_sentencepiece(t);
    t->splits_at_space =
        t->type == SPM || (t->type == BPE_CHAR && vocab_find(v, META_SPACE, META_SPACE_BYTES) >= 0);
    for (int i = 0; t->type != BPE && i < v->size; i++) {
        size_t n;
        const char *bytes = vocab_bytes(v, i, &n);
        if (v->types[i] != PIECE_NORMAL && v->types[i] != PIECE_USER_DEFINED
            && v->types[i] != PIECE_UNUSED)
            continue;
        t->has_unused |= v->types[i] == PIECE_UNUSED;
        if (t->splits_at_space && has_inner_space(bytes, n))
            t->splits_at_space = false;
        if (spm && v->types[i] == PIECE_USER_DEFINED && n
            && !piece_set_add(&t->user_defined, bytes, n, i, err))
            return false;
    }
    piece_set_sort(&t->user_defined);
    for (int b = 0; t->byte_fallback && b < 256; b++)
        if (v->byte_id[b] < 0)
            return fail(
                err, INPUT,
                "%s: byte_fallback: expected a byte piece for each byte, found none for 0x%02x",
                what, b);
    if (is_unigram(t))
        unigram_prepare(t);
    return true;
}

bool tokenizer_open(Tokenizer **out, const TensorFile *f, Error *err)
{
    *out = NULL;
    const char *text = tensor_meta(f, "tokenizer");
    if (!text)
        return fail(err, INPUT, "%s: the file has no tokenizer", f->map.path);
    char what[512];
    snprintf(what, sizeof what, "%.380s: tokenizer", f->map.path);
    Tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return no_memory(what, err);
    t->unk = -1;
    t->unk_surface = strdup(" \xE2\x81\x87 ");
    if (!t->unk_surface) {
        free(t);
        return no_memory(what, err);
    }
    Json *j = json_parse(text, strlen(text), what, err);
    bool  ok = j && read_metadata(t, f, j, what, err) && index_special(t, what, err)
        && index_pieces(t, what, err);
    json_free(j);
    if (!ok) {
        tokenizer_free(t);
        return false;
    }
    *out = t;
    return true;
}

void tokenizer_free(Tokenizer *t)
{
    if (!t)
        return;
    for (int i = 0; i < 4; i++)
        piece_set_free(&t->special_set[i / 2][i % 2]);
    piece_set_free(&t->user_defined);
    for (size_t i = 0; i < t->n_special; i++) {
        free(t->special[i].text);
        free(t->special[i].pattern);
    }
    normalizer_free(t->normalizer);
    pretokenizer_free(t->pretokenizer);
    free(t->prefix);
    free(t->suffix);
    free(t->special);
    free(t->unk_surface);
    free(t);
}

int tokenizer_size(const Tokenizer *t) { return t->vocab.size; }

bool tokenizer_piece(const Tokenizer *t, int id, const char **bytes, size_t *n_bytes)
{
    if (id < 0 || id >= t->vocab.size)
        return false;
    *bytes = vocab_bytes(&t->vocab, id, n_bytes);
    return true;
}

int tokenizer_piece_type(const Tokenizer *t, int id) { return t->vocab.types[id]; }

TokenizerFacts tokenizer_facts(const Tokenizer *t)
{
    return (TokenizerFacts){ TYPE[t->type], t->unk,      t->prefix,
                             t->suffix,     t->n_prefix, t->n_suffix };
}
