/* tblock embed: embeddings of texts, as lines of JSON or an array. */

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "cli/frame.h"
#include "cli/vectors_out.h"
#include "tblock_tools.h"

enum {
    PLACES     = 16, /* texts computed at once */
    MOST_TEXTS = 256 /* texts read before any is computed */
};

typedef struct EmbedArgs {
    const char    *model, *file, *jsonl, *prefix, *pool, *out;
    TextList       text;
    bool           raw, no_bos, special;
    ComputeOptions compute;
    GeneralOptions general;
} EmbedArgs;

/* Texts that are read but not yet computed. */
typedef struct EmbedBatch {
    const Frame      *f;
    const EmbedArgs  *a;
    const char       *from, *unit;    /* NAME and "line", for messages */
    int32_t          *ids;            /* of all these texts, one after the other */
    size_t            n_ids, cap_ids;
    tblock_embed_text text[MOST_TEXTS];
    size_t            n, n_before;    /* texts; those computed before them */
    float            *vector;         /* [MOST_TEXTS, d_model] */
    VectorsOut        out;
} EmbedBatch;

/* ---- Reading --------------------------------------------------------------------------------- */

/* The error of the first text that is not computed. */
static bool failed_at(const EmbedBatch *e, const tblock_error *why, tblock_error *err)
{
    return fail(err, why->status, "%s: %s %zu: %s", e->from, e->unit, e->n_before + 1,
                why->msg);
}

static bool add_ids(EmbedBatch *e, const int32_t *ids, size_t n, tblock_error *err)
{
    if (!ARRAY_ROOM(e->ids, e->cap_ids, e->n_ids + n))
        return no_memory(NULL, err);
    if (n)
        memcpy(e->ids + e->n_ids, ids, n * sizeof *ids);
    e->n_ids += n;
    e->text[e->n++].n_ids = n;
    return true;
}

static bool add_text(EmbedBatch *e, const char *text, size_t n, tblock_error *err)
{
    const EmbedArgs *a     = e->a;
    const unsigned   flags = (a->no_bos ? 0 : TBLOCK_ADD_SPECIAL)
        | (a->special ? TBLOCK_PARSE_SPECIAL : 0);
    const size_t n_prefix = a->prefix ? strlen(a->prefix) : 0;
    TextOut      whole    = { 0 };
    int32_t     *ids      = NULL;
    size_t       n_ids    = 0;
    bool good = text_out_add(&whole, a->prefix, n_prefix, err) && text_out_add(&whole, text, n, err)
        && need_tokenizer(e->f->model, a->model, "give token ids, with --jsonl", err)
        && tblock_tokenize(e->f->model, whole.text ? whole.text : "", whole.n, flags, &ids, &n_ids,
                           err)
        && add_ids(e, ids, n_ids, err);
    tblock_free(ids);
    text_out_free(&whole);
    return good;
}

static bool add_json_ids(EmbedBatch *e, const JsonNode *list, tblock_error *err)
{
    int32_t *ids  = malloc((list->n + 1) * sizeof *ids);
    size_t   n    = 0;
    char     found[NODE_TEXT];
    bool     good = ids ? true : no_memory(NULL, err);
    if (e->a->prefix)
        good = fail(err, TBLOCK_INPUT, "expected a text beside --prefix, found ids");
    JSON_NODES(i, good ? list : NULL)
        if (i->kind == NODE_INT && i->integer >= 0 && i->integer <= INT32_MAX)
            ids[n++] = (int32_t)i->integer;
        else if (good)
            good = fail(err, TBLOCK_INPUT, "expected a token id, found %s", node_text(i, found));
    good = good && add_ids(e, ids, n, err);
    free(ids);
    return good;
}

