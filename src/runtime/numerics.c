/* runtime/numerics.c: resolves --math and --activations, and plans the arithmetic of every
 * matrix once, so that the operations need not decide it for each layer and token. */
#include "runtime/numerics.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/lora.h"

static const char *const math_names[MATH_COUNT] = {
    [MATH_F32] = "f32", [MATH_INT8] = "int8", [MATH_BF16] = "bf16"
};

const char *math_name(Math m) { return math_names[m]; }

/* Is a matrix of this type multiplied as integers? */
static bool as_integers(Numerics n, WeightType type)
{
    return weight_type_quantized(type) && n.math != MATH_F32;
}

/* ---- The matrices of a model ----------------------------------------------------------------- */

/* The matrix of a role in a layer; NULL if the role is not a matrix of a layer. */
static const Mat *mat_at(const Model *m, int layer, int role)
{
    const TensorRow *row = tensor_row((TensorRole)role);
    return row->in_layer && tensor_row_mat(row)
        ? (const Mat *)(const void *)((const char *)&m->layer[layer] + row->at)
        : NULL;
}

/* The buffer that holds a vector. */
static unsigned ints_of(Input input)
{
    switch (input) {
    case INPUT_WO:          return INTS_ATT_OUT;
    case INPUT_DOWN:
    case INPUT_EXPERT_DOWN:
    case INPUT_SHARED_DOWN: return INTS_HIDDEN;
    default:                return INTS_XN;
    }
}

unsigned ints_of_role(TensorRole role, bool tied)
{
    /* An untied embedding multiplies nothing: rows are only looked up. */
    Input reads = role == ROLE_EMBED && tied ? INPUT_HEAD : tensor_row(role)->reads;
    return reads == INPUT_NONE ? 0 : ints_of(reads);
}

/* The first matrix of such a type in the layers, or (with_head) the head. NULL: none. */
static const Mat *first_matrix(const Model *m, bool with_head, bool (*is)(WeightType t))
{
    for (int l = 0; l < m->cfg.n_layers; l++)
        for (int i = 0; i < ROLE_COUNT; i++) {
            const Mat *w = mat_at(m, l, i);
            if (w && w->rows > 0 && is(w->type))
                return w;
        }
    return with_head && is(m->lm_head.type) ? &m->lm_head : NULL;
}

static bool is_bf16(WeightType t) { return t == WT_BF16; }

bool model_is_quantized(const Model *m)
{
    return first_matrix(m, false, weight_type_quantized) != NULL;
}

/* ---- Activations ----------------------------------------------------------------------------- */

/* What a matrix wants for itself. */
static Integers ints_for(Numerics n, const Mat *w)
{
    if (!as_integers(n, w->type))
        return INT_NONE;
    if (n.activations == 16)
        return INT16;
    return weight_type_by_32(w->type) ? INT8_BY_32 : INT8;
}

/* Does a matrix of this role read the vector? In PLACE_PARALLEL both halves read the same norm. */
static bool reads(const Model *m, int role, Input input)
{
    bool  one_norm = m->cfg.norm_placement == PLACE_PARALLEL;
    Input own      = tensor_row((TensorRole)role)->reads;
    return own == input || (one_norm && own == INPUT_FFN && input == INPUT_QKV)
        || (one_norm && own == INPUT_QKV && input == INPUT_FFN);
}

bool input_is_delicate(const Config *c, int layer, Input input)
{
    if (layer > 0 && layer < c->n_layers - 1)
        return input == INPUT_HEAD || input == INPUT_QKV
            || (input == INPUT_FFN && c->norm_placement == PLACE_PARALLEL); /* the same vector */
    return input != INPUT_WO;
}

/* The matrix of role i in a layer, or the head, if it reads the vector; else NULL. */
static const Mat *reader(const Model *m, int layer, Input input, int i)
{
    const Mat *w = input == INPUT_HEAD ? (i == ROLE_LM_HEAD ? &m->lm_head : NULL)
                   : reads(m, i, input) ? mat_at(m, layer, i)
                                        : NULL;
    return w && w->rows > 0 ? w : NULL;
}

Integers input_ints(Numerics n, const Model *m, int layer, Input input)
{
    Integers ints = INT_NONE;
    if (n.activations == 0)
        n.activations = input_is_delicate(&m->cfg, layer, input) ? 16 : 8;
    for (int i = 0; i < ROLE_COUNT; i++) {
        const Mat *w     = reader(m, layer, input, i);
        Integers   wants = w ? ints_for(n, w) : INT_NONE;
        ints             = wants > ints ? wants : ints;
    }
    return ints;
}

