/* model/fingerprint.c: fingerprints of tensors, in one pass over their values. */
#include "model/fingerprint.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/threads.h"
#include "model/model_writer.h"

/* ---- Hashes ---------------------------------------------------------------------------------- */

/* Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014), MIX 13. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Odd, so that one value that differs always changes a sum. */
static uint64_t column_factor(size_t i) { return mix(2 * i + 1) | 1; }
uint64_t        print_row_factor(size_t i) { return mix(2 * i + 2) | 1; }

/* Two multiplications: a sum of these tells values apart, and knows nothing of their order. Of 0 it
 * is 0, so that zeros may fill a row up. */
static inline uint64_t scramble(uint32_t bits)
{
    uint64_t m = bits * 0x9e3779b97f4a7c15u;
    m          = (m ^ m >> 32) * 0xd6e8feb86659fd93u;
    return m ^ m >> 32;
}

typedef struct RowPrint {
    uint64_t hash, values, bits;
    double   squares, sum;
    uint32_t most; /* bits of the largest magnitude */
} RowPrint;

enum { LANES = 16 };

/* What the lanes of a row add up. */
typedef struct RowSums {
    uint64_t hash[LANES], values[LANES], bits[LANES];
    double   squares[LANES], sum[LANES];
    uint32_t most[LANES];
} RowSums;

/* n values, a multiple of LANES. q: of the columns; columns: their hashes so far, to which row_q
 * adds this row. */
static inline __attribute__((always_inline)) void
sum_row(RowSums *r, const float *x, size_t n, const uint64_t *restrict q, uint64_t row_q,
        uint64_t *restrict columns)
{
    for (size_t i = 0; i < n; i += LANES) {
        uint32_t bits[LANES];
        uint64_t m[LANES];
        memcpy(bits, x + i, sizeof bits);
        for (int j = 0; j < LANES; j++)
            m[j] = scramble(bits[j]);
        for (int j = 0; j < LANES; j++) {
            r->hash[j] += m[j] * q[i + (size_t)j];
            columns[i + (size_t)j] += m[j] * row_q;
            r->values[j] += m[j];
            r->bits[j] += bits[j];
        }
        for (int j = 0; j < LANES; j++) {
            const double v = (double)x[i + (size_t)j];
            r->squares[j] += v * v;
            r->sum[j] += v;
        }
        for (int j = 0; j < LANES; j++) {
            const uint32_t a = bits[j] & 0x7fffffff;
            r->most[j]       = a > r->most[j] ? a : r->most[j];
        }
    }
}

typedef void SumRow(RowSums *r, const float *x, size_t n, const uint64_t *q, uint64_t row_q,
                    uint64_t *columns);
#define SUM_ROW(name, attribute)                                                                   \
    attribute static void sum_row_##name(RowSums *r, const float *x, size_t n, const uint64_t *q,  \
                                         uint64_t row_q, uint64_t *columns)                        \
    {                                                                                              \
        sum_row(r, x, n, q, row_q, columns);                                                       \
    }
