/* model/weights_make.c: memory for weights that are not used in place in a file; makes those of
 * another type, with all threads for large ones. weights_pack.c packs the others. */
#include "model/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "model/model_writer.h"

/* Below SMALL_MATRIX bytes, starting threads costs more than they save. */
enum { ALIGN = 64, SMALL_MATRIX = 1 << 20 };

void *weights_own(Maker *mk, size_t n_bytes)
{
    Model *m = mk->m;
    if (!ARRAY_ROOM(m->owned, m->cap_owned, (size_t)m->n_owned + 1)) {
        fail(mk->err, SYSTEM, "%s: not enough memory to load the weights", mk->path);
        return NULL;
    }
    void *p = aligned_alloc(ALIGN, round_up(n_bytes, ALIGN));
    if (!p) {
        fail(mk->err, SYSTEM, "%s: out of memory for %zu bytes of weights", mk->path, n_bytes);
        return NULL;
    }
    m->owned[m->n_owned++] = (Owned){ p, round_up(n_bytes, ALIGN) };
    m->owned_bytes += round_up(n_bytes, ALIGN);
    return p;
}

/* Panels follow one another: those of a rank without gaps for the others'. */
static size_t made_part_bytes(const TensorSpec *s, WeightType type, int part, const Own *own)
{
    size_t each = tensor_spec_panels(s, type)
        ? part_bytes(type, part, s->k)
        : PANEL_ROWS * (size_t)s->k * weight_type_bytes(type);
    return round_up(each * (size_t)weights_count(own), ALIGN);
}

size_t weights_made_bytes(const TensorSpec *s, WeightType type, const Own *own)
{
    size_t n = 0;
    for (int i = 0; i < part_count(type); i++)
        n += made_part_bytes(s, type, i, own);
    return n;
}

int weights_count(const Own *own)
{
    return (own->items.end - own->items.first) * own_panels(own);
}

int weights_panel(const TensorSpec *s, const Own *own, int i)
{
    int each = own_panels(own), at = i % each, run = 0;
    for (; at >= own->run[run].end - own->run[run].first; run++)
        at -= own->run[run].end - own->run[run].first;
    return (own->items.first + i / each) * panel_count(s->rows) + own->run[run].first + at;
}

bool weights_region(Maker *mk, size_t n_bytes)
{
    Model *m = mk->m;
    if (n_bytes >= HUGE_PAGE)
        n_bytes = round_up(n_bytes, HUGE_PAGE); /* so that the last page is a huge one too */
    m->region.data = n_bytes ? pages_map(n_bytes) : NULL;
    if (n_bytes && !m->region.data)
        return fail(mk->err, SYSTEM, "%s: out of memory for %zu bytes of weights", mk->path,
                    n_bytes);
    m->region.n_bytes = n_bytes;
    return true;
}

/* On a machine with several memory nodes, a page is placed near the thread that writes it first. So
 * the threads that multiply panels later pack the same shares, on the same cores. (This holds for a
 * context with as many threads and affinity "cores".) */
int weights_team(Maker *mk, size_t n_bytes)
{
    if (!mk->pool && n_bytes >= SMALL_MATRIX) {
        mk->threads = threads_default();
        mk->pool    = threads_pool_new(mk->threads, cpu_count_nodes("") > 1);
    }
    return n_bytes < SMALL_MATRIX ? 1 : mk->threads;
}

void weights_parts(Maker *mk, const TensorSpec *s, WeightType type, const Own *own,
                   char *to[MAX_PARTS], Panels *out)
{
    Model *m = mk->m;
    assert(weights_made_bytes(s, type, own) <= m->region.n_bytes - m->region.used);
    for (int i = 0; i < part_count(type); i++) {
        size_t n = made_part_bytes(s, type, i, own);
        out->part[i] = to[i] = m->region.data + m->region.used;
        m->region.used += n;
    }
}

/* ---- Other types than the stored ones -------------------------------------------------------- */

typedef struct RetypeJob {
    const TensorSpec    *spec;
    const CheckedTensor *from;
    WeightType           type;
    bool                 panels;
    Own                  own;           /* the panels that are made */
    char                *to[MAX_PARTS];
    unsigned char       *scratch;       /* [threads, scratch_bytes] */
    size_t               scratch_bytes;
    RetypeReport        *report;        /* [threads] */
} RetypeJob;

static void retype_share(void *arg, Team team)
{
    const RetypeJob *j = arg;
    int              k = j->spec->k, per_item = panel_count(j->spec->rows), first, end;
    unsigned char   *scratch = j->scratch + (size_t)team.thread * j->scratch_bytes;
    float           *rows    = (float *)(void *)scratch;
    RetypeReport    *sum     = &j->report[team.thread];
    threads_share(team, weights_count(&j->own), &first, &end);
    for (int i = first; i < end && sum->fault == RETYPE_GOOD; i++) {
        RetypeReport one;
        int          p = weights_panel(j->spec, &j->own, i), item = p / per_item,
                     r = p % per_item * PANEL_ROWS,
                     n = j->spec->rows - r < PANEL_ROWS ? j->spec->rows - r : PANEL_ROWS;
        void        *to[MAX_PARTS] = { NULL }, *rest = scratch + retype_rows_bytes(k);
        for (int part = 0; part < part_count(j->type); part++)
            to[part] = j->to[part]
                + (size_t)i
                    * (j->panels ? part_bytes(j->type, part, k)
                                 : PANEL_ROWS * (size_t)k * weight_type_bytes(j->type));
        retype_read(j->spec, j->from, item, r, n, rows, rest);
        retype_store(j->type, j->panels, to, rows, NULL, n, k, false, rest, &one);
        retype_sum(sum, &one, item * j->spec->rows + r);
    }
}

static bool run_retype(Maker *mk, RetypeJob *j)
{
    int          threads = weights_team(mk, tensor_spec_bytes(j->spec, j->type));
    RetypeReport sum     = { .n = 0 };
    j->scratch_bytes = retype_rows_bytes(j->spec->k) + retype_scratch_bytes(j->spec->k);
    j->scratch       = aligned_alloc(ALIGN, (size_t)threads * j->scratch_bytes);
    j->report        = calloc((size_t)threads, sizeof *j->report);
    bool ok = j->scratch && j->report;
    if (ok)
        threads_pool_run(mk->pool, threads, retype_share, j);
    /* Threads have ascending rows, so the first fault is in the lowest row. */
    for (int t = 0; ok && t < threads; t++)
        retype_sum(&sum, &j->report[t], 0);
    free(j->scratch);
    free(j->report);
    if (!ok)
        return fail(mk->err, SYSTEM, "%s: not enough memory to load the weights", mk->path);
    return sum.fault == RETYPE_GOOD ? true : retype_fail(&sum, mk->path, j->spec, j->type, mk->err);
}

bool weights_retype(Maker *mk, const TensorSpec *s, CheckedTensor *c, WeightType type, Panels *out)
{
    RetypeJob j = { .spec = s,
                    .from = c,
                    .type = type,
                    .panels = tensor_spec_panels(s, type),
                    .own = model_panels(mk->m, s->role, s->rows, s->stack) };
    weights_parts(mk, s, type, &j.own, j.to, out);
    mk->m->owned_bytes += weights_made_bytes(s, type, &j.own);
    if (!run_retype(mk, &j))
        return false;
    checked_release(c);
    c->type   = type;
    c->panels = j.panels;
    return true;
}
