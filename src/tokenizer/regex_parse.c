/* Reads patterns into parts, in one pass. What dialects spell alike is read by the same lines. If
 * they word an error differently, both wordings stand side by side. */
#include "tokenizer/regex.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "tokenizer/unicode.h"

enum { MOST_DEEP = 250, MOST_COUNT = 1 << 24 };

#define ESCAPED .letters = "aefnrt", .codes = "\a\x1B\f\n\r\t"
const RegexDialect REGEX_PCRE2 = { ESCAPED, .flags = "ims", .most_deep = MOST_DEEP };
const RegexDialect REGEX_ONIGURUMA = { ESCAPED, .flags = "ims", .most_deep = MOST_DEEP,
                                       .strict = true };
const RegexDialect REGEX_ECMA = { .letters = "fnrtv", .codes = "\f\n\r\t\v", .flags = "is",
                                  .most_deep = 200, .ecma = true };

typedef struct PatternReader {
    const char         *p, *end;
    const char         *from; /* of the part that is being read */
    const RegexDialect *d;
    Pattern            *to;
    RegexFault         *fault;
    bool                caseless, dot_all;
    bool                repeatable; /* the last part */
    int                 depth;
    struct { const char *from; bool caseless, dot_all; } group[MOST_DEEP]; /* the open ones */
} PatternReader;

/* What is wrong with the text from `from` to s->p, in the words for tokenizers and in those for
 * constraints. NULL: it is quoted as unsupported. */
static bool flaw(PatternReader *s, const char *from, const char *why, const char *ecma)
{
    *s->fault = (RegexFault){ from, s->p, s->d->ecma ? ecma : why, false };
    return false;
}

/* Oniguruma and PCRE2 read the text from `from` to `to` differently. */
static bool unlike(PatternReader *s, const char *from, const char *to)
{
    *s->fault = (RegexFault){ from, to, NULL, true };
    return false;
}

static char next(const PatternReader *s) { return s->p < s->end ? *s->p : '\0'; }

static bool next_is(const PatternReader *s, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(s->end - s->p) >= n && memcmp(s->p, text, n) == 0;
}

static bool take(PatternReader *s, const char *text)
{
    bool is = next_is(s, text);
    s->p += is ? strlen(text) : 0;
    return is;
}

static bool is_one_of(char c, const char *set) { return c && strchr(set, c); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }
static bool is_surrogate(uint32_t c) { return c >= 0xD800 && c < 0xE000; }

/* ---- Parts ----------------------------------------------------------------------------------- */

static bool add_part(PatternReader *s, RegexPart part)
{
    Pattern *to = s->to;
    part.from = s->from;
    part.to = s->p;
    s->repeatable = part.kind != PART_OPEN && part.kind != PART_OR && part.kind != PART_REPEAT;
    if (!ARRAY_ROOM(to->part, to->cap, to->n + 1))
        return false;
    to->part[to->n++] = part;
    return true;
}

static bool add_kind(PatternReader *s, RegexKind kind)
{
    return add_part(s, (RegexPart){ .kind = kind });
}

/* Count work: even a short pattern can name many large sets. */
static bool spend(PatternReader *s, size_t work)
{
    s->to->work += work;
    return s->to->work <= REGEX_MOST_WORK || flaw(s, s->p, REGEX_TOO_MUCH, REGEX_TOO_MUCH);
}

/* Add a part with a set, which the pattern then owns. Equal sets are stored once. */
static bool add_set(PatternReader *s, RegexKind kind, CharSet *set, bool folded, bool inverted)
{
    Pattern *to = s->to;
    bool     known = false;
    int32_t *number = NULL;
    char_set_sort(set);
    if (folded && s->caseless)
        char_set_fold(set);
    if (inverted)
        char_set_invert(set);
    if (spend(s, set->n) && !set->failed && ARRAY_ROOM(to->set, to->cap_sets, to->n_sets + 1))
        number = byte_map_put(&to->numbers, set->n ? (const char *)set->edge : "",
                              set->n * sizeof *set->edge, (int32_t)to->n_sets, &known, NULL);
    if (number && !known)
        to->set[to->n_sets++] = *set;
    else
        char_set_free(set);
    return number && add_part(s, (RegexPart){ .kind = kind, .set = (size_t)*number });
}

