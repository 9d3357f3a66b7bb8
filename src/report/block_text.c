/* report/block_text.c: the page of `tblock block`. */
#include "report/block_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Page { TextOut out; bool colour; } Page;

static void heading(Page *p, const char *text)
{
    text_out(&p->out, "\n%s%s%s\n", p->colour ? "\033[1m" : "", text, p->colour ? "\033[0m" : "");
}

static void label(Page *p, const char *text) { text_out(&p->out, "  %-11s  ", text); }

/* Three or four digits in seven columns; what is not known is a dash. */
static const char *number(double v, char *buf, size_t n)
{
    double a = fabs(v);
    if (isnan(v))
        snprintf(buf, n, "-");
    else if (a != 0 && (a < 0.001 || a >= 1e6))
        snprintf(buf, n, "%.1e", v);
    else
        snprintf(buf, n, "%.*f", a < 0.01 ? 5 : a < 0.1 ? 4 : a < 10 ? 3 : a < 100 ? 2 : a < 1000 ? 1 : 0, v);
    return buf;
}

static const char *shape_text(int rank, const int64_t *shape, char *buf, size_t n)
{
    size_t at = (size_t)snprintf(buf, n, "(");
    for (int i = 0; i < rank && at < n; i++)
        at += (size_t)snprintf(buf + at, n - at, "%s%" PRId64, i ? ", " : "", shape[i]);
    if (at < n)
        snprintf(buf + at, n - at, ")");
    return buf;
}

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

/* ---- What it is ---- */

/* Of a path its name, so that a line stays a line. */
static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void draw_about(Page *p, const BlockPage *b)
{
    const Config *c = b->cfg;
    char          words[160];
    label(p, "norms");
    text_out(&p->out, "%s\n", info_norms(c, words, sizeof words));
    label(p, "attention");
    text_out(&p->out, "%d head%s of %d, %d kv head%s (%s), %s", c->heads, c->heads > 1 ? "s" : "", c->head_dim, c->kv_heads,
             c->kv_heads > 1 ? "s" : "", c->kv_heads == c->heads ? "MHA" : c->kv_heads == 1 ? "MQA" : "GQA", b->causal ? "causal" : "not causal");
    if (c->window)
        text_out(&p->out, ", window %d", c->window);
    text_out(&p->out, "\n");
    label(p, "positions");
    text_out(&p->out, "%s\n", c->positions == POS_LEARNED ? "not in the block" : info_positions(c, words, sizeof words));
    label(p, "FFN");
    text_out(&p->out, "%s, width %d\n", info_ffn(c), c->d_ff);
    label(p, "weights");
    form_safe(&p->out, last_part(b->weights));
    text_out(&p->out, "\n");
    label(p, "x, dy");
    form_safe(&p->out, last_part(b->input));
    text_out(&p->out, "\n");
    label(p, "B, L, width");
    text_out(&p->out, "%d sequence%s of %d token%s, d_model %d\n", b->n_seqs, b->n_seqs > 1 ? "s" : "", b->seq_len,
             b->seq_len > 1 ? "s" : "", c->d_model);
}

/* ---- Steps ---- */

static void draw_steps(Page *p, const BlockPage *b)
{
    char shape[64], rms[24], gradient[24], flops[24];
    heading(p, "forward, step by step, with the RMS of each value and of its gradient");
    text_out(&p->out, "    %-3s   %-26s %-18s %7s %7s %7s\n", "", "", "shape", "RMS", "grad", "FLOP");
    for (int i = 0; i < b->n_steps; i++) {
        const BlockPageStep *s = &b->step[i];
        shape_text(s->rank, s->shape, shape, sizeof shape);
        text_out(&p->out, "  %s %-3s = %-26s %-18s %7s %7s %7s\n", s->stream ? "*" : " ", s->symbol, s->formula, shape,
                 s->n_bad ? "NaN/Inf" : number(s->rms, rms, sizeof rms),
                 s->d_n_bad ? "NaN/Inf" : number(s->d_rms, gradient, sizeof gradient),
                 s->flops > 0 ? form_si(s->flops, flops, sizeof flops) : "-");
    }
    if (b->causal || b->cfg->window)
        text_out(&p->out, "    M is 0 at positions that a query sees, and minus infinity "
                          "elsewhere\n");
    if (b->bad[0])
        text_out(&p->out, "\n  %sfirst NaN or infinity: %s%s\n", p->colour ? "\033[1m" : "", b->bad, p->colour ? "\033[0m" : "");
}

