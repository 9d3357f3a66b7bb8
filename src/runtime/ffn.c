/* runtime/ffn.c: the hidden values of a feed-forward network, with a gate or without. */
#include "runtime/ops.h"

/* h = act(h) * up, or act(h) where there is no gate. */
static void activate(const Run *r, float *h, const float *up, int n)
{
    switch (r->model->cfg.ffn) {
    case FFN_SWIGLU:    r->kernels->swiglu(h, h, up, n); break;
    case FFN_GEGLU:     r->kernels->geglu(h, h, up, n); break;
    case FFN_GEGLU_ERF: r->kernels->geglu_erf(h, h, up, n); break;
    case FFN_GELU:      r->kernels->gelu(h, h, n); break;
    case FFN_GELU_TANH: r->kernels->gelu_tanh(h, h, n); break;
    case FFN_RELU:      r->kernels->relu(h, h, n); break;
    }
}

void hidden(const Run *r, Rows h, Rows up, const Act *in, const Mat *w_gate, const Mat *w_up, int first, int end)
{
    bool gated = w_gate->rows > 0;
    int  at = first * PANEL_ROWS, width = columns(first, end - first, w_up->rows);
    multiply(r, h, in, gated ? w_gate : w_up, first, end);
    if (gated)
        multiply(r, up, in, w_up, first, end);
    for (int t = 0; t < h.n_tok && width > 0; t++)
        activate(r, h.data + (size_t)t * h.stride + at, up.data + (size_t)t * up.stride + at, width);
}

/* The hidden values' integers, which no member made of its own columns. */
static void integers_of_hidden(Run *r, const Act *h, int width, int bits)
{
    int units = (width + SUPERBLOCK - 1) / SUPERBLOCK, first, end;
    wait_all(r);
    my_share(r, r->n_tok * units, &first, &end);
    for (int i = first; i < end; i++) {
        int at = i % units * SUPERBLOCK;
        quantize(r, h, i / units, at, SUPERBLOCK < width - at ? SUPERBLOCK : width - at, bits);
    }
}

/* h = the hidden values of layer l, and their integers where bits says so: superblocks are whole, so a member makes those of
 * its own columns where all own as many. */
void feed_forward(Run *r, Act *h, const Act *up, const Act *in, int l, int bits)
{
    enum { UNIT = SUPERBLOCK / PANEL_ROWS };
    const Layer *w = &r->model->layer[l];
    int  width = w->w_up.rows, panels = panel_count(width), units = (panels + UNIT - 1) / UNIT, first, end;
    bool ours  = bits && units % r->team.n_threads == 0, gated = w->w_gate.rows > 0;
    enter(r, gated ? "gate_up" : "up", mat_read(&w->w_up) + (gated ? mat_read(&w->w_gate) : 0),
          mat_work(&w->w_gate, r->n_tok) + mat_work(&w->w_up, r->n_tok));
    my_share(r, ours ? units : panels, &first, &end);
    if (ours) {
        first *= UNIT;
        end = end * UNIT < panels ? end * UNIT : panels;
    }
    for (int p = first, n; p < end; p += n) {
        n = piece_panels(r->n_tok, end - first) < end - p ? piece_panels(r->n_tok, end - first) : end - p;
        hidden(r, all_rows(r, h), all_rows(r, up), in, &w->w_gate, &w->w_up, p, p + n);
        for (int t = 0; ours && t < r->n_tok; t++)
            quantize(r, h, t, p * PANEL_ROWS, columns(p, n, width), bits);
    }
    h->bits = bits;
    if (bits && !ours)
        integers_of_hidden(r, h, width, bits);
    wait_all(r);
}
