/* Checks the tables of a vocabulary when it is opened, then searches them in place. */
#include "tokenizer/tokenizer_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/hash.h"
#include "base/number.h"

/* ---- Look-up --------------------------------------------------------------------------------- */

int32_t vocab_find(const Vocab *v, const char *bytes, size_t n)
{
    if (n > v->longest)
        return -1;
    for (size_t slot = fnv1a(FNV_SEED, bytes, n) & v->index_mask;;
         slot = (slot + 1) & v->index_mask) {
        int32_t id = v->index[slot];
        if (id < 0)
            return -1;
        size_t      n_piece;
        const char *piece = vocab_bytes(v, id, &n_piece);
        if (n_piece == n && memcmp(piece, bytes, n) == 0)
            return id;
    }
}

static int64_t find_merge(const Vocab *v, uint32_t left, uint32_t right)
{
    uint64_t h = left * 0x9E3779B97F4A7C15u + right * 0xC2B2AE3D27D4EB4Fu;
    h ^= h >> 32;
    for (size_t slot = h & v->merge_mask;; slot = (slot + 1) & v->merge_mask) {
        int32_t row = v->merge_index[slot];
        if (row < 0)
            return -1;
        const uint32_t *m = v->merges + 3 * (size_t)row;
        if (m[0] == left && m[1] == right)
            return row;
    }
}

/* Map a score to an integer so that a higher score has a lower rank. Then both kinds of vocabulary
 * merge the lowest rank first. */
static uint32_t rank_of_score(float score)
{
    uint32_t bits = f32_bits(score + 0.0f); /* -0 and +0 are one score */
    return bits & 0x80000000u ? bits : ~bits & 0x7FFFFFFFu;
}

bool vocab_merge(const Vocab *v, int32_t left, int32_t right, const char *both, size_t n,
                 uint32_t *rank, int32_t *id)
{
    if (v->kind == VOCAB_SCORES) {
        *id = vocab_find(v, both, n);
        if (*id < 0)
            return false;
        *rank = rank_of_score(v->scores[*id]);
        return true;
    }
    int64_t row = find_merge(v, (uint32_t)left, (uint32_t)right);
    if (row < 0)
        return false;
    *rank = (uint32_t)row;
    *id   = (int32_t)v->merges[3 * row + 2];
    return true;
}

/* ---- Opening --------------------------------------------------------------------------------- */

const Tensor *vocab_table(const TensorFile *f, const char *name, DType dtype, int64_t rows,
                          int64_t cols, Error *err)
{
    const Tensor *t = tensor_find(f, name);
    int           rank = cols ? 2 : 1;
    char          expected[64], found[128];
    if (rank == 2)
        snprintf(expected, sizeof expected, "[n, %lld]", (long long)cols);
    else if (rows < 0)
        snprintf(expected, sizeof expected, "[n]");
    else
        snprintf(expected, sizeof expected, "[%lld]", (long long)rows);
    if (!t) {
        fail(err, INPUT, "%s: tensor %s: expected %s %s, found no such tensor", f->map.path, name,
             dtype_name(dtype), expected);
        return NULL;
    }
    if (t->dtype != dtype || t->rank != rank || (rows >= 0 && t->shape[0] != rows)
        || (rank == 2 && t->shape[1] != cols)) {
        fail(err, INPUT, "%s: tensor %s: expected %s %s, found %s %s", f->map.path, name,
             dtype_name(dtype), expected, dtype_name(t->dtype),
             tensor_shape_text(t, found, sizeof found));
        return NULL;
    }
    if ((uintptr_t)t->data % dtype_bytes(dtype)) {
        fail(err, INPUT, "%s: tensor %s: expected data aligned to %zu bytes, found offset %zu",
             f->map.path, name, dtype_bytes(dtype), t->offset);
        return NULL;
    }
    return t;
}

static bool check_pieces(Vocab *v, const TensorFile *f, size_t n_bytes, Error *err)
{
    if (v->offsets[0] != 0)
        return fail(err, INPUT, "%s: tensor tok.offsets: expected 0 first, found %u", f->map.path,
                    v->offsets[0]);
    for (int i = 0; i < v->size; i++) {
        if (v->offsets[i + 1] < v->offsets[i])
            return fail(
                err, INPUT,
                "%s: tensor tok.offsets: expected ascending offsets, found %u after %u (piece %d)",
                f->map.path, v->offsets[i + 1], v->offsets[i], i);
        if (v->offsets[i + 1] - v->offsets[i] > v->longest)
            v->longest = v->offsets[i + 1] - v->offsets[i];
        if (v->types[i] < PIECE_NORMAL || v->types[i] > PIECE_BYTE)
            return fail(err, INPUT, "%s: tensor tok.types: expected 1 to 6, found %u (piece %d)",
                        f->map.path, v->types[i], i);
        if ((v->scores && isnan(v->scores[i])) || (v->scores64 && isnan(v->scores64[i])))
            return fail(err, INPUT,
                        "%s: tensor tok.scores: expected a number, found NaN (piece %d)",
                        f->map.path, i);
    }
    if (v->offsets[v->size] != n_bytes)
        return fail(err, INPUT,
                    "%s: tensor tok.offsets: expected %zu last (the bytes of tok.bytes), found %u",
                    f->map.path, n_bytes, v->offsets[v->size]);
    return true;
}

