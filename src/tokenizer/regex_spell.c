/* Rewrites a pattern without Unicode, in four passes: read it, replacing each part that matches one
 * character by a set (an atom); divide all characters into classes that no set tells apart; write
 * the pattern with sets of classes; write the table from characters to classes. */
#include "tokenizer/regex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "tokenizer/unicode.h"

enum { MOST_DEPTH = 250, MOST_CLASSES = UINT16_MAX, BLOCK = 256, BLOCKS = CHARACTERS / BLOCK };
enum { MOST_SPELLED = 1 << 20 }; /* bytes; PCRE2's limit is 64 KB when compiled */
/* Edges and stretches, about a second; published patterns need under 1 << 17, and most that PCRE2
 * accepts are below this limit too. */
enum { MOST_WORK = 1 << 24 };

/* A set that goes into the spelled pattern at byte `at`. */
typedef struct Atom { size_t at, set; } Atom;

typedef struct Speller {
    const char *p, *what;
    TextOut     out;      /* the pattern without its atoms */
    Atom       *atom;
    CharSet    *set;      /* all different                                 */
    ByteMap     numbers;  /* from the edges of a set to its index in `set` */
    size_t      n_atoms, cap_atoms, n_sets, cap_sets, work;
    bool        caseless, was_caseless[MOST_DEPTH];
    int         depth;
    /* Characters stay as they are, because a back-reference compares them all. */
    bool        same;
    Error      *err;
} Speller;

/* ---- Reading --------------------------------------------------------------------------------- */

static bool refuse(const Speller *s, const char *from, const char *to)
{
    return fail(s->err, INPUT, "%s: '%.*s' is not supported", s->what,
                to - from < 80 ? (int)(to - from) : 80, from);
}

static bool wrong(const Speller *s, const char *why)
{
    return fail(s->err, INPUT, "%s: %s", s->what, why);
}

/* Count work: even a short pattern can name many large sets. */
static bool spend(Speller *s, size_t work)
{
    s->work += work;
    return s->work <= MOST_WORK || wrong(s, "its sets of characters are too many or too large");
}

static bool copy(Speller *s, const char *p, size_t n)
{
    return text_out_bytes(&s->out, p, n) || no_memory(s->what, s->err);
}

static bool place_set(Speller *s, size_t set)
{
    if (!ARRAY_ROOM(s->atom, s->cap_atoms, s->n_atoms + 1))
        return no_memory(s->what, s->err);
    s->atom[s->n_atoms++] = (Atom){ s->out.n, set };
    return true;
}

/* Put a set into the pattern; s then owns it. Equal sets are stored once. */
static bool add_atom(Speller *s, CharSet *set)
{
    bool     fits = spend(s, set->n), known = false;
    int32_t *number = NULL;
    char_set_sort(set);
    if (fits && !set->failed && ARRAY_ROOM(s->set, s->cap_sets, s->n_sets + 1))
        number = byte_map_put(&s->numbers, set->n ? (const char *)set->edge : "",
                              set->n * sizeof *set->edge, (int32_t)s->n_sets, &known, NULL);
    if (number && !known)
        s->set[s->n_sets++] = *set;
    else
        char_set_free(set);
    return number ? place_set(s, (size_t)*number) : fits && no_memory(s->what, s->err);
}

static bool is_octal(char c) { return c >= '0' && c <= '7'; }

/* The "{1F600}" after \x or \o. */
static bool braced_code(Speller *s, unsigned base, uint32_t *c)
{
    const char *from = s->p++;
    int         digit;
    for (*c = 0; (digit = hex_digit(*s->p)) >= 0 && (unsigned)digit < base && *c < CHARACTERS;
         s->p++)
        *c = *c * base + (unsigned)digit;
    if (*s->p != '}' || s->p == from + 1 || *c >= CHARACTERS || (*c >= 0xD800 && *c < 0xE000))
        return wrong(s, "expected the code point of a character in { }");
    s->p++;
    return true;
}

