/* report/diagram.c: one block as a data-flow drawing with the shapes of weights and activations.
 * Compare block() of runtime/forward.c. */
#include "report/page.h"

#include <stdarg.h>
#include <stdio.h>

enum { MIDDLE = 250, LANE = 492, WIDTH = 520, HEIGHT = 1030 };

static void text(TextOut *o, int x, int y, const char *cls, const char *words)
{
    text_out(o, "<text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>", x, y, cls, words);
}

/* A box around (x, top), with a title and, in a box of 40 and more, a line under it. */
static void box(TextOut *o, const char *colour, int x, int top, int w, int h, const char *title,
                const char *sub)
{
    text_out(o, "<rect class=\"box %s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"7\"/>",
             colour, x - w / 2, top, w, h);
    text(o, x, top + (sub ? h / 2 - 4 : h / 2 + 5), "t m", title);
    if (sub)
        text(o, x, top + h / 2 + 14, "s m", sub);
}

static void wire(TextOut *o, const char *path)
{
    text_out(o, "<path class=\"wire\" d=\"%s\" marker-end=\"url(#tip)\"/>", path);
}

static void down(TextOut *o, int x, int from, int to)
{
    char path[64];
    snprintf(path, sizeof path, "M%d %dV%d", x, from, to - 1);
    wire(o, path);
}

static void joint(TextOut *o, int x, int y, const char *sign)
{
    text_out(o, "<circle class=\"box other\" cx=\"%d\" cy=\"%d\" r=\"13\"/>", x, y);
    text(o, x, y + 5, "t m", sign);
}

/* The residual stream beside a half of the block: from a point above it to the sum below it. */
static void residual(TextOut *o, int from, int to)
{
    text_out(o, "<path class=\"skip\" d=\"M%d %dH%dV%dH%d\" marker-end=\"url(#tip)\"/>", MIDDLE,
             from, LANE, to, MIDDLE + 15);
}

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static const char *words(char buf[96], const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    vsnprintf(buf, 96, fmt, list);
    va_end(list);
    return buf;
}

static const char *norm_name(const Config *c)
{
    return c->norm == NORM_LAYER ? "LayerNorm" : "RMSNorm";
}

static void draw_projections(TextOut *o, const Config *c)
{
    char a[96];
    box(o, "other", MIDDLE, 64, 150, 34, norm_name(c), NULL);
    wire(o, "M250 98V110H105V121");
    wire(o, "M250 98V121");
    wire(o, "M250 98V110H395V121");
    box(o, "proj", 105, 122, 128, 48, "W<tspan dy=\"4\" font-size=\"10\">Q</tspan>",
        words(a, "[%d, %d]", c->heads * c->head_dim, c->d_model));
    box(o, "proj", 250, 122, 128, 48, "W<tspan dy=\"4\" font-size=\"10\">K</tspan>",
        words(a, "[%d, %d]", c->kv_heads * c->head_dim, c->d_model));
    box(o, "proj", 395, 122, 128, 48, "W<tspan dy=\"4\" font-size=\"10\">V</tspan>",
        words(a, "[%d, %d]", c->kv_heads * c->head_dim, c->d_model));
    text(o, 113, 191, "s", words(a, "n &#215; %d", c->heads * c->head_dim));
    text(o, 258, 191, "s", words(a, "n &#215; %d", c->kv_heads * c->head_dim));
    text(o, 403, 191, "s", words(a, "n &#215; %d", c->kv_heads * c->head_dim));
    down(o, 105, 170, 204);
    down(o, 250, 170, 204);
    box(o, "other", 105, 204, 96, 30, "RoPE", NULL);
    box(o, "other", 250, 204, 96, 30, "RoPE", NULL);
    down(o, 250, 234, 262);
    down(o, 395, 170, 262);
}

