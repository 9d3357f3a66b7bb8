/* The vocabulary of a GGUF file (keys tokenizer.ggml.*): SentencePiece BPE ("llama") and byte-level
 * BPE ("gpt2"). The keys are explained in
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; their defaults are in llama.cpp,
 * src/llama-vocab.cpp. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tokenizer/vocab_draft.h"

#define KEY "tokenizer.ggml."

/* What the file says about its tokens. */
typedef struct Vocabulary {
    const GgufMeta *meta;
    VocabDraft          *d;
    GgufString     *token;
    int32_t        *type;    /* NULL: the file has no types */
    float          *score;   /* NULL: the file has no scores */
    size_t          n;
    bool            phi3;    /* most special tokens take the white space after them */
} Vocabulary;

static Text text_of(GgufString s) { return (Text){ s.bytes, s.n }; }

/* ---- Keys ------------------------------------------------------------------------------------ */

/* *flag keeps its value if the key is absent. */
static bool read_flag(const Vocabulary *v, const char *key, bool *flag)
{
    return !gguf_find(v->meta, key) || gguf_read_bool(v->meta, key, flag, v->d->err);
}

/* A token's id. An id outside the vocabulary gets a warning and is ignored. llama.cpp has defaults
 * for that case and for absent keys: in a "llama" vocabulary 1 for bos and 2 for eos, whatever
 * those tokens are. In tblock, a file without the keys has no such tokens. */
static bool read_id(const Vocabulary *v, const char *key, int32_t *id)
{
    int64_t value;
    if (!gguf_find(v->meta, key))
        return true;
    if (!gguf_read_int(v->meta, key, INT64_MIN, INT64_MAX, &value, v->d->err))
        return false;
    if (value >= 0 && value < (int64_t)v->n)
        *id = (int32_t)value;
    else
        text_out(&v->d->warnings, "%s: %s: expected an id below %zu, found %lld: it is ignored\n",
                 v->meta->path, key, v->n, (long long)value);
    return true;
}

static bool check_length(const Vocabulary *v, const char *key, size_t n)
{
    return n == v->n
        || fail(v->d->err, INPUT, "%s: %s: expected %zu items, one for each token, found %zu",
                v->meta->path, key, v->n, n);
}

static bool read_lists(Vocabulary *v)
{
    size_t n;
    if (!gguf_read_strings(v->meta, KEY "tokens", &v->token, &v->n, v->d->err))
        return false;
    if (!v->n || v->n > DRAFT_LARGEST)
        return fail(v->d->err, INPUT, "%s: " KEY "tokens: expected 1 to %d tokens, found %zu",
                    v->meta->path, DRAFT_LARGEST, v->n);
    if (gguf_find(v->meta, KEY "token_type")
        && (!gguf_read_ints(v->meta, KEY "token_type", &v->type, &n, v->d->err)
            || !check_length(v, KEY "token_type", n)))
        return false;
    return !gguf_find(v->meta, KEY "scores")
        || (gguf_read_floats(v->meta, KEY "scores", &v->score, &n, v->d->err)
            && check_length(v, KEY "scores", n));
}

static bool read_ids(Vocabulary *v)
{
    return read_id(v, KEY "bos_token_id", &v->d->bos) && read_id(v, KEY "eos_token_id", &v->d->eos)
        && read_id(v, KEY "unknown_token_id", &v->d->unk);
}

/* ---- Types ----------------------------------------------------------------------------------- */

/* Tokens that end a turn or a text. Some files list them as ordinary tokens. */
static bool looks_like_control(Text t)
{
    static const char *const names[] = {
        "<|eot_id|>",
        "<|eom_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<end_of_turn>",
        "<EOT>",
        "<\357\275\234end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
        "<end_of_utterance>"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_is(t, (Text){ names[i], strlen(names[i]) }))
            return true;
    return false;
}

/* The type of token i in SentencePiece's numbering: the file's, or, without types, inferred from
 * its id and spelling. */
static int type_of(const Vocabulary *v, size_t i, bool bytes)
{
    Text text = text_of(v->token[i]);
    char byte;
    if (!text.n)
        return TYPE_UNUSED;
    if (looks_like_control(text))
        return TYPE_CONTROL;
    if (v->type)
        return v->type[i] >= TYPE_NORMAL && v->type[i] <= TYPE_BYTE ? (int)v->type[i] : TYPE_NORMAL;
    int32_t id = (int32_t)i;
    return bytes && id == v->d->unk                     ? TYPE_UNKNOWN
           : id == v->d->bos || id == v->d->eos         ? TYPE_CONTROL
           : bytes && byte_of(text, &byte)              ? TYPE_BYTE
                                                        : TYPE_NORMAL;
}

