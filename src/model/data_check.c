/* model/data_check.c: checks hash, padding and finiteness of a model file's data
 * (docs/format.md). */
#include "model/tensor_list.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/number.h"

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void found(CheckPart *p, const char *fmt, ...)
{
    va_list list;
    p->answer = CHECK_BAD;
    if (p->n_bad++ > 0)
        return;
    va_start(list, fmt);
    vsnprintf(p->found, sizeof p->found, fmt, list);
    va_end(list);
}

/* ---- Hash ------------------------------------------------------------------------------------ */

enum { PIECE = 1 << 24 }; /* bytes hashed between two calls of progress */
static const double HASH_SHARE = 0.8; /* roughly its share of a check's time */

static bool check_hash(CheckPart *p, const TensorFile *f, const Progress *progress, Error *err)
{
    const char *recorded = tensor_meta(f, "sha256");
    char        hex[65];
    if (!recorded)
        return true;
    Sha256 *hash = sha256_new();
    if (!hash)
        return no_memory(NULL, err);
    bool ok = true;
    for (size_t at = 0, n; ok && at < f->data_bytes; at += n) {
        n = f->data_bytes - at < PIECE ? f->data_bytes - at : PIECE;
        sha256_add(hash, f->map.data + f->data_offset + at, n);
        ok = progress_tell(progress, (double)(at + n), (double)f->data_bytes, err);
    }
    sha256_end(hash, hex);
    if (!ok)
        return false;
    p->answer = CHECK_OK;
    if (strcmp(hex, recorded) != 0)
        found(p, "expected %.64s, found %s", recorded, hex);
    return true;
}

/* ---- Padding --------------------------------------------------------------------------------- */

/* The index of the first byte that is not 0; n: all are 0. */
static size_t first_nonzero(const unsigned char *data, size_t n)
{
    size_t i = 0;
    for (uint64_t word; i + sizeof word <= n; i += sizeof word) {
        memcpy(&word, data + i, sizeof word);
        if (word)
            break;
    }
    while (i < n && data[i] == 0)
        i++;
    return i;
}

/* Copy one panel of a quantized matrix: in a foreign file, a part may be unaligned. */
static Panels copy_panel(const TensorSpec *s, const CheckedTensor *t, int panel,
                         unsigned char *copy)
{
    Panels from = panels_from(t->type, checked_panels(t), panel, s->k), p = { { NULL } };
    for (int i = 0; i < part_count(t->type); i++) {
        size_t n  = part_bytes(t->type, i, s->k); /* a multiple of 32 */
        p.part[i] = memcpy(copy, from.part[i], n);
        copy     += n;
    }
    return p;
}

/* Check that the last panel of a GGUF type decodes to 0 past its rows. All of its columns are
 * used. */
static bool check_last_rows(CheckPart *out, const TensorSpec *s, const CheckedTensor *t, Panels p,
                            int panel)
{
    float value[SUPERBLOCK];
    for (int r = tensor_spec_block_rows(s, panel); r < PANEL_ROWS; r++)
        for (int c = 0; c < s->k; c += SUPERBLOCK) {
            int n = s->k - c < SUPERBLOCK ? s->k - c : SUPERBLOCK;
            panel_row_to_f32(t->type, value, panel_superblock(t->type, p, c / SUPERBLOCK), r, n);
            for (int j = 0; j < n; j++)
                if (value[j] != 0) {
                    found(out, "tensor %s: padding at row %d, column %d is not zero", s->name,
                          tensor_spec_block_row(s, panel) + r, c + j);
                    return false;
                }
        }
    return true;
}

/* Check that one superblock of a panel of q8 or q4 decodes to 0 past the matrix. */
static bool check_superblock(CheckPart *out, const TensorSpec *s, WeightType type, Panels p,
                             int panel, int block)
{
    int    first = block * SUPERBLOCK, end = (int)round_up((size_t)s->k, 64),
        n = end - first < SUPERBLOCK ? end - first : SUPERBLOCK;
    int    rows = tensor_spec_block_rows(s, panel);
    int8_t value[SUPERBLOCK];
    Panels at = panel_superblock(type, p, block);
    for (int r = 0; r < PANEL_ROWS; r++) {
        float scale = superblock_scale(type, at, r);
        superblock_row_to_i8(type, value, at, r, n);
        for (int j = r < rows ? s->k - first : 0; j < n; j++)
            if ((value[j] != 0 && scale != 0) || (r >= rows && !isfinite(scale))) {
                found(out, "tensor %s: padding at row %d, column %d is not zero", s->name,
                      tensor_spec_block_row(s, panel) + r, first + j);
                return false;
            }
    }
    return true;
}

