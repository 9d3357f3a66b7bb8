/* cli/stop_text.h: ends a stream of text where one of several texts appears in it. */
#ifndef CLI_STOP_TEXT_H
#define CLI_STOP_TEXT_H

#include "output.h"

/* Start with { texts, n_texts }; release held.text with free(). */
typedef struct StopText {
    const char *const *texts; /* none of them empty */
    size_t             n;
    TextOut            held;  /* seen and not shown: the beginning of a stop text, perhaps */
    bool               found;
} StopText;

/* Add n bytes of text to *shown as far as they cannot be part of a stop text. The first stop text to be complete counts
 * (of those that end together, the longest), whatever pieces the text comes in; it is not shown, found is set and all
 * later text is dropped. Fails without memory. */
bool stop_text_put(StopText *s, const char *text, size_t n, TextOut *shown, tblock_error *err);

/* The stream is at its end: what was held back is shown after all. */
bool stop_text_flush(StopText *s, TextOut *shown, tblock_error *err);

#endif
