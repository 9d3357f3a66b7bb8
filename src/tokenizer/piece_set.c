/* A sorted array of strings. A search keeps the range of pieces that match the text so far and
 * narrows it byte by byte. */
#include "tokenizer/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

bool piece_set_add(PieceSet *s, const char *bytes, size_t n, int32_t id, Error *err)
{
    if (n > LONGEST_SOUGHT)
        return fail(err, INPUT,
                    "tokenizer: added tokens and user-defined symbols: expected at most %d bytes "
                    "each, found %zu: '%.40s...'",
                    LONGEST_SOUGHT, n, bytes);
    if (!ARRAY_ROOM(s->piece, s->cap, s->n + 1))
        return fail(err, SYSTEM, "tokenizer: out of memory for %zu pieces", s->n + 1);
    s->piece[s->n++] = (struct PieceRef){ bytes, n, id };
    s->starts[(unsigned char)bytes[0]] = true;
    return true;
}

static int compare(const void *left, const void *right)
{
    const struct PieceRef *a = left, *b = right;
    int order = memcmp(a->bytes, b->bytes, a->n < b->n ? a->n : b->n);
    if (order == 0)
        order = (a->n > b->n) - (a->n < b->n);
    return order ? order : (a->id > b->id) - (a->id < b->id);
}

void piece_set_sort(PieceSet *s)
{
    if (s->n)
        qsort(s->piece, s->n, sizeof *s->piece, compare);
}

void piece_set_free(PieceSet *s)
{
    free(s->piece);
    *s = (PieceSet){ 0 };
}

/* The first piece in [low, high) whose byte at `depth` is at least c. All pieces there are longer
 * than depth. */
static size_t first_not_below(const PieceSet *s, size_t low, size_t high, size_t depth, int c)
{
    BISECT (low, high, (unsigned char)s->piece[low].bytes[depth] < c);
    return low;
}

size_t piece_set_match(const PieceSet *s, const char *text, size_t n, int32_t *id)
{
    if (n == 0 || !s->starts[(unsigned char)text[0]])
        return 0;
    /* [low, high): the pieces that match the text so far. */
    size_t low = 0, high = s->n, longest = 0;
    for (size_t depth = 0; low < high; depth++) {
        if (s->piece[low].n == depth) { /* the shortest sorts first; equal ones by id */
            longest = depth;
            *id     = s->piece[low].id;
            while (low < high && s->piece[low].n == depth)
                low++;
        }
        if (depth == n)
            break;
        low  = first_not_below(s, low, high, depth, (unsigned char)text[depth]);
        high = first_not_below(s, low, high, depth, (unsigned char)text[depth] + 1);
    }
    return longest;
}
