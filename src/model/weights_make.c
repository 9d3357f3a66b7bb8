#include "model/weights_make.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cpu_count.h"
#include "model/retype.h"

enum { ALIGN = 64, SMALL_MATRIX = 1 << 20 }; /* below SMALL_MATRIX bytes a team costs more than it saves */

void *weights_own(Maker *mk, size_t n_bytes)
{
    Model *m = mk->m;
    if (m->n_owned == m->cap_owned) {
        int    cap = m->cap_owned ? 2 * m->cap_owned : 16;
        void **p   = realloc(m->owned, (size_t)cap * sizeof *p);
        if (!p) {
            fail(mk->err, SYSTEM, "%s: no memory to load the weights", mk->f->map.path);
            return NULL;
        }
        m->owned     = p;
        m->cap_owned = cap;
    }
    void *p = aligned_alloc(ALIGN, round_up(n_bytes, ALIGN));
    if (!p) {
        fail(mk->err, SYSTEM, "%s: no memory for %zu bytes of weights", mk->f->map.path, n_bytes);
        return NULL;
    }
    m->owned[m->n_owned++] = p;
    return p;
}

/* ---- Packing row-major matrices ---- */

typedef struct PackJob {
    WeightType           type;
    int                  rows, k;
    const unsigned char *from;
    unsigned char       *to;
} PackJob;

static void pack_share(void *arg, Team team)
{
    const PackJob *j   = arg;
    size_t         row = weight_type_bytes(j->type) * (size_t)j->k, panel = panel_bytes(j->type, j->k);
    int first, end;
    threads_share(team, panel_count(j->rows), &first, &end);
    for (int p = first; p < end; p++) {
        int r = p * PANEL_ROWS, n = j->rows - r < PANEL_ROWS ? j->rows - r : PANEL_ROWS;
        panel_pack(j->type, j->to + (size_t)p * panel, j->from + (size_t)r * row, n, j->k);
    }
}

/* On a machine with several memory nodes a page lies near the thread that writes it first, so panels are packed by the
 * shares that multiply them later, on the same cores (those of a context with as many threads and affinity "cores"). */
static int team_for(Maker *mk, size_t n_bytes)
{
    if (!mk->pool && n_bytes >= SMALL_MATRIX) {
        mk->threads = threads_default();
        mk->pool    = threads_pool_new(mk->threads, cpu_count_nodes("") > 1);
    }
    return n_bytes < SMALL_MATRIX ? 1 : mk->threads;
}

const void *weights_pack(Maker *mk, const Tensor *t, WeightType type, int rows, int k)
{
    size_t n_bytes = 0;
    if (!matrix_bytes(type, rows, k, &n_bytes)) {
        fail(mk->err, INPUT, "%s: tensor %s: too large to pack", mk->f->map.path, t->name);
        return NULL;
    }
    void *copy = NULL; /* a foreign file may start an element at any byte */
    if ((uintptr_t)t->data % weight_type_bytes(type) != 0) {
        copy = malloc(t->n_bytes);
        if (!copy) {
            fail(mk->err, SYSTEM, "%s: no memory for %zu bytes of weights", mk->f->map.path, t->n_bytes);
            return NULL;
        }
        memcpy(copy, t->data, t->n_bytes);
    }
    PackJob job = { .type = type, .rows = rows, .k = k, .from = copy ? copy : t->data, .to = weights_own(mk, n_bytes) };
    int     threads = team_for(mk, n_bytes); /* makes the pool */
    if (job.to)
        threads_pool_run(mk->pool, threads, pack_share, &job);
    free(copy);
    return job.to;
}

/* ---- Other types than the stored ones ---- */

typedef struct RetypeJob {
    const TensorSpec    *spec;
    const CheckedTensor *from;
    WeightType           type;
    bool                 panels;
    void                *to[MAX_PARTS];
    unsigned char       *scratch;       /* [threads, scratch_bytes] */
    size_t               scratch_bytes;
    RetypeReport        *report;        /* [threads] */
} RetypeJob;

static void retype_share(void *arg, Team team)
{
    const RetypeJob *j = arg;
    int              k = j->spec->k, first, end;
    unsigned char   *scratch = j->scratch + (size_t)team.thread * j->scratch_bytes;
    float           *rows    = (float *)(void *)scratch;
    RetypeReport    *sum     = &j->report[team.thread];
    threads_share(team, panel_count(j->spec->rows), &first, &end);
    for (int p = first; p < end && sum->fault == RETYPE_GOOD; p++) {
        RetypeReport one;
        int          r = p * PANEL_ROWS, n = j->spec->rows - r < PANEL_ROWS ? j->spec->rows - r : PANEL_ROWS;
        void        *to[MAX_PARTS] = { NULL }, *rest = scratch + retype_rows_bytes(k);
        for (int i = 0; i < part_count(j->type); i++)
            to[i] = (char *)j->to[i] + (size_t)p * (j->panels ? part_bytes(j->type, i, k)
                                                              : PANEL_ROWS * (size_t)k * weight_type_bytes(j->type));
        retype_read(j->spec, j->from, r, n, rows, rest);
        retype_store(j->type, j->panels, to, rows, n, k, false, rest, &one);
        retype_sum(sum, &one, r);
    }
}

static bool run_retype(Maker *mk, RetypeJob *j)
{
    int          threads = team_for(mk, tensor_spec_bytes(j->spec, j->type));
    RetypeReport sum     = { .n = 0 };
    j->scratch_bytes = retype_rows_bytes(j->spec->k) + retype_scratch_bytes(j->spec->k);
    j->scratch       = aligned_alloc(ALIGN, (size_t)threads * j->scratch_bytes);
    j->report        = calloc((size_t)threads, sizeof *j->report);
    bool ok = j->scratch && j->report;
    if (ok)
        threads_pool_run(mk->pool, threads, retype_share, j);
    for (int t = 0; ok && t < threads; t++) /* members have ascending rows: the first fault is the lowest */
        retype_sum(&sum, &j->report[t], 0);
    free(j->scratch);
    free(j->report);
    if (!ok)
        return fail(mk->err, SYSTEM, "%s: no memory to load the weights", mk->f->map.path);
    return sum.fault == RETYPE_GOOD ? true : retype_fail(&sum, mk->f->map.path, j->spec, j->type, mk->err);
}

bool weights_retype(Maker *mk, const TensorSpec *s, CheckedTensor *c, WeightType type, Panels *out)
{
    RetypeJob j = { .spec = s, .from = c, .type = type, .panels = tensor_spec_panels(s, type) };
    for (int i = 0; i < part_count(type); i++) {
        size_t n = j.panels ? part_bytes(type, i, s->k) * (size_t)panel_count(s->rows) : tensor_spec_bytes(s, type);
        out->part[i] = j.to[i] = weights_own(mk, n);
        if (!j.to[i])
            return false;
    }
    if (!run_retype(mk, &j))
        return false;
    for (int i = 0; i < part_count(c->type); i++)
        file_map_release(&mk->f->map, c->part[i]->offset, c->part[i]->n_bytes);
    c->type   = type;
    c->panels = j.panels;
    return true;
}
