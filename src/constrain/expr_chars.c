/* Characters as bytes: a set of characters becomes an expression that tells the bytes of its UTF-8,
 * or of what a JSON string may hold for them, apart no more often than it must. */
#include "constrain/grammar_parts.h"

#include <string.h>
#include "text/unicode.h"

/* How much of first .. last is in the set? */
typedef enum Share { NONE, SOME, ALL } Share;
static Share share_of(const CharSet *s, uint32_t first, uint32_t last)
{
    size_t low = 0, high = s->n; /* all edges before low are <= first */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->edge[middle] <= first)
            low = middle + 1;
        else
            high = middle;
    }
    if (low % 2 == 1)
        return s->edge[low] > last ? ALL : SOME;
    return low < s->n && s->edge[low] <= last ? SOME : NONE;
}

/* A character is written as digits: first the most significant. After each comes the next, or the
 * end. Its codes in a place of 2^bits lie from `base` on. */
typedef struct Digit {
    int         bits;      /* of this digit and those after it; 0: the end */
    int         own;       /* of this digit */
    uint8_t     offset;    /* what is added to it as it is written */
    bool        hex;       /* a hexadecimal digit in either case; else a byte */
    const char *before;    /* bytes before it */
} Digit;

static const Digit UTF8_DIGITS[] = {
    { 21, 3, 0xF0, false, "" }, { 18, 6, 0x80, false, "" },
    { 12, 6, 0x80, false, "" }, { 6, 6, 0x80, false, "" }, { 0, 0, 0, false, "" },
};
static const Digit UTF8_LEAD_2 = { 11, 5, 0xC0, false, "" };
static const Digit UTF8_LEAD_3 = { 16, 4, 0xE0, false, "" };
static const Digit HEX_DIGITS[] = {
    { 16, 4, 0, true, "" }, { 12, 4, 0, true, "" }, { 8, 4, 0, true, "" }, { 4, 4, 0, true, "" },
    { 0, 0, 0, false, "" },
};
/* Above U+FFFF, less 0x10000: 20 bits in two surrogates. */
static const Digit PAIR_DIGITS[] = {
    { 20, 2, 8, true, "d" },    { 18, 4, 0, true, "" }, { 14, 4, 0, true, "" },
    { 10, 2, 12, true, "\\ud" }, { 8, 4, 0, true, "" },  { 4, 4, 0, true, "" },
    { 0, 0, 0, false, "" },
};

static void put_digit(ByteSet *set, const Digit *d, uint32_t value)
{
    unsigned c = value + d->offset;
    if (d->hex && c >= 10) {
        bytes_put(set, 'A' + c - 10);
        c += 'a' - 10;
    } else if (d->hex) {
        c += '0';
    }
    bytes_put(set, c);
}

/* The bytes before a digit; a letter may be of either case if the digit is hexadecimal. */
static Expr before(Grammar *g, const Digit *d)
{
    Expr e = EXPR_EMPTY;
    for (const char *p = d->before; *p; p++) {
        ByteSet set = { { 0 } };
        bytes_put(&set, (unsigned char)*p);
        if (*p == 'd')
            bytes_put(&set, 'D');
        e = expr_seq(g, e, expr_bytes(g, set));
    }
    return e;
}

/* The members of s from base on, written with the digits from d on: next follows *d. */
static Expr digits(Grammar *g, const CharSet *s, uint32_t base, const Digit *d, const Digit *next)
{
    struct { ByteSet set; Expr after; } way[64];
    int   n_ways = 0;
    Expr  full = EXPR_NOTHING; /* after a digit whose whole place is in the set */
    for (uint32_t v = 0; v < 1u << d->own; v++) {
        uint32_t size = 1u << (d->bits - d->own), from = base + v * size;
        Share    share = share_of(s, from, from + size - 1);
        Expr     after = EXPR_EMPTY;
        int      w = 0;
        if (share == NONE)
            continue;
        if (next->bits)
            after = share == ALL && full ? full : digits(g, s, from, next, next + 1);
        if (share == ALL)
            full = after;
        while (w < n_ways && way[w].after != after)
            w++;
        if (w == n_ways) {
            way[w].set = (ByteSet){ { 0 } };
            way[n_ways++].after = after;
        }
        put_digit(&way[w].set, d, v);
    }
    Expr e = EXPR_NOTHING;
    for (int w = 0; w < n_ways; w++)
        e = expr_alt(g, e, expr_seq(g, expr_bytes(g, way[w].set), way[w].after));
    return expr_seq(g, before(g, d), e);
}