static void mark(const Vocabulary *v, size_t i, int type)
{
    /* phi-3: the white space after these tokens is kept. */
    static const char *const keep[] = { "<unk>", "<s>", "<|endoftext|>" };
    unsigned marks = type == TYPE_USER_DEFINED ? 0 : MARK_SPECIAL;
    bool     strip = v->phi3;
    if (type != TYPE_CONTROL && type != TYPE_USER_DEFINED && type != TYPE_UNKNOWN)
        return;
    for (size_t k = 0; k < sizeof keep / sizeof *keep; k++)
        strip = strip && !text_is(text_of(v->token[i]), (Text){ keep[k], strlen(keep[k]) });
    draft_mark(v->d, (int32_t)i, strip ? marks | MARK_RSTRIP : marks);
}

static bool set_template(Vocabulary *v, bool add_bos, bool add_eos)
{
    VocabDraft *d = v->d;
    if (!read_flag(v, KEY "add_bos_token", &add_bos)
        || !read_flag(v, KEY "add_eos_token", &add_eos))
        return false;
    return (!add_bos || d->bos < 0 || id_list_add(&d->prefix, d->bos, d->err))
        && (!add_eos || d->eos < 0 || id_list_add(&d->suffix, d->eos, d->err));
}

/* ---- "llama": SentencePiece BPE -------------------------------------------------------------- */

static bool add_spm_piece(Vocabulary *v, size_t i, bool byte_there[256])
{
    VocabDraft *d = v->d;
    Text   text = text_of(v->token[i]);
    int    type = type_of(v, i, true);
    char   byte;
    if (type == TYPE_BYTE) {
        if (!byte_of(text, &byte))
            return fail(d->err, INPUT,
                        "%s: " KEY
                        "tokens: token %zu: expected a byte piece spelled <0xNN>, found '%.*s'",
                        d->file, i, SHOWN(text));
        byte_there[(unsigned char)byte] = true;
        text = (Text){ &byte, 1 };
        if (!draft_copy(d, &text))
            return false;
    }
    if (!draft_add(d, (int64_t)i, text, type))
        return false;
    if (v->score && isnan(v->score[i]))
        return fail(d->err, INPUT, "%s: " KEY "scores: expected numbers, found NaN (token %zu)",
                    d->file, i);
    d->scores[i] = v->score ? (double)v->score[i] : 0;
    if (type == TYPE_UNKNOWN && d->unk < 0)
        d->unk = (int32_t)i;
    mark(v, i, type);
    return (type != TYPE_NORMAL && type != TYPE_USER_DEFINED && type != TYPE_UNUSED)
        || draft_index(d, (int32_t)i);
}

static bool set_charsmap(Vocabulary *v)
{
    const GgufEntry *e = gguf_find(v->meta, KEY "precompiled_charsmap");
    if (!e || e->type != GGUF_ARRAY || !e->n_items)
        return true;
    if (e->item != GGUF_U8 && e->item != GGUF_I8)
        return fail(v->d->err, INPUT, "%s: " KEY "precompiled_charsmap: expected bytes, found %s",
                    v->meta->path, gguf_type_name(e->item));
    return charsmap_read(v->d, (Text){ e->value, e->n_items }, KEY "precompiled_charsmap")
        && draft_set_bool(v->d, "charsmap", true);
}

static bool make_spm(Vocabulary *v)
{
    bool byte_there[256] = { false }, all = true, prefix = true, squeeze = false;
    v->d->type = DRAFT_SPM;
    for (size_t i = 0; i < v->n; i++)
        if (!add_spm_piece(v, i, byte_there))
            return false;
    for (int b = 0; b < 256; b++)
        all &= byte_there[b];
    return read_flag(v, KEY "add_space_prefix", &prefix)
        && read_flag(v, KEY "remove_extra_whitespaces", &squeeze)
        && draft_set_bool(v->d, "add_dummy_prefix", prefix)
        && draft_set_bool(v->d, "remove_extra_whitespaces", squeeze)
        && draft_set_bool(v->d, "escape_whitespaces", true)
        && draft_set_bool(v->d, "byte_fallback", all) && set_charsmap(v)
        && set_template(v, true, false);
}

/* ---- "gpt2": byte-level BPE ------------------------------------------------------------------ */