static bool check_quantized_panels(CheckPart *p, const TensorSpec *s, const CheckedTensor *t,
                                   Error *err)
{
    int            per_item = panel_count(s->rows), last = tensor_spec_panel_count(s) - 1,
        blocks = (s->k + SUPERBLOCK - 1) / SUPERBLOCK;
    unsigned char *copy = malloc(panel_bytes(t->type, s->k));
    if (!copy)
        return no_memory(NULL, err);
    bool good = true, gguf = weight_type_gguf(t->type);
    for (int i = 0; good && i <= last; i++) {
        /* The last panel of a matrix may have fewer rows. */
        bool ends = i % per_item == per_item - 1;
        if (!ends && (gguf || s->k % 64 == 0))
            continue;
        Panels at = copy_panel(s, t, i, copy);
        if (gguf)
            good = check_last_rows(p, s, t, at, i);
        for (int b = gguf ? blocks : ends ? 0 : blocks - 1; good && b < blocks; b++)
            good = check_superblock(p, s, t->type, at, i, b);
    }
    free(copy);
    return true;
}

/* Check that a matrix in panels is zero past its rows and columns. A panel is [k][16], of bf16
 * [ceil(k/2)][16][2]. */
static void check_panels(CheckPart *p, const TensorSpec *s, const CheckedTensor *t)
{
    size_t element = weight_type_bytes(t->type), panel = panel_bytes(t->type, s->k);
    int    pair = t->type == WT_BF16 ? 2 : 1, groups = (s->k + pair - 1) / pair,
        last = tensor_spec_panel_count(s) - 1;
    /* If odd, the second element of each panel's last pair is padding. */
    int    odd = s->k % pair;
    for (int i = 0; i <= last; i++) {
        const unsigned char *data = (const unsigned char *)t->part[0]->data + (size_t)i * panel;
        int used = tensor_spec_block_rows(s, i);
        if (!odd && used == PANEL_ROWS)
            continue;
        for (int g = odd && used == PANEL_ROWS ? groups - 1 : 0; g < groups; g++)
            for (int r = 0; r < PANEL_ROWS; r++)
                for (int j = 0; j < pair; j++) {
                    size_t at =
                        (((size_t)g * PANEL_ROWS + (size_t)r) * (size_t)pair + (size_t)j) * element;
                    if ((r < used && g * pair + j < s->k)
                        || first_nonzero(data + at, element) == element)
                        continue;
                    found(p, "tensor %s: padding at row %d, column %d is not zero", s->name,
                          tensor_spec_block_row(s, i) + r, g * pair + j);
                    return;
                }
    }
}

static void check_pads(CheckPart *p, const TensorFile *f)
{
    for (int i = 0; i < f->n_tensors; i++) {
        const Tensor *t = &f->tensors[i];
        if (strncmp(t->name, "pad.", 4) != 0)
            continue;
        size_t at = first_nonzero(t->data, t->n_bytes);
        if (at < t->n_bytes)
            found(p, "tensor %.64s: byte %zu is not zero", t->name, at);
    }
}

/* ---- Finite ---------------------------------------------------------------------------------- */

static float element_at(const CheckedTensor *t, size_t i)
{
    const unsigned char *data =
        (const unsigned char *)t->part[0]->data + i * weight_type_bytes(t->type);
    uint32_t bits = 0;
    memcpy(&bits, data, weight_type_bytes(t->type));
    return t->type == WT_F32 ? f32_from(bits)
        : t->type == WT_F16  ? f16_to_f32((uint16_t)bits)
                             : bf16_to_f32((uint16_t)bits);
}

/* Row and column of stored element i. */
static void place_of(const TensorSpec *s, const CheckedTensor *t, size_t i, size_t *row,
                     size_t *col)
{
    size_t pair = t->panels && t->type == WT_BF16 ? 2 : 1, k = (size_t)(s->k ? s->k : 1);
    if (!t->panels) {
        *row = i / k;
        *col = i % k;
        return;
    }
    size_t panel = (k + pair - 1) / pair * pair * PANEL_ROWS, in = i % panel;
    *row = (size_t)tensor_spec_block_row(s, (int)(i / panel)) + in / pair % PANEL_ROWS;
    *col = in / (pair * PANEL_ROWS) * pair + in % pair;
}

