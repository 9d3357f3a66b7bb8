/* tblock list: the models in the Hub's cache and in ollama's store. */
#include "frame.h"

#include <stdio.h>

#include "base/text.h"
#include "tblock_tools.h"

typedef struct ListArgs {
    bool           json;
    GeneralOptions general;
} ListArgs;

typedef struct Listed { Rows rows; const Table *table; size_t n; } Listed;

static const Column columns[] = {
    { "name", "name", -40, 0, UNIT_NONE, NULL },
    { "commit", "revision", -12, 2, UNIT_NONE, NULL },
    { "bytes", "size", 9, 1, UNIT_BYTES, NULL },
    { "kinds", "holds", -1, 2, UNIT_NONE, NULL },
    JSON_COLUMN("path"),
};

static void show_model(void *user, const tblock_kept *k)
{
    Listed *l = user;
    char    name[CLI_SHOWN], kinds[CLI_SHOWN], commit[13];
    snprintf(commit, sizeof commit, "%s", k->commit);
    l->n++;
    rows_row(&l->rows, l->table,
             (Cell[]){ v_shown(v_text(k->name), cli_shown(name, k->name)),
                       v_shown(v_text(k->commit), commit), v_count(k->bytes),
                       v_shown(v_text(k->kinds), cli_shown(kinds, k->kinds)), v_text(k->path) },
             NULL);
}

static bool list(Frame *f, tblock_error *err)
{
    const ListArgs *a     = f->args;
    const Table     table = TABLE_OF(columns);
    Listed          l     = { OUTPUT_ROWS(a->json, 0), &table, 0 };
    rows_open(&l.rows, NULL, '{');
    rows_table(&l.rows, "models", &table);
    const bool good = tblock_kept_each(show_model, &l, err);
    rows_table_end(&l.rows, "models");
    rows_close(&l.rows, '}');
    if (!good || (!l.n && !a->json)) {
        text_out_free(&l.rows.out);
        if (good)
            cli_note("no models in the Hub's cache, nor in ollama's store; tblock pull ORG/NAME "
                     "downloads one");
        return good;
    }
    return output_rows(&l.rows, err);
}

#define AT(field) offsetof(ListArgs, field)
static const Option options[] = {
    OPTION_JSON(AT(json), "print one JSON object"),
    { 0 },
};
const Command cmd_list = {
    { "list", OPERANDS({ 0 }), GROUPS({ "Options", options, 0 }, GROUP_GENERAL(AT(general))) },
    "list the models that have been downloaded",
    "Lists the models in the cache of the Hugging Face Hub, which tblock pull and Python fill, and "
    "in ollama's store. Every command takes these names as its MODEL.",
    EXAMPLES({ "tblock list", "names, revisions, sizes, kinds of weights" }),
    .args_size = sizeof(ListArgs), .run = list,
};
