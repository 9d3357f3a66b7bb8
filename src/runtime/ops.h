/* runtime/ops.h: what the operations of a forward pass share. Private to the files that hold them: rows.c (what each token has
 * for itself), products.c, qkv.c, attention.c, attention_probs.c, ffn.c, experts.c, head.c.
 *
 * An operation is run by every member of the team; each computes the rows, panels or heads it owns with r->kernels. Meetings
 * are few, for at one token they would cost as much as the small operations between them:
 *  - who computes columns of a product goes on with them: rotates its heads, gates its hidden values, adds to its part of x;
 *  - what every member reads and is quickly computed (norms, integers) each computes for itself where tokens are few.
 * Who computes what never shows in the bits. */
#ifndef RUNTIME_OPS_H
#define RUNTIME_OPS_H

#include "runtime/run.h"

static inline void my_share(const Run *r, int n, int *first, int *end) { threads_share(r->team, n, first, end); }
static inline void wait_all(const Run *r) { threads_barrier(r->team); }

/* Rows that this member computes; wait_rows: before another one's are read. */
static inline void my_rows(const Run *r, int *first, int *end)
{
    *first = 0;
    *end   = r->n_tok;
    if (!r->own_rows)
        my_share(r, r->n_tok, first, end);
}
static inline void wait_rows(const Run *r)
{
    if (!r->own_rows)
        wait_all(r);
}

/* For the profile: an operation begins, which reads so many bytes of weights. */
static inline void enter(const Run *r, const char *name, double bytes, double operations)
{
    if (r->profile)
        profile_enter(r->profile, name, bytes, operations);
}
static inline double mat_read(const Mat *w) { return (double)panel_bytes(w->type, w->k) * panel_count(w->rows); }
static inline double mat_work(const Mat *w, int n_tok) { return 2.0 * w->rows * w->k * n_tok; }

/* Panels that are multiplied before their columns are gone on with: few where tokens are many, so that the columns are
 * still in the cache; 32 are 512 columns. */
static inline int piece_panels(int n_tok, int panels) { return n_tok > OWN_ROWS && panels > 32 ? 32 : panels; }

/* Columns of n panels from panel p on, in rows of that width. */
static inline int columns(int p, int n, int width) { return n * PANEL_ROWS < width - p * PANEL_ROWS ? n * PANEL_ROWS : width - p * PANEL_ROWS; }

/* Where a product goes: n_tok rows; those that are multiplied begin with row t of the other activation. */
typedef struct Rows { float *data; size_t stride; int t, n_tok; } Rows;

static inline Rows all_rows(const Run *r, const Act *y) { return (Rows){y->data, y->stride, 0, r->n_tok}; }

/* y = norm(x) of n values, the config's kind; y may be x. */
void normalize(const Run *r, float *y, const float *x, NormVectors v, int n);

/* Integers of n values of row t from column `at` on, a multiple of 256. */
void quantize(const Run *r, const Act *x, int t, int at, int n, int bits);

/* y = W x + bias, panels first .. end - 1. */
void multiply(const Run *r, Rows y, const Act *x, const Mat *w, int first, int end);

/* Hidden values of a feed-forward network: panels first .. end - 1 of h = act(W_gate in) * (W_up in), or of act(W_up in). up: room. */
void hidden(const Run *r, Rows h, Rows up, const Act *in, const Mat *w_gate, const Mat *w_up, int first, int end);

/* x = x + y * residual_scale in the columns of n panels from p on; and where a norm stands behind the sublayer, of all of y, to
 * which each member has computed its share: x = x + norm(y) * residual_scale. Ends with a meeting. */
void add_columns(const Run *r, const Act *x, const Act *y, int p, int n);
void add_normed(Run *r, const Act *x, const Act *y, NormVectors v);

#endif
