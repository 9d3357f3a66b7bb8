/* The draft: owns the memory of pieces, collects pieces, tokens and settings, and reads files. */
#include "tokenizer/vocab_draft.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "format/bytes.h"

enum { LARGEST_FILE = 256 << 20, CHUNK = 1 << 20 };

/* ---- Memory ---------------------------------------------------------------------------------- */

typedef struct DraftChunk {
    struct DraftChunk *before;
    size_t             used, size;
    char               bytes[];
} DraftChunk;

char *draft_bytes(VocabDraft *d, size_t n)
{
    if (!d->chunk || d->chunk->size - d->chunk->used < n) {
        size_t      size = n > CHUNK ? n : CHUNK;
        DraftChunk *c = n < SIZE_MAX / 2 ? malloc(sizeof *c + size) : NULL;
        if (!c) {
            fail(d->err, SYSTEM, "%s: out of memory for %zu bytes", d->file, n);
            return NULL;
        }
        *c = (DraftChunk){ .before = d->chunk, .size = size };
        d->chunk = c;
    }
    char *p = d->chunk->bytes + d->chunk->used;
    d->chunk->used += n;
    return p;
}

bool draft_copy(VocabDraft *d, Text *t)
{
    char *copy = draft_bytes(d, t->n + 1);
    if (!copy)
        return false;
    if (t->n)
        memcpy(copy, t->p, t->n);
    copy[t->n] = 0;
    t->p = copy;
    return true;
}