/* Each use of integers as a bit. */
static unsigned all_ints(Numerics n, const Model *m)
{
    unsigned found = 1u << input_ints(n, m, 0, INPUT_HEAD);
    for (int l = 0; l < m->cfg.n_layers; l++)
        for (int i = 0; i < INPUT_HEAD; i++)
            found |= 1u << input_ints(n, m, l, (Input)i);
    return found;
}

static bool has_narrow(unsigned found) { return found & (1u << INT8 | 1u << INT8_BY_32); }
static bool has_wide(unsigned found) { return found & 1u << INT16; }

const char *activations_name(Numerics n, const Model *m)
{
    unsigned found = all_ints(n, m);
    bool     wide = has_wide(found), narrow = has_narrow(found);
    return wide && narrow ? "auto" : narrow ? "8" : wide ? "16" : "none";
}

/* Has version 3 the first bits of such a product, of whatever rule? */
static bool is_third(WeightType t, Integers ints)
{
    return weight_type_gguf(t)
        && (ints == INT16 || (ints == INT8_BY_32 && t != WT_MXFP4)
            || (ints != INT_NONE && (weight_type_adds(t) || t == WT_Q2_K || t == WT_IQ4_XS
                                     || t == WT_Q8_16)));
}

const char *numerics_version(Numerics n, const Model *m)
{
    const unsigned found = all_ints(n, m);
    /* which vectors have 16 bits beside 8 is the rule of version 3 */
    bool third = (has_wide(found) && has_narrow(found))
        || is_third(m->lm_head.type, input_ints(n, m, 0, INPUT_HEAD));
    for (int l = 0; l < m->cfg.n_layers; l++)
        for (int i = 0; i < ROLE_COUNT; i++) {
            const Mat *w = mat_at(m, l, i);
            third |= w && w->rows > 0
                && is_third(w->type, input_ints(n, m, l, tensor_row((TensorRole)i)->reads));
        }
    return third ? "3" : found & 1u << INT8_BY_32 ? "2" : "1";
}

unsigned numerics_ints(Numerics n, const Model *m)
{
    unsigned mask = input_ints(n, m, 0, INPUT_HEAD) ? ints_of(INPUT_HEAD) : 0;
    for (int l = 0; l < m->cfg.n_layers; l++)
        for (int i = 0; i < INPUT_HEAD; i++)
            mask |= input_ints(n, m, l, (Input)i) ? ints_of((Input)i) : 0;
    return mask | (all_ints(n, m) & 1u << INT8_BY_32 ? INTS_BY_32 : 0);
}

/* ---- The plan -------------------------------------------------------------------------------- */

/* The name of a product in a profile. Feed-forward networks and experts have their own (ops.c,
 * experts.c). */
static const char *const ops[INPUT_COUNT] = {
    [INPUT_QKV] = "qkv",
    [INPUT_Q_A] = "qkv",
    [INPUT_UK] = "latent_q",
    [INPUT_UV] = "latent_v",
    [INPUT_WO] = "wo",
    [INPUT_FFN] = "router",
    [INPUT_DOWN] = "down",
    [INPUT_EXPERT_DOWN] = "expert_down",
    [INPUT_SHARED_DOWN] = "expert_down",
    [INPUT_MTP] = "join",
    [INPUT_HEAD] = "head",
};

static void plan_mat(Mat *w, const Model *m, int layer, TensorRole role, Numerics n, Input reads,
                     Integers ints)
{
    w->number = lora_role(role) ? lora_number(layer, role) : -1;
    w->cut  = m->ranks ? rank_cut(&m->cfg, role) : RANK_ALL;
    w->own  = model_panels(m, role, w->rows, w->stack);
    w->op   = ops[reads];
    w->ints = as_integers(n, w->type) ? ints : INT_NONE;
    w->bf16 = n.math == MATH_BF16 && w->type == WT_BF16;
}

static void plan_layer(Layer *w, const Model *m, int l, Numerics n)
{
    Integers ints[INPUT_HEAD];
    for (int i = 0; i < INPUT_HEAD; i++)
        ints[i] = input_ints(n, m, l, (Input)i);
    *w = m->layer[l];
    for (int i = 0; i < ROLE_COUNT; i++) {
        const TensorRow *row = tensor_row((TensorRole)i);
        if (row->in_layer && tensor_row_mat(row))
            plan_mat((Mat *)(void *)((char *)w + row->at), m, l, (TensorRole)i, n,
                     row->reads, ints[row->reads]);
    }
    w->w_up.out_ints = w->w_down.ints;
}

bool plan_make(Plan *p, const Model *m, Numerics n)
{
    *p = (Plan){ .layer = calloc((size_t)m->cfg.n_layers, sizeof *p->layer),
                 .lm_head = m->lm_head,
                 .ints = numerics_ints(n, m) };
    for (int l = 0; p->layer && l < m->cfg.n_layers; l++)
        plan_layer(&p->layer[l], m, l, n);
    plan_mat(&p->lm_head, m, -1, ROLE_LM_HEAD, n, INPUT_HEAD, input_ints(n, m, 0, INPUT_HEAD));
    return p->layer != NULL;
}

