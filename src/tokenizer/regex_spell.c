/* Rewrites a pattern without Unicode: divides all characters into classes that no set of it tells
 * apart, writes the pattern with sets of classes, then the table from characters to classes. */
#include "tokenizer/regex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "tokenizer/unicode.h"

enum { MOST_CLASSES = UINT16_MAX, BLOCK = 256, BLOCKS = CHARACTERS / BLOCK };
enum { MOST_SPELLED = 1 << 20 }; /* bytes; PCRE2's limit is 64 KB when compiled */

typedef struct Speller {
    Pattern     pattern;
    const char *what;
    /* Characters stay as they are, because a back-reference compares them all. */
    bool        same;
    Error      *err;
} Speller;

static bool wrong(const Speller *s, const char *why)
{
    return fail(s->err, INPUT, "%s: %s", s->what, why);
}

/* ---- Classes --------------------------------------------------------------------------------- */

/* The stretches of characters between the edges of all sets. The characters of [start[i], start[i +
 * 1]) are in class[i]. An ASCII character stands for itself, any other is replaced by the stand-in
 * of its class. */
typedef struct Cuts { uint32_t *start, *class; size_t n; } Cuts;

static size_t stretch_at(const Cuts *cuts, uint32_t c)
{
    size_t k = 1;
    BISECT (k, cuts->n, cuts->start[k] <= c);
    return k - 1;
}

static bool find_edges(const Speller *s, Cuts *cuts)
{
    /* Where the length in UTF-8 changes, and where surrogates start and end. */
    static const uint32_t always[] = { 0, 0x80, 0x800, 0xD800, 0xE000, 0x10000 };
    size_t n = sizeof always / sizeof *always, at = n;
    for (size_t i = 0; i < s->pattern.n_sets; i++)
        n += s->pattern.set[i].n;
    cuts->start = malloc((n + 1) * sizeof *cuts->start);
    cuts->class = calloc(n + 1, sizeof *cuts->class);
    if (!cuts->start || !cuts->class)
        return no_memory(s->what, s->err);
    memcpy(cuts->start, always, sizeof always);
    for (size_t i = 0; i < s->pattern.n_sets; at += s->pattern.set[i++].n) {
        const CharSet *set = &s->pattern.set[i];
        if (set->n)
            memcpy(cuts->start + at, set->edge, set->n * sizeof *cuts->start);
    }
    qsort(cuts->start, n, sizeof *cuts->start, compare_u32);
    for (size_t i = 0; i < n; i++)
        if (cuts->start[i] < CHARACTERS && (!cuts->n || cuts->start[i] != cuts->start[cuts->n - 1]))
            cuts->start[cuts->n++] = cuts->start[i];
    cuts->start[cuts->n] = CHARACTERS;
    return true;
}

/* For each stretch k of a set. */
#define EACH_STRETCH(k, cuts, set)                                                                 \
    for (size_t e_ = 0; e_ < (set)->n; e_ += 2)                                                    \
        for (size_t k = stretch_at(cuts, (set)->edge[e_]); (cuts)->start[k] < (set)->edge[e_ + 1]; \
             k++)

typedef struct Class {
    size_t   n;       /* stretches */
    size_t   set;     /* the set that becomes is about: its index + 1 */
    uint32_t becomes; /* the new class for those in the set */
} Class;

/* What is in a set leaves its class for a new one, set after set: partition refinement. Numbers of
 * empty classes are used again, so one more than there are stretches is enough. */
static bool cut_classes(Speller *s, const Cuts *cuts)
{
    Class    *class = calloc(cuts->n + 1, sizeof *class);
    uint32_t *unused = malloc(cuts->n * sizeof *unused);
    size_t    n_unused = 0;
    bool      ok = (class && unused) || no_memory(s->what, s->err);
    for (uint32_t c = (uint32_t)cuts->n; ok && c > 0; c--)
        unused[n_unused++] = c;
    if (ok)
        class[0].n = cuts->n;
    for (size_t i = 0; ok && i < s->pattern.n_sets; i++) {
        EACH_STRETCH (k, cuts, &s->pattern.set[i]) {
            Class *c = &class[cuts->class[k]];
            if (c->set != i + 1)
                *c = (Class){ c->n, i + 1, unused[--n_unused] };
            class[c->becomes].n++;
            if (--c->n == 0)
                unused[n_unused++] = cuts->class[k];
            cuts->class[k] = c->becomes;
            s->pattern.work++;
        }
        ok = s->pattern.work <= REGEX_MOST_WORK || wrong(s, REGEX_TOO_MUCH);
    }
    free(class);
    free(unused);
    return ok;
}

