/* report/info_html.c: the report of `tblock info --html`: one page that needs nothing else. */
#include "report/page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"

/* ---- Text and bars ---- */

static const char *escaped(uint32_t code)
{
    switch (code) {
    case '&':  return "&amp;";
    case '<':  return "&lt;";
    case '>':  return "&gt;";
    case '"':  return "&quot;";
    case '\'': return "&#39;";
    default:   return is_printable(code) ? NULL : "&#xfffd;";
    }
}

void page_text(TextOut *o, const char *s)
{
    size_t n = strlen(s);
    while (n > 0) {
        uint32_t    code = 0;
        int         length = utf8_decode(s, n, &code);
        const char *as = length < 0 ? "&#xfffd;" : escaped(code);
        length = length < 0 ? -length : length;
        as ? text_out_bytes(o, as, strlen(as)) : text_out_bytes(o, s, (size_t)length);
        s += length;
        n -= (size_t)length;
    }
}

/* The name of an operation, its ^T raised. */
static void page_name(TextOut *o, const char *name)
{
    const char *raised = strstr(name, "^T");
    if (raised)
        text_out(o, "%.*s<sup>T</sup>%s", (int)(raised - name), name, raised + 2);
    else
        text_out(o, "%s", name);
}

void page_bar(TextOut *o, const PagePiece *piece, int n)
{
    char   share[16];
    double whole = 0;
    for (int i = 0; i < n; i++)
        whole += piece[i].value;
    text_out(o, "<div class=\"bar\">");
    for (int i = 0; i < n; i++)
        if (piece[i].value > 0)
            text_out(o, "<div class=\"%s\" style=\"flex:%.6f 0 0\" title=\"%s: %s\"></div>", piece[i].colour, piece[i].value / whole,
                     piece[i].name, piece[i].text);
    text_out(o, "</div>\n<ul class=\"legend\">");
    for (int i = 0; i < n; i++) {
        if (piece[i].value <= 0)
            continue;
        text_out(o, "<li><i class=\"key %s\"></i>", piece[i].colour);
        page_name(o, piece[i].name);
        text_out(o, " <b>%s</b> <span>%s</span></li>", form_percent(piece[i].value, whole, share, sizeof share), piece[i].text);
    }
    text_out(o, "</ul>\n");
}

/* A cell with a share as bar and as number. */
static void share_cell(TextOut *o, const char *colour, double part, double whole)
{
    char share[16];
    text_out(o, "<td class=\"share\"><div><b><i class=\"%s\" style=\"width:%.2f%%\"></i></b><span>%s</span></div></td>", colour,
             whole > 0 ? 100 * part / whole : 0.0, whole > 0 ? form_percent(part, whole, share, sizeof share) : "-");
}

static const char *scaled(double v, const char *const units[5], char *buf, size_t n)
{
    char number[24];
    form_bytes(v, number, sizeof number); /* three digits and a unit that is replaced */
    char *space = strchr(number, ' ');
    int   power = !space ? 0 : space[1] == 'k' ? 1 : space[1] == 'M' ? 2 : space[1] == 'G' ? 3 : space[1] == 'T' ? 4 : 0;
    if (space)
        *space = '\0';
    snprintf(buf, n, "%s%s", number, units[power]);
    return buf;
}

static const char *params_text(double v, char *buf, size_t n)
{
    static const char *const units[5] = { "", " K", " M", " B", " T" };
    return scaled(v, units, buf, n);
}

/* ---- Head ---- */

static void tile(TextOut *o, const char *number, const char *what)
{
    text_out(o, "<div class=\"tile\"><b>%s</b><span>%s</span></div>\n", number, what);
}

