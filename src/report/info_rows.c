/* report/info_rows.c: the rows of `tblock info`. Text and JSON have all of them in this order; the
 * page (info_html.c) puts them between its drawings. JSON keys (docs/info.md) are stable across
 * versions; new ones may be added. */
#include "report/page.h"
#include "tblock_tools.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Config ---------------------------------------------------------------------------------- */

/* A row that only some models have. */
static void pair_if_any(Rows *r, const char *label, const char *words)
{
    if (*words)
        rows_pair(r, label, "%s", words);
}

void info_config(Rows *r, const Config *c)
{
    static const char *const normed[] = { "", ", q and k normalised", ", q and k normalised whole",
                                          ", q and k normalised", ", q and k normalised" };
    char words[128];
    int  n;
    rows_heading(r, "config");
    rows_pair(r, "family", "%s", c->family);
    rows_pair(r, "blocks", "%d, %s", c->n_layers, info_norms(c, words, sizeof words));
    rows_pair(r, "width", "d_model %d, d_ff %d (%s)", c->d_model, c->d_ff, info_ffn(c));
    pair_if_any(r, "experts", info_experts(c, words, sizeof words));
    rows_pair(r, "attention", "%d heads of %d, %d kv heads%s%s", c->heads, c->head_dim, c->kv_heads,
              info_windows(c, words, sizeof words), normed[c->qk_norm]);
    if (c->kv_lora > 0)
        rows_pair(r, "", "latent: queries of %d + %d, values of %d, a cache of %d + %d for all",
                  c->rotary_dim, c->nope_dim, c->v_dim, c->rotary_dim, c->kv_lora);
    if (c->attn_gate)
        rows_pair(r, "", "what it gives is times a sigmoid of another product");
    if (c->delta_heads > 0)
        rows_pair(r, "",
                  "in %d of %d layers a gated delta rule in its place: %d heads of [%d, %d], keys "
                  "of %d heads, behind a convolution of %d tokens", count_state(c), c->n_layers,
                  c->delta_heads, c->delta_key_dim, c->delta_value_dim, c->delta_key_heads,
                  c->conv_taps);
    else if (config_has_state(c))
        rows_pair(r, "", "in %d of %d layers a convolution of %d tokens in its place%s",
                  count_state(c), c->n_layers, c->conv_taps, c->conv_bias ? ", with biases" : "");
    pair_if_any(r, "positions", info_positions(c, words, sizeof words));
    pair_if_any(r, "numbers", info_numbers(c, words, sizeof words));
    rows_pair(r, "biases", "%s%s%s%s", c->qkv_bias || c->out_bias || c->ffn_bias ? "on" : "none",
              c->qkv_bias ? " q k v" : "", c->out_bias ? " wo" : "", c->ffn_bias ? " ffn" : "");
    rows_pair(r, "vocabulary", "%d, %s", c->vocab_size,
              c->tied_embeddings ? "the head is the embedding (tied)"
              : c->headless      ? "no head: states and no logits"
                                 : "separate head (untied)");
    rows_pair(r, "context", "%d", c->n_ctx);
    n = c->bos < 0 ? snprintf(words, sizeof words, "none;")
                   : snprintf(words, sizeof words, "%d;", c->bos);
    for (int i = 0; i < c->n_eos && n < (int)sizeof words; i++)
        n += snprintf(words + n, sizeof words - (size_t)n, " %d", c->eos[i]);
    rows_pair(r, "bos, eos", "%s%s", words, c->n_eos ? "" : " none");
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static const Column param_columns[] = {
    { NULL, "", -1, 0, UNIT_NONE, "" },
    { NULL, "shape", -18, 0, UNIT_NONE, "l dim" },
    { NULL, "parameters", 16, 0, UNIT_COUNT, "" },
    { NULL, "share", 6, 0, UNIT_NONE, "" },
    { NULL, "bytes", 8, 0, UNIT_BYTES, "" },
    { NULL, "type", -1, 1, UNIT_NONE, "l dim" },
};

/* So that all tables of parameters agree. */
static Table param_table(const Count *n)
{
    size_t width = strlen("final_norm ");
    for (int i = 0; i < n->n_parts; i++)
        width = strlen(n->part[i].name) > width ? strlen(n->part[i].name) : width;
    Table t = TABLE_OF(param_columns);
    t.first_width = -(int)width;
    return t;
}

static void part_row(Rows *r, const Table *t, const CountPart *p, uint64_t whole)
{
    char shape[40], types[64];
    rows_row(r, t,
             (Cell[]){ v_text(p->name), v_text(form_shape(p, shape, sizeof shape)),
                       v_count(p->one_params), v_part((double)p->one_params, (double)whole),
                       v_count(p->one_bytes), v_text(form_types(p->types, types, sizeof types)) },
             &(RowStyle){ "", part_colour(p) });
}

static void sum_row(Rows *r, const Table *t, const char *name, uint64_t params, uint64_t bytes,
                    uint64_t whole, RowStyle style)
{
    rows_row(r, t,
             (Cell[]){ v_text(name), v_none(), v_count(params),
                       v_part((double)params, (double)whole), v_count(bytes), v_none() },
             &style);
}

void info_block_params(Rows *r, const Info *info)
{
    const Count *n = info->count;
    Table        t = param_table(n);
    rows_heading(r, "one block");
    rows_table(r, NULL, &t);
    for (int i = 0; i < n->n_parts; i++)
        if (n->part[i].in_layer)
            part_row(r, &t, &n->part[i], n->part[i].in_first ? n->layer_params : 0);
    rows_text(r, "\n");
    sum_row(r, &t, "attention", n->attn_params, n->attn_bytes, n->layer_params,
            (RowStyle){ "sum first", "proj" });
    sum_row(r, &t, "FFN", n->ffn_params, n->ffn_bytes, n->layer_params, (RowStyle){ "sum", "ffn" });
    sum_row(r, &t, "norms", n->norm_params, n->norm_bytes, n->layer_params,
            (RowStyle){ "sum", "other" });
    sum_row(r, &t, "one block", n->layer_params, n->layer_bytes, n->layer_params,
            (RowStyle){ "total", NULL });
    rows_table_end(r, NULL);
    if (info_sizes_differ(info))
        rows_text(r, "  (the first block; the blocks differ)\n");
}

void info_model_params(Rows *r, const Info *info)
{
    const Count *n = info->count;
    Table        t = param_table(n);
    char         blocks[32];
    rows_heading(r, "model");
    rows_table(r, NULL, &t);
    for (int i = 0; i < n->n_parts; i++) {
        if (n->part[i].role == ROLE_FINAL_NORM && !n->part[i].bias)
            sum_row(r, &t, info_blocks(info, blocks), n->blocks_params, n->blocks_bytes, n->params,
                    (RowStyle){ "", "ffn" });
        if (!n->part[i].in_layer)
            part_row(r, &t, &n->part[i], n->params);
    }
    if (info->cfg->tied_embeddings)
        rows_text(r, "  %-*s the embedding (tied)\n", -t.first_width, "lm_head");
    if (n->mtp_params)
        sum_row(r, &t, "mtp layer", n->mtp_params, n->mtp_bytes, n->params,
                (RowStyle){ "", "ffn" });
    sum_row(r, &t, "total", n->params, n->bytes, n->params, (RowStyle){ "total first", NULL });
    if (n->active_params != n->params)
        rows_row(r, &t,
                 (Cell[]){ v_text("active"), v_none(), v_count(n->active_params),
                           v_part((double)n->active_params, (double)n->params),
                           v_text(" used per token"), v_none() },
                 &(RowStyle){ "", NULL });
    rows_table_end(r, NULL);
}

static void part_json(Rows *r, const CountPart *p)
{
    char shape[40];
    rows_open(r, NULL, '{');
    rows_members(r, { "name", v_text(p->name) },
                 { "shape", v_json(form_shape(p, shape, sizeof shape)) },
                 { "tensors", v_int(p->n_tensors) }, { "parameters", v_count(p->params) },
                 { "parameters_each", v_count(p->one_params) }, { "bytes", v_count(p->bytes) });
    rows_open(r, "dtypes", '[');
    for (int i = 0; i < WT_COUNT; i++)
        if (p->types >> info_type(i) & 1)
            rows_item(r, v_text(info_type_name(info_type(i))));
    rows_close(r, ']');
    rows_close(r, '}');
}

static void parameters_json(Rows *r, const Count *n)
{
    rows_object(
        r, "parameters", { "total", v_count(n->params) }, { "embedding", v_count(n->embed_params) },
        { "block", v_count(n->layer_params) }, { "block_attention", v_count(n->attn_params) },
        { "block_ffn", v_count(n->ffn_params) }, { "block_norms", v_count(n->norm_params) },
        { "blocks", v_count(n->blocks_params) }, { "final_norm", v_count(n->final_norm_params) },
        { "head", v_count(n->head_params) }, { "active", v_count(n->active_params) });
    if (n->mtp_params)
        rows_put(r, "mtp_parameters", v_count(n->mtp_params));
    rows_open(r, "parts", '[');
    for (int i = 0; i < n->n_parts; i++)
        part_json(r, &n->part[i]);
    rows_close(r, ']');
}

/* Of a file: bytes by type; of a config: bytes in each weight type. */
static void bytes_json(Rows *r, const Info *info)
{
    const Count *n = info->count;
    rows_open(r, "weight_bytes", '{');
    for (int i = 0; info->contents && i < WT_COUNT; i++)
        if (n->bytes_of[info_type(i)])
            rows_put(r, info_type_name(info_type(i)), v_count(n->bytes_of[info_type(i)]));
    for (int t = 0; !info->contents && t < WT_MADE; t++)
        rows_put(r, weight_type_name((WeightType)t), v_count(info->type_bytes[t]));
    rows_close(r, '}');
    if (!info->contents)
        rows_put(r, "weight_type", v_text(weight_type_name(info->type)));
    rows_put(r, "bits_per_weight", v_real(info_bits(n)));
    rows_object(r, "kv_bytes_per_token", { "f32", v_count(n->kv_bytes_f32) },
                { "f16", v_count(n->kv_bytes_f16) }, { "q8", v_count(n->kv_bytes_q8) });
}

/* ---- FLOP ------------------------------------------------------------------------------------ */

/* Prefill and decode side by side; shares are of the block. */
static void flop_row(Rows *r, const Table *t, const char *name, const FlopRow *prefill,
                     const FlopRow *decode, const Info *info, RowStyle style)
{
    const FlopRow *whole = &info->prefill.block, *step = &info->decode.block;
    rows_row(r, t,
             (Cell[]){ v_text(name), v_real(prefill->full), v_part(prefill->full, whole->full),
                       v_real(prefill->computed), v_part(prefill->computed, whole->computed),
                       v_real(flop_intensity(prefill)), v_real(decode->computed),
                       v_part(decode->computed, step->computed), v_real(flop_intensity(decode)) },
             &style);
}

/* Rows beyond one block have no share of it. */
static void flop_total(Rows *r, const Table *t, const char *name, const FlopRow *prefill,
                       const FlopRow *decode, const char *cls)
{
    rows_row(r, t,
             (Cell[]){ v_text(name), v_real(prefill->full), v_none(), v_real(prefill->computed),
                       v_none(), v_real(flop_intensity(prefill)), v_real(decode->computed),
                       v_none(), v_real(flop_intensity(decode)) },
             &(RowStyle){ cls, NULL });
}

void info_flops(Rows *r, const Info *info)
{
    const Column column[] = {
        { NULL, "", -13, 0, UNIT_NONE, "" },
        { NULL, "square", 8, 0, UNIT_SI, "" },
        { NULL, "share", 6, 0, UNIT_NONE, NULL },
        { NULL, info_seen(info), 8, 0, UNIT_SI, "" },
        { NULL, "share", 6, 0, UNIT_NONE, "" },
        { NULL, "FLOP/B", 6, 0, UNIT_RATIO, "" },
        { NULL, "decode", 8, 2, UNIT_SI, "" },
        { NULL, "share", 6, 0, UNIT_NONE, "" },
        { NULL, "FLOP/B", 6, 0, UNIT_RATIO, "" },
    };
    Table        t = { .column = column,
                       .n = sizeof column / sizeof *column,
                       .groups = "<tr><th></th><th class=\"c\" colspan=\"4\">prompt</th>"
                                 "<th class=\"c\" colspan=\"3\">decode step</th></tr>" };
    const Flops *f = &info->prefill, *g = &info->decode;
    char         blocks[32];
    rows_table(r, NULL, &t);
    for (int i = 0; i < OP_COUNT; i++)
        if (info_has_op(info, (FlopOp)i))
            flop_row(r, &t, flop_op_name(info->cfg, (FlopOp)i), &f->op[i], &g->op[i], info,
                     (RowStyle){ "", group_colours[flop_op_group((FlopOp)i)] });
    rows_text(r, "\n");
    for (int i = 0; i < GROUP_COUNT; i++)
        flop_row(r, &t, flop_group_name((FlopGroup)i), &f->group[i], &g->group[i], info,
                 (RowStyle){ i ? "sum" : "sum first", group_colours[i] });
    flop_row(r, &t, "one block", &f->block, &g->block, info, (RowStyle){ "total", NULL });
    rows_text(r, "\n");
    flop_total(r, &t, info_blocks(info, blocks), &f->blocks, &g->blocks, "first");
    flop_total(r, &t, "norm, head", &f->head, &g->head, "");
    flop_total(r, &t, "model", &f->total, &g->total, "total");
    rows_table_end(r, NULL);
}

static void length_text(int length, char buf[32])
{
    if (length)
        form_count((uint64_t)length, buf, 32);
    else
        snprintf(buf, 32, "none");
}

static void costs_text(Rows *r, const Info *info)
{
    char seq[32], title[120], full[32], prefill[32], decode[32];
    snprintf(title, sizeof title,
             "FLOP of one block: prompt of %s tokens; decode step that sees as many",
             form_count((uint64_t)info->load.seq, seq, sizeof seq));
    rows_heading(r, title);
    if (info_blocks_differ(info->cfg))
        rows_text(r, "  mean of the blocks, which differ\n");
    if (info->load.batch > 1)
        rows_text(r, "  for %d sequences together\n", info->load.batch);
    if (info->load.seq > info->cfg->n_ctx)
        rows_text(r, "  the prompt is longer than the model's context of %d\n", info->cfg->n_ctx);
    info_flops(r, info);
    rows_text(r, "\n");
    length_text(info->crossover.full, full);
    length_text(info->crossover.prefill, prefill);
    length_text(info->crossover.decode, decode);
    rows_pair(r, "crossover", "length at which attention costs as much as the FFN:");
    rows_pair(r, "", "%s (square), %s (masked), %s (decode)", full, prefill, decode);
}

static void flop_json(Rows *r, const char *key, const FlopRow *f, const FlopRow *whole)
{
    rows_object(r, key, { "full", v_whole(f->full) }, { "computed", v_whole(f->computed) },
                { "bytes", v_whole(f->bytes) },
                { "intensity", v_real(f->bytes > 0 ? flop_intensity(f) : (double)NAN) },
                { "share", whole ? v_part(f->full, whole->full) : v_none() },
                { "share_computed", whole ? v_part(f->computed, whole->computed) : v_none() });
}

static void step_json(Rows *r, const char *key, const Info *info, const Flops *f)
{
    rows_open(r, key, '{');
    rows_open(r, "rows", '{');
    for (int i = 0; i < OP_COUNT; i++)
        if (info_has_op(info, (FlopOp)i))
            flop_json(r, flop_op_key((FlopOp)i), &f->op[i], &f->block);
    rows_close(r, '}');
    rows_open(r, "groups", '{');
    for (int i = 0; i < GROUP_COUNT; i++)
        flop_json(r, flop_group_key((FlopGroup)i), &f->group[i], &f->block);
    rows_close(r, '}');
    flop_json(r, "attention", &f->attention, &f->block);
    flop_json(r, "block", &f->block, NULL);
    flop_json(r, "blocks", &f->blocks, NULL);
    flop_json(r, "head", &f->head, NULL);
    flop_json(r, "total", &f->total, NULL);
    rows_close(r, '}');
}

static Cell length_or_null(int length) { return length ? v_int(length) : v_text(NULL); }

static void costs_json(Rows *r, const Info *info)
{
    rows_open(r, "flops", '{');
    rows_put(r, "seq", v_int(info->load.seq));
    rows_put(r, "batch", v_int(info->load.batch));
    step_json(r, "prefill", info, &info->prefill);
    step_json(r, "decode", info, &info->decode);
    rows_object(r, "crossover", { "full", length_or_null(info->crossover.full) },
                { "prefill", length_or_null(info->crossover.prefill) },
                { "decode", length_or_null(info->crossover.decode) });
    rows_close(r, '}');
}

/* ---- Memory ---------------------------------------------------------------------------------- */

void info_kv(Rows *r, const Info *info)
{
    const Config  *c  = info->cfg;
    const KvCount *kv = &info->kv;
    char           a[32], b[32], size[16], windowed[64] = "";
    rows_heading(r, "KV cache and attention memory");
    rows_object(r, "kv_cache", { "type", v_text(info->kv_type) },
                { "bytes_per_token_and_layer", v_count(kv->layer_bytes) },
                { "bytes_per_token", v_count(kv->token_bytes) },
                { "positions", v_int(kv->positions) }, { "windowed_layers", v_int(kv->n_windowed) },
                { "bytes_at_full_context", v_count(kv->full_bytes) },
                { "ratio_to_mha", v_real(kv->mha_ratio) });
    if (kv->state_bytes)
        rows_object(r, "state", { "bytes_per_sequence", v_count(kv->state_bytes) },
                    { "layers", v_int(count_state(c)) });
    rows_object(r, "attention_scores", { "whole_bytes_per_layer", v_whole(info->score_bytes) },
                { "tiled_bytes_per_thread", v_count(info->memory.attention) });
    rows_pair(r, "one token", "%s bytes per layer, %s in all layers (%s)",
              form_count(kv->layer_bytes, a, sizeof a), form_count(kv->token_bytes, b, sizeof b),
              info->kv_type);
    if (kv->n_windowed && kv->n_windowed < c->n_layers)
        snprintf(windowed, sizeof windowed, ", %d in %d of %d layers", c->window, kv->n_windowed,
                 c->n_layers);
    rows_pair(r, "full context", "%s for %d positions%s%s",
              form_bytes((double)kv->full_bytes, size, sizeof size), kv->positions,
              kv->positions < c->n_ctx ? " (the window)" : "", windowed);
    if (kv->state_bytes)
        rows_pair(r, "state", "%s for a sequence of any length, beside the cache",
                  form_bytes((double)kv->state_bytes, size, sizeof size));
    if (c->kv_heads == c->heads)
        rows_pair(r, "against MHA", "the same: each of %d heads has its own K and V", c->heads);
    else
        rows_pair(r, "against MHA", "%.4g of it: %d query heads share %d kv heads", kv->mha_ratio,
                  c->heads, c->kv_heads);
    rows_pair(r, "scores", "%s per layer for %d tokens, if stored whole",
              form_bytes(info->score_bytes, size, sizeof size), info->load.seq);
    rows_pair(r, "", "%s per thread in tiles, at any length",
              form_bytes((double)info->memory.attention, size, sizeof size));
}

static const Column memory_columns[] = {
    { NULL, NULL, -12, 0, UNIT_NONE, "" },
    { NULL, NULL, 8, 1, UNIT_BYTES, "" },
    { NULL, NULL, 0, 0, UNIT_COUNT, "dim exact" },
    { NULL, NULL, -1, 1, UNIT_NONE, "l dim wrap" },
};
static const Table memory_table = TABLE_OF(memory_columns);

/* Without a label, only JSON has it. */
static void amount(Rows *r, const char *key, const char *label, uint64_t bytes, const char *what,
                   const char *cls)
{
    rows_put(r, key, v_count(bytes));
    if (label)
        rows_row(r, &memory_table,
                 (Cell[]){ v_text(label), v_count(bytes), v_count(bytes), v_text(what) },
                 cls ? &(RowStyle){ cls, NULL } : NULL);
}

/* Text: weights by type, four of them on a line. */
static void weights_text(Rows *r, const Info *info)
{
    const Count *n = info->count;
    char         what[96] = "", size[16], bits[16];
    Cell row[] = { v_text("weights"), v_count(info->memory.weights), v_none(), v_text(what) };
    int          at = 0, drawn = 0;
    if (!info->contents)
        at = snprintf(what, sizeof what, "in %s", weight_type_name(info->type));
    for (int i = 0; info->contents && i < WT_COUNT; i++) {
        WeightType t = info_type(i);
        if (n->bytes_of[t] == 0)
            continue;
        if (drawn && drawn % 4 == 0) {
            snprintf(what + at, sizeof what - (size_t)at, ",");
            rows_row(r, &memory_table, row, NULL);
            row[0] = row[1] = v_none();
            at     = 0;
        }
        at += snprintf(what + at, sizeof what - (size_t)at, "%s%s %s", at ? ", " : "",
                       info_type_name(t), form_bytes((double)n->bytes_of[t], size, sizeof size));
        drawn++;
    }
    rows_row(r, &memory_table, row, NULL);
    snprintf(bits, sizeof bits, "%.3f", info_bits(n));
    rows_row(r, &memory_table,
             (Cell[]){ v_none(), v_text(bits), v_none(),
                       v_text("bits per weight on average, with vectors and padding") },
             NULL);
}

void info_memory(Rows *r, const Info *info)
{
    const MemoryPlan *m = &info->memory;
    char              what[128], size[16];
    int               at = 0;
    rows_heading(r, "memory to run");
    rows_open(r, "memory", '{');
    rows_members(r, { "sequences", v_int(m->n_seqs) }, { "n_ctx", v_int(m->n_ctx) },
                 { "n_batch", v_int(m->n_batch) });
    rows_table(r, NULL, &memory_table);
    if (r->face == FACE_TEXT)
        weights_text(r, info);
    snprintf(what, sizeof what, "%s%s, %.3f bits per weight on average",
             info->contents ? "" : "in ",
             !info->contents  ? weight_type_name(info->type)
                 : info->ours ? "mapped from the file"
                              : "made from the file",
             info_bits(info->count));
    amount(r, "weights", r->face == FACE_TEXT ? NULL : "weights", m->weights, what, NULL);
    if (info->huge_share >= 0 && r->face != FACE_JSON) {
        snprintf(what, sizeof what, "%.0f%% of them in huge pages of the page cache",
                 100 * info->huge_share);
        rows_row(r, &memory_table, (Cell[]){ v_none(), v_none(), v_none(), v_text(what) }, NULL);
    }
    amount(r, "packed", m->packed ? "packed" : NULL, m->packed, "weights repacked while loading",
           NULL);
    snprintf(what, sizeof what, "%d x %d tokens in %s, whole tiles of 64", m->n_seqs, m->n_ctx,
             info->kv_type);
    amount(r, "kv_cache", "kv cache", m->kv, what, NULL);
    snprintf(what, sizeof what, "%d tokens at once; each further thread adds %s", m->n_batch,
             form_bytes((double)m->each_thread, size, sizeof size));
    amount(r, "activations", "activations", m->activations, what, NULL);
    amount(r, "logits", "logits", m->logits, "for one token", NULL);
    amount(r, "total", "total", m->total, "with one thread", "total first");
    /* only then, so that a report is the same each time */
    if (m->available && m->total > m->available)
        amount(r, "available", "available", m->available,
               "less than the total: see --ctx, --kv-type", NULL);
    rows_table_end(r, NULL);
    rows_put(r, "each_thread", v_count(m->each_thread));
    rows_put(r, "huge_share", info->huge_share >= 0 ? v_real(info->huge_share) : v_none());
    rows_close(r, '}');
    for (int t = 0; !info->contents && t < WT_MADE; t++)
        at += snprintf(what + at, sizeof what - (size_t)at, "%s%s %s", t ? ", " : "",
                       weight_type_name((WeightType)t),
                       form_bytes((double)info->type_bytes[t], size, sizeof size));
    if (!info->contents)
        rows_pair(r, "by type", "%s", what);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static bool about(Rows *r, const Info *info, Error *err)
{
    char *config = NULL;
    if (r->face == FACE_TEXT)
        safe_text(&r->out, info->path);
    rows_text(r, "\n");
    rows_put(r, "path", v_text(info->path));
    rows_put(r, "kind", v_text(!info->contents ? "config" : info->cfg ? "model" : "tokenizer"));
    if (r->face == FACE_JSON && info->cfg && !(config = config_to_json(info->cfg, err)))
        return false;
    if (config)
        rows_put(r, "config", v_json(config));
    free(config);
    return true;
}

static void all_rows(Rows *r, const Info *info, bool tensors)
{
    if (info->cfg) {
        info_config(r, info->cfg);
        info_block_params(r, info);
        info_model_params(r, info);
        if (r->face == FACE_JSON) {
            parameters_json(r, info->count);
            bytes_json(r, info);
            costs_json(r, info);
        } else {
            costs_text(r, info);
        }
        info_kv(r, info);
        info_memory(r, info);
        info_ranks(r, info);
    }
    if (info->contents)
        info_file(r, info);
    if (info->check)
        info_check(r, info->check);
    if (info->contents && tensors)
        info_tensors(r, info->contents);
}

bool info_report(const Info *info, Face face, const tblock_report_options *opt, char **text,
                 Error *err)
{
    Rows r = { .face = face, .colour = opt->colour, .indent = 2, .margin = 2, .label_width = 12 };
    bool ok = true;
    if (face == FACE_PAGE) {
        info_page(&r, info, opt->tensors);
    } else {
        rows_open(&r, NULL, '{');
        ok = about(&r, info, err);
        all_rows(&r, info, opt->tensors);
        rows_close(&r, '}');
        if (face == FACE_JSON)
            text_out(&r.out, "\n");
    }
    *text = ok ? text_out_take(&r.out, err) : NULL;
    text_out_free(&r.out);
    return *text != NULL;
}
