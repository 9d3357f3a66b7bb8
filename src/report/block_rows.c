/* report/block_rows.c: what `tblock block` prints, as text and as JSON. docs/block.md lists the
 * keys. */
#include "base/file.h"
#include "report/block_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const char *time_text(double seconds, char *buf, size_t n)
{
    if (seconds < 1e-3)
        snprintf(buf, n, "%.1f us", seconds * 1e6);
    else if (seconds < 1)
        snprintf(buf, n, "%.2f ms", seconds * 1e3);
    else
        snprintf(buf, n, "%.2f s", seconds);
    return buf;
}

/* ---- What it is ------------------------------------------------------------------------------ */

static void about_text(Rows *r, const BlockPage *b)
{
    const Config *c = b->cfg;
    char          words[160], window[32] = "";
    safe_text(&r->out, b->path ? b->path : "a block");
    rows_text(r, "\n");
    if (c->window)
        snprintf(window, sizeof window, ", window %d", c->window);
    rows_pair(r, "norms", "%s", info_norms(c, words, sizeof words));
    rows_pair(r, "attention", "%d head%s of %d, %d kv head%s (%s), %s%s", c->heads,
              c->heads > 1 ? "s" : "", c->head_dim, c->kv_heads, c->kv_heads > 1 ? "s" : "",
              c->kv_heads == c->heads ? "MHA"
                  : c->kv_heads == 1  ? "MQA"
                                      : "GQA",
              b->causal ? "causal" : "not causal", window);
    rows_pair(r, "positions", "%s",
              c->positions == POS_LEARNED ? "not in the block"
                                          : info_positions(c, words, sizeof words));
    rows_pair(r, "FFN", "%s, width %d", info_ffn(c), c->d_ff);
    rows_pair(r, "weights", "%s", path_name(b->weights));
    rows_pair(r, "x, dy", "%s", path_name(b->input));
    rows_pair(r, "B, L, width", "%d sequence%s of %d token%s, d_model %d", b->n_seqs,
              b->n_seqs > 1 ? "s" : "", b->seq_len, b->seq_len > 1 ? "s" : "", c->d_model);
}

