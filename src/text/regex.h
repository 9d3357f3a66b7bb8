/* text/regex.h: regular expressions of tokenizers, as tokenizer.json spells them, run by PCRE2 (JIT
 * where the system allows it), which is asked nothing about Unicode: text/regex_spell.h. Patterns
 * come from files that nobody vouches for, so what they may do to one text is bounded: a pattern
 * that runs away is an error, never a wrong answer. */
#ifndef TEXT_REGEX_H
#define TEXT_REGEX_H

#include "base/error.h"

typedef struct Regex Regex; /* immutable */

/* docs/format.md says what a pattern can have. what begins the messages, those of runs too. Errors:
 * INPUT with what is not supported, or PCRE2's reason; SYSTEM. */
bool regex_compile(Regex **re, const char *pattern, const char *what, Error *err);
void regex_free(Regex *re); /* NULL is accepted */

/* What one thread needs to run them, on one text after another. */
typedef struct RegexRun RegexRun;
bool regex_begin(RegexRun **r, Error *err);
void regex_end(RegexRun *r); /* NULL is accepted */
void regex_budget(RegexRun *r, size_t n_bytes); /* from here on: work for a text of so many bytes */

/* What regex_next is given instead of text[0 .. n), which is valid UTF-8: text itself, or as many
 * bytes in *room, which grows and is the caller's to free. Places in it are places in the text.
 * NULL: SYSTEM. */
const char *regex_text(const Regex *re, const char *text, size_t n, char **room, size_t *n_room,
                       Error *err);

/* The next match in text[0 .. n), which regex_text gave, from byte `from` on. Returns 1, 0 (none)
 * or -1 (failed: INPUT when a bound was met, SYSTEM). Time: of patterns that look no further than a
 * match or a few hundred bytes past its start, what they need; others are run carefully, and all
 * that they look at counts. */
int regex_next(RegexRun *r, const Regex *re, const char *text, size_t n, size_t from, size_t *start,
               size_t *end, Error *err);

#endif