static void draw_attention(TextOut *o, const Info *info)
{
    const Config *c = info->cfg;
    char a[96], b[96], number[32];
    text_out(
        o, "<rect class=\"box embed\" x=\"186\" y=\"262\" width=\"273\" height=\"48\" rx=\"7\"/>");
    text(o, 322, 282, "t m", words(a, "KV cache, %s", info->kv_type));
    text(o, 322, 300, "s m",
         words(a, "t &#215; 2 &#215; %d &#215; %d: %s bytes per token", c->kv_heads, c->head_dim,
               form_count(info->kv.layer_bytes, number, sizeof number)));
    down(o, 105, 234, 338);
    down(o, 250, 310, 338);
    box(o, "scores", 177, 338, 272, 48,
        words(a,
              "Q K<tspan dy=\"-5\" font-size=\"10\">T</tspan><tspan dy=\"5\"> / &#8730;%d</tspan>",
              c->head_dim),
        words(b, "%d heads &#215; n &#215; t", c->heads));
    down(o, 177, 386, 410);
    info_windows(c, b, sizeof b);
    words(a, "%s%s", c->bidirectional ? "" : "causal", b + (c->bidirectional ? 2 : 0));
    box(o, "other", 177, 410, 190, 44, "softmax", a);
    down(o, 177, 454, 478);
    down(o, 395, 310, 478);
    box(o, "scores", 250, 478, 418, 46, "A V",
        words(a, "n &#215; %d heads &#215; %d", c->heads, c->head_dim));
    down(o, 250, 524, 548);
    box(o, "proj", 250, 548, 150, 48, "W<tspan dy=\"4\" font-size=\"10\">O</tspan>",
        words(a, "[%d, %d]", c->d_model, c->heads * c->head_dim));
    down(o, 250, 596, 611);
    joint(o, MIDDLE, 625, "+");
}

static void draw_ffn(TextOut *o, const Config *c)
{
    char a[96];
    down(o, MIDDLE, 638, 664);
    box(o, "other", MIDDLE, 664, 150, 34, norm_name(c), NULL);
    wire(o, "M250 698V710H150V721");
    wire(o, "M250 698V710H350V721");
    box(o, "ffn", 150, 722, 150, 48, "W<tspan dy=\"4\" font-size=\"10\">gate</tspan>",
        words(a, "[%d, %d]", c->d_ff, c->d_model));
    box(o, "ffn", 350, 722, 150, 48, "W<tspan dy=\"4\" font-size=\"10\">up</tspan>",
        words(a, "[%d, %d]", c->d_ff, c->d_model));
    down(o, 150, 770, 796);
    box(o, "ffn", 150, 796, 96, 30, ffn_activations[c->ffn].name, NULL);
    wire(o, "M150 826V848H235");
    wire(o, "M350 770V848H265");
    joint(o, MIDDLE, 848, "&#215;");
    text(o, 158, 787, "s", words(a, "n &#215; %d", c->d_ff));
    text(o, 358, 787, "s", words(a, "n &#215; %d", c->d_ff));
    down(o, MIDDLE, 861, 884);
    box(o, "ffn", MIDDLE, 884, 150, 48, "W<tspan dy=\"4\" font-size=\"10\">down</tspan>",
        words(a, "[%d, %d]", c->d_model, c->d_ff));
    down(o, MIDDLE, 932, 951);
    joint(o, MIDDLE, 965, "+");
    down(o, MIDDLE, 978, 998);
}

bool diagram_shows(const Config *c)
{
    return c->norm_placement == PLACE_PRE && c->positions == POS_ROPE && config_gated(c)
        && c->n_experts == 0 && c->qk_norm == QK_NONE && c->attn_scale == 0 && c->attn_softcap == 0
        && c->qkv_clip == 0 && c->query_scale == 0 && c->gate_limit == 0 && !c->attn_sinks
        && c->kv_lora == 0 && !c->attn_gate && !config_has_state(c);
}

