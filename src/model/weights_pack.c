/* model/weights_pack.c: lays matrices that a file has row by row out as panels. Those of float
 * types when a model is opened. Those of GGUF types later: packing takes longer than a pass, above
 * all where the system must first clear the memory, and a run of one pass never gains from it. So
 * the first pass packs a few panels at a time, which stay in a cache, and forgets them. */
#include "model/model.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* AT_ONCE: bytes of panels that are packed for one use; with the activations they stay in L2. */
enum { ALIGN = 64, AT_ONCE = 512 << 10 };

struct LateMatrix {
    TensorSpec    spec;
    CheckedTensor from;
    char         *to[MAX_PARTS]; /* in the model's region */
    size_t        row_bytes;
    bool          panels;        /* false: rows one after the other */
    Own           own;           /* the panels that are packed */
    atomic_int    left;          /* panels that are not there yet */
};

struct LateWeights {
    atomic_bool   asked, begun;
    atomic_size_t packed;        /* bytes */
    size_t        room;          /* of scratch for a thread */
    int           n;
    LateMatrix    matrix[];      /* [n] */
};

/* Packs panel p, counted through the stack. to: where its parts go. */
static void pack_panel(const LateMatrix *m, int p, char *const to[MAX_PARTS], char *scratch)
{
    const TensorSpec *s = &m->spec;
    int item = p / panel_count(s->rows), r = p % panel_count(s->rows) * PANEL_ROWS,
        n = tensor_spec_block_rows(s, p);
    const void *rows = checked_rows(s, &m->from, item, r, n, scratch);
    void       *part[MAX_PARTS] = { to[0], to[1], to[2] };
    if (m->panels)
        panel_make(m->from.type, part, rows, n, s->k);
    else
        memcpy(to[0], rows, (size_t)n * m->row_bytes);
}

/* Packs this thread's share, which it multiplies later (weights_team). */
static void pack_share(LateMatrix *m, Team team, char *scratch)
{
    const TensorSpec *s = &m->spec;
    int               first, end;
    threads_share(team, weights_count(&m->own), &first, &end);
    for (int i = first; i < end; i++) {
        int   p             = weights_panel(s, &m->own, i);
        char *to[MAX_PARTS] = { NULL };
        for (int part = 0; part < part_count(m->from.type); part++)
            to[part] = m->to[part]
                + (m->panels ? (size_t)p * part_bytes(m->from.type, part, s->k)
                             : (size_t)tensor_spec_block_row(s, p) * m->row_bytes);
        pack_panel(m, p, to, scratch);
    }
    if (first < end && atomic_fetch_sub(&m->left, end - first) == end - first)
        checked_release(&m->from);
}

static void describe(LateMatrix *m, Maker *mk, const TensorSpec *s, const CheckedTensor *c,
                     bool later, Panels *out)
{
    *m = (LateMatrix){ .spec = *s,
                       .from = *c,
                       .row_bytes = checked_row_bytes(s, c),
                       .panels = tensor_spec_panels(s, c->type),
                       .own = weights_panels(mk->m, s, later) };
    atomic_init(&m->left, weights_count(&m->own));
    weights_parts(mk, s, c->type, m->to, out);
}

/* ---- Now ------------------------------------------------------------------------------------- */

typedef struct PackJob { LateMatrix matrix; char *scratch; } PackJob;

static void pack_now(void *arg, Team team)
{
    PackJob *j = arg;
    pack_share(&j->matrix, team,
               j->scratch + (size_t)team.thread * j->matrix.row_bytes * PANEL_ROWS);
}

bool weights_pack(Maker *mk, const TensorSpec *s, const CheckedTensor *c, Panels *out)
{
    PackJob job;
    int     threads = weights_team(mk, tensor_spec_bytes(s, c->type)); /* this makes the pool */
    describe(&job.matrix, mk, s, c, false, out);
    job.scratch = malloc((size_t)threads * job.matrix.row_bytes * PANEL_ROWS);
    if (!job.scratch)
        return fail(mk->err, SYSTEM, "%s: not enough memory to load the weights", mk->path);
    threads_pool_run(mk->pool, threads, pack_now, &job);
    free(job.scratch);
    mk->m->owned_bytes += weights_share_bytes(s, c->type, &job.matrix.own);
    return true;
}

