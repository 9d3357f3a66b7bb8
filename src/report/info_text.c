/* report/info_text.c: the report of `tblock info` as text. */
#include "report/info.h"

#include <stdio.h>
#include <string.h>

typedef struct Page {
    TextOut out;       /* a growing text; JSON has no part in it */
    bool    colour;
    int     name_width; /* of the names in the tables of parameters */
} Page;

static void heading(Page *p, const char *text)
{
    text_out(&p->out, "\n%s%s%s\n", p->colour ? "\033[1m" : "", text, p->colour ? "\033[0m" : "");
}

static void label(Page *p, const char *text) { text_out(&p->out, "  %-12s  ", text); }

/* ---- Config ---- */

static void draw_attention(Page *p, const Config *c)
{
    static const char *const normed[] = { "", ", q and k normalised", ", q and k normalised whole", ", q and k normalised" };
    char buf[64];
    label(p, "attention");
    text_out(&p->out, "%d heads of %d, %d kv heads%s", c->heads, c->head_dim, c->kv_heads, info_windows(c, buf, sizeof buf));
    text_out(&p->out, "%s\n", normed[c->qk_norm]);
}

/* A line that only some models have. */
static void draw_if_any(Page *p, const char *name, const char *words)
{
    if (!words[0])
        return;
    label(p, name);
    text_out(&p->out, "%s\n", words);
}

static void draw_config(Page *p, const Config *c)
{
    char words[128];
    heading(p, "config");
    label(p, "family");
    form_safe(&p->out, c->family);
    text_out(&p->out, "\n");
    label(p, "blocks");
    text_out(&p->out, "%d, %s\n", c->n_layers, info_norms(c, words, sizeof words));
    label(p, "width");
    text_out(&p->out, "d_model %d, d_ff %d (%s)\n", c->d_model, c->d_ff, info_ffn(c));
    draw_if_any(p, "experts", info_experts(c, words, sizeof words));
    draw_attention(p, c);
    draw_if_any(p, "positions", info_positions(c, words, sizeof words));
    draw_if_any(p, "numbers", info_numbers(c, words, sizeof words));
    label(p, "biases");
    if (!c->qkv_bias && !c->out_bias && !c->ffn_bias)
        text_out(&p->out, "none");
    else
        text_out(&p->out, "on%s%s%s", c->qkv_bias ? " q k v" : "", c->out_bias ? " wo" : "", c->ffn_bias ? " ffn" : "");
    text_out(&p->out, "\n");
    label(p, "vocabulary");
    text_out(&p->out, "%d, %s\n", c->vocab_size,
             c->tied_embeddings ? "the head is the embedding (tied)" : "separate head (untied)");
    label(p, "context");
    text_out(&p->out, "%d\n", c->n_ctx);
    label(p, "bos, eos");
    c->bos < 0 ? text_out(&p->out, "none;") : text_out(&p->out, "%d;", c->bos);
    for (int i = 0; i < c->n_eos; i++)
        text_out(&p->out, " %d", c->eos[i]);
    text_out(&p->out, "%s\n", c->n_eos ? "" : " none");
}

/* ---- Parameters ---- */

typedef struct Row { const char *name, *shape; uint64_t params, bytes; const char *types; } Row;

static void draw_row(Page *p, const Row *r, uint64_t whole)
{
    char number[32], size[16], share[16];
    text_out(&p->out, "  %-*s %-18s %16s %6s %8s", p->name_width, r->name, r->shape ? r->shape : "", form_count(r->params, number, sizeof number),
             whole ? form_percent((double)r->params, (double)whole, share, sizeof share) : "-", form_bytes((double)r->bytes, size, sizeof size));
    if (r->types)
        text_out(&p->out, "  %s", r->types);
    text_out(&p->out, "\n");
}

static void head_row(Page *p, const char *share)
{
    text_out(&p->out, "  %-*s %-18s %16s %6s %8s  %s\n", p->name_width, "", "shape", "parameters", share, "bytes", "type");
}

