/* model/lora_merge.c: W + s B A, in double (docs/numerics.md, "Adapters"). */
#include "model/lora.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

enum { COLUMNS = 256 }; /* of sums kept at once */

/* One adapter's change of one matrix. */
typedef struct Change {
    int    rank;       /* 0: none */
    double scale;
    float *a, *b;      /* [rank, k], [rows, rank] */
} Change;

struct LoraMerge {
    LoraSet set;
    Change *change[LORA_MOST]; /* [lora_number] of each */
};

/* ---- Making ---------------------------------------------------------------------------------- */

/* Rows first .. first + n - 1 of a matrix in panels; NULL: out of memory. */
static float *unpack(const Mat *m, int first, int n)
{
    float *out = calloc((size_t)n * (size_t)m->k, sizeof *out);
    for (int r = 0; out && r < n; r++)
        panel_row_to_f32(m->type, out + (size_t)r * (size_t)m->k,
                         panels_from(m->type, m->w, (first + r) / PANEL_ROWS, m->k),
                         (first + r) % PANEL_ROWS, m->k);
    return out;
}

static size_t n_numbers(const Lora *l) { return ((size_t)l->n_layers + 1) * ROLE_COUNT; }

static bool add_adapter(LoraMerge *m, int i)
{
    const Lora *l = m->set.use[i].lora;
    Change     *c = m->change[i] = calloc(n_numbers(l), sizeof *c);
    for (size_t number = 0; c && number < n_numbers(l); number++) {
        const LoraMat *mat = &l->mat[number];
        if (!mat->up.rows)
            continue;
        c[number].rank  = mat->up.k;
        c[number].scale = mat->scale * m->set.use[i].scale;
        c[number].a     = unpack(&l->down[lora_input((int)number)], mat->at, mat->up.k);
        c[number].b     = unpack(&mat->up, 0, mat->up.rows);
        if (!c[number].a || !c[number].b)
            return false;
    }
    return c != NULL;
}

LoraMerge *lora_merge_new(const LoraSet *set, Error *err)
{
    LoraMerge *m  = calloc(1, sizeof *m);
    bool       ok = m != NULL;
    if (ok)
        m->set = *set;
    for (int i = 0; ok && i < set->n; i++)
        ok = add_adapter(m, i);
    if (ok)
        return m;
    lora_merge_free(m);
    no_memory(NULL, err);
    return NULL;
}

void lora_merge_free(LoraMerge *m)
{
    for (int i = 0; m && i < m->set.n; i++) {
        size_t n = m->change[i] ? n_numbers(m->set.use[i].lora) : 0;
        for (size_t number = 0; number < n; number++) {
            free(m->change[i][number].a);
            free(m->change[i][number].b);
        }
        free(m->change[i]);
    }
    free(m);
}

/* ---- Using ----------------------------------------------------------------------------------- */

bool lora_merge_has(const LoraMerge *m, const TensorSpec *s)
{
    bool any = false;
    for (int i = 0; i < m->set.n && !s->bias && lora_role(s->role); i++)
        any = any
            || (s->layer < m->set.use[i].lora->n_layers
                && m->change[i][lora_number(s->layer, s->role)].rank > 0);
    return any;
}

/* To f32 so that rounding the result to fewer bits equals rounding x to them: an inexact result is
 * truncated and its last bit set ("round to odd"; Boldo and Melquiond 2008). */
static float round_to_odd(double x)
{
    float f = (float)x;
    if (!isfinite(x) || (double)f == x)
        return f;
    uint32_t bits = f32_bits(f);
    bits -= fabs((double)f) > fabs(x);
    return f32_from(bits | 1);
}

/* sum += scale * b A for columns c .. c + n - 1. The products are exact in double, so that fusing
 * them with the additions would change nothing. */
static void add_change(double sum[COLUMNS], const Change *x, const float *b, int k, int c, int n)
{
    double p[COLUMNS] = { 0 };
    for (int r = 0; r < x->rank; r++) {
        const float *a = x->a + (size_t)r * (size_t)k + c;
        for (int i = 0; i < n; i++)
            p[i] += (double)b[r] * (double)a[i];
    }
    for (int i = 0; i < n; i++)
        sum[i] += x->scale * p[i];
}

void lora_merge_rows(const LoraMerge *m, const TensorSpec *s, WeightType type, float *rows,
                     int first, int n)
{
    int  number = lora_number(s->layer, s->role), k = s->k;
    bool narrow = type == WT_F16 || type == WT_BF16;
    for (int j = 0; j < n; j++)
        for (int c = 0; c < k; c += COLUMNS) {
            float *w   = rows + (size_t)j * (size_t)k + c;
            int    len = k - c < COLUMNS ? k - c : COLUMNS;
            double sum[COLUMNS];
            for (int i = 0; i < len; i++)
                sum[i] = (double)w[i];
            for (int i = 0; i < m->set.n; i++) {
                const Change *x = &m->change[i][number];
                if (x->rank)
                    add_change(sum, x, x->b + (size_t)(first + j) * (size_t)x->rank, k, c, len);
            }
            for (int i = 0; i < len; i++)
                w[i] = narrow ? round_to_odd(sum[i]) : (float)sum[i];
        }
}