/* ---- Later ----------------------------------------------------------------------------------- */

/* Single rows of a table are read from the file meanwhile, so they must lie there as they are. */
static bool may_be_late(const TensorSpec *s, const CheckedTensor *c)
{
    return weight_type_gguf(c->type) && c->rows
        && (!tensor_spec_gathered(s) || row_source_in_place(c->rows, 0, 0));
}

/* What one panel, or as many as AT_ONCE allows, and its rows take. */
static size_t room_for(const LateMatrix *m)
{
    size_t panels = panel_bytes(m->from.type, m->spec.k) + MAX_PARTS * ALIGN;
    return round_up(m->row_bytes * PANEL_ROWS, ALIGN)
        + round_up(panels > AT_ONCE ? panels : AT_ONCE, ALIGN);
}

bool weights_pack_later(Maker *mk, const TensorSpec *s, const CheckedTensor *c, Panels *out,
                        const LateMatrix **late)
{
    Model *m = mk->m;
    size_t most = (size_t)tensor_list_count(&m->cfg);
    if (!may_be_late(s, c))
        return weights_pack(mk, s, c, out);
    if (!m->late)
        m->late = calloc(1, sizeof *m->late + most * sizeof *m->late->matrix);
    if (!m->late)
        return fail(mk->err, SYSTEM, "%s: not enough memory to load the weights", mk->path);
    LateMatrix *one = &m->late->matrix[m->late->n++];
    describe(one, mk, s, c, true, out);
    m->late->room = room_for(one) > m->late->room ? room_for(one) : m->late->room;
    *late         = one;
    return true;
}

void   late_weights_free(LateWeights *w) { free(w); }
size_t late_weights_room(const LateWeights *w) { return w ? w->room : 0; }

size_t late_weights_packed(const LateWeights *w)
{
    return w ? atomic_load_explicit(&w->packed, memory_order_relaxed) : 0;
}

bool late_weights_due(LateWeights *w, bool now)
{
    return w && (atomic_exchange(&w->asked, true) || now) && !atomic_exchange(&w->begun, true);
}

void late_weights_pack(LateWeights *w, Team team, void *scratch)
{
    for (int i = 0; i < w->n; i++) {
        pack_share(&w->matrix[i], team, scratch);
        if (team.thread == 0)
            atomic_fetch_add(&w->packed,
                             weights_share_bytes(&w->matrix[i].spec, w->matrix[i].from.type,
                                                 &w->matrix[i].own));
    }
}

bool late_matrix_packed(const LateMatrix *m)
{
    return atomic_load_explicit(&m->left, memory_order_acquire) == 0;
}

Panels late_matrix_panels(const LateMatrix *m, int first, int *n, void *scratch)
{
    WeightType type  = m->from.type;
    int        k     = m->spec.k;
    size_t     most  = AT_ONCE / (panel_bytes(type, k) + MAX_PARTS * ALIGN);
    char      *at    = (char *)scratch + round_up(m->row_bytes * PANEL_ROWS, ALIGN),
              *to[MAX_PARTS] = { NULL };
    Panels     out   = { { NULL } };
    *n = (size_t)*n <= most ? *n : most > 0 ? (int)most : 1;
    for (int i = 0; i < part_count(type); i++) {
        out.part[i] = to[i] = at;
        at += round_up((size_t)*n * part_bytes(type, i, k), ALIGN);
    }
    for (int p = 0; p < *n; p++) {
        pack_panel(m, first + p, to, scratch);
        for (int i = 0; i < part_count(type); i++)
            to[i] += part_bytes(type, i, k);
    }
    return out;
}

void late_matrix_row(const LateMatrix *m, int row, float *out)
{
    row_source_read_f32(m->from.rows, 0, row, 1, out, NULL);
}
