/* report/forms.c: what a model is, in words. */
#include "report/info.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/config_keys.h"

WeightType info_type(int i)
{
    for (int t = 0; t < WT_COUNT; t++) {
        size_t n = panel_bytes((WeightType)t, SUPERBLOCK);
        int    smaller = 0;
        for (int u = 0; u < WT_COUNT; u++) {
            size_t other = panel_bytes((WeightType)u, SUPERBLOCK);
            smaller += other < n || (other == n && u < t);
        }
        if (smaller == i)
            return (WeightType)t;
    }
    return WT_COUNT;
}

const char *info_type_name(WeightType t)
{
#define NAME(ID, ...) #ID,
    static const char *const names[WT_COUNT] = { WEIGHT_TYPES(NAME) };
    return names[t];
}

double info_bits(const Count *n)
{
    return n->params ? 8.0 * (double)n->bytes / (double)n->params : 0;
}

const char *form_types(unsigned types, char *buf, size_t n)
{
    buf[0] = '\0';
    for (int i = 0; i < WT_COUNT; i++)
        if (types >> info_type(i) & 1) {
            size_t at = strlen(buf);
            snprintf(buf + at, n - at, "%s%s", at ? "," : "", info_type_name(info_type(i)));
        }
    return buf;
}

const char *form_shape(const CountPart *p, char *buf, size_t n)
{
    if (p->stack > 1)
        snprintf(buf, n, "[%d, %d, %d]", p->stack, p->rows, p->k);
    else if (p->k)
        snprintf(buf, n, "[%d, %d]", p->rows, p->k);
    else
        snprintf(buf, n, "[%d]", p->rows);
    return buf;
}

/* ---- A block in words ------------------------------------------------------------------------ */

typedef struct Phrase { char *buf; size_t n, at; } Phrase;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void say(Phrase *w, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    int n = vsnprintf(w->buf + w->at, w->n - w->at, fmt, list);
    va_end(list);
    w->at = n < 0 ? w->at : w->at + (size_t)n < w->n ? w->at + (size_t)n : w->n - 1;
}

const char *info_norms(const Config *c, char *buf, size_t n)
{
    static const char *const places[] = { "pre-norm", "post-norm", "norms before and after",
                                          "parallel, one norm", "parallel, two norms",
                                          "norms on the outputs" };
    Phrase w = { buf, n, 0 };
    say(&w, "%s (%s%s, eps %.10g)", places[c->norm_placement],
        c->norm == NORM_LAYER ? "layer" : "rms", c->norm_bias ? " with bias" : "", c->norm_eps);
    return buf;
}

const char *info_ffn(const Config *c)
{
    return ffn_words[c->ffn];
}

const char *info_windows(const Config *c, char *buf, size_t n)
{
    Phrase w        = { buf, n, 0 };
    int    windowed = count_windowed(c);
    buf[0]         = '\0';
    if (c->bidirectional)
        say(&w, ", in both directions");
    if (windowed)
        say(&w, c->window_chunked  ? ", chunks of %d"
            : c->bidirectional ? ", window %d on either side"
                               : ", window %d", c->window);
    if (windowed && windowed < c->n_layers)
        say(&w, " in %d of %d layers", windowed, c->n_layers);
    return buf;
}

const char *info_positions(const Config *c, char *buf, size_t n)
{
    static const char *const names[] = { "", "linear", "llama3", "yarn",
                                         "a factor for each frequency", "longrope", "dynamic" };
    const Rope *r = &c->rope;
    Phrase      w = { buf, n, 0 };
    if (c->positions == POS_LEARNED) {
        say(&w, "learned");
        return buf;
    }
    say(&w, "rope, theta %.10g", c->theta);
    if (r->type != ROPE_DEFAULT)
        say(&w, ", %s", names[r->type]);
    if (r->type != ROPE_DEFAULT && r->type != ROPE_FACTORS)
        say(&w, " factor %.10g", r->factor);
    if (r->type == ROPE_LLAMA3)
        say(&w, " (%.10g to %.10g)", r->low_freq_factor, r->high_freq_factor);
    if (r->type == ROPE_LLAMA3 || r->type == ROPE_YARN || config_rope_length(c))
        say(&w, " from %.10g", r->original_n_ctx);
    if (c->theta_window != 0)
        say(&w, "; %.10g with a window", c->theta_window);
    if (c->rotary_dim != c->head_dim)
        say(&w, ", %d of %d dims", c->rotary_dim, c->head_dim);
    if (count_rotated(c) < c->n_layers)
        say(&w, ", in %d of %d layers", count_rotated(c), c->n_layers);
    return buf;
}

