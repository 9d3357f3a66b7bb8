/* report/block_json.c: what `tblock block --json` prints. docs/block.md lists the keys. */
#include "report/block_page.h"

#include <inttypes.h>
#include <string.h>

static void text_of(TextOut *o, const char *key, const char *value)
{
    text_out(o, "\"%s\": ", key);
    json_out_string(o, value, strlen(value));
}

static void number_of(TextOut *o, const char *key, double value)
{
    text_out(o, ", \"%s\": ", key);
    json_out_double(o, value);
}

static void flag_of(TextOut *o, const char *key, bool value) { text_out(o, ", \"%s\": %s", key, value ? "true" : "false"); }

static void draw_config(TextOut *o, const BlockPage *b)
{
    static const char *const places[] = { "pre", "post", "both", "parallel", "parallel2", "output" };
    const Config *c = b->cfg;
    text_out(o, "\"config\": {\"d_model\": %d, \"heads\": %d, \"kv_heads\": %d, \"head_dim\": %d, \"d_ff\": %d, \"norm\": \"%s\"", c->d_model,
             c->heads, c->kv_heads, c->head_dim, c->d_ff, c->norm == NORM_LAYER ? "layer" : "rms");
    text_out(o, ", \"norm_placement\": \"%s\", \"ffn\": \"%s\", \"window\": %d, \"rope\": %s", places[c->norm_placement], info_ffn(c),
             c->window, c->positions == POS_ROPE ? "true" : "false");
    flag_of(o, "causal", b->causal);
    number_of(o, "theta", c->theta);
    number_of(o, "norm_eps", c->norm_eps);
    text_out(o, "}, \"batch\": %d, \"length\": %d", b->n_seqs, b->seq_len);
}

static void draw_steps(TextOut *o, const BlockPage *b)
{
    text_out(o, ", \"steps\": [");
    for (int i = 0; i < b->n_steps; i++) {
        const BlockPageStep *s = &b->step[i];
        text_out(o, "%s\n  {", i ? "," : "");
        text_of(o, "step", s->key);
        text_out(o, ", ");
        text_of(o, "symbol", s->symbol);
        text_out(o, ", ");
        text_of(o, "formula", s->formula);
        text_out(o, ", \"shape\": [");
        for (int k = 0; k < s->rank; k++)
            text_out(o, "%s%" PRId64, k ? ", " : "", s->shape[k]);
        text_out(o, "]");
        flag_of(o, "stream", s->stream);
        number_of(o, "rms", s->rms);
        number_of(o, "largest", s->largest);
        number_of(o, "gradient_rms", s->d_rms);
        number_of(o, "flop", s->flops);
        text_out(o, ", \"not_finite\": %zu, \"gradient_not_finite\": %zu}", s->n_bad, s->d_n_bad);
    }
    text_out(o, "]");
}

static void draw_tensors(TextOut *o, const BlockPage *b)
{
    text_out(o, ",\n \"tensors\": [");
    for (int i = 0; i < b->n_tensors; i++) {
        const BlockPageTensor *t = &b->tensor[i];
        text_out(o, "%s\n  {", i ? "," : "");
        text_of(o, "name", t->name);
        text_out(o, ", \"shape\": [%d", t->rows);
        if (t->k)
            text_out(o, ", %d", t->k);
        text_out(o, "], \"parameters\": %" PRIu64, t->params);
        number_of(o, "rms", t->rms);
        number_of(o, "gradient_rms", t->d_rms);
        text_out(o, "}");
    }
    text_out(o, "],\n \"parameters\": {\"attention\": %" PRIu64 ", \"ffn\": %" PRIu64 ", \"norms\": %" PRIu64 ", \"block\": %" PRIu64 "}",
             b->attn_params, b->ffn_params, b->norm_params, b->params);
}

static void draw_costs(TextOut *o, const BlockPage *b)
{
    text_out(o, ",\n \"flop\": {\"forward\": ");
    json_out_double(o, b->forward_flops);
    number_of(o, "backward", b->backward_flops);
    for (int g = 0; g < GROUP_COUNT; g++)
        number_of(o, flop_group_key((FlopGroup)g), b->flops[g]);
    text_out(o, "}, \"seconds\": {\"forward\": ");
    json_out_double(o, b->forward_seconds);
    number_of(o, "backward", b->backward_seconds);
    text_out(o, "},\n \"bytes\": {\"weights\": %zu, \"kept\": %zu, \"shared\": %zu, \"scores_a_thread\": %zu", b->weight_bytes, b->kept_bytes,
             b->shared_bytes, b->tile_bytes);
    number_of(o, "scores_whole", b->score_bytes);
    text_out(o, "}");
    number_of(o, "gradient_ratio", b->ratio);
}

static void draw_stack(TextOut *o, const BlockPage *b)
{
    static const char *const keys[] = { "pre", "post" };
    text_out(o, ",\n \"stack\": {\"blocks\": %d", b->n_stack);
    for (int p = 0; p < 2; p++) {
        text_out(o, ", \"%s\": {\"rms\": [", keys[p]);
        for (int i = 0; i <= b->n_stack; i++) {
            text_out(o, "%s", i ? ", " : "");
            json_out_double(o, b->stack_rms[p][i]);
        }
        text_out(o, "], \"gradient_ratio\": [");
        for (int i = 0; i <= b->n_stack; i++) {
            text_out(o, "%s", i ? ", " : "");
            json_out_double(o, b->stack_ratio[p][i]);
        }
        text_out(o, "]}");
    }
    text_out(o, "}");
}

static void draw_checks(TextOut *o, const BlockPage *b)
{
    text_out(o, ",\n \"not_finite\": ");
    if (b->bad[0])
        json_out_string(o, b->bad, strlen(b->bad));
    else
        text_out(o, "null");
    text_out(o, ", \"fused\": {\"forward_same\": %s", b->fused_forward ? "true" : "false");
    flag_of(o, "backward_same", b->fused_backward);
    number_of(o, "seconds", b->fused_seconds);
    number_of(o, "seconds_apart", b->plain_seconds);
    text_out(o, "}");
    if (b->n_checks == 0)
        return;
    text_out(o, ",\n \"gradient_check\": {\"limit\": ");
    json_out_double(o, b->check_limit);
    number_of(o, "y_difference", b->y_error);
    text_out(o, ", \"tensors\": [");
    for (int i = 0; i < b->n_checks; i++) {
        const BlockPageCheck *k = &b->check[i];
        text_out(o, "%s\n  {", i ? "," : "");
        text_of(o, "name", k->name);
        text_out(o, ", \"places\": %d, \"at\": %zu", k->samples, k->at);
        number_of(o, "error", k->error);
        number_of(o, "computed", k->computed);
        number_of(o, "expected", k->expected);
        text_out(o, "}");
    }
    text_out(o, "]}");
}

bool block_json(const BlockPage *b, char **text, Error *err)
{
    TextOut o = { 0 };
    text_out(&o, "{\"path\": ");
    if (b->path)
        json_out_string(&o, b->path, strlen(b->path));
    else
        text_out(&o, "null");
    text_out(&o, ", ");
    draw_config(&o, b);
    text_out(&o, ", ");
    text_of(&o, "weights", b->weights);
    text_out(&o, ", ");
    text_of(&o, "input", b->input);
    draw_steps(&o, b);
    draw_tensors(&o, b);
    draw_costs(&o, b);
    if (b->n_stack)
        draw_stack(&o, b);
    draw_checks(&o, b);
    text_out(&o, "}");
    *text = text_out_take(&o, err);
    return *text != NULL;
}
