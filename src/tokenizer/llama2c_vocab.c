/* tokenizer.bin of llama2.c (tokenizer.py, export): int32 longest piece; then for each id f32
 * score, int32 length, bytes. The bytes have spaces for U+2581, and newlines around <s> and </s>.
 * The settings are those built into run.c. */
#include <math.h>
#include <string.h>
#include "tokenizer/vocab_draft.h"

static const char BLANK[] = "\xE2\x96\x81";

/* The first piece is id 0, <unk>. */
bool llama2c_vocab_looks_like(const char *head, size_t n)
{
    return n >= 17 && memcmp(head + 8, "\x05\0\0\0<unk>", 9) == 0;
}

static bool with_blanks(VocabDraft *d, Text *t)
{
    size_t spaces = 0;
    for (size_t i = 0; i < t->n; i++)
        spaces += t->p[i] == ' ';
    if (!spaces)
        return true;
    char *out = draft_bytes(d, t->n + 2 * spaces), *at = out;
    if (!out)
        return false;
    for (size_t i = 0; i < t->n; i++) {
        if (t->p[i] == ' ') {
            memcpy(at, BLANK, 3);
            at += 3;
        } else {
            *at++ = t->p[i];
        }
    }
    *t = (Text){ out, t->n + 2 * spaces };
    return true;
}

static bool add_piece(VocabDraft *d, size_t id, Text t, float score, bool *bytes)
{
    char byte;
    int  type = id == 0 ? TYPE_UNKNOWN
        : id <= 2           ? TYPE_CONTROL
        : byte_of(t, &byte) ? TYPE_BYTE
                            : TYPE_NORMAL;
    if (type == TYPE_CONTROL) {
        for (; t.n && t.p[0] == '\n'; t.n--)
            t.p++;
        while (t.n && t.p[t.n - 1] == '\n')
            t.n--;
    }
    if (type == TYPE_BYTE) {
        *bytes = true;
        t = (Text){ &byte, 1 };
        if (!draft_copy(d, &t))
            return false;
    }
    if ((type == TYPE_NORMAL && !with_blanks(d, &t)) || !draft_add(d, (int64_t)id, t, type))
        return false;
    d->scores[id] = score;
    return type != TYPE_NORMAL || draft_index(d, (int32_t)id);
}

static bool read_pieces(VocabDraft *d, Text t, bool *bytes)
{
    int32_t longest, n;
    float   score;
    memcpy(&longest, t.p, 4);
    if (longest < 1)
        return fail(d->err, INPUT, "%s: longest piece: expected at least 1 byte, found %d", d->file,
                    (int)longest);
    for (size_t at = 4; at < t.n; at += (size_t)n) {
        size_t id = d->size;
        if (t.n - at < 8)
            return fail(d->err, INPUT,
                        "%s: piece %zu: expected a score and a length, found the end of the file",
                        d->file, id);
        memcpy(&score, t.p + at, 4);
        memcpy(&n, t.p + at + 4, 4);
        at += 8;
        if (n <= 0 || n > longest || (size_t)n > t.n - at)
            return fail(d->err, INPUT, "%s: piece %zu: expected 1 to %d bytes (%zu left), found %d",
                        d->file, id, (int)longest, t.n - at, (int)n);
        if (isnan(score))
            return fail(d->err, INPUT, "%s: piece %zu: score: expected a number, found NaN",
                        d->file, id);
        if (!add_piece(d, id, (Text){ t.p + at, (size_t)n }, score, bytes))
            return false;
    }
    return true;
}

bool llama2c_vocab_read(VocabDraft *d, const char *path)
{
    Text t;
    bool bytes = false;
    d->file = path;
    d->type = DRAFT_SPM;
    if (!draft_read(d, path, &t))
        return false;
    if (t.n < 4 || !read_pieces(d, t, &bytes))
        return t.n >= 4 ? false
                        : fail(d->err, INPUT,
                               "%s: expected a tokenizer of llama2.c, found %zu bytes", path, t.n);
    if (d->size < 3)
        return fail(d->err, INPUT, "%s: expected at least <unk>, <s> and </s>, found %zu pieces",
                    path, d->size);
    d->unk = 0;
    d->bos = 1;
    d->eos = 2;
    draft_mark(d, 1, MARK_SPECIAL);
    draft_mark(d, 2, MARK_SPECIAL);
    return id_list_add(&d->prefix, 1, d->err) && draft_set_bool(d, "add_dummy_prefix", true)
        && draft_set_bool(d, "remove_extra_whitespaces", false)
        && draft_set_bool(d, "escape_whitespaces", true)
        && draft_set_bool(d, "byte_fallback", bytes);
}
