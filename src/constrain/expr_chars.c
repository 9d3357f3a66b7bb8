/* Characters as bytes: a set of characters becomes an expression over the bytes of its UTF-8, or of
 * its spellings in a JSON string, that distinguishes no more bytes than it must. */
#include "constrain/grammar_parts.h"

#include <string.h>
#include "tokenizer/unicode.h"

/* A character outside ASCII is written as digits, the most significant first: bytes of 6 bits,
 * after a first one. A digit and those after it cover 2^bits codes, from `base` on. */
typedef struct Digit {
    int     bits;   /* of this digit and those after it; 0: the end */
    int     own;    /* of this digit */
    uint8_t offset; /* added to it in the written byte */
} Digit;

static const Digit UTF8_DIGITS[] = {
    { 21, 3, 0xF0 }, { 18, 6, 0x80 }, { 12, 6, 0x80 }, { 6, 6, 0x80 }, { 0, 0, 0 },
};
static const Digit UTF8_LEAD_2 = { 11, 5, 0xC0 };
static const Digit UTF8_LEAD_3 = { 16, 4, 0xE0 };

/* The members of s from base on, written with the digits from d on: next follows *d. */
static Expr digits(Grammar *g, const CharSet *s, uint32_t base, const Digit *d, const Digit *next)
{
    struct { ByteSet set; Expr after; } way[64];
    int   n_ways = 0;
    Expr  full = EXPR_NOTHING; /* after a digit all of whose codes are in the set */
    for (uint32_t v = 0; v < 1u << d->own; v++) {
        uint32_t size = 1u << (d->bits - d->own), from = base + v * size;
        CharShare share = char_set_share(s, from, from + size - 1);
        Expr      after = EXPR_EMPTY;
        int       w = 0;
        if (share == SHARE_NONE)
            continue;
        if (next->bits)
            after = share == SHARE_ALL && full ? full : digits(g, s, from, next, next + 1);
        if (share == SHARE_ALL)
            full = after;
        while (w < n_ways && way[w].after != after)
            w++;
        if (w == n_ways) {
            way[w].set = (ByteSet){ { 0 } };
            way[n_ways++].after = after;
        }
        bytes_put(&way[w].set, v + d->offset);
    }
    Expr e = EXPR_NOTHING;
    for (int w = 0; w < n_ways; w++)
        e = expr_alt(g, e, expr_seq(g, expr_bytes(g, way[w].set), way[w].after));
    return e;
}

/* The members first .. last without the surrogates, written in digits. */
static Expr written(Grammar *g, const CharSet *s, uint32_t first, uint32_t last, const Digit *d,
                    const Digit *next)
{
    CharSet part = { 0 };
    Expr    e = EXPR_NOTHING;
    for (size_t i = 0; i < s->n; i += 2) {
        uint32_t from = s->edge[i] > first ? s->edge[i] : first;
        uint32_t to = s->edge[i + 1] - 1 < last ? s->edge[i + 1] - 1 : last;
        if (from <= to && from < 0xD800)
            char_set_add(&part, from, to < 0xD800 ? to : 0xD7FF);
        if (from <= to && to > 0xDFFF)
            char_set_add(&part, from > 0xDFFF ? from : 0xE000, to);
    }
    if (part.failed)
        grammar_no_memory(g);
    else if (part.n)
        e = digits(g, &part, 0, d, next);
    char_set_free(&part);
    return e;
}

/* The characters that a JSON string must escape, in their shortest escape. */
static Expr escapes(Grammar *g, const CharSet *s)
{
    static const char named[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    ByteSet           after_backslash = { { 0 } }, last[2] = { { { 0 } }, { { 0 } } };
    for (unsigned c = 0; c <= '\\'; c++) {
        const char *hit = c ? strchr(named, (int)c) : NULL;
        if (char_set_share(s, c, c) != SHARE_ALL || (c >= 0x20 && !hit))
            continue;
        if (hit)
            bytes_put(&after_backslash, (unsigned char)names[hit - named]);
        else
            bytes_put(&last[c >> 4], (unsigned char)"0123456789abcdef"[c & 15]);
    }
    Expr hex = expr_alt(g, expr_seq(g, expr_text(g, "0", 1), expr_bytes(g, last[0])),
                        expr_seq(g, expr_text(g, "1", 1), expr_bytes(g, last[1])));
    return expr_seq(g, expr_text(g, "\\", 1),
                    expr_alt(g, expr_bytes(g, after_backslash),
                             expr_seq(g, expr_text(g, "u00", 3), hex)));
}

Expr expr_chars(Grammar *g, const CharSet *set, CharForm form)
{
    bool    json = form == CHARS_JSON;
    ByteSet ascii = { { 0 } };
    if (set->failed)
        grammar_no_memory(g);
    if (g->failed)
        return EXPR_NOTHING;
    for (uint32_t c = json ? 0x20 : 0; c < 0x80; c++)
        if (char_set_share(set, c, c) == SHARE_ALL && !(json && (c == '"' || c == '\\')))
            bytes_put(&ascii, c);
    Expr way[] = {
        expr_bytes(g, ascii),
        written(g, set, 0x80, 0x7FF, &UTF8_LEAD_2, UTF8_DIGITS + 3),
        written(g, set, 0x800, 0xFFFF, &UTF8_LEAD_3, UTF8_DIGITS + 2),
        written(g, set, 0x10000, 0x10FFFF, UTF8_DIGITS, UTF8_DIGITS + 1),
        json ? escapes(g, set) : EXPR_NOTHING,
    };
    return expr_alt_list(g, way, 5);
}

Expr expr_any_char(Grammar *g, CharForm form)
{
    uint32_t      edges[] = { 0, CHARACTERS };
    const CharSet all = { .edge = edges, .n = 2 };
    return expr_chars(g, &all, form);
}

Expr expr_chars_text(Grammar *g, const char *text, size_t n, CharForm form)
{
    Expr e = EXPR_EMPTY;
    if (form == CHARS_UTF8)
        return expr_text(g, text, n);
    while (n > 0 && !g->failed) { /* from the end: a sequence is built from its rest */
        uint32_t c = 0;
        size_t   n_last = character_before(text, n, &c);
        if (!n_last)
            grammar_wrong(g, "expected UTF-8, found other bytes");
        n -= n_last;
        if (c >= 0x20 && c != '"' && c != '\\') {
            e = expr_seq(g, expr_text(g, text + n, n_last), e);
            continue;
        }
        uint32_t      edges[] = { c, c + 1 };
        const CharSet one = { .edge = edges, .n = 2 };
        e = expr_seq(g, expr_chars(g, &one, form), e);
    }
    return e;
}