static void draw_part(Page *p, const CountPart *part, uint64_t whole)
{
    char shape[40], types[64];
    draw_row(p, &(Row){ part->name, form_shape(part, shape, sizeof shape), part->one_params, part->one_bytes,
                        form_types(part->types, types, sizeof types) }, whole);
}

static void draw_block(Page *p, const Info *info)
{
    const Count *n = info->count;
    heading(p, "one block");
    head_row(p, "share");
    for (int i = 0; i < n->n_parts; i++)
        if (n->part[i].in_layer)
            draw_part(p, &n->part[i], n->part[i].in_first ? n->layer_params : 0);
    text_out(&p->out, "\n");
    draw_row(p, &(Row){ "attention", NULL, n->attn_params, n->attn_bytes, NULL }, n->layer_params);
    draw_row(p, &(Row){ "FFN", NULL, n->ffn_params, n->ffn_bytes, NULL }, n->layer_params);
    draw_row(p, &(Row){ "norms", NULL, n->norm_params, n->norm_bytes, NULL }, n->layer_params);
    draw_row(p, &(Row){ "one block", NULL, n->layer_params, n->layer_bytes, NULL }, n->layer_params);
    if (info_sizes_differ(info))
        text_out(&p->out, "  (the first block; the blocks differ)\n");
}

static void draw_model(Page *p, const Info *info)
{
    const Count *n = info->count;
    char         blocks[32];
    heading(p, "model");
    head_row(p, "share");
    snprintf(blocks, sizeof blocks, "%d block%s", info->cfg->n_layers, info->cfg->n_layers > 1 ? "s" : "");
    for (int i = 0; i < n->n_parts; i++) {
        if (n->part[i].role == ROLE_FINAL_NORM && !n->part[i].bias)
            draw_row(p, &(Row){ blocks, NULL, n->blocks_params, n->blocks_bytes, NULL }, n->params);
        if (!n->part[i].in_layer)
            draw_part(p, &n->part[i], n->params);
    }
    if (info->cfg->tied_embeddings)
        text_out(&p->out, "  %-*s the embedding (tied)\n", p->name_width, "lm_head");
    draw_row(p, &(Row){ "total", NULL, n->params, n->bytes, NULL }, n->params);
    if (n->active_params != n->params) {
        char number[32], share[16];
        text_out(&p->out, "  %-*s %-18s %16s %6s  used per token\n", p->name_width, "active", "",
                 form_count(n->active_params, number, sizeof number),
                 form_percent((double)n->active_params, (double)n->params, share, sizeof share));
    }
}

/* ---- FLOP ---- */

/* Prefill and decode side by side; shares are of the block. */
static void draw_flops(Page *p, const char *name, const FlopRow *prefill, const FlopRow *decode, const Info *info)
{
    const FlopRow *whole = &info->prefill.block, *step = &info->decode.block;
    char a[16], b[16], c[16], d[16], e[16], f[16], g[16], h[16];
    text_out(&p->out, "  %-13s %8s %6s %8s %6s %6s   %8s %6s %6s\n", name, form_si(prefill->full, a, sizeof a),
             form_percent(prefill->full, whole->full, b, sizeof b), form_si(prefill->computed, c, sizeof c),
             form_percent(prefill->computed, whole->computed, d, sizeof d), form_ratio(flop_intensity(prefill), e, sizeof e),
             form_si(decode->computed, f, sizeof f), form_percent(decode->computed, step->computed, g, sizeof g),
             form_ratio(flop_intensity(decode), h, sizeof h));
}

/* Rows beyond one block have no share of it. */
static void draw_flops_total(Page *p, const char *name, const FlopRow *prefill, const FlopRow *decode)
{
    char a[16], b[16], c[16], d[16], e[16];
    text_out(&p->out, "  %-13s %8s %6s %8s %6s %6s   %8s %6s %6s\n", name, form_si(prefill->full, a, sizeof a), "",
             form_si(prefill->computed, b, sizeof b), "", form_ratio(flop_intensity(prefill), c, sizeof c),
             form_si(decode->computed, d, sizeof d), "", form_ratio(flop_intensity(decode), e, sizeof e));
}

