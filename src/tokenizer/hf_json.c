/* tokenizer.json as the library tokenizers (0.23) writes it: BPE of bytes or of characters, and
 * Unigram. Anything in the file that would change ids and that a model file cannot express is an
 * error that names it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tokenizer/vocab_draft.h"

/* ---- BPE ------------------------------------------------------------------------------------- */

static bool read_id(VocabDraft *d, const JsonNode *entry, const char *what, const JsonNode **by_id)
{
    Text spelling = { entry->key, entry->key_n };
    if (entry->kind != NODE_INT)
        return draft_expected(d, entry, "%s '%.*s': expected an id", what, SHOWN(spelling));
    if (entry->integer < 0 || entry->integer >= DRAFT_LARGEST)
        return fail(d->err, INPUT, "%s: %s '%.*s': expected an id from 0 to %d, found %lld",
                    d->file, what, SHOWN(spelling), DRAFT_LARGEST - 1, (long long)entry->integer);
    const JsonNode *other = by_id[entry->integer];
    if (other)
        return fail(d->err, INPUT,
                    "%s: %s '%.*s': expected an id of its own, found %lld, as '%.*s'", d->file,
                    what, SHOWN(spelling), (long long)entry->integer,
                    other->key_n < 100 ? (int)other->key_n : 100, other->key);
    by_id[entry->integer] = entry;
    return draft_spell(d, spelling, (int32_t)entry->integer);
}

static bool add_entry(VocabDraft *d, const JsonNode *entry)
{
    Text piece = { entry->key, entry->key_n };
    /* An entry that is not made of stand-ins is not indexed: no text gives such a piece. */
    bool meant = true;
    if (d->type == DRAFT_BPE) {
        size_t n;
        char  *raw = draft_bytes(d, piece.n + 1);
        if (!raw)
            return false;
        meant = byte_level_decode(piece, raw, &n) && n > 0;
        if (meant)
            piece = (Text){ raw, n };
    }
    return draft_add(d, entry->integer, piece, TYPE_NORMAL)
        && (!meant || draft_index(d, (int32_t)entry->integer));
}

/* The largest id of a vocabulary plus one, to reserve room. 0: it has no valid id. */
static size_t ids_of(const JsonNode *ids)
{
    int64_t most = -1;
    JSON_NODES (i, ids)
        if (i->kind == NODE_INT && i->integer > most && i->integer < DRAFT_LARGEST)
            most = i->integer;
    return (size_t)(most + 1);
}

bool hf_read_vocab(VocabDraft *d, const JsonNode *ids, const char *what)
{
    size_t           n = ids_of(ids);
    const JsonNode **by_id = calloc(n + 1, sizeof *by_id);
    bool ok = by_id ? draft_reserve(d, n) && byte_map_reserve(&d->spelled, ids->n, d->err)
                    : fail(d->err, SYSTEM, "%s: out of memory for %zu ids", d->file, n);
    JSON_NODES (i, ids)
        ok = ok && read_id(d, i, what, by_id);
    for (size_t i = 0; ok && i < n; i++)
        ok = !by_id[i] || add_entry(d, by_id[i]);
    free(by_id);
    return ok;
}

static bool read_merge(MergeReader *r, const JsonNode *merge)
{
    if (merge->kind == NODE_STRING)
        return merge_read_pair(r, node_bytes(merge));
    if (merge->kind != NODE_ARRAY || merge->n != 2 || merge[1].kind != NODE_STRING
        || merge[2].kind != NODE_STRING)
        return draft_expected(r->d, merge, "%s %zu: expected two pieces", r->what, r->n);
    return merge_read(r, node_bytes(merge + 1), node_bytes(merge + 2));
}

static bool read_merges(VocabDraft *d, const JsonNode *merges)
{
    if (!is_kind(merges, NODE_ARRAY))
        return draft_expected(d, merges, "model.merges: expected an array");
    MergeReader r = { .d = d, .ids = &d->spelled, .what = "model.merges: entry" };
    bool        ok = true;
    JSON_NODES (i, merges)
        ok = ok && read_merge(&r, i);
    merge_reader_end(&r);
    return ok;
}

/* Without an unknown token, the library drops text that it has no piece for. Do the same, and
 * record it in the settings. */