SUM_ROW(scalar, )
#if defined(__x86_64__)
SUM_ROW(avx2, __attribute__((target("avx2"))))
SUM_ROW(avx512, __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq"))))
#endif
static const struct RowSummer { Isa isa; SumRow *sum; } summers[] = {
    { ISA_SCALAR, sum_row_scalar },
#if defined(__x86_64__)
    { ISA_AVX2, sum_row_avx2 },
    { ISA_AVX512, sum_row_avx512 },
#endif
};

static RowPrint print_row(SumRow *sum, const float *x, size_t n, const uint64_t *q, uint64_t row_q,
                          uint64_t *columns)
{
    RowSums  s = { 0 };
    RowPrint r = { 0 };
    sum(&s, x, n, q, row_q, columns);
    for (int j = 0; j < LANES; j++) {
        r.hash += s.hash[j];
        r.values += s.values[j];
        r.bits += s.bits[j];
        r.squares += s.squares[j];
        r.sum += s.sum[j];
        r.most = s.most[j] > r.most ? s.most[j] : r.most;
    }
    return r;
}

/* ---- A tensor, by a team --------------------------------------------------------------------- */

typedef struct PrintRun {
    const StoredModel *c;
    int          only;       /* this tensor; -1: all */
    Fingerprint *out;        /* [c->n]; NULL: not wanted */
    Isa          most;
    SumRow      *sum;
    size_t       columns;    /* the most of any tensor, a multiple of LANES */
    uint64_t    *q;          /* [columns] */
    uint64_t    *column;     /* [threads, columns] hashes of the columns, of a thread's rows */
    RowPrint    *row;        /* [the most rows of any tensor] */
    float       *values;     /* [threads, PANEL_ROWS + 1, columns] */
    char        *scratch;    /* [threads, scratch_bytes] */
    size_t       scratch_bytes;
    atomic_int   next;       /* block of PANEL_ROWS rows */
} PrintRun;

/* One block of rows. */
static void print_block(PrintRun *p, const TensorSpec *s, int tensor, int block, int thread)
{
    const CheckedTensor *t       = &p->c->tensor[tensor];
    const size_t         n       = print_columns(s);
    float               *x       = p->values + (size_t)thread * (PANEL_ROWS + 1) * p->columns;
    float               *filled  = x + PANEL_ROWS * p->columns; /* a row with zeros after it */
    uint64_t            *columns = p->column + (size_t)thread * p->columns;
    const int rows  = s->k ? tensor_spec_block_rows(s, block) : 1;
    const size_t at = s->k ? (size_t)tensor_spec_block_row(s, block) : 0;
    if (s->k)
        retype_read(s, t, block / panel_count(s->rows), block % panel_count(s->rows) * PANEL_ROWS,
                    rows, x, p->scratch + (size_t)thread * p->scratch_bytes);
    else
        checked_vector(s, t, x);
    for (size_t r = 0; r < (size_t)rows; r++) {
        const float *whole = x + r * n;
        if (n % LANES) {
            memset(filled + n, 0, (round_up(n, LANES) - n) * sizeof *filled);
            whole = memcpy(filled, whole, n * sizeof *filled);
        }
        p->row[at + r] =
            print_row(p->sum, whole, round_up(n, LANES), p->q, column_factor(at + r), columns);
    }
}

/* The whole from rows and columns: in order, so that the sums of floats are the same for every
 * number of threads. */
static void whole_print(PrintRun *p, const TensorSpec *s, int tensor, int threads)
{
    Fingerprint f    = { 0 };
    uint32_t    most = 0;
    for (size_t r = 0; r < print_rows(s); r++) {
        const RowPrint *row = &p->row[r];
        f.hash[PRINT_ORDER] += row->hash * print_row_factor(r);
        f.hash[PRINT_ROWS] += mix(row->hash);
        f.hash[PRINT_ROW_SUM] += row->hash;
        f.hash[PRINT_ROW_AT] += row->hash * r;
        f.hash[PRINT_VALUES] += row->values;
        f.hash[PRINT_BITS] += row->bits;
        f.sum[PRINT_NORM] += row->squares;
        f.sum[PRINT_SUM] += row->sum;
        most              = row->most > most ? row->most : most;
    }
    for (size_t i = 0; i < print_columns(s); i++) {
        uint64_t hash = 0;
        for (int t = 0; t < threads; t++)
            hash += p->column[(size_t)t * p->columns + i];
        f.hash[PRINT_TRANSPOSED] += hash * print_row_factor(i);
        f.hash[PRINT_COLUMNS] += mix(hash);
        f.hash[PRINT_COLUMN_SUM] += hash;
        f.hash[PRINT_COLUMN_AT] += hash * i;
    }
    f.sum[PRINT_NORM] = sqrt(f.sum[PRINT_NORM]);
    f.sum[PRINT_MOST] = (double)f32_from(most);
    p->out[tensor]    = f;
}

static void print_all(void *arg, Team team)
{
    PrintRun   *p = arg;
    TensorSpec s = tensor_list_start();
    for (int i = 0; tensor_list_next(&p->c->config, &s); i++) {
        if (p->only >= 0 && p->only != i)
            continue;
        const int n = s.k ? tensor_spec_panel_count(&s) : 1;
        memset(p->column + (size_t)team.thread * p->columns, 0, p->columns * sizeof *p->column);
        for (int b; (b = atomic_fetch_add(&p->next, 1)) < n;)
            print_block(p, &s, i, b, team.thread);
        threads_barrier(team);
        if (team.thread == 0) {
            if (p->out)
                whole_print(p, &s, i, team.n_threads);
            if (p->c->tensor[i].rows) /* a model file's are used in place */
                checked_release(&p->c->tensor[i]);
            atomic_store(&p->next, 0);
        }
        threads_barrier(team);
    }
}

static bool make_room(PrintRun *p, int threads)
{
    TensorSpec s    = tensor_list_start();
    size_t     rows = 1, k = 1;
    for (int i = 0; tensor_list_next(&p->c->config, &s); i++) {
        rows       = print_rows(&s) > rows ? print_rows(&s) : rows;
        p->columns = print_columns(&s) > p->columns ? print_columns(&s) : p->columns;
        k          = (size_t)s.k > k ? (size_t)s.k : k;
    }
    const size_t n   = (size_t)threads;
    p->columns       = round_up(p->columns, LANES);
    p->scratch_bytes = round_up(retype_scratch_bytes((int)k), 64);
    p->q             = malloc(p->columns * sizeof *p->q);
    p->column        = calloc(n * p->columns, sizeof *p->column);
    p->row           = calloc(rows, sizeof *p->row);
    p->values        = calloc(n * (PANEL_ROWS + 1) * p->columns, sizeof *p->values);
    p->scratch       = aligned_alloc(64, n * p->scratch_bytes);
    for (size_t i = 0; p->q && i < p->columns; i++)
        p->q[i] = column_factor(i);
    return p->q && p->column && p->row && p->values && p->scratch;
}

static bool print_tensors(PrintRun *p, int threads, uint64_t *rows, size_t n_rows, Error *err)
{
    const struct RowSummer *best = CPU_CHOOSE(summers, p->most);
    const bool              good = make_room(p, threads);
    p->sum                       = best->sum;
    if (good)
        threads_run(threads, print_all, p);
    for (size_t i = 0; good && i < n_rows; i++)
        rows[i] = p->row[i].hash;
    free(p->q);
    free(p->column);
    free(p->row);
    free(p->values);
    free(p->scratch);
    return good || no_memory(p->c->path, err);
}

bool fingerprint_model(const StoredModel *c, int threads, Isa most, Fingerprint *out, Error *err)
{
    return print_tensors(&(PrintRun){ .c = c, .only = -1, .most = most, .out = out }, threads, NULL,
                         0, err);
}

static TensorSpec spec_of(const StoredModel *c, int i)
{
    TensorSpec s = tensor_list_start();
    for (int at = 0; at <= i; at++)
        tensor_list_next(&c->config, &s);
    return s;
}

bool fingerprint_rows(const StoredModel *c, int i, int threads, uint64_t *rows, Error *err)
{
    const TensorSpec s = spec_of(c, i);
    return print_tensors(&(PrintRun){ .c = c, .only = i }, threads, rows, print_rows(&s), err);
}

bool fingerprint_value(const StoredModel *c, int i, size_t row, size_t column, float *out,
                       Error *err)
{
    const TensorSpec s       = spec_of(c, i);
    float           *x       = malloc(print_columns(&s) * sizeof *x);
    void            *scratch = aligned_alloc(64, round_up(retype_scratch_bytes(s.k ? s.k : 1), 64));
    const bool       good    = x && scratch;
    if (good && s.k)
        retype_read(&s, &c->tensor[i], (int)(row / (size_t)s.rows), (int)(row % (size_t)s.rows), 1,
                    x, scratch);
    else if (good)
        checked_vector(&s, &c->tensor[i], x);
    *out = good ? x[column] : 0;
    free(x);
    free(scratch);
    return good || no_memory(c->path, err);
}

uint64_t print_values(const float *x, size_t n)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        hash += scramble(isnan(x[i]) ? 0x7fc00000 : bits) * column_factor(i);
    }
    return hash;
}