static void draw_tiles(TextOut *o, const Info *info)
{
    const Config *c = info->cfg;
    char          a[48], b[96], types[64];
    unsigned      used = 0;
    for (int i = 0; i < info->count->n_parts; i++)
        used |= info->count->part[i].k ? info->count->part[i].types : 0;
    text_out(o, "<div class=\"tiles\">\n");
    tile(o, params_text((double)info->count->params, a, sizeof a), "parameters");
    snprintf(b, sizeof b, "weights, %s", form_types(used, types, sizeof types));
    tile(o, form_bytes((double)info->count->bytes, a, sizeof a), b);
    snprintf(b, sizeof b, "in %s of %d block%s", info_sizes_differ(info) ? "the first" : "each", c->n_layers, c->n_layers > 1 ? "s" : "");
    tile(o, params_text((double)info->count->layer_params, a, sizeof a), b);
    snprintf(b, sizeof b, "FLOP for a token that sees %d", info->load.seq);
    tile(o, form_si(info->decode.total.computed / info->load.batch, a, sizeof a), b);
    snprintf(b, sizeof b, "KV cache per token, %s", info->kv_type);
    tile(o, form_bytes((double)info->kv.token_bytes, a, sizeof a), b);
    snprintf(b, sizeof b, "memory at full context, %d tokens", c->n_ctx);
    tile(o, form_bytes((double)info->memory.total, a, sizeof a), b);
    text_out(o, "</div>\n");
}

/* The last part of a path is the name of the model. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static void draw_head(TextOut *o, const Info *info)
{
    text_out(o, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline'\">\n<title>");
    page_text(o, base_name(info->path));
    text_out(o, "</title>\n<style>\n");
    for (int i = 0; page_style[i]; i++)
        text_out_bytes(o, page_style[i], strlen(page_style[i]));
    text_out(o, "</style>\n</head>\n<body>\n<main>\n<div class=\"kicker\">%s</div>\n<h1>",
             !info->contents ? "Model config" : !info->cfg ? "Tokenizer" : info->ours ? "Model file" : info->kind);
    page_text(o, base_name(info->path));
    text_out(o, "</h1>\n<p class=\"sub\">");
    page_text(o, info->path);
    text_out(o, "</p>\n");
}

/* ---- Parameters ---- */

static const char *part_colour(const CountPart *p)
{
    switch (p->role) {
    case ROLE_EMBED:                                         return "embed";
    case ROLE_LM_HEAD:                                       return "head";
    case ROLE_WQ: case ROLE_WK: case ROLE_WV: case ROLE_WO:  return "proj";
    case ROLE_W_GATE: case ROLE_W_UP: case ROLE_W_DOWN:      return "ffn";
    default:                                                 return "other";
    }
}

static void param_row(TextOut *o, const char *cls, const char *colour, const char *name, const char *shape, uint64_t params,
                      uint64_t whole, uint64_t bytes, const char *types)
{
    char a[32], b[16];
    text_out(o, "<tr class=\"%s\"><td><i class=\"key %s\"></i>%s</td><td class=\"l dim\">%s</td><td>%s</td>", cls, colour, name, shape,
             form_count(params, a, sizeof a));
    share_cell(o, colour, (double)params, (double)whole);
    text_out(o, "<td>%s</td><td class=\"l dim\">%s</td></tr>\n", form_bytes((double)bytes, b, sizeof b), types);
}

static void open_param_table(TextOut *o)
{
    text_out(o, "<div class=\"wide\"><table><thead><tr><th></th><th class=\"l\">shape</th><th>parameters</th><th>share</th>"
                "<th>bytes</th><th class=\"l\">type</th></tr></thead><tbody>\n");
}

static void part_row(TextOut *o, const CountPart *p, uint64_t whole)
{
    char shape[40], types[64];
    param_row(o, "", part_colour(p), p->name, form_shape(p, shape, sizeof shape), p->one_params, whole, p->one_bytes,
              form_types(p->types, types, sizeof types));
}

static void draw_block_table(TextOut *o, const Info *info)
{
    const Count *n = info->count;
    text_out(o, "<h3>Parameters of one block</h3>\n%s", info_sizes_differ(info) ? "<p class=\"say\">This is the first block; the blocks differ.</p>\n" : "");
    open_param_table(o);
    for (int i = 0; i < n->n_parts; i++)
        if (n->part[i].in_layer)
            part_row(o, &n->part[i], n->part[i].in_first ? n->layer_params : 0);
    param_row(o, "sum first", "proj", "attention", "", n->attn_params, n->layer_params, n->attn_bytes, "");
    param_row(o, "sum", "ffn", "FFN", "", n->ffn_params, n->layer_params, n->ffn_bytes, "");
    param_row(o, "sum", "other", "norms", "", n->norm_params, n->layer_params, n->norm_bytes, "");
    text_out(o, "<tr class=\"total\"><td>one block</td><td></td>");
    char a[32], b[16];
    text_out(o, "<td>%s</td><td></td><td>%s</td><td></td></tr>\n</tbody></table></div>\n",
             form_count(n->layer_params, a, sizeof a), form_bytes((double)n->layer_bytes, b, sizeof b));
}