static void about_json(Rows *r, const BlockPage *b)
{
    static const char *const places[] = {
        "pre", "post", "both", "parallel", "parallel2", "output"
    };
    const Config *c = b->cfg;
    rows_put(r, "path", v_text(b->path));
    rows_object(r, "config", { "d_model", v_int(c->d_model) }, { "heads", v_int(c->heads) },
                { "kv_heads", v_int(c->kv_heads) }, { "head_dim", v_int(c->head_dim) },
                { "d_ff", v_int(c->d_ff) },
                { "norm", v_text(c->norm == NORM_LAYER ? "layer" : "rms") },
                { "norm_placement", v_text(places[c->norm_placement]) },
                { "ffn", v_text(info_ffn(c)) }, { "window", v_int(c->window) },
                { "rope", v_flag(c->positions == POS_ROPE) }, { "causal", v_flag(b->causal) },
                { "theta", v_real(c->theta) }, { "norm_eps", v_real(c->norm_eps) });
    rows_members(r, { "batch", v_int(b->n_seqs) }, { "length", v_int(b->seq_len) },
                 { "weights", v_text(b->weights) }, { "input", v_text(b->input) });
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static const char *shape_text(const BlockPageStep *s, const char *brackets, char *buf, size_t n)
{
    size_t at = (size_t)snprintf(buf, n, "%c", brackets[0]);
    for (int i = 0; i < s->rank && at < n; i++)
        at += (size_t)snprintf(buf + at, n - at, "%s%" PRId64, i ? ", " : "", s->shape[i]);
    if (at < n)
        snprintf(buf + at, n - at, "%c", brackets[1]);
    return buf;
}

static Cell rms_of(double rms, size_t n_bad)
{
    return v_shown(v_real(rms), n_bad ? "NaN/Inf" : NULL);
}

static void step_rows(Rows *r, const BlockPage *b)
{
    static const Column columns[] = {
        { NULL, "", -1, 0, UNIT_NONE, NULL },               { "step", "", 0, 0, UNIT_NONE, NULL },
        { "symbol", "", -3, 0, UNIT_NONE, NULL },           { NULL, "", -1, 0, UNIT_NONE, NULL },
        { "formula", "", -26, 0, UNIT_NONE, NULL },
                { "shape", "shape", -18, 0, UNIT_NONE, NULL },
        { "stream", "", 0, 0, UNIT_NONE, NULL },            { "rms", "RMS", 7, 0, UNIT_SIZE, NULL },
        { "largest", "", 0, 0, UNIT_NONE, NULL },
                  { "gradient_rms", "grad", 7, 0, UNIT_SIZE, NULL },
        { "flop", "FLOP", 7, 0, UNIT_SI, NULL },
                   { "not_finite", "", 0, 0, UNIT_NONE, NULL },
        { "gradient_not_finite", "", 0, 0, UNIT_NONE, NULL },
    };
    static const Table table = TABLE_OF(columns);
    char list[64], tuple[64];
    rows_heading(r, "forward, step by step, with the RMS of each value and of its gradient");
    r->indent = 2;
    rows_table(r, "steps", &table);
    for (int i = 0; i < b->n_steps; i++) {
        const BlockPageStep *s = &b->step[i];
        rows_line(r, 2);
        rows_row(r, &table,
                 (Cell[]){ v_text(s->stream ? "*" : " "), v_text(s->key), v_text(s->symbol),
                           v_text("="), v_text(s->formula),
                           v_shown(v_json(shape_text(s, "[]", list, sizeof list)),
                                   shape_text(s, "()", tuple, sizeof tuple)),
                           v_flag(s->stream), rms_of(s->rms, s->n_bad), v_real(s->largest),
                           rms_of(s->d_rms, s->d_n_bad),
                           v_shown(v_real(s->flops), s->flops > 0 ? NULL : "-"), v_count(s->n_bad),
                           v_count(s->d_n_bad) },
                 NULL);
    }
    rows_table_end(r, "steps");
    r->indent = 4;
    if (b->causal || b->cfg->window)
        rows_text(r, "    M is 0 at positions that a query sees, and minus infinity elsewhere\n");
    if (b->bad[0])
        rows_text(r, "\n  %sfirst NaN or infinity: %s%s\n", r->colour ? "\033[1m" : "", b->bad,
                  r->colour ? "\033[0m" : "");
}

static const char *bar(double v, double most, char buf[25])
{
    int n = isfinite(v) && most > 0 ? (int)(v / most * 24 + 0.5) : 0;
    memset(buf, '#', (size_t)n);
    buf[n] = '\0';
    return buf;
}

static void stream_text(Rows *r, const BlockPage *b)
{
    static const Column columns[] = { { NULL, NULL, -3, 0, UNIT_NONE, NULL },
                                      { NULL, NULL, 8, 0, UNIT_SIZE, NULL },
                                      { NULL, NULL, -24, 0, UNIT_NONE, NULL },
                                      { NULL, NULL, 8, 0, UNIT_SIZE, NULL },
                                      { NULL, NULL, -24, 0, UNIT_NONE, NULL } };
    static const Table table = TABLE_OF(columns);
    double most = 0, d_most = 0;
    char   values[25], gradients[25], ratio[24];
    rows_heading(r, "residual stream (*): RMS of the values and of their gradients");
    for (int i = 0; i < b->n_steps; i++)
        if (b->step[i].stream) {
            most   = fmax(most, b->step[i].rms);
            d_most = fmax(d_most, b->step[i].d_rms);
        }
    for (int i = 0; i < b->n_steps; i++) {
        const BlockPageStep *s = &b->step[i];
        if (s->stream)
            rows_row(r, &table,
                     (Cell[]){ v_text(s->symbol), v_real(s->rms),
                               v_text(bar(s->rms, most, values)), v_real(s->d_rms),
                               v_text(bar(s->d_rms, d_most, gradients)) },
                     NULL);
    }
    rows_text(r, "    |dx| / |dy| = %s\n", real_spell(b->ratio, UNIT_SIZE, ratio, sizeof ratio));
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static const Column tensor_columns[] = {
    { "name", "", -18, 0, UNIT_NONE, NULL },
                   { "shape", "shape", -17, 0, UNIT_NONE, NULL },
    { "parameters", "parameters", 13, 0, UNIT_COUNT, NULL },
    { NULL, "share", 6, 0, UNIT_NONE, NULL },
    { "rms", "RMS", 8, 0, UNIT_SIZE, NULL },
                   { "gradient_rms", "gradient", 8, 0, UNIT_SIZE, NULL },
};
static const Table tensor_table = TABLE_OF(tensor_columns);

/* Sums: in text below the tensors, in JSON an object. */
static void sum_row(Rows *r, const BlockPage *b, const char *key, const char *label,
                    uint64_t params)
{
    rows_put(r, key, v_count(params));
    if (r->face == FACE_TEXT)
        rows_row(r, &tensor_table,
                 (Cell[]){ v_text(label), v_none(), v_count(params),
                           v_part((double)params, (double)b->params), v_none(), v_none() },
                 NULL);
}

static void tensor_rows(Rows *r, const BlockPage *b)
{
    char shape[40];
    rows_heading(r, "parameters");
    rows_line(r, 1);
    rows_table(r, "tensors", &tensor_table);
    for (int i = 0; i < b->n_tensors; i++) {
        const BlockPageTensor *t = &b->tensor[i];
        snprintf(shape, sizeof shape, t->k ? "[%d, %d]" : "[%d]", t->rows, t->k);
        rows_line(r, 2);
        rows_row(r, &tensor_table,
                 (Cell[]){ v_text(t->name), v_json(shape), v_count(t->params),
                           v_part((double)t->params, (double)b->params), v_real(t->rms),
                           v_real(t->d_rms) },
                 NULL);
    }
    rows_table_end(r, "tensors");
    rows_text(r, "\n");
    rows_line(r, 1);
    rows_open(r, "parameters", '{');
    sum_row(r, b, "attention", "attention", b->attn_params);
    sum_row(r, b, "ffn", "FFN", b->ffn_params);
    sum_row(r, b, "norms", "norms", b->norm_params);
    sum_row(r, b, "block", "one block", b->params);
    rows_close(r, '}');
}

/* ---- Costs ----------------------------------------------------------------------------------- */

static const Column cost_columns[] = { { NULL, NULL, -18, 0, UNIT_NONE, NULL },
                                       { NULL, NULL, 10, 0, UNIT_SI, NULL },
                                       { NULL, NULL, 6, 0, UNIT_NONE, NULL },
                                       { NULL, NULL, -1, 1, UNIT_NONE, NULL } };
static const Table cost_table = TABLE_OF(cost_columns);

static void work_text(Rows *r, const BlockPage *b)
{
    char time[24];
    rows_heading(r, "work: FLOP of one pass over these B x L tokens");
    for (int g = 0; g < GROUP_COUNT; g++)
        rows_row(r, &cost_table,
                 (Cell[]){ v_text(flop_group_name((FlopGroup)g)), v_real(b->flops[g]),
                           v_part(b->flops[g], b->forward_flops), v_none() },
                 NULL);
    rows_row(r, &cost_table,
             (Cell[]){ v_text("forward"), v_real(b->forward_flops), v_none(),
                       v_text(time_text(b->forward_seconds, time, sizeof time)) },
             NULL);
    rows_row(r, &cost_table,
             (Cell[]){ v_text("backward"), v_real(b->backward_flops), v_none(),
                       v_text(time_text(b->backward_seconds, time, sizeof time)) },
             NULL);
    rows_text(r, "    (backward: each product counts twice, for its input's and its weight's\n"
                 "    gradient; scores are computed again and count 2.5 times)\n");
}

static void work_json(Rows *r, const BlockPage *b)
{
    rows_line(r, 1);
    rows_open(r, "flop", '{');
    rows_put(r, "forward", v_real(b->forward_flops));
    rows_put(r, "backward", v_real(b->backward_flops));
    for (int g = 0; g < GROUP_COUNT; g++)
        rows_put(r, flop_group_key((FlopGroup)g), v_real(b->flops[g]));
    rows_close(r, '}');
    rows_object(r, "seconds", { "forward", v_real(b->forward_seconds) },
                { "backward", v_real(b->backward_seconds) });
}

static void memory_rows(Rows *r, const BlockPage *b)
{
    static const Column columns[] = { { NULL, NULL, -18, 0, UNIT_NONE, NULL },
                                      { NULL, NULL, 10, 0, UNIT_BYTES, NULL },
                                      { NULL, NULL, -1, 1, UNIT_NONE, NULL } };
    static const Table  table = TABLE_OF(columns);
    const struct { const char *key, *label; Cell bytes; const char *what; } rows[] = {
        { "weights", "weights", v_count(b->weight_bytes), "f32" },
        { "kept", "kept", v_count(b->kept_bytes), "values that backward reads, for each block" },
        { "shared", "shared", v_count(b->shared_bytes), "work space that all blocks share" },
        { "scores_a_thread", "scores", v_count(b->tile_bytes),
          "per thread, in tiles of 64 queries" },
        { "scores_whole", "", v_real(b->score_bytes), "if all were stored, as (B, heads, L, L)" },
    };
    rows_heading(r, "memory");
    rows_line(r, 1);
    rows_open(r, "bytes", '{');
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rows_put(r, rows[i].key, rows[i].bytes);
        rows_row(r, &table, (Cell[]){ v_text(rows[i].label), rows[i].bytes, v_text(rows[i].what) },
                 NULL);
    }
    rows_close(r, '}');
    rows_put(r, "gradient_ratio", v_real(b->ratio));
}

/* ---- Stack ----------------------------------------------------------------------------------- */

static void stack_text(Rows *r, const BlockPage *b)
{
    static const Column columns[] = {
        { NULL, "", -16, 0, UNIT_NONE, NULL },         { NULL, "pre-norm", 10, 0, UNIT_SIZE, NULL },
        { NULL, "post-norm", 10, 1, UNIT_SIZE, NULL }, { NULL, "pre-norm", 10, 5, UNIT_SIZE, NULL },
        { NULL, "post-norm", 10, 1, UNIT_SIZE, NULL },
    };
    static const Table table = TABLE_OF(columns);
    char title[96], at[24];
    snprintf(title, sizeof title, "stack of %d block%s: pre-norm against post-norm", b->n_stack,
             b->n_stack > 1 ? "s" : "");
    rows_heading(r, title);
    rows_text(r, "    %-16s %22s      %22s\n", "", "RMS of the stream", "|gradient| / |dy|");
    rows_table(r, NULL, &table);
    for (int i = 0; i <= b->n_stack; i++) {
        if (b->n_stack > 24 && i > 11 && i < b->n_stack - 11) {
            if (i == 12)
                rows_text(r, "    ...\n");
            continue;
        }
        snprintf(at, sizeof at, i ? "after block %d" : "x", i);
        rows_row(r, &table,
                 (Cell[]){ v_text(at), v_real(b->stack_rms[0][i]), v_real(b->stack_rms[1][i]),
                           v_real(b->stack_ratio[0][i]), v_real(b->stack_ratio[1][i]) },
                 NULL);
    }
    rows_text(r, "    (%s; the line of x shows |dx| / |dy|)\n", b->stack_weights);
}

static void list_json(Rows *r, const char *key, const double *x, int n)
{
    rows_open(r, key, '[');
    for (int i = 0; i <= n; i++)
        rows_item(r, v_real(x[i]));
    rows_close(r, ']');
}

static void stack_json(Rows *r, const BlockPage *b)
{
    static const char *const keys[] = { "pre", "post" };
    rows_line(r, 1);
    rows_open(r, "stack", '{');
    rows_put(r, "blocks", v_int(b->n_stack));
    for (int p = 0; p < 2; p++) {
        rows_open(r, keys[p], '{');
        list_json(r, "rms", b->stack_rms[p], b->n_stack);
        list_json(r, "gradient_ratio", b->stack_ratio[p], b->n_stack);
        rows_close(r, '}');
    }
    rows_close(r, '}');
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static void gradient_rows(Rows *r, const BlockPage *b)
{
    static const Column columns[] = {
        { "name", "", -18, 0, UNIT_NONE, NULL },
                   { "places", "tested", 7, 0, UNIT_NONE, NULL },
        { "at", "", 0, 0, UNIT_NONE, NULL },                { "error", "worst", 10, 0,
            UNIT_POWER + 1, NULL },
        { "computed", "computed", 12, 2, UNIT_DIGITS + 5, NULL },
        { "expected", "expected", 12, 0, UNIT_DIGITS + 5, NULL },
        { NULL, "", -1, 1, UNIT_NONE, NULL },
    };
    static const Table table = TABLE_OF(columns);
    rows_line(r, 1);
    rows_open(r, "gradient_check", '{');
    rows_put(r, "limit", v_real(b->check_limit));
    rows_put(r, "y_difference", v_real(b->y_error));
    rows_pair(r, "  gradients", "against central differences in double precision");
    rows_pair(r, "", "y differs from y in double precision by at most %.1e", b->y_error);
    r->indent = 6;
    rows_table(r, "tensors", &table);
    for (int i = 0; i < b->n_checks; i++) {
        const BlockPageCheck *k = &b->check[i];
        bool ok = k->error <= b->check_limit;
        rows_line(r, 2);
        rows_row(r, &table,
                 (Cell[]){ v_text(k->name), v_int(k->samples), v_count(k->at), v_real(k->error),
                           v_real(k->computed), v_real(k->expected),
                           v_shown(v_flag(ok), ok ? "ok" : "WRONG") },
                 NULL);
    }
    rows_table_end(r, "tensors");
    rows_text(r, "      the limit is %.0e of the tensor's largest gradient\n", b->check_limit);
    rows_close(r, '}');
}

static void check_rows(Rows *r, const BlockPage *b)
{
    char fused[24], plain[24];
    bool finite = !b->bad[0];
    rows_heading(r, "checks");
    r->label_width = 12;
    rows_line(r, 1);
    rows_put(r, "not_finite", v_text(finite ? NULL : b->bad));
    rows_verdict(r, "  finite", finite, finite ? "all values and gradients" : "NO: ", "%s", b->bad);
    rows_object(r, "fused", { "forward_same", v_flag(b->fused_forward) },
                { "backward_same", v_flag(b->fused_backward) },
                { "seconds", v_real(b->fused_seconds) },
                { "seconds_apart", v_real(b->plain_seconds) });
    rows_text(r, "    fused       residual + norm in one pass: ");
    rows_toned(r, b->fused_forward && b->fused_backward,
               !b->fused_forward ? "NOT the same bits as in two passes"
               : !b->fused_backward ? "NOT the same bits in the backward pass"
                                    : "same bits as in two passes");
    rows_text(r, "\n");
    rows_pair(r, "", "%s fused, %s in two (forward and backward, best of 5)",
              time_text(b->fused_seconds, fused, sizeof fused),
              time_text(b->plain_seconds, plain, sizeof plain));
    if (b->n_checks)
        gradient_rows(r, b);
    else
        rows_pair(r, "  gradients", "not checked (--grad-check)");
}

bool block_report(const BlockPage *b, Face face, bool colour, char **text, Error *err)
{
    Rows r    = { .face = face, .colour = colour, .indent = 4, .margin = 2, .label_width = 11 };
    bool json = face == FACE_JSON;
    rows_open(&r, NULL, '{');
    (json ? about_json : about_text)(&r, b);
    step_rows(&r, b);
    if (!json)
        stream_text(&r, b);
    tensor_rows(&r, b);
    (json ? work_json : work_text)(&r, b);
    memory_rows(&r, b);
    if (b->n_stack)
        (json ? stack_json : stack_text)(&r, b);
    check_rows(&r, b);
    rows_close(&r, '}');
    *text = text_out_take(&r.out, err);
    return *text != NULL;
}