static void draw_bar(Page *p, double v, double most, int width)
{
    int n = isfinite(v) && most > 0 ? (int)(v / most * width + 0.5) : 0;
    for (int i = 0; i < n; i++)
        text_out_bytes(&p->out, "#", 1);
    for (int i = n; i < width; i++)
        text_out_bytes(&p->out, " ", 1);
}

static void draw_stream(Page *p, const BlockPage *b)
{
    enum { WIDTH = 24 };
    double most = 0, d_most = 0;
    char   rms[24], gradient[24], ratio[24];
    heading(p, "residual stream (*): RMS of the values and of their gradients");
    for (int i = 0; i < b->n_steps; i++)
        if (b->step[i].stream) {
            most   = fmax(most, b->step[i].rms);
            d_most = fmax(d_most, b->step[i].d_rms);
        }
    for (int i = 0; i < b->n_steps; i++) {
        const BlockPageStep *s = &b->step[i];
        if (!s->stream)
            continue;
        text_out(&p->out, "    %-3s %8s ", s->symbol, number(s->rms, rms, sizeof rms));
        draw_bar(p, s->rms, most, WIDTH);
        text_out(&p->out, " %8s ", number(s->d_rms, gradient, sizeof gradient));
        draw_bar(p, s->d_rms, d_most, WIDTH);
        while (p->out.n && p->out.text[p->out.n - 1] == ' ')
            p->out.n--;
        text_out(&p->out, "\n");
    }
    text_out(&p->out, "    |dx| / |dy| = %s\n", number(b->ratio, ratio, sizeof ratio));
}

/* ---- Tensors ---- */

static void draw_tensors(Page *p, const BlockPage *b)
{
    char shape[40], params[32], share[16], rms[24], gradient[24];
    heading(p, "parameters");
    text_out(&p->out, "    %-18s %-17s %13s %6s %8s %8s\n", "", "shape", "parameters", "share", "RMS", "gradient");
    for (int i = 0; i < b->n_tensors; i++) {
        const BlockPageTensor *t = &b->tensor[i];
        if (t->k)
            snprintf(shape, sizeof shape, "[%d, %d]", t->rows, t->k);
        else
            snprintf(shape, sizeof shape, "[%d]", t->rows);
        text_out(&p->out, "    %-18s %-17s %13s %6s %8s %8s\n", t->name, shape, form_count(t->params, params, sizeof params),
                 form_percent((double)t->params, (double)b->params, share, sizeof share), number(t->rms, rms, sizeof rms),
                 number(t->d_rms, gradient, sizeof gradient));
    }
    const struct { const char *name; uint64_t n; } sums[] = { { "attention", b->attn_params }, { "FFN", b->ffn_params },
                                                              { "norms", b->norm_params }, { "one block", b->params } };
    text_out(&p->out, "\n");
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        text_out(&p->out, "    %-18s %-17s %13s %6s\n", sums[i].name, "", form_count(sums[i].n, params, sizeof params),
                 form_percent((double)sums[i].n, (double)b->params, share, sizeof share));
}

/* ---- Costs ---- */

static void draw_costs(Page *p, const BlockPage *b)
{
    char flops[24], share[16], size[24], time[24];
    heading(p, "work: FLOP of one pass over these B x L tokens");
    for (int g = 0; g < GROUP_COUNT; g++)
        text_out(&p->out, "    %-18s %10s %6s\n", flop_group_name((FlopGroup)g), form_si(b->flops[g], flops, sizeof flops),
                 form_percent(b->flops[g], b->forward_flops, share, sizeof share));
    text_out(&p->out, "    %-18s %10s %6s  %s\n", "forward", form_si(b->forward_flops, flops, sizeof flops), "",
             time_text(b->forward_seconds, time, sizeof time));
    text_out(&p->out, "    %-18s %10s %6s  %s\n", "backward", form_si(b->backward_flops, flops, sizeof flops), "",
             time_text(b->backward_seconds, time, sizeof time));
    text_out(&p->out, "    (backward: each product counts twice, for its input's and its weight's\n"
                      "    gradient; scores are computed again and count 2.5 times)\n");
    heading(p, "memory");
    text_out(&p->out, "    %-18s %10s  f32\n", "weights", form_bytes((double)b->weight_bytes, size, sizeof size));
    text_out(&p->out, "    %-18s %10s  values that backward reads, for each block\n", "kept",
             form_bytes((double)b->kept_bytes, size, sizeof size));
    text_out(&p->out, "    %-18s %10s  work space that all blocks share\n", "shared",
             form_bytes((double)b->shared_bytes, size, sizeof size));
    text_out(&p->out, "    %-18s %10s  per thread, in tiles of 64 queries\n", "scores", form_bytes((double)b->tile_bytes, size, sizeof size));
    text_out(&p->out, "    %-18s %10s  if all were stored, as (B, heads, L, L)\n", "", form_bytes(b->score_bytes, size, sizeof size));
}

