/* tokenizer.model: a SentencePiece model, BPE or unigram. Field numbers are from
 * sentencepiece_model.proto (sentencepiece 0.2); the wire format is
 * https://protobuf.dev/programming-guides/encoding. */
#include <math.h>
#include <string.h>
#include "tokenizer/vocab_draft.h"

enum { MODEL_PIECES = 1, MODEL_TRAINER, MODEL_NORMALIZER, MODEL_DENORMALIZER = 5 };
enum { PIECE_TEXT = 1, PIECE_SCORE, PIECE_TYPE };
enum {
    TRAINER_MODEL_TYPE = 3,
    TRAINER_WHITESPACE_SUFFIX = 24,
    TRAINER_BYTE_FALLBACK = 35,
    TRAINER_UNK_SURFACE = 44,
    TRAINER_BOS_PIECE = 46,
    TRAINER_EOS_PIECE = 47
};
enum { NORMALIZER_CHARSMAP = 2, NORMALIZER_FLAGS = 3 };
enum { KNOWN_FIELDS = 48 };

/* ---- Protocol buffers ------------------------------------------------------------------------ */

typedef enum Wire { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_FIXED32 = 5 } Wire;

typedef struct ProtoField {
    bool     there, is_bytes; /* is_bytes: a length and bytes, or a fixed size */
    uint64_t number, value;
    Text     bytes;
} ProtoField;

/* The last value of each field, for messages without repeated fields. */
typedef struct ProtoMessage { ProtoField field[KNOWN_FIELDS]; } ProtoMessage;

static bool broken(VocabDraft *d, const char *why)
{
    return fail(d->err, INPUT, "%s: expected a SentencePiece model (protocol buffer), found %s",
                d->file, why);
}

static bool varint(VocabDraft *d, Text *t, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && t->n; shift += 7) {
        unsigned char byte = (unsigned char)*t->p++;
        t->n--;
        if (shift == 63 && byte > 1)
            return broken(d, "a varint over 64 bits");
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return true;
    }
    return broken(d, "a varint without end");
}

static bool next_field(VocabDraft *d, Text *t, ProtoField *f)
{
    uint64_t key, n = 0;
    if (!varint(d, t, &key))
        return false;
    *f = (ProtoField){ .there = true, .number = key >> 3, .is_bytes = (key & 7) != WIRE_VARINT };
    switch (key & 7) {
    case WIRE_VARINT:  if (!varint(d, t, &f->value)) return false; break;
    case WIRE_BYTES:   if (!varint(d, t, &n)) return false; break;
    case WIRE_FIXED64: n = 8; break;
    case WIRE_FIXED32: n = 4; break;
    default:           return broken(d, "a wire type that is out of use");
    }
    if (n > t->n)
        return broken(d, "a field longer than what is left");
    f->bytes = (Text){ t->p, (size_t)n };
    t->p += n;
    t->n -= (size_t)n;
    return f->number > 0 || broken(d, "field number 0");
}

/* Read fields into m, over what it has already. */
static bool read_message(VocabDraft *d, Text t, ProtoMessage *m)
{
    ProtoField f;
    while (t.n) {
        if (!next_field(d, &t, &f))
            return false;
        if (f.number < KNOWN_FIELDS)
            m->field[f.number] = f;
    }
    return true;
}