/* What is added to x: the sublayer's result, normed after it if the family does so, times
 * residual_scale. */
static void draw_sum(TextOut *o, const Config *c, const char *what)
{
    bool behind = c->norm_placement == PLACE_BOTH || c->norm_placement == PLACE_OUTPUT;
    text_out(o, "x = x + %s%s%s", behind ? norm_name(c) : "", behind ? "(" : "", what);
    text_out(o, "%s", behind ? ")" : "");
    if (c->residual_scale != 1)
        text_out(o, " &#215; %.6g", c->residual_scale);
    text_out(o, "\n");
}

static void draw_ffn_formulas(TextOut *o, const Config *c)
{
    if (c->gate_limit != 0)
        text_out(o,
                 "SiLU: g &#963;(%.6g g) with g at most %.6g; W<sub>up</sub> m cut at &#8723;%.6g, "
                 "plus 1\n",
                 c->gate_alpha, c->gate_limit, c->gate_limit);
    if (count_moe(c)) {
        const char *read = c->expert_input_scaled ? "p<sub>e</sub> m" : "m";
        char        sum[64];
        text_out(o, "p = %s(router m), the %d largest of %d%s%s",
                 c->router_score == ROUTER_SIGMOID ? "&#963;" : "softmax", c->experts_used,
                 c->n_experts, c->choice_bias ? " with the choice's bias" : "",
                 c->renormalize ? ", to sum 1" : "");
        if (c->expert_groups > 0)
            text_out(o, ", of the %d best of %d groups", c->groups_used, c->expert_groups);
        if (c->expert_scale != 1)
            text_out(o, ", &#215; %.6g", c->expert_scale);
        text_out(o, "\n");
        text_out(o,
                 "f<sub>e</sub> = W<sub>down</sub> (%s(W<sub>gate</sub> %s) &#215; W<sub>up</sub> "
                 "%s), of expert e\n",
                 ffn_activations[c->ffn].name, read, read);
        snprintf(sum, sizeof sum, "&#931; %sf<sub>e</sub>%s",
                 c->expert_input_scaled ? "" : "p<sub>e</sub> ",
                 c->shared_d_ff ? " + the shared expert" : "");
        draw_sum(o, c, sum);
        return;
    }
    if (config_gated(c))
        text_out(o, "h = %s(W<sub>gate</sub> m) &#215; W<sub>up</sub> m\n",
                 ffn_activations[c->ffn].name);
    else
        text_out(o, "h = %s(W<sub>up</sub> m)\n", ffn_activations[c->ffn].name);
    draw_sum(o, c, "W<sub>down</sub> h");
}

/* r: the values that are rotated; c: the latent vector. */
static void draw_latent_formulas(TextOut *o, const Config *c)
{
    text_out(o, "q<sub>r</sub>, q<sub>n</sub> = W<sub>Q</sub> %s\n",
             c->q_lora > 0 ? "RMSNorm W<sub>QA</sub> n" : "n");
    text_out(o, "k<sub>r</sub>, c = W<sub>K</sub> n, c = RMSNorm c\n");
    text_out(o, "q, k = (q<sub>r</sub>, W<sub>UK</sub> q<sub>n</sub>), (k<sub>r</sub>, c)\n");
}