static bool drop_unknown(VocabDraft *d)
{
    bool   there[256] = { false };
    size_t lacking = d->type == DRAFT_BPE ? 256 : 0;
    if (d->unk >= 0 || draft_has_setting(d, "byte_fallback", "true"))
        return true;
    for (size_t i = 0; d->type == DRAFT_BPE && i < d->size; i++)
        if (d->piece[i].n == 1 && !there[(unsigned char)d->piece[i].p[0]]) {
            there[(unsigned char)d->piece[i].p[0]] = true;
            lacking--;
        }
    if (!lacking && d->type == DRAFT_BPE)
        return true;
    if (lacking)
        text_out(&d->warnings,
                 "%s: no unknown token: the %zu bytes that no piece stands for are silently "
                 "dropped from a text\n",
                 d->file, lacking);
    else
        text_out(&d->warnings,
                 "%s: no unknown token: characters that no piece stands for are silently dropped "
                 "from a text\n",
                 d->file);
    return draft_set_bool(d, "drop_unknown", true);
}

static bool check_absent(VocabDraft *d, const JsonNode *model, const char *key)
{
    const JsonNode *j = node_get(model, key);
    bool            number = strcmp(key, "dropout") == 0;
    if (!j || j->kind == NODE_NULL || (number ? node_number(j) == 0 : node_is(j, "")))
        return true;
    return draft_expected(d, j, "model.%s: expected none", key);
}

static bool read_bpe(VocabDraft *d, const JsonNode *model)
{
    const JsonNode *ids = node_get(model, "vocab"), *unk = node_get(model, "unk_token");
    bool            fallback = node_truth(node_get(model, "byte_fallback"));
    if (!check_absent(d, model, "dropout") || !check_absent(d, model, "continuing_subword_prefix")
        || !check_absent(d, model, "end_of_word_suffix"))
        return false;
    if (d->type == DRAFT_BPE && fallback)
        return fail(
            d->err, INPUT,
            "%s: model.byte_fallback: expected false in a byte-level vocabulary, found true",
            d->file);
    if (!is_kind(ids, NODE_OBJECT) || !ids->n)
        return draft_expected(d, ids, "model.vocab: expected an object of ids");
    if (!draft_set_bool(d, "ignore_merges", node_truth(node_get(model, "ignore_merges")))
        || !hf_read_vocab(d, ids, "model.vocab") || !read_merges(d, node_get(model, "merges")))
        return false;
    if (is_kind(unk, NODE_STRING))
        d->unk = byte_map_find(&d->spelled, unk->text, unk->n, -1);
    if (d->type == DRAFT_BPE_CHAR) {
        bool all = false;
        if (!draft_set_bool(d, "fuse_unk", node_truth(node_get(model, "fuse_unk")))
            || (fallback
                && (!draft_byte_pieces(d, &all) || !draft_set_bool(d, "byte_fallback", all))))
            return false;
    }
    return drop_unknown(d);
}

/* ---- Unigram --------------------------------------------------------------------------------- */

static bool read_piece(VocabDraft *d, const JsonNode *entry)
{
    int32_t id = (int32_t)d->size;
    if (entry->kind != NODE_ARRAY || entry->n != 2 || entry[1].kind != NODE_STRING
        || (entry[2].kind != NODE_INT && entry[2].kind != NODE_DOUBLE)
        || !isfinite(node_number(&entry[2])))
        return fail(d->err, INPUT,
                    "%s: model.vocab: entry %d: expected a piece and a score, found others",
                    d->file, (int)id);
    Text piece = node_bytes(&entry[1]);
    if (!draft_add(d, id, piece, TYPE_NORMAL))
        return false;
    d->scores[id] = node_number(&entry[2]);
    return draft_spell(d, piece, id) && (!piece.n || draft_index(d, id));
}

static bool read_unigram(VocabDraft *d, const JsonNode *model)
{
    const JsonNode *pieces = node_get(model, "vocab"), *unk = node_get(model, "unk_id");
    bool            all = false, ok = true;
    if (!is_kind(pieces, NODE_ARRAY) || !pieces->n)
        return draft_expected(d, pieces, "model.vocab: expected an array of pieces and scores");
    JSON_NODES (i, pieces)
        ok = ok && read_piece(d, i);
    if (!ok)
        return false;
    if (unk && unk->kind != NODE_NULL) {
        if (unk->kind != NODE_INT || unk->integer < 0 || unk->integer >= (int64_t)d->size)
            return draft_expected(d, unk, "model.unk_id: expected an id below %zu", d->size);
        d->unk = (int32_t)unk->integer;
    }
    return (!node_truth(node_get(model, "byte_fallback")) || draft_byte_pieces(d, &all))
        && draft_set_bool(d, "byte_fallback", all);
}