/* Ordinary tokens are spelled with the stand-ins of bytes; special and added ones literally. */
static bool add_bpe_piece(Vocabulary *v, size_t i)
{
    VocabDraft *d = v->d;
    Text   text = text_of(v->token[i]), piece = text;
    int    type = type_of(v, i, false);
    bool   ordinary = type == TYPE_NORMAL || type == TYPE_BYTE, found;
    char  *raw = draft_bytes(d, text.n + 1);
    if (!raw)
        return false;
    bool bytes = byte_level_decode(text, raw, &piece.n);
    bool both = !ordinary && bytes && piece.n == 1 && text.n > 1; /* a byte's stand-in, added too */
    if (ordinary)
        type = TYPE_NORMAL;
    ordinary = (ordinary && bytes) || both;
    piece = ordinary ? (Text){ raw, piece.n } : text;
    if (!draft_add(d, (int64_t)i, piece, both ? TYPE_NORMAL : type))
        return false;
    d->sought[i] = both ? text : d->sought[i];
    mark(v, i, type);
    return byte_map_put(&d->spelled, text.p ? text.p : "", text.n, (int32_t)i, &found, d->err)
        && (!ordinary || draft_index(d, (int32_t)i));
}

/* Entries are "left right". A literally spelled piece may start with a space. */
static bool read_merges(Vocabulary *v)
{
    GgufString *merge = NULL;
    size_t      n = 0;
    MergeReader r = {
        .d = v->d, .ids = &v->d->spelled, .what = KEY "merges: entry", .first_holds = true
    };
    bool        ok = gguf_read_strings(v->meta, KEY "merges", &merge, &n, v->d->err);
    for (size_t i = 0; ok && i < n; i++)
        ok = merge_read_pair(&r, text_of(merge[i]));
    merge_reader_end(&r);
    free(merge);
    return ok;
}

/* Like llama.cpp, drop a byte that has no token. */
static bool drop_unknown(VocabDraft *d)
{
    bool   there[256] = { false };
    size_t lacking = 256;
    for (size_t i = 0; i < d->indexed.n; i++) {
        Text piece = d->piece[d->indexed.id[i]];
        if (piece.n == 1 && !there[(unsigned char)piece.p[0]]) {
            there[(unsigned char)piece.p[0]] = true;
            lacking--;
        }
    }
    d->unk = -1;
    return !lacking || draft_set_bool(d, "drop_unknown", true);
}

static bool make_bpe(Vocabulary *v)
{
    VocabDraft     *d = v->d;
    GgufString pre = { "default", 7 };
    bool       add_bos, prefix = false;
    d->type = DRAFT_BPE;
    if (gguf_find(v->meta, KEY "pre") && !gguf_read_string(v->meta, KEY "pre", &pre, d->err))
        return false;
    if (!gguf_pre_settings(d, text_of(pre), &add_bos)
        || !byte_map_reserve(&d->spelled, v->n, d->err))
        return false;
    for (size_t i = 0; i < v->n; i++)
        if (!add_bpe_piece(v, i))
            return false;
    return read_merges(v) && drop_unknown(d) && read_flag(v, KEY "add_space_prefix", &prefix)
        && draft_set_bool(d, "add_prefix_space", prefix) && set_template(v, add_bos, false);
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* The file does not say this about each token, so, like llama.cpp, we go by the model's name. */
static bool is_phi3(const GgufMeta *m)
{
    GgufString name;
    char       lower[256];
    if (!gguf_find(m, "general.name") || !gguf_read_string(m, "general.name", &name, NULL))
        return false;
    size_t n = name.n < sizeof lower - 1 ? name.n : sizeof lower - 1;
    for (size_t i = 0; i < n; i++)
        lower[i] = (char)tolower((unsigned char)name.bytes[i]);
    lower[n] = 0;
    return strstr(lower, "phi-3") || strstr(lower, "phi3");
}

static bool make(VocabDraft *d, const GgufMeta *meta, GgufString model)
{
    Vocabulary v = { .meta = meta, .d = d, .phi3 = is_phi3(meta) };
    bool       spm = gguf_string_is(model, "llama");
    bool       ok = spm || gguf_string_is(model, "gpt2")
        || fail(d->err, INPUT, "%s: " KEY "model: expected llama or gpt2, found '%.*s'", meta->path,
                      SHOWN(text_of(model)));
    ok = ok && read_lists(&v) && read_ids(&v) && (spm ? make_spm : make_bpe)(&v);
    free(v.token);
    free(v.type);
    free(v.score);
    return ok;
}

bool tokenizer_make_gguf(TokenizerData *out, const GgufMeta *meta, Error *err)
{
    VocabDraft      d = { .file = meta->path, .bos = -1, .eos = -1, .unk = -1, .err = err };
    GgufString model = { 0 };
    *out = (TokenizerData){ .path = strdup(meta->path) };
    bool ok = out->path || no_memory(meta->path, err);
    ok = ok && (!gguf_find(meta, KEY "model") || gguf_read_string(meta, KEY "model", &model, err));
    bool there =
        ok && model.n && !gguf_string_is(model, "no_vocab") && !gguf_string_is(model, "none");
    ok = ok && (!there || (make(&d, meta, model) && draft_finish(&d, out)));
    draft_free(&d);
    if (!ok)
        tokenizer_data_free(out);
    return ok;
}
