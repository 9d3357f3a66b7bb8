/* api/golden_tensors.c: how a model's tensors differ from recorded fingerprints, in words:
 * "w_gate of layer 3 holds the recorded w_up". */
#include "api/golden.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* How a tensor differs, from what explains most to what explains least. */
typedef enum HowDiffers {
    SAME, MOVED, TURNED, REORDERED, ONE_PLACE, SCALED, OTHER_VALUES
} HowDiffers;

typedef struct Finding { HowDiffers kind; int from; } Finding; /* from: of MOVED, this one */

typedef struct Compared {
    const StoredModel  *c;
    const GoldenPrints *was, *is;
    TensorSpec         *spec;     /* [n] */
    Finding            *found;    /* [n] */
    int                 n, threads;
} Compared;

enum { NAME = 96, TEXT = 200 };

static uint64_t print_of(const GoldenPrints *p, int i, int hash)
{
    return golden_print(p, (size_t)i).hash[hash];
}

static bool holds_recorded(const Compared *d, int i, int recorded)
{
    const TensorSpec *a = &d->spec[i], *b = &d->spec[recorded];
    return a->k == b->k && a->rows == b->rows && a->stack == b->stack
        && print_of(d->is, i, PRINT_ORDER) == print_of(d->was, recorded, PRINT_ORDER);
}

static const char *name_of(const TensorSpec *s, char out[NAME])
{
    if (s->layer < 0)
        snprintf(out, NAME, "%s", s->name);
    else
        snprintf(out, NAME, "%s of layer %d", s->part, s->layer);
    return out;
}

/* ---- The order of rows ----------------------------------------------------------------------- */

/* Hashes of our rows, which have the recorded ones in another order. */
typedef struct RowOrder {
    const uint64_t *row;
    size_t          n;
    uint64_t        wanted;  /* PRINT_ORDER of the recorded order */
    int             heads, width, rotated; /* rows of a head; of these, rotated. 0: no heads */
} RowOrder;

/* Each head's rows i of the first half and of the second, as neighbours; or the other way round. */
static bool is_paired(const RowOrder *o, bool neighbours)
{
    uint64_t  sum  = 0;
    const int half = o->rotated / 2;
    for (size_t r = 0; r < o->n; r++) {
        const int i = (int)(r % (size_t)o->width);
        int       j = i;
        if (i < o->rotated)
            j = neighbours ? i % half * 2 + i / half : i % 2 * half + i / 2;
        sum += o->row[r - (size_t)i + (size_t)j] * print_row_factor(r);
    }
    return sum == o->wanted;
}

enum { MOST_HEADS = 8 }; /* whose orders are all tried */

/* Fills order [heads] from its place `at` on, with those not in `used`; place [heads * heads]: what
 * head h adds at place j. */
static bool find_order(const RowOrder *o, const uint64_t *place, int at, unsigned used,
                       uint64_t sum, int *order)
{
    if (at == o->heads)
        return sum == o->wanted;
    for (int j = 0; j < o->heads; j++) {
        order[at] = j;
        if (!(used >> j & 1)
            && find_order(o, place, at + 1, used | 1u << j, sum + place[at * o->heads + j], order))
            return true;
    }
    return false;
}

static bool heads_moved(const RowOrder *o, char out[TEXT])
{
    uint64_t place[MOST_HEADS * MOST_HEADS] = { 0 };
    int      order[MOST_HEADS];
    for (int h = 0; h < o->heads; h++)
        for (int j = 0; j < o->heads; j++)
            for (int i = 0; i < o->width; i++)
                place[h * o->heads + j] += o->row[h * o->width + i]
                                         * print_row_factor((size_t)(j * o->width + i));
    if (!find_order(o, place, 0, 0, 0, order))
        return false;
    size_t at = (size_t)snprintf(out, TEXT, "heads in the order [");
    for (int h = 0; h < o->heads; h++)
        at += (size_t)snprintf(out + at, TEXT - at, "%s%d", h ? ", " : "", order[h]);
    snprintf(out + at, TEXT - at, "]");
    return true;
}

