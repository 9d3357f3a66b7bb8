/* base/nearest.h: finds the known word that a mistyped one probably means. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stdbool.h>

/* Start with { word, 0, 0 }, offer every known word, then call nearest_answer. */
typedef struct Nearest {
    const char *word;     /* as typed */
    const char *best;     /* the closest so far; the first of equals */
    int         distance; /* edits between the two */
} Nearest;

void nearest_offer(Nearest *n, const char *known);

/* The closest word if it is close enough (at most a third of its letters differ, or one word is a
 * prefix of the other), else NULL. */
const char *nearest_answer(const Nearest *n);

/* Is value one of the words of "f32|f16"? */
bool choice_has(const char *choices, const char *value);

#endif
