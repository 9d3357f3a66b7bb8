/* runtime/short_conv.c: the short convolution of LFM2 (Liquid AI 2025) and before the delta rule,
 * token by token: each channel convolves its last values. They are the sequence's state, or its
 * first part, so a prompt in one chunk, in many, and decode are the same sums. */
#include <string.h>

#include "runtime/ops.h"

_Static_assert((int)MAX_TAPS == (int)MOST_TAPS, "what the kernel has room for");

/* This member's channels, and their position in a row of the state, which holds the `width`
 * channels of this rank. */
typedef struct Channels { int at, n, state_at, width; } Channels;

/* The tokens of one sequence. u is in conv_x; before its first row comes the state. */
static void convolve_span(Run *r, const Span *s, int l, const float *state, Channels mine)
{
    enum { AT_ONCE = 64 };
    const Layer *w    = &r->layer[l];
    const int    taps = r->model->cfg.conv_taps, before = taps - 1;
    const float *u[AT_ONCE + MAX_TAPS - 1];
    for (int first = 0, n; first < s->n_tok; first += n) {
        n = s->n_tok - first < AT_ONCE ? s->n_tok - first : AT_ONCE;
        for (int i = 0; i < n + before; i++) {
            int row = first + i - before;
            u[i]    = row < 0 ? state + (size_t)(row + before) * (size_t)mine.width + mine.state_at
                              : act_row(&r->conv_x, s->first + row) + mine.at;
        }
        r->kernels->short_conv(&(ConvArgs){
            .y = act_row(&r->conv_c, s->first + first) + mine.at,
            .y_stride = r->conv_c.stride,
            .u = u,
            .w = w->conv + (size_t)mine.at * (size_t)taps,
            .shift = w->conv_shift ? w->conv_shift + mine.at : NULL,
            .taps = taps,
            .n_tok = n,
            .n = mine.n,
            .silu = w->delta_qkv.rows > 0,
        });
    }
}

/* The state becomes the last rows of itself and u. */
static void keep_last(Run *r, const Span *s, float *state, Channels mine)
{
    const int    rows = r->model->cfg.conv_taps - 1;
    const size_t d    = (size_t)mine.width;
    state += mine.state_at;
    for (int i = 0; i < rows; i++) {
        int          row  = s->n_tok - rows + i;
        const float *from = row < 0 ? state + (size_t)(row + rows) * d
                                    : act_row(&r->conv_x, s->first + row) + mine.at;
        memcpy(state + (size_t)i * d, from, (size_t)mine.n * sizeof *state);
    }
}

static void some_channels(Run *r, int l, Channels mine)
{
    for (int t = 0; t < r->n_tok && r->layer[l].delta_qkv.rows == 0; t++) {
        const float *b = act_row(&r->conv_b, t) + mine.at;
        float       *u = act_row(&r->conv_x, t) + mine.at;
        for (int i = 0; i < mine.n; i++)
            u[i] = b[i] * u[i];
    }
    for (int i = 0; i < r->n_spans; i++) {
        float *state = r->kv_cache->seq[r->span[i].seq].layer[l].state;
        convolve_span(r, &r->span[i], l, state, mine);
        keep_last(r, &r->span[i], state, mine);
    }
}

/* A member has the same channels in every pass with as many members, so the state needs no barrier.
 * There is one between passes, and between the halves of one (gather.c). */
void short_conv(Run *r, int l)
{
    const Layer *w     = &r->layer[l];
    const bool   delta = w->delta_qkv.rows > 0; /* no product before and after */
    const Mat   *in    = delta ? &w->delta_qkv : &w->conv_x;
    const int    width = r->conv_x.width;
    if (!delta)
        touch(r, reads_own(&r->conv_b, BY_COLUMNS));
    touch(r, writes_own(r, &r->conv_x, BY_COLUMNS, in->cut),
          writes_own(r, &r->conv_c, BY_COLUMNS, in->cut));
    enter(r, "conv", 0, 2.0 * r->model->cfg.conv_taps * width * r->n_tok);
    for (int i = 0, before = 0, first, end; i < OWN_RUNS; i++) {
        Range run = in->own.run[i];
        my_panels_of(r, run, &first, &end);
        if (first < end)
            some_channels(r, l, (Channels){ first * PANEL_ROWS, columns(first, end - first, width),
                                            before + (first - run.first) * PANEL_ROWS,
                                            own_columns(&in->own, width) });
        before += (run.end - run.first) * PANEL_ROWS;
    }
}
