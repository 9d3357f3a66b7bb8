/* train/params.c: the layout of the parameter array, its first values, and views of it as
 * blocks. */
#include "train/net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "model/model_writer.h"

/* ---- What training implements ---------------------------------------------------------------- */

bool train_supported(const Config *c, const char *what, Error *err)
{
    const struct { bool lacks; const char *key, *expected; } parts[] = {
        { c->norm_placement == PLACE_PARALLEL || c->norm_placement == PLACE_PARALLEL2,
          "norm_placement", "pre, post, both or output" },
        { c->qk_norm == QK_HEADS || c->qk_norm == QK_PLAIN, "qk_norm", "none, head or vector" },
        { c->window_chunked, "window_chunked", "false" },
        { c->bidirectional, "bidirectional", "false" },
        { c->n_experts > 0, "n_experts", "0" },
        { c->kv_lora > 0, "kv_lora", "0" },
        { c->mtp_layers > 0, "mtp_layers", "0" },
        { config_has_state(c), "state_layers", "none" },
        { c->attn_gate, "attn_gate", "false" },
        { c->query_scale != 0, "query_scale", "0" },
        { c->ffn == FFN_XIELU, "ffn", "another than xielu" },
        { c->attn_softcap != 0, "attn_softcap", "0" },
        { c->logit_softcap != 0, "logit_softcap", "0" },
        { c->attn_sinks, "attn_sinks", "false" },
        { c->head_bias, "head_bias", "false" },
        { c->gate_limit != 0, "gate_limit", "0" },
        { c->qkv_clip != 0, "qkv_clip", "0" },
        { c->positions != POS_ROPE, "positions", "rope" },
        { c->rope.type >= ROPE_FACTORS, "rope type", "default, linear, llama3 or yarn" },
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].lacks)
            return fail(err, INPUT, "%s: %s: expected %s, found another value, for which training "
                                    "has no backward pass", what, parts[i].key,
                        parts[i].expected);
    return true;
}

/* ---- Layout ---------------------------------------------------------------------------------- */

/* What a role has in a layer: the tensor, its bias, and the adapter's A and U. */
enum { PART_BIAS = 1, PART_DOWN, PART_UP, PARTS };

/* The table's row for (layer, role, part). Tensors outside the layers have layer -1. */
static size_t row_of(int layer, TensorRole role, int part)
{
    return ((size_t)(layer + 1) * ROLE_COUNT + (size_t)role) * PARTS + (size_t)part;
}

/* Sets the next tensor's offset. A multiple of 16 floats keeps every tensor 64-byte aligned. */
static bool place(Params *p, const TensorSpec *s, int part, Error *err)
{
    uint64_t n = tensor_spec_params(s);
    if (n > SIZE_MAX / 64 || p->n_floats > SIZE_MAX / 64)
        return fail(err, SYSTEM, "tensor %s: too large for this machine", s->name);
    p->spec[p->n] = *s;
    p->at[p->n]   = p->n_floats;
    p->row[row_of(s->layer, s->role, part)] = p->n;
    p->n_floats += round_up((size_t)n, 16);
    p->n++;
    return true;
}

/* A and U of a matrix. */
static bool place_lora(Params *p, const TensorSpec *w, Error *err)
{
    for (int up = 0; up < 2; up++) {
        TensorSpec s = *w;
        s.rows       = p->rank;
        s.k          = up ? w->rows : w->k;
        snprintf(s.name, sizeof s.name, "layers.%d.%s.lora_%s", w->layer, w->part, up ? "u" : "a");
        if (!place(p, &s, up ? PART_UP : PART_DOWN, err))
            return false;
    }
    return true;
}

static bool adapted(const LoraPlan *lora, const TensorSpec *s)
{
    return s->layer >= 0 && !s->bias && lora->role[s->role];
}

/* The trained tensors come first in the array, but last in the list, which starts like that of
 * tensor_list.h. */
static bool place_all(Params *p, const LoraPlan *lora, Error *err)
{
    bool ok = true;
    int  n  = tensor_list_count(&p->config);
    p->n = p->first = lora->rank ? n : 0;
    for (TensorSpec s = tensor_list_start(); ok && lora->rank
         && tensor_list_next(&p->config, &s);)
        ok = !adapted(lora, &s) || place_lora(p, &s, err);
    int all = p->n > n ? p->n : n;
    for (int role = 0; ok && role < ROLE_COUNT; role++)
        if (lora->role[role] && params_lora_index(p, 0, (TensorRole)role, false) < 0)
            return fail(err, INPUT, "lora targets: %s: expected a matrix of the model's blocks, "
                                    "found none", tensor_row((TensorRole)role)->name);
    p->n_trained = p->n_floats;
    p->n         = 0;
    for (TensorSpec s = tensor_list_start(); ok && tensor_list_next(&p->config, &s);)
        ok = place(p, &s, s.bias ? PART_BIAS : 0, err);
    p->n = all;
    if (!lora->rank)
        p->n_trained = p->n_floats;
    return ok;
}