static void draw_model_bar(TextOut *o, const Info *info)
{
    const Count *n = info->count;
    double       blocks[BLOCK_PARTS] = { 0 }; /* of all of them */
    char         text[5][24];
    for (int i = 0; i < n->n_parts; i++)
        if (n->part[i].in_layer)
            blocks[count_block_part(n->part[i].role)] += (double)n->part[i].params;
    PagePiece    piece[] = {
        { "embedding", "embed", (double)n->embed_params, text[0] },
        { "attention", "proj", blocks[PART_ATTENTION], text[1] },
        { "FFN", "ffn", blocks[PART_FFN], text[2] },
        { "norms", "other", blocks[PART_NORMS] + (double)n->final_norm_params, text[3] },
        { "head", "head", (double)n->head_params, text[4] },
    };
    for (int i = 0; i < 5; i++)
        params_text(piece[i].value, text[i], sizeof text[i]);
    page_bar(o, piece, 5);
}

static void draw_parameters(TextOut *o, const Info *info)
{
    const Count *n = info->count;
    char         blocks[32], a[32], b[16];
    text_out(o, "<section>\n<h2>Parameters</h2>\n<p class=\"say\">%s in total%s.</p>\n", form_count(n->params, a, sizeof a),
             info->cfg->tied_embeddings ? "; the head is the embedding (tied), which counts once" : "");
    draw_model_bar(o, info);
    open_param_table(o);
    snprintf(blocks, sizeof blocks, "%d block%s", info->cfg->n_layers, info->cfg->n_layers > 1 ? "s" : "");
    for (int i = 0; i < n->n_parts; i++) {
        if (n->part[i].role == ROLE_FINAL_NORM && !n->part[i].bias)
            param_row(o, "", "ffn", blocks, "", n->blocks_params, n->params, n->blocks_bytes, "");
        if (!n->part[i].in_layer)
            part_row(o, &n->part[i], n->params);
    }
    text_out(o, "<tr class=\"total first\"><td>total</td><td></td><td>%s</td><td></td><td>%s</td><td></td></tr>\n",
             form_count(n->params, a, sizeof a), form_bytes((double)n->bytes, b, sizeof b));
    if (n->active_params != n->params)
        text_out(o, "<tr><td>active</td><td></td><td>%s</td><td></td><td></td><td>used per token, "
                    "with the experts it chooses</td></tr>\n",
                 form_count(n->active_params, a, sizeof a));
    text_out(o, "</tbody></table></div>\n");
    text_out(o, "</section>\n");
}

/* ---- Config and block ---- */

/* A line that only some models have. */
static void draw_if_any(TextOut *o, const char *name, const char *words)
{
    if (words[0])
        text_out(o, "</dd>\n<dt>%s</dt><dd>%s", name, words);
}

static void draw_config(TextOut *o, const Config *c)
{
    char words[128];
    text_out(o, "<dl>\n<dt>family</dt><dd>");
    page_text(o, c->family);
    text_out(o, "</dd>\n<dt>blocks</dt><dd>%d, %s</dd>\n<dt>width</dt><dd>%d, FFN %d (%s)", c->n_layers,
             info_norms(c, words, sizeof words), c->d_model, c->d_ff, info_ffn(c));
    draw_if_any(o, "experts", info_experts(c, words, sizeof words));
    text_out(o, "</dd>\n<dt>attention</dt><dd>%d heads of %d, %d KV head%s%s%s", c->heads, c->head_dim, c->kv_heads,
             c->kv_heads > 1 ? "s" : "", info_windows(c, words, sizeof words), c->qk_norm ? ", Q and K normalised" : "");
    draw_if_any(o, "positions", info_positions(c, words, sizeof words));
    draw_if_any(o, "numbers", info_numbers(c, words, sizeof words));
    text_out(o, "</dd>\n<dt>biases</dt><dd>%s%s%s%s</dd>\n", c->qkv_bias ? "Q K V " : "", c->out_bias ? "output " : "",
             c->ffn_bias ? "FFN" : "", c->qkv_bias || c->out_bias || c->ffn_bias ? "" : "none");
    text_out(o, "<dt>vocabulary</dt><dd>%d, %s</dd>\n<dt>context</dt><dd>%d tokens</dd>\n</dl>\n", c->vocab_size,
             c->tied_embeddings ? "head tied to the embedding" : "separate head", c->n_ctx);
}