/* The character that an escape means; s->p is after the letter. *known: does it mean one? */
static bool escaped_code(Speller *s, char letter, uint32_t *c, bool *known)
{
    static const char from[] = "aefnrt", to[] = "\a\x1B\f\n\r\t";
    const char *simple = letter ? strchr(from, letter) : NULL;
    *known = true;
    *c     = 0;
    if ((letter == 'x' || letter == 'o') && *s->p == '{')
        return braced_code(s, letter == 'x' ? 16 : 8, c);
    if (simple)
        *c = (unsigned char)to[simple - from];
    else if (letter == 'x')
        for (int i = 0; i < 2 && hex_digit(*s->p) >= 0; i++)
            *c = *c * 16 + (unsigned)hex_digit(*s->p++);
    else if (letter == '0')
        for (int i = 0; i < 2 && is_octal(*s->p); i++)
            *c = *c * 8 + (unsigned)(*s->p++ - '0');
    else if (letter == 'c' && *s->p > ' ' && *s->p < 0x7F)
        *c = (uint32_t)(*s->p >= 'a' && *s->p <= 'z' ? *s->p - 32 : *s->p) ^ 0x40, s->p++;
    else
        *known = false;
    return true;
}

/* Add own (inverted if asked) to set, and free it. */
static bool take_in(Speller *s, CharSet *set, CharSet *own, bool inverted)
{
    bool fits = spend(s, own->n);
    char_set_sort(own);
    if (inverted)
        char_set_invert(own);
    for (size_t i = 0; i < own->n; i += 2)
        char_set_add(set, own->edge[i], own->edge[i + 1] - 1);
    set->failed |= own->failed;
    char_set_free(own);
    return fits;
}

/* \p{Name}, \P{Name}, \p{^Name}, \pL; s->p is after the letter. */
static bool property(Speller *s, char letter, CharSet *set)
{
    const char *from = s->p - 2, *name = s->p, *end = s->p + (*s->p != '\0');
    bool        inverted = letter == 'P';
    if (*s->p == '{') {
        inverted ^= s->p[1] == '^';
        name = s->p + 1 + (s->p[1] == '^');
        end  = strchr(name, '}');
        if (!end)
            return wrong(s, "a property without its }");
    }
    s->p = end + (*end == '}');
    CharSet own = { 0 };
    if (end == name || !char_set_property(&own, name, (size_t)(end - name)))
        return refuse(s, from, s->p);
    return take_in(s, set, &own, inverted);
}

/* \d \s \w \p and their opposites; *known: is it one of them? s->p is after the letter. */
static bool escaped_set(Speller *s, char letter, CharSet *set, bool *known)
{
    char    lower = letter | 0x20;
    CharSet own = { 0 };
    *known = letter && strchr("dDsSwWpP", letter);
    if (!*known)
        return true;
    if (lower == 'p')
        return property(s, letter, set);
    if (lower == 'w')
        char_set_words(&own);
    else
        char_set_property(&own, lower == 'd' ? "Nd" : "space", lower == 'd' ? 2 : 5);
    return take_in(s, set, &own, letter != lower);
}

static bool plain_character(Speller *s, uint32_t *c)
{
    size_t len = character_at(s->p, strlen(s->p) < 4 ? strlen(s->p) : 4, c);
    s->p += len;
    return len || wrong(s, "expected UTF-8");
}

static bool is_letter_or_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- Sets ------------------------------------------------------------------------------------ */

/* [:digit:] and [:^digit:]. The other POSIX classes differ between libraries, so they are
 * errors. */
static bool posix_class(Speller *s, CharSet *set)
{
    static const char *const known[] = { "[:digit:]", "[:^digit:]" };
    for (int i = 0; i < 2; i++)
        if (strncmp(s->p, known[i], strlen(known[i])) == 0) {
            bool is_set;
            s->p += strlen(known[i]);
            return escaped_set(s, "dD"[i], set, &is_set);
        }
    return refuse(s, s->p, strstr(s->p, ":]") + 2);
}

