/* report/attn_html.c: the page of heat maps. The page itself is attn_page.html, beside this file;
 * the Makefile turns it into C strings. What goes in: one JSON object for all texts, and one base64
 * text of all visible cells: layers, heads, queries, keys ascending. A page has fewer than
 * ATTN_PAGE_BYTES: the heads share what its texts leave (docs/attn.md, "How large it is"). */
#include "report/attn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

static const char *const page[] = {
#include "report/attn_page.html.inc"
};

/* Inside a script element nothing may look like a tag; in JSON '<' occurs only in strings. */
static void script_text(TextOut *o, const TextOut *json)
{
    for (size_t i = 0; i < json->n; i++)
        if (json->text[i] == '<')
            text_out_bytes(o, "\\u003c", 6);
        else
            text_out_bytes(o, json->text + i, 1);
    o->failed |= json->failed;
}

static void ints(TextOut *o, const char *key, const int *x, size_t n)
{
    json_out(o, "\n%s:", key);
    json_out_ints(o, x, n);
}

/* Bytes of a label: enough for any word. All labels together take under half of the page, even if
 * each byte is written as \u003c. */
static size_t label_limit(size_t n_tokens)
{
    size_t share = 200000 / n_tokens;
    return share < 16 ? 16 : share > 64 ? 64 : share;
}

static void about(TextOut *o, const AttnView *v)
{
    TextOut json = { .compact = true };
    json_out(&json, "{model: %s, sha256: %s, kvType: %s, modelLayers: %d, modelHeads: %d, "
                    "kvHeads: %d, window: %d, windows: [",
             v->model, v->sha256, v->kv_type, v->cfg->n_layers, v->cfg->heads, v->cfg->kv_heads,
             v->cfg->window);
    for (int i = 0; i < v->n_layers; i++)
        json_out(&json, "%d", config_window(v->cfg, v->layer[i]));
    json_out(&json, "], chunked: %i", v->cfg->window_chunked);
    ints(&json, "layers", v->layer, (size_t)v->n_layers);
    ints(&json, "heads", v->head, (size_t)v->n_heads);
    ints(&json, "ids", v->token, v->n_tokens);
    json_out(&json, v->piece ? "\nlabels: [" : "\nlabels: null}");
    for (size_t i = 0; v->piece && i < v->n_tokens; i++) {
        json_out_comma(&json);
        attn_label(&json, &v->piece[i], label_limit(v->n_tokens));
    }
    json_out(&json, v->piece ? "]}" : "");
    text_out(o, "<script type=\"application/json\" id=\"about\">\n");
    script_text(o, &json);
    text_out(o, "\n</script>\n");
    text_out_free(&json);
}

/* ---- How fine -------------------------------------------------------------------------------- */

/* How probabilities become cells: each shows the largest of `block` queries by `block` keys.
 * exact: as f16, which keeps three digits of what is over 1e-4; else one byte (code_of). */
typedef struct Cells { size_t block; bool exact; } Cells;

enum {
    CELLS_TAGS = 128,  /* at most: the tags around them                    */
    MOST_ROWS  = 1024, /* a browser draws a canvas of this side at once */
};

/* The first cell of row i of layer l that has a visible key: that of its first query. */
static size_t first_cell(const AttnView *v, int l, size_t block, size_t i)
{
    return (size_t)window_oldest(config_window(v->cfg, v->layer[l]), v->cfg->window_chunked,
                                 (int)(i * block))
        / block;
}

static size_t count_cells(const AttnView *v, size_t block)
{
    size_t n = 0, rows = (v->n_tokens + block - 1) / block;
    for (int l = 0; l < v->n_layers; l++)
        for (size_t i = 0; i < rows; i++)
            n += i + 1 - first_cell(v, l, block, i);
    return n * (size_t)v->n_heads;
}

static size_t base64_length(size_t n_bytes) { return (n_bytes + 2) / 3 * 4; }

