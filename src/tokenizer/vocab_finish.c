/* Writes a draft in the form of the model file (docs/format.md, section "Tokenizer"). The order of
 * keys and tensors is fixed: the same source always gives the same bytes. */
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/memory.h"
#include "tokenizer/vocab_draft.h"

/* ---- The metadata entry ---------------------------------------------------------------------- */

static void ids_out(TextOut *o, const char *key, const IdArray *ids)
{
    json_out(o, "%s:", key);
    json_out_ints(o, ids->id, ids->n);
}

static void special_out(TextOut *o, const VocabDraft *d)
{
    static const struct {
        const char *key; unsigned mark;
    } flag[] = { { "lstrip", MARK_LSTRIP }, { "rstrip", MARK_RSTRIP },
        { "single_word", MARK_SINGLE_WORD }, { "normalized", MARK_NORMALIZED } };
    json_out(o, "special: [");
    for (size_t i = 0; i < d->size; i++) {
        unsigned marks = d->marks[i];
        if (!(marks & MARK_THERE))
            continue;
        json_out(o, "{id: %zu", i);
        for (size_t f = 0; f < sizeof flag / sizeof *flag; f++)
            if (marks & flag[f].mark)
                json_out(o, "%s: true", flag[f].key);
        if (d->sought[i].n)
            json_out_member(o, "text", d->sought[i].p, d->sought[i].n);
        json_out(o, marks & MARK_SPECIAL ? "}" : "special: false}");
    }
    json_out(o, "]");
}

