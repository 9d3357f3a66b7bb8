/* tokenizer/stop_texts.c: ends a stream of text at the first stop string in it. The text comes in
 * chunks, so the start of a possible stop string is held back. */
#include <string.h>

#include "tokenizer/tokenizer.h"

/* Length of the longest stop string that ends at held[end), whose index becomes s->which; 0: none.
 * Each byte is tested once, as it arrives. */
static size_t ends_at(StopTexts *s, size_t end)
{
    size_t longest = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t n = strlen(s->texts[i]);
        if (n <= end && n > longest && memcmp(s->held.text + end - n, s->texts[i], n) == 0) {
            longest  = n;
            s->which = i;
        }
    }
    return longest;
}

/* Length of the longest suffix of held that is a prefix of a stop string. */
static size_t may_begin(const StopTexts *s)
{
    size_t longest = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t n = strlen(s->texts[i]) - 1;
        for (n = n < s->held.n ? n : s->held.n; n > longest; n--)
            if (memcmp(s->held.text + s->held.n - n, s->texts[i], n) == 0)
                longest = n;
    }
    return longest;
}

/* Move the first n held bytes to shown. */
static bool show(StopTexts *s, size_t n, TextOut *shown, Error *err)
{
    if (n == 0)
        return true;
    if (!text_out_add(shown, s->held.text, n, err))
        return false;
    memmove(s->held.text, s->held.text + n, s->held.n - n);
    s->held.n -= n;
    return true;
}

bool stop_texts_put(StopTexts *s, const char *text, size_t n, TextOut *shown, Error *err)
{
    if (s->found || n == 0)
        return true;
    size_t old = s->held.n;
    if (!text_out_add(&s->held, text, n, err))
        return false;
    for (size_t end = old + 1; end <= s->held.n; end++) {
        size_t length = ends_at(s, end);
        if (length == 0)
            continue;
        s->found  = true;
        s->held.n = end - length; /* keep what comes before the stop string */
        return stop_texts_flush(s, shown, err);
    }
    return show(s, s->held.n - may_begin(s), shown, err);
}

bool stop_texts_flush(StopTexts *s, TextOut *shown, Error *err)
{
    return show(s, s->held.n, shown, err);
}