static void draw_block(TextOut *o, const Info *info)
{
    text_out(o, "<section>\n<h2>One block</h2>\n<p class=\"say\">What happens to n tokens; t is "
                "the number of positions in the cache. The model has %d of these blocks, one after "
                "the other.%s</p>\n<div class=\"flow\"><div>\n",
             info->cfg->n_layers, diagram_shows(info->cfg) ? " Dashed: the residual stream." : "");
    if (diagram_shows(info->cfg))
        draw_block_diagram(o, info);
    else
        draw_block_formulas(o, info->cfg);
    text_out(o, "</div><div>\n");
    draw_config(o, info->cfg);
    draw_block_table(o, info);
    text_out(o, "</div></div>\n</section>\n");
}

/* ---- FLOP ---- */

static void flop_cells(TextOut *o, const FlopRow *prefill, const FlopRow *decode, const Info *info, bool shares, const char *colour)
{
    char a[24], b[24], c[24], d[24], e[24];
    text_out(o, "<td>%s</td><td>%s</td>", form_si(prefill->full, a, sizeof a), form_si(prefill->computed, b, sizeof b));
    if (shares)
        share_cell(o, colour, prefill->computed, info->prefill.block.computed);
    else
        text_out(o, "<td></td>");
    text_out(o, "<td>%s</td><td>%s</td>", form_ratio(flop_intensity(prefill), c, sizeof c), form_si(decode->computed, d, sizeof d));
    if (shares)
        share_cell(o, colour, decode->computed, info->decode.block.computed);
    else
        text_out(o, "<td></td>");
    text_out(o, "<td>%s</td></tr>\n", form_ratio(flop_intensity(decode), e, sizeof e));
}

static void flop_row(TextOut *o, const char *cls, const char *colour, const char *name, const FlopRow *prefill, const FlopRow *decode,
                     const Info *info)
{
    text_out(o, "<tr class=\"%s\"><td><i class=\"key %s\"></i>", cls, colour);
    page_name(o, name);
    text_out(o, "</td>");
    flop_cells(o, prefill, decode, info, true, colour);
}

static void flop_total(TextOut *o, const char *cls, const char *name, const FlopRow *prefill, const FlopRow *decode, const Info *info)
{
    text_out(o, "<tr class=\"%s\"><td>%s</td>", cls, name);
    flop_cells(o, prefill, decode, info, false, "");
}

static void draw_flop_bar(TextOut *o, const char *title, const Flops *f, bool full)
{
    PagePiece piece[GROUP_COUNT];
    char      text[GROUP_COUNT][24], total[24];
    for (int g = 0; g < GROUP_COUNT; g++) {
        double v = full ? f->group[g].full : f->group[g].computed;
        piece[g] = (PagePiece){ flop_group_name((FlopGroup)g), group_colours[g], v, form_si(v, text[g], sizeof text[g]) };
    }
    text_out(o, "<h3>%s: %s</h3>\n", title, form_si(full ? f->block.full : f->block.computed, total, sizeof total));
    page_bar(o, piece, GROUP_COUNT);
}

