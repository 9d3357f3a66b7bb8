/* tokenizer/unicode.h: what Unicode says of characters. */
#ifndef TOKENIZER_UNICODE_H
#define TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/text.h"

/* ---- unicode_data.inc ------------------------------------------------------------------------ */

/* Tables of Unicode, made by tools/make_unicode.py. A table of runs lists, ascending from U+0000,
 * where each run of characters with the same value begins; the low bits of an entry are the value.
 * Use them through the functions of unicode.c and char_set.c. */

/* Categories in ICU's order: the low CATEGORY_BITS of CATEGORY_RUNS. */
typedef enum Category {
    CN, LU, LL, LT, LM, LO, MN, ME, MC, ND, NL, NO_, ZS, ZL, ZP, CC, CF, CO, CS, PD, PS, PE, PC, PO,
    SM, SC, SK, SO, PI, PF,
} Category;

/* Grapheme_Cluster_Break, and more that the rules need. Hangul syllables are GB_OTHER here. ZWNJ
 * extends a cluster but is not part of a conjunct. */
typedef enum Grapheme {
    GB_OTHER, GB_CR, GB_LF, GB_CONTROL, GB_EXTEND, GB_ZWNJ, GB_ZWJ, GB_REGIONAL, GB_PREPEND,
    GB_SPACING, GB_L, GB_V, GB_T, GB_PICTOGRAPHIC, GB_CONSONANT, GB_LINKER, GB_LV, GB_LVT,
} Grapheme;

enum { CATEGORY_BITS = 5, SCRIPT_BITS = 8, GRAPHEME_BITS = 4 };
enum { COMBINING_BITS = 6, NORMAL_BITS = COMBINING_BITS + 4 };

/* Names are in lower case, without spaces, hyphens and underscores. Tables of names are sorted. */
/* mask: bits 1 << category. */
typedef struct CategoryName { const char *name; uint32_t mask; } CategoryName;
typedef struct ScriptName   { const char *name; uint32_t script; } ScriptName;
/* Characters of the categories in mask, and those from each even edge of n up to, but not
 * including, the next. */
typedef struct BinaryName   { const char *name; uint32_t mask, first, n; } BinaryName;

/* n characters: first, first + step, ... For each, adding `add` gives the mapped character. */
typedef struct CaseRun { uint32_t first; uint16_t n; uint8_t step; int32_t add; } CaseRun;

/* n characters from first on. The character first + i decomposes in one step into `length`
 * characters at DECOMPOSED[at + i * length]. */
typedef struct Decomposition {
    uint32_t first;
    uint16_t n, at;
    uint8_t  length;
    bool     compatible;
} Decomposition;

/* The two characters at DECOMPOSED[at] compose to one. Sorted by the two. */
typedef struct Composition { uint16_t at; uint32_t composed; } Composition;

extern const uint32_t      CATEGORY_RUNS[], SCRIPT_RUNS[], GRAPHEME_RUNS[], NORMAL_RUNS[];
extern const uint32_t      BINARY_EDGES[], DECOMPOSED[];
extern const CategoryName  CATEGORY_NAMES[];
extern const ScriptName    SCRIPT_NAMES[];
extern const BinaryName    BINARY_NAMES[];
extern const CaseRun       FOLD_RUNS[], LOWER_RUNS[];
/* The run at which each block of 256 characters begins. */
extern const uint16_t      NORMAL_BLOCKS[];
extern const Decomposition DECOMPOSITIONS[];
extern const Composition   COMPOSITIONS[];
extern const size_t        CATEGORY_RUNS_N, CATEGORY_NAMES_N, SCRIPT_RUNS_N, SCRIPT_NAMES_N,
    BINARY_EDGES_N, BINARY_NAMES_N, FOLD_RUNS_N, LOWER_RUNS_N, NORMAL_RUNS_N, NORMAL_BLOCKS_N,
    DECOMPOSITIONS_N, DECOMPOSED_N, COMPOSITIONS_N, GRAPHEME_RUNS_N;

/* ---- unicode.c ------------------------------------------------------------------------------- */

/* What the tokenizers need from Unicode, on top of base/text.h ("valid" means the
 * same as there). They come from tables of our own (unicode_data.inc), of the Unicode versions that
 * the library tokenizers use: docs/tokenizers.md. */

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

/* Does c belong to the same grapheme cluster as the characters before it? Zero the run first. */
typedef struct GraphemeRun {
    Grapheme last;
    bool     begun, odd, pictographic, consonant, linked;
} GraphemeRun;
bool grapheme_goes_on(GraphemeRun *r, uint32_t c);

#endif