/* Adds a text, an array of ids, or an object with one of them. */
static bool add_node(EmbedBatch *e, const JsonNode *j, tblock_error *err)
{
    char            found[NODE_TEXT];
    const JsonNode *text = j, *ids = j;
    if (j->kind == NODE_OBJECT) {
        text = node_get(j, "text");
        ids  = node_get(j, "ids");
        JSON_NODES(i, j)
            if (i != text && i != ids)
                return fail(err, TBLOCK_INPUT, "expected the key text or ids, found '%s'", i->key);
        if (!text == !ids)
            return fail(err, TBLOCK_INPUT, "expected text or ids, found %s",
                        text ? "both" : "neither");
    }
    if (text && text->kind == NODE_STRING)
        return add_text(e, text->text, text->n, err);
    if (ids && ids->kind == NODE_ARRAY)
        return add_json_ids(e, ids, err);
    return fail(err, TBLOCK_INPUT, "expected a text, an array of ids, or an object with text or "
                                   "ids, found %s", node_text(text ? text : ids, found));
}

static bool add_line(EmbedBatch *e, const char *line, size_t n, tblock_error *err)
{
    if (!e->a->jsonl)
        return add_text(e, line, n, err);
    JsonDoc doc  = { 0 };
    bool    good = json_doc_read(&doc, line, n, 0, "JSON", err) && add_node(e, doc.node, err);
    json_doc_free(&doc);
    return good;
}

/* ---- Computing ------------------------------------------------------------------------------- */

/* If a text fails, those before it have their vectors. */
static bool compute(EmbedBatch *e, tblock_error *err)
{
    const tblock_embed_options o  = { .pool = e->a->pool, .raw = e->a->raw };
    const int32_t             *at = e->ids;
    tblock_error               why;
    size_t                     failed;
    for (size_t i = 0; i < e->n; at += e->text[i++].n_ids)
        e->text[i].ids = at;
    if (!tblock_embed(e->f->context, e->text, e->n, &o, e->vector, &failed, &why)) {
        if (failed == e->n)
            return fail(err, why.status, "%s", why.msg);
        e->n = failed;
        return compute(e, err) && failed_at(e, &why, err);
    }
    for (size_t i = 0; i < e->n; i++)
        if (!vectors_put(&e->out, e->text[i].n_ids, e->vector + i * (size_t)e->out.width, err))
            return false;
    e->n_before += e->n;
    e->n = e->n_ids = 0;
    return true;
}

/* ready: is the next text already there? Then they are computed together. */
static bool take(EmbedBatch *e, const char *text, size_t n, bool ready, tblock_error *err)
{
    tblock_error why;
    if (!add_line(e, text, n, &why))
        return compute(e, err) && failed_at(e, &why, err);
    return (ready && e->n < MOST_TEXTS) || compute(e, err);
}

static bool take_line(void *user, const Lines *at, const char *line, size_t n, tblock_error *err)
{
    EmbedBatch *e = user;
    e->from = at->name, e->unit = "line";
    return take(e, line, n, lines_ready(at), err);
}

static bool take_texts(EmbedBatch *e, tblock_error *err)
{
    const TextList *t = &e->a->text;
    e->from = "--text", e->unit = "number";
    for (size_t i = 0; i < t->n; i++)
        if (!take(e, t->texts[i], strlen(t->texts[i]), i + 1 < t->n, err))
            return false;
    return true;
}

/* ---- The command ----------------------------------------------------------------------------- */

static bool embed_check(Frame *f, tblock_error *err)
{
    const EmbedArgs *a = f->args;
    f->compute.n_seqs  = PLACES;
    frame_reads(f, a->jsonl ? a->jsonl : a->file ? a->file : a->text.n ? NULL : "-");
    return (a->text.n > 0) + (a->file != NULL) + (a->jsonl != NULL) <= 1
        || fail(err, TBLOCK_USAGE,
                "--text, --file and --jsonl: expected only one of them, found %s",
                a->text.n && a->file && a->jsonl ? "all three" : "two");
}