static void draw_flop_table(TextOut *o, const Info *info)
{
    const Flops *f = &info->prefill, *g = &info->decode;
    char         blocks[32];
    text_out(o, "<div class=\"wide\"><table><thead><tr><th></th><th class=\"c\" colspan=\"4\">prompt</th><th class=\"c\" colspan=\"3\">decode "
                "step</th></tr><tr><th></th><th>square</th><th>%s</th><th>share</th><th>FLOP/byte</th><th>FLOP</th><th>share</th>"
                "<th>FLOP/byte</th></tr></thead><tbody>\n", info_seen(info));
    for (int i = 0; i < OP_COUNT; i++)
        if (info_has_op(info, (FlopOp)i))
            flop_row(o, "", group_colours[flop_op_group((FlopOp)i)], flop_op_name(info->cfg, (FlopOp)i), &f->op[i], &g->op[i], info);
    for (int i = 0; i < GROUP_COUNT; i++)
        flop_row(o, i ? "sum" : "sum first", group_colours[i], flop_group_name((FlopGroup)i), &f->group[i], &g->group[i], info);
    flop_total(o, "total", "one block", &f->block, &g->block, info);
    snprintf(blocks, sizeof blocks, "%d block%s", info->cfg->n_layers, info->cfg->n_layers > 1 ? "s" : "");
    flop_total(o, "first", blocks, &f->blocks, &g->blocks, info);
    flop_total(o, "", "norm and head", &f->head, &g->head, info);
    flop_total(o, "total", "model", &f->total, &g->total, info);
    text_out(o, "</tbody></table></div>\n");
}

static void draw_flops(TextOut *o, const Info *info)
{
    char number[32], title[96];
    text_out(o, "<section>\n<h2>What one block computes</h2>\n<p class=\"say\">FLOP for a prompt "
                "of %s tokens and for a decode step that sees as many positions%s. A multiply-add "
                "counts as 2. Square: every query with every position. %s: every query with the "
                "positions it sees; this is what tblock computes.%s</p>\n",
             form_count((uint64_t)info->load.seq, number, sizeof number), info->load.batch > 1 ? ", for all sequences together" : "",
             info_seen(info), info->load.seq > info->cfg->n_ctx ? " The prompt is longer than the model's context." : "");
    draw_flop_bar(o, "Prompt, full square", &info->prefill, true);
    snprintf(title, sizeof title, "Prompt, %s", info_seen(info));
    draw_flop_bar(o, title, &info->prefill, false);
    draw_flop_bar(o, "Decode step", &info->decode, false);
    draw_flop_table(o, info);
    text_out(o, "</section>\n");
}

/* ---- Length and memory ---- */

static void say_length(TextOut *o, int length, const char *after)
{
    char number[32];
    text_out(o, "%s%s%s", length ? "from " : "at no length", length ? form_count((uint64_t)length, number, sizeof number) : "", after);
}

static void draw_plots(TextOut *o, const Info *info)
{
    text_out(o, "<section>\n<h2>As the text grows</h2>\n<p class=\"say\">Length in tokens at which "
                "attention costs as much as the FFN: ");
    say_length(o, info->crossover.full, " for the full square, ");
    say_length(o, info->crossover.prefill, " for a masked prompt, ");
    say_length(o, info->crossover.decode, " for a decode step.");
    text_out(o, " Both axes of the plots are logarithmic.</p>\n<div class=\"two\"><div>\n<h3>FLOP "
                "of one block per token of a prompt</h3>\n");
    draw_flops_plot(o, info);
    text_out(o, "</div><div>\n<h3>Bytes of the KV cache of one sequence</h3>\n");
    draw_kv_plot(o, info);
    text_out(o, "</div></div>\n</section>\n");
}

static void memory_row(TextOut *o, const char *name, uint64_t bytes, const char *what)
{
    char a[16], b[32];
    text_out(o, "<tr><td>%s</td><td>%s</td><td class=\"dim exact\">%s</td><td class=\"l dim wrap\">%s</td></tr>\n", name,
             form_bytes((double)bytes, a, sizeof a), form_count(bytes, b, sizeof b), what);
}

static void draw_memory_bar(TextOut *o, const MemoryPlan *m)
{
    char      text[4][16];
    PagePiece piece[] = {
        { "weights", "proj", (double)(m->weights + m->packed), text[0] },
        { "KV cache", "embed", (double)m->kv, text[1] },
        { "activations", "ffn", (double)m->activations, text[2] },
        { "logits", "head", (double)m->logits, text[3] },
    };
    for (int i = 0; i < 4; i++)
        form_bytes(piece[i].value, text[i], sizeof text[i]);
    page_bar(o, piece, 4);
}

