/* text/unicode.h: what the tokenizers need from Unicode, on top of base/utf8.h ("valid" means the
 * same as there). The answers come from tables of our own (text/unicode_data.h). Their Unicode
 * versions are those that the parts of the library tokenizers have: docs/tokenizers.md. */
#ifndef TEXT_UNICODE_H
#define TEXT_UNICODE_H

#include <stdbool.h>
#include <string.h>
#include "base/utf8.h"
#include "text/unicode_data.h"

#define META_SPACE "\xE2\x96\x81" /* U+2581, SentencePiece's visible space */
enum { META_SPACE_BYTES = 3 };
static inline bool is_meta_space(const char *p, size_t n)
{
    return n >= META_SPACE_BYTES && memcmp(p, META_SPACE, META_SPACE_BYTES) == 0;
}

/* Bytes of the valid character at the start of p[0 .. n); 0: none. *cp is the character. */
static inline size_t character_at(const char *p, size_t n, uint32_t *cp)
{
    int len = n ? utf8_decode(p, n, cp) : 0;
    return len > 0 ? (size_t)len : 0;
}

/* Bytes of the valid character at the end of p[0 .. n); 0: none. */
size_t character_before(const char *p, size_t n, uint32_t *cp);

/* Write cp, a scalar value, as UTF-8. Returns 1 .. 4 bytes. */
size_t character_write(uint32_t cp, char out[4]);

/* How many bytes at the start of p[0 .. n) are ASCII, or are valid UTF-8. */
size_t ascii_prefix(const char *p, size_t n);
size_t valid_prefix(const char *p, size_t n);

/* How many bytes (0 .. 3) at the end of p are an incomplete but so far valid character. A stream
 * must hold them back. */
size_t partial_tail(const char *p, size_t n);

Category category_of(uint32_t cp);
bool is_white_space(uint32_t cp); /* property White_Space */
/* \w of Unicode TS 18: letters, marks, decimal digits, connectors, joiners. */
bool is_word(uint32_t cp);

/* Bring valid UTF-8 into a normalization form, in linear time. *out is allocated (caller frees), or
 * NULL if the text certainly is in that form already. False: no memory. */
typedef enum NormalForm { NFC, NFD, NFKC, NFKD } NormalForm;
bool normalize_form(NormalForm form, const char *p, size_t n, char **out, size_t *n_out);

uint32_t to_lower(uint32_t cp); /* the simple mapping of Unicode 17 */

/* Does c belong to the same grapheme cluster as the characters before it? Zero the run to begin. */
typedef struct GraphemeRun {
    Grapheme last;
    bool     begun, odd, pictographic, consonant, linked;
} GraphemeRun;
bool grapheme_goes_on(GraphemeRun *r, uint32_t c);

#endif
