/* text/regex_spell.h: a pattern said again without Unicode, so that no library's tables decide what
 * it matches.
 *
 * What matches one character (a letter, a set, \p{L}, \s ...) is a set of characters. The sets of a
 * pattern cut all characters into classes whose members no set tells apart. In the text that PCRE2
 * sees, each character that is not ASCII is replaced by one that stands for its class and has as
 * many bytes; in the pattern, each set is spelled by those. So a set has a few ranges, whatever the
 * property has, and places in the text stay. Case is spelled out too: (?i:k) is [kK] with U+212A.
 * */
#ifndef TEXT_REGEX_SPELL_H
#define TEXT_REGEX_SPELL_H

#include <stdint.h>
#include "base/error.h"

typedef struct Spelling {
    char     *pattern; /* ASCII, without \p, \d, \s, \w, \b and (?i)          */
    uint16_t *block;   /* [CHARACTERS / 256]: in `class`, the block of 256 of these characters;
                          NULL: the text as it is                            */
    uint16_t *class;   /* number among the classes of characters of as many bytes */
} Spelling;

/* Errors: INPUT, which says what of the pattern is not supported or wrong, beginning with `what`;
 * SYSTEM. */
bool regex_spell(Spelling *out, const char *pattern, const char *what, Error *err);
void regex_spelling_free(Spelling *s); /* a zeroed one is accepted */

/* What to run the pattern on instead of text[0 .. n), valid UTF-8: text itself, or as many bytes in
 * *room, which grows and is the caller's to free. NULL: no memory. */
const char *spelling_view(const Spelling *s, const char *text, size_t n, char **room,
                          size_t *n_room);

#endif