static bool make_metadata(const VocabDraft *d, TokenizerData *out)
{
    static const char *const type[] = { [DRAFT_SPM] = "spm",
                                        [DRAFT_SPM_UNIGRAM] = "spm_unigram",
                                        [DRAFT_BPE] = "bpe",
                                        [DRAFT_BPE_CHAR] = "bpe_char",
                                        [DRAFT_UNIGRAM] = "unigram" };
    TextOut o = { .compact = true };
    json_out(&o, "{type: %s, size: %zu, bos: %d, eos: %d, unk: %d", type[d->type], d->size,
             (int)d->bos, (int)d->eos, (int)d->unk);
    ids_out(&o, "prefix", &d->prefix);
    ids_out(&o, "suffix", &d->suffix);
    special_out(&o, d);
    for (size_t i = 0; i < d->n_settings; i++)
        json_out(&o, "%s: %-s", d->setting[i].key, d->setting[i].json);
    json_out(&o, "}");
    out->metadata = text_out_take(&o, d->err);
    return out->metadata != NULL;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Add a tensor. out then owns data; data NULL means that there was no memory for it. */
static bool put(const VocabDraft *d, TokenizerData *out, const char *name, DType dtype, size_t rows,
                int cols, void *data)
{
    if (!data)
        return fail(d->err, SYSTEM, "%s: out of memory for the tensor %s", d->file, name);
    TokenizerTensor *t = &out->tensor[out->n_tensors++];
    size_t n_bytes = rows * (size_t)(cols ? cols : 1) * dtype_bytes(dtype);
    *t = (TokenizerTensor){ name, dtype, cols ? 2 : 1, { (int64_t)rows, cols }, n_bytes, data };
    return true;
}

/* malloc that does not return NULL for size 0. */
static void *allocate(size_t n, size_t item)
{
    size_t bytes;
    return mul_size(n ? n : 1, item, &bytes) ? malloc(bytes) : NULL;
}

static void *copy_of(const void *p, size_t n, size_t item)
{
    void *copy = allocate(n, item);
    if (copy && n)
        memcpy(copy, p, n * item);
    return copy;
}

static bool put_pieces(const VocabDraft *d, TokenizerData *out)
{
    size_t total = 0;
    for (size_t i = 0; i < d->size; i++)
        total += d->piece[i].n;
    if (total > UINT32_MAX)
        return fail(d->err, INPUT, "%s: pieces: expected less than 4 GiB of bytes, found %zu",
                    d->file, total);
    char     *bytes = allocate(total, 1);
    uint32_t *offsets = allocate(d->size + 1, sizeof *offsets);
    if (bytes && offsets) {
        size_t at = 0;
        for (size_t i = 0; i < d->size; i++) {
            offsets[i] = (uint32_t)at;
            if (d->piece[i].n)
                memcpy(bytes + at, d->piece[i].p, d->piece[i].n);
            at += d->piece[i].n;
        }
        offsets[d->size] = (uint32_t)at;
    }
    if (!put(d, out, "tok.bytes", DT_U8, total, 0, bytes)) {
        free(offsets);
        return false;
    }
    return put(d, out, "tok.offsets", DT_U32, d->size + 1, 0, offsets)
        && put(d, out, "tok.types", DT_U8, d->size, 0, copy_of(d->types, d->size, 1));
}

/* Scores are F32, unless those of a unigram tokenizer.json need doubles. */
static bool put_scores(const VocabDraft *d, TokenizerData *out)
{
    float *shorter = allocate(d->size, sizeof *shorter);
    bool   exact = true;
    for (size_t i = 0; shorter && i < d->size; i++) {
        shorter[i] = (float)d->scores[i];
        exact &= shorter[i] == d->scores[i];
    }
    if (exact || d->type != DRAFT_UNIGRAM)
        return put(d, out, "tok.scores", DT_F32, d->size, 0, shorter);
    free(shorter);
    return put(d, out, "tok.scores", DT_F64, d->size, 0,
               copy_of(d->scores, d->size, sizeof *d->scores));
}

static int by_id(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The ids that can be looked up, ascending. Of equal pieces, the one indexed first counts; for
 * Unigram, the last, because the library reads that vocabulary into a map. */
static bool indexed_ids(const VocabDraft *d, IdArray *ids)
{
    ByteMap seen = { 0 };
    bool    ok = byte_map_reserve(&seen, d->indexed.n, d->err), sorted = true;
    for (size_t i = 0; ok && i < d->indexed.n; i++) {
        int32_t id = d->indexed.id[d->type == DRAFT_UNIGRAM ? d->indexed.n - 1 - i : i];
        bool    found = d->piece[id].n == 0;
        ok = found || byte_map_put(&seen, d->piece[id].p, d->piece[id].n, id, &found, d->err);
        if (ok && !found) {
            sorted &= ids->n == 0 || ids->id[ids->n - 1] < id;
            ok = id_list_add(ids, id, d->err);
        }
    }
    if (ok && !sorted)
        qsort(ids->id, ids->n, sizeof *ids->id, by_id);
    byte_map_free(&seen);
    return ok;
}

static bool put_table(const VocabDraft *d, TokenizerData *out, const char *name, uint64_t *hashes,
                      const int32_t *values, size_t n)
{
    int32_t *table = NULL;
    size_t   slots = 0;
    bool     ok =
        hashes ? table_make(hashes, values, n, &table, &slots, d->err) : no_memory(d->file, d->err);
    free(hashes);
    if (ok)
        return put(d, out, name, DT_I32, slots, 0, table);
    free(table);
    return false;
}

static bool put_index(const VocabDraft *d, TokenizerData *out, const IdArray *ids)
{
    uint64_t *hashes = allocate(ids->n, sizeof *hashes);
    for (size_t i = 0; hashes && i < ids->n; i++)
        hashes[i] = fnv1a(FNV_SEED, d->piece[ids->id[i]].p, d->piece[ids->id[i]].n);
    return put_table(d, out, "tok.index", hashes, ids->id, ids->n);
}

static bool put_merges(const VocabDraft *d, TokenizerData *out)
{
    uint64_t *hashes = allocate(d->n_merges, sizeof *hashes);
    for (size_t i = 0; hashes && i < d->n_merges; i++) {
        uint64_t h =
            d->merges[i].left * 0x9E3779B97F4A7C15u + d->merges[i].right * 0xC2B2AE3D27D4EB4Fu;
        hashes[i] = h ^ h >> 32;
    }
    if (!put(d, out, "tok.merges", DT_U32, d->n_merges, 3,
             copy_of(d->merges, d->n_merges, sizeof *d->merges))) {
        free(hashes);
        return false;
    }
    return put_table(d, out, "tok.merge_index", hashes, NULL, d->n_merges);
}

/* Add a trie, whose arrays out then owns. */
static bool put_trie(const VocabDraft *d, TokenizerData *out, const char *name,
                     const char *labels_name, TrieTable *t)
{
    bool ok = put(d, out, name, DT_U32, t->n, 3, t->nodes);
    t->nodes = NULL;
    ok = ok && put(d, out, labels_name, DT_U8, t->n, 0, t->labels);
    if (ok)
        t->labels = NULL;
    return ok;
}

static bool put_piece_trie(const VocabDraft *d, TokenizerData *out, const IdArray *ids)
{
    TrieTable trie = { 0 };
    Text     *keys = allocate(ids->n, sizeof *keys);
    for (size_t i = 0; keys && i < ids->n; i++)
        keys[i] = d->piece[ids->id[i]];
    bool ok = keys ? trie_make(keys, ids->id, ids->n, &trie, d->err) : no_memory(d->file, d->err);
    ok = ok && put_trie(d, out, "tok.trie", "tok.trie_labels", &trie);
    free(keys);
    trie_table_free(&trie);
    return ok;
}

static bool put_charsmap(VocabDraft *d, TokenizerData *out)
{
    CharsmapTable *m = &d->charsmap;
    bool ok = put_trie(d, out, "tok.charsmap", "tok.charsmap_labels", &m->trie)
        && put(d, out, "tok.charsmap_bytes", DT_U8, m->offsets[m->n], 0, m->bytes);
    if (!ok)
        return false;
    m->bytes = NULL;
    ok = put(d, out, "tok.charsmap_offsets", DT_U32, m->n + 1, 0, m->offsets);
    m->offsets = NULL;
    return ok;
}

static bool make_tensors(VocabDraft *d, TokenizerData *out)
{
    IdArray ids = { 0 };
    bool   unigram = d->type == DRAFT_SPM_UNIGRAM || d->type == DRAFT_UNIGRAM;
    bool   ok = put_pieces(d, out) && (is_merging_draft(d) || put_scores(d, out))
        && indexed_ids(d, &ids) && put_index(d, out, &ids)
        && (!is_merging_draft(d) || put_merges(d, out))
        && (!unigram || put_piece_trie(d, out, &ids)) && (!d->has_charsmap || put_charsmap(d, out));
    free(ids.id);
    return ok;
}

/* ---- The whole ------------------------------------------------------------------------------- */

bool draft_finish(VocabDraft *d, TokenizerData *out)
{
    if (!make_metadata(d, out) || !make_tensors(d, out))
        return false;
    out->files   = d->files;
    out->n_files = d->n_files;
    d->files   = NULL;
    d->n_files = 0;
    if (d->warnings.n || d->warnings.failed) {
        out->warnings = text_out_take(&d->warnings, d->err);
        return out->warnings != NULL;
    }
    return true;
}

void tokenizer_data_free(TokenizerData *d)
{
    for (int i = 0; i < d->n_tensors; i++)
        free(d->tensor[i].data);
    for (size_t i = 0; i < d->n_files; i++)
        free(d->files[i]);
    free(d->files);
    free(d->path);
    free(d->metadata);
    free(d->warnings);
    *d = (TokenizerData){ 0 };
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const Tensor *const *)a)->name, (*(const Tensor *const *)b)->name);
}