const char *info_experts(const Config *c, char *buf, size_t n)
{
    Phrase w = { buf, n, 0 };
    int    moe = count_moe(c);
    buf[0] = '\0';
    if (moe == 0)
        return buf;
    say(&w, "%d of %d per token, of width %d", c->experts_used, c->n_experts, c->expert_d_ff);
    if (c->shared_d_ff)
        say(&w, ", and a shared one of width %d", c->shared_d_ff);
    if (c->router_score == ROUTER_SIGMOID)
        say(&w, ", by sigmoids");
    if (c->expert_input_scaled)
        say(&w, " that multiply the input");
    if (c->expert_groups)
        say(&w, ", from %d of %d groups", c->groups_used, c->expert_groups);
    if (moe < c->n_layers)
        say(&w, ", in %d of %d layers", moe, c->n_layers);
    return buf;
}

const char *info_numbers(const Config *c, char *buf, size_t n)
{
    const struct { const char *name; double value, none; } number[] = {
        { "embedding x", c->embed_scale, 1 },    { "residual x", c->residual_scale, 1 },
            { "scores x", c->attn_scale, 0 }, { "q by position", c->query_scale, 0 },
        { "logits x", c->logit_scale, 1 },       { "score cap", c->attn_softcap, 0 },
               { "logit cap", c->logit_softcap, 0 },
        { "gate cut at", c->gate_limit, 0 },        { "q, k, v cut at", c->qkv_clip, 0 },
             { "experts x", c->expert_scale, 1 },
    };
    Phrase w = { buf, n, 0 };
    buf[0]  = '\0';
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (number[i].value != number[i].none)
            say(&w, "%s%s %.6g", w.at ? ", " : "", number[i].name, number[i].value);
    return buf;
}

bool info_blocks_differ(const Config *c)
{
    int windowed = count_windowed(c), moe = count_moe(c), rotated = count_rotated(c),
        state    = count_state(c);
    return (windowed > 0 && windowed < c->n_layers) || (moe > 0 && moe < c->n_layers)
        || (rotated > 0 && rotated < c->n_layers) || (state > 0 && state < c->n_layers);
}

bool info_sizes_differ(const Info *info)
{
    return info->count->layer_bytes * (uint64_t)info->cfg->n_layers != info->count->blocks_bytes;
}

bool info_has_op(const Info *info, FlopOp op) { return info->prefill.op[op].full > 0; }

const char *info_blocks(const Info *info, char buf[32])
{
    snprintf(buf, 32, "%d block%s", info->cfg->n_layers, info->cfg->n_layers > 1 ? "s" : "");
    return buf;
}

const char *info_layout(const Count *n)
{
    int panels = 0;
    for (int i = 0; i < n->n_parts; i++)
        panels += n->part[i].n_panels;
    return n->n_row_major == 0 ? "rows16" : panels == 0 ? "rows" : "mixed";
}

const char *info_seen(const Info *info)
{
    return info->cfg->window && info->cfg->window < info->load.seq ? "window"
        : info->cfg->bidirectional                                 ? "both"
                                                                   : "causal";
}

const SourceForm *info_source_form(const Json *entry)
{
    static const SourceForm forms[] = {
        { "synth", "synth, ", NULL, "" },
        { "trained", "trained, ", "text_sha256", " text" },
        { "quantized", "quantized to ", "from_sha256", " from" },
        { "lora", "merged adapter ", "sha256", "" },
        { "file", "", "sha256", "" },
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (json_get(entry, forms[i].key))
            return &forms[i];
    return NULL;
}