static bool is_posix_class(const char *p)
{
    const char *at = p + 2;
    if (p[0] != '[' || p[1] != ':')
        return false;
    while (*at == '^' || is_letter_or_digit(*at))
        at++;
    return at[0] == ':' && at[1] == ']';
}

/* Read one member of a bracketed set: a character into *c, or (*is_set) a set that is added to
 * set. */
static bool member(Speller *s, CharSet *set, uint32_t *c, bool *is_set)
{
    const char *from = s->p;
    *is_set = is_posix_class(s->p);
    if (*is_set)
        return posix_class(s, set);
    if (*s->p != '\\')
        return plain_character(s, c);
    char letter = s->p[1];
    bool known;
    s->p += 1 + (letter != '\0');
    if (!escaped_set(s, letter, set, is_set) || (!*is_set && !escaped_code(s, letter, c, &known)))
        return false;
    if (*is_set || known)
        return true;
    if (letter == 'b') {
        *c = '\b';
        return true;
    }
    s->p = from + 1;
    return (letter && !is_letter_or_digit(letter)) ? plain_character(s, c)
                                                   : refuse(s, from, from + 1 + (letter != '\0'));
}

static bool members(Speller *s, CharSet *set)
{
    for (bool first = true; first || *s->p != ']'; first = false) {
        uint32_t low = 0, high;
        bool     is_set, to_set = false;
        const char *from = s->p;
        if (!*s->p)
            return wrong(s, "a set without its ]");
        if (!member(s, set, &low, &is_set))
            return false;
        high = low;
        if (s->p[0] == '-' && s->p[1] && s->p[1] != ']') {
            s->p++;
            if (is_set || !member(s, set, &high, &to_set))
                return is_set ? refuse(s, from, s->p + 1) : false;
            if (to_set || high < low)
                return refuse(s, from, s->p);
        }
        if (!is_set)
            char_set_add(set, low, high);
    }
    s->p++;
    return true;
}

static bool bracketed(Speller *s)
{
    CharSet set = { 0 };
    bool    inverted = s->p[1] == '^';
    s->p += 1 + inverted;
    if (!members(s, &set)) {
        char_set_free(&set);
        return false;
    }
    char_set_sort(&set);
    if (s->caseless)
        char_set_fold(&set);
    if (inverted)
        char_set_invert(&set);
    return add_atom(s, &set);
}

/* ---- Other parts ----------------------------------------------------------------------------- */

static bool one_character(Speller *s, uint32_t c)
{
    CharSet set = { 0 };
    char_set_add(&set, c, c);
    if (s->caseless)
        char_set_fold(&set);
    return add_atom(s, &set);
}

/* \b: a word character on one side only. \B: on both sides or on neither. */
static bool word_boundary(Speller *s, bool is)
{
    static const char *const part[2][5] = {
        {"(?:(?<=",  ")(?=", ")|(?<!", ")(?!", "))"},
        { "(?:(?<=", ")(?!", ")|(?<!", ")(?=", "))"}
    };
    CharSet words = { 0 };
    if (!copy(s, part[is][0], strlen(part[is][0])))
        return false;
    char_set_words(&words);
    bool ok = add_atom(s, &words);
    for (int i = 1; ok && i < 5; i++)
        ok = copy(s, part[is][i], strlen(part[is][i]))
            && (i == 4 || place_set(s, s->atom[s->n_atoms - 1].set));
    return ok;
}