/* ---- Stack ---- */

static void draw_stack(Page *p, const BlockPage *b)
{
    char title[96], at[24], a[24], c[24], d[24], e[24];
    snprintf(title, sizeof title, "stack of %d block%s: pre-norm against post-norm", b->n_stack, b->n_stack > 1 ? "s" : "");
    heading(p, title);
    text_out(&p->out, "    %-16s %22s      %22s\n", "", "RMS of the stream", "|gradient| / |dy|");
    text_out(&p->out, "    %-16s %10s  %10s      %10s  %10s\n", "", "pre-norm", "post-norm", "pre-norm", "post-norm");
    for (int i = 0; i <= b->n_stack; i++) {
        if (b->n_stack > 24 && i > 11 && i < b->n_stack - 11) {
            if (i == 12)
                text_out(&p->out, "    ...\n");
            continue;
        }
        snprintf(at, sizeof at, i ? "after block %d" : "x", i);
        text_out(&p->out, "    %-16s %10s  %10s      %10s  %10s\n", at, number(b->stack_rms[0][i], a, sizeof a),
                 number(b->stack_rms[1][i], c, sizeof c), number(b->stack_ratio[0][i], d, sizeof d),
                 number(b->stack_ratio[1][i], e, sizeof e));
    }
    text_out(&p->out, "    (%s; the line of x shows |dx| / |dy|)\n", b->stack_weights);
}

/* ---- Checks ---- */

static void draw_checks(Page *p, const BlockPage *b)
{
    char a[24], c[24];
    heading(p, "checks");
    text_out(&p->out, "    finite      ");
    form_verdict(&p->out, p->colour, !b->bad[0], b->bad[0] ? "NO: " : "all values and gradients");
    text_out(&p->out, "%s\n    fused       residual + norm in one pass: ", b->bad);
    form_verdict(&p->out, p->colour, b->fused_forward && b->fused_backward,
             !b->fused_forward ? "NOT the same bits as in two passes"
             : !b->fused_backward ? "NOT the same bits in the backward pass"
                                  : "same bits as in two passes");
    text_out(&p->out, "\n                %s fused, %s in two (forward and backward, best of 5)\n", time_text(b->fused_seconds, a, sizeof a),
             time_text(b->plain_seconds, c, sizeof c));
    if (b->n_checks == 0) {
        text_out(&p->out, "    gradients   not checked (--grad-check)\n");
        return;
    }
    text_out(&p->out, "    gradients   against central differences in double precision\n"
                      "                y differs from y in double precision by at most %.1e\n", b->y_error);
    text_out(&p->out, "      %-18s %7s %10s   %12s %12s\n", "", "tested", "worst", "computed", "expected");
    for (int i = 0; i < b->n_checks; i++) {
        const BlockPageCheck *k = &b->check[i];
        text_out(&p->out, "      %-18s %7d %10.1e   %12.5g %12.5g  ", k->name, k->samples, k->error, k->computed, k->expected);
        form_verdict(&p->out, p->colour, k->error <= b->check_limit, k->error <= b->check_limit ? "ok" : "WRONG");
        text_out(&p->out, "\n");
    }
    text_out(&p->out, "      the limit is %.0e of the tensor's largest gradient\n", b->check_limit);
}

bool block_text(const BlockPage *b, bool colour, char **text, Error *err)
{
    Page p = { .colour = colour };
    form_safe(&p.out, b->path ? b->path : "a block");
    text_out(&p.out, "\n");
    draw_about(&p, b);
    draw_steps(&p, b);
    draw_stream(&p, b);
    draw_tensors(&p, b);
    draw_costs(&p, b);
    if (b->n_stack)
        draw_stack(&p, b);
    draw_checks(&p, b);
    *text = text_out_take(&p.out, err);
    return *text != NULL;
}
