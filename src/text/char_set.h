/* text/char_set.h: sets of characters, as patterns name them. What a property or the case of a
 * letter is, is that of one version of Unicode (TBLOCK_UNICODE_VERSION) on every machine. */
#ifndef TEXT_CHAR_SET_H
#define TEXT_CHAR_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHARACTERS = 0x110000 };

/* Zero it to begin; free it with char_set_free. Even edges begin what is in the set, odd ones end
 * it; char_set_sort puts them in order. failed: there was no memory, and the set is of no use. */
typedef struct CharSet { uint32_t *edge; size_t n, cap; bool failed; } CharSet;

void char_set_add(CharSet *s, uint32_t first, uint32_t last); /* the last one too */
void char_set_free(CharSet *s);

/* Puts all characters with \p{name} into s; false: no such name. Names are those of categories (Lu,
 * L, Letter), scripts (Han, Hani, sc:Han), and of the binary properties in tools/make_unicode.py;
 * case, spaces, hyphens and underscores do not count. */
bool char_set_property(CharSet *s, const char *name, size_t n_name);

/* \w of Oniguruma: letters, marks, decimal digits, connectors, circled letters, numbers of Latin-1 */
void char_set_words(CharSet *s);

/* These want and leave a sorted set. */
void char_set_sort(CharSet *s);
void char_set_invert(CharSet *s);
void char_set_fold(CharSet *s); /* adds what differs from a member in case alone (simple folding) */

#endif
