/* tests/fuzz/fuzz_constrain.c: a pattern or a grammar, and a text. The first byte says which, and
 * how a pattern is meant; a zero byte ends it, and the text follows. The masks over a small
 * vocabulary say of each token what its bytes say. */
#include "masks.h"

enum { SEARCH = 1, JSON_FORM = 2, GBNF = 4 };

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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n == 0)
        return 0;
    const uint8_t *end = memchr(bytes + 1, 0, n - 1);
    size_t         n_first = end ? (size_t)(end - bytes) - 1 : n - 1;
    char          *first = exact_copy(bytes + 1, n_first);
    Constraint    *c = compile(bytes[0], first, n_first);
    if (c)
        check_masks_along(c, end ? (const char *)end + 1 : "", end ? n - n_first - 2 : 0);
    constraint_free(c);
    free(first);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "constrain"); }
#endif