static void draw_length(Page *p, int length, const char *after)
{
    char number[32];
    text_out(&p->out, "%s%s", length ? form_count((uint64_t)length, number, sizeof number) : "none", after);
}

static void draw_costs(Page *p, const Info *info)
{
    const Flops *f = &info->prefill, *g = &info->decode;
    char seq[32], title[120], blocks[32];
    snprintf(title, sizeof title, "FLOP of one block: prompt of %s tokens; decode step that sees "
                                  "as many",
             form_count((uint64_t)info->load.seq, seq, sizeof seq));
    heading(p, title);
    if (info_blocks_differ(info->cfg))
        text_out(&p->out, "  mean of the blocks, which differ\n");
    if (info->load.batch > 1)
        text_out(&p->out, "  for %d sequences together\n", info->load.batch);
    if (info->load.seq > info->cfg->n_ctx)
        text_out(&p->out, "  the prompt is longer than the model's context of %d\n", info->cfg->n_ctx);
    text_out(&p->out, "  %-13s %8s %6s %8s %6s %6s   %8s %6s %6s\n", "", "square", "share", info_seen(info), "share", "FLOP/B",
             "decode", "share", "FLOP/B");
    for (int i = 0; i < OP_COUNT; i++)
        if (info_has_op(info, (FlopOp)i))
            draw_flops(p, flop_op_name(info->cfg, (FlopOp)i), &f->op[i], &g->op[i], info);
    text_out(&p->out, "\n");
    for (int i = 0; i < GROUP_COUNT; i++)
        draw_flops(p, flop_group_name((FlopGroup)i), &f->group[i], &g->group[i], info);
    draw_flops(p, "one block", &f->block, &g->block, info);
    text_out(&p->out, "\n");
    snprintf(blocks, sizeof blocks, "%d block%s", info->cfg->n_layers, info->cfg->n_layers > 1 ? "s" : "");
    draw_flops_total(p, blocks, &f->blocks, &g->blocks);
    draw_flops_total(p, "norm, head", &f->head, &g->head);
    draw_flops_total(p, "model", &f->total, &g->total);
    text_out(&p->out, "\n");
    label(p, "crossover");
    text_out(&p->out, "length at which attention costs as much as the FFN:\n");
    label(p, "");
    draw_length(p, info->crossover.full, " (square), ");
    draw_length(p, info->crossover.prefill, " (masked), ");
    draw_length(p, info->crossover.decode, " (decode)\n");
}

/* ---- Memory and file ---- */

static void draw_kv(Page *p, const Info *info)
{
    const Config  *c  = info->cfg;
    const KvCount *kv = &info->kv;
    char           a[32], b[32], size[16];
    heading(p, "KV cache and attention memory");
    label(p, "one token");
    text_out(&p->out, "%s bytes per layer, %s in all layers (%s)\n", form_count(kv->layer_bytes, a, sizeof a),
             form_count(kv->token_bytes, b, sizeof b), info->kv_type);
    label(p, "full context");
    text_out(&p->out, "%s for %d positions%s", form_bytes((double)kv->full_bytes, size, sizeof size), kv->positions,
             kv->positions < c->n_ctx ? " (the window)" : "");
    if (kv->n_windowed && kv->n_windowed < c->n_layers)
        text_out(&p->out, ", %d in %d of %d layers", c->window, kv->n_windowed, c->n_layers);
    text_out(&p->out, "\n");
    label(p, "against MHA");
    if (c->kv_heads == c->heads)
        text_out(&p->out, "the same: each of %d heads has its own K and V\n", c->heads);
    else
        text_out(&p->out, "%.4g of it: %d query heads share %d kv heads\n", kv->mha_ratio, c->heads, c->kv_heads);
    label(p, "scores");
    text_out(&p->out, "%s per layer for %d tokens, if stored whole\n", form_bytes(info->score_bytes, size, sizeof size), info->load.seq);
    label(p, "");
    text_out(&p->out, "%s per thread in tiles, at any length\n", form_bytes((double)info->memory.attention, size, sizeof size));
}

