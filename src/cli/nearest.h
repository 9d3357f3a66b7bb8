/* cli/nearest.h: finds the known word that a mistyped one probably means. */
#ifndef CLI_NEAREST_H
#define CLI_NEAREST_H

/* Start with { word, 0, 0 }, offer every known word, then ask for the answer. */
typedef struct Nearest {
    const char *word;     /* as typed */
    const char *best;     /* the closest so far; of equals the first */
    int         distance; /* edits between the two */
} Nearest;

void nearest_offer(Nearest *n, const char *known);

/* The closest word if it is close enough (at most a third of its letters differ, or one word
 * begins the other), else NULL. */
const char *nearest_answer(const Nearest *n);

#endif
