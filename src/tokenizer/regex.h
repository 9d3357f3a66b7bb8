/* tokenizer/regex.h: regular expressions: their parser, which constraints use too, and what runs
 * the patterns of tokenizers. */
#ifndef TOKENIZER_REGEX_H
#define TOKENIZER_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/hash.h"

/* ---- char_set.c ------------------------------------------------------------------------------ */

/* Sets of characters, as tokenizer patterns name them. Properties and case come from one version of
 * Unicode (TBLOCK_UNICODE_VERSION), so they are the same on every machine. */

enum { CHARACTERS = 0x110000 };

/* Start with a zeroed struct; free it with char_set_free. Members lie from each even edge up to,
 * but not including, the next odd edge. char_set_sort orders the edges. failed: memory ran out, and
 * the set must not be used. */
typedef struct CharSet { uint32_t *edge; size_t n, cap; bool failed; } CharSet;

void char_set_add(CharSet *s, uint32_t first, uint32_t last); /* first .. last, both included */
void char_set_free(CharSet *s);

/* Add all characters with \p{name} to s; false: no such name. Names are those of categories (Lu, L,
 * Letter), of scripts (Han, Hani, sc:Han) and of the binary properties in tools/make_unicode.py.
 * Case, spaces, hyphens and underscores are ignored. */
bool char_set_property(CharSet *s, const char *name, size_t n_name);

/* Add \w of Oniguruma: letters, marks, decimal digits, connectors, circled letters, and the
 * superscripts and fractions of Latin-1. */
void char_set_words(CharSet *s);

/* char_set_sort works on any set. The others need a sorted set and leave it sorted. */
void char_set_sort(CharSet *s);
/* How much of first .. last is in the set? */
typedef enum CharShare { SHARE_NONE, SHARE_SOME, SHARE_ALL } CharShare;
CharShare char_set_share(const CharSet *s, uint32_t first, uint32_t last);
void char_set_invert(CharSet *s);
/* Add every character that differs from a member only in case (simple folding). */
void char_set_fold(CharSet *s);

/* ---- regex_parse.c --------------------------------------------------------------------------- */

/* Patterns are read once for both uses: tokenizers run them (regex_spell.c, regex.c), constraints
 * make expressions of them (constrain/expr_regex.c). A pattern becomes a list of parts in its own
 * order; those between PART_OPEN and its PART_CLOSE are in the group. */

typedef enum RegexKind {
    PART_SET,       /* one character of the set */
    PART_REPEAT,    /* of the part before it */
    PART_OR,
    PART_OPEN, PART_CLOSE,
    PART_START, PART_END, /* of the text: ^ or \A, $ or \z */
    PART_WORD_EDGE, /* \b or \B; the set has the characters of words */
    PART_REFERENCE, /* \1 */
    PART_FLAGS,     /* (?i), which the sets after it respect already */
    PART_OTHER,     /* what PCRE2 and Oniguruma agree about */
} RegexKind;

typedef struct RegexPart {
    RegexKind   kind;
    uint32_t    min, max; /* of a repetition in REGEX_ECMA; max: also REGEX_FOREVER */
    size_t      set;      /* its index */
    const char *from, *to;
} RegexPart;
#define REGEX_FOREVER UINT32_MAX

typedef struct Pattern {
    RegexPart *part;
    CharSet   *set;     /* sorted; all different */
    ByteMap    numbers; /* from the edges of a set to its index */
    size_t     n, cap, n_sets, cap_sets;
    size_t     work;    /* edges of sets that were read */
} Pattern;
/* About a second; published patterns need under 1 << 17, and most that PCRE2 accepts are below this
 * limit too. */
enum { REGEX_MOST_WORK = 1 << 24 };
#define REGEX_TOO_MUCH "its sets of characters are too many or too large"

typedef struct RegexDialect {
    const char *letters, *codes; /* of \n and the like, and what they mean */
    const char *flags;           /* of (?i) */
    int         most_deep;       /* groups in groups */
    bool        ecma;            /* ECMA-262 with its flag u; else as PCRE2 */
    bool        strict;          /* what Oniguruma and PCRE2 read differently is an error */
} RegexDialect;