/* Two rows, or two heads if there are too many for all orders: unit is the rows of one. */
static bool two_swapped(const RowOrder *o, size_t unit, const char *what, char out[TEXT])
{
    enum { MOST = 2048 };
    const size_t n   = o->n / unit;
    uint64_t     sum = 0;
    for (size_t r = 0; r < o->n; r++)
        sum += o->row[r] * print_row_factor(r);
    for (size_t a = 0; a < n && n <= MOST; a++)
        for (size_t b = a + 1; b < n; b++) {
            uint64_t s = sum;
            for (size_t i = 0; i < unit; i++)
                s += (o->row[a * unit + i] - o->row[b * unit + i])
                   * (print_row_factor(b * unit + i) - print_row_factor(a * unit + i));
            if (s != o->wanted)
                continue;
            snprintf(out, TEXT, "%s %zu and %zu are swapped", what, a, b);
            return true;
        }
    return false;
}

static void name_order(const RowOrder *o, char out[TEXT])
{
    const bool rotates = o->heads && o->rotated > 2 && o->rotated % 2 == 0;
    if (rotates && is_paired(o, true))
        snprintf(out, TEXT, "rows of each head as neighbouring pairs: rotation of another "
                            "convention");
    else if (rotates && is_paired(o, false))
        snprintf(out, TEXT, "rows of each head in two halves: rotation of another convention");
    else if ((o->heads > 1 && o->heads <= MOST_HEADS && heads_moved(o, out))
             || (o->heads > MOST_HEADS && two_swapped(o, (size_t)o->width, "heads", out))
             || two_swapped(o, 1, "rows", out))
        return;
    else
        snprintf(out, TEXT, "the same rows in another order");
}

static bool describe_order(const Compared *d, int i, char out[TEXT], Error *err)
{
    const TensorSpec *s = &d->spec[i];
    const size_t      n = print_rows(s);
    uint64_t         *row = malloc(n * sizeof *row);
    bool good = row ? fingerprint_rows(d->c, i, d->threads, row, err) : no_memory(NULL, err);
    if (good) {
        RowOrder o = { .row = row, .n = n, .wanted = print_of(d->was, i, PRINT_ORDER) };
        if (s->k && s->stack == 1 && s->rows_unit > 1 && s->rows_key
            && strstr(s->rows_key, "heads")) {
            o.width   = s->rows_unit;
            o.heads   = s->rows / s->rows_unit;
            o.rotated = d->c->config.rotary_dim < o.width ? d->c->config.rotary_dim : o.width;
        }
        name_order(&o, out);
    }
    free(row);
    return good;
}

/* ---- One tensor ------------------------------------------------------------------------------ */

/* Our values are a multiple of the recorded ones, as far as three sums show it. */
static bool is_scaled(const Fingerprint *was, const Fingerprint *is, double *by)
{
    const double *a = was->sum, *b = is->sum;
    double        s = b[PRINT_NORM] / a[PRINT_NORM];
    if (!(a[PRINT_NORM] > 0) || !isfinite(s) || s == 0)
        return false;
    *by = b[PRINT_SUM] * a[PRINT_SUM] < 0 ? -s : s;
    return fabs(*by - 1) > 1e-3 && fabs(b[PRINT_SUM] - *by * a[PRINT_SUM]) < 1e-3 * b[PRINT_NORM]
        && fabs(b[PRINT_MOST] - s * a[PRINT_MOST]) < 4e-3 * b[PRINT_MOST];
}

static Finding find_kind(const Compared *d, int i)
{
    const Fingerprint was = golden_print(d->was, (size_t)i), is = golden_print(d->is, (size_t)i);
    const TensorSpec *s = &d->spec[i];
    double            by;
    int               from = -1;
    if (memcmp(was.hash, is.hash, sizeof was.hash) == 0)
        return (Finding){ SAME, -1 };
    /* of several, the one in its layer; zeros are no other tensor's */
    for (int j = 0; is.sum[PRINT_MOST] > 0 && j < d->n; j++)
        if (j != i && holds_recorded(d, i, j) && (from < 0 || d->spec[j].layer == s->layer))
            from = j;
    if (from >= 0)
        return (Finding){ MOVED, from };
    if (is.hash[PRINT_VALUES] == was.hash[PRINT_VALUES])
        return (Finding){ s->rows == s->k && s->stack == 1
                                  && is.hash[PRINT_ORDER] == was.hash[PRINT_TRANSPOSED]
                              ? TURNED : REORDERED, -1 };
    const PrintDelta at = print_delta(s, &was, &is);
    return (Finding){ (at.row >= 0 && s->k) || at.column >= 0 ? ONE_PLACE
                      : is_scaled(&was, &is, &by)             ? SCALED
                                                              : OTHER_VALUES, -1 };
}

