/* source/hf_codes.c: weights of quantized folders: codes in one tensor, their scales, zero points
 * and order in others. w = scale * (code - zero point), rounded once to f32 if needed. Sources:
 * transformers 5.23 (integrations/finegrained_fp8.py), compressed-tensors 0.20
 * (compressors/pack_quantized, quantization/lifecycle/forward.py), GPTQModel
 * (nn_modules/qlinear/__init__.py), AutoAWQ 0.2.9 (awq/utils/packing_utils.py). */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "format/bytes.h"
#include "source/hf.h"

enum { RUN = 32, WORD = 32 };

/* Matrices [rows, k] of one RowSource. */
typedef struct Codes {
    HfQuant           q;
    int               rows, k;
    const SourcePart *part[QUANT_PARTS]; /* of the first matrix, then of the second ... */
    int               each;              /* columns that share a scale: 128, 64, 32, or 0: fewer */
    bool              columns;           /* it is read by columns, so as floats */
    WeightType        to;
} Codes;

static int64_t up(int64_t n, int64_t each) { return each ? n / each + (n % each != 0) : 1; }

/* ---- Tensors --------------------------------------------------------------------------------- */

/* What each form calls its parts, instead of "weight"; NULL: it has none. */
static const char *const names[][QUANT_PARTS] = {
    [QUANT_FP8]    = { "weight", "weight_scale_inv" },
    [QUANT_FLOAT]  = { "weight", "weight_scale" },
    [QUANT_INT]    = { "weight", "weight_scale", "weight_zero_point" },
    [QUANT_PACKED] = { "weight_packed", "weight_scale", "weight_zero_point", "weight_g_idx",
                       "weight_shape" },
    [QUANT_GPTQ]   = { "qweight", "scales", "qzeros", "g_idx" },
    [QUANT_AWQ]    = { "qweight", "scales", "qzeros" },
};

static void types(QuantTensor *t, int n, DType a, DType b, DType c, DType d)
{
    t->n_dtypes = n;
    memcpy(t->dtype, (DType[]){ a, b, c, d }, sizeof t->dtype);
}

static void shape(QuantTensor *t, int64_t first, int64_t second)
{
    t->rank   = 2;
    t->dim[0] = first;
    t->dim[1] = second;
}

static void describe(const HfQuant *q, QuantPart part, int64_t rows, int64_t k, QuantTensor *t)
{
    int64_t groups = up(k, q->block_k), of_rows = up(rows * q->bits, WORD),
            of_k = up(k * q->bits, WORD);
    bool gptq = q->form == QUANT_GPTQ, awq = q->form == QUANT_AWQ, packed = q->form == QUANT_PACKED;
    types(t, 1, DT_I32, DT_I32, DT_I32, DT_I32);
    switch (part) {
    case QUANT_CODES:
        shape(t, gptq ? of_k : awq ? k : rows, gptq ? rows : awq ? of_rows : packed ? of_k : k);
        if (!gptq && !awq && !packed)
            t->dtype[0] = q->form == QUANT_INT ? DT_I8 : DT_F8_E4M3;
        return;
    case QUANT_SCALES:
        shape(t, gptq || awq ? groups : up(rows, q->block_rows), gptq || awq ? rows : groups);
        types(t, q->form == QUANT_FP8 ? 4 : 3, DT_F16, DT_BF16, DT_F32, DT_F8_E8M0);
        return;
    case QUANT_ZEROS:
        shape(t, gptq || awq ? groups : packed ? of_rows : rows, gptq || awq ? of_rows : groups);
        if (q->form == QUANT_INT)
            t->dtype[0] = DT_I8;
        return;
    default:
        t->rank   = 1;
        t->dim[0] = part == QUANT_ORDER ? k : 2;
        if (part == QUANT_SHAPE)
            types(t, 2, DT_I64, DT_I32, DT_I32, DT_I32);
    }
}

