/* model/importance.c: sums of squares, and the weights made of them. */
#include "model/importance.h"

#include <math.h>
#include <stdlib.h>

bool importance_new(Importance *m, const Config *c, Error *err)
{
    size_t n = ((size_t)c->n_layers + 2) * INPUT_COUNT;
    *m = (Importance){ .n = (int)n,
                       .k = calloc(n, sizeof *m->k),
                       .sum = calloc(n, sizeof *m->sum),
                       .weight = calloc(n, sizeof *m->weight),
                       .known = calloc(n, sizeof *m->known) };
    if (!m->k || !m->sum || !m->weight || !m->known)
        return no_memory(NULL, err);
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);) {
        int i = s.k && lora_role(s.role) ? lora_input(lora_number(s.layer, s.role)) : -1;
        if (i < 0 || i >= m->n || m->k[i])
            continue;
        m->k[i]      = s.k;
        m->sum[i]    = calloc((size_t)s.k, sizeof **m->sum);
        m->weight[i] = calloc((size_t)s.k, sizeof **m->weight);
        if (!m->sum[i] || !m->weight[i])
            return no_memory(NULL, err);
    }
    return true;
}

void importance_free(Importance *m)
{
    for (int i = 0; m->sum && m->weight && i < m->n; i++) {
        free(m->sum[i]);
        free(m->weight[i]);
    }
    for (int i = 0; m->matrix && i < m->n_matrices; i++)
        free(m->matrix[i]);
    free(m->matrix);
    free(m->k);
    free(m->sum);
    free(m->weight);
    free(m->known);
    *m = (Importance){ 0 };
}

void importance_add(Importance *m, int input, const float *x, int first, int end)
{
    double *sum = m->sum[input];
    for (int c = first; c < end && c < m->k[input]; c++)
        sum[c] += (double)x[c] * (double)x[c];
}

/* False, and weights of 1: every sum is 0. */
static bool weigh(const double *sum, int k, float *weight)
{
    double all = 0;
    for (int c = 0; c < k; c++)
        all += sum[c];
    for (int c = 0; c < k; c++) {
        double root = sqrt(all > 0 ? sum[c] / all * k : 1);
        weight[c]   = (float)(root * sqrt(root));
    }
    return all > 0;
}

bool importance_finish(Importance *m, Error *err)
{
    for (int i = 0; i < m->n; i++) {
        for (int c = 0; c < m->k[i]; c++)
            if (!isfinite(m->sum[i][c]))
                return fail(err, INPUT,
                            "calibrate: expected finite activations, found another one");
        m->known[i] = weigh(m->sum[i], m->k[i], m->weight[i]);
    }
    return true;
}

bool importance_room(Importance *m, const TensorSpec *s, Error *err)
{
    if (!m->matrix) {
        m->n_matrices = m->n / INPUT_COUNT * ROLE_COUNT;
        m->matrix     = calloc((size_t)m->n_matrices, sizeof *m->matrix);
    }
    float **at = m->matrix ? &m->matrix[lora_number(s->layer, s->role)] : NULL;
    if (at && !*at)
        *at = calloc((size_t)s->stack * (size_t)s->k, sizeof **at);
    return (at && *at) || no_memory(NULL, err);
}

void importance_put(Importance *m, const TensorSpec *s, int item, const double *sum)
{
    weigh(sum, s->k, m->matrix[lora_number(s->layer, s->role)] + (size_t)item * (size_t)s->k);
}

const float *importance_of(const Importance *m, const TensorSpec *s, int item)
{
    if (m->matrix) {
        const float *of = s->k ? m->matrix[lora_number(s->layer, s->role)] : NULL;
        return of ? of + (size_t)item * (size_t)s->k : NULL;
    }
    int i = m->n && s->k && lora_role(s->role) ? lora_input(lora_number(s->layer, s->role)) : -1;
    return i >= 0 && i < m->n && m->k[i] == s->k && m->known[i] ? m->weight[i] : NULL;
}