/* ---- Where two differ ------------------------------------------------------------------------ */

/* If one term of a sum differs by d, then the sum of terms times their place by d * place: the
 * place, below n; -1: several differ. d may be even: then the place follows modulo a smaller power
 * of two, which is still far above n. */
static int64_t only_place(uint64_t d, uint64_t d_at, size_t n)
{
    if (d == 0)
        return -1;
    const int zeros = __builtin_ctzll(d);
    if (zeros > 24 || d_at & ((1ull << zeros) - 1))
        return -1;
    uint64_t odd = d >> zeros, inverse = odd; /* 3 bits are right; each step doubles them */
    for (int i = 0; i < 5; i++)
        inverse *= 2 - odd * inverse;
    const uint64_t place = (d_at >> zeros) * inverse & (~0ull >> zeros);
    return place < n ? (int64_t)place : -1;
}

PrintDelta print_delta(const TensorSpec *s, const Fingerprint *was, const Fingerprint *is)
{
    uint64_t d[PRINT_HASHES];
    for (int i = 0; i < PRINT_HASHES; i++)
        d[i] = is->hash[i] - was->hash[i];
    PrintDelta p = { only_place(d[PRINT_ROW_SUM], d[PRINT_ROW_AT], print_rows(s)),
                     only_place(d[PRINT_COLUMN_SUM], d[PRINT_COLUMN_AT], print_columns(s)),
                     (int64_t)d[PRINT_BITS] };
    /* the hashes in order must say the same */
    if (p.row >= 0 && d[PRINT_ROW_SUM] * print_row_factor((size_t)p.row) != d[PRINT_ORDER])
        p.row = -1;
    if (p.column >= 0
        && d[PRINT_COLUMN_SUM] * print_row_factor((size_t)p.column) != d[PRINT_TRANSPOSED])
        p.column = -1;
    return p;
}
