/* The table of weight types, and the layout of float types and of q8 and q4. The GGUF types are in
 * panel_blocks.c. */
#include "quant/quant.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "quant/codes.h"

/* One part of a type. A panel of it is [ceil(k rounded up to `round` / step)][inner dimensions]. */
typedef struct TypePart {
    const char *suffix;
    ElementType element;
    int         step, round, rank, inner[2];
} TypePart;

static const struct {
    const char *name;
    int         n_parts;
    TypePart    part[MAX_PARTS];
} types[WT_COUNT] = {
#define PARTS(...) sizeof((TypePart[]){ __VA_ARGS__ }) / sizeof(TypePart), { __VA_ARGS__ }
#define ROW(ID, name, has, sub, bits, offset, most, ...) [WT_##ID] = { #name, PARTS(__VA_ARGS__) },
    WEIGHT_TYPES(ROW)
};

static const size_t element_bytes[] = {
    [EL_F32] = 4, [EL_F16] = 2, [EL_BF16] = 2, [EL_I8] = 1, [EL_U8] = 1
};

const char *weight_type_name(WeightType t)
{
    assert(t < WT_COUNT);
    return types[t].name;
}

const char *weight_types_text(char *buf, size_t n)
{
    size_t at = 0;
    for (int t = WT_FLOATS; t < WT_COUNT && at < n; t++)
        at += (size_t)snprintf(buf + at, n - at, "%s%s",
                               t == WT_FLOATS       ? ""
                               : t + 1 < WT_COUNT ? ", "
                                                  : " or ",
                               types[t].name);
    return buf;
}

bool weight_type_parse(const char *name, WeightType *out)
{
    for (int t = 0; t < WT_COUNT; t++)
        if (strcmp(name, types[t].name) == 0) {
            *out = (WeightType)t;
            return true;
        }
    return false;
}

bool weight_type_parse_made(const char *name, WeightType *out)
{
    WeightType t;
    if (!weight_type_parse(name, &t) || t >= WT_MADE)
        return false;
    *out = t;
    return true;
}

const char *weight_type_hint(const char *name)
{
    WeightType t;
    return weight_type_parse(name, &t) && weight_type_gguf(t) && gguf_block(t) < BLOCK_TYPES
        ? "; llama.cpp's tools make that type: convert a .gguf"
        : "";
}

int weight_type_k_unit(WeightType t)
{
    return weight_type_gguf(t) ? (int)block_elements(gguf_block(t)) : 1;
}

int weight_type_step(WeightType t) { return types[t].part[0].step; }