static void draw_amount(Page *p, const char *name, uint64_t bytes, const char *what)
{
    char size[16];
    text_out(&p->out, "  %-12s  %8s  %s\n", name, form_bytes((double)bytes, size, sizeof size), what);
}

/* Weights by type, four of them on a line. */
static void draw_weights(Page *p, const Info *info)
{
    const Count *n = info->count;
    char         size[16];
    int          drawn = 0;
    text_out(&p->out, "  %-12s  %8s  ", "weights", form_bytes((double)info->memory.weights, size, sizeof size));
    if (!info->contents)
        text_out(&p->out, "in %s", weight_type_name(info->type));
    for (int i = 0; info->contents && i < WT_COUNT; i++) {
        WeightType t = info_types[i];
        if (n->bytes_of[t] == 0)
            continue;
        text_out(&p->out, "%s%s %s", drawn == 0 ? "" : drawn % 4 ? ", " : ",\n                          ", info_type_name(t),
                 form_bytes((double)n->bytes_of[t], size, sizeof size));
        drawn++;
    }
    text_out(&p->out, "\n  %-12s  %8.3f  bits per weight on average, with vectors and padding\n", "", info_bits(n));
}

static void draw_memory(Page *p, const Info *info)
{
    const MemoryPlan *m = &info->memory;
    char              what[96], size[16];
    heading(p, "memory to run");
    draw_weights(p, info);
    if (m->packed)
        draw_amount(p, "packed", m->packed, "weights repacked while loading");
    snprintf(what, sizeof what, "%d x %d tokens in %s, whole tiles of 64", m->n_seqs, m->n_ctx, info->kv_type);
    draw_amount(p, "kv cache", m->kv, what);
    snprintf(what, sizeof what, "%d tokens at once; each further thread adds %s", m->n_batch,
             form_bytes((double)m->each_thread, size, sizeof size));
    draw_amount(p, "activations", m->activations, what);
    draw_amount(p, "logits", m->logits, "for one token");
    draw_amount(p, "total", m->total, "with one thread");
    if (info->contents)
        return;
    label(p, "by type");
    for (int t = 0; t < WT_MADE; t++)
        text_out(&p->out, "%s%s %s", t ? ", " : "", weight_type_name((WeightType)t),
                 form_bytes((double)info->type_bytes[t], size, sizeof size));
    text_out(&p->out, "\n");
}

/* ---- Check ---- */

static void draw_check_part(Page *p, const char *name, const CheckPart *c, const char *good, const char *none)
{
    label(p, name);
    if (c->answer == CHECK_NONE)
        text_out(&p->out, "%s", none);
    else
        form_verdict(&p->out, p->colour, c->answer == CHECK_OK, c->answer == CHECK_OK ? "ok" : "WRONG");
    text_out(&p->out, "%s", c->answer == CHECK_OK ? good : c->answer == CHECK_BAD ? ": " : "");
    form_safe(&p->out, c->found);
    if (c->n_bad > 1)
        text_out(&p->out, " (and %d more tensor%s)", c->n_bad - 1, c->n_bad > 2 ? "s" : "");
    text_out(&p->out, "\n");
}

static void draw_check(Page *p, const DataCheck *d)
{
    heading(p, "check");
    draw_check_part(p, "sha256", &d->hash, ": matches the metadata", "none recorded");
    draw_check_part(p, "padding", &d->padding, ": all zero", "none in this file");
    draw_check_part(p, "weights", &d->finite, ": all finite", "none in this file");
}

/* Enough of a hash to recognise it by; --json has it whole. */
static void draw_hash(Page *p, const char *of, const char *hash)
{
    char start[20];
    snprintf(start, sizeof start, "%.12s", hash);
    text_out(&p->out, ",%s sha256 ", of);
    form_safe(&p->out, start);
    text_out(&p->out, "...");
}