void draft_free(VocabDraft *d)
{
    for (size_t i = 0; i < d->n_docs; i++)
        json_doc_free(&d->doc[i]);
    for (size_t i = 0; i < d->n_held; i++)
        free(d->held[i]);
    for (size_t i = 0; i < d->n_settings; i++)
        free(d->setting[i].json);
    for (size_t i = 0; i < d->n_files; i++)
        free(d->files[i]);
    for (DraftChunk *c = d->chunk, *before; c; c = before) {
        before = c->before;
        free(c);
    }
    byte_map_free(&d->spelled);
    trie_table_free(&d->charsmap.trie);
    free(d->charsmap.bytes);
    free(d->charsmap.offsets);
    free(d->piece);
    free(d->sought);
    free(d->types);
    free(d->marks);
    free(d->scores);
    free(d->indexed.id);
    free(d->merges);
    free(d->prefix.id);
    free(d->suffix.id);
    text_out_free(&d->warnings);
    free(d->files);
    *d = (VocabDraft){ 0 };
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static bool grow(void *array, size_t n, size_t item)
{
    void **p = array, *grown = realloc(*p, n * item);
    if (grown)
        *p = grown;
    return grown != NULL;
}

bool draft_reserve(VocabDraft *d, size_t size)
{
    if (size <= d->cap)
        return true;
    /* This is far from overflow, since ids are bounded. */
    size_t cap = size < 2 * d->cap ? 2 * d->cap : size < 256 ? 256 : size;
    if (!grow(&d->piece, cap, sizeof *d->piece) || !grow(&d->sought, cap, sizeof *d->sought)
        || !grow(&d->types, cap, 1)
        || !grow(&d->marks, cap, 1) || !grow(&d->scores, cap, sizeof *d->scores))
        return fail(d->err, SYSTEM, "%s: out of memory for %zu tokens", d->file, cap);
    d->cap = cap;
    return true;
}

bool draft_add(VocabDraft *d, int64_t id, Text piece, int type)
{
    if (id < 0 || id >= DRAFT_LARGEST)
        return fail(d->err, INPUT, "%s: token id: expected 0 to %d, found %lld ('%.*s')", d->file,
                    DRAFT_LARGEST - 1, (long long)id, SHOWN(piece));
    if (!draft_reserve(d, (size_t)id + 1))
        return false;
    for (; d->size <= (size_t)id; d->size++) {
        d->piece[d->size]  = d->sought[d->size] = (Text){ "", 0 };
        d->types[d->size]  = TYPE_UNUSED;
        d->marks[d->size]  = 0;
        d->scores[d->size] = 0;
    }
    d->piece[id] = piece;
    d->types[id] = (uint8_t)type;
    return true;
}

bool id_list_add(IdArray *l, int32_t id, Error *err)
{
    if (!ARRAY_ROOM(l->id, l->cap, l->n + 1))
        return fail(err, SYSTEM, "out of memory for %zu ids", l->n + 1);
    l->id[l->n++] = id;
    return true;
}

bool draft_index(VocabDraft *d, int32_t id) { return id_list_add(&d->indexed, id, d->err); }

bool draft_merge(VocabDraft *d, Merge m)
{
    if (d->n_merges == INT32_MAX)
        return fail(d->err, INPUT, "%s: expected at most %d merges, found more", d->file,
                    INT32_MAX);
    if (!ARRAY_ROOM(d->merges, d->cap_merges, d->n_merges + 1))
        return fail(d->err, SYSTEM, "%s: out of memory for %zu merges", d->file, d->n_merges + 1);
    d->merges[d->n_merges++] = m;
    return true;
}

int32_t draft_find(const VocabDraft *d, Text piece)
{
    for (size_t i = 0; piece.n && i < d->size; i++)
        if (text_is(d->piece[i], piece))
            return (int32_t)i;
    return -1;
}

bool draft_spell(VocabDraft *d, Text spelling, int32_t id)
{
    bool     found;
    int32_t *value = byte_map_put(&d->spelled, spelling.p, spelling.n, id, &found, d->err);
    if (value)
        *value = id;
    return value != NULL;
}

bool byte_of(Text piece, char *byte)
{
    if (piece.n != 6 || memcmp(piece.p, "<0x", 3) != 0 || piece.p[5] != '>')
        return false;
    int high = hex_digit(piece.p[3]), low = hex_digit(piece.p[4]);
    if (high < 0 || low < 0)
        return false;
    *byte = (char)(high << 4 | low);
    return true;
}

bool draft_byte_pieces(VocabDraft *d, bool *all)
{
    int32_t id[256];
    size_t  n = 0;
    memset(id, -1, sizeof id);
    for (size_t i = 0; i < d->size; i++) {
        char byte;
        if (byte_of(d->piece[i], &byte) && id[(unsigned char)byte] < 0) {
            id[(unsigned char)byte] = (int32_t)i;
            n++;
        }
    }
    *all = n == 256;
    if (n && n < 256)
        return fail(d->err, INPUT, "%s: byte_fallback: expected 256 byte pieces <0xNN>, found %zu",
                    d->file, n);
    for (int b = 0; n && b < 256; b++) {
        char *byte = draft_bytes(d, 1);
        if (!byte)
            return false;
        *byte = (char)b;
        if (!draft_add(d, id[b], (Text){ byte, 1 }, TYPE_BYTE))
            return false;
    }
    return true;
}

/* ---- Special and added tokens ---------------------------------------------------------------- */

void draft_mark(VocabDraft *d, int32_t id, unsigned marks)
{
    if (!(d->marks[id] & MARK_THERE))
        d->marks[id] = (uint8_t)(MARK_THERE | marks);
}

unsigned marks_of(const JsonNode *entry)
{
    static const struct {
        const char *key; unsigned mark;
    } flag[] = { { "lstrip", MARK_LSTRIP }, { "rstrip", MARK_RSTRIP },
        { "single_word", MARK_SINGLE_WORD }, { "normalized", MARK_NORMALIZED },
        { "special", MARK_SPECIAL } };
    unsigned marks = 0;
    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
        if (node_truth(node_get(entry, flag[i].key)))
            marks |= flag[i].mark;
    return marks;
}

bool draft_add_spelled(VocabDraft *d, int64_t id, Text piece, Text spelling, unsigned marks)
{
    if (!draft_add(d, id, piece, TYPE_NORMAL))
        return false;
    d->sought[id] = spelling;
    draft_mark(d, (int32_t)id, marks);
    return true;
}

bool draft_add_plain_token(VocabDraft *d, int64_t id, Text content, bool special, unsigned marks,
                           const ByteMap *spellings)
{
    int32_t known = byte_map_find(spellings, content.p, content.n, -1);
    if (known >= 0)
        /* tokenizers looks a token up before it gives it an id. */
        id = known;
    else if (id >= 0 && id < (int64_t)d->size && d->types[id] != TYPE_UNUSED
             && !text_is(d->piece[id], content))
        return fail(
            d->err, INPUT,
            "%s: added token '%.*s': expected an id of its own, found %lld, which is '%.*s'",
            d->file, SHOWN(content), (long long)id, SHOWN(d->piece[id]));
    if (known >= 0 && d->type == DRAFT_BPE && !text_is(d->piece[id], content))
        return draft_add_spelled(d, id, d->piece[id], content, marks);
    if (!draft_add(d, id, content, special ? TYPE_CONTROL : TYPE_USER_DEFINED))
        return false;
    draft_mark(d, (int32_t)id, marks);
    return true;
}

bool draft_add_token(VocabDraft *d, int64_t id, const JsonNode *entry, const ByteMap *spellings)
{
    unsigned marks = marks_of(entry);
    return draft_add_plain_token(d, id, node_bytes(node_get(entry, "content")),
                                 (marks & MARK_SPECIAL) != 0, marks, spellings);
}

bool draft_add_known(VocabDraft *d, int64_t id, const JsonNode *entry, const ByteMap *spellings)
{
    Text content = node_bytes(node_get(entry, "content"));
    if (!is_sentencepiece_draft(d) || id < 0 || id >= (int64_t)d->size
        || !text_is(d->piece[id], content))
        return draft_add_token(d, id, entry, spellings);
    /* The piece keeps its type, because SentencePiece's types decide how plain text is encoded. */
    draft_mark(d, (int32_t)id, marks_of(entry));
    return true;
}

/* ---- Settings -------------------------------------------------------------------------------- */

bool draft_set(VocabDraft *d, const char *key, TextOut *value)
{
    char  *json = text_out_take(value, d->err);
    size_t i = 0;
    if (!json)
        return false;
    while (i < d->n_settings && strcmp(d->setting[i].key, key) != 0)
        i++;
    if (i == MOST_SETTINGS) {
        free(json);
        return fail(d->err, SYSTEM, "%s: more than %d settings", d->file, MOST_SETTINGS);
    }
    if (i == d->n_settings)
        d->n_settings++;
    free(d->setting[i].json);
    d->setting[i] = (Setting){ key, json };
    return true;
}

bool draft_set_bool(VocabDraft *d, const char *key, bool value)
{
    TextOut o = { 0 };
    text_out(&o, "%s", value ? "true" : "false");
    return draft_set(d, key, &o);
}

bool draft_has_setting(const VocabDraft *d, const char *key, const char *json)
{
    for (size_t i = 0; i < d->n_settings; i++)
        if (strcmp(d->setting[i].key, key) == 0)
            return strcmp(d->setting[i].json, json) == 0;
    return false;
}

void draft_set_split(TextOut *o, const char *regex, size_t n, const char *behavior, bool invert)
{
    json_out(o, "{");
    json_out_member(o, "regex", regex, n);
    json_out(o, "behavior: %s, invert: %i}", behavior, invert);
}

/* ---- Files ----------------------------------------------------------------------------------- */

bool draft_expected(VocabDraft *d, const JsonNode *j, const char *form, ...)
{
    char    expected[400], found[NODE_TEXT];
    va_list list;
    va_start(list, form);
    vsnprintf(expected, sizeof expected, form, list);
    va_end(list);
    return fail(d->err, INPUT, "%s: %s, found %s", d->file, expected, node_text(j, found));
}

const char *draft_path(VocabDraft *d, const char *folder, const char *name)
{
    size_t n = strlen(folder), m = strlen(name);
    bool   slash = n && folder[n - 1] != '/';
    char  *path = draft_bytes(d, n + m + 2);
    if (path)
        snprintf(path, n + m + 2, "%s%s%s", folder, slash ? "/" : "", name);
    return path;
}

const char *draft_folder(VocabDraft *d, const char *path)
{
    const char *slash = strrchr(path, '/');
    Text        t = slash ? (Text){ path, slash == path ? 1 : (size_t)(slash - path) } : TEXT("");
    return draft_copy(d, &t) ? t.p : NULL;
}

static bool note_file(VocabDraft *d, const char *path)
{
    for (size_t i = 0; i < d->n_files; i++)
        if (strcmp(d->files[i], path) == 0)
            return true;
    char *copy = strdup(path);
    if (!copy || !grow(&d->files, d->n_files + 1, sizeof *d->files)) {
        free(copy);
        return no_memory(path, d->err);
    }
    d->files[d->n_files++] = copy;
    return true;
}

static bool read_text(VocabDraft *d, const char *path, char **text, size_t *n)
{
    if (!note_file(d, path) || !file_read(path, LARGEST_FILE, text, n, d->err))
        return false;
    const bool good = format_downloaded(path, *text, *n, d->err);
    if (!good)
        free(*text);
    return good;
}

bool draft_read(VocabDraft *d, const char *path, Text *text)
{
    if (d->n_held == sizeof d->held / sizeof *d->held)
        return fail(d->err, SYSTEM, "%s: too many files", path);
    char *p;
    if (!read_text(d, path, &p, &text->n))
        return false;
    text->p = d->held[d->n_held++] = p;
    return true;
}

bool draft_read_head(VocabDraft *d, const char *path, char head[256], size_t *n)
{
    FileMap map = { 0 };
    if (!file_map_open(&map, path, d->err))
        return false;
    *n = map.size < 256 ? map.size : 256;
    if (*n)
        memcpy(head, map.data, *n);
    file_map_close(&map);
    return true;
}

bool draft_read_object(VocabDraft *d, const char *path, const JsonNode **root)
{
    char *text, found[NODE_TEXT];
    size_t n;
    if (d->n_docs == sizeof d->doc / sizeof *d->doc)
        return fail(d->err, SYSTEM, "%s: too many files", path);
    if (!read_text(d, path, &text, &n)
        || !json_doc_parse(&d->doc[d->n_docs], text, n, JSON_FINITE, path, d->err))
        return false;
    *root = d->doc[d->n_docs++].node;
    return (*root)->kind == NODE_OBJECT
        || fail(d->err, INPUT, "%s: expected a JSON object, found %s", path,
                node_text(*root, found));
}

bool draft_read_object_if_there(VocabDraft *d, const char *path, const JsonNode **root)
{
    *root = NULL;
    return path && (!path_exists(path) || draft_read_object(d, path, root));
}

bool draft_member(VocabDraft *d, const JsonNode *node, const char *key, NodeKind kind,
                  const char *what, const JsonNode **out)
{
    *out = node_get(node, key);
    if (*out && (*out)->kind == NODE_NULL)
        *out = NULL;
    return !*out || (*out)->kind == kind
        || draft_expected(d, *out, "%s: expected %s", what,
                          kind == NODE_OBJECT ? "an object" : "an array");
}
