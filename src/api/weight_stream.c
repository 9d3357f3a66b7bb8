/* api/weight_stream.c: a pipeline of two buffers: one thread writes the last chunk while all
 * make the next. */
#include "api/api.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/threads.h"

enum {
    CHUNK = 16 << 20,  /* bytes of a tensor made at once */
    SMALL = 1 << 18,   /* below this, one thread is as fast as a team */
    ALIGN = 64
};

/* A run of consecutive blocks of one tensor. */
typedef struct Chunk {
    TensorSpec     spec;
    int            tensor;
    WeightType     type;
    bool           panels, last;       /* last: the end of the tensor */
    int            first, end;         /* blocks; a vector is one block */
    size_t         block_bytes, n_bytes; /* of the first part; n_bytes 0: nothing to write */
    unsigned char *data;
    unsigned char *side[MAX_PARTS];    /* the whole tensor's other parts */
} Chunk;

typedef struct Pipe {
    const WeightStream *s;
    ModelWriter   *out;
    ThreadPool    *pool;
    int            threads;
    Chunk          making, writing;
    unsigned char *side[2][MAX_PARTS]; /* for this tensor and the previous one, alternating */
    int            turn;
    RetypeReport  *reports;            /* [blocks of making] */
    int            cap_reports;
    atomic_int     next;               /* the first block of making that no thread has taken */
    unsigned char *scratch;            /* [threads, scratch_bytes]: first rows_bytes of rows */
    size_t         rows_bytes, scratch_bytes, written, total;
    bool           ok;                 /* set by the thread that writes */
    Error         *err;
} Pipe;

/* Where a block of the first part begins in its tensor. In row-major layout, the last block of
 * each matrix of a stack is shorter. */
static size_t block_offset(const Chunk *c, int block)
{
    if (c->panels || c->spec.k == 0)
        return (size_t)block * c->block_bytes;
    if (block == tensor_spec_panel_count(&c->spec))
        return tensor_spec_bytes(&c->spec, c->type);
    return (size_t)tensor_spec_block_row(&c->spec, block) * (c->block_bytes / PANEL_ROWS);
}

static void make_block(Pipe *p, int block, int thread)
{
    const Chunk *c     = &p->making;
    unsigned char *own = p->scratch + (size_t)thread * p->scratch_bytes;
    WeightBlock  b = { .spec = &c->spec,
                       .tensor = c->tensor,
                       .type = c->type,
                       .panels = c->panels,
                       .block = block,
                       .item = c->spec.k ? block / panel_count(c->spec.rows) : 0,
                       .first = c->spec.k ? block % panel_count(c->spec.rows) * PANEL_ROWS : 0,
                       .n = c->spec.k ? tensor_spec_block_rows(&c->spec, block) : c->spec.rows,
                       .to = { c->data + block_offset(c, block) - block_offset(c, c->first) },
                       .rows = (float *)(void *)own,
                       .scratch = own + p->rows_bytes,
                       .report = &p->reports[block - c->first] };
    for (int i = 1; c->panels && i < part_count(c->type); i++)
        b.to[i] = c->side[i] + (size_t)block * part_bytes(c->type, i, c->spec.k);
    *b.report = (RetypeReport){ 0 };
    p->s->make(p->s->user, &b);
}

static bool write_chunk(Pipe *p)
{
    const Chunk *c = &p->writing;
    bool ok = model_writer_append(p->out, c->data, c->n_bytes, p->err);
    for (int i = 1; ok && c->last && c->panels && i < part_count(c->type); i++)
        ok = model_writer_append(p->out, c->side[i],
                                 (size_t)c->end * part_bytes(c->type, i, c->spec.k), p->err);
    return ok;
}

/* Thread 0 writes the previous chunk, then helps to make the current one. */
static void work(void *arg, Team team)
{
    Pipe *p = arg;
    if (team.thread == 0 && p->writing.n_bytes)
        p->ok = write_chunk(p);
    for (int b; (b = atomic_fetch_add(&p->next, 1)) < p->making.end;)
        make_block(p, b, team.thread);
}

static bool room_for_reports(Pipe *p)
{
    int n = p->making.end - p->making.first;
    if (n <= p->cap_reports)
        return true;
    free(p->reports);
    p->cap_reports = n;
    p->reports     = malloc((size_t)n * sizeof *p->reports);
    return p->reports ? true
                      : fail(p->err, SYSTEM, "%s: not enough memory to make weights", p->s->path);
}

/* Makes p->making while p->writing is written, then swaps them. */
static bool make_and_write(Pipe *p)
{
    const WeightStream *s = p->s;
    size_t busy = p->making.n_bytes + p->writing.n_bytes;
    if (!room_for_reports(p))
        return false;
    atomic_store(&p->next, p->making.first);
    threads_pool_run(p->pool, busy < SMALL ? 1 : p->threads, work, p);
    p->written += p->writing.n_bytes;
    p->ok = p->ok && progress_tell(&s->progress, (double)p->written, (double)p->total, p->err);
    const Chunk *c = &p->making;
    if (p->ok && s->made && c->n_bytes)
        p->ok =
            s->made(s->user, c->tensor, &c->spec, c->first, p->reports, c->end - c->first, p->err);
    Chunk made = p->making;
    p->making  = (Chunk){ .data = p->writing.data };
    p->writing = made;
    return p->ok;
}

