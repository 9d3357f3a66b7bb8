/* tests/unit/tiny_tokenizer.h: writes a model file with a hand-made vocabulary, as docs/format.md
 * says, and opens it. */
#ifndef TINY_TOKENIZER_H
#define TINY_TOKENIZER_H

#include <unistd.h>
#include "base/hash.h"
#include "test.h"
#include "tokenizer/tokenizer.h"

typedef struct TinyPiece { const char *bytes; size_t n; int type; float score; } TinyPiece;

enum { TINY_MOST = 700, TINY_SLOTS = 2048 };

/* Fill in with tiny_add and tiny_merge, change what a test wants to be wrong, then tiny_open. */
typedef struct Tiny {
    bool      spm;
    const char *type;             /* NULL: spm or bpe */
    int       size, n_merges;
    size_t    n_bytes;
    char      bytes[8192];
    uint32_t  offsets[TINY_MOST + 1];
    uint8_t   types[TINY_MOST];
    float     scores[TINY_MOST];
    uint32_t  merges[TINY_MOST][3];
    int32_t   index[TINY_SLOTS], merge_index[TINY_SLOTS];
    uint32_t  trie[TINY_MOST * 4][3];   /* of the pieces that tok.index has, made by tiny_trie */
    uint8_t   trie_labels[TINY_MOST * 4];
    int       n_trie;
    /* A character map: "A" and U+304B U+3099 become "a", "AB" and U+304B U+309A become " x ". */
    uint32_t  rules[10][3];
    uint8_t   rules_labels[10];
    const char *skip;             /* a tensor to leave out */
    char      path[64];
    TensorFile file;
    Tokenizer *t;
    Error     err;
} Tiny;

static inline void tiny_init(Tiny *y, bool spm)
{
    memset(y, 0, sizeof *y);
    y->spm = spm;
    for (int i = 0; i < TINY_SLOTS; i++)
        y->index[i] = y->merge_index[i] = -1;
    snprintf(y->path, sizeof y->path, "/tmp/tblock-test-tokenizer-%ld.bin", (long)getpid());
}

static inline int tiny_add_bytes(Tiny *y, const char *bytes, size_t n, int type, float score)
{
    int id = y->size++;
    memcpy(y->bytes + y->n_bytes, bytes, n);
    y->n_bytes += n;
    y->offsets[id + 1] = (uint32_t)y->n_bytes;
    y->types[id]  = (uint8_t)type;
    y->scores[id] = score;
    bool indexed = y->spm ? type == 1 || type == 4 || type == 5 : type == 1;
    size_t slot = fnv1a(FNV_SEED, bytes, n) % TINY_SLOTS;
    while (indexed && y->index[slot] >= 0)
        slot = (slot + 1) % TINY_SLOTS;
    if (indexed)
        y->index[slot] = id;
    return id;
}

static inline int tiny_add(Tiny *y, const char *text, int type, float score)
{
    return tiny_add_bytes(y, text, strlen(text), type, score);
}

static inline int tiny_find(const Tiny *y, const char *text, size_t n)
{
    for (int i = 0; i < y->size; i++)
        if (y->offsets[i + 1] - y->offsets[i] == n
            && memcmp(y->bytes + y->offsets[i], text, n) == 0)
            return i;
    return -1;
}

/* bpe: a merge of two pieces; the whole is added as a piece when it is new. */
static inline void tiny_merge(Tiny *y, const char *left, const char *right)
{
    char whole[64];
    int  n = snprintf(whole, sizeof whole, "%s%s", left, right);
    int  id = tiny_find(y, whole, (size_t)n);
    if (id < 0)
        id = tiny_add(y, whole, 1, 0);
    uint32_t *m = y->merges[y->n_merges];
    m[0] = (uint32_t)tiny_find(y, left, strlen(left));
    m[1] = (uint32_t)tiny_find(y, right, strlen(right));
    m[2] = (uint32_t)id;
    uint64_t h = m[0] * 0x9E3779B97F4A7C15u + m[1] * 0xC2B2AE3D27D4EB4Fu;
    size_t slot = (h ^ h >> 32) % TINY_SLOTS;
    while (y->merge_index[slot] >= 0)
        slot = (slot + 1) % TINY_SLOTS;
    y->merge_index[slot] = y->n_merges++;
}

/* Children of the node whose pieces start with the n bytes at prefix, then theirs: breadth
 * first. */
static inline void tiny_trie(Tiny *y)
{
    struct { size_t at, n; } prefix[TINY_MOST * 4] = { { 0, 0 } };
    y->n_trie = 1;
    for (int node = 0; node < y->n_trie; node++) {
        size_t n = prefix[node].n;
        for (int byte = 0; byte < 256; byte++)
            for (int i = 0; i < y->size; i++) {
                const char *p = y->bytes + y->offsets[i];
                size_t len = y->offsets[i + 1] - y->offsets[i];
                if ((y->types[i] != 1 && y->types[i] != 4 && y->types[i] != 5) || len <= n
                    || (unsigned char)p[n] != byte || memcmp(p, y->bytes + prefix[node].at, n) != 0)
                    continue;
                int child = y->n_trie++;
                y->trie[node][0] = y->trie[node][1] ? y->trie[node][0] : (uint32_t)child;
                y->trie[node][1]++;
                y->trie_labels[child] = (uint8_t)byte;
                prefix[child].at = (size_t)(p - y->bytes);
                prefix[child].n  = n + 1;
                y->trie[child][2] = (uint32_t)tiny_find(y, p, n + 1) + 1;
                break;
            }
    }
    static const uint32_t rules[10][3] = { { 1, 2, 0 }, { 3, 1, 1 }, { 4, 1, 0 }, { 0, 0, 2 },
                                           { 5, 1, 0 }, { 6, 1, 0 }, { 7, 1, 0 }, { 8, 2, 0 },
                                           { 0, 0, 1 }, { 0, 0, 2 } };
    memcpy(y->rules, rules, sizeof rules);
    memcpy(y->rules_labels, "\0A\xE3" "B\x81\x8B\xE3\x82\x99\x9A", sizeof y->rules_labels);
}

