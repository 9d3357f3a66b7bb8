/* text/unicode_data.h: the tables of Unicode, made by tools/make_unicode.py. A table of runs holds,
 * ascending, where a run of characters of one value starts and, in the low bits, the value; it
 * begins with U+0000. Asked through text/unicode.h and text/char_set.h. */
#ifndef TEXT_UNICODE_DATA_H
#define TEXT_UNICODE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The categories in the order of ICU, as the low CATEGORY_BITS of CATEGORY_RUNS. */
typedef enum Category {
    CN, LU, LL, LT, LM, LO, MN, ME, MC, ND, NL, NO_, ZS, ZL, ZP, CC, CF, CO, CS, PD, PS, PE, PC, PO,
    SM, SC, SK, SO, PI, PF,
} Category;

/* Grapheme_Cluster_Break with what the rules ask besides; Hangul syllables are GB_OTHER here. ZWNJ:
 * extends, in no conjunct. */
typedef enum Grapheme {
    GB_OTHER, GB_CR, GB_LF, GB_CONTROL, GB_EXTEND, GB_ZWNJ, GB_ZWJ, GB_REGIONAL, GB_PREPEND,
    GB_SPACING, GB_L, GB_V, GB_T, GB_PICTOGRAPHIC, GB_CONSONANT, GB_LINKER, GB_LV, GB_LVT,
} Grapheme;

enum { CATEGORY_BITS = 5, SCRIPT_BITS = 8, GRAPHEME_BITS = 4 };
enum { COMBINING_BITS = 6, NORMAL_BITS = COMBINING_BITS + 4 };

/* Names are in lower case, without spaces, hyphens and underscores; tables of names are in their
 * order. */
typedef struct CategoryName { const char *name; uint32_t mask; } CategoryName; /* 1 << category */
typedef struct ScriptName   { const char *name; uint32_t script; } ScriptName;
/* What is in one of the categories of mask, or between an even one of the n edges and the next. */
typedef struct BinaryName   { const char *name; uint32_t mask, first, n; } BinaryName;

/* n characters from first on, step apart, to which add is added. */
typedef struct CaseRun { uint32_t first; uint16_t n; uint8_t step; int32_t add; } CaseRun;

/* n characters from first on; the one at first + i becomes the `length` at DECOMPOSED[at + i *
 * length], in one step. */
typedef struct Decomposition {
    uint32_t first;
    uint16_t n, at;
    uint8_t  length;
    bool     compatible;
} Decomposition;

/* The two at DECOMPOSED[at] become one; in the order of the two. */
typedef struct Composition { uint16_t at; uint32_t composed; } Composition;

extern const uint32_t      CATEGORY_RUNS[], SCRIPT_RUNS[], GRAPHEME_RUNS[], NORMAL_RUNS[];
extern const uint32_t      BINARY_EDGES[], DECOMPOSED[];
extern const CategoryName  CATEGORY_NAMES[];
extern const ScriptName    SCRIPT_NAMES[];
extern const BinaryName    BINARY_NAMES[];
extern const CaseRun       FOLD_RUNS[], LOWER_RUNS[];
extern const uint16_t      NORMAL_BLOCKS[]; /* the run in which the block of 256 begins */
extern const Decomposition DECOMPOSITIONS[];
extern const Composition   COMPOSITIONS[];
extern const size_t        CATEGORY_RUNS_N, CATEGORY_NAMES_N, SCRIPT_RUNS_N, SCRIPT_NAMES_N, BINARY_EDGES_N,
                           BINARY_NAMES_N, FOLD_RUNS_N, LOWER_RUNS_N, NORMAL_RUNS_N, NORMAL_BLOCKS_N,
                           DECOMPOSITIONS_N, DECOMPOSED_N, COMPOSITIONS_N, GRAPHEME_RUNS_N;

#endif