static const char *kind_of(float x)
{
    return x != x ? "NaN" : x > 0 ? "infinite" : "minus infinite";
}

/* Is this row only padding of its panel? Such rows are never used; the padding check covers
 * them. */
static bool fills_panel(const TensorSpec *s, size_t panel, size_t row)
{
    return (int)row >= tensor_spec_block_rows(s, (int)panel);
}

/* Its scales are powers of two, all finite; only the largest can make a value infinite. */
static void check_mxfp4(CheckPart *p, const TensorSpec *s, const CheckedTensor *t)
{
    enum { RUN = 32, LARGEST = 252 }; /* 12 * 2^(252 - 128) is finite */
    const uint8_t *e = t->part[1]->data;
    Panels         all = { { t->part[0]->data, e } };
    size_t         runs = (size_t)s->k / RUN;
    for (size_t i = 0; i < t->part[1]->n_elements; i++) {
        size_t panel = i / PANEL_ROWS / runs, run = i / PANEL_ROWS % runs, row = i % PANEL_ROWS;
        if (e[i] <= LARGEST || fills_panel(s, panel, row))
            continue;
        float value[SUPERBLOCK];
        int   first = (int)run * RUN / SUPERBLOCK, n = (int)run * RUN % SUPERBLOCK;
        panel_row_to_f32(t->type, value,
                         panel_superblock(t->type, panels_from(t->type, all, (int)panel, s->k),
                                          first),
                         (int)row, n + RUN);
        size_t at = elements_first_nonfinite(WT_F32, value + n, RUN);
        if (at < RUN) {
            found(p, "tensor %s: element [%zu, %zu] is %s", s->name,
                  (size_t)tensor_spec_block_row(s, (int)panel) + row, run * RUN + at,
                  kind_of(value[(size_t)n + at]));
            return;
        }
    }
}

/* Other quantized types: codes are integers, so only a scale can be infinite or NaN. */
static void check_scales(CheckPart *p, const TensorSpec *s, const CheckedTensor *t)
{
    const Tensor *d = t->part[part_count(t->type) - 1];
    bool          runs = weight_type_has_runs(t->type),
         minima = weight_type_has_minima(t->type);
    /* columns: how many share one scale. each: their scales, two if there are minima. */
    size_t        n = d->n_elements, columns = runs ? (size_t)weight_type_sub(t->type) : SUPERBLOCK,
           each = minima ? 2 : 1;
    size_t        blocks = ((size_t)s->k + columns - 1) / columns * each;
    const WeightType type = d->dtype == DT_F32 ? WT_F32 : WT_F16;
    size_t           i = 0, bytes = weight_type_bytes(type);
    do
        i += elements_first_nonfinite(type, (const unsigned char *)d->data + i * bytes, n - i);
    while (i < n && fills_panel(s, i / PANEL_ROWS / blocks, i % PANEL_ROWS) && ++i < n);
    if (i == n)
        return;
    float scale;
    elements_to_f32(type, &scale, (const unsigned char *)d->data + i * bytes, 1);
    found(p, "tensor %s: scale of row %zu, columns from %zu is %s", d->name,
          (size_t)tensor_spec_block_row(s, (int)(i / PANEL_ROWS / blocks)) + i % PANEL_ROWS,
          i / PANEL_ROWS % blocks / each * columns, kind_of(scale));
}

/* Rows of another program's file. A download that reserves the whole file first and does not finish
 * leaves zeros in it. Vectors may be zero: biases, and norms that are stored less 1. */
static bool check_rows(CheckPart *p, const TensorSpec *s, const CheckedTensor *t, Error *err)
{
    size_t k       = (size_t)t->rows->k, at = k;
    float *row     = malloc(k * sizeof *row);
    void  *scratch = malloc(row_source_row_bytes(t->rows));
    bool   ok      = row && scratch;
    bool   zeros   = false;
    for (int item = 0; ok && at == k && !zeros && item < t->rows->stack; item++) {
        zeros = s->k > 0;
        for (int r = 0; at == k && r < t->rows->rows; r++) {
            row_source_read_f32(t->rows, item, r, 1, row, scratch);
            at = elements_first_nonfinite(WT_F32, row, k);
            if (at < k)
                found(p, "tensor %s: element [%d, %zu] is %s", t->rows->name, item * s->rows + r,
                      at, kind_of(row[at]));
            for (size_t j = 0; zeros && j < k; j++)
                zeros = row[j] == 0;
        }
    }
    if (zeros)
        found(p, "tensor %s: holds only zeros (a download that did not finish?)", t->rows->name);
    row_source_release(t->rows);
    free(row);
    free(scratch);
    return ok ? true : no_memory(NULL, err);
}