/* All 256 bytes: ids 0 .. 255 of a bpe, byte pieces <0x00> .. of an spm. */
static inline void tiny_add_all_bytes(Tiny *y)
{
    for (int b = 0; b < 256; b++)
        tiny_add_bytes(y, &(char){ (char)b }, 1, y->spm ? 6 : 1, 0);
}

static inline bool tiny_left_out(const Tiny *y, const char *name)
{
    bool trie = strncmp(name, "tok.trie", 8) == 0 || strncmp(name, "tok.charsmap", 12) == 0;
    return (trie && !y->n_trie) || (y->skip && strcmp(name, y->skip) == 0);
}

static inline bool tiny_write(Tiny *y, const char *json)
{
    struct {
        const char *name; DType dtype; int rank; int64_t shape[2]; const void *data;
    } tensor[] = {
        { "tok.offsets", DT_U32, 1, { y->size + 1 }, y->offsets },
        { "tok.scores", DT_F32, 1, { y->size }, y->scores },
        { "tok.index", DT_I32, 1, { TINY_SLOTS }, y->index },
        { "tok.merges", DT_U32, 2, { y->n_merges, 3 }, y->merges },
        { "tok.merge_index", DT_I32, 1, { TINY_SLOTS }, y->merge_index },
        { "tok.trie", DT_U32, 2, { y->n_trie, 3 }, y->trie },
        { "tok.charsmap", DT_U32, 2, { 10, 3 }, y->rules },
        { "tok.charsmap_offsets", DT_U32, 1, { 3 }, (const uint32_t[]){ 0, 1, 4 } },
        { "tok.types", DT_U8, 1, { y->size }, y->types },
        { "tok.bytes", DT_U8, 1, { (int64_t)y->n_bytes }, y->bytes },
        { "tok.trie_labels", DT_U8, 1, { y->n_trie }, y->trie_labels },
        { "tok.charsmap_labels", DT_U8, 1, { 10 }, y->rules_labels },
        { "tok.charsmap_bytes", DT_U8, 1, { 4 }, "a x " },
    };
    enum { N = sizeof tensor / sizeof *tensor };
    TensorWriter *w = tensor_writer_new(y->path, 4096, &y->err);
    bool ok = w && tensor_writer_meta(w, "tokenizer", json, &y->err);
    for (int i = 0; ok && i < N; i++)
        if (!tiny_left_out(y, tensor[i].name))
            ok = tensor_writer_declare(w, tensor[i].name, tensor[i].dtype, tensor[i].rank,
                                       tensor[i].shape, &y->err);
    ok = ok && tensor_writer_begin(w, &y->err);
    for (int i = 0, k = 0; ok && i < N; i++) {
        if (tiny_left_out(y, tensor[i].name))
            continue;
        size_t n = dtype_bytes(tensor[i].dtype) * (size_t)tensor[i].shape[0]
            * (size_t)(tensor[i].rank == 2 ? 3 : 1);
        ok = tensor_writer_put(w, k++, 0, tensor[i].data, n, &y->err);
    }
    if (!ok) {
        tensor_writer_abort(w);
        return false;
    }
    return tensor_writer_end(w, &y->err);
}

/* keys: the metadata after "size", for example "\"unk\": 0". False: y->err says why. */
static inline bool tiny_open(Tiny *y, const char *keys)
{
    char json[4096];
    snprintf(json, sizeof json, "{\"type\": \"%s\", \"size\": %d%s%s}",
             y->type ? y->type : y->spm ? "spm" : "bpe", y->size, *keys ? ", " : "", keys);
    return tiny_write(y, json) && safetensors_open(&y->file, y->path, &y->err)
        && tokenizer_open(&y->t, &y->file, &y->err);
}

static inline void tiny_close(Tiny *y)
{
    tokenizer_free(y->t);
    tensor_file_close(&y->file);
    unlink(y->path);
    y->t = NULL;
}

/* The pieces of a text's ids, "|" between them: "hel|lo". Ids of one unprintable byte are shown as
 * <xx>. */
static inline const char *tiny_pieces(Tiny *y, const char *text, size_t n, bool parse_special,
                                      bool add_special)
{
    static char shown[4096];
    size_t at = 0;
    Ids ids = { 0 };
    if (!tokenizer_encode(y->t, text, n, parse_special, add_special, &ids, &y->err))
        snprintf(shown, sizeof shown, "error: %s", y->err.msg);
    else
        shown[0] = '\0';
    for (size_t i = 0; !*y->err.msg && i < ids.n && at < sizeof shown - 64; i++) {
        const char *p = "";
        size_t n_piece = 0;
        tokenizer_piece(y->t, ids.id[i], &p, &n_piece);
        at += (size_t)snprintf(shown + at, 64, i ? "|" : "");
        if (n_piece == 1
            && ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7E || y->types[ids.id[i]] == 6))
            at += (size_t)snprintf(shown + at, 64, "<%02x>", (unsigned char)*p);
        else
            at += (size_t)snprintf(shown + at, 64, "%.*s", (int)n_piece, p);
    }
    free(ids.id);
    return shown;
}

#endif
