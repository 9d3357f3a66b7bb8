/* tblock quantize: a model file with smaller weights, and a table of their errors. */
#include "frame.h"
#include "tblock_tools.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

typedef struct QuantizeArgs {
    tblock_quantize_options o;
    const char    *in, *out, *out_argument, *calibrate;
    TextList       keep;
    bool           json, tensors, sandbox;
    GeneralOptions general;
} QuantizeArgs;

/* ---- Table ----------------------------------------------------------------------------------- */

/* All matrices of one kind and type, such as every layer's wq. */
typedef struct MatrixKind {
    tblock_quantize_row sum;     /* sums over them; name, from and type of the first  */
    size_t              n;
    double              worst;   /* the largest error, and its matrix                 */
    const char         *worst_name;
} MatrixKind;

enum { MAX_KINDS = 64 };

/* If there is no room for more (every layer of another type), takes the last of that name. */
static MatrixKind *find_kind(MatrixKind *kinds, size_t *n, const tblock_quantize_row *r)
{
    MatrixKind *same_part = NULL;
    for (size_t i = 0; i < *n; i++) {
        if (strcmp(kinds[i].sum.part, r->part) != 0)
            continue;
        same_part = &kinds[i];
        if (strcmp(kinds[i].sum.type, r->type) == 0 && strcmp(kinds[i].sum.from, r->from) == 0)
            return same_part;
    }
    if (*n == MAX_KINDS)
        return same_part ? same_part : &kinds[MAX_KINDS - 1];
    kinds[*n] = (MatrixKind){ .sum   = { .part = r->part, .from = r->from, .type = r->type },
                              .worst = -1 };
    return &kinds[(*n)++];
}

static size_t collect(MatrixKind *kinds, const tblock_quantize_report *report)
{
    size_t n = 0;
    for (size_t i = 0; i < report->n_rows; i++) {
        const tblock_quantize_row *r = &report->rows[i];
        MatrixKind *k = find_kind(kinds, &n, r);
        k->n++;
        k->sum.n_params += r->n_params;
        k->sum.bytes    += r->bytes;
        k->sum.error2   += r->error2;
        k->sum.sum2     += r->sum2;
        k->sum.flushed  += r->flushed;
        if (r->error > k->worst) {
            k->worst      = r->error;
            k->worst_name = r->name;
        }
    }
    return n;
}

static double bits(const tblock_quantize_row *r)
{
    return 8 * (double)r->bytes / (double)r->n_params;
}

/* Bytes of "layers.3" in "layers.3.wq": the line says the rest. */
static int place_length(const char *name)
{
    const char *dot = strrchr(name, '.');
    return (int)(dot ? (size_t)(dot - name) : strlen(name));
}

static const char *types_text(const tblock_quantize_row *q, char out[16])
{
    snprintf(out, 16, "%s to %s", q->from, q->type);
    return out;
}

static void kinds_text(Rows *r, const tblock_quantize_report *report)
{
    static MatrixKind kinds[MAX_KINDS];
    size_t            n = collect(kinds, report);
    rows_text(r, "%-8s %5s %-12s %12s %7s %9s  %s\n", "", "count", "type", "bytes", "bits",
              "RMS error", "largest");
    for (size_t i = 0; i < n; i++) {
        const MatrixKind *k = &kinds[i];
        char              types[16];
        rows_text(r, "%-8s %5zu %-12s %12" PRIu64 " %7.3f %8.4f%%", k->sum.part, k->n,
                  types_text(&k->sum, types), k->sum.bytes, bits(&k->sum),
                  100 * (k->sum.sum2 > 0 ? sqrt(k->sum.error2 / k->sum.sum2) : 0));
        if (k->n > 1)
            rows_text(r, "  %.4f%% %.*s", 100 * k->worst, place_length(k->worst_name),
                      k->worst_name);
        rows_text(r, "\n");
    }
}