/* The index of a row of a stack: "matrix 2, row 5". */
static void say_row(const TensorSpec *s, int64_t row, char out[64])
{
    if (s->stack > 1)
        snprintf(out, 64, "row %" PRId64 " of matrix %" PRId64, row % s->rows, row / s->rows);
    else
        snprintf(out, 64, "row %" PRId64, row);
}

/* One value: our bits are known, and by how much the recorded ones were lower. */
static bool describe_place(const Compared *d, int i, char out[TEXT], Error *err)
{
    const Fingerprint was = golden_print(d->was, (size_t)i), is = golden_print(d->is, (size_t)i);
    const TensorSpec *s   = &d->spec[i];
    const PrintDelta  at  = print_delta(s, &was, &is);
    char              row[64];
    float             here = 0;
    say_row(s, at.row, row);
    if (at.column < 0) {
        snprintf(out, TEXT, "%s of %d differs", row, s->rows);
        return true;
    }
    if (at.row < 0) {
        snprintf(out, TEXT, "column %" PRId64 " of %zu differs", at.column, print_columns(s));
        return true;
    }
    if (!fingerprint_value(d->c, i, (size_t)at.row, (size_t)at.column, &here, err))
        return false;
    uint32_t bits;
    memcpy(&bits, &here, sizeof bits);
    /* any difference may be recorded */
    const uint64_t then = bits - (uint64_t)at.bits,
                   ulps = at.bits < 0 ? 0 - (uint64_t)at.bits : (uint64_t)at.bits;
    const WeightType type = d->c->tensor[i].type;
    const uint64_t   ulp  = type == WT_BF16 ? 1 << 16 : type == WT_F16 ? 1 << 13 : 1;
    if (!s->k) /* a vector */
        snprintf(row, sizeof row, "element %" PRId64, at.column);
    else
        snprintf(row + strlen(row), sizeof row - strlen(row), ", column %" PRId64, at.column);
    snprintf(out, TEXT, "%s: the golden has %.9g, the model %.9g%s", row,
             (double)f32_from((uint32_t)then), (double)here, ulps == ulp ? " (1 ulp)" : "");
    return true;
}

static void describe_values(const Fingerprint *was, const Fingerprint *is, char out[TEXT])
{
    if (is->sum[PRINT_MOST] == 0)
        snprintf(out, TEXT, "all zeros");
    else if (fabs(is->sum[PRINT_NORM] - was->sum[PRINT_NORM]) < 1e-3 * was->sum[PRINT_NORM])
        snprintf(out, TEXT, "some values differ, or all by little: the norm stays %.3g",
                 is->sum[PRINT_NORM]);
    else
        snprintf(out, TEXT, "other values: the golden's norm is %.6g, the model's %.6g",
                 was->sum[PRINT_NORM], is->sum[PRINT_NORM]);
}

