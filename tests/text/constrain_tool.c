/* Masks of JSON Schemas for tests in other languages. The argument names a file with one line for
 * each token: its bytes in hexadecimal, none for a token that no text contains. Reads lines:
 *   a JSON Schema on one line    answers "ok" and stands at the start, or answers why it is refused
 *   a number                     takes this token, and answers like a dot
 *   .                            answers "1" if the text may end here, else "0"; a space; and the
 *                                mask in hexadecimal, bit id % 8 of byte id / 8. "dead": neither */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "constrain/constrain.h"

typedef struct Pieces {
    char  **text;
    size_t *n;
    int     count;
} Pieces;

typedef struct Standing {
    Constraint     *constraint;
    ConstraintState state;
} Standing;

static const char *piece(void *user, int id, size_t *n)
{
    const Pieces *p = user;
    *n = p->n[id];
    return *n ? p->text[id] : NULL;
}

static void *grown(void *p, size_t n_bytes)
{
    void *q = realloc(p, n_bytes);
    if (!q)
        exit(4);
    return q;
}

static void read_pieces(Pieces *p, const char *path)
{
    char   *line = NULL;
    size_t  room = 0;
    ssize_t n;
    FILE   *f = fopen(path, "r");
    if (!f)
        exit(4);
    while ((n = getline(&line, &room, f)) > 0) {
        size_t id = (size_t)p->count++, n_bytes = (size_t)(n - 1) / 2;
        p->text = grown(p->text, (id + 1) * sizeof *p->text);
        p->n = grown(p->n, (id + 1) * sizeof *p->n);
        p->text[id] = grown(NULL, n_bytes + 1);
        p->n[id] = n_bytes;
        for (size_t i = 0; i < n_bytes; i++) {
            char hex[3] = { line[2 * i], line[2 * i + 1], '\0' };
            p->text[id][i] = (char)strtoul(hex, NULL, 16);
        }
    }
    free(line);
    fclose(f);
}

static void answer_mask(Standing *s, const TokenTrie *trie)
{
    Error           e = { 0 };
    const uint64_t *bits = constraint_mask(s->constraint, trie, s->state, &e);
    if (!bits) {
        printf("%s\n", e.msg);
        return;
    }
    printf("%d ", constraint_may_end(s->constraint, s->state));
    for (int i = 0; i < token_trie_size(trie); i += 8)
        printf("%02x", (unsigned)(bits[i / 64] >> i % 64 & 0xff));
    puts("");
}

static void answer_schema(Standing *s, const char *text, size_t n)
{
    Error    e = { 0 };
    Rule     root = 0;
    Grammar *g = grammar_new(&e);
    constraint_free(s->constraint);
    s->constraint = NULL;
    if (g)
        grammar_read_schema(g, text, n, &(SchemaOptions){ false }, "schema", NULL, &root);
    if (g) /* takes over a failure too */
        s->constraint = constraint_new(g, root, "schema", &e);
    if (s->constraint)
        s->state = constraint_start(s->constraint);
    puts(s->constraint ? "ok" : e.msg);
}

static void answer(Standing *s, const TokenTrie *trie, Pieces *p, const char *line, size_t n)
{
    Error  e = { 0 };
    size_t id = strtoul(line, NULL, 10);
    if (line[0] != '.' && (line[0] < '0' || line[0] > '9')) {
        answer_schema(s, line, n);
        return;
    }
    if (!s->constraint || id >= (size_t)p->count)
        exit(2);
    if (line[0] != '.'
        && !constraint_advance(s->constraint, &s->state, p->text[id], p->n[id], &e))
        puts(e.msg);
    else if (s->state == STATE_DEAD)
        puts("dead");
    else
        answer_mask(s, trie);
}

int main(int argc, char **argv)
{
    Error      e = { 0 };
    Pieces     p = { 0 };
    Standing   s = { 0 };
    char      *line = NULL;
    size_t     room = 0;
    ssize_t    n;
    if (argc != 2)
        return 2;
    read_pieces(&p, argv[1]);
    TokenTrie *trie = token_trie_new(p.count, piece, &p, &e);
    while (trie && (n = getline(&line, &room, stdin)) > 0) {
        answer(&s, trie, &p, line, (size_t)(n - 1));
        fflush(stdout);
    }
    constraint_free(s.constraint);
    token_trie_free(trie);
    for (int i = 0; i < p.count; i++)
        free(p.text[i]);
    free(p.text);
    free(p.n);
    free(line);
    return e.status ? 4 : 0;
}
