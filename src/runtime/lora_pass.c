/* runtime/lora_pass.c: adapters in a pass. If a sequence uses some, y = W x becomes, for each of
 * them in turn, y + scale * B (A x) (docs/numerics.md, "Adapters"). A token's adapters are those of
 * its sequence, so one batch may use many.
 *
 * A x is computed once for all matrices that read x, as an activation of its own (r->low), before
 * the first of them is multiplied. B (A x) is added to the panels of y as soon as they are made. */
#include "runtime/ops.h"

enum { UP_ROWS = 64, UP_PANELS = 16 }; /* of B (A x) at once */

size_t lora_scratch_bytes(void) { return UP_ROWS * UP_PANELS * PANEL_ROWS * sizeof(float); }

static const LoraSet *set_of(const Run *r, int t) { return r->lora[r->token[t].seq]; }

/* The end of the tokens from t on, before `end`, that use the same adapters. */
static int same_until(const Run *r, int t, int end)
{
    int n = t + 1;
    while (n < end && set_of(r, n) == set_of(r, t))
        n++;
    return n;
}

int lora_columns(const LoraSet *s, int input)
{
    int n = 0;
    for (int i = 0; s && i < s->n; i++)
        n += s->use[i].lora->down[input].rows;
    return n;
}

static bool anyone(const Run *r, int input)
{
    bool any = false;
    for (int t = 0; t < r->n_tok && !any; t = same_until(r, t, r->n_tok))
        any = lora_columns(set_of(r, t), input) > 0;
    return any;
}

/* A x of the rows t .. end - 1, which use the same adapters: this member's share of the panels if
 * there are few tokens, else all. */
static void down(const Run *r, const Act *x, int input, int t, int end)
{
    const LoraSet *s = set_of(r, t);
    for (int i = 0, at = 0; s && i < s->n; i++) {
        const Mat *a = &s->use[i].lora->down[input];
        int        first = 0, last = panel_count(a->rows);
        if (r->n_tok <= OWN_ROWS)
            my_share(r, last, &first, &last);
        if (a->rows)
            multiply_panels(r, (RowSpan){ act_row(&r->low, t) + at, r->low.stride, t, end - t }, x,
                            a, panels_from(a->type, a->w, first, a->k), first, last);
        at += a->rows;
    }
}

void lora_prepare(Run *r, Act *x, const Mat *w)
{
    int input, first = 0, end = r->n_tok;
    if (!r->lora || w->number < 0)
        return;
    input = lora_input(w->number);
    if (x->low == input + 1 && r->low_input == input)
        return;
    x->low       = input + 1;
    r->low_input = input;
    if (!anyone(r, input))
        return;
    touch(r, reads(x, ANYWHERE), touches(&r->low.use, ANYWHERE, true));
    enter(r, "lora", 0, 0);
    if (r->n_tok > OWN_ROWS)
        my_share(r, r->n_tok, &first, &end);
    for (int t = first, next; t < end; t = next) {
        next = same_until(r, t, end);
        down(r, x, input, t, next);
    }
}

/* y += scale * B low for n rows from row t of the pass on, which is row `row` of y. */
static void up(const Run *r, RowSpan y, int row, int n, const LoraMat *m, float scale, int at,
               int first, int end)
{
    float *to = r->lora_scratch;
    Act    low = { .data = r->low.data + at, .stride = r->low.stride };
    for (int p = first, panels; p < end; p += panels) {
        panels = end - p < UP_PANELS ? end - p : UP_PANELS;
        multiply_panels(r, (RowSpan){ to, UP_PANELS * PANEL_ROWS, y.t + row, n }, &low, &m->up,
                        panels_from(m->up.type, m->up.w, p, m->up.k), 0, panels);
        for (int i = 0; i < n; i++)
            r->kernels->add_weighted(y.data + (size_t)(row + i) * y.stride + p * PANEL_ROWS,
                                     to + i * UP_PANELS * PANEL_ROWS, scale, panels * PANEL_ROWS);
    }
}

void lora_add(const Run *r, RowSpan y, const Mat *w, int first, int end)
{
    for (int row = 0, next; row < y.n_tok; row = next) {
        const LoraSet *s = set_of(r, y.t + row);
        next             = same_until(r, y.t + row, y.t + y.n_tok) - y.t;
        for (int i = 0, at = 0; s && i < s->n; i++) {
            const Lora    *l = s->use[i].lora;
            const LoraMat *m = &l->mat[w->number];
            for (int t = row; m->up.rows && t < next; t += UP_ROWS)
                up(r, y, t, next - t < UP_ROWS ? next - t : UP_ROWS, m,
                   (float)(m->scale * s->use[i].scale), at + m->at, first, end);
            at += l->down[lora_input(w->number)].rows;
        }
    }
}