static void tensor_rows(Rows *r, const tblock_quantize_report *report)
{
    static const Column columns[] = {
        { "name", "", -24, 0, UNIT_NONE, NULL },
        JSON_COLUMN("from"),
        { "type", "type", -12, 0, UNIT_NONE, NULL },
        JSON_COLUMN("parameters"),
        { "bytes", "bytes", 14, 0, UNIT_NONE, NULL },
        { "bits_per_weight", "bits/weight", 11, 0, UNIT_FIXED + 3, NULL },
        { "relative_rms_error", "RMS error", 10, 0, UNIT_PERCENT + 4, NULL },
        JSON_COLUMN("flushed"),
    };
    static const Table table = TABLE_OF(columns);
    rows_table(r, "tensors", &table);
    for (size_t i = 0; i < report->n_rows; i++) {
        const tblock_quantize_row *q = &report->rows[i];
        char                       types[16];
        rows_row(r, &table,
                 (Cell[]){ v_text(q->name), v_text(q->from),
                           v_shown(v_text(q->type), types_text(q, types)), v_count(q->n_params),
                           v_count(q->bytes), v_real(bits(q)), v_real(q->error),
                           v_count(q->flushed) },
                 NULL);
    }
    rows_table_end(r, "tensors");
}

static bool print_report(const QuantizeArgs *a, const tblock_quantize_report *report,
                         tblock_error *err)
{
    Rows   r          = OUTPUT_ROWS(a->json, 0);
    double per_weight = 8 * (double)report->bytes / (double)report->n_params;
    rows_open(&r, NULL, '{');
    rows_members(&r, { "parameters", v_count(report->n_params) },
                 { "bytes", v_count(report->bytes) }, { "bits_per_weight", v_real(per_weight) },
                 { "relative_rms_error", v_real(report->error) },
                 { "flushed", v_count(report->flushed) });
    (a->json || a->tensors ? tensor_rows : kinds_text)(&r, report);
    rows_close(&r, '}');
    rows_text(&r, "model: %" PRIu64 " parameters, %" PRIu64 " bytes\n"
                  "       %.3f bits per weight, relative RMS error %.4f%%\n",
              report->n_params, report->bytes, per_weight, 100 * report->error);
    return output_rows(&r, err);
}

/* ---- The command ----------------------------------------------------------------------------- */

/* What the second rounding loses, of the matrices that were quantized before. */
static void note_requantized(const tblock_quantize_report *report)
{
    tblock_quantize_row sum = { 0 };
    uint64_t            n   = 0;
    for (size_t i = 0; i < report->n_rows; i++) {
        const tblock_quantize_row *r = &report->rows[i];
        if (!r->requantized)
            continue;
        n++;
        sum.n_params   += r->n_params;
        sum.bytes      += r->bytes;
        sum.from_bytes += r->from_bytes;
        sum.error2     += r->error2;
        sum.sum2       += r->sum2;
    }
    if (n)
        cli_note("requantized %" PRIu64 " matri%s: relative RMS error %.4f%% against the weights "
                 "before; %.3f bits per weight before, %.3f now",
                 n, n == 1 ? "x" : "ces", 100 * (sum.sum2 > 0 ? sqrt(sum.error2 / sum.sum2) : 0),
                 8 * (double)sum.from_bytes / (double)sum.n_params, bits(&sum));
}

/* The matrices that the importance matrix says nothing about. */
static void note_unweighed(const tblock_quantize_report *report)
{
    const char *first = NULL;
    size_t      n = 0, all = 0;
    for (size_t i = 0; i < report->n_rows; i++) {
        const tblock_quantize_row *r = &report->rows[i];
        if (r->type[0] != 'q' || strcmp(r->from, r->type) == 0)
            continue;
        all++;
        n += !r->weighed;
        first = !first && !r->weighed ? r->name : first;
    }
    if (n)
        cli_note("imatrix: no entry for %zu of %zu matrices, such as %s: their columns count alike",
                 n, all, first);
}

/* What the table does not show. */
static void print_notes(const tblock_quantize_report *report)
{
    size_t n = 0;
    for (size_t i = 0; i < report->n_rows; i++)
        n += report->rows[i].from[0] == 'q' && report->rows[i].type[0] != 'q';
    if (n)
        cli_note("%zu matri%s already quantized; the rounding error of that "
                                   "stays in the new values", n,
                 n == 1 ? "x was" : "ces were");
    note_requantized(report);
    note_flushed(report->flushed);
}

