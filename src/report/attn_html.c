/* report/attn_html.c: the page of heat maps. The page itself is attn_page.html, beside this file; the Makefile makes lines of
 * C strings of it. What goes in: one JSON object for all texts, and for each layer the visible probabilities as f16 in
 * base64: heads, queries, keys ascending. f16 keeps three digits of what is over 1e-4; the other formats keep all. */
#include "report/attn.h"

#include <stdlib.h>
#include <string.h>

#include "base/half.h"

static const char *const page[] = {
#include "report/attn_page.html.inc"
};

/* Inside a script element nothing may look like a tag; in JSON '<' only stands in strings. */
static void script_text(JsonOut *o, const JsonOut *json)
{
    for (size_t i = 0; i < json->n; i++)
        if (json->text[i] == '<')
            json_out_bytes(o, "\\u003c", 6);
        else
            json_out_bytes(o, json->text + i, 1);
    o->failed |= json->failed;
}

static void ints(JsonOut *o, const char *key, const int *x, size_t n)
{
    json_out(o, ",\n\"%s\":[", key);
    for (size_t i = 0; i < n; i++)
        json_out(o, "%s%d", i ? "," : "", x[i]);
    json_out(o, "]");
}

static void text(JsonOut *o, const char *key, const char *s)
{
    json_out(o, "\"%s\":", key);
    json_out_string(o, s, strlen(s));
    json_out(o, ",");
}

static void about(JsonOut *o, const AttnView *v)
{
    JsonOut json = {0};
    json_out(&json, "{");
    text(&json, "model", v->model);
    text(&json, "sha256", v->sha256);
    text(&json, "kvType", v->kv_type);
    json_out(&json, "\"modelLayers\":%d,\"modelHeads\":%d,\"kvHeads\":%d,\"window\":%d", v->cfg->n_layers, v->cfg->heads,
             v->cfg->kv_heads, v->cfg->window);
    json_out(&json, ",\"windows\":");
    for (int i = 0; i < v->n_layers; i++)
        json_out(&json, "%s%d", i ? "," : "[", config_window(v->cfg, v->layer[i]));
    json_out(&json, "]");
    ints(&json, "layers", v->layer, (size_t)v->n_layers);
    ints(&json, "heads", v->head, (size_t)v->n_heads);
    ints(&json, "ids", v->token, v->n_tokens);
    json_out(&json, ",\n\"labels\":");
    for (size_t i = 0; v->piece && i < v->n_tokens; i++) {
        json_out(&json, i ? "," : "[");
        attn_label(&json, &v->piece[i]);
    }
    json_out(&json, v->piece ? "]}" : "null}");
    json_out(o, "<script type=\"application/json\" id=\"about\">\n");
    script_text(o, &json);
    json_out(o, "\n</script>\n");
    free(json.text);
}

typedef struct Base64 { JsonOut *out; unsigned held; int n; } Base64; /* n: bytes in held */

static void base64_byte(Base64 *b, unsigned byte)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    b->held = b->held << 8 | byte;
    if (++b->n == 3) {
        json_out_bytes(b->out, (char[]){digit[b->held >> 18 & 63], digit[b->held >> 12 & 63], digit[b->held >> 6 & 63], digit[b->held & 63]}, 4);
        b->held = 0;
        b->n    = 0;
    }
}

/* The last one or two bytes with zeros behind them, which the page ignores; no '='. */
static void base64_end(Base64 *b)
{
    while (b->n > 0)
        base64_byte(b, 0);
}

static bool layer_data(JsonOut *o, const AttnView *v, int layer, const float *p, const AttnSink *out, Error *err)
{
    Base64 b = {.out = o};
    int    window = config_window(v->cfg, layer), n = (int)v->n_tokens;
    json_out(o, "<script type=\"text/plain\" class=\"layer\">");
    for (int h = 0; h < v->n_heads; h++) {
        for (int q = 0; q < n; q++, p += n)
            for (int k = window && q >= window ? q - window + 1 : 0; k <= q; k++) {
                unsigned half = f32_to_f16(p[k]);
                base64_byte(&b, half & 0xFF);
                base64_byte(&b, half >> 8);
            }
        if (!attn_flush(o, out, err))
            return false;
    }
    base64_end(&b);
    json_out(o, "</script>\n");
    return attn_flush(o, out, err);
}

bool attn_html(const AttnView *v, const AttnSink *out, Error *err)
{
    JsonOut o = {0};
    size_t  n_lines = sizeof page / sizeof *page, layer = (size_t)v->n_heads * v->n_tokens * v->n_tokens, i = 0;
    for (; i < n_lines && strcmp(page[i], "@DATA@\n") != 0; i++)
        json_out_bytes(&o, page[i], strlen(page[i]));
    about(&o, v);
    for (int l = 0; l < v->n_layers; l++)
        if (!layer_data(&o, v, v->layer[l], v->p + (size_t)l * layer, out, err))
            return false;
    for (i++; i < n_lines; i++)
        json_out_bytes(&o, page[i], strlen(page[i]));
    return attn_flush(&o, out, err);
}