static void draw_memory_table(TextOut *o, const Info *info)
{
    const MemoryPlan *m = &info->memory;
    char              what[128], a[16];
    text_out(o, "<div class=\"wide\"><table><tbody>\n");
    snprintf(what, sizeof what, "%s%s, %.3f bits per weight on average", info->contents ? "" : "in ",
             info->contents ? info->ours ? "mapped from the file" : "made from the file" : weight_type_name(info->type), info_bits(info->count));
    memory_row(o, "weights", m->weights, what);
    if (m->packed)
        memory_row(o, "packed", m->packed, "weights repacked while loading");
    snprintf(what, sizeof what, "%d sequence%s of %d tokens in %s, whole tiles of 64", m->n_seqs, m->n_seqs > 1 ? "s" : "", m->n_ctx,
             info->kv_type);
    memory_row(o, "KV cache", m->kv, what);
    snprintf(what, sizeof what, "%d tokens at once; each further thread adds %s", m->n_batch,
             form_bytes((double)m->each_thread, a, sizeof a));
    memory_row(o, "activations", m->activations, what);
    memory_row(o, "logits", m->logits, "for one token");
    text_out(o, "<tr class=\"total first\"><td>total</td><td>%s</td>", form_bytes((double)m->total, a, sizeof a));
    text_out(o, "<td class=\"exact\">%s</td><td class=\"l dim\">with one thread</td></tr>\n"
                "</tbody></table></div>\n", form_count(m->total, what, sizeof what));
}

static void draw_memory(TextOut *o, const Info *info)
{
    const KvCount *kv = &info->kv;
    char           a[32], b[32];
    text_out(o, "<section>\n<h2>Memory to run</h2>\n<p class=\"say\">At full context, as the runtime allocates it.</p>\n");
    draw_memory_bar(o, &info->memory);
    draw_memory_table(o, info);
    text_out(o, "<h3>KV cache and attention scores</h3>\n<dl>\n<dt>one token</dt><dd>%s bytes per "
                "layer, %s in all layers (%s)</dd>\n",
             form_count(kv->layer_bytes, a, sizeof a), form_count(kv->token_bytes, b, sizeof b), info->kv_type);
    text_out(o, "<dt>full context</dt><dd>%s for %d positions%s", form_bytes((double)kv->full_bytes, a, sizeof a), kv->positions,
             kv->positions < info->cfg->n_ctx ? " (the window)" : "");
    if (kv->n_windowed && kv->n_windowed < info->cfg->n_layers)
        text_out(o, ", %d in %d of %d layers", info->cfg->window, kv->n_windowed, info->cfg->n_layers);
    text_out(o, "</dd>\n");
    if (info->cfg->kv_heads == info->cfg->heads)
        text_out(o, "<dt>compared with MHA</dt><dd>the same: each of %d heads has its own K and "
                    "V</dd>\n", info->cfg->heads);
    else
        text_out(o, "<dt>compared with MHA</dt><dd>%.4g of it: %d query heads share %d KV "
                    "heads</dd>\n", kv->mha_ratio, info->cfg->heads, info->cfg->kv_heads);
    text_out(o, "<dt>scores</dt><dd>%s per layer if stored whole for %d tokens; tblock uses tiles "
                "of %s per thread at any length</dd>\n</dl>\n</section>\n",
             form_bytes(info->score_bytes, a, sizeof a), info->load.seq, form_bytes((double)info->memory.attention, b, sizeof b));
}

/* ---- File ---- */

static void draw_sources(TextOut *o, const Json *source)
{
    const char *name, *hash;
    Error       ignored;
    for (const Json *i = json_first(source); i; i = json_next(i)) {
        const SourceForm *form = info_source_form(i);
        if (!form || !json_read_string(json_get(i, form->key), "", &name, &ignored))
            continue;
        text_out(o, "<dt>source</dt><dd>%s", form->before);
        page_text(o, name);
        if (form->hash_key && json_read_string(json_get(i, form->hash_key), "", &hash, &ignored)) {
            text_out(o, ",%s <code>", form->hash_of);
            page_text(o, hash);
            text_out(o, "</code>");
        }
        text_out(o, "</dd>\n");
    }
}

static void draw_check_part(TextOut *o, const char *name, const CheckPart *p, const char *good, const char *none)
{
    text_out(o, "<dt>%s</dt><dd>", name);
    if (p->answer == CHECK_BAD) {
        text_out(o, "<span class=\"wrong\">wrong</span> ");
        page_text(o, p->found);
        if (p->n_bad > 1)
            text_out(o, " (%d tensors in total)", p->n_bad);
    } else {
        text_out(o, "<span class=\"ok\">%s</span>", p->answer == CHECK_OK ? good : none);
    }
    text_out(o, "</dd>\n");
}