bool params_layout_lora(Params *p, const Config *c, const LoraPlan *lora, Error *err)
{
    size_t n = (size_t)tensor_list_count(c) * (lora->rank ? 3 : 1),
           rows = row_of(c->n_layers, 0, 0);
    *p = (Params){ .config = *c,
                   .spec = calloc(n, sizeof *p->spec),
                   .at = calloc(n, sizeof *p->at),
                   .row = malloc(rows * sizeof *p->row),
                   .rank = lora->rank,
                   .lora_scale = lora->rank ? (float)(lora->alpha / lora->rank) : 0 };
    bool ok = p->spec && p->at && p->row;
    if (!ok)
        fail(err, SYSTEM, "out of memory for a list of tensors");
    else
        memset(p->row, -1, rows * sizeof *p->row);
    ok = ok && place_all(p, lora, err);
    if (!ok)
        params_free(p);
    return ok;
}

bool params_layout(Params *p, const Config *c, Error *err)
{
    return params_layout_lora(p, c, &(LoraPlan){ 0 }, err);
}

void params_free(Params *p)
{
    free(p->spec);
    free(p->at);
    free(p->row);
    *p = (Params){ 0 };
}

static float *array_of(size_t n_floats, Error *err)
{
    size_t n_bytes = round_up(n_floats * sizeof(float), 64);
    float *a = aligned_alloc(64, n_bytes);
    if (a)
        memset(a, 0, n_bytes);
    else
        fail(err, SYSTEM, "out of memory for %zu MB of parameters", n_bytes >> 20);
    return a;
}

float *params_array(const Params *p, Error *err) { return array_of(p->n_floats, err); }
float *params_trained_array(const Params *p, Error *err) { return array_of(p->n_trained, err); }

