/* runtime/latent.c: multi-head latent attention (MLA; DeepSeek-AI 2024, "DeepSeek-V2", section
 * 2.1). The cache has one vector for all heads, so each head has two matrices of its own: w_uk maps
 * its query into the latent space, w_uv maps attention's result to its values. Each is multiplied
 * like any matrix, a head at a time: prefill, decode and threads give the same bits. */
#include <string.h>

#include "runtime/ops.h"

/* Position of a head's vector in its row: heads of `dim` values, from value `at` on. */
typedef struct HeadPart { Act *act; int dim, at; } HeadPart;

static float *part_row(const HeadPart *p, int head, int t)
{
    return act_row(p->act, t) + head * p->dim + p->at;
}

/* y = W in of one head, for n tokens from t on. */
static void one_head(Run *r, const HeadPart *y, const HeadPart *in, const Mat *w, int head, int t,
                     int n)
{
    Mat item        = mat_item(w, head);
    r->head_in.ints = item.ints;
    for (int i = 0; i < n; i++) {
        memcpy(act_row(&r->head_in, i), part_row(in, head, t + i),
               (size_t)w->k * sizeof(float));
        if (item.ints)
            quantize(r, &r->head_in, i, 0, w->k, item.ints);
    }
    multiply(r, (RowSpan){ r->head_out.data, r->head_out.stride, 0, n }, &r->head_in, &item, 0,
             panel_count(w->rows));
    for (int i = 0; i < n; i++)
        memcpy(part_row(y, head, t + i), act_row(&r->head_out, i),
               (size_t)w->rows * sizeof(float));
}

/* All heads of this rank. Members take runs of (head, tokens). */
static void multiply_heads(Run *r, HeadPart y, HeadPart in, const Mat *w)
{
    int pieces = (r->n_tok + HEAD_ROWS - 1) / HEAD_ROWS, heads = r->heads.end - r->heads.first,
        first, end;
    touch(r, reads_own(in.act, ANYWHERE), writes_own(r, y.act, ANYWHERE, RANK_HEADS));
    enter(r, w->op, mat_read(w) * heads, mat_work(w, r->n_tok) * heads);
    my_share(r, heads * pieces, &first, &end);
    for (int i = first; i < end; i++) {
        int t = i % pieces * HEAD_ROWS, n = r->n_tok - t < HEAD_ROWS ? r->n_tok - t : HEAD_ROWS;
        one_head(r, &y, &in, w, r->heads.first + i / pieces, t, n);
    }
}

/* The rotated values, which come first, are copied. */
void latent_query(Run *r, Act *q, Act *in, const Mat *w)
{
    const Config *c = &r->model->cfg;
    int           rotated = c->rotary_dim, dim = config_query_dim(c), first, end;
    multiply_heads(r, (HeadPart){ q, c->head_dim, rotated }, (HeadPart){ in, dim, rotated }, w);
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++)
        for (int h = r->heads.first; h < r->heads.end; h++)
            memcpy(act_row(q, t) + h * c->head_dim, act_row(in, t) + h * dim,
                   (size_t)rotated * sizeof(float));
}

/* Attention's result for the rotated values means nothing and is dropped. */
void latent_values(Run *r, Act *y, Act *in, const Mat *w)
{
    const Config *c = &r->model->cfg;
    multiply_heads(r, (HeadPart){ y, c->v_dim, 0 },
                   (HeadPart){ in, c->head_dim, c->rotary_dim }, w);
}