bool tokenizer_data_view(TensorFile *f, const TokenizerData *d, Error *err)
{
    *f = (TensorFile){ .map.path = d->path, .n_meta = d->metadata ? 1 : 0 };
    f->tensors = calloc(TOKENIZER_MOST_TENSORS, sizeof *f->tensors);
    f->by_name = calloc(TOKENIZER_MOST_TENSORS, sizeof *f->by_name);
    f->meta    = calloc(1, sizeof *f->meta);
    if (!f->tensors || !f->by_name || !f->meta) {
        tensor_file_close(f);
        return no_memory(d->path, err);
    }
    if (d->metadata)
        f->meta[0] = (MetaEntry){ "tokenizer", d->metadata, strlen(d->metadata) };
    for (int i = 0; i < d->n_tensors; i++) {
        const TokenizerTensor *t = &d->tensor[i];
        f->tensors[i] = (Tensor){ .name = t->name,
                                  .dtype = t->dtype,
                                  .rank = t->rank,
                                  .shape = { t->shape[0], t->shape[1] },
                                  .n_elements = t->n_bytes / dtype_bytes(t->dtype),
                                  .n_bytes = t->n_bytes,
                                  .data = t->data };
        f->by_name[i] = &f->tensors[i];
        f->n_tensors++;
    }
    qsort(f->by_name, (size_t)f->n_tensors, sizeof *f->by_name, by_name);
    return true;
}