size_t params_length(const Params *p, int tensor)
{
    return (size_t)tensor_spec_params(&p->spec[tensor]);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static bool load_matrix(const TensorSpec *s, const CheckedTensor *t, const char *path, float *w,
                        Error *err)
{
    size_t         room = retype_rows_bytes(s->k) + retype_scratch_bytes(s->k);
    unsigned char *scratch = aligned_alloc(64, round_up(room, 64));
    RetypeReport   report = { 0 };
    if (!scratch)
        return no_memory(path, err);
    float *rows = (float *)(void *)scratch;
    for (int b = 0; b < panel_count(s->rows) && report.fault == RETYPE_GOOD; b++) {
        int    first = b * PANEL_ROWS, n = tensor_spec_block_rows(s, b);
        size_t count = (size_t)n * (size_t)s->k, bad;
        retype_read(s, t, 0, first, n, rows, scratch + retype_rows_bytes(s->k));
        bad = elements_first_nonfinite(WT_F32, rows, count);
        if (bad < count)
            report = (RetypeReport){ .fault = RETYPE_NOT_FINITE,
                                     .row = first + (int)(bad / (size_t)s->k),
                                     .column = (int)(bad % (size_t)s->k),
                                     .value = rows[bad] };
        memcpy(w + (size_t)first * (size_t)s->k, rows, count * sizeof *w);
    }
    free(scratch);
    return report.fault == RETYPE_GOOD ? true : retype_fail(&report, path, s, WT_F32, err);
}

bool params_load_tensor(const TensorSpec *s, const CheckedTensor *t, const char *path, float *w,
                        Error *err)
{
    RetypeReport report = { 0 };
    if (s->k)
        return load_matrix(s, t, path, w, err);
    retype_vector(s, t, w, &report);
    return report.fault == RETYPE_GOOD ? true : retype_fail(&report, path, s, WT_F32, err);
}

bool params_load(const Params *p, float *w, const StoredModel *c, Error *err)
{
    for (int i = 0; i < (p->first ? p->first : p->n); i++) {
        if (!params_load_tensor(&p->spec[i], &c->tensor[i], c->path, w + p->at[i], err))
            return false;
        checked_release(&c->tensor[i]);
    }
    return true;
}

/* Box and Muller 1958: two normal numbers from two words of Philox. The + 1 keeps log away from
 * 0. */
static void fill_normal(float *w, size_t n, double deviation, uint64_t seed, uint32_t tensor)
{
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    for (size_t i = 0; i < n; i += 4) {
        uint32_t word[4];
        philox4x32((uint32_t[4]){ (uint32_t)(i / 4), (uint32_t)((uint64_t)i / 4 >> 32), tensor, 1 },
                   key, word);
        for (size_t j = 0; j < 4 && i + j < n; j += 2) {
            double r = sqrt(-2 * math64_log(((double)word[j] + 1) * 0x1p-32)) * deviation, s, c;
            math64_sincos((double)word[j + 1] * (6.283185307179586 * 0x1p-32), &s, &c);
            w[i + j] = (float)(r * c);
            if (i + j + 1 < n)
                w[i + j + 1] = (float)(r * s);
        }
    }
}

void params_init(const Params *p, float *w, uint64_t seed)
{
    double deviation = 0.02, out = 0.02 / sqrt(2.0 * p->config.n_layers);
    for (int i = 0; i < p->n; i++) {
        const TensorSpec *s = &p->spec[i];
        float            *a = w + p->at[i];
        if (s->k)
            fill_normal(a, params_length(p, i),
                        s->role == ROLE_WO || s->role == ROLE_W_DOWN ? out : deviation, seed,
                        (uint32_t)i);
        else
            for (int j = 0; j < s->rows; j++)
                a[j] = s->bias ? 0.0f : 1.0f;
    }
}

void params_scatter(const Params *p, float *w, uint64_t seed)
{
    for (int i = 0; i < p->n; i++) {
        const TensorSpec *s = &p->spec[i];
        float            *a = w + p->at[i];
        fill_normal(a, params_length(p, i), s->k ? 1 / sqrt(s->k) : 0.2, seed, (uint32_t)i);
        for (int j = 0; !s->k && !s->bias && j < s->rows; j++)
            a[j] += 1;
    }
}

/* The last word of the counter, 4, separates these numbers from other uses of the seed. */
void params_init_lora(const Params *p, float *w, uint64_t seed)
{
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    for (int i = p->first; i < p->n; i++) {
        const TensorSpec *s = &p->spec[i];
        size_t            n = params_length(p, i);
        float            *a = w + p->at[i];
        bool              up = params_lora_index(p, s->layer, s->role, true) == i;
        for (size_t j = 0; j < n; j++) {
            uint32_t word[4];
            philox4x32((uint32_t[4]){ (uint32_t)j, (uint32_t)((uint64_t)j >> 32), (uint32_t)i, 4 },
                       key, word);
            a[j] = up ? 0 : (float)(((double)word[0] * 0x1p-31 - 1) / sqrt(s->k));
        }
    }
}

/* ---- Views ----------------------------------------------------------------------------------- */

int params_index(const Params *p, int layer, TensorRole role, bool bias)
{
    return p->row[row_of(layer, role, bias ? PART_BIAS : 0)];
}

int params_lora_index(const Params *p, int layer, TensorRole role, bool up)
{
    return p->row[row_of(layer, role, up ? PART_UP : PART_DOWN)];
}

static float *tensor_at(const Params *p, float *array, int tensor)
{
    return array && tensor >= 0 ? array + p->at[tensor] : NULL;
}

float *params_find(const Params *p, float *array, int layer, TensorRole role, bool bias)
{
    return tensor_at(p, array, params_index(p, layer, role, bias));
}

float *params_gradient(const Params *p, float *grads, int layer, TensorRole role, bool bias)
{
    return p->first ? NULL : params_find(p, grads, layer, role, bias);
}

BlockWeights params_block(const Params *p, float *array, int layer, bool gradient)
{
    BlockWeights w;
    for (int i = 0; i < BLOCK_ROLES; i++) {
        TensorRole role = (TensorRole)(ROLE_ATTN_NORM + i);
        float     *own  = gradient && p->first ? NULL : array;
        w.of[i] = (Weight){ params_find(p, own, layer, role, false),
                            params_find(p, own, layer, role, true),
                            tensor_at(p, array, params_lora_index(p, layer, role, false)),
                            tensor_at(p, array, params_lora_index(p, layer, role, true)) };
    }
    return w;
}

BlockShape params_shape(const Params *p, int layer)
{
    const Config *c = &p->config;
    return (BlockShape){
        .d_model = c->d_model, .heads = c->heads, .kv_heads = c->kv_heads, .head_dim = c->head_dim,
        .d_ff = c->d_ff,
        .window = config_window(c, layer), .causal = true, .norm = c->norm,
        .place = c->norm_placement, .ffn = c->ffn,
        .qk_norm = c->qk_norm, .qk_norm_after_rope = c->qk_norm_after_rope,
        .eps = (float)c->norm_eps,
        .attn_scale = (float)config_attn_scale(c),
        .residual_scale = (float)c->residual_scale,
        .rank = p->rank, .lora_scale = p->lora_scale,
    };
}
