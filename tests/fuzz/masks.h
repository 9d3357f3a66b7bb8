/* The masks along a text, over a small vocabulary: they say of each token what its bytes say. */
#ifndef MASKS_H
#define MASKS_H

#include "constrain/constrain.h"
#include "fuzz.h"

enum { VOCABULARY = 300, MOST_MASKS = 16 };

/* Each byte, then pairs of what texts often have. */
static const char *piece(void *user, int id, size_t *n)
{
    static const char        often[] = "\"a\", {}[]:\\u0\n1.";
    static const char *const long_ones[] = { ",\"a", ", \"a\":1", "\"a\"", ",\"a\":1,\"a" };
    static char              bytes[2];
    (void)user;
    *n = id < 256 ? 1 : 2;
    bytes[0] = id < 256 ? (char)id : often[id % (int)(sizeof often - 1)];
    bytes[1] = often[id / 7 % (int)(sizeof often - 1)];
    if (id < VOCABULARY - 4)
        return id == 7 ? NULL : bytes;
    *n = strlen(long_ones[VOCABULARY - 1 - id]);
    return long_ones[VOCABULARY - 1 - id];
}

/* False: a limit was reached, with a message. */
static bool check_mask(Constraint *c, const TokenTrie *t, ConstraintState state)
{
    Error           e = { 0 };
    const uint64_t *bits = constraint_mask(c, t, state, &e);
    if (!said(bits != NULL, &e))
        return false;
    bool any = constraint_may_end(c, state);
    for (int id = 0; id < VOCABULARY; id++) {
        size_t          n;
        ConstraintState next = state;
        const char     *bytes = piece(NULL, id, &n);
        bool            may = bits[id / 64] >> id % 64 & 1;
        if (bytes && !said(constraint_advance(c, &next, bytes, n, &e), &e))
            return false;
        claim(may == (bytes && next != STATE_DEAD));
        any |= may || !bytes; /* the byte of the special token may be the only way on */
    }
    claim(any || state == STATE_DEAD);
    return true;
}

static inline void check_masks_along(Constraint *c, const char *text, size_t n)
{
    Error           e = { 0 };
    TokenTrie      *t = token_trie_new(VOCABULARY, piece, NULL, &e);
    ConstraintState s = constraint_start(c);
    claim(t != NULL && s != STATE_DEAD);
    for (size_t i = 0; i < n && s != STATE_DEAD; i++) {
        if (i < MOST_MASKS && !check_mask(c, t, s))
            break;
        if (!said(constraint_advance(c, &s, text + i, 1, &e), &e))
            break;
    }
    claim(constraint_is_sound(c));
    token_trie_free(t);
}

#endif
