/* text/regex_spell.h: spells a pattern again without Unicode, so that no library's tables decide
 * what it matches.
 *
 * Each part that matches one character (a letter, a set, \p{L}, \s ...) is a set of characters. The
 * sets of a pattern divide all characters into classes: no set tells two members of a class apart.
 * In the text that PCRE2 sees, each character outside ASCII is replaced by a stand-in for its class
 * that has as many bytes. In the pattern, each set becomes the set of its stand-ins. So a set has a
 * few ranges, however many the property has, and positions in the text stay the same. Case is
 * spelled out too: (?i:k) becomes [kK] with U+212A. */
#ifndef TEXT_REGEX_SPELL_H
#define TEXT_REGEX_SPELL_H

#include <stdint.h>
#include "base/error.h"

typedef struct Spelling {
    char     *pattern; /* ASCII, without \p, \d, \s, \w, \b and (?i) */
    /* [CHARACTERS / 256]: which block of `class` has these 256 characters; NULL: the text stays as
     * it is. */
    uint16_t *block;
    uint16_t *class;   /* class number, among characters of the same length */
} Spelling;

/* Errors: INPUT, which says what in the pattern is wrong or not supported; the message begins with
 * `what`. SYSTEM. The caller frees *out. */
bool regex_spell(Spelling *out, const char *pattern, const char *what, Error *err);
void regex_spelling_free(Spelling *s); /* a zeroed one is fine */

/* The text to run the pattern on in place of text[0 .. n), which is valid UTF-8. It is text itself,
 * or n bytes in *room, which grows and which the caller frees. NULL: no memory. */
const char *spelling_view(const Spelling *s, const char *text, size_t n, char **room,
                          size_t *n_room);

#endif
