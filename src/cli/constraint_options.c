/* cli/constraint_options.c: the constraint options of the commands. */
#include "command.h"

#include <string.h>

#include "tblock_tools.h"

enum { MOST_GRAMMAR = 16 * INPUT_MB };

static const char any_object[] = "{\"type\":\"object\"}";

#define AT(field) offsetof(ConstraintOptions, field)
const Option constraint_options[] = {
    { "json-schema", 0, "FILE", OPT_TEXT, AT(schema), 0, 0, NULL,
      "the text must be JSON that this JSON Schema allows, of a file or itself, as in "
      "'{\"type\": \"array\"}'; -: standard input" },
    { "json-object", 0, NULL, OPT_FLAG, AT(object), 0, 0, NULL,
      "the text must be a JSON object, any" },
    { "any-order", 0, NULL, OPT_FLAG, AT(any_order), 0, 0, NULL,
      "with --json-schema: properties in any order, not only the schema's" },
    { "regex",   0, "PATTERN", OPT_TEXT, AT(regex), 0, 0, NULL,
      "the whole text must match this regular expression of ECMA-262" },
    { "grammar", 0, "FILE", OPT_TEXT, AT(grammar), 0, 0, NULL,
      "the text must be a `root` of this grammar in GBNF; -: standard input" },
    { 0 },
};

static int n_given(const ConstraintOptions *o)
{
    return (o->regex != NULL) + (o->grammar != NULL) + (o->schema != NULL) + o->object;
}

bool constraint_check(const ConstraintOptions *o, bool needed, tblock_error *err)
{
    int n = n_given(o);
    if (n > 1 || (needed && n == 0))
        return fail(err, TBLOCK_USAGE,
                    "expected one of --json-schema, --json-object, --regex and --grammar, found %s",
                    n ? "more" : "none");
    return !o->any_order || o->schema
        || fail(err, TBLOCK_USAGE, "--any-order: expected --json-schema beside it");
}

bool constraint_given(const ConstraintOptions *o) { return n_given(o) > 0; }

bool constraint_is_text(const char *schema) { return schema[strspn(schema, " \t\r\n")] == '{'; }

tblock_constraint *constraint_open(const tblock_model *m, const ConstraintOptions *o,
                                   tblock_error *err)
{
    TextOut            text = { 0 };
    tblock_constraint *c = NULL;
    const bool         inner = o->schema && constraint_is_text(o->schema);
    const char        *file = o->grammar ? o->grammar : inner ? "--json-schema" : o->schema;
    int                kind = o->grammar     ? TBLOCK_GRAMMAR
                              : o->any_order ? TBLOCK_JSON_SCHEMA_ANY_ORDER
                                             : TBLOCK_JSON_SCHEMA;
    if (o->regex)
        return tblock_constraint_new(m, TBLOCK_REGEX, o->regex, strlen(o->regex), "--regex", err);
    if (o->object)
        return tblock_constraint_new(m, kind, any_object, strlen(any_object), "--json-object", err);
    if (inner ? text_out_add(&text, o->schema, strlen(o->schema), err)
              : input_read(file, MOST_GRAMMAR, &text, err))
        c = tblock_constraint_new(m, kind, text.text ? text.text : "", text.n, file, err);
    text_out_free(&text);
    if (c && tblock_constraint_unknown_formats(c)[0])
        cli_note("warning: %s: formats that are not known and ask nothing: %s", file,
                 tblock_constraint_unknown_formats(c));
    return c;
}

bool constraint_was_cut(tblock_constraint *c, const tblock_generation_info *now, bool *cut,
                        tblock_error *err)
{
    bool fits = true;
    bool good = !c || now->end == TBLOCK_END_FITS || now->end == TBLOCK_END_TOKEN
        || tblock_constraint_accepts(c, now->text, now->n_bytes, &fits, err);
    *cut = !fits;
    return good;
}

void constraint_note_cut(void)
{
    cli_note("the text was cut before it fits its constraint");
}
