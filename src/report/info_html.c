/* report/info_html.c: the self-contained page of `tblock info --html`: the rows between
 * drawings. */
#include "base/file.h"
#include "report/page.h"

#include <stdio.h>
#include <string.h>

/* ---- Bars ------------------------------------------------------------------------------------ */

void page_bar(TextOut *o, const PagePiece *piece, int n)
{
    char   share[16];
    double whole = 0;
    for (int i = 0; i < n; i++)
        whole += piece[i].value;
    text_out(o, "<div class=\"bar\">");
    for (int i = 0; i < n; i++)
        if (piece[i].value > 0)
            text_out(o, "<div class=\"%s\" style=\"flex:%.6f 0 0\" title=\"%s: %s\"></div>",
                     piece[i].colour, piece[i].value / whole, piece[i].name, piece[i].text);
    text_out(o, "</div>\n<ul class=\"legend\">");
    for (int i = 0; i < n; i++) {
        if (piece[i].value <= 0)
            continue;
        text_out(o, "<li><i class=\"key %s\"></i>", piece[i].colour);
        html_name(o, piece[i].name);
        text_out(o, " <b>%s</b> <span>%s</span></li>",
                 form_percent(piece[i].value, whole, share, sizeof share), piece[i].text);
    }
    text_out(o, "</ul>\n");
}

static const char *scaled(double v, const char *const units[5], char *buf, size_t n)
{
    char number[24];
    form_bytes(v, number, sizeof number); /* three digits and a unit that is replaced */
    char *space = strchr(number, ' ');
    int   power = !space ? 0
        : space[1] == 'k' ? 1
        : space[1] == 'M' ? 2
        : space[1] == 'G' ? 3
        : space[1] == 'T' ? 4
                          : 0;
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

/* ---- Head ------------------------------------------------------------------------------------ */

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
    snprintf(b, sizeof b, "in %s of %d block%s", info_sizes_differ(info) ? "the first" : "each",
             c->n_layers, c->n_layers > 1 ? "s" : "");
    tile(o, params_text((double)info->count->layer_params, a, sizeof a), b);
    snprintf(b, sizeof b, "FLOP for a token that sees %d", info->load.seq);
    tile(o, form_si(info->decode.total.computed / info->load.batch, a, sizeof a), b);
    snprintf(b, sizeof b, "KV cache per token, %s", info->kv_type);
    tile(o, form_bytes((double)info->kv.token_bytes, a, sizeof a), b);
    snprintf(b, sizeof b, "memory at full context, %d tokens", c->n_ctx);
    tile(o, form_bytes((double)info->memory.total, a, sizeof a), b);
    text_out(o, "</div>\n");
}

static void draw_head(TextOut *o, const Info *info)
{
    text_out(o,
             "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src "
             "'unsafe-inline'\">\n<title>");
    html_text(o, path_name(info->path));
    text_out(o, "</title>\n<style>\n");
    for (int i = 0; page_style[i]; i++)
        text_out_bytes(o, page_style[i], strlen(page_style[i]));
    text_out(o, "</style>\n</head>\n<body>\n<main>\n<div class=\"kicker\">%s</div>\n<h1>",
             !info->contents ? "Model config"
                 : !info->cfg ? "Tokenizer"
                 : info->ours ? "Model file"
                              : info->kind);
    html_text(o, path_name(info->path));
    text_out(o, "</h1>\n<p class=\"sub\">");
    html_text(o, info->path);
    text_out(o, "</p>\n");
}

/* ---- Parameters ------------------------------------------------------------------------------ */

const char *part_colour(const CountPart *p)
{
    FlopOp op = tensor_row(p->role)->op;
    if (p->role == ROLE_EMBED || p->role == ROLE_LM_HEAD)
        return p->role == ROLE_EMBED ? "embed" : "head";
    return op == OP_COUNT                            ? "other"
        : flop_op_group(op) == GROUP_PROJECTIONS ? "proj"
        : flop_op_group(op) == GROUP_FFN         ? "ffn"
                                                 : "other";
}

static void draw_model_bar(TextOut *o, const Info *info)
{
    const Count *n = info->count;
    double       blocks[BLOCK_PARTS] = { 0 }; /* of all of them */
    char         text[6][24];
    for (int i = 0; i < n->n_parts; i++)
        if (n->part[i].in_layer)
            blocks[tensor_row(n->part[i].role)->part] += (double)n->part[i].params;
    PagePiece    piece[] = {
        { "embedding", "embed", (double)n->embed_params, text[0] },
        { "attention", "proj", blocks[PART_ATTENTION], text[1] },
        { "FFN", "ffn", blocks[PART_FFN], text[2] },
        { "norms", "other", blocks[PART_NORMS] + (double)n->final_norm_params, text[3] },
        { "head", "head", (double)n->head_params, text[4] },
        { "mtp layer", "ffn", (double)n->mtp_params, text[5] },
    };
    const int n_pieces = n->mtp_params ? 6 : 5;
    for (int i = 0; i < n_pieces; i++)
        params_text(piece[i].value, text[i], sizeof text[i]);
    page_bar(o, piece, n_pieces);
}