static void check_finite(CheckPart *p, const TensorSpec *s, const CheckedTensor *t)
{
    if (weight_type_quantized(t->type)) {
        (t->type == WT_MXFP4 ? check_mxfp4 : check_scales)(p, s, t);
        return;
    }
    const Tensor *data = t->part[0];
    /* panel: its elements. */
    size_t        pair = t->type == WT_BF16 ? 2 : 1,
           panel = ((size_t)s->k + pair - 1) / pair * pair * PANEL_ROWS;
    size_t        n = data->n_elements, i = 0, row, col;
    do
        i += elements_first_nonfinite(
            t->type, (const unsigned char *)data->data + i * dtype_bytes(data->dtype), n - i);
    while (i < n && t->panels && fills_panel(s, i / panel, i / pair % PANEL_ROWS) && ++i < n);
    if (i == n)
        return;
    place_of(s, t, i, &row, &col);
    const char *what = kind_of(element_at(t, i));
    if (s->k)
        found(p, "tensor %s: element [%zu, %zu] is %s", s->name, row, col, what);
    else
        found(p, "tensor %s: element [%zu] is %s", s->name, row, what);
}

/* Look for the first weight or scale that is not finite in one tensor of the list. */
static bool check_finite_tensor(CheckPart *p, const TensorSpec *s, const CheckedTensor *t,
                                Error *err)
{
    if (t->rows)
        return check_rows(p, s, t, err);
    check_finite(p, s, t);
    return true;
}

bool data_check_finite(CheckPart *out, const StoredModel *c, Error *err)
{
    *out = (CheckPart){ .answer = CHECK_OK };
    TensorSpec s = tensor_list_start();
    for (int i = 0; out->n_bad == 0 && tensor_list_next(&c->config, &s); i++)
        if (!check_finite_tensor(out, &s, &c->tensor[i], err))
            return false;
    return true;
}

bool data_check(DataCheck *out, const StoredModel *c, const TensorFile *f, const Progress *progress,
                Error *err)
{
    *out = (DataCheck){ .hash.answer = CHECK_NONE,
                        .padding.answer = CHECK_OK,
                        .finite.answer = c ? CHECK_OK : CHECK_NONE };
    if (c && c->tensor[0].rows)
        out->padding.answer = CHECK_NONE;
    double   share  = tensor_meta(f, "sha256") ? HASH_SHARE : 0, done = 0,
           all = c ? (double)stored_model_bytes(c) : 0;
    Progress hash   = progress_part(progress, 0, share), values = progress_part(progress, share, 1);
    if (!check_hash(&out->hash, f, &hash, err))
        return false;
    TensorSpec s = tensor_list_start();
    for (int i = 0; c && tensor_list_next(&c->config, &s); i++) {
        CheckedTensor t = c->tensor[i];
        if (!check_finite_tensor(&out->finite, &s, &t, err)
            || !progress_tell(&values, done += (double)checked_bytes(&t), all, err))
            return false;
        if (t.rows)
            continue;
        if (weight_type_quantized(t.type)) {
            if (!check_quantized_panels(&out->padding, &s, &t, err))
                return false;
        } else if (t.panels)
            check_panels(&out->padding, &s, &t);
    }
    check_pads(&out->padding, f);
    out->ok = out->hash.answer != CHECK_BAD && out->padding.answer != CHECK_BAD
        && out->finite.answer != CHECK_BAD;
    return true;
}

bool data_check_answer(const DataCheck *d, const char *path, int status, Error *err)
{
    if (d->ok)
        return true;
    if (d->finite.answer == CHECK_BAD)
        return fail(err, status, "%s: %s", path, d->finite.found);
    if (d->padding.answer == CHECK_BAD)
        return fail(err, status, "%s: %s", path, d->padding.found);
    return fail(err, status, "%s: sha256 of the data: %s", path, d->hash.found);
}
