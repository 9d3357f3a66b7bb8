/* text/regex.h: regular expressions of tokenizers, as tokenizer.json spells them, run by PCRE2 with UTF and UCP (JIT where
 * the system allows it). Patterns come from files that nobody vouches for, so what they may do to one text is bounded: a
 * pattern that runs away is an error, never a wrong answer. */
#ifndef TEXT_REGEX_H
#define TEXT_REGEX_H

#include "base/error.h"

typedef struct Regex Regex; /* immutable */

/* \s means the property White_Space and \w Unicode's word characters. what begins the
 * messages, those of runs too. Errors: INPUT with PCRE2's
 * reason. */
bool regex_compile(Regex **re, const char *pattern, const char *what, Error *err);
void regex_free(Regex *re); /* NULL is accepted */

/* What one thread needs to run them, on one text after another. */
typedef struct RegexRun RegexRun;
bool regex_begin(RegexRun **r, Error *err);
void regex_end(RegexRun *r); /* NULL is accepted */
void regex_budget(RegexRun *r, size_t n_bytes); /* from here on: work for a text of so many bytes */

/* The next match in text[0 .. n), which is valid UTF-8, from byte `from` on. Returns 1, 0 (none) or -1 (failed: INPUT when
 * a bound was met, SYSTEM). Time: of patterns that look no further than a match or a few hundred bytes past its start,
 * what they need; others are run carefully, and all that they look at counts. */
int regex_next(RegexRun *r, const Regex *re, const char *text, size_t n, size_t from, size_t *start, size_t *end, Error *err);

#endif