static void draw_sources(Page *p, const Json *source)
{
    const char *name, *hash, *what = "source";
    Error       ignored;
    for (const Json *i = json_first(source); i; i = json_next(i)) {
        const SourceForm *form = info_source_form(i);
        if (!form || !json_read_string(json_get(i, form->key), "", &name, &ignored))
            continue;
        label(p, what);
        text_out(&p->out, "%s", form->before);
        form_safe(&p->out, name);
        if (form->hash_key && json_read_string(json_get(i, form->hash_key), "", &hash, &ignored))
            draw_hash(p, form->hash_of, hash);
        text_out(&p->out, "\n");
        what = "";
    }
}

static void draw_file(Page *p, const Info *info)
{
    Error       ignored;
    const char *type;
    int64_t     size;
    char        bytes[32];
    heading(p, "file");
    label(p, "kind");
    text_out(&p->out, "%s\n", info->kind);
    label(p, "size");
    text_out(&p->out, "%s bytes", form_count(info->contents->bytes, bytes, sizeof bytes));
    if (info->contents->n_files > 1)
        text_out(&p->out, " in %zu files", info->contents->n_files);
    text_out(&p->out, ", %zu tensors", info->contents->n_tensors);
    if (info->ours)
        text_out(&p->out, ", data at byte %zu", info->contents->data_offset);
    text_out(&p->out, "\n");
    if (!info->ours && *info->contents->types) {
        label(p, "stored as");
        text_out(&p->out, "%s (tensors)\n", info->contents->types);
    }
    if (info->cfg && info->ours) {
        label(p, "layout");
        text_out(&p->out, "%s\n", info_layout(info->count));
    }
    label(p, "tokenizer");
    if (json_read_string(json_get(info->tokenizer, "type"), "", &type, &ignored)
        && json_read_int(json_get(info->tokenizer, "size"), "", 0, INT32_MAX, &size, &ignored)) {
        form_safe(&p->out, type);
        text_out(&p->out, ", %d tokens\n", (int)size);
    } else {
        text_out(&p->out, "none\n");
    }
    if (info->chat) {
        label(p, "chat");
        form_safe(&p->out, info->chat);
        text_out(&p->out, "\n");
    }
    draw_sources(p, info->source);
    if (info->sha256) {
        label(p, "sha256");
        form_safe(&p->out, info->sha256);
        text_out(&p->out, "\n");
    }
}

static void draw_tensors(Page *p, const SourceContents *c)
{
    char shape[160], bytes[32], offset[32];
    heading(p, "tensors");
    text_out(&p->out, "  %-23s %-5s %-20s %13s %13s\n", "name", "dtype", "shape", "bytes", "offset");
    for (size_t i = 0; i < c->n_tensors; i++) {
        const Tensor *t   = c->tensors[i];
        int           gap = 23 - (int)(strlen(t->name) < 23 ? strlen(t->name) : 23);
        text_out(&p->out, "  ");
        form_safe(&p->out, t->name);
        text_out(&p->out, "%*s %-5s %-20s %13s %13s\n", gap, "", dtype_name(t->dtype),
                 tensor_shape_text(t, shape, sizeof shape), form_count(t->n_bytes, bytes, sizeof bytes),
                 form_count(t->offset, offset, sizeof offset));
    }
}

/* So that all tables of parameters agree. */
static int name_width(const Count *n)
{
    size_t width = strlen("final_norm ");
    for (int i = 0; i < n->n_parts; i++)
        width = strlen(n->part[i].name) > width ? strlen(n->part[i].name) : width;
    return (int)width;
}

bool info_text(const Info *info, const tblock_report_options *opt, char **text, Error *err)
{
    Page p = { .colour = opt->colour, .name_width = info->cfg ? name_width(info->count) : 0 };
    form_safe(&p.out, info->path);
    text_out(&p.out, "\n");
    if (info->cfg) {
        draw_config(&p, info->cfg);
        draw_block(&p, info);
        draw_model(&p, info);
        draw_costs(&p, info);
        draw_kv(&p, info);
        draw_memory(&p, info);
    }
    if (info->contents)
        draw_file(&p, info);
    if (info->check)
        draw_check(&p, info->check);
    if (info->contents && opt->tensors)
        draw_tensors(&p, info->contents);
    *text = text_out_take(&p.out, err);
    return *text != NULL;
}
