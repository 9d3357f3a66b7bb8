/* runtime/draft.c: prompt lookup. If the last tokens of the sequence occurred before, the tokens
 * that followed them are the draft. Source: Saxena 2023, "Prompt lookup decoding"; Yang et al.
 * 2023, "Inference with reference". */
#include "runtime/sampler.h"

#include <stdbool.h>

enum { BLOCK = 64 }; /* a fixed trip count, so that the compiler uses vectors */

/* Are a and b adjacent, with b at one of at[0 .. BLOCK)? */
static bool block_has_pair(const int32_t *at, int32_t a, int32_t b)
{
    int any = 0;
    for (int i = 0; i < BLOCK; i++)
        any |= (at[i] == b) & (at[i - 1] == a);
    return any != 0;
}

/* How many tokens up to ids[j] equal those up to ids[n - 1], at most `most`. */
static size_t match_length(const int32_t *ids, size_t n, size_t j, size_t most)
{
    size_t length = 0;
    while (length < most && length <= j && ids[j - length] == ids[n - 1 - length])
        length++;
    return length;
}

/* The index after the longest match, the newest of equals; n: there is none of min_match tokens. */
static size_t find_match(const int32_t *ids, size_t n, const DraftOptions *opt)
{
    const size_t most = (size_t)opt->max_match;
    size_t       best = (size_t)opt->min_match - 1, found = n;
    size_t       end  = n < 1 ? 0 : n - 1,
           oldest = end > (size_t)opt->window ? end - (size_t)opt->window : 0;
    while (end > oldest && best < most) { /* indices oldest .. end - 1 may end a match */
        if (best > 0 && end - oldest > BLOCK
            && !block_has_pair(ids + end - BLOCK, ids[n - 2], ids[n - 1])) {
            end -= BLOCK;
            continue;
        }
        for (int i = 0; i < BLOCK && end > oldest && best < most; i++) {
            size_t length = match_length(ids, n, --end, most);
            if (length > best) {
                best  = length;
                found = end + 1;
            }
        }
    }
    return found;
}

/* A match that overlaps the end repeats: past the end it reads what was just proposed. */
size_t draft_ngram(const int32_t *ids, size_t n, const DraftOptions *opt, int32_t *out, size_t most)
{
    size_t from = find_match(ids, n, opt);
    if (from == n)
        return 0;
    for (size_t i = 0; i < most; i++)
        out[i] = from + i < n ? ids[from + i] : out[from + i - n];
    return most;
}