static bool escape(Speller *s)
{
    const char *from = s->p;
    char        letter = s->p[1];
    CharSet     set = { 0 };
    uint32_t    c = 0;
    bool        known;
    s->p += 1 + (letter != '\0');
    if (!escaped_set(s, letter, &set, &known)) {
        char_set_free(&set);
        return false;
    }
    if (known)
        return add_atom(s, &set);
    if (!escaped_code(s, letter, &c, &known))
        return false;
    if (known)
        return one_character(s, c);
    if (letter == 'b' || letter == 'B')
        return word_boundary(s, letter == 'b');
    if (letter && strchr("AzZGK", letter))
        return copy(s, from, 2);
    if (letter == 'N' && *s->p != '{')
        return copy(s, from, 2);
    if (letter >= '1' && letter <= '9' && !s->caseless && !(*s->p >= '0' && *s->p <= '9')) {
        s->same = true;
        /* In a group, since a digit may follow. */
        return copy(s, "(?:", 3) && copy(s, from, 2) && copy(s, ")", 1);
    }
    if (!letter || is_letter_or_digit(letter))
        return refuse(s, from, s->p);
    s->p = from + 1;
    return plain_character(s, &c) && one_character(s, c);
}

/* "(?is-m:" or "(?i)"; s->p is after "(?". We write out case; m and s are left to PCRE2. */
static bool options(Speller *s)
{
    const char *from = s->p - 2;
    bool        off = false, caseless = s->caseless, group;
    char        kept[16];
    size_t      n = 0;
    for (; *s->p != ')' && *s->p != ':'; s->p++) {
        if (*s->p == 'i')
            caseless = !off;
        else if ((*s->p == '-' && !off) || *s->p == 'm' || *s->p == 's')
            kept[n++] = *s->p;
        else
            return refuse(s, from, s->p + (*s->p != '\0'));
        off |= *s->p == '-';
        if (n == sizeof kept)
            return refuse(s, from, s->p + 1);
    }
    group = *s->p++ == ':';
    if (group) {
        if (s->depth == MOST_DEPTH)
            return wrong(s, "groups in groups too deeply");
        s->was_caseless[s->depth++] = s->caseless;
    }
    s->caseless = caseless;
    return copy(s, "(?", 2) && copy(s, kept, n) && copy(s, group ? ":" : ")", 1);
}

/* Bytes of the opening of a group at p, such as "(" or "(?<="; 0: none that we know. */
static size_t opening(const char *p)
{
    static const char *const known[] = { "(?:", "(?=", "(?!", "(?>", "(?|", "(?<=", "(?<!" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(p, known[i], strlen(known[i])) == 0)
            return strlen(known[i]);
    size_t n = p[1] != '?' && p[1] != '*'   ? 1
               : strncmp(p, "(?<", 3) == 0  ? 3
               : strncmp(p, "(?P<", 4) == 0 ? 4
                                            : 0;
    if (n < 3)
        return n;
    size_t end = n;
    while (is_letter_or_digit(p[end]) || p[end] == '_')
        end++;
    return end > n && p[end] == '>' ? end + 1 : 0;
}

static bool group(Speller *s)
{
    const char *end = strncmp(s->p, "(?#", 3) == 0 ? strchr(s->p, ')') : NULL;
    if (end) {
        s->p = end + 1;
        return true;
    }
    size_t n = opening(s->p);
    if (n) {
        if (s->depth == MOST_DEPTH)
            return wrong(s, "groups in groups too deeply");
        s->was_caseless[s->depth++] = s->caseless;
        s->p += n;
        return copy(s, s->p - n, n);
    }
    if (s->p[1] != '?')
        return refuse(s, s->p, s->p + 2);
    s->p += 2;
    return options(s);
}

/* Bytes of "{2}", "{2,}" or "{2,3}" at p; 0: not a repeat. Any other brace is plain text, as in
 * older versions of PCRE2; newer ones know more forms. */
static size_t repeat(const char *p)
{
    size_t n = 1 + strspn(p + 1, "0123456789");
    if (n == 1)
        return 0;
    if (p[n] == ',')
        n += 1 + strspn(p + n + 1, "0123456789");
    return p[n] == '}' ? n + 1 : 0;
}

