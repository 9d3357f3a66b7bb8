#include "runtime/numerics.h"

#include <stdio.h>
#include <string.h>

static const char *const math_names[MATH_COUNT] = {[MATH_F32] = "f32", [MATH_INT8] = "int8", [MATH_BF16] = "bf16"};

const char *math_name(Math m) { return math_names[m]; }

Way way_of(Numerics n, WeightType type)
{
    if (weight_type_quantized(type))
        return n.math == MATH_F32 ? WAY_F32 : WAY_INT;
    return type == WT_BF16 && n.math == MATH_BF16 ? WAY_BF16 : WAY_F32;
}

/* ---- The matrices of a model that share an input ---- */

enum { MAX_GROUP = 3 };
typedef struct Group {
    unsigned   ints;             /* the vector they read */
    int        n;
    const Mat *mat[MAX_GROUP];
} Group;

/* Group number i of a model: four in each layer, then the head. False past the last. */
static bool group_at(const Model *m, int i, Group *g)
{
    if (i == 4 * m->cfg.n_layers) {
        *g = (Group){INTS_XN, 1, {&m->lm_head}};
        return true;
    }
    if (i > 4 * m->cfg.n_layers)
        return false;
    const Layer *w = &m->layer[i / 4];
    switch (i % 4) {
    case 0:  *g = (Group){INTS_XN, 3, {&w->wq, &w->wk, &w->wv}}; break;
    case 1:  *g = (Group){INTS_ATT_OUT, 1, {&w->wo}}; break;
    case 2:  *g = (Group){INTS_XN, 2, {&w->w_gate, &w->w_up}}; break;
    default: *g = (Group){INTS_HIDDEN, 1, {&w->w_down}}; break;
    }
    return true;
}

unsigned ints_of_role(TensorRole role, bool tied)
{
    switch (role) {
    case ROLE_WO:     return INTS_ATT_OUT;
    case ROLE_W_DOWN: return INTS_HIDDEN;
    case ROLE_EMBED:  return tied ? INTS_XN : 0; /* else it is only gathered */
    case ROLE_WQ: case ROLE_WK: case ROLE_WV: case ROLE_W_GATE: case ROLE_W_UP: case ROLE_LM_HEAD: return INTS_XN;
    default:          return 0;
    }
}

static bool any_matrix(const Model *m, int n_groups, bool (*is)(WeightType t))
{
    Group g;
    for (int i = 0; i < n_groups && group_at(m, i, &g); i++)
        for (int j = 0; j < g.n; j++)
            if (is(g.mat[j]->type))
                return true;
    return false;
}

/* The name of a GGUF type that the model holds; NULL: none. */
static const char *first_gguf(const Model *m)
{
    Group g;
    for (int i = 0; group_at(m, i, &g); i++)
        for (int j = 0; j < g.n; j++)
            if (weight_type_gguf(g.mat[j]->type))
                return weight_type_name(g.mat[j]->type);
    return NULL;
}

static bool is_bf16(WeightType t) { return t == WT_BF16; }

bool model_is_quantized(const Model *m) { return any_matrix(m, 4 * m->cfg.n_layers, weight_type_quantized); }

/* ---- Activations ---- */

int activation_bits(Numerics n, const Mat *const *mat, int n_mats)
{
    int bits = 0;
    for (int i = 0; i < n_mats; i++) {
        if (way_of(n, mat[i]->type) != WAY_INT)
            continue;
        if (weight_type_gguf(mat[i]->type))
            return 8; /* whatever the others ask: 16 would pass int32 */
        int wants = n.activations ? n.activations : mat[i]->type == WT_Q4 ? 8 : 16;
        bits = wants > bits ? wants : bits;
    }
    return bits;
}

const char *activations_name(Numerics n, const Model *m)
{
    bool  eight = false, sixteen = false;
    Group g;
    for (int i = 0; group_at(m, i, &g); i++) {
        int bits = activation_bits(n, g.mat, g.n);
        eight |= bits == 8;
        sixteen |= bits == 16;
    }
    return eight && sixteen ? "auto" : eight ? "8" : sixteen ? "16" : "none";
}