static void draw_check(TextOut *o, const DataCheck *d)
{
    text_out(o, "<h3>Check of the data</h3>\n<dl>\n");
    draw_check_part(o, "sha256", &d->hash, "matches the metadata", "none recorded");
    draw_check_part(o, "padding", &d->padding, "all zero", "none in this file");
    draw_check_part(o, "weights", &d->finite, "all finite", "none in this file");
    text_out(o, "</dl>\n");
}

static void draw_tensors(TextOut *o, const SourceContents *c)
{
    char shape[160], a[32], b[32];
    text_out(o, "<h3>Tensors</h3>\n<details><summary>%zu tensors</summary>\n<div class=\"wide\"><table><thead><tr><th class=\"l\">name</th>"
                "<th class=\"l\">dtype</th><th class=\"l\">shape</th><th>bytes</th><th>offset</th></tr></thead><tbody>\n", c->n_tensors);
    for (size_t i = 0; i < c->n_tensors; i++) {
        const Tensor *t = c->tensors[i];
        text_out(o, "<tr><td>");
        page_text(o, t->name);
        text_out(o, "</td><td class=\"l dim\">%s</td><td class=\"l dim\">%s</td><td>%s</td><td>%s</td></tr>\n", dtype_name(t->dtype),
                 tensor_shape_text(t, shape, sizeof shape), form_count(t->n_bytes, a, sizeof a), form_count(t->offset, b, sizeof b));
    }
    text_out(o, "</tbody></table></div></details>\n");
}

static void draw_file(TextOut *o, const Info *info, bool tensors)
{
    Error       ignored;
    const char *type;
    int64_t     size;
    char        a[32];
    text_out(o, "<section>\n<h2>File</h2>\n<dl>\n<dt>kind</dt><dd>%s</dd>\n<dt>size</dt><dd>%s bytes, %zu tensors</dd>\n", info->kind,
             form_count(info->contents->bytes, a, sizeof a), info->contents->n_tensors);
    if (!info->ours && *info->contents->types)
        text_out(o, "<dt>stored as</dt><dd>%s (tensors)</dd>\n", info->contents->types);
    if (info->cfg && info->ours)
        text_out(o, "<dt>layout</dt><dd>%s</dd>\n", info_layout(info->count));
    text_out(o, "<dt>tokenizer</dt><dd>");
    if (json_read_string(json_get(info->tokenizer, "type"), "", &type, &ignored)
        && json_read_int(json_get(info->tokenizer, "size"), "", 0, INT32_MAX, &size, &ignored)) {
        page_text(o, type);
        text_out(o, ", %d tokens</dd>\n", (int)size);
    } else {
        text_out(o, "none</dd>\n");
    }
    if (info->chat) {
        text_out(o, "<dt>chat format</dt><dd>");
        page_text(o, info->chat);
        text_out(o, "</dd>\n");
    }
    draw_sources(o, info->source);
    if (info->sha256) {
        text_out(o, "<dt>sha256</dt><dd><code>");
        page_text(o, info->sha256);
        text_out(o, "</code></dd>\n");
    }
    text_out(o, "</dl>\n");
    if (info->check)
        draw_check(o, info->check);
    if (tensors)
        draw_tensors(o, info->contents);
    text_out(o, "</section>\n");
}

bool info_html(const Info *info, const tblock_report_options *opt, char **text, Error *err)
{
    TextOut o = { 0 };
    draw_head(&o, info);
    if (info->cfg) {
        draw_tiles(&o, info);
        draw_parameters(&o, info);
        draw_block(&o, info);
        draw_flops(&o, info);
        draw_plots(&o, info);
        draw_memory(&o, info);
    }
    if (info->contents)
        draw_file(&o, info, opt->tensors);
    text_out(&o, "<footer>tblock %s; docs/info.md explains how each number is counted.</footer>\n"
                 "</main>\n</body>\n</html>\n", TBLOCK_VERSION);
    *text = text_out_take(&o, err);
    return *text != NULL;
}