void draw_block_formulas(TextOut *o, const Config *c)
{
    bool two = c->norm_placement == PLACE_PARALLEL2,
         parallel = two || c->norm_placement == PLACE_PARALLEL;
    bool before = c->norm_placement != PLACE_OUTPUT;
    text_out(o, "<pre class=\"formulas\">n = %s%s\n", before ? norm_name(c) : "x",
             before ? " x" : "");
    if (parallel)
        text_out(o, "m = %s%s\n", two ? norm_name(c) : "n", two ? " x" : "");
    if (c->kv_lora > 0)
        draw_latent_formulas(o, c);
    else
        text_out(o, "q, k, v = W<sub>Q</sub> n, W<sub>K</sub> n, W<sub>V</sub> n\n");
    if (c->qk_norm && !c->qk_norm_after_rope)
        text_out(o, "q, k = %s q, %s k\n", norm_name(c), norm_name(c));
    if (c->qkv_clip != 0)
        text_out(o, "q, k, v cut at &#8723;%.6g\n", c->qkv_clip);
    if (c->positions == POS_ROPE)
        text_out(o, "q, k = RoPE q, RoPE k\n");
    if (c->qk_norm_after_rope)
        text_out(o, "q, k = %s q, %s k\n", norm_name(c), norm_name(c));
    if (c->query_scale != 0)
        text_out(o, "q = q &#215; (1 + %.6g ln(1 + &#8970;%s / %d&#8971;))%s\n", c->query_scale,
                 c->query_scale_unrotated ? "(position + 1)" : "position", c->query_scale_length,
                 c->query_scale_unrotated ? ", in blocks that do not rotate" : "");
    draw_sum(o, c,
             c->attn_gate   ? "W<sub>O</sub> (attention(q, k, v) sigmoid(W<sub>gate</sub> n))"
                 : c->attn_sinks ? "W<sub>O</sub> attention(q, k, v) with sinks"
                 : c->kv_lora ? "W<sub>O</sub> W<sub>UV</sub> attention(q, k, c)"
                              : "W<sub>O</sub> attention(q, k, v)");
    if (c->delta_heads > 0) {
        text_out(o, "or, in blocks with a state: q, k, v = SiLU(conv(W<sub>QKV</sub> n)), "
                    "z, b, a = W<sub>Z</sub> n, W<sub>B</sub> n, W<sub>A</sub> n\n"
                    "S = exp(rate softplus(a + dt)) S, then S = S + k "
                    "(sigmoid(b) (v - S<sup>T</sup> k))<sup>T</sup>\n");
        draw_sum(o, c, "W<sub>out</sub> (SiLU(z) RMSNorm(S<sup>T</sup> q))");
    } else if (config_has_state(c)) {
        text_out(o, "or, in blocks with a state: b, c, u = W<sub>B</sub> n, W<sub>C</sub> n, "
                    "W<sub>X</sub> n\n");
        draw_sum(o, c, "W<sub>out</sub> (c conv(b u))");
    }
    if (!parallel)
        text_out(o, "m = %s%s\n", before ? norm_name(c) : "x", before ? " x" : "");
    draw_ffn_formulas(o, c);
    text_out(o, "</pre>\n");
}

void draw_block_diagram(TextOut *o, const Info *info)
{
    const Config *c = info->cfg;
    char a[96];
    text_out(o,
             "<svg class=\"flow-svg\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Data flow of "
             "one block\">",
             WIDTH, HEIGHT);
    text_out(o,
             "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
             "markerHeight=\"7\" orient=\"auto\">"
             "<path class=\"tip\" d=\"M0 0.5L8 4L0 7.5Z\"/></marker></defs>");
    text_out(o, "<rect class=\"zone\" x=\"16\" y=\"52\" width=\"458\" height=\"554\" rx=\"12\"/>"
                "<rect class=\"zone\" x=\"16\" y=\"652\" width=\"458\" height=\"290\" rx=\"12\"/>");
    text(o, 30, 74, "s", "attention");
    text(o, 30, 674, "s", "FFN");
    box(o, "embed", MIDDLE, 6, 170, 28, words(a, "x: n &#215; %d", c->d_model), NULL);
    down(o, MIDDLE, 34, 64);
    residual(o, 44, 625);
    draw_projections(o, c);
    draw_attention(o, info);
    residual(o, 645, 965);
    draw_ffn(o, c);
    box(o, "embed", MIDDLE, 998, 170, 28, words(a, "x: n &#215; %d", c->d_model), NULL);
    text_out(o, "</svg>\n");
}
