/* tblock tokenize: converts texts to ids, and ids to text. */
#include "frame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tblock_tools.h"

typedef struct TokenizeArgs {
    const char    *model, *text, *file, *jsonl;
    IdList         ids;
    bool           json, pieces, no_bos, special, sandbox;
    GeneralOptions general;
} TokenizeArgs;

/* Prints the id, a tab, and the text in quotes, escaped as in base/printable.c. */
static void print_piece(int32_t id, const char *text, size_t n)
{
    output_format("%" PRId32 "\t\"", id);
    for (size_t i = 0; i < n;) {
        char   shown[PRINTABLE_BYTES];
        size_t n_read, n_shown = printable(shown, text + i, n - i, &n_read);
        if (text[i] == '"' || text[i] == '\\')
            output_write("\\", 1);
        output_write(shown, n_shown);
        i += n_read;
    }
    output_format("\"\n");
}

static bool print_pieces(const tblock_model *m, const int32_t *ids, size_t n, bool json,
                         tblock_error *err)
{
    tblock_stream *s = tblock_stream_new(m, true, err);

    for (size_t i = 0; s && i < n; i++) {
        size_t      n_text;
        const char *text = tblock_stream_alone(s, ids[i], &n_text);
        if (json) {
            output_format("%s", i ? ", " : "");
            output_json_text(text, n_text);
        } else {
            print_piece(ids[i], text, n_text);
        }
    }
    tblock_stream_free(s);
    return s != NULL;
}

static bool print_ids(const tblock_model *m, const TokenizeArgs *a, const int32_t *ids, size_t n,
                      tblock_error *err)
{
    if (a->json) {
        output_format("{");
        output_json_ids("ids", ids, n);
        if (a->pieces) {
            output_format(", \"pieces\": [");
            if (!print_pieces(m, ids, n, true, err))
                return false;
            output_format("]");
        }
        output_format("}\n");
        return true;
    }
    if (a->pieces)
        return print_pieces(m, ids, n, false, err);
    for (size_t i = 0; i < n; i++)
        output_format("%s%" PRId32, i ? " " : "", ids[i]);
    output_format("\n");
    return true;
}

static bool encode(const tblock_model *m, const TokenizeArgs *a, tblock_error *err)
{
    unsigned flags = (a->no_bos ? 0 : TBLOCK_ADD_SPECIAL) | (a->special ? TBLOCK_PARSE_SPECIAL : 0);
    int32_t *ids = NULL;
    size_t   n = 0;
    TextOut  text = { 0 };

    bool good = (a->text ? text_out_add(&text, a->text, strlen(a->text), err)
                         : input_read(a->file ? a->file : "-", INPUT_TEXT, &text, err))
        && tblock_tokenize(m, text.text ? text.text : "", text.n, flags, &ids, &n, err)
        && print_ids(m, a, ids, n, err);
    free(text.text);
    tblock_free(ids);
    return good;
}

static bool decode(const tblock_model *m, const TokenizeArgs *a, tblock_error *err)
{
    char        *text = NULL;
    size_t       n = 0;
    tblock_error why = { 0 };
    /* The user's ids are wrong, not a file. */
    if (!tblock_detokenize(m, a->ids.ids, a->ids.n, &text, &n, &why))
        return fail(err, why.status == TBLOCK_INPUT ? TBLOCK_USAGE : why.status, "--ids: %s",
                    why.msg);
    if (a->pieces) {
        tblock_free(text);
        return print_ids(m, a, a->ids.ids, a->ids.n, err);
    }
    if (a->json) {
        output_format("{\"text\": ");
        output_json_text(text, n);
        output_format(", \"bytes_hex\": \"");
        for (size_t i = 0; i < n; i++)
            output_format("%02x", (unsigned)(unsigned char)text[i]);
        output_format("\"}\n");
    } else {
        output_write(text, n);
        if (output_is_terminal() && n > 0 && text[n - 1] != '\n')
            output_write("\n", 1);
    }
    tblock_free(text);
    return true;
}

