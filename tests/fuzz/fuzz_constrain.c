/* tests/fuzz/fuzz_constrain.c: a pattern or a grammar, and a text. The first byte says which, and
 * how a pattern is meant; a zero byte ends it, and the text follows. The masks over a small
 * vocabulary say of each token what its bytes say. */
#include <stdio.h>
#include "fuzz.h"
#include "constrain/constrain.h"

enum { SEARCH = 1, JSON_FORM = 2, GBNF = 4, VOCABULARY = 300, MOST_MASKS = 16 };

/* Each byte, then pairs of what texts often have. */
static const char *piece(void *user, int id, size_t *n)
{
    static const char often[] = "\"a\", {}[]:\\u0\n1.";
    static char       bytes[2];
    (void)user;
    *n = id < 256 ? 1 : 2;
    bytes[0] = id < 256 ? (char)id : often[id % (int)(sizeof often - 1)];
    bytes[1] = often[id / 7 % (int)(sizeof often - 1)];
    return id == 7 ? NULL : bytes;
}

static Constraint *compile(unsigned kind, const char *text, size_t n)
{
    Error    e = { 0 };
    Rule     root = 0;
    Grammar *g = grammar_new(&e);
    claim(g != NULL);
    Constraint *c;
    if (kind & GBNF) {
        grammar_read_gbnf(g, text, n, "g", &root);
        c = constraint_new(g, root, "g", &e);
    } else {
        Expr p = expr_regex(g, text, n, kind & SEARCH, kind & JSON_FORM ? CHARS_JSON : CHARS_UTF8,
                            "p");
        c = constraint_of_expr(g, p, "p", &e);
    }
    return said(c != NULL, &e) ? c : NULL;
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

static void run(Constraint *c, const char *text, size_t n)
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
    token_trie_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n == 0)
        return 0;
    const uint8_t *end = memchr(bytes + 1, 0, n - 1);
    size_t         n_first = end ? (size_t)(end - bytes) - 1 : n - 1;
    char          *first = exact_copy(bytes + 1, n_first);
    Constraint    *c = compile(bytes[0], first, n_first);
    if (c)
        run(c, end ? (const char *)end + 1 : "", end ? n - n_first - 2 : 0);
    constraint_free(c);
    free(first);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "constrain"); }
#endif
