/* base/nearest.c: compares words by edit distance, with a bonus for abbreviations. */
#include "base/nearest.h"

#include <stddef.h>
#include <string.h>

enum { WORD_MAX = 64 }; /* bytes; a longer word has no nearest */

static int min2(int a, int b) { return a < b ? a : b; }

/* The number of edits that turn a into b: insert, delete, replace, swap two neighbours (optimal
 * string alignment). */
static int edit_distance(const char *a, const char *b)
{
    int na = (int)strlen(a), nb = (int)strlen(b);
    int d[WORD_MAX + 1][WORD_MAX + 1];

    for (int i = 0; i <= na; i++)
        for (int j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] =
                min2(min2(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = min2(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[na][nb];
}

/* If one word is a prefix of the other, this counts instead of edits: 0 for an abbreviation (--out
 * for --output), 1 for a word with more letters than needed (--temperature for --temp). */
static int shortened_distance(const char *word, const char *known, int edits)
{
    enum { TELLING = 3 }; /* letters */
    size_t n_word = strlen(word), n_known = strlen(known), n = n_word < n_known ? n_word : n_known;
    if (n < TELLING || memcmp(word, known, n) != 0)
        return edits;
    return min2(edits, n_word > n_known);
}

void nearest_offer(Nearest *n, const char *known)
{
    if (strlen(n->word) > WORD_MAX || strlen(known) > WORD_MAX)
        return;
    int distance = shortened_distance(n->word, known, edit_distance(n->word, known));
    if (!n->best || distance < n->distance) {
        n->best = known;
        n->distance = distance;
    }
}

const char *nearest_answer(const Nearest *n)
{
    if (!n->best)
        return NULL;
    int length = (int)strlen(n->best);
    return n->distance <= (length < 3 ? 1 : (length + 2) / 3) ? n->best : NULL;
}

bool choice_has(const char *choices, const char *value)
{
    size_t n = strlen(value);
    for (const char *c = choices; n > 0 && (c = strstr(c, value)); c++)
        if ((c == choices || c[-1] == '|') && (c[n] == '|' || c[n] == '\0') && !strchr(value, '|'))
            return true;
    return false;
}