bool hf_quant_tensor(const HfQuant *q, QuantPart part, const char *name, int64_t rows, int64_t k,
                     QuantTensor *out)
{
    size_t      n   = strlen(name), end = strlen("weight");
    const char *own = q->form >= QUANT_FP8 ? names[q->form][part] : NULL;
    if (!own || n < end + 1 || strcmp(name + n - end - 1, ".weight") != 0
        || n - end + strlen(own) >= sizeof out->name || (part == QUANT_ZEROS && !q->zeros))
        return false;
    *out = (QuantTensor){ .optional = part == QUANT_ORDER && q->ordered != QUANT_ORDERED };
    snprintf(out->name, sizeof out->name, "%.*s%s", (int)(n - end), name, own);
    describe(q, part, rows, k, out);
    return true;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static uint32_t word(const Tensor *t, size_t i)
{
    return read_u32((const unsigned char *)t->data + 4 * i);
}

static float scale_at(const Tensor *t, size_t i)
{
    const unsigned char *p = (const unsigned char *)t->data + i * dtype_bytes(t->dtype);
    switch (t->dtype) {
    case DT_F16:     return f16_to_f32(read_u16(p));
    case DT_BF16:    return bf16_to_f32(read_u16(p));
    case DT_F8_E8M0: return e8m0_to_f32(*p);
    default:         return read_f32(p);
    }
}

static float scale_of(const Codes *c, int m, size_t row, size_t group)
{
    const Tensor *t = c->part[QUANT_SCALES][m].t;
    size_t        rows = (size_t)c->rows, groups = (size_t)up(c->k, c->q.block_k);
    if (c->q.form == QUANT_GPTQ || c->q.form == QUANT_AWQ)
        return scale_at(t, group * rows + row);
    return scale_at(t, (c->q.block_rows ? row / (size_t)c->q.block_rows : 0) * groups + group);
}

/* Where a word of AWQ has the code of column or row number i of its eight, in nibbles. */
static const int awq_nibble[8] = { 0, 4, 1, 5, 2, 6, 3, 7 };

/* Code number i of a stream of words that are `step` apart, lowest bits first; it may span two. */
static int in_stream(const Tensor *t, size_t first, size_t step, size_t i, int bits)
{
    size_t   at   = i * (size_t)bits, w = at / WORD, shift = at % WORD;
    uint64_t both = word(t, first + w * step);
    if (shift + (size_t)bits > WORD)
        both |= (uint64_t)word(t, first + (w + 1) * step) << WORD;
    return (int)(both >> shift) & ((1 << bits) - 1);
}

static int zero_of(const Codes *c, int m, size_t row, size_t group)
{
    int bits = c->q.bits;
    if (!c->q.zeros)
        return c->q.form == QUANT_PACKED ? 1 << (bits - 1) : 0;
    const Tensor *t = c->part[QUANT_ZEROS][m].t;
    size_t groups = (size_t)up(c->k, c->q.block_k), words = (size_t)up((int64_t)c->rows * bits,
                                                                       WORD);
    switch (c->q.form) {
    case QUANT_INT:
        return ((const int8_t *)t->data)[row * groups + group];
    case QUANT_PACKED:
        return in_stream(t, group, groups, row, bits);
    case QUANT_AWQ:
        return (int)(word(t, group * words + row / 8) >> 4 * awq_nibble[row % 8]) & 15;
    default:
        return in_stream(t, group * words, 1, row, bits) + c->q.zeros_less_one;
    }
}

static size_t group_of(const Codes *c, int m, size_t column)
{
    if (c->part[QUANT_ORDER])
        return word(c->part[QUANT_ORDER][m].t, column);
    return c->q.block_k ? column / (size_t)c->q.block_k : 0;
}

/* n codes (1..32) of a row from column `first` on, a multiple of 32. */
static void codes_of(const Codes *c, int m, size_t row, size_t first, int n, int out[RUN])
{
    const Tensor *t = c->part[QUANT_CODES][m].t;
    size_t        rows = (size_t)c->rows, k = (size_t)c->k, bits = (size_t)c->q.bits;
    uint64_t      buffer = 0;
    if (c->q.form == QUANT_INT) {
        for (int i = 0; i < n; i++)
            out[i] = ((const int8_t *)t->data)[row * k + first + (size_t)i];
        return;
    }
    if (c->q.form == QUANT_AWQ) {
        size_t words = (size_t)up((int64_t)rows * c->q.bits, WORD), at = row / 8;
        for (int i = 0; i < n; i++)
            out[i] = (int)(word(t, (first + (size_t)i) * words + at) >> 4 * awq_nibble[row % 8])
                & 15;
        return;
    }
    bool   down = c->q.form == QUANT_GPTQ; /* words of a row are in a column */
    size_t step = down ? rows : 1, have = 0,
           at = (down ? row : row * (size_t)up((int64_t)k * c->q.bits, WORD))
        + first / WORD * bits * step;
    for (int i = 0; i < n; i++, buffer >>= bits, have -= bits) {
        if (have < bits) {
            buffer |= (uint64_t)word(t, at) << have;
            at += step;
            have += WORD;
        }
        out[i] = (int)(buffer & ((1u << bits) - 1));
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* One run of 32 codes with their scale as a block of the type. */
static void put_block(WeightType to, uint8_t *out, float scale, int zero, const int code[RUN])
{
    uint16_t d = f32_to_f16(scale);
    memcpy(out, &d, sizeof d);
    if (weight_type_has_zeros(to)) {
        out[2] = (uint8_t)zero;
        for (int i = 0; i < RUN / 2; i++)
            out[3 + i] = (uint8_t)(code[i] | code[i + RUN / 2] << 4);
    }
    for (int i = 0; to == WT_Q8_0 && i < RUN; i++)
        out[2 + i] = (uint8_t)(code[i] - zero);
    for (int i = 0; to == WT_Q4_0 && i < RUN / 2; i++)
        out[2 + i] = (uint8_t)((code[i] - zero + 8) | (code[i + RUN / 2] - zero + 8) << 4);
}

static void put_floats(const Codes *c, int m, size_t row, size_t first, int n, float *out)
{
    int    code[RUN];
    float  scale = 0;
    int    zero  = 0;
    size_t group = SIZE_MAX;
    bool   f8    = c->q.form == QUANT_FP8 || c->q.form == QUANT_FLOAT;
    const uint8_t *value = (const uint8_t *)c->part[QUANT_CODES][m].t->data
        + (f8 ? row * (size_t)c->k + first : 0);
    if (!f8)
        codes_of(c, m, row, first, n, code);
    for (int i = 0; i < n; i++) {
        if (i == 0 || (c->each == 0 && group != group_of(c, m, first + (size_t)i))) {
            group = group_of(c, m, first + (size_t)i);
            scale = scale_of(c, m, row, group);
            zero  = f8 ? 0 : zero_of(c, m, row, group);
        }
        out[i] = scale * (f8 ? e4m3_to_f32(value[i]) : (float)(code[i] - zero));
    }
}

/* One float of a matrix that is read by columns. */
static void put_one(const Codes *c, int m, size_t row, size_t column, void *out)
{
    float  value[RUN];
    bool   f8    = c->q.form == QUANT_FP8 || c->q.form == QUANT_FLOAT;
    size_t first = f8 ? column : column / RUN * RUN, i = column - first;
    put_floats(c, m, row, first, (int)i + 1, value);
    elements_from_f32(c->to, out, &value[i], 1);
}

static void read_codes(const void *from, int m, size_t first, size_t n, void *out)
{
    const Codes *c = from;
    size_t       k = (size_t)c->k, row = first / k;
    int          code[RUN];
    float        value[RUN];
    if (c->columns) {
        assert(n == 1);
        put_one(c, m, row, first % k, out);
        return;
    }
    assert(n == k && first % k == 0);
    (void)n;
    for (size_t col = 0; col < k; col += RUN) {
        int left = k - col < RUN ? (int)(k - col) : RUN;
        if (c->to == WT_F32) {
            put_floats(c, m, row, col, left, (float *)out + col);
        } else if (c->to == WT_BF16) {
            put_floats(c, m, row, col, left, value);
            elements_from_f32(WT_BF16, (uint16_t *)out + col, value, (size_t)left);
        } else {
            size_t group = group_of(c, m, col);
            codes_of(c, m, row, col, RUN, code);
            put_block(c->to, (uint8_t *)out + col / RUN * gguf_row_bytes(c->to, RUN),
                      scale_of(c, m, row, group), zero_of(c, m, row, group), code);
        }
    }
}

/* ---- Which type holds them ------------------------------------------------------------------- */

/* Do all `each` columns, from a multiple of it on, belong to one group? */
static bool share(const Codes *c, int n, int each)
{
    for (int m = 0; m < (c->part[QUANT_ORDER] ? n : 1); m++)
        for (int i = 0; i < c->k; i++)
            if (group_of(c, m, (size_t)i) != group_of(c, m, (size_t)(i / each * each)))
                return false;
    return true;
}

/* The order of columns, checked. *each: as in Codes. */
static bool check_order(const Codes *c, int n, int *each, Error *err)
{
    uint32_t groups = (uint32_t)up(c->k, c->q.block_k);
    for (int m = 0; c->part[QUANT_ORDER] && m < n; m++) {
        const SourcePart *p = &c->part[QUANT_ORDER][m];
        for (int i = 0; i < c->k; i++) {
            uint32_t g = word(p->t, (size_t)i);
            if (g >= groups)
                return fail(err, INPUT, "%s: tensor %s: expected groups from 0 to %u, found %d",
                            p->map->path, p->t->name, groups - 1, (int)g);
        }
    }
    for (*each = c->k % RUN == 0 ? 4 * RUN : 0; *each && !share(c, n, *each);)
        *each = *each > RUN ? *each / 2 : 0;
    return true;
}

/* If all words of a tensor are equal, it has only the codes of the first. */
static bool all_words_same(const Tensor *t)
{
    return t->dtype == DT_I32
        && (t->n_bytes <= 4
            || memcmp(t->data, (const char *)t->data + 4, t->n_bytes - 4) == 0);
}

/* The smallest and largest zero point. Programs disagree on what a code of only ones means if zero
 * points are stored less one: 0 or one more. */
static bool range_of_zeros(const Codes *c, int n, int *least, int *most, Error *err)
{
    *least = *most = zero_of(c, 0, 0, 0);
    for (int m = 0; c->q.zeros && m < n; m++) {
        const SourcePart *p = &c->part[QUANT_ZEROS][m];
        bool              same = WORD % c->q.bits == 0 && all_words_same(p->t);
        size_t rows = same && c->rows > WORD ? WORD : (size_t)c->rows,
               groups = same ? 1 : (size_t)up(c->k, c->q.block_k);
        for (size_t i = 0; i < rows * groups; i++) {
            int z = zero_of(c, m, i / groups, i % groups);
            *least = z < *least ? z : *least;
            *most  = z > *most ? z : *most;
        }
        if (c->q.zeros_less_one && *most == 1 << c->q.bits)
            return fail(err, INPUT,
                        "%s: tensor %s: expected stored zero points under %d (loaders disagree on "
                        "the largest code), found it",
                        p->map->path, p->t->name, *most - 1);
    }
    return true;
}

/* Do all scales fit f16, or (power) are they powers of two with which every code is a bf16 of at
 * least 2^-50? */
static bool all_scales(const Codes *c, int n, bool power)
{
    for (int m = 0; m < n; m++) {
        const Tensor *t = c->part[QUANT_SCALES][m].t;
        for (size_t i = 0; i < t->n_elements && (power || t->dtype != DT_F16); i++) {
            float    s = scale_at(t, i);
            uint32_t u = f32_bits(s) & 0x7FFFFFFF;
            if (power ? u % 0x800000 != 0 || u < f32_bits(0x1p-41f) || u > f32_bits(0x1p100f)
                      : f32_bits(f16_to_f32(f32_to_f16(s))) != f32_bits(s))
                return false;
        }
    }
    return true;
}

/* Sets c->to. *why: what leaves only f32; NULL: nothing, or it is read by columns. */
static bool choose_type(Codes *c, int n, const char **why, Error *err)
{
    int least, most, codes = 1 << c->q.bits;
    c->to = WT_F32;
    if (!check_order(c, n, &c->each, err))
        return false;
    if (c->q.form == QUANT_FP8 || c->q.form == QUANT_FLOAT) {
        c->to = all_scales(c, n, true) ? WT_BF16 : WT_F32;
        *why  = c->to == WT_F32 ? "scales are not powers of two" : NULL;
        return true;
    }
    if (!range_of_zeros(c, n, &least, &most, err))
        return false;
    int low = (c->q.form == QUANT_INT ? -128 : 0) - most,
        high = (c->q.form == QUANT_INT ? 127 : codes - 1) - least;
    if (c->columns)
        return true;
    if (!c->each)
        *why = c->part[QUANT_ORDER] && !share(c, n, 2)
            ? "groups are not in the order of columns (desc_act)"
            : "rows or groups are not multiples of 32 columns";
    else if (low < -128 || high > 127)
        *why = "codes less zero points do not fit 8 bits";
    else if (!all_scales(c, n, false))
        *why = "scales do not fit f16";
    if (*why)
        return true;
    if (c->q.form == QUANT_INT || c->q.bits > 4)
        c->to = WT_Q8_0;
    else
        c->to = c->each == 4 * RUN   ? WT_Q4_Z128
            : c->each == 2 * RUN     ? WT_Q4_Z64
            : low >= -8 && high <= 7 ? WT_Q4_0
                                     : WT_Q4_Z32;
    return true;
}

bool hf_quant_source(Source *s, const HfQuant *q, RowSource *r, const SourcePart *const part[],
                     int n, int rows, Error *err)
{
    Codes *c = source_alloc(s, sizeof *c, err);
    if (!c)
        return false;
    *c = (Codes){ .q = *q, .rows = rows, .k = r->transposed ? r->item_rows : r->k,
                  .columns = r->transposed };
    memcpy(c->part, part, sizeof c->part);
    const char *why = NULL;
    if (!choose_type(c, n, &why, err))
        return false;
    if (why && !(s->warnings && strstr(s->warnings, why))
        && !source_warn(s, err, "tensor %s, and others whose %s, are read as f32",
                        part[QUANT_CODES][0].t->name, why))
        return false;
    r->type      = c->to;
    r->read      = read_codes;
    r->read_from = c;
    return true;
}
