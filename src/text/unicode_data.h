/* text/unicode_data.h: tables of Unicode, made by tools/make_unicode.py. A table of runs lists,
 * ascending from U+0000, where each run of characters with the same value begins; the low bits of
 * an entry are the value. Use them through text/unicode.h and text/char_set.h. */
#ifndef TEXT_UNICODE_DATA_H
#define TEXT_UNICODE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/* Characters of the categories in mask, and those from each even one of n edges to before the
 * next. */
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
extern const size_t        CATEGORY_RUNS_N, CATEGORY_NAMES_N, SCRIPT_RUNS_N, SCRIPT_NAMES_N, BINARY_EDGES_N,
                           BINARY_NAMES_N, FOLD_RUNS_N, LOWER_RUNS_N, NORMAL_RUNS_N, NORMAL_BLOCKS_N,
                           DECOMPOSITIONS_N, DECOMPOSED_N, COMPOSITIONS_N, GRAPHEME_RUNS_N;

#endif
