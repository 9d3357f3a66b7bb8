/* bench_masks: how long masks take. masks.py runs it.
 *   bench_masks TOKENIZER < LINES
 * A line is a JSON array of strings: a JSON Schema, and texts that it allows. For each it prints
 * the nanoseconds of compiling, and those of each mask along the tokens of the texts with the step
 * to the state whose mask it is; or "refused". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/json.h"
#include "base/text.h"
#include "constrain/constrain.h"

typedef struct Vocabulary {
    const Tokenizer *t;
    TokenTrie       *trie;
    TextStream      *stream;
} Vocabulary;

/* The bytes of one token in the midst of a text. */
static const char *piece_of(void *user, int id, size_t *n)
{
    Vocabulary *v = user;
    return tokenizer_is_text(v->t, id) ? text_stream_alone(v->stream, id, n) : NULL;
}

static Constraint *compile(const JsonNode *schema, Error *err)
{
    SchemaOptions options = { false };
    Rule          root = 0;
    Grammar      *g = grammar_new(err);
    if (!g)
        return NULL;
    grammar_read_schema(g, schema->text, schema->n, &options, "schema", NULL, &root);
    return constraint_new(g, root, "schema", err);
}

/* False: a token may not come where the text has it, or the constraint failed. */
static bool measure_text(Vocabulary *v, Constraint *c, const JsonNode *text, Error *err)
{
    ConstraintState state = constraint_start(c);
    Ids             ids = { 0 };
    size_t          n_before = 0;
    const char     *before = "";
    bool            good = tokenizer_encode(v->t, text->text, text->n, false, false, &ids, err);
    for (size_t i = 0; good && i < ids.n; i++) {
        int64_t         begun = clock_ns();
        bool            stepped = constraint_advance(c, &state, before, n_before, err);
        const uint64_t *mask = stepped ? constraint_mask(c, v->trie, state, err) : NULL;
        int64_t         taken = clock_ns() - begun;
        good = mask && mask[ids.id[i] / 64] >> ids.id[i] % 64 & 1;
        printf(" %" PRId64, taken);
        before = piece_of(v, ids.id[i], &n_before);
    }
    free(ids.id);
    return good;
}

static bool measure_line(Vocabulary *v, const char *line, size_t n, Error *err)
{
    JsonDoc doc = { 0 };
    if (!json_doc_read(&doc, line, n, 0, "line", err))
        return false;
    int64_t     begun = clock_ns();
    Constraint *c = compile(doc.node + 1, err);
    int64_t     taken = clock_ns() - begun;
    if (!c) {
        puts("refused");
    } else {
        printf("%" PRId64, taken);
        for (const JsonNode *i = doc.node + 2; i < node_end(doc.node); i += i->skip)
            measure_text(v, c, i, err);
        puts("");
    }
    constraint_free(c);
    json_doc_free(&doc);
    return true;
}

int main(int argc, char **argv)
{
    Error         err = { 0 };
    char         *line = NULL;
    size_t        room = 0;
    ssize_t       n;
    tblock_model *m = argc == 2 ? tblock_open(argv[1], NULL, &err) : NULL;
    if (!m || !m->tokenizer) {
        fprintf(stderr, "bench_masks: %s\n", err.status ? err.msg : "expected one TOKENIZER");
        return 2;
    }
    Vocabulary v = { .t = m->tokenizer, .stream = text_stream_new(m->tokenizer, true) };
    if (v.stream)
        v.trie = token_trie_new(tokenizer_size(v.t), piece_of, &v, &err);
    bool good = v.trie != NULL;
    while (good && (n = getline(&line, &room, stdin)) > 0)
        good = measure_line(&v, line, (size_t)n, &err);
    if (!good)
        fprintf(stderr, "bench_masks: %s\n", err.msg);
    token_trie_free(v.trie);
    text_stream_free(v.stream);
    free(line);
    tblock_close(m);
    return good ? 0 : 4;
}