static uint32_t plain_character(PatternReader *s)
{
    uint32_t c = 0; /* regex_parse has checked the UTF-8 */
    s->p += character_at(s->p, (size_t)(s->end - s->p), &c);
    return c;
}

static bool literal(PatternReader *s, uint32_t c)
{
    CharSet set = { 0 };
    char_set_add(&set, c, c);
    return add_set(s, PART_SET, &set, true, false);
}

/* ---- Escapes --------------------------------------------------------------------------------- */

/* OTHER: a letter or digit that means no character and no set. */
typedef enum Escape { FAILED, CHARACTER, SET, OTHER } Escape;

/* Read at most `most` digits, up to the first value beyond all characters. Returns their number. */
static int digits(PatternReader *s, int base, int most, uint32_t *c)
{
    int n = 0;
    *c = 0;
    for (int digit; n < most && *c < CHARACTERS; n++, s->p++) {
        digit = hex_digit(next(s));
        if (digit < 0 || digit >= base)
            break;
        *c = *c * (uint32_t)base + (uint32_t)digit;
    }
    return n;
}

/* After \x, \o or \u: "41", "{1F600}", or in ECMA-262 two surrogates of four digits each. */
static bool coded(PatternReader *s, const char *from, char letter, uint32_t *c)
{
    bool ecma = s->d->ecma, braced = take(s, "{");
    int  most = letter == 'u' ? 4 : 2;
    int  n = digits(s, letter == 'o' ? 8 : 16, braced ? 99 : most, c);
    if (braced && (n == 0 || *c >= CHARACTERS || !take(s, "}") || (is_surrogate(*c) && !ecma)))
        return flaw(s, from, "expected the code point of a character in { }",
                    "expected the code of a character in { }");
    if (!braced && n < most && ecma)
        return flaw(s, from, NULL,
                    most == 2 ? "expected two hexadecimal digits after \\x"
                              : "expected four hexadecimal digits after \\u");
    const char *after = s->p;
    uint32_t    low;
    if (!ecma || *c < 0xD800 || *c >= 0xDC00 || !take(s, "\\u"))
        return true;
    if (digits(s, 16, 4, &low) == 4 && low >= 0xDC00 && low < 0xE000)
        *c = 0x10000 + ((*c - 0xD800) << 10) + (low - 0xDC00);
    else
        s->p = after;
    return true;
}

/* \p{Name}, \P{Name}, \p{^Name}, \pL, and in ECMA-262 \p{gc=Name}; s->p is after the letter. */
static bool property(PatternReader *s, const char *from, CharSet *set, bool *inverted)
{
    bool ecma = s->d->ecma, braced = take(s, "{");
    if (braced && !ecma && take(s, "^"))
        *inverted = !*inverted;
    const char *end = braced ? memchr(s->p, '}', (size_t)(s->end - s->p))
                             : s->p + (s->p < s->end);
    if (!end || (ecma && !braced))
        return flaw(s, from, "a property without its }", "expected a property in { }");
    if (ecma && (next_is(s, "Script_Extensions=") || next_is(s, "scx=")))
        return flaw(s, from, NULL, "property Script_Extensions: not supported here");
    if (ecma && !take(s, "General_Category="))
        take(s, "gc=");
    const char *name = s->p;
    s->p = end + braced;
    return char_set_property(set, name, (size_t)(end - name))
        || flaw(s, from, NULL, "no such property of characters");
}

