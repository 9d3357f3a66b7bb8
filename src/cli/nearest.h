/* cli/nearest.h: the known word that a mistyped one most likely stands for. */
#ifndef CLI_NEAREST_H
#define CLI_NEAREST_H

/* Start with { word, 0, 0 }, offer every known word, then ask. */
typedef struct Nearest {
    const char *word;     /* as typed                        */
    const char *best;     /* the closest so far, the first of equals */
    int         distance; /* edits between the two           */
} Nearest;

void nearest_offer(Nearest *n, const char *known);

/* The closest word when it is close enough to be meant (at most a third of its letters differ, or one begins
 * with the other), else NULL. */
const char *nearest_answer(const Nearest *n);

#endif
