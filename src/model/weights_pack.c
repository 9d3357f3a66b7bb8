/* model/weights_pack.c: packs row-major matrices of a file into panels: float types when a model is
 * opened, if there is memory for them; else, and GGUF types always, from the second pass on.
 * Packing costs more than one pass, above all if the system must first clear the memory, so a run
 * of one pass would never gain from it. The first pass packs a few panels at a time, which stay in
 * a cache, and drops them. */
#include "model/model.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/model_writer.h"

/* AT_ONCE: bytes of panels that are packed for one use; with the activations they stay in L2. */
enum { ALIGN = 64, AT_ONCE = 512 << 10 };

struct LateMatrix {
    TensorSpec    spec;
    CheckedTensor from;
    char         *to[MAX_PARTS]; /* in the model's region */
    WeightType    type;          /* the type it gets */
    size_t        row_bytes;     /* 0: panels already */
    bool          panels;        /* false: rows one after the other */
    bool          retyped;       /* a retyped table: its other rows are made when read */
    Own           own;           /* the panels that are packed */
    atomic_int    left;          /* panels that are not there yet */
};

struct LateWeights {
    atomic_bool   asked, begun;
    atomic_size_t packed;        /* bytes */
    size_t        room;          /* of scratch for a thread */
    size_t        copies;        /* bytes of those that are panels in the file */
    size_t        rows;          /* bytes of panels of the others */
    bool          roomy;         /* the machine has enough memory for the copies */
    bool          fits;          /* and for the others */
    int           n;
    LateMatrix    matrix[];      /* [n] */
};

/* Packs panel p, counted through the stack. to: where its parts go. */
static void pack_panel(const LateMatrix *m, int p, char *const to[MAX_PARTS], char *scratch)
{
    const TensorSpec *s = &m->spec;
    if (m->from.panels) {
        Panels from = panels_from(m->from.type, checked_panels(&m->from), p, s->k);
        for (int i = 0; i < part_count(m->from.type); i++)
            memcpy(to[i], from.part[i], part_bytes(m->from.type, i, s->k));
        return;
    }
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
        char *to[MAX_PARTS] = { NULL };
        for (int part = 0; part < part_count(m->from.type); part++)
            to[part] = m->to[part]
                + (size_t)i
                    * (m->panels ? part_bytes(m->from.type, part, s->k)
                                 : PANEL_ROWS * m->row_bytes);
        pack_panel(m, weights_panel(s, &m->own, i), to, scratch);
    }
    if (first < end && atomic_fetch_sub(&m->left, end - first) == end - first)
        checked_release(&m->from);
}

static void describe(LateMatrix *m, const Maker *mk, const TensorSpec *s, const CheckedTensor *c,
                     WeightType type)
{
    *m = (LateMatrix){ .spec = *s,
                       .from = *c,
                       .type = type,
                       .row_bytes = c->panels ? 0 : checked_row_bytes(s, c),
                       .panels = tensor_spec_panels(s, type),
                       .own = model_panels(mk->m, s->role, s->rows, s->stack) };
}

/* Reserves memory for the panels to be packed. */
static void take_room(LateMatrix *m, Maker *mk, Panels *out)
{
    weights_parts(mk, &m->spec, m->type, &m->own, m->to, out);
    atomic_init(&m->left, weights_count(&m->own));
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
    describe(&job.matrix, mk, s, c, c->type);
    take_room(&job.matrix, mk, out);
    job.scratch = malloc((size_t)threads * job.matrix.row_bytes * PANEL_ROWS);
    if (!job.scratch)
        return fail(mk->err, SYSTEM, "%s: not enough memory to load the weights", mk->path);
    threads_pool_run(mk->pool, threads, pack_now, &job);
    free(job.scratch);
    mk->m->owned_bytes += weights_made_bytes(s, c->type, &job.matrix.own);
    return true;
}

/* ---- Later ----------------------------------------------------------------------------------- */

/* Until then, single rows of a table are read from the file, so they must be there unchanged; and
 * panels are multiplied there. */
bool weights_may_be_late(const Maker *mk, const TensorSpec *s, const CheckedTensor *c)
{
    bool aligned = c->panels;
    for (int i = 0; aligned && i < part_count(c->type); i++)
        aligned = (uintptr_t)c->part[i]->data % ALIGN == 0;
    return c->panels ? aligned : (weight_type_gguf(c->type) || mk->floats_late) && c->rows
        && (!tensor_spec_gathered(s) || row_source_in_place(c->rows, 0, 0));
}

/* Bytes for one panel, or as many as AT_ONCE allows, with its rows; or to make one row. */
static size_t room_for(const LateMatrix *m)
{
    size_t panels = panel_bytes(m->type, m->spec.k) + MAX_PARTS * ALIGN;
    if (m->retyped)
        return round_up(panels, ALIGN) + retype_scratch_bytes(m->spec.k);
    return round_up(m->row_bytes * PANEL_ROWS, ALIGN)
        + round_up(panels > AT_ONCE ? panels : AT_ONCE, ALIGN);
}

