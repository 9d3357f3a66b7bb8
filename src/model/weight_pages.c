/* model/weight_pages.c: moves the matrices of a mapped model file into huge pages, HUGE_PAGE bytes
 * ("a window") at a time, in the order in which a pass reads them. A window keeps its address and
 * its bytes, so readers of the weights need not know. */
#include "model/model.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

/* Sometimes the kernel has no huge page for one window; after more refusals it has none. */
enum { REFUSALS = 8 };

struct WeightPages {
    char          *first;    /* the first whole window of the mapping */
    _Atomic(char *) copies;  /* as many windows, where copies are made; NULL before the first */
    uint32_t      *window;   /* [n] those that hold matrices */
    size_t         n, n_all; /* n_all: windows of the mapping */
    bool           roomy;    /* the machine has enough memory for private copies */
    atomic_size_t  next, n_copied, n_refused;
    atomic_bool    collapses;
};

/* Notes the windows of n_bytes of weights that are not noted yet. */
static void note_windows(WeightPages *p, bool *noted, const void *data, size_t n_bytes)
{
    uintptr_t first = (uintptr_t)p->first, end = first + p->n_all * HUGE_PAGE,
              from = (uintptr_t)data, to = from + n_bytes;
    from = from < first ? first : from;
    to   = to > end ? end : to;
    for (size_t i = (from - first) / HUGE_PAGE; from < to && i * HUGE_PAGE < to - first; i++)
        if (!noted[i]) {
            noted[i]          = true;
            p->window[p->n++] = (uint32_t)i;
        }
}

static void note_matrix(WeightPages *p, bool *noted, const Mat *w)
{
    size_t panels = (size_t)w->stack * (size_t)panel_count(w->rows);
    for (int i = 0; w->rows > 0 && i < part_count(w->type); i++)
        note_windows(p, noted, w->w.part[i], part_bytes(w->type, i, w->k) * panels);
}

static void note_model(WeightPages *p, bool *noted, const Model *m)
{
    for (int l = 0; l < m->cfg.n_layers; l++)
        for (int i = 0; i < ROLE_COUNT; i++) {
            const TensorRow *row = tensor_row((TensorRole)i);
            if (row->in_layer && tensor_row_mat(row))
                note_matrix(p, noted, (const Mat *)(const void *)((char *)&m->layer[l] + row->at));
        }
    note_matrix(p, noted, &m->lm_head);
}

void weight_pages_find(Model *m, const FileMap *map)
{
    WeightPages *p      = calloc(1, sizeof *p);
    size_t       before = (HUGE_PAGE - (uintptr_t)map->data % HUGE_PAGE) % HUGE_PAGE;
    bool        *noted  = NULL;
    if (p && map->size > before && (map->size - before) / HUGE_PAGE > 0) {
        p->first  = (char *)(uintptr_t)(map->data + before);
        p->n_all  = (map->size - before) / HUGE_PAGE;
        noted     = calloc(p->n_all, sizeof *noted);
        p->window = calloc(p->n_all, sizeof *p->window);
    }
    if (noted && p->window)
        note_model(p, noted, m);
    free(noted);
    if (!p || p->n == 0) {
        weight_pages_free(p);
        return;
    }
    p->roomy = (double)p->n * HUGE_PAGE < 0.75 * m->available;
    atomic_init(&p->collapses, true);
    m->pages = p;
}

void weight_pages_free(WeightPages *p)
{
    if (!p)
        return;
    pages_unmap(atomic_load(&p->copies), p->n_all * HUGE_PAGE);
    free(p->window);
    free(p);
}

bool   weight_pages_roomy(const WeightPages *p) { return p->roomy; }
size_t weight_pages_bytes(const WeightPages *p) { return p->n * HUGE_PAGE; }
size_t weight_pages_copied(const WeightPages *p)
{
    return atomic_load_explicit(&p->n_copied, memory_order_relaxed) * HUGE_PAGE;
}

bool weight_pages_begun(const WeightPages *p)
{
    return atomic_load_explicit(&p->next, memory_order_relaxed) > 0;
}

bool weight_pages_done(const WeightPages *p)
{
    return atomic_load_explicit(&p->n_refused, memory_order_relaxed) > REFUSALS
        || atomic_load_explicit(&p->next, memory_order_relaxed) >= p->n;
}

/* Threads of several contexts may race to be first; one of their mappings stays. */
static char *copies_of(WeightPages *p)
{
    char *none = NULL, *made = atomic_load(&p->copies);
    if (made)
        return made;
    made = pages_map(p->n_all * HUGE_PAGE);
    if (!made || atomic_compare_exchange_strong(&p->copies, &none, made))
        return made;
    pages_unmap(made, p->n_all * HUGE_PAGE);
    return none;
}

/* False: the kernel has no huge page. */
static bool move(WeightPages *p, size_t i)
{
    char *at = p->first + i * HUGE_PAGE, *copies;
    if (pages_are_huge(at))
        return true;
    if (atomic_load(&p->collapses)) {
        if (pages_collapse(at))
            return true;
        atomic_store(&p->collapses, false);
    }
    copies = copies_of(p);
    if (!copies || !pages_replace(at, copies + i * HUGE_PAGE))
        return false;
    atomic_fetch_add(&p->n_copied, 1);
    return true;
}

void weight_pages_move(WeightPages *p, size_t most)
{
    for (size_t k = 0, at; k < most && !weight_pages_done(p); k++) {
        at = atomic_fetch_add(&p->next, 1);
        if (at < p->n && !move(p, p->window[at]))
            atomic_fetch_add(&p->n_refused, 1);
    }
}
