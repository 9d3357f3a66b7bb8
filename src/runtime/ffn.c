/* runtime/ffn.c: the feed-forward network: activations between two products. */
#include "runtime/ops.h"

#include <math.h>

/* h = (g * sigmoid(alpha * g)) * (u + 1), with g and u cut at the limit. */
static void limited_swiglu(const Run *r, float *h, const float *up, int n)
{
    enum { PIECE = 512 };
    float s[PIECE], most = r->gate_limit;
    for (int at = 0, m; at < n; at += m) {
        m = n - at < PIECE ? n - at : PIECE;
        for (int i = 0; i < m; i++) {
            h[at + i] = cut_at(h[at + i], -INFINITY, most);
            s[i]      = r->gate_alpha * h[at + i];
        }
        r->kernels->sigmoid(s, s, m);
        for (int i = 0; i < m; i++)
            h[at + i] = h[at + i] * s[i] * (cut_at(up[at + i], -most, most) + 1.0f);
    }
}

/* h = act(h) * up, or act(h) if there is no gate. */
#define OF_GATED   h, h, up, n
#define OF_PLAIN   h, h, n
#define OF_NUMBERS h, h, r->xielu, n
#define ACTIVATE(kind, kernel, form, ...) \
    case FFN_##kind: r->kernels->kernel(OF_##form); break;
static void activate(const Run *r, float *h, const float *up, int n)
{
    if (r->gate_limit != 0.0f) {
        limited_swiglu(r, h, up, n);
        return;
    }
    switch (r->model->cfg.ffn) {
        ACTIVATIONS(ACTIVATE)
    case FFN_KINDS: break;
    }
}

void hidden_panels(const Run *r, RowSpan h, RowSpan up, const Act *in, const Mat *w_gate,
                   const Mat *w_up, int first, int end, const Act *made, Integers ints)
{
    bool gated = w_gate->rows > 0;
    int  most  = piece_panels(h.n_tok, end - first);
    for (int p = first, n; p < end; p += n) {
        n = most < end - p ? most : end - p;
        int at = p * PANEL_ROWS, width = columns(p, n, w_up->rows);
        multiply(r, h, in, gated ? w_gate : w_up, p, p + n);
        if (gated)
            multiply(r, up, in, w_up, p, p + n);
        for (int t = 0; t < h.n_tok && width > 0; t++) {
            float *row = h.data + (size_t)t * h.stride + at;
            activate(r, row, up.data + (size_t)t * up.stride + at, width);
            if (made)
                quantize(r, made, t, at, width, ints);
        }
    }
}

/* Also makes the integers that w_down reads, while the columns are in the cache. Superblocks
 * must be whole, so this works only if all members own the same number of them. Otherwise w_down
 * makes them when it reads h. */
void hidden(Run *r, Act *h, Act *in, const Layer *w)
{
    const Mat *w_gate = &w->w_gate, *w_up = &w->w_up;
    enum { UNIT = SUPERBLOCK / PANEL_ROWS };
    int  panels = panel_count(w_up->rows), units = (panels + UNIT - 1) / UNIT, first, end;
    Integers ints = w_up->out_ints;
    bool gated  = w_gate->rows > 0, ours = ints && units % r->team.n_threads == 0 && !r->ranks;
    Cut  cut    = ours ? ANYWHERE : BY_COLUMNS;
    r->xielu = w->xielu;
    h->width = w_up->rows; /* experts of other layers may be wider */
    prepare(r, in, w_up);
    if (gated)
        prepare(r, in, w_gate);
    touch(r, reads(in, ANYWHERE), reads_low(r), writes_own(r, h, cut, RANK_PANELS),
          writes_own(r, &r->up, cut, RANK_PANELS));
    enter(r, gated ? "gate_up" : "up", mat_read(w_up) + (gated ? mat_read(w_gate) : 0),
          mat_work(w_gate, r->n_tok) + mat_work(w_up, r->n_tok));
    my_panels(r, w_up, &first, &end);
    if (ours) {
        my_share(r, units, &first, &end);
        first *= UNIT;
        end = end * UNIT < panels ? end * UNIT : panels;
    }
    hidden_panels(r, all_rows(r, h), all_rows(r, &r->up), in, w_gate, w_up, first, end,
                  ours ? h : NULL, ints);
    h->ints = ours ? ints : INT_NONE;
}