static bool quantize_check(Frame *f, tblock_error *err)
{
    QuantizeArgs *a = f->args;
    return output_one(&a->out, a->out_argument, err)
        && (a->out || fail(err, TBLOCK_USAGE,
                           "quantize: expected --output FILE; see tblock help quantize"))
        && (!path_ends(a->out, ".gguf")
            || fail(err, TBLOCK_USAGE,
                    "--output: expected a name such as model.bin, found '%s': quantize writes a "
                    "model file of tblock (docs/format.md), not GGUF", a->out));
}

static bool calibration_read(QuantizeArgs *a, TextOut *text, tblock_error *err)
{
    if (!input_read(a->calibrate, INPUT_PROMPT, text, err)) {
        text_out_free(text);
        return false;
    }
    a->o.calibrate       = text->text ? text->text : "";
    a->o.calibrate_bytes = text->n;
    return true;
}

static bool quantize(Frame *f, tblock_error *err)
{
    QuantizeArgs          *a      = f->args;
    tblock_quantize_report report = { 0 };
    TextOut                text   = { 0 };
    a->o.keep     = a->keep.texts;
    a->o.n_keep   = a->keep.n;
    a->o.progress = progress_advance;
    if (a->calibrate && !calibration_read(a, &text, err))
        return false;
    progress_show("quantizing", 0);
    bool good = tblock_quantize(a->in, f->out[0].path, &a->o, &report, err) && frame_commit(f, err);
    progress_end();
    if (good) {
        good = print_report(a, &report, err);
        print_notes(&report);
        if (a->o.imatrix)
            note_unweighed(&report);
    }
    tblock_free(report.rows);
    text_out_free(&text);
    return good;
}

#define AT(field) offsetof(QuantizeArgs, field)
static const Option options[] = {
    OPTION_OUTPUT(AT(out), NULL, "the model file to write; replaced only when all is done"),
    { "type",    0,  "q8|q4|bf16|f16|f32", OPT_CHOICE, AT(o.type), 0, 0, OPT_REQUIRED,
      "type of the matrices" },
    OPTION_KEEP(AT(keep), "", ", such as 'layers.*.w_down=q8'; the first match counts"),
    { "calibrate", 0, "TEXT", OPT_TEXT, AT(calibrate), 0, 0, NULL,
      "a file with text like that which the model is used for: the model runs it, and q8 and q4 "
      "round finer where larger values multiply the weights" },
    { "imatrix", 0, "FILE", OPT_TEXT, AT(o.imatrix), 0, 0, NULL,
      "the same from an importance matrix of llama.cpp, .dat or .gguf, instead of a text" },
    { "requantize", 0, NULL, OPT_FLAG, AT(o.requantize), 0, 0, NULL,
      "quantize matrices that are quantized already, too, and say what this loses" },
    { "tensors", 0,  NULL, OPT_FLAG, AT(tensors), 0, 0, NULL, "print a line for each matrix" },
    OPTION_JSON(AT(json), "print one JSON object instead of the table"),
    OPTION_THREADS(AT(o.threads), ""),
    OPTION_SANDBOX(AT(sandbox)),
    { 0 },
};
const Command cmd_quantize = {
    { "quantize", OPERANDS(OPERAND_MODEL(AT(in)), OPERAND_OUT(AT(out_argument))),
      GROUPS({ "Options", options, 0 }, GROUP_GENERAL(AT(general))) },
    "write a model with smaller weights: q8, q4, or another float type",
    "Prints the relative RMS error of the weights and their size. Norms and biases stay f32; "
    "config and tokenizer are copied. Memory use does not grow with the model, and the number of "
    "threads does not change the file. docs/quantize.md compares the types.",
    EXAMPLES({ "tblock quantize model.bin -o model-q4.bin --type q4",
               "4.4 bits per weight; the embedding and the head become q8" },
             { "tblock quantize model.bin -o small.bin --type q4 --keep embed=q4",
               "the embedding too; add --keep lm_head=q4 if the model has a separate head" },
             { "tblock quantize model-q4.bin -o model-f32.bin --type f32",
               "the values of the quantized weights, as floats" },
             { "tblock quantize model-q8.bin -o model-q4.bin --type q4 --requantize",
               "worse than from the floats, and better than nothing where they are gone" }),
    .args_size = sizeof(QuantizeArgs), .run = quantize, .check = quantize_check,
    .opens = OPENS_FILES, .reads = { "calibrate", "imatrix" }, .writes = { "output" },
};