/* Add \d \s \w \p or its opposite to set; s->p is after the letter. */
static bool class_escape(PatternReader *s, const char *from, char letter, CharSet *set)
{
    char    kind = letter | 32;
    bool    inverted = kind != letter, ecma = s->d->ecma, good = true;
    CharSet own = { 0 };
    if (kind == 'p') {
        good = property(s, from, &own, &inverted);
    } else if (kind == 's' && ecma) {
        char_set_add(&own, '\t', '\r');
        char_set_add(&own, 0x2028, 0x2029);
        char_set_add(&own, 0xFEFF, 0xFEFF);
        char_set_property(&own, "Zs", 2);
    } else if (ecma) {
        for (const char *range = kind == 'w' ? "09AZaz__" : "09"; *range; range += 2)
            char_set_add(&own, (unsigned char)range[0], (unsigned char)range[1]);
    } else if (kind == 'w') {
        char_set_words(&own);
    } else {
        char_set_property(&own, kind == 'd' ? "Nd" : "space", kind == 'd' ? 2 : 5);
    }
    good = good && spend(s, own.n);
    char_set_sort(&own);
    if (inverted)
        char_set_invert(&own);
    for (size_t i = 0; good && i < own.n; i += 2)
        char_set_add(set, own.edge[i], own.edge[i + 1] - 1);
    set->failed |= own.failed;
    char_set_free(&own);
    return good;
}

/* \cJ. Only for some characters beyond the letters do Oniguruma and PCRE2 agree. */
static bool control(PatternReader *s, const char *from, uint32_t *c)
{
    char letter = *s->p++;
    *c = (uint32_t)(letter >= 'a' && letter <= 'z' ? letter - 32 : letter) ^ 0x40;
    bool agree = letter != '\\' && (letter == '?' || *c == (uint32_t)(letter & 31));
    return !s->d->strict || agree || unlike(s, from, s->p);
}

/* Read the escape at s->p: a character into *c, or a set that is added to set. */
static Escape read_escape(PatternReader *s, CharSet *set, uint32_t *c)
{
    const char *from = s->p++;
    bool        ecma = s->d->ecma;
    char        letter = next(s);
    if (s->p == s->end)
        return flaw(s, from, NULL, "expected a character after \\");
    s->p++;
    if (s->d->strict && is_one_of(letter, "hHKGRXyYOkgvV"))
        return unlike(s, from, s->p);
    if (is_one_of(letter, "dDsSwWpP"))
        return class_escape(s, from, letter, set) ? SET : FAILED;
    if (letter == 'x' || (ecma ? letter == 'u' : letter == 'o' && next(s) == '{'))
        return coded(s, from, letter, c) ? CHARACTER : FAILED;
    if (letter == 'c' && (ecma ? is_letter(next(s)) : next(s) > ' ' && next(s) < 0x7F))
        return control(s, from, c) ? CHARACTER : FAILED;
    if (is_one_of(letter, s->d->letters)) {
        *c = (unsigned char)s->d->codes[strchr(s->d->letters, letter) - s->d->letters];
    } else if (letter == '0' && !(ecma && is_digit(next(s)))) {
        digits(s, 8, ecma ? 0 : 2, c);
    } else if (is_digit(letter) || is_letter(letter)) {
        return OTHER;
    } else {
        s->p = from + 1;
        *c = plain_character(s);
    }
    return CHARACTER;
}

static bool unknown_escape(PatternReader *s, const char *from)
{
    char letter = from[1];
    return flaw(s, from, NULL,
                letter == '0'                       ? "octal escape: not supported here"
                : is_digit(letter) || letter == 'k' ? "back-reference: not supported here"
                : (letter | 32) == 'b'              ? "word boundary: not supported here"
                                                    : "unknown escape");
}

