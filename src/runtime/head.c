/* runtime/head.c: logits. */
#include "base/checked.h"
#include "runtime/ops.h"

/* Panels first .. end - 1 of the logits of n tokens from t on, whose logits lie one after the other. */
static void logits_of(const Run *r, const Act *xn, int t, int n, size_t stride, int first, int end)
{
    float *x = r->token[t].logits + (size_t)first * PANEL_ROWS;
    multiply(r, (Rows){r->token[t].logits, stride, t, n}, xn, &r->model->lm_head, first, end);
    for (int i = 0; i < n && first < end; i++, x += stride) {
        if (r->logit_scale != 1.0f)
            r->kernels->scale(x, r->logit_scale, (end - first) * PANEL_ROWS);
        if (r->logit_softcap != 0.0f)
            r->kernels->soft_cap(x, r->logit_softcap, (end - first) * PANEL_ROWS);
    }
}

/* Logits of the tokens that want them: runs of neighbours whose logits lie one after the other are one product. */
void head(Run *r, const Act *xn)
{
    const Mat *w      = &r->model->lm_head;
    size_t     stride = round_up((size_t)w->rows, LANES);
    int        first, end, n_tok = 0;
    for (int t = 0; r->profile && t < r->n_tok; t++)
        n_tok += r->token[t].logits != NULL;
    enter(r, "head", n_tok ? mat_read(w) : 0, mat_work(w, n_tok));
    my_share(r, panel_count(w->rows), &first, &end);
    for (int t = 0, n; t < r->n_tok; t += n) {
        n = 1;
        if (r->token[t].logits)
            for (; t + n < r->n_tok && r->token[t + n].logits == r->token[t].logits + (size_t)n * stride;)
                n++;
        if (r->token[t].logits)
            logits_of(r, xn, t, n, stride, first, end);
    }
    wait_all(r);
    enter(r, NULL, 0, 0);
}