static int length_of(uint32_t c) { return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4; }

/* The stand-in of class number `class`, among characters of `length` bytes. It skips surrogates. */
static uint32_t stand_in(int length, uint32_t class)
{
    if (length == 3)
        return 0x800 + class + (class >= 0xD800 - 0x800 ? 0x800 : 0);
    return class + (length == 2 ? 0x80 : 0x10000);
}

static bool is_surrogate(uint32_t c) { return c >= 0xD800 && c < 0xE000; }

/* Number the classes again: from 0 for each length in UTF-8, in order of appearance. *most is the
 * largest number outside ASCII. */
static bool number_classes(const Speller *s, const Cuts *cuts, uint32_t *most)
{
    uint32_t top = 0, next = 0;
    for (size_t i = 0; i < cuts->n; i++)
        top = cuts->class[i] > top ? cuts->class[i] : top;
    uint32_t *number = malloc(((size_t)top + 1) * sizeof *number);
    if (!number)
        return no_memory(s->what, s->err);
    *most = 0;
    for (size_t i = 0; i < cuts->n; i++) {
        if (i == 0 || length_of(cuts->start[i]) != length_of(cuts->start[i - 1])) {
            memset(number, 0xFF, ((size_t)top + 1) * sizeof *number);
            next = 0;
        }
        uint32_t *n = &number[cuts->class[i]];
        if (*n == UINT32_MAX && !is_surrogate(cuts->start[i]))
            *n = next++;
        cuts->class[i] = is_surrogate(cuts->start[i]) ? 0 : *n;
        if (cuts->start[i] >= 0x80 && cuts->class[i] > *most)
            *most = cuts->class[i];
    }
    free(number);
    return *most < MOST_CLASSES || wrong(s, "too many different sets");
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Replace a set by the set of its stand-ins. */
static bool translate(const Speller *s, const Cuts *cuts, CharSet *set)
{
    CharSet out = { 0 };
    EACH_STRETCH (k, cuts, set) {
        uint32_t c = cuts->start[k], to = stand_in(length_of(c), cuts->class[k]);
        if (c < 0x80)
            char_set_add(&out, c, cuts->start[k + 1] - 1);
        else if (!is_surrogate(c))
            char_set_add(&out, to, to);
    }
    char_set_sort(&out);
    char_set_free(set);
    *set = out;
    return !out.failed || no_memory(s->what, s->err);
}

static void write_set(TextOut *out, const CharSet *set)
{
    if (set->n == 2 && set->edge[0] + 1 == set->edge[1] && set->edge[0] > ' '
        && set->edge[0] < 0x7F) {
        char c = (char)set->edge[0];
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
        text_out(out, plain ? "%c" : "\\%c", c);
        return;
    }
    text_out(out, set->n ? "[" : "[^\\x{0}-\\x{10ffff}]");
    for (size_t e = 0; e < set->n; e += 2) {
        uint32_t last = set->edge[e + 1] - 1;
        if (set->edge[e] < last)
            text_out(out, "\\x{%x}-", set->edge[e]);
        text_out(out, "\\x{%x}", last);
    }
    if (set->n)
        text_out(out, "]");
}

/* \b: a word character on one side only. \B: on both sides or on neither. */
static void write_word_edge(TextOut *out, const CharSet *words, bool is)
{
    static const char *const part[2][4] = {
        {"(?:(?<=",  ")(?=", ")|(?<!", ")(?!"},
        { "(?:(?<=", ")(?!", ")|(?<!", ")(?="}
    };
    for (int i = 0; i < 4; i++) {
        text_out(out, "%s", part[is][i]);
        write_set(out, words);
    }
    text_out(out, "))");
}

static void write_part(TextOut *out, const Pattern *pattern, const RegexPart *p)
{
    bool flags = p->kind == PART_FLAGS || (p->kind == PART_OPEN && p->to[-1] == ':');
    if (p->kind == PART_SET)
        write_set(out, &pattern->set[p->set]);
    else if (p->kind == PART_WORD_EDGE)
        write_word_edge(out, &pattern->set[p->set], p->from[1] == 'b');
    else if (p->kind == PART_REFERENCE) /* in a group, since a digit may follow */
        text_out(out, "(?:%.*s)", (int)(p->to - p->from), p->from);
    else
        for (const char *c = p->from; c < p->to; c++)
            if (!flags || *c != 'i') /* case is in the sets; PCRE2 gets m and s */
                text_out_bytes(out, c, 1);
}

static bool write_pattern(Speller *s, const Cuts *cuts, Spelling *to)
{
    TextOut out = { 0 };
    bool    ok = true;
    text_out_bytes(&out, "", 0);
    for (size_t i = 0; ok && !s->same && i < s->pattern.n_sets; i++)
        ok = translate(s, cuts, &s->pattern.set[i]);
    for (size_t i = 0; ok && i < s->pattern.n; i++) {
        write_part(&out, &s->pattern, &s->pattern.part[i]);
        ok = out.n <= MOST_SPELLED || wrong(s, "too many different sets");
    }
    to->pattern = text_out_take(&out, NULL);
    return ok && (to->pattern || no_memory(s->what, s->err));
}

/* Write the table in blocks of 256 characters. Most blocks are of one class; for each class only
 * one such block is stored. */
static bool write_classes(const Speller *s, const Cuts *cuts, uint32_t most, Spelling *to)
{
    uint16_t *whole = malloc((most + 1) * sizeof *whole);
    size_t    n = 0, cap = 0;
    bool      ok = whole && (to->block = malloc(BLOCKS * sizeof *to->block));
    if (ok)
        memset(whole, 0xFF, (most + 1) * sizeof *whole);
    for (uint32_t b = 0; ok && b < BLOCKS; b++) {
        uint32_t from = b * BLOCK;
        size_t   k = stretch_at(cuts, from);
        bool     is_whole = cuts->start[k + 1] >= from + BLOCK && from;
        if (is_whole && whole[cuts->class[k]] != UINT16_MAX) {
            to->block[b] = whole[cuts->class[k]];
            continue;
        }
        ok = n < cap || array_grow(&to->class, &cap, n + 1, BLOCK * sizeof *to->class);
        if (!ok)
            break;
        for (uint32_t c = from; c < from + BLOCK; c++) {
            k += cuts->start[k + 1] <= c;
            to->class[n * BLOCK + c - from] = (uint16_t)cuts->class[k];
        }
        if (is_whole)
            whole[cuts->class[k]] = (uint16_t)n;
        to->block[b] = (uint16_t)n++;
    }
    free(whole);
    return ok || no_memory(s->what, s->err);
}

static bool spell(Speller *s, Spelling *to)
{
    Cuts     cuts = { 0 };
    uint32_t most = 0;
    for (size_t i = 0; i < s->pattern.n; i++)
        s->same |= s->pattern.part[i].kind == PART_REFERENCE;
    bool ok = s->same
        || (find_edges(s, &cuts) && cut_classes(s, &cuts) && number_classes(s, &cuts, &most));
    /* If no set tells apart two characters of the same length, the text can stay as it is. */
    s->same |= most == 0;
    ok = ok && write_pattern(s, &cuts, to) && (s->same || write_classes(s, &cuts, most, to));
    free(cuts.start);
    free(cuts.class);
    return ok;
}

bool regex_spell(Spelling *out, const char *pattern, const char *what, Error *err)
{
    Speller    s = { .what = what, .err = err };
    RegexFault fault;
    *out = (Spelling){ 0 };
    bool parsed = regex_parse(&s.pattern, pattern, strlen(pattern), &REGEX_PCRE2, &fault);
    if (!parsed && fault.why)
        wrong(&s, fault.why);
    else if (!parsed && fault.from)
        fail(err, INPUT, "%s: '%.*s' is not supported", what,
             fault.to - fault.from < 80 ? (int)(fault.to - fault.from) : 80, fault.from);
    else if (!parsed)
        no_memory(what, err);
    bool ok = parsed && spell(&s, out);
    pattern_free(&s.pattern);
    if (!ok)
        regex_spelling_free(out);
    return ok;
}

void regex_spelling_free(Spelling *s)
{
    free(s->pattern);
    free(s->block);
    free(s->class);
    *s = (Spelling){ 0 };
}

/* ---- The text -------------------------------------------------------------------------------- */

static inline uint32_t class_of(const Spelling *s, uint32_t c)
{
    return s->class[(size_t)s->block[c / BLOCK] * BLOCK + c % BLOCK];
}

const char *spelling_view(const Spelling *s, const char *text, size_t n, char **room,
                          size_t *n_room)
{
    size_t i = s->block ? ascii_prefix(text, n) : n;
    if (i == n)
        return text;
    if (!ARRAY_ROOM(*room, *n_room, n))
        return NULL;
    char *out = *room;
    memcpy(out, text, i);
    while (i < n) {
        uint32_t c = 0;
        int      length = utf8_decode(text + i, n - i, &c);
        i += character_write(length == 1 ? c : stand_in(length, class_of(s, c)), out + i);
    }
    return *room;
}