/* Check a hash table: its size is a power of two, its entries are in [-1, n), and one slot is
 * empty, so that every search ends. */
static bool check_slots(const TensorFile *f, const Tensor *t, size_t n, Error *err)
{
    const int32_t *slot = t->data;
    size_t   n_slots = t->n_elements, n_empty = 0;
    /* Largest entry plus one, unsigned: -1 becomes 0, and other negative numbers become large. */
    uint32_t most = 0;
    if (n_slots == 0 || (n_slots & (n_slots - 1)))
        return fail(err, INPUT, "%s: tensor %s: expected a power of two of slots, found %zu",
                    f->map.path, t->name, n_slots);
    for (size_t i = 0; i < n_slots; i++) {
        uint32_t entry = (uint32_t)slot[i] + 1;
        n_empty += entry == 0;
        most = entry > most ? entry : most;
    }
    if (most > n)
        return fail(err, INPUT, "%s: tensor %s: expected entries from -1 to under %zu, found %d",
                    f->map.path, t->name, n, (int32_t)(most - 1));
    if (n_empty == 0)
        return fail(err, INPUT, "%s: tensor %s: expected an empty slot, found none", f->map.path,
                    t->name);
    return true;
}

static bool open_merges(Vocab *v, const TensorFile *f, Error *err)
{
    const Tensor *merges = vocab_table(f, "tok.merges", DT_U32, -1, 3, err);
    const Tensor *index  = merges ? vocab_table(f, "tok.merge_index", DT_I32, -1, 0, err) : NULL;
    if (!index)
        return false;
    v->merges      = merges->data;
    v->n_merges    = (size_t)merges->shape[0];
    v->merge_index = index->data;
    v->merge_mask  = index->n_elements - 1;
    if (v->n_merges > INT32_MAX)
        return fail(err, INPUT, "%s: tensor tok.merges: expected at most %d rows, found %zu",
                    f->map.path, INT32_MAX, v->n_merges);
    uint32_t largest = 0;
    for (size_t i = 0; i < merges->n_elements; i++)
        largest = v->merges[i] > largest ? v->merges[i] : largest;
    if (largest >= (uint32_t)v->size)
        return fail(err, INPUT, "%s: tensor tok.merges: expected ids under %d, found %u",
                    f->map.path, v->size, largest);
    return check_slots(f, index, v->n_merges, err);
}

static void find_byte_pieces(Vocab *v, bool byte_pieces)
{
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        v->byte_id[b] = byte_pieces ? -1 : vocab_find(v, &c, 1);
    }
    for (int i = 0; byte_pieces && i < v->size; i++) {
        size_t n;
        const char *bytes = vocab_bytes(v, i, &n);
        if (v->types[i] == PIECE_BYTE && n == 1 && v->byte_id[(unsigned char)bytes[0]] < 0)
            v->byte_id[(unsigned char)bytes[0]] = i;
    }
}

static bool open_scores(Vocab *v, const TensorFile *f, Error *err)
{
    const Tensor *scores = tensor_find(f, "tok.scores");
    bool          f64 = v->kind == VOCAB_TRIE && scores && scores->dtype == DT_F64;
    scores = vocab_table(f, "tok.scores", f64 ? DT_F64 : DT_F32, v->size, 0, err);
    if (scores && f64)
        v->scores64 = scores->data;
    else if (scores)
        v->scores = scores->data;
    return scores != NULL;
}

bool vocab_open(Vocab *v, const TensorFile *f, enum VocabKind kind, bool byte_pieces, int size,
                Error *err)
{
    *v = (Vocab){ .kind = kind, .size = size };
    const Tensor *bytes   = vocab_table(f, "tok.bytes", DT_U8, -1, 0, err);
    const Tensor *offsets =
        bytes ? vocab_table(f, "tok.offsets", DT_U32, (int64_t)size + 1, 0, err) : NULL;
    const Tensor *types   = offsets ? vocab_table(f, "tok.types", DT_U8, size, 0, err) : NULL;
    const Tensor *index   = types ? vocab_table(f, "tok.index", DT_I32, -1, 0, err) : NULL;
    if (!index)
        return false;
    v->bytes      = bytes->data;
    v->offsets    = offsets->data;
    v->types      = types->data;
    v->index      = index->data;
    v->index_mask = index->n_elements - 1;
    if (kind != VOCAB_MERGES && !open_scores(v, f, err))
        return false;
    if (!check_pieces(v, f, bytes->n_bytes, err) || !check_slots(f, index, (size_t)size, err))
        return false;
    if (kind == VOCAB_MERGES && !open_merges(v, f, err))
        return false;
    if (kind == VOCAB_TRIE && !trie_open(&v->trie, f, "tok.trie", (size_t)size, err))
        return false;
    find_byte_pieces(v, byte_pieces);
    return true;
}