/* The members from first to last, less the surrogates and less `shift`. */
static CharSet part_of(const CharSet *s, uint32_t first, uint32_t last, uint32_t shift)
{
    CharSet part = { 0 };
    for (size_t i = 0; i < s->n; i += 2) {
        uint32_t from = s->edge[i] > first ? s->edge[i] : first;
        uint32_t to = s->edge[i + 1] - 1 < last ? s->edge[i + 1] - 1 : last;
        if (from <= to && from < 0xD800)
            char_set_add(&part, from - shift, (to < 0xD800 ? to : 0xD7FF) - shift);
        if (from <= to && to > 0xDFFF)
            char_set_add(&part, (from > 0xDFFF ? from : 0xE000) - shift, to - shift);
    }
    return part;
}

/* Those from first to last, in digits. */
static Expr written(Grammar *g, const CharSet *s, uint32_t first, uint32_t last, uint32_t shift,
                    const Digit *d, const Digit *next)
{
    CharSet part = part_of(s, first, last, shift);
    Expr    e = EXPR_NOTHING;
    if (part.failed)
        grammar_no_memory(g);
    else if (part.n)
        e = digits(g, &part, 0, d, next);
    char_set_free(&part);
    return e;
}

/* first: the least that may stand as it is */
static Expr in_utf8(Grammar *g, const CharSet *s, uint32_t first, bool quoted)
{
    ByteSet ascii = { { 0 } };
    for (uint32_t c = first; c < 0x80; c++)
        if (share_of(s, c, c) == ALL && !(quoted && (c == '"' || c == '\\')))
            bytes_put(&ascii, c);
    Expr way[] = {
        expr_bytes(g, ascii),
        written(g, s, 0x80, 0x7FF, 0, &UTF8_LEAD_2, UTF8_DIGITS + 3),
        written(g, s, 0x800, 0xFFFF, 0, &UTF8_LEAD_3, UTF8_DIGITS + 2),
        written(g, s, 0x10000, 0x10FFFF, 0, UTF8_DIGITS, UTF8_DIGITS + 1),
    };
    return expr_alt_list(g, way, 4);
}

Expr expr_chars(Grammar *g, const CharSet *set, CharForm form)
{
    if (set->failed)
        grammar_no_memory(g);
    if (g->failed)
        return EXPR_NOTHING;
    if (form == CHARS_UTF8)
        return in_utf8(g, set, 0, false);
    static const char named[] = "\"\\/\b\f\n\r\t", names[] = "\"\\/bfnrt";
    ByteSet           named_ones = { { 0 } };
    for (int i = 0; named[i]; i++)
        if (share_of(set, (uint32_t)named[i], (uint32_t)named[i]) == ALL)
            bytes_put(&named_ones, (unsigned char)names[i]);
    Expr hex = expr_alt(g, written(g, set, 0, 0xFFFF, 0, HEX_DIGITS, HEX_DIGITS + 1),
                        written(g, set, 0x10000, 0x10FFFF, 0x10000, PAIR_DIGITS, PAIR_DIGITS + 1));
    Expr escaped = expr_alt(g, expr_bytes(g, named_ones), expr_seq(g, expr_text(g, "u", 1), hex));
    return expr_alt(g, in_utf8(g, set, 0x20, true), expr_seq(g, expr_text(g, "\\", 1), escaped));
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
    while (n > 0 && !g->failed) { /* from the end: a row is made from its rest */
        uint32_t c = 0;
        size_t   n_last = character_before(text, n, &c);
        if (!n_last)
            grammar_wrong(g, "expected UTF-8, found other bytes");
        n -= n_last;
        uint32_t      edges[] = { c, c + 1 };
        const CharSet one = { .edge = edges, .n = 2 };
        e = expr_seq(g, expr_chars(g, &one, form), e);
    }
    return e;
}
