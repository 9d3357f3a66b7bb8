/* report/attn_json.c: attention maps as JSON. */
#include "report/attn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool attn_flush(TextOut *text, const AttnSink *out, Error *err)
{
    size_t n    = text->n;
    char  *data = text_out_take(text, err);
    bool   ok   = data && out->put(out->user, data, n, err);
    free(data);
    return ok;
}

static void int_list(TextOut *o, const char *key, const int *x, size_t n)
{
    json_out(o, "\n %s:", key);
    json_out_ints(o, x, n);
}

static void heading(TextOut *o, const AttnView *v)
{
    json_out(o, "{model: %s, sha256: %s, kv_type: %s, window: %d, windows: [", v->model, v->sha256,
             v->kv_type, v->cfg->window);
    for (int i = 0; i < v->n_layers; i++)
        json_out(o, "%d", config_window(v->cfg, v->layer[i]));
    json_out(o, v->cfg->window_chunked ? "], window_chunked: true" : "]");
    int_list(o, "tokens", v->token, v->n_tokens);
    json_out(o, v->piece ? "\n pieces: [" : "\n pieces: null");
    for (size_t i = 0; v->piece && i < v->n_tokens; i++) {
        json_out_comma(o);
        json_out_string(o, v->piece[i].bytes, v->piece[i].n_bytes);
    }
    json_out(o, v->piece ? "]" : "");
    int_list(o, "layers", v->layer, (size_t)v->n_layers);
    int_list(o, "heads", v->head, (size_t)v->n_heads);
    json_out(o, "\n attention: [");
}

/* One query's probabilities on a line. Nine digits read back as the same float. */
static void row(TextOut *o, const float *p, size_t n)
{
    text_out_bytes(o, "   [", 4);
    for (size_t k = 0; k < n; k++) {
        if (k > 0)
            text_out_bytes(o, ", ", 2);
        if (p[k] == 0)
            text_out_bytes(o, "0", 1);
        else if (isfinite(p[k]))
            text_out(o, "%.9g", (double)p[k]);
        else
            text_out_bytes(o, "null", 4);
    }
    text_out_bytes(o, "]", 1);
}

bool attn_json(const AttnView *v, const AttnSink *out, Error *err)
{
    TextOut      o = {0};
    const float *p = v->p;
    heading(&o, v);
    for (int l = 0; l < v->n_layers; l++)
        for (int h = 0; h < v->n_heads; h++) {
            text_out(&o, l || h ? ",\n  " : "\n  ");
            json_out(&o, "{layer: %d, head: %d, p: [", v->layer[l], v->head[h]);
            for (size_t q = 0; q < v->n_tokens; q++, p += v->n_tokens) {
                text_out(&o, q ? ",\n" : "\n");
                row(&o, p, v->n_tokens);
                if (!attn_flush(&o, out, err))
                    return false;
            }
            text_out(&o, "]}");
        }
    text_out(&o, "]}\n");
    return attn_flush(&o, out, err);
}
