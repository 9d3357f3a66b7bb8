/* text/regex.h: the regular expressions of tokenizers, spelled as in tokenizer.json. PCRE2 runs
 * them, with JIT where the system allows it, but is asked nothing about Unicode
 * (text/regex_spell.h). Patterns come from files that nobody vouches for, so the work on one text
 * is bounded: a pattern that runs away is an error, never a wrong answer. */
#ifndef TEXT_REGEX_H
#define TEXT_REGEX_H

#include "base/error.h"

typedef struct Regex Regex; /* immutable */

/* Compile a pattern; docs/format.md says what it may contain. `what` begins each message, also
 * those of later runs. Errors: INPUT with the part that is not supported, or PCRE2's reason;
 * SYSTEM. */
bool regex_compile(Regex **re, const char *pattern, const char *what, Error *err);
void regex_free(Regex *re); /* NULL is fine */

/* What one thread needs to run patterns, on one text after another. False: SYSTEM, no memory. */
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
 * hundred bytes past the start of a match takes the time it needs. Any other pattern is run
 * carefully, and every step counts. */
int regex_next(RegexRun *r, const Regex *re, const char *text, size_t n, size_t from, size_t *start,
               size_t *end, Error *err);

#endif