/* Patterns of a model file (docs/format.md), of a tokenizer.json, which Oniguruma must read alike,
 * and of constraints (docs/constraints.md). */
extern const RegexDialect REGEX_PCRE2, REGEX_ONIGURUMA, REGEX_ECMA;

/* What is wrong with from .. to. why is NULL where it is only unsupported. unlike: Oniguruma and
 * PCRE2 read it differently. Without from, memory ran out. */
typedef struct RegexFault { const char *from, *to, *why; bool unlike; } RegexFault;

/* Parts point into the pattern. False: *fault says why. */
bool regex_parse(Pattern *to, const char *pattern, size_t n, const RegexDialect *d,
                 RegexFault *fault);
void pattern_free(Pattern *p); /* a zeroed one is fine */

/* ---- regex_spell.c --------------------------------------------------------------------------- */

/* Rewrites a pattern without Unicode, so that no library's tables decide what it matches.
 *
 * Each part that matches one character (a letter, a set, \p{L}, \s ...) is a set of characters. The
 * sets of a pattern divide all characters into classes: no set tells two members of a class apart.
 * In the text that PCRE2 sees, each character outside ASCII is replaced by a stand-in for its class
 * that has as many bytes. In the pattern, each set becomes the set of its stand-ins. So a set has a
 * few ranges, however many the property has, and positions in the text stay the same. Case is
 * written out too: (?i:k) becomes [kK] with U+212A. */

typedef struct Spelling {
    char     *pattern; /* ASCII, without \p, \d, \s, \w, \b and (?i) */
    /* [CHARACTERS / 256]: which block of `class` has these 256 characters; NULL: the text stays as
     * it is. */
    uint16_t *block;
    uint16_t *class;   /* class number, among characters of the same length */
} Spelling;

/* Errors: INPUT, which says what in the pattern is wrong or unsupported; the message begins with
 * `what`. SYSTEM. The caller frees *out. */
bool regex_spell(Spelling *out, const char *pattern, const char *what, Error *err);
void regex_spelling_free(Spelling *s); /* a zeroed one is fine */

/* The text to run the pattern on in place of text[0 .. n), which is valid UTF-8. It is text itself,
 * or n bytes in *room, which grows and which the caller frees. NULL: no memory. */
const char *spelling_view(const Spelling *s, const char *text, size_t n, char **room,
                          size_t *n_room);

/* ---- regex.c --------------------------------------------------------------------------------- */

/* The regular expressions of tokenizers, spelled as in tokenizer.json. PCRE2 runs them, with JIT if
 * the system allows it, but without its Unicode tables (regex_spell.c). Patterns come from
 * untrusted files, so the work on one text is bounded: a runaway pattern is an error, never a wrong
 * result. */

typedef struct Regex Regex; /* immutable */

/* Compile a pattern; docs/format.md says what it may contain. `what` begins each message, also in
 * later runs. Errors: INPUT with the unsupported part, or PCRE2's reason; SYSTEM. */
bool regex_compile(Regex **re, const char *pattern, const char *what, Error *err);
void regex_free(Regex *re); /* NULL is fine */

/* What one thread needs to run patterns, one text after another. False: SYSTEM, no memory. */
typedef struct RegexRun RegexRun;
bool regex_begin(RegexRun **r, Error *err);
void regex_end(RegexRun *r); /* NULL is fine */
void regex_budget(RegexRun *r, size_t n_bytes); /* start a new budget, for a text of n_bytes */

/* The text that regex_next must get in place of text[0 .. n), which is valid UTF-8. It is text
 * itself, or n bytes in *room, which grows and which the caller frees. Positions are the same in
 * both. NULL: SYSTEM. */
const char *regex_text(const Regex *re, const char *text, size_t n, char **room, size_t *n_room,
                       Error *err);

/* Find the next match in text[0 .. n), as regex_text returned it, from byte `from` on. Returns 1, 0
 * (none) or -1 (failed: INPUT if a limit was reached, SYSTEM). A pattern that looks at most a few
 * hundred bytes past the start of a match takes the time it needs. Any other pattern runs on a
 * budget of steps (regex_budget). */
int regex_next(RegexRun *r, const Regex *re, const char *text, size_t n, size_t from, size_t *start,
               size_t *end, Error *err);

#endif