size_t weight_type_bytes(WeightType t)
{
    assert(t < WT_FLOATS);
    return (size_t)weight_type_bits(t) / 8;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static const TypePart *part_of(WeightType t, int part)
{
    assert(t < WT_COUNT && part >= 0 && part < types[t].n_parts);
    return &types[t].part[part];
}

int         part_count(WeightType t) { return types[t].n_parts; }
const char *part_suffix(WeightType t, int part) { return part_of(t, part)->suffix; }
ElementType part_element(WeightType t, int part) { return part_of(t, part)->element; }

static size_t steps(const TypePart *p, int k)
{
    size_t padded = round_up((size_t)k, (size_t)p->round);
    return (padded + (size_t)p->step - 1) / (size_t)p->step;
}

size_t part_bytes(WeightType t, int part, int k)
{
    const TypePart *p    = part_of(t, part);
    size_t      n,
        one = element_bytes[p->element] * (size_t)p->inner[0]
        * (size_t)(p->rank > 1 ? p->inner[1] : 1);
    return k >= 1 && k % weight_type_k_unit(t) == 0 && mul_size(steps(p, k), one, &n) ? n : 0;
}

int part_shape(WeightType t, int part, int rows, int k, int64_t shape[4])
{
    const TypePart *p = part_of(t, part);
    shape[0] = panel_count(rows);
    shape[1] = (int64_t)steps(p, k);
    for (int i = 0; i < p->rank; i++)
        shape[2 + i] = p->inner[i];
    return 2 + p->rank;
}

size_t panel_bytes(WeightType t, int k)
{
    size_t n = 0;
    for (int i = 0; i < types[t].n_parts; i++) {
        size_t one = part_bytes(t, i, k);
        if (one == 0 || !add_size(n, one, &n))
            return 0;
    }
    return n;
}

bool matrix_bytes(WeightType t, int rows, int k, size_t *n)
{
    size_t one = panel_bytes(t, k);
    return rows >= 1 && one != 0 && mul_size((size_t)panel_count(rows), one, n);
}

Panels panels_from(WeightType t, Panels p, int first, int k)
{
    for (int i = 0; i < types[t].n_parts; i++)
        p.part[i] = (const char *)p.part[i] + (size_t)first * part_bytes(t, i, k);
    return p;
}

/* ---- Float types ----------------------------------------------------------------------------- */

/* Position of element (r, c) in a panel, in elements. */
static size_t place(WeightType t, int r, int c)
{
    int g = types[t].part[0].step;
    return ((size_t)(c / g) * PANEL_ROWS + (size_t)r) * (size_t)g + (size_t)(c % g);
}

/* Transpose units of `size` bytes, n of each row of row_bytes, to [n][PANEL_ROWS]. It takes as many
 * units at a time as a cache line holds, so that the lines read and written stay in L1. */
static inline void transpose(unsigned char *out, const unsigned char *in, size_t row_bytes,
                             int n_rows, int n, size_t size)
{
    enum { RUN = 16 };
    for (int u = 0; u < n; u += RUN) {
        int m = n - u < RUN ? n - u : RUN;
        for (int r = 0; r < n_rows; r++) {
            const unsigned char *from = in + (size_t)r * row_bytes + (size_t)u * size;
            unsigned char       *to   = out + ((size_t)u * PANEL_ROWS + (size_t)r) * size;
            for (int i = 0; i < m; i++)
                memcpy(to + (size_t)i * PANEL_ROWS * size, from + (size_t)i * size, size);
        }
    }
}

void panel_pack(WeightType t, void *panel, const void *rows, int n_rows, int k)
{
    assert(n_rows >= 1 && n_rows <= PANEL_ROWS && k >= 1);
    size_t               size = weight_type_bytes(t), row_bytes = size * (size_t)k;
    const unsigned char *in   = rows;
    unsigned char       *out  = panel;
    int                  together = types[t].part[0].step; /* columns that stay side by side */
    if (n_rows < PANEL_ROWS || k % together != 0)
        memset(panel, 0, panel_bytes(t, k));
    if (size * (size_t)together == 4)
        transpose(out, in, row_bytes, n_rows, k / together, 4);
    else
        transpose(out, in, row_bytes, n_rows, k / together, 2);
    for (int r = 0; r < n_rows && k % together != 0; r++) /* the last half of a pair */
        memcpy(out + place(t, r, k - 1) * size, in + (size_t)r * row_bytes + (size_t)(k - 1) * size,
               size);
}

/* ---- Quantized types ------------------------------------------------------------------------- */

/* The byte of a q4 code (r, c): 64 bytes hold 8 k of 16 rows, k 0..3 in the low nibbles and k 4..7
 * in the high ones. */
static size_t q4_byte(int r, int c)
{
    return (size_t)(c / 8) * 64 + (size_t)r * 4 + (size_t)(c % 4);
}
static int    q4_shift(int c) { return c / 4 % 2 * 4; }

/* Sub-scales of 64 k: 32 bytes of magnitudes, two sub-blocks to a byte, then a 16-bit mask of signs
 * for each sub-block. */
enum { SUBS_BYTES = 40, SUBS_SIGNS = 32 };
static size_t sub_byte(int r, int sub)
{
    return (size_t)(sub / 4) * SUBS_BYTES + (size_t)(sub % 4 / 2 * 16 + r);
}
static int    sub_shift(int sub) { return sub % 2 * 4; }
static size_t sign_byte(int r, int sub)
{
    return (size_t)(sub / 4) * SUBS_BYTES + (size_t)(SUBS_SIGNS + sub % 4 * 2 + r / 8);
}

static void put_q4(void *const to[MAX_PARTS], int r, int c, int n, const SuperblockCodes *s)
{
    uint8_t *codes = to[0], *subs = to[1];
    int      padded = (n + 63) / 64 * 64;
    for (int i = 0; i < padded; i++)
        codes[q4_byte(r, c + i)] |= (uint8_t)((i < n ? s->code[i] : Q4_ZERO) << q4_shift(c + i));
    for (int i = 0; i < padded / SUB_BLOCK; i++) {
        int g = c / SUB_BLOCK + i;
        subs[sub_byte(r, g)] |= (uint8_t)((s->sub[i] & 15) << sub_shift(g));
        subs[sign_byte(r, g)] |= (uint8_t)((s->sub[i] >> 4 & 1) << r % 8);
    }
}

void superblock_put(WeightType t, void *const to[MAX_PARTS], int r, int c, int n,
                    const SuperblockCodes *s)
{
    assert((t == WT_Q8 || t == WT_Q4) && r >= 0 && r < PANEL_ROWS && c % SUPERBLOCK == 0 && n >= 1
           && n <= SUPERBLOCK);
    uint8_t *codes = to[0];
    ((uint16_t *)to[types[t].n_parts - 1])[(c / SUPERBLOCK) * PANEL_ROWS + r] = s->d;
    if (t == WT_Q4)
        put_q4(to, r, c, n, s);
    for (int i = 0; t == WT_Q8 && i < n; i++)
        codes[place(WT_Q8, r, c + i)] = s->code[i];
}

static void encode(WeightType t, const float *x, const float *weight, int n, SuperblockCodes *s)
{
    if (t == WT_Q8)
        q8_encode(x, weight, n, (int8_t *)s->code, &s->d);
    else
        q4_encode(x, weight, n, s->code, s->sub, &s->d);
}

void panel_make(WeightType t, void *const to[MAX_PARTS], const void *rows, int n_rows, int k)
{
    if (weight_type_gguf(t))
        panel_from_blocks(t, to, rows, gguf_row_bytes(t, k), n_rows, k);
    else
        panel_pack(t, to[0], rows, n_rows, k);
}

void panel_quantize(WeightType t, void *const to[MAX_PARTS], const float *rows,
                    const float *weight, int n_rows, int k)
{
    static const float zeros[SUPERBLOCK];
    assert((t == WT_Q8 || t == WT_Q4) && n_rows >= 1 && n_rows <= PANEL_ROWS && k >= 1);
    for (int i = 0; i < types[t].n_parts; i++)
        memset(to[i], 0, part_bytes(t, i, k));
    for (int r = 0; r < PANEL_ROWS; r++)
        for (int c = 0; c < k; c += SUPERBLOCK) {
            int          n = k - c < SUPERBLOCK ? k - c : SUPERBLOCK;
            SuperblockCodes s;
            encode(t, r < n_rows ? rows + (size_t)r * (size_t)k + c : zeros,
                   weight ? weight + c : NULL, n, &s);
            superblock_put(t, to, r, c, n, &s);
        }
}

Panels panel_superblock(WeightType t, Panels p, int s)
{
    for (int i = 0; i < types[t].n_parts; i++)
        p.part[i] = (const char *)p.part[i] + (size_t)s * part_bytes(t, i, SUPERBLOCK);
    return p;
}

void superblock_row_to_i8(WeightType t, int8_t *out, Panels p, int r, int n)
{
    assert((t == WT_Q8 || t == WT_Q4) && n >= 1 && n <= SUPERBLOCK);
    const uint8_t *codes = p.part[0], *subs = p.part[1];
    for (int c = 0; c < n; c++) {
        if (t == WT_Q8) {
            out[c] = (int8_t)codes[place(WT_Q8, r, c)];
            continue;
        }
        int      g   = c / SUB_BLOCK;
        unsigned sub = (unsigned)(subs[sub_byte(r, g)] >> sub_shift(g) & 15)
            | (unsigned)(subs[sign_byte(r, g)] >> r % 8 & 1) << 4;
        out[c] = (int8_t)(q4_codebook[codes[q4_byte(r, c)] >> q4_shift(c) & 15] * q4_subscale(sub));
    }
}

float superblock_scale(WeightType t, Panels p, int r)
{
    const uint16_t *d = p.part[types[t].n_parts - 1];
    return f16_to_f32(d[r]);
}

static void quantized_row(WeightType t, float *out, Panels p, int r, int k)
{
    for (int c = 0; c < k; c += SUPERBLOCK) {
        int    n = k - c < SUPERBLOCK ? k - c : SUPERBLOCK;
        int8_t code[SUPERBLOCK];
        Panels at = panel_superblock(t, p, c / SUPERBLOCK);
        float  d  = superblock_scale(t, at, r);
        superblock_row_to_i8(t, code, at, r, n);
        for (int i = 0; i < n; i++)
            out[c + i] = d * (float)code[i];
    }
}

void panel_row_to_f32(WeightType t, float *out, Panels p, int r, int k)
{
    assert(r >= 0 && r < PANEL_ROWS);
    if (weight_type_gguf(t)) {
        gguf_row_to_f32(t, out, p, r, k);
        return;
    }
    if (weight_type_quantized(t)) {
        quantized_row(t, out, p, r, k);
        return;
    }
    const unsigned char *in   = p.part[0];
    size_t               size = weight_type_bytes(t);
    for (int c = 0; c < k; c++)
        elements_to_f32(t, out + c, in + place(t, r, c) * size, 1);
}

/* ---- Row-major runs -------------------------------------------------------------------------- */

void elements_to_f32(WeightType t, float *out, const void *in, size_t n)
{
    const uint16_t *half = in;
    switch (t) {
    case WT_F32:
        memcpy(out, in, n * sizeof *out);
        return;
    case WT_F16:
        for (size_t i = 0; i < n; i++)
            out[i] = f16_to_f32(half[i]);
        return;
    case WT_BF16:
        for (size_t i = 0; i < n; i++)
            out[i] = bf16_to_f32(half[i]);
        return;
    default:
        break;
    }
    assert(t < WT_FLOATS); /* a new type needs a conversion here */
}

void elements_from_f32(WeightType t, void *out, const float *in, size_t n)
{
    uint16_t *half = out;
    switch (t) {
    case WT_F32:
        memcpy(out, in, n * sizeof *in);
        return;
    case WT_F16:
        for (size_t i = 0; i < n; i++)
            half[i] = f32_to_f16(in[i]);
        return;
    case WT_BF16:
        for (size_t i = 0; i < n; i++)
            half[i] = f32_to_bf16(in[i]);
        return;
    default:
        break;
    }
    assert(t < WT_FLOATS); /* a new type needs a conversion here */
}

/* The first loop over a block has no exit, so compilers vectorize it. Only a block with a hit is
 * searched again. */
static size_t first_full_exponent16(const unsigned char *data, size_t n, uint16_t exponent)
{
    enum { BLOCK = 4096 };
    uint16_t block[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t m = n - at < BLOCK ? n - at : BLOCK;
        int    hits = 0;
        memcpy(block, data + at * sizeof *block, m * sizeof *block);
        for (size_t i = 0; i < m; i++)
            hits |= (block[i] & exponent) == exponent;
        for (size_t i = 0; hits && i < m; i++)
            if ((block[i] & exponent) == exponent)
                return at + i;
    }
    return n;
}

static size_t first_full_exponent32(const unsigned char *data, size_t n)
{
    enum { BLOCK = 2048 };
    uint32_t block[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t m = n - at < BLOCK ? n - at : BLOCK;
        int    hits = 0;
        memcpy(block, data + at * sizeof *block, m * sizeof *block);
        for (size_t i = 0; i < m; i++)
            hits |= (block[i] & 0x7f800000u) == 0x7f800000u;
        for (size_t i = 0; hits && i < m; i++)
            if ((block[i] & 0x7f800000u) == 0x7f800000u)
                return at + i;
    }
    return n;
}

size_t elements_first_nonfinite(WeightType t, const void *data, size_t n)
{
    assert(t < WT_FLOATS);
    return t == WT_F32 ? first_full_exponent32(data, n)
                       : first_full_exponent16(data, n, t == WT_F16 ? 0x7c00 : 0x7f80);
}