static bool escape(PatternReader *s)
{
    CharSet  set = { 0 };
    uint32_t c = 0;
    Escape   is = read_escape(s, &set, &c);
    char     letter = s->from + 1 < s->end ? s->from[1] : '\0';
    if (is == CHARACTER)
        return literal(s, c);
    if (is == SET) /* in Oniguruma, case counts outside [ ] */
        return add_set(s, PART_SET, &set, s->d->ecma, false);
    char_set_free(&set);
    if (is == FAILED)
        return false;
    if (letter == 'A' || letter == 'z')
        return add_kind(s, letter == 'A' ? PART_START : PART_END);
    if (s->d->ecma)
        return unknown_escape(s, s->from);
    if (letter == 'b' || letter == 'B') {
        char_set_words(&set);
        return add_set(s, PART_WORD_EDGE, &set, false, false);
    }
    if (is_one_of(letter, "ZGK") || (letter == 'N' && next(s) != '{'))
        return add_kind(s, PART_OTHER);
    return letter >= '1' && letter <= '9' && !s->caseless && !is_digit(next(s))
             ? add_kind(s, PART_REFERENCE)
             : unknown_escape(s, s->from);
}

/* ---- Sets ------------------------------------------------------------------------------------ */

/* The end of "[:alpha:]" at s->p; NULL: no such class. */
static const char *posix_end(const PatternReader *s)
{
    const char *p = s->p + 2;
    if (s->d->ecma || !next_is(s, "[:"))
        return NULL;
    while (p < s->end && (*p == '^' || is_letter(*p) || is_digit(*p)))
        p++;
    return s->end - p >= 2 && p[0] == ':' && p[1] == ']' ? p + 2 : NULL;
}

/* Read one member of a bracketed set, as read_escape does. */
static Escape member(PatternReader *s, CharSet *set, uint32_t *c)
{
    static const char in_set[] = "[ in [";
    const char       *from = s->p, *posix = posix_end(s);
    bool              strict = s->d->strict;
    if (strict && next_is(s, "&&"))
        return unlike(s, from, from + 2);
    if (posix) { /* libraries agree about [:digit:] only */
        bool is = next_is(s, "[:digit:]") || (next_is(s, "[:^digit:]") && !strict);
        s->p = posix;
        return is       ? class_escape(s, from, from[2] == '^' ? 'D' : 'd', set) ? SET : FAILED
               : strict ? unlike(s, from, posix)
                        : flaw(s, from, NULL, NULL);
    }
    if (strict && *from == '[')
        return unlike(s, in_set, in_set + sizeof in_set - 1);
    if (*from != '\\') {
        *c = plain_character(s);
        return CHARACTER;
    }
    Escape is = read_escape(s, set, c);
    if (is != OTHER)
        return is;
    *c = '\b';
    return from[1] == 'b' ? CHARACTER : unknown_escape(s, from) ? OTHER : FAILED;
}

static bool members(PatternReader *s, CharSet *set)
{
    for (bool first = true; first || next(s) != ']'; first = false) {
        const char *from = s->p;
        uint32_t    low = 0, high;
        if (s->p == s->end)
            return flaw(s, s->from, "a set without its ]", "expected ] after [");
        if (*s->p == ']' && s->d->ecma) /* elsewhere, the first one is a member */
            break;
        Escape is = member(s, set, &low), to = is;
        high = low;
        if (is && next(s) == '-' && s->end - s->p > 1 && s->p[1] != ']') {
            s->p += 1 + (is == SET);
            if (is == SET)
                return flaw(s, from, NULL, "expected no range from a class of characters");
            to = member(s, set, &high);
            if (to == SET || (to && high < low))
                return flaw(s, from, NULL, "expected a range of characters that ascends");
        }
        if (!to)
            return false;
        if (is == CHARACTER)
            char_set_add(set, low, high);
    }
    s->p++;
    return true;
}

static bool bracketed(PatternReader *s)
{
    CharSet set = { 0 };
    s->p++;
    bool inverted = take(s, "^");
    if (members(s, &set))
        return add_set(s, PART_SET, &set, true, inverted);
    char_set_free(&set);
    return false;
}