unsigned numerics_ints(Numerics n, const Model *m)
{
    unsigned mask = 0;
    Group    g;
    for (int i = 0; group_at(m, i, &g); i++)
        if (activation_bits(n, g.mat, g.n))
            mask |= g.ints;
    return mask;
}

/* ---- bf16 ---- */

static bool has_tiny(const Mat *w)
{
    enum { STEP = 2 * PANEL_ROWS }; /* a fixed trip count, so that the compiler uses vectors */
    const uint16_t *v = w->w.part[0];
    size_t          n = panel_bytes(WT_BF16, w->k) / sizeof *v * (size_t)panel_count(w->rows);
    for (size_t i = 0; i < n; i += STEP) {
        unsigned tiny = 0;
        for (int j = 0; j < STEP; j++)
            tiny |= (uint16_t)((v[i + (size_t)j] & 0x7fff) - 1) < BF16_LEAST - 1;
        if (tiny)
            return true;
    }
    return false;
}

bool bf16_weights_check(const Model *m, const char *path, Error *err)
{
    static const char *const names[4][MAX_GROUP] = {{"wq", "wk", "wv"}, {"wo"}, {"w_gate", "w_up"}, {"w_down"}};
    Group g;
    for (int i = 0; group_at(m, i, &g); i++)
        for (int j = 0; j < g.n; j++) {
            char name[32] = "lm_head";
            if (g.mat[j]->type != WT_BF16 || !has_tiny(g.mat[j]))
                continue;
            if (i < 4 * m->cfg.n_layers)
                snprintf(name, sizeof name, "layers.%d.%s", i / 4, names[i % 4][j]);
            return fail(err, INPUT, "%s: tensor %s: math bf16: expected 0 or magnitudes from 2^-50, found a smaller one: "
                        "convert the model again, or quantize it to bf16", path, name);
        }
    return true;
}

/* ---- Choosing ---- */

static bool is_auto(const char *name) { return !name || strcmp(name, "auto") == 0; }

static bool choose_math(Numerics *out, const Model *m, const char *math, Error *err)
{
    int  all       = 4 * m->cfg.n_layers + 1;
    bool quantized = any_matrix(m, all, weight_type_quantized);
    out->math      = quantized ? MATH_INT8 : MATH_F32;
    if (is_auto(math))
        return true;
    for (int i = 0; i < MATH_COUNT; i++)
        if (strcmp(math, math_names[i]) == 0) {
            out->math = (Math)i;
            if (i == MATH_INT8 && !quantized)
                return fail(err, USAGE, "math int8: expected a model with quantized weights, found none in it");
            if (i == MATH_BF16 && !any_matrix(m, all, is_bf16))
                return fail(err, USAGE, "math bf16: expected a model with bf16 matrices, found none in it");
            return true;
        }
    return fail(err, USAGE, "math: expected auto, f32, int8 or bf16, found '%s'", math);
}

bool numerics_choose(Numerics *out, const Model *m, const char *math, const char *activations, Error *err)
{
    *out = (Numerics){MATH_F32, 0};
    if (!choose_math(out, m, math, err))
        return false;
    if (is_auto(activations))
        return true;
    if (strcmp(activations, "8") != 0 && strcmp(activations, "16") != 0)
        return fail(err, USAGE, "activations: expected auto, 8 or 16, found '%s'", activations);
    if (numerics_ints(*out, m) == 0)
        return fail(err, USAGE, "activations %s: expected quantized weights and integer math, found %s", activations,
                    out->math == MATH_F32 && model_is_quantized(m) ? "math f32" : "float weights");
    out->activations = activations[0] == '8' ? 8 : 16;
    const char *gguf = out->activations == 16 ? first_gguf(m) : NULL;
    return !gguf || fail(err, USAGE, "activations 16: expected auto or 8 with %s weights, whose sums would pass 32 bits, found 16", gguf);
}