static LateMatrix *add_late(Maker *mk, const TensorSpec *s, const CheckedTensor *c,
                            WeightType type, bool retyped)
{
    Model *m    = mk->m;
    size_t most = (size_t)tensor_list_count(&m->cfg);
    if (!m->late)
        m->late = calloc(1, sizeof *m->late + most * sizeof *m->late->matrix);
    if (!m->late) {
        fail(mk->err, SYSTEM, "%s: not enough memory to load the weights", mk->path);
        return NULL;
    }
    LateMatrix *one = &m->late->matrix[m->late->n++];
    describe(one, mk, s, c, type);
    one->retyped  = retyped;
    m->late->room = room_for(one) > m->late->room ? room_for(one) : m->late->room;
    return one;
}

bool weights_pack_later(Maker *mk, const TensorSpec *s, const CheckedTensor *c, Panels *out,
                        const LateMatrix **late)
{
    if (!weights_may_be_late(mk, s, c))
        return weights_pack(mk, s, c, out);
    LateMatrix *one = add_late(mk, s, c, c->type, false);
    if (!one)
        return false;
    take_room(one, mk, out);
    *late = one;
    *(c->panels ? &mk->m->late->copies : &mk->m->late->rows) +=
        weights_made_bytes(s, c->type, &one->own);
    return true;
}

bool weights_table(Maker *mk, const TensorSpec *s, const CheckedTensor *c, WeightType type,
                   bool retyped, const LateMatrix **late)
{
    return (*late = add_late(mk, s, c, type, retyped)) != NULL;
}

void   late_weights_free(LateWeights *w) { free(w); }
size_t late_weights_room(const LateWeights *w) { return w ? w->room : 0; }

size_t late_weights_packed(const LateWeights *w)
{
    return w ? atomic_load_explicit(&w->packed, memory_order_relaxed) : 0;
}

void late_weights_measure(LateWeights *w, int n, double available)
{
    if (!w)
        return;
    w->roomy = (double)w->copies * n < 0.75 * available;
    w->fits  = available <= 0 || (double)w->rows * n < 0.9 * available;
}

size_t late_weights_left(const LateWeights *w) { return w && !w->fits ? w->rows : 0; }

size_t late_weights_to_come(const LateWeights *w)
{
    const size_t done = late_weights_packed(w);
    return w && w->fits && w->rows > done ? w->rows - done : 0;
}

bool late_weights_optional(const LateWeights *w) { return w && w->copies > 0; }
bool late_weights_roomy(const LateWeights *w) { return w->roomy; }

bool late_weights_due(LateWeights *w, bool now)
{
    return w && w->fits && (atomic_exchange(&w->asked, true) || now)
        && !atomic_exchange(&w->begun, true);
}

void late_weights_pack(LateWeights *w, Team team, void *scratch)
{
    for (int i = 0; i < w->n; i++) {
        LateMatrix *m = &w->matrix[i];
        if (late_matrix_packed(m)) /* a table, or this member has no share of it */
            continue;
        pack_share(m, team, scratch);
        if (team.thread == 0)
            atomic_fetch_add(&w->packed, weights_made_bytes(&m->spec, m->type, &m->own));
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
    char      *at, *to[MAX_PARTS] = { NULL };
    Panels     out   = { { NULL } };
    if (m->from.panels)
        return panels_from(type, checked_panels(&m->from), first, k);
    at = (char *)scratch + round_up(m->row_bytes * PANEL_ROWS, ALIGN);
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

Panels mat_panels(const Mat *w, int first, int *n, void *scratch)
{
    return !w->late || late_matrix_packed(w->late)
        ? panels_from(w->type, w->w,
                      w->held.items.end ? own_place(&w->held, first) : first, w->k)
        : late_matrix_panels(w->late, w->late_first + first, n, scratch);
}

/* The same bits as from the retyped table, made from the stored row: no row of a panel depends on
 * another. The row was checked by the rank that owns it. */
void late_matrix_row(const LateMatrix *m, int row, float *out, void *scratch)
{
    char  *at = scratch, *to[MAX_PARTS] = { NULL };
    Panels p  = { { NULL } };
    if (!m->retyped) {
        retype_read(&m->spec, &m->from, 0, row, 1, out, scratch);
        return;
    }
    for (int i = 0; i < part_count(m->type); i++) {
        p.part[i] = to[i] = at;
        at += round_up(part_bytes(m->type, i, m->spec.k), ALIGN);
    }
    RetypeReport report;
    retype_read(&m->spec, &m->from, 0, row, 1, out, at);
    retype_store(m->type, true, (void *const *)to, out, NULL, 1, m->spec.k, false, at, &report);
    panel_row_to_f32(m->type, out, p, 0, m->spec.k);
}