static bool truth(const ProtoMessage *m, int number, bool otherwise)
{
    const ProtoField *f = &m->field[number];
    return !f->there ? otherwise : f->is_bytes ? f->bytes.n > 0 : f->value != 0;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static bool piece_score(const ProtoField *f, double *score)
{
    float value = 0;
    if (f->is_bytes && f->bytes.n == sizeof value)
        memcpy(&value, f->bytes.p, sizeof value);
    *score = value;
    return !isnan(value);
}

/* A piece has three fields, and a published model up to a million pieces, so this avoids a whole
 * ProtoMessage for each. */
static bool read_piece(VocabDraft *d, Text t)
{
    ProtoField f, field[PIECE_TYPE + 1] = { 0 };
    size_t     id = d->size;
    double     score;
    char       byte;
    while (t.n) {
        if (!next_field(d, &t, &f))
            return false;
        if (f.number <= PIECE_TYPE)
            field[f.number] = f;
    }
    Text     text = field[PIECE_TEXT].bytes;
    uint64_t type = field[PIECE_TYPE].there ? field[PIECE_TYPE].value : TYPE_NORMAL;
    if (!field[PIECE_TEXT].is_bytes || !text.n || field[PIECE_TYPE].is_bytes || type < TYPE_NORMAL
        || type > TYPE_BYTE || !piece_score(&field[PIECE_SCORE], &score))
        return fail(
            d->err, INPUT,
            "%s: piece %zu: expected a text, a type from 1 to 6 and a score, found other values",
            d->file, id);
    if (type == TYPE_BYTE) {
        if (!byte_of(text, &byte))
            return fail(d->err, INPUT,
                        "%s: piece %zu: expected a byte piece spelled <0xNN>, found '%.*s'",
                        d->file, id, SHOWN(text));
        text = (Text){ &byte, 1 };
        if (!draft_copy(d, &text))
            return false;
    }
    if (!draft_add(d, (int64_t)id, text, (int)type))
        return false;
    d->scores[id] = score;
    return (type != TYPE_NORMAL && type != TYPE_USER_DEFINED && type != TYPE_UNUSED)
        || draft_index(d, (int32_t)id);
}

/* Like SentencePiece, find bos and eos by their text, and only among control pieces. */
static bool find_ids(VocabDraft *d, const ProtoMessage *trainer)
{
    ByteMap control = { 0 };
    size_t  n_unknown = 0;
    bool    ok = byte_map_reserve(&control, 1, d->err);
    for (size_t i = 0; ok && i < d->size; i++) {
        bool found;
        if (d->types[i] == TYPE_UNKNOWN) {
            d->unk = (int32_t)i;
            n_unknown++;
        }
        if (d->types[i] != TYPE_CONTROL)
            continue;
        int32_t *id =
            byte_map_put(&control, d->piece[i].p, d->piece[i].n, (int32_t)i, &found, d->err);
        if (id)
            *id = (int32_t)i; /* the last of equal ones */
        ok = id != NULL;
    }
    const ProtoField *bos = &trainer->field[TRAINER_BOS_PIECE],
                *eos = &trainer->field[TRAINER_EOS_PIECE];
    if (ok && (!bos->there || bos->is_bytes))
        d->bos = bos->there ? byte_map_find(&control, bos->bytes.p, bos->bytes.n, -1)
                            : byte_map_find(&control, "<s>", 3, -1);
    if (ok && (!eos->there || eos->is_bytes))
        d->eos = eos->there ? byte_map_find(&control, eos->bytes.p, eos->bytes.n, -1)
                            : byte_map_find(&control, "</s>", 4, -1);
    for (size_t i = 0; ok && i <= control.mask; i++)
        if (control.slot[i].p)
            draft_mark(d, control.slot[i].value, MARK_SPECIAL);
    byte_map_free(&control);
    if (ok && n_unknown != 1)
        return fail(d->err, INPUT, "%s: pieces: expected one of type unknown, found %zu", d->file,
                    n_unknown);
    return ok && (d->bos < 0 || id_list_add(&d->prefix, d->bos, d->err));
}

/* ---- Settings -------------------------------------------------------------------------------- */

static bool set_surface(VocabDraft *d, const ProtoField *f)
{
    static const char usual[] = " \xE2\x81\x87 ";
    if (!f->there || !f->is_bytes || text_is(f->bytes, (Text){ usual, sizeof usual - 1 }))
        return true;
    TextOut o = { 0 };
    json_out_string(&o, f->bytes.p, f->bytes.n);
    return draft_set(d, "unk_surface", &o);
}

static bool set_charsmap(VocabDraft *d, const ProtoMessage *normalizer)
{
    const ProtoField *f = &normalizer->field[NORMALIZER_CHARSMAP];
    if (!truth(normalizer, NORMALIZER_CHARSMAP, false))
        return true;
    if (!f->is_bytes)
        return fail(d->err, INPUT, "%s: precompiled_charsmap: expected bytes, found a number",
                    d->file);
    return charsmap_read(d, f->bytes, "precompiled_charsmap")
        && draft_set_bool(d, "charsmap", true);
}

static bool set_type(VocabDraft *d, const ProtoMessage *trainer)
{
    static const char *const name[] = { "none", "unigram", "BPE", "word", "char" };
    const ProtoField *f = &trainer->field[TRAINER_MODEL_TYPE];
    uint64_t          type = f->there ? f->value : 1;
    if (f->is_bytes || (type != 1 && type != 2))
        return fail(d->err, INPUT, "%s: model type: expected BPE or unigram, found %s", d->file,
                    !f->is_bytes && type < 5 ? name[type] : "another");
    d->type = type == 1 ? DRAFT_SPM_UNIGRAM : DRAFT_SPM;
    return true;
}

static bool set_all(VocabDraft *d, const ProtoMessage *trainer, const ProtoMessage *normalizer,
                    const ProtoMessage *denormalizer)
{
    static const char *const flag[] = { "add_dummy_prefix", "remove_extra_whitespaces",
                                        "escape_whitespaces" };
    if (!set_type(d, trainer))
        return false;
    if (truth(trainer, TRAINER_WHITESPACE_SUFFIX, false))
        return fail(d->err, INPUT, "%s: treat_whitespace_as_suffix: expected false, found true",
                    d->file);
    if (truth(denormalizer, NORMALIZER_CHARSMAP, false))
        return fail(d->err, INPUT, "%s: denormalizer: expected none, found a character map",
                    d->file);
    for (int i = 0; i < 3; i++)
        if (!draft_set_bool(d, flag[i], truth(normalizer, NORMALIZER_FLAGS + i, true)))
            return false;
    return draft_set_bool(d, "byte_fallback", truth(trainer, TRAINER_BYTE_FALLBACK, false))
        && set_surface(d, &trainer->field[TRAINER_UNK_SURFACE]) && set_charsmap(d, normalizer);
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Every model starts with a piece: tag 0x0A, a length, then tag 0x0A of the piece's text. */
bool spm_model_looks_like(const char *head, size_t n)
{
    return n > 4 && head[0] == 0x0A && head[2] == 0x0A;
}

bool spm_model_read(VocabDraft *d, const char *path)
{
    ProtoMessage trainer = { 0 }, normalizer = { 0 }, denormalizer = { 0 };
    Text         t;
    ProtoField   f;
    d->file = path;
    d->type = DRAFT_SPM;
    if (!draft_read(d, path, &t))
        return false;
    while (t.n) {
        if (!next_field(d, &t, &f))
            return false;
        ProtoMessage *spec = f.number == MODEL_TRAINER        ? &trainer
                        : f.number == MODEL_NORMALIZER   ? &normalizer
                        : f.number == MODEL_DENORMALIZER ? &denormalizer
                                                         : NULL;
        if (f.is_bytes
            && !(f.number == MODEL_PIECES ? read_piece(d, f.bytes)
                                          : !spec || read_message(d, f.bytes, spec)))
            return false;
    }
    if (!d->size)
        return fail(d->err, INPUT, "%s: expected a SentencePiece model, found no pieces", path);
    return set_all(d, &trainer, &normalizer, &denormalizer) && find_ids(d, &trainer);
}