static bool next_part(Speller *s)
{
    uint32_t c;
    size_t   n = *s->p == '{' ? repeat(s->p) : strchr(".*+?|^$", *s->p) ? 1 : 0;
    s->p += n;
    if (n)
        return copy(s, s->p - n, n);
    switch (*s->p) {
    case '\\': return escape(s);
    case '[':  return bracketed(s);
    case '(':  return group(s);
    case ')':
        if (!s->depth)
            return wrong(s, "a ) without its (");
        s->caseless = s->was_caseless[--s->depth];
        return copy(s, s->p++, 1);
    default:   return plain_character(s, &c) && one_character(s, c);
    }
}

/* ---- Classes --------------------------------------------------------------------------------- */

/* The stretches of characters between the edges of all sets. The characters of [start[i], start[i +
 * 1]) are in class[i]. An ASCII character stands for itself, any other is replaced by the stand-in
 * of its class. */
typedef struct Cuts { uint32_t *start, *class; size_t n; } Cuts;

static int by_value(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static size_t stretch_at(const Cuts *cuts, uint32_t c)
{
    size_t low = 0, high = cuts->n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (cuts->start[middle] <= c)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool find_edges(const Speller *s, Cuts *cuts)
{
    /* Where the length in UTF-8 changes, and where surrogates start and end. */
    static const uint32_t always[] = { 0, 0x80, 0x800, 0xD800, 0xE000, 0x10000 };
    size_t n = sizeof always / sizeof *always, at = n;
    for (size_t i = 0; i < s->n_sets; i++)
        n += s->set[i].n;
    cuts->start = malloc((n + 1) * sizeof *cuts->start);
    cuts->class = calloc(n + 1, sizeof *cuts->class);
    if (!cuts->start || !cuts->class)
        return no_memory(s->what, s->err);
    memcpy(cuts->start, always, sizeof always);
    for (size_t i = 0; i < s->n_sets; at += s->set[i++].n)
        if (s->set[i].n)
            memcpy(cuts->start + at, s->set[i].edge, s->set[i].n * sizeof *cuts->start);
    qsort(cuts->start, n, sizeof *cuts->start, by_value);
    for (size_t i = 0; i < n; i++)
        if (cuts->start[i] < CHARACTERS && (!cuts->n || cuts->start[i] != cuts->start[cuts->n - 1]))
            cuts->start[cuts->n++] = cuts->start[i];
    cuts->start[cuts->n] = CHARACTERS;
    return true;
}

typedef struct Class {
    size_t   n, n_in;  /* stretches of the class; those in the set               */
    size_t   set;      /* the set that n_in and becomes are about: its index + 1 */
    uint32_t becomes;  /* the new class for those in the set; 0: none yet        */
} Class;

/* A class that is partly in a set is split: the part in the set becomes a new class. This is
 * partition refinement. */
static bool cut_classes(Speller *s, const Cuts *cuts)
{
    uint32_t n_classes = 1;
    Class   *class = calloc(cuts->n, sizeof *class); /* enough, since no class is empty */
    if (!class)
        return no_memory(s->what, s->err);
    class[0].n = cuts->n;
    bool ok = true;
    for (size_t i = 0; ok && i < s->n_sets; i++) {
        const CharSet *set = &s->set[i];
        size_t         n_in = 0;
        for (size_t e = 0; e < set->n; e += 2)
            for (size_t k = stretch_at(cuts, set->edge[e]); cuts->start[k] < set->edge[e + 1];
                 k++) {
                Class *c = &class[cuts->class[k]];
                if (c->set != i + 1)
                    *c = (Class){ .n = c->n, .set = i + 1 };
                c->n_in++;
                n_in++;
            }
        for (size_t e = 0; e < set->n; e += 2)
            for (size_t k = stretch_at(cuts, set->edge[e]); cuts->start[k] < set->edge[e + 1];
                 k++) {
                Class *c = &class[cuts->class[k]];
                if (c->n_in == c->n)
                    continue;
                if (!c->becomes)
                    c->becomes = n_classes++;
                c->n--;
                c->n_in--;
                class[c->becomes].n++;
                cuts->class[k] = c->becomes;
            }
        ok = spend(s, n_in);
    }
    free(class);
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
    for (size_t e = 0; e < set->n; e += 2)
        for (size_t k = stretch_at(cuts, set->edge[e]); cuts->start[k] < set->edge[e + 1]; k++) {
            uint32_t c = cuts->start[k], to;
            if (is_surrogate(c))
                continue;
            if (c < 0x80) {
                char_set_add(&out, c, cuts->start[k + 1] - 1);
                continue;
            }
            to = stand_in(length_of(c), cuts->class[k]);
            char_set_add(&out, to, to);
        }
    char_set_sort(&out);
    char_set_free(set);
    *set = out;
    return !out.failed || no_memory(s->what, s->err);
}

static void write_set(TextOut *out, const CharSet *set)
{
    bool one = set->n == 2 && set->edge[0] + 1 == set->edge[1] && set->edge[0] > ' '
        && set->edge[0] < 0x7F;
    if (one) {
        char c = (char)set->edge[0];
        text_out(out, is_letter_or_digit(c) ? "%c" : "\\%c", c);
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

static bool write_pattern(Speller *s, const Cuts *cuts, Spelling *to)
{
    TextOut out = { 0 };
    const char *text = s->out.text ? s->out.text : "";
    size_t  done = 0;
    bool    ok = true;
    for (size_t i = 0; ok && !s->same && i < s->n_sets; i++)
        ok = translate(s, cuts, &s->set[i]);
    for (size_t i = 0; ok && i < s->n_atoms; i++) {
        text_out_bytes(&out, text + done, s->atom[i].at - done);
        write_set(&out, &s->set[s->atom[i].set]);
        ok   = out.n <= MOST_SPELLED || wrong(s, "too many different sets");
        done = s->atom[i].at;
    }
    if (ok)
        text_out_bytes(&out, text + done, s->out.n - done);
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
    while (*s->p)
        if (!next_part(s))
            return false;
    if (s->depth)
        return wrong(s, "a ( without its )");
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
    Speller s = { .p = pattern, .what = what, .err = err };
    *out = (Spelling){ 0 };
    bool ok = spell(&s, out);
    for (size_t i = 0; i < s.n_sets; i++)
        char_set_free(&s.set[i]);
    byte_map_free(&s.numbers);
    free(s.set);
    free(s.atom);
    free(s.out.text);
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
    if (*n_room < n) {
        free(*room);
        *n_room = 0;
        *room   = n < SIZE_MAX / 2 ? malloc(2 * n) : NULL;
        if (!*room)
            return NULL;
        *n_room = 2 * n;
    }
    unsigned char *out = (unsigned char *)*room;
    memcpy(out, text, i);
    while (i < n) {
        const unsigned char *p = (const unsigned char *)text + i;
        if (p[0] < 0x80) {
            out[i++] = p[0];
        } else if (p[0] < 0xE0) {
            uint32_t to = stand_in(2, class_of(s, (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu)));
            out[i++] = (unsigned char)(0xC0 | to >> 6);
            out[i++] = (unsigned char)(0x80 | (to & 0x3F));
        } else if (p[0] < 0xF0) {
            uint32_t to = stand_in(
                3, class_of(s, (p[0] & 0xFu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu)));
            out[i++] = (unsigned char)(0xE0 | to >> 12);
            out[i++] = (unsigned char)(0x80 | (to >> 6 & 0x3F));
            out[i++] = (unsigned char)(0x80 | (to & 0x3F));
        } else {
            uint32_t c =
                (p[0] & 7u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
            i += character_write(stand_in(4, class_of(s, c)), (char *)out + i);
        }
    }
    return *room;
}