static void draw_parameters(Rows *r, const Info *info)
{
    char number[32];
    rows_page(r, "<section>\n<h2>Parameters</h2>\n<p class=\"say\">%s in total%s.</p>\n",
              form_count(info->count->params, number, sizeof number),
              info->cfg->tied_embeddings ? "; the head is the embedding (tied), which counts once"
                                         : "");
    draw_model_bar(&r->out, info);
    info_model_params(r, info);
    rows_page(r, "</section>\n");
}

static void draw_block(Rows *r, const Info *info)
{
    bool shown = diagram_shows(info->cfg);
    rows_page(r,
              "<section>\n<h2>One block</h2>\n<p class=\"say\">What happens to n tokens; t is "
              "the number of positions in the cache. The model has %d of these blocks, one after "
              "the other.%s</p>\n<div class=\"flow\"><div>\n",
              info->cfg->n_layers, shown ? " Dashed: the residual stream." : "");
    if (shown)
        draw_block_diagram(&r->out, info);
    else
        draw_block_formulas(&r->out, info->cfg);
    rows_page(r, "</div><div>\n");
    info_config(r, info->cfg);
    rows_page(r, "<h3>Parameters of one block</h3>\n%s",
              info_sizes_differ(info)
                  ? "<p class=\"say\">This is the first block; the blocks differ.</p>\n"
                  : "");
    info_block_params(r, info);
    rows_page(r, "</div></div>\n</section>\n");
}

/* ---- FLOP ------------------------------------------------------------------------------------ */

static void draw_flop_bar(TextOut *o, const char *title, const Flops *f, bool full)
{
    PagePiece piece[GROUP_COUNT];
    char      text[GROUP_COUNT][24], total[24];
    for (int g = 0; g < GROUP_COUNT; g++) {
        double v = full ? f->group[g].full : f->group[g].computed;
        piece[g] = (PagePiece){ flop_group_name((FlopGroup)g), group_colours[g], v,
                                form_si(v, text[g], sizeof text[g]) };
    }
    text_out(o, "<h3>%s: %s</h3>\n", title,
             form_si(full ? f->block.full : f->block.computed, total, sizeof total));
    page_bar(o, piece, GROUP_COUNT);
}

static void draw_flops(Rows *r, const Info *info)
{
    char number[32], title[96];
    rows_page(r,
              "<section>\n<h2>What one block computes</h2>\n<p class=\"say\">FLOP for a prompt "
              "of %s tokens and for a decode step that sees as many positions%s. A multiply-add "
              "counts as 2. Square: every query with every position. %s: every query with the "
              "positions it sees; this is what tblock computes.%s</p>\n",
              form_count((uint64_t)info->load.seq, number, sizeof number),
              info->load.batch > 1 ? ", for all sequences together" : "", info_seen(info),
              info->load.seq > info->cfg->n_ctx ? " The prompt is longer than the model's context."
                                                : "");
    draw_flop_bar(&r->out, "Prompt, full square", &info->prefill, true);
    snprintf(title, sizeof title, "Prompt, %s", info_seen(info));
    draw_flop_bar(&r->out, title, &info->prefill, false);
    draw_flop_bar(&r->out, "Decode step", &info->decode, false);
    info_flops(r, info);
    rows_page(r, "</section>\n");
}

/* ---- Length and memory ----------------------------------------------------------------------- */

static void say_length(TextOut *o, int length, const char *after)
{
    char number[32];
    text_out(o, "%s%s%s", length ? "from " : "at no length",
             length ? form_count((uint64_t)length, number, sizeof number) : "", after);
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

static void draw_memory(Rows *r, const Info *info)
{
    rows_page(r,
              "<section>\n<h2>Memory to run</h2>\n<p class=\"say\">At full context, as the runtime "
              "allocates it.</p>\n");
    draw_memory_bar(&r->out, &info->memory);
    info_memory(r, info);
    info_ranks(r, info);
    rows_page(r, "<h3>KV cache and attention scores</h3>\n");
    info_kv(r, info);
    rows_page(r, "</section>\n");
}

static void draw_file(Rows *r, const Info *info, bool tensors)
{
    rows_page(r, "<section>\n<h2>File</h2>\n");
    info_file(r, info);
    if (info->check) {
        rows_page(r, "<h3>Check of the data</h3>\n");
        info_check(r, info->check);
    }
    if (tensors) {
        rows_page(r, "<h3>Tensors</h3>\n<details><summary>%zu tensors</summary>\n",
                  info->contents->n_tensors);
        info_tensors(r, info->contents);
        rows_page(r, "</details>\n");
    }
    rows_page(r, "</section>\n");
}

void info_page(Rows *r, const Info *info, bool tensors)
{
    draw_head(&r->out, info);
    if (info->cfg) {
        draw_tiles(&r->out, info);
        draw_parameters(r, info);
        draw_block(r, info);
        draw_flops(r, info);
        draw_plots(&r->out, info);
        draw_memory(r, info);
    }
    if (info->contents)
        draw_file(r, info, tensors);
    rows_page(r, "<footer>tblock %s; docs/info.md explains how each number is counted.</footer>\n"
                 "</main>\n</body>\n</html>\n", TBLOCK_VERSION);
}