/* ---- Added tokens ---------------------------------------------------------------------------- */

bool hf_json_added_tokens(VocabDraft *d, const JsonNode *entries, const ByteMap *spellings,
                          bool known)
{
    size_t n = 0;
    JSON_NODES (i, entries) {
        const JsonNode *content = node_get(i, "content"), *id = node_get(i, "id");
        if (!is_kind(content, NODE_STRING) || !content->n || !is_kind(id, NODE_INT))
            return draft_expected(d, i, "added_tokens: entry %zu: expected an id and a content", n);
        if (!(known ? draft_add_known : draft_add_token)(d, id->integer, i, spellings))
            return false;
        n++;
    }
    return true;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Reject unknown keys. Of the known ones, truncation and padding concern batches, and version is
 * the format's own, so they are not read. */
static bool check_keys(VocabDraft *d, const JsonNode *root)
{
    static const char *const known[] = { "version", "truncation", "padding",
                                         "added_tokens",   "normalizer", "pre_tokenizer",
                                         "post_processor", "decoder",    "model" };
    JSON_NODES (i, root) {
        size_t k = 0, n = sizeof known / sizeof *known;
        while (k < n && (strlen(known[k]) != i->key_n || memcmp(known[k], i->key, i->key_n) != 0))
            k++;
        if (k == n)
            return fail(d->err, INPUT,
                        "%s: expected the keys of a tokenizer.json, found unknown key %.*s",
                        d->file, i->key_n < 100 ? (int)i->key_n : 100, i->key);
    }
    return true;
}

static bool set_steps(VocabDraft *d, const JsonNode *root, bool unigram)
{
    TextOut steps = { .compact = true };
    bool    byte_level = false, add_prefix_space = false;
    if (!hf_pre_tokenizer(d, node_get(root, "pre_tokenizer"), &steps, &byte_level,
                          &add_prefix_space)) {
        text_out_free(&steps);
        return false;
    }
    d->type = unigram ? DRAFT_UNIGRAM : byte_level ? DRAFT_BPE : DRAFT_BPE_CHAR;
    if (!draft_set(d, "pretokenize", &steps))
        return false;
    if (unigram && byte_level)
        return fail(d->err, INPUT,
                    "%s: pre_tokenizer: expected none of bytes with Unigram, found 'ByteLevel'",
                    d->file);
    return (!byte_level || draft_set_bool(d, "add_prefix_space", add_prefix_space))
        && hf_normalizer(d, node_get(root, "normalizer"))
        && hf_decoder(d, node_get(root, "decoder"));
}

/* Drop special tokens and byte pieces from the index: special tokens are found by name, byte pieces
 * by byte, and neither as ordinary text. But a special token that is only matched as a whole word
 * is ordinary text inside a word. */
static void keep_ordinary(VocabDraft *d)
{
    size_t n = 0;
    for (size_t i = 0; i < d->indexed.n; i++) {
        int32_t id = d->indexed.id[i];
        bool    in_words = d->types[id] != TYPE_CONTROL || d->marks[id] & MARK_SINGLE_WORD;
        if (in_words && d->types[id] != TYPE_BYTE)
            d->indexed.id[n++] = id;
    }
    d->indexed.n = n;
}

bool hf_json_read(VocabDraft *d, const JsonNode *root)
{
    const JsonNode *model = node_get(root, "model"), *added;
    if (!model)
        return fail(d->err, INPUT,
                    "%s: expected a tokenizer.json, found a JSON object without the key 'model'",
                    d->file);
    if (!no_pattern(d, d->file) || !check_keys(d, root))
        return false;
    if (model->kind != NODE_OBJECT)
        return draft_expected(d, model, "model: expected an object");
    const JsonNode *type = node_get(model, "type");
    bool unigram = type ? node_is(type, "Unigram") : is_kind(node_get(model, "vocab"), NODE_ARRAY);
    if (type && !unigram && !node_is(type, "BPE"))
        return draft_expected(d, type, "model.type: expected BPE or Unigram");
    if (!set_steps(d, root, unigram) || !(unigram ? read_unigram : read_bpe)(d, model)
        || !draft_member(d, root, "added_tokens", NODE_ARRAY, "added_tokens", &added)
        || !hf_json_added_tokens(d, added, &d->spelled, false))
        return false;
    if (d->type != DRAFT_BPE)
        keep_ordinary(d);
    return hf_post_processor(d, node_get(root, "post_processor"));
}