static bool embed_all(EmbedBatch *e, tblock_error *err)
{
    const EmbedArgs *a     = e->a;
    const char      *input = a->jsonl ? a->jsonl : a->file ? a->file : "-";
    int              pool, width = 0;
    tblock_error     why;
    if (tblock_pool_choose(e->f->model, a->pool, &pool, &why)) /* else each text reports why */
        width = tblock_pool_width(e->f->model, pool);
    e->vector = malloc(MOST_TEXTS * sizeof *e->vector * (size_t)(width + 1));
    bool good = (e->vector || no_memory(NULL, err))
        && vectors_open(&e->out, e->f->out[0].path, a->out && path_ends(a->out, ".npy"), width,
                        err);
    if (good && a->out)
        progress_show("embedding", -1);
    good = good
        && (a->text.n ? take_texts(e, err) : lines_each(input, take_line, e, err))
        && vectors_commit(&e->out, err) && output_flush(err);
    vectors_close(&e->out);
    return good;
}

static bool embed(Frame *f, tblock_error *err)
{
    EmbedBatch *e = calloc(1, sizeof *e);
    if (!e)
        return no_memory(NULL, err);
    e->f      = f;
    e->a      = f->args;
    bool good = embed_all(e, err);
    free(e->ids);
    free(e->vector);
    free(e);
    return good;
}

#define AT(field) offsetof(EmbedArgs, field)
static const Option options[] = {
    { "text",   0,  "TEXT", OPT_TEXTS, AT(text), 0, 0, NULL, "a text" },
    { "file",  'f', "FILE", OPT_TEXT,  AT(file), 0, 0, NULL,
      "a text in each line; -, and by default: standard input" },
    { "jsonl",  0,  "FILE", OPT_TEXT,  AT(jsonl), 0, 0, NULL,
      "in each line a JSON string, an array of token ids, or an object with \"text\" or \"ids\"; "
      "-: standard input" },
    { "prefix", 0,  "TEXT", OPT_TEXT,  AT(prefix), 0, 0, NULL,
      "put this before each text, such as the instruction that a model was trained with" },
    OPTION_NO_BOS(AT(no_bos), "leave out the BOS and any other tokens that the tokenizer adds"),
    OPTION_SPECIAL(AT(special), "the texts"),
    { 0 },
};
static const Option vector_options[] = {
    { "pool", 0, "auto|mean|last|cls", OPT_CHOICE, AT(pool), 0, 0, "auto",
      "the mean of the states of all tokens, or that of the last or the first one; auto: what the "
      "model was trained for, if it says so, else the mean" },
    { "raw",  0, NULL, OPT_FLAG, AT(raw), 0, 0, NULL, "do not make each vector 1 long" },
    OPTION_OUTPUT(AT(out), NULL,
                  "write to this file: an array of numpy if its name ends in .npy, else lines of "
                  "JSON"),
    { 0 },
};
const Command cmd_embed = {
    { "embed", OPERANDS(OPERAND_MODEL(AT(model))),
      GROUPS({ "Texts: one of --text, --file, --jsonl or standard input", options, 0 },
             { "Vectors", vector_options, 0 }, GROUP_COMPUTE(AT(compute)),
             GROUP_GENERAL(AT(general))) },
    "texts as vectors",
    "Prints for each text {\"index\": ..., \"tokens\": ..., \"embedding\": [...]}: a vector of the "
    "width of the model, made of its last hidden states (docs/embeddings.md). The same bits as "
    "/v1/embeddings of serve, whatever other texts there are. Lines are answered as they come.",
    EXAMPLES({ "tblock embed model.bin --text 'Hello world'", "one vector, as a line of JSON" },
             { "tblock embed model.bin -f texts.txt --pool last -o vectors.npy",
               "one for each line, as an array for numpy" }),
    .args_size = sizeof(EmbedArgs), .run = embed, .check = embed_check, .opens = OPENS_CONTEXT,
    .writes = { "output" },
};
