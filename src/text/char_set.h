/* text/char_set.h: sets of characters, as the patterns of tokenizers name them. Properties and case
 * come from one version of Unicode (TBLOCK_UNICODE_VERSION), so they are the same on every
 * machine. */
#ifndef TEXT_CHAR_SET_H
#define TEXT_CHAR_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHARACTERS = 0x110000 };

/* Start with a zeroed struct; free it with char_set_free. Members lie from each even edge up to,
 * but not including, the odd edge after it. char_set_sort orders the edges. failed: memory ran out,
 * and the set must not be used. */
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

/* char_set_sort works on any set. The two others need a sorted set and leave it sorted. */
void char_set_sort(CharSet *s);
void char_set_invert(CharSet *s);
/* Add every character that differs from a member only in case (simple folding). */
void char_set_fold(CharSet *s);

#endif