void plan_free(Plan *p) { free(p->layer); }

/* ---- bf16 ------------------------------------------------------------------------------------ */

static bool has_tiny(const uint16_t *v, size_t n)
{
    enum { STEP = 2 * PANEL_ROWS }; /* constant trip count: the compiler vectorizes it */
    for (size_t i = 0; i < n; i += STEP) {
        unsigned tiny = 0;
        for (int j = 0; j < STEP; j++)
            tiny |= (uint16_t)((v[i + (size_t)j] & 0x7fff) - 1) < BF16_LEAST - 1;
        if (tiny)
            return true;
    }
    return false;
}

/* In the panels that this rank multiplies. */
static bool matrix_has_tiny(const Model *m, TensorRole role, const Mat *w, void *scratch)
{
    Own    own  = model_panels(m, role, w->rows, w->stack);
    size_t each = panel_bytes(WT_BF16, w->k) / sizeof(uint16_t);
    for (int i = own.items.first; i < own.items.end; i++)
        for (int run = 0; run < OWN_RUNS; run++) {
            Mat item = mat_item(w, i);
            for (int p = own.run[run].first, n; p < own.run[run].end; p += n) {
                n = own.run[run].end - p;
                Panels from = mat_panels(&item, p, &n, scratch);
                if (has_tiny(from.part[0], each * (size_t)n))
                    return true;
            }
        }
    return false;
}

/* The name of the first matrix that has one, in name; NULL: none. */
static const char *find_tiny(const Model *m, char name[64], void *scratch)
{
    for (int l = 0; l < m->cfg.n_layers; l++)
        for (int i = 0; i < ROLE_COUNT; i++) {
            const Mat *w = mat_at(m, l, i);
            if (!w || w->rows == 0 || w->type != WT_BF16
                || !matrix_has_tiny(m, (TensorRole)i, w, scratch))
                continue;
            snprintf(name, 64, "layers.%d.%s", l, tensor_row((TensorRole)i)->name);
            return name;
        }
    return m->lm_head.type == WT_BF16 && matrix_has_tiny(m, ROLE_LM_HEAD, &m->lm_head, scratch)
        ? "lm_head"
        : NULL;
}

bool bf16_weights_check(const Model *m, const char *path, Error *err)
{
    char         name[64];
    const size_t room    = late_weights_room(m->late);
    void        *scratch = room ? aligned_alloc(64, room) : NULL;
    if (room && !scratch)
        return no_memory(NULL, err);
    const char *found = find_tiny(m, name, scratch);
    free(scratch);
    return !found
        || fail(err, INPUT,
                "%s: tensor %s: math bf16: expected 0 or magnitudes of at least 2^-50, "
                "found a smaller one: convert the model again, or quantize it to bf16",
                path, found);
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static bool is_auto(const char *name) { return !name || strcmp(name, "auto") == 0; }

static bool choose_math(Numerics *out, const Model *m, const char *math, Error *err)
{
    bool quantized = first_matrix(m, true, weight_type_quantized) != NULL;
    out->math      = quantized ? MATH_INT8 : MATH_F32;
    if (is_auto(math))
        return true;
    for (int i = 0; i < MATH_COUNT; i++)
        if (strcmp(math, math_names[i]) == 0) {
            out->math = (Math)i;
            if (i == MATH_INT8 && !quantized)
                return fail(err, USAGE, "math int8: expected a model with quantized weights, found "
                                        "none");
            if (i == MATH_BF16 && !first_matrix(m, true, is_bf16))
                return fail(err, USAGE,
                            "math bf16: expected a model with bf16 matrices, found none");
            return true;
        }
    return fail(err, USAGE, "math: expected auto, f32, int8 or bf16, found '%s'", math);
}

bool numerics_choose(Numerics *out, const Model *m, const char *math, const char *activations,
                     Error *err)
{
    *out = (Numerics){MATH_F32, 0};
    if (!choose_math(out, m, math, err))
        return false;
    if (is_auto(activations))
        return true;
    if (strcmp(activations, "8") != 0 && strcmp(activations, "16") != 0)
        return fail(err, USAGE, "activations: expected auto, 8 or 16, found '%s'", activations);
    if (numerics_ints(*out, m) == 0)
        return fail(err, USAGE,
                    "activations %s: expected quantized weights and integer math, found %s",
                    activations,
                    out->math == MATH_F32 && model_is_quantized(m) ? "math f32" : "float weights");
    out->activations = activations[0] == '8' ? 8 : 16;
    return true;
}