/* Bytes of the first part of one block, and (*whole) of the whole tensor. */
static size_t first_part(const TensorSpec *s, WeightType type, size_t *whole)
{
    size_t block = s->k == 0          ? (size_t)s->rows * sizeof(float)
        : tensor_spec_panels(s, type) ? part_bytes(type, 0, s->k)
                                      : PANEL_ROWS * (size_t)s->k * weight_type_bytes(type);
    if (s->k == 0)
        *whole = block;
    else if (tensor_spec_panels(s, type))
        *whole = block * (size_t)tensor_spec_panel_count(s);
    else
        *whole = tensor_spec_bytes(s, type); /* the last block may have fewer rows */
    return block;
}

static bool make_tensor(Pipe *p, const TensorSpec *spec, int tensor, WeightType type)
{
    size_t whole, block = first_part(spec, type, &whole);
    int    n_blocks = spec->k ? tensor_spec_panel_count(spec) : 1;
    /* Codes take long, and progress is reported between chunks. */
    size_t chunk    = weight_type_quantized(type) ? CHUNK / 4 : CHUNK;
    int    at_once  = block < chunk ? (int)(chunk / block) : 1;
    p->turn = !p->turn;
    for (int first = 0; first < n_blocks; first += at_once) {
        Chunk *c = &p->making;
        *c = (Chunk){ .spec = *spec, .tensor = tensor, .type = spec->k ? type : WT_F32,
                      .panels = tensor_spec_panels(spec, type), .first = first,
                      .block_bytes = block, .data = c->data };
        c->end     = n_blocks - first < at_once ? n_blocks : first + at_once;
        c->last    = c->end == n_blocks;
        c->n_bytes = (c->last ? whole : block_offset(c, c->end)) - block_offset(c, first);
        for (int i = 1; i < MAX_PARTS; i++)
            c->side[i] = p->side[p->turn][i];
        if (!make_and_write(p))
            return false;
    }
    return true;
}

static void *allocate(size_t n) { return aligned_alloc(ALIGN, round_up(n ? n : 1, ALIGN)); }

static bool allocate_all(Pipe *p)
{
    size_t chunk = CHUNK, side[MAX_PARTS] = { 0 };
    int    i = 0, k = 0;
    for (TensorSpec spec = tensor_list_start(); model_contents_next(p->s->contents, &spec); i++) {
        WeightType type = p->s->contents->types[i];
        size_t     whole, block = first_part(&spec, type, &whole);
        k     = spec.k > k ? spec.k : k;
        chunk = block > chunk ? block : chunk;
        p->total += p->s->contents->sparse && spec.k ? 0 : whole;
        for (int j = 1; spec.k && weight_type_quantized(type) && j < part_count(type); j++) {
            size_t n = part_bytes(type, j, spec.k) * (size_t)tensor_spec_panel_count(&spec);
            side[j]  = n > side[j] ? n : side[j];
        }
    }
    p->rows_bytes    = retype_rows_bytes(k);
    p->scratch_bytes = p->rows_bytes + retype_scratch_bytes(k);
    p->making.data   = allocate(chunk);
    p->writing.data  = allocate(chunk);
    p->scratch       = allocate((size_t)p->threads * p->scratch_bytes);
    bool ok = p->making.data && p->writing.data && p->scratch;
    for (int t = 0; t < 2; t++)
        for (int j = 1; j < MAX_PARTS && ok; j++)
            ok = (p->side[t][j] = allocate(side[j])) != NULL;
    return ok ? true : fail(p->err, SYSTEM, "%s: not enough memory to make weights", p->s->path);
}

static void release(Pipe *p)
{
    for (int t = 0; t < 2; t++)
        for (int j = 1; j < MAX_PARTS; j++)
            free(p->side[t][j]);
    free(p->making.data);
    free(p->writing.data);
    free(p->scratch);
    free(p->reports);
}

bool weight_stream_write(const WeightStream *s, Error *err)
{
    Pipe p  = {
        .s = s, .threads = s->threads ? s->threads : threads_default(), .ok = true, .err = err
    };
    bool ok = allocate_all(&p) && (p.out = model_writer_new(s->path, s->contents, err)) != NULL;
    if (ok) {
        int i  = 0;
        p.pool = threads_pool_new(p.threads, false);
        for (TensorSpec spec = tensor_list_start(); ok && model_contents_next(s->contents, &spec);
             i++)
            ok =
                (s->contents->sparse && spec.k) || make_tensor(&p, &spec, i, s->contents->types[i]);
        ok = ok && make_and_write(&p); /* the last chunk is not yet written */
        ok = ok && (!s->finish || s->finish(s->user, p.out, err));
        if (ok)
            ok = model_writer_end(p.out, err);
        else
            model_writer_abort(p.out);
    }
    threads_pool_free(p.pool);
    release(&p);
    return ok;
}