static bool dot(PatternReader *s)
{
    CharSet set = { 0 };
    s->p++;
    if (!s->d->ecma)
        return add_kind(s, PART_OTHER);
    if (!s->dot_all) {
        char_set_add(&set, '\n', '\n');
        char_set_add(&set, '\r', '\r');
        char_set_add(&set, 0x2028, 0x2029);
    }
    return add_set(s, PART_SET, &set, false, true);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static bool open(PatternReader *s)
{
    if (s->depth == s->d->most_deep)
        return flaw(s, s->from, "groups in groups too deeply", "groups are nested too deeply");
    s->group[s->depth].from = s->from;
    s->group[s->depth].caseless = s->caseless;
    s->group[s->depth++].dot_all = s->dot_all;
    return add_kind(s, PART_OPEN);
}

static bool close(PatternReader *s)
{
    s->p++;
    if (s->depth == 0)
        return flaw(s, s->from, "a ) without its (", "expected ( before )");
    s->caseless = s->group[--s->depth].caseless;
    s->dot_all = s->group[s->depth].dot_all;
    return add_kind(s, PART_CLOSE);
}

/* "(?is-m:" or "(?i)", which holds up to the end of the group around it; s->p is after "(?". */
static bool options(PatternReader *s)
{
    bool off = false, caseless = s->caseless, dot_all = s->dot_all;
    for (; s->p < s->end && *s->p != ')' && *s->p != ':'; s->p++) {
        if (s->d->strict && !off && is_one_of(*s->p, "mx")) { /* in Oniguruma, m is of the dot */
            while (s->p < s->end && *s->p != ')' && *s->p != ':')
                s->p++;
            return unlike(s, s->from, s->p + (s->p < s->end));
        }
        if (*s->p == '-' ? off : !is_one_of(*s->p, s->d->flags))
            return s->p++, flaw(s, s->from, NULL, "this kind of group: not supported here");
        off |= *s->p == '-';
        caseless = *s->p == 'i' ? !off : caseless;
        dot_all = *s->p == 's' ? !off : dot_all;
    }
    if (s->p == s->end)
        return flaw(s, s->from, NULL, "expected ) after (");
    bool good = *s->p++ == ':' ? open(s) : add_kind(s, PART_FLAGS);
    s->caseless = caseless;
    s->dot_all = dot_all;
    return good;
}

/* "<name>" or "P<name>". */
static bool take_name(PatternReader *s)
{
    const char *from = s->p, *name;
    bool        begun = take(s, "P<") || take(s, "<");
    for (name = s->p; begun && s->p < s->end && *s->p != '>'; s->p++)
        if (!s->d->ecma && !is_letter(*s->p) && !is_digit(*s->p) && *s->p != '_')
            break;
    if (s->p > name && take(s, ">"))
        return true;
    s->p = from;
    return false;
}

static bool group(PatternReader *s)
{
    bool        ecma = s->d->ecma;
    const char *close_at = memchr(s->p, ')', (size_t)(s->end - s->p));
    s->p++;
    if (!ecma && next_is(s, "?#") && close_at) {
        const char *from = s->p - 1, *escaped = memchr(from, '\\', (size_t)(close_at - from));
        s->p = close_at + 1;
        return !s->d->strict || !escaped || unlike(s, from, s->p); /* PCRE2 knows no escapes here */
    }
    if (!ecma && take(s, "*"))
        return flaw(s, s->from, NULL, NULL);
    if (!take(s, "?"))
        return open(s);
    if (take(s, "=") || take(s, "!") || take(s, "<=") || take(s, "<!"))
        return ecma ? flaw(s, s->from, NULL, "look-around: not supported here") : open(s);
    if ((!ecma && (take(s, ">") || take(s, "|"))) || take_name(s))
        return open(s);
    if (ecma && (next_is(s, "<") || next_is(s, "P<")))
        return flaw(s, s->from, NULL, "expected the name of a group in < >");
    return options(s);
}

/* ---- Repetition ------------------------------------------------------------------------------ */

/* Read a count; any above MOST_COUNT is as good as another. False: there is none. */
static bool count(PatternReader *s, uint32_t *n)
{
    const char *from = s->p;
    for (*n = 0; is_digit(next(s)); s->p++)
        *n = *n > MOST_COUNT ? *n : *n * 10 + (uint32_t)(*s->p - '0');
    return s->p > from;
}

/* "*", "+", "?", "{2}", "{2,}" or "{2,3}". Any other brace is plain text, as in older versions of
 * PCRE2; newer ones know more forms. In ECMA-262 one repetition follows a part; for tokenizers,
 * PCRE2 says what may be repeated. */
static bool repetition(PatternReader *s)
{
    bool     ecma = s->d->ecma, braced = *s->p == '{';
    uint32_t min = *s->p == '+', max = *s->p == '?' ? 1 : REGEX_FOREVER;
    s->p++;
    if (braced) {
        bool low = count(s, &min), comma = take(s, ","), high = comma && count(s, &max);
        bool closed = take(s, "}");
        /* In "{3}?" and "{1,3}+", Oniguruma takes the last character as a second repeat; in PCRE2
         * it makes the first one lazy or possessive. "{,3}" is text in PCRE2. */
        bool twice = next(s) == '+' || (next(s) == '?' && !comma);
        if (s->d->strict && closed && (low ? twice : high))
            return unlike(s, s->from, s->p + twice);
        if (!closed || !low || (ecma && !s->repeatable)) {
            s->p = s->from + 1;
            return literal(s, '{');
        }
        max = high ? max : comma ? REGEX_FOREVER : min;
    }
    if (ecma && !s->repeatable)
        return flaw(s, s->from, NULL, "expected something to repeat");
    if (ecma && (min > MOST_COUNT || (max > MOST_COUNT && max != REGEX_FOREVER)))
        return flaw(s, s->from, NULL, "a repetition is at most 16777216");
    if (ecma && min > max)
        return flaw(s, s->from, NULL, "expected a repetition {m,n} with m at most n");
    if (ecma && next(s) == '+')
        return flaw(s, s->from, NULL, "possessive repetition: not supported here");
    if (ecma)
        take(s, "?"); /* lazy or greedy makes no difference here */
    return add_part(s, (RegexPart){ .kind = PART_REPEAT, .min = min, .max = max });
}

/* ---- All ------------------------------------------------------------------------------------- */

static bool next_part(PatternReader *s)
{
    s->from = s->p;
    switch (*s->p) {
    case '\\': return escape(s);
    case '[':  return bracketed(s);
    case '(':  return group(s);
    case ')':  return close(s);
    case '.':  return dot(s);
    case '*':
    case '+':
    case '?':
    case '{':  return repetition(s);
    case '|':  return s->p++, add_kind(s, PART_OR);
    case '^':
    case '$':
        s->p++; /* in Oniguruma at lines, in PCRE2 at the whole text */
        return s->d->strict ? unlike(s, s->from, s->p)
                            : add_kind(s, *s->from == '^' ? PART_START : PART_END);
    default: return literal(s, plain_character(s));
    }
}

bool regex_parse(Pattern *to, const char *pattern, size_t n, const RegexDialect *d,
                 RegexFault *fault)
{
    PatternReader s = { .p = pattern, .end = pattern + n, .d = d, .to = to, .fault = fault };
    size_t valid = valid_prefix(pattern, n);
    *to = (Pattern){ 0 };
    *fault = (RegexFault){ 0 };
    bool ok = valid == n || flaw(&s, pattern + valid, "expected UTF-8",
                                 "expected UTF-8, found other bytes");
    while (ok && s.p < s.end)
        ok = next_part(&s);
    if (ok && s.depth)
        ok = flaw(&s, s.group[s.depth - 1].from, "a ( without its )", "expected ) after (");
    if (!ok)
        pattern_free(to);
    return ok;
}

void pattern_free(Pattern *p)
{
    for (size_t i = 0; i < p->n_sets; i++)
        char_set_free(&p->set[i]);
    byte_map_free(&p->numbers);
    free(p->set);
    free(p->part);
    *p = (Pattern){ 0 };
}
