/* tests/fuzz/fuzz_schema.c: a JSON Schema, and after a NUL a text, which is valid or not. A schema
 * is taken or refused by name. What it takes byte by byte is JSON without a name twice, and masks
 * over a small vocabulary say what the bytes say. */
#include "base/json.h"
#include "masks.h"

static bool accepts(Constraint *c, const char *text, size_t n)
{
    Error           e = { 0 };
    ConstraintState s = constraint_start(c);
    return said(constraint_advance(c, &s, text, n, &e), &e) && constraint_may_end(c, s);
}

static void run(Constraint *c, const char *text, size_t n)
{
    Error   e = { 0 };
    JsonDoc d;
    if (!accepts(c, text, n))
        return;
    bool json = said(json_doc_parse(&d, exact_copy(text, n), n, 0, "text", &e), &e);
    claim(json || strstr(e.msg, "nested deeper"));
    if (json)
        json_doc_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    Error         e = { 0 };
    Rule          root;
    Grammar      *g = grammar_new(&e);
    SchemaOptions options = { .any_order = n % 2 };
    const char   *end = n ? memchr(bytes, 0, n) : NULL;
    size_t        n_schema = end ? (size_t)(end - (const char *)bytes) : n;
    claim(g != NULL);
    char *text = exact_copy(bytes, n);
    if (grammar_read_schema(g, text, n_schema, &options, "schema", NULL, &root)) {
        Constraint *c = constraint_new(g, root, "schema", &e);
        if (said(c != NULL, &e)) {
            run(c, text + n_schema + (end != NULL), n - n_schema - (end != NULL));
            check_masks_along(c, text + n_schema + (end != NULL), n - n_schema - (end != NULL));
        }
        constraint_free(c);
    } else {
        claim(grammar_failed(g, &e));
        said(false, &e);
        grammar_free(g);
    }
    free(text);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "schema"); }
#endif