static bool describe(const Compared *d, int i, char out[TEXT], Error *err)
{
    const Fingerprint was = golden_print(d->was, (size_t)i), is = golden_print(d->is, (size_t)i);
    char              name[NAME];
    double            by = 0;
    switch (d->found[i].kind) {
    case MOVED: {
        const TensorSpec *from = &d->spec[d->found[i].from];
        const bool        back = d->found[d->found[i].from].from == i;
        snprintf(out, TEXT, "holds the recorded %s%s",
                 from->layer == d->spec[i].layer ? from->part : name_of(from, name),
                 back ? ", and the other way round" : "");
        return true;
    }
    case TURNED:    snprintf(out, TEXT, "transposed"); return true;
    case ONE_PLACE: return describe_place(d, i, out, err);
    case SCALED:
        is_scaled(&was, &is, &by);
        snprintf(out, TEXT, "scaled by %.5g", by);
        return true;
    case REORDERED:
        if (d->spec[i].k && is.hash[PRINT_ROWS] == was.hash[PRINT_ROWS])
            return describe_order(d, i, out, err);
        snprintf(out, TEXT, "the same %s in another order",
                 d->spec[i].k && is.hash[PRINT_COLUMNS] == was.hash[PRINT_COLUMNS] ? "columns"
                                                                                   : "values");
        return true;
    default: describe_values(&was, &is, out); return true;
    }
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Does layer l hold what was recorded of layer `from`, and something else than was recorded of
 * it? */
static bool layer_holds(const Compared *d, int l, int from)
{
    bool differs = false;
    for (int i = 0; i < d->n; i++) {
        if (d->spec[i].layer != l)
            continue;
        int j = 0;
        while (j < d->n && (d->spec[j].layer != from || d->spec[j].part != d->spec[i].part))
            j++;
        if (j == d->n || !holds_recorded(d, i, j))
            return false;
        differs = differs || d->found[i].kind != SAME;
    }
    return differs;
}

/* Whole layers that moved: "layers.2 holds layers.3". */
static bool name_layers(const Compared *d, char *out, size_t n_out)
{
    size_t at   = 0;
    int    last = -1; /* the layer that was looked at */
    for (int i = 0; i < d->n && at < n_out; i++) {
        const int l = d->spec[i].layer, from = d->found[i].from;
        if (d->found[i].kind == SAME || l < 0 || l == last)
            continue;
        last = l; /* its first tensor that differs says from where, or it is no other layer */
        if (d->found[i].kind == MOVED && d->spec[from].layer >= 0 && d->spec[from].layer != l
            && layer_holds(d, l, d->spec[from].layer))
            at += (size_t)snprintf(out + at, n_out - at, "%slayers.%d holds layers.%d",
                                   at ? ", " : "", l, d->spec[from].layer);
    }
    return at > 0;
}

/* The first that differs, how, and how many more do: first those in which it is the same. */
static bool name_tensors(const Compared *d, char *out, size_t n_out, Error *err)
{
    char text[TEXT], name[NAME];
    int  first = -1, alike = 0, others = 0;
    for (int i = 0; i < d->n; i++) {
        if (d->found[i].kind == SAME)
            continue;
        first = first < 0 ? i : first;
        if (i == first || (d->found[i].kind == MOVED && d->found[first].from >= 0
                           && d->spec[i].part == d->spec[d->found[first].from].part))
            continue; /* the other of two that are swapped, in any layer */
        const bool same = d->spec[i].part == d->spec[first].part
                       && d->found[i].kind == d->found[first].kind;
        alike += same;
        others += !same;
    }
    if (first < 0)
        return true;
    if (!describe(d, first, text, err))
        return false;
    size_t at = (size_t)snprintf(out, n_out, "%s%s %s", name_of(&d->spec[first], name),
                                 d->found[first].kind == MOVED ? "" : ":", text);
    if (alike && at < n_out)
        at += (size_t)snprintf(out + at, n_out - at, "; so in %d more layer%s", alike,
                               alike > 1 ? "s" : "");
    if (others && at < n_out)
        at += (size_t)snprintf(out + at, n_out - at, "; %d other tensor%s of %d differ%s", others,
                               others > 1 ? "s" : "", d->n, others > 1 ? "" : "s");
    return true;
}

/* Weights of other types: nearly all differ, and none is the cause. */
static void name_types(const Compared *d, const char *types, char *out, size_t n_out)
{
    char name[NAME];
    int  first = -1, n = 0;
    for (int i = 0; i < d->n; i++) {
        first = first < 0 && d->found[i].kind != SAME ? i : first;
        n += d->found[i].kind != SAME;
    }
    if (n)
        snprintf(out, n_out, "%s; %d of %d hold other values, the first is %s", types, n, d->n,
                 name_of(&d->spec[first], name));
}

bool golden_tensors_differ(const tblock_context *c, const GoldenPrints *was, const GoldenPrints *is,
                           const char *types, char *out, size_t n_out, Error *err)
{
    const StoredModel *stored = &c->model->source.stored;
    Compared d = { .c = stored, .was = was, .is = is, .n = stored->n, .threads = c->threads };
    TensorSpec s = tensor_list_start();
    d.spec       = calloc((size_t)d.n, sizeof *d.spec);
    d.found      = calloc((size_t)d.n, sizeof *d.found);
    bool good    = d.spec && d.found ? true : no_memory(NULL, err);
    for (int i = 0; good && tensor_list_next(&stored->config, &s); i++)
        d.spec[i] = s;
    for (int i = 0; good && i < d.n; i++)
        d.found[i] = find_kind(&d, i);
    if (good && *types)
        name_types(&d, types, out, n_out);
    else if (good && !name_layers(&d, out, n_out))
        good = name_tensors(&d, out, n_out, err);
    free(d.spec);
    free(d.found);
    return good;
}