/* The finest cells whose base64 has at most `room` characters. One cell per head may not fit. */
static bool choose_cells(Cells *c, const AttnView *v, size_t room, Error *err)
{
    *c       = (Cells){ .block = (v->n_tokens + MOST_ROWS - 1) / MOST_ROWS };
    c->exact = c->block == 1 && base64_length(2 * count_cells(v, 1)) <= room;
    while (!c->exact && c->block <= v->n_tokens && base64_length(count_cells(v, c->block)) > room)
        c->block++;
    return c->block <= v->n_tokens
        || fail(err, USAGE, "attention: html: %d layers x %d heads do not fit in a page of %d MB: "
                "choose fewer layers or heads", v->n_layers, v->n_heads, ATTN_PAGE_BYTES / 1000000);
}

/* 0: 0, or under 2^-15.8; 1 to 254: 2^-15.8 to 1, sixteen to a doubling; 255: not a number. */
static unsigned code_of(float p)
{
    if (!(p <= 1))
        return isnan(p) ? 255 : 254;
    static const double ln_2 = 0x1.62e42fefa39efp-1;
    double code = p > 0x1p-16F ? 254.5 + 16 * math64_log((double)p) / ln_2 : 0;
    return code >= 1 ? (unsigned)code : 0;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* The largest probability in cell (i, k) of a head; NaN if one is. Masked ones are 0. */
static float largest(const float *p, size_t n, size_t block, size_t i, size_t k)
{
    float most = 0;
    for (size_t q = i * block; q < least(n, (i + 1) * block); q++)
        for (size_t key = k * block; key < least(n, (k + 1) * block); key++)
            if (!(p[q * n + key] <= most) && !isnan(most))
                most = p[q * n + key];
    return most;
}

static void head_data(Base64 *b, const AttnView *v, const Cells *c, int l, const float *p)
{
    for (size_t i = 0; i * c->block < v->n_tokens; i++)
        for (size_t k = first_cell(v, l, c->block, i); k <= i; k++) {
            float    shown = largest(p, v->n_tokens, c->block, i, k);
            unsigned code  = c->exact ? f32_to_f16(shown) : code_of(shown);
            base64_byte(b, code);
            if (c->exact)
                base64_byte(b, code >> 8);
        }
}

static bool put_cells(TextOut *o, const AttnView *v, const Cells *c, const AttnSink *out,
                      Error *err)
{
    Base64       b = {.out = o};
    const float *p = v->p;
    text_out(o, "<script type=\"text/plain\" id=\"data\" data-block=\"%zu\" data-exact=\"%d\">",
             c->block, c->exact);
    for (int l = 0; l < v->n_layers; l++)
        for (int h = 0; h < v->n_heads; h++, p += v->n_tokens * v->n_tokens) {
            head_data(&b, v, c, l, p);
            if (!attn_flush(o, out, err))
                return false;
        }
    base64_end(&b);
    text_out(o, "</script>\n");
    return true;
}

/* ---- The page -------------------------------------------------------------------------------- */

static bool put_page(TextOut *o, const AttnView *v, const TextOut *texts, const Cells *c,
                     const AttnSink *out, Error *err)
{
    size_t n_lines = sizeof page / sizeof *page, i = 0;
    for (; i < n_lines && strcmp(page[i], "@DATA@\n") != 0; i++)
        text_out_bytes(o, page[i], strlen(page[i]));
    text_out_bytes(o, texts->text, texts->n);
    if (!put_cells(o, v, c, out, err))
        return false;
    for (i++; i < n_lines; i++)
        text_out_bytes(o, page[i], strlen(page[i]));
    return attn_flush(o, out, err);
}

bool attn_html(const AttnView *v, const AttnSink *out, Error *err)
{
    TextOut o = {0}, texts = {0};
    Cells   c = {0};
    size_t  used = CELLS_TAGS;
    for (size_t i = 0; i < sizeof page / sizeof *page; i++)
        used += strlen(page[i]);
    about(&texts, v);
    used += texts.n;
    bool ok = (!texts.failed || no_memory(NULL, err))
           && choose_cells(&c, v, ATTN_PAGE_BYTES - least(used, ATTN_PAGE_BYTES), err)
           && put_page(&o, v, &texts, &c, out, err);
    text_out_free(&texts);
    return ok;
}