static bool answer_line(void *user, const Lines *at, const char *line, size_t n, tblock_error *err)
{
    const Frame *f      = user;
    char        *answer = NULL;
    bool         good   = tblock_tokenize_json(f->model, line, n, &answer, err);
    if (good) {
        output_write(answer, strlen(answer));
        output_write("\n", 1);
    }
    tblock_free(answer);
    return good || lines_fail(at, err);
}

static bool tokenize_check(Frame *f, tblock_error *err)
{
    const TokenizeArgs *a = f->args;
    if ((a->text != NULL) + (a->file != NULL) + (a->jsonl != NULL) + a->ids.given > 1)
        return fail(err, TBLOCK_USAGE, "--text, --file, --ids and --jsonl: expected only one "
                                           "of them, found more");
    if (a->jsonl && (a->json || a->pieces || a->no_bos || a->special))
        return fail(err, TBLOCK_USAGE, "--%s: expected no --jsonl with it, where each line has "
                                           "its own settings",
                        a->json ? "json" : a->pieces ? "pieces" : a->no_bos ? "no-bos" : "special");
    if (a->ids.given && (a->no_bos || a->special))
        return fail(err, TBLOCK_USAGE, "--%s: expected a text, found --ids",
                    a->no_bos ? "no-bos" : "special");
    return true;
}

static bool tokenize(Frame *f, tblock_error *err)
{
    const TokenizeArgs *a = f->args;
    note_tokenizer(&f->info, a->model);
    return a->jsonl      ? lines_each(a->jsonl, answer_line, f, err)
        : a->ids.given ? decode(f->model, a, err)
                       : encode(f->model, a, err);
}

#define AT(field) offsetof(TokenizeArgs, field)
static const Option options[] = {
    { "text",    0, "TEXT", OPT_TEXT, AT(text),    0, 0, NULL,
      "the text; default: standard input, unless --file, --ids or --jsonl is given" },
    { "file",   'f', "FILE", OPT_TEXT, AT(file),   0, 0, NULL,
      "read the text from a file (at most 1 GB), including the last newline; -: standard input" },
    OPTION_IDS(AT(ids), "token ids to decode into text, such as 1,2,3"),
    { "jsonl",   0, "FILE", OPT_TEXT, AT(jsonl),   0, 0, NULL,
      "a file with one request per line, see above; -: standard input" },
    OPTION_JSON(AT(json), "print one JSON object"),
    { "pieces",  0, NULL,   OPT_FLAG, AT(pieces),  0, 0, NULL,
      "print one token per line, with its text" },
    OPTION_NO_BOS(AT(no_bos), "leave out the BOS and any other tokens that the tokenizer adds"),
    OPTION_SPECIAL(AT(special), "the text"),
    OPTION_SANDBOX(AT(sandbox)),
    { 0 },
};
const Command cmd_tokenize = {
    { "tokenize",
      OPERANDS({ "MODEL", AT(model), false, MODEL_OPERAND ", or a tokenizer's file or folder" }),
      GROUPS({ "Options", options, 0 }, GROUP_GENERAL(AT(general))) },
    "convert text to token ids and back",
    "Prints the ids of a text, or the text of --ids (its exact bytes; on a terminal a newline is "
    "added).\n--jsonl: each line is a JSON object. It has \"text\" or \"bytes_hex\", and "
    "optionally \"mode\" (\"plain\": special tokens are ordinary text; \"special\": they are "
    "special) and \"add_special\" (true: add the BOS and the like); or it has \"ids\" to decode. "
    "tblock answers each line as soon as it has read it, with {\"ids\": [...]} or {\"text\": ..., "
    "\"bytes_hex\": ...}.",
    EXAMPLES({ "tblock tokenize model.bin --text 'Hello world'",
               "the ids, separated by spaces, on one line" },
             { "tblock tokenize model.bin --text 'Hello world' --pieces",
               "one line per token: its id and its text" },
             { "tblock tokenize model.bin --ids 1,300,301", "back to text, to the exact byte" },
             { "tblock tokenize model.bin --jsonl requests.jsonl", "many texts in one go" }),
    .args_size = sizeof(TokenizeArgs), .run = tokenize, .check = tokenize_check,
    .opens = OPENS_MODEL, .reads = { "jsonl", "file" }, .needs = "tokenize needs one",
};
