/* text/unicode.h: what the tokenizers ask of Unicode, on top of base/utf8.h. "Valid" is as there.
 * The answers come from tables of our own (text/unicode_data.h), of the versions that the parts of
 * the library tokenizers have: docs/tokenizers.md. */
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

/* Bytes of the valid character that p[0 .. n) begins with, 0: none. */
static inline size_t character_at(const char *p, size_t n, uint32_t *cp)
{
    int len = n ? utf8_decode(p, n, cp) : 0;
    return len > 0 ? (size_t)len : 0;
}

/* Bytes of the valid character that p[0 .. n) ends with, 0: none. */
size_t character_before(const char *p, size_t n, uint32_t *cp);

/* cp as UTF-8; returns 1 .. 4. cp must be a scalar value. */
size_t character_write(uint32_t cp, char out[4]);

/* Bytes from p on that are ASCII, that are valid. */
size_t ascii_prefix(const char *p, size_t n);
size_t valid_prefix(const char *p, size_t n);

/* Bytes at the end of p (0 .. 3) that are a proper prefix of some valid character: what a stream
 * must hold back. */
size_t partial_tail(const char *p, size_t n);

Category category_of(uint32_t cp);
bool is_white_space(uint32_t cp); /* property White_Space */
bool is_word(uint32_t cp); /* \w of Unicode TS 18: letters, marks, decimal digits, connectors, joiners */

/* The normalization form of valid UTF-8. *out is allocated (caller frees), or NULL where the text
 * surely is in that form already and can be used as it is. Linear time. False: no memory. */
typedef enum NormalForm { NFC, NFD, NFKC, NFKD } NormalForm;
bool normalize_form(NormalForm form, const char *p, size_t n, char **out, size_t *n_out);

uint32_t to_lower(uint32_t cp); /* the simple mapping, of Unicode 17 */

/* Does the grapheme cluster of the characters before go on with c? Zero the run to begin. */
typedef struct GraphemeRun {
    Grapheme last;
    bool     begun, odd, pictographic, consonant, linked;
} GraphemeRun;
bool grapheme_goes_on(GraphemeRun *r, uint32_t c);

#endif
