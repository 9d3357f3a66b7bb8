/* source/hf_tensors.c: binds the tensors of a Hugging Face folder to ours. */
#include "source/hf_bind.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

/* ---- Names ----------------------------------------------------------------------------------- */

static void fill_in(const HfBinder *b, const char *pattern, int layer, int number, bool bias,
                    char out[NAME_BYTES])
{
    hf_tensor_name(b->prefix, pattern, layer, number, bias, out);
}

/* The row whose tensor exists, or the first row. */
static const FamilyTensor *choose(const HfBinder *b, const TensorSpec *s)
{
    const FamilyTensor *first = hf_family_rows(b->h->family, s->role);
    char                name[NAME_BYTES];
    for (const FamilyTensor *t = first; t; t = hf_family_more(t + 1, s->role)) {
        fill_in(b, t->name, s->layer, 0, s->bias, name);
        if (hf_find(b, name) || hf_find_codes(b, name))
            return t;
    }
    return first;
}

/* The tensors of a model may be called model.layers..., or layers... if it was saved without its
 * head. */
static const char *choose_prefix(HfBinder *b)
{
    const Family       *f = b->h->family;
    const FamilyTensor *embed = hf_family_rows(f, ROLE_EMBED);
    char                name[NAME_BYTES];
    assert(embed);
    for (int i = 0; i < 3 && f->prefix[i]; i++) {
        b->prefix = f->prefix[i];
        fill_in(b, embed->name, 0, 0, false, name);
        if (hf_find(b, name))
            return b->prefix;
    }
    b->prefix = "";
    fill_in(b, embed->name, 0, 0, false, name);
    return hf_find(b, name) ? "" : f->prefix[0];
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* The shape of each tensor that one of ours is made of. */
typedef struct TensorShape { int rank; int64_t dim[4]; } TensorShape;

static const char *shape_text(const TensorShape *s, char *buf, size_t n)
{
    Tensor t = { .rank = s->rank };
    memcpy(t.shape, s->dim, sizeof s->dim);
    return tensor_shape_text(&t, buf, n);
}

/* For each key head of the delta rule: q and k, then v and z of its value heads; or their b and
 * a. */
static int64_t delta_rows(const Config *c, unsigned lies, RowSource *r)
{
    const int k = c->delta_key_dim, heads = c->delta_heads / c->delta_key_heads,
              v = heads * c->delta_value_dim, both = lies & (IN_GROUP_QKV | IN_GROUP_Z);
    r->stride = both ? 2 * k + 2 * v : 2 * heads;
    if (lies & IN_GROUP_QKV) {
        r->groups  = c->delta_key_heads;
        r->group_k = k;
        r->group_v = v;
    } else {
        r->unit = both ? v : heads;
        r->base = lies & IN_GROUP_Z ? 2 * k + v : lies & IN_GROUP_A ? heads : 0;
    }
    return (int64_t)c->delta_key_heads * r->stride;
}

int64_t hf_fused_rows(const Config *c, unsigned lies, int rows, RowSource *r)
{
    int q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim, d = c->head_dim;
    if (lies & (IN_Q | IN_K | IN_V)) {
        bool by_head = lies & BY_HEAD;
        r->base   = lies & IN_Q ? 0 : lies & IN_K ? (by_head ? d : q) : by_head ? 2 * d : q + kv;
        r->unit   = by_head ? d : 0;
        r->stride = by_head ? 3 * d : 0;
        return (int64_t)q + 2 * (int64_t)kv;
    }
    if (lies & (IN_UK | IN_UV)) {
        int each     = c->nope_dim + c->v_dim;
        r->item_k    = lies & IN_UK ? each : 0;
        r->item_rows = lies & IN_UK ? c->kv_lora : each;
        r->base      = lies & IN_UK ? 0 : c->nope_dim;
        return (int64_t)c->heads * each;
    }
    if (lies & (IN_B | IN_C | IN_X)) {
        r->base = lies & IN_B ? 0 : lies & IN_C ? rows : 2 * rows;
        return 3 * (int64_t)rows;
    }
    if (lies & (IN_HEAD_Q | IN_HEAD_GATE)) {
        r->base   = lies & IN_HEAD_GATE ? d : 0;
        r->unit   = d;
        r->stride = 2 * d;
        return 2 * (int64_t)rows;
    }
    if (lies & (IN_GROUP_QKV | IN_GROUP_Z | IN_GROUP_B | IN_GROUP_A))
        return delta_rows(c, lies, r);
    if (lies & IN_TURN) {
        r->base   = lies & IN_UP ? 1 : 0;
        r->unit   = 1;
        r->stride = 2;
        return 2 * (int64_t)rows;
    }
    if (lies & (IN_GATE | IN_UP)) {
        r->base = lies & IN_UP ? rows : 0;
        return 2 * (int64_t)rows;
    }
    return rows;
}

static TensorShape stored_shape(const HfBinder *b, const TensorSpec *s, const FamilyTensor *t,
                                int n_parts, RowSource *r)
{
    TensorShape shape = { 0 };
    int64_t     rows  = hf_fused_rows(b->c, t->lies, s->rows, r);
    if (t->lies & (IN_UK | IN_UV)) {
        r->transposed = t->lies & TRANSPOSED;
        return (TensorShape){ .rank = 2, .dim = { rows, b->c->kv_lora } };
    }
    if (strstr(t->name, "{h}")) {
        r->shards = n_parts;
        rows /= n_parts;
    }
    if (s->stack > 1 && n_parts == 1) {
        r->item_rows            = (int)rows;
        shape.dim[shape.rank++] = s->stack;
    }
    if (s->bias && tensor_row(s->role)->kind == KIND_STACK) { /* [experts, rows] */
        shape.dim[shape.rank++] = b->c->n_experts;
        rows /= b->c->n_experts;
    }
    bool turned   = t->lies & TRANSPOSED && s->k;
    r->transposed = turned;
    shape.dim[shape.rank++] = turned ? s->k : rows;
    if (s->k)
        shape.dim[shape.rank++] = turned ? rows : s->k;
    return shape;
}

/* Does the tensor have the wanted shape? Norms of heads may also be [heads, head_dim]. */
static bool fits(const HfBinder *b, const TensorSpec *s, const Tensor *t, const TensorShape *want)
{
    bool norm = s->role == ROLE_Q_NORM || s->role == ROLE_K_NORM;
    if (t->rank == want->rank
        && memcmp(t->shape, want->dim, (size_t)want->rank * sizeof want->dim[0]) == 0)
        return true;
    if (s->role == ROLE_CONV) /* the weights of Conv1d, a group for each channel */
        return t->rank == 3 && t->shape[0] == config_conv_width(b->c) && t->shape[1] == 1
            && t->shape[2] == b->c->conv_taps;
    if (s->role == ROLE_CHOICE_BIAS) /* ERNIE: [1, experts] */
        return t->rank == 2 && t->shape[0] == 1 && t->shape[1] == want->dim[0];
    return norm && b->c->qk_norm == QK_HEADS && t->rank == 2 && t->shape[1] == b->c->head_dim
        && t->shape[0] * t->shape[1] == want->dim[0];
}

/* ---- Messages -------------------------------------------------------------------------------- */

static bool missing(const HfBinder *b, const TensorSpec *s, const char *name,
                    const TensorShape *want)
{
    char shape[96], why[256] = "";
    if (s->role == ROLE_LM_HEAD && !s->bias)
        snprintf(why, sizeof why,
                 " (tie_word_embeddings is false; a model without a head is a tied one)");
    else if (s->bias)
        snprintf(why, sizeof why, " (the config asks for this bias)");
    else if (strstr(b->s->path, "-of-0"))
        snprintf(why, sizeof why, " (if this is one file of several, give their folder)");
    return fail(b->err, INPUT, "%s: tensor %s: expected %s, found no such tensor%s", b->s->path,
                name, shape_text(want, shape, sizeof shape), why);
}

static bool misshaped(const HfBinder *b, const TensorSpec *s, const NamedTensor *n,
                      const TensorShape *want)
{
    char           wanted[96], found[160], why[128] = "";
    const Config  *c     = b->c;
    const int64_t *shape = n->t->shape;
    bool           plain = want->rank == 2 && want->dim[0] == s->rows && n->t->rank == 2;
    if ((s->role == ROLE_WK || s->role == ROLE_WV) && plain && shape[0] % c->head_dim == 0)
        snprintf(why, sizeof why, " (kv_heads %d in the config; this fits %lld)", c->kv_heads,
                 (long long)(shape[0] / c->head_dim));
    else if ((s->role == ROLE_EMBED || s->role == ROLE_LM_HEAD) && plain
             && shape[0] != c->vocab_size)
        snprintf(why, sizeof why, " (vocab_size %d in the config; this fits %lld)", c->vocab_size,
                 (long long)shape[0]);
    else if (n->t->rank == 3 && want->rank == 3 && shape[0] != want->dim[0]
             && shape[1] == want->dim[1] && shape[2] == want->dim[2])
        snprintf(why, sizeof why, " (n_experts %d in the config; this fits %lld)", c->n_experts,
                 (long long)shape[0]);
    return fail(b->err, INPUT, "%s: tensor %s: expected %s, found %s%s", n->file->map.path, n->name,
                shape_text(want, wanted, sizeof wanted),
                tensor_shape_text(n->t, found, sizeof found), why);
}

/* ---- Binding --------------------------------------------------------------------------------- */

/* Norms that are stored as w - 1, of any float type, as floats. */
static void read_floats(const void *from, int part, size_t first, size_t n, void *out)
{
    (void)part;
    const Tensor *t = from;
    WeightType    type = WT_F32;
    row_source_type(t->dtype, &type);
    elements_to_f32(type, out, (const char *)t->data + first * dtype_bytes(t->dtype), n);
}

/* Except the delta rule's norm, which is stored as it is. */
static bool is_norm(const TensorSpec *s)
{
    return strstr(s->part, "norm") && !s->bias && s->role != ROLE_DELTA_NORM;
}

static bool bind_part(HfBinder *b, const TensorSpec *s, const FamilyTensor *t, int i,
                      const TensorShape *want, RowSource *r)
{
    char name[NAME_BYTES];
    fill_in(b, t->name, s->layer, i, s->bias, name);
    NamedTensor *n = hf_find(b, name);
    if (!n)
        return missing(b, s, name, want);
    if (!fits(b, s, n->t, want))
        return misshaped(b, s, n, want);
    if (n->t->dtype != DT_F32 && n->t->dtype != DT_F16 && n->t->dtype != DT_BF16)
        return fail(b->err, INPUT, "%s: tensor %s: expected F32, F16 or BF16, found %s",
                    n->file->map.path, name, dtype_name(n->t->dtype));
    if (i > 0 && n->t->dtype != r->part[0].t->dtype)
        return fail(b->err, INPUT, "%s: tensor %s: expected %s, as %s, found %s", n->file->map.path,
                    name, dtype_name(r->part[0].t->dtype), r->part[0].t->name,
                    dtype_name(n->t->dtype));
    n->used    = true;
    r->part[i] = (SourcePart){ n->t, &n->file->map };
    return true;
}

/* One of the four numbers of xIELU, which are tensors of one element. */
static bool one_number(HfBinder *b, const TensorSpec *s, const char *pattern, float *out)
{
    char         name[NAME_BYTES];
    TensorShape  want = { .rank = 1, .dim = { 1 } };
    fill_in(b, pattern, s->layer, 0, false, name);
    NamedTensor *n = hf_find(b, name);
    if (!n)
        return missing(b, s, name, &want);
    if (n->t->n_elements != 1)
        return misshaped(b, s, n, &want);
    if (n->t->dtype != DT_F32 && n->t->dtype != DT_F16 && n->t->dtype != DT_BF16)
        return fail(b->err, INPUT, "%s: tensor %s: expected F32, F16 or BF16, found %s",
                    n->file->map.path, name, dtype_name(n->t->dtype));
    n->used = true;
    read_floats(n->t, 0, 0, 1, out);
    return true;
}

static bool bind_xielu(HfBinder *b, const TensorSpec *s, const FamilyTensor *t, RowSource *r,
                       CheckedTensor *out)
{
    static const char *const ends[] = { "alpha_p", "alpha_n", "beta", "eps" };
    float                    v[4];
    char                     pattern[NAME_BYTES];
    int                      base = (int)(strrchr(t->name, '.') + 1 - t->name);
    for (int i = 0; i < 4; i++) {
        snprintf(pattern, sizeof pattern, "%.*s%s", base, t->name, ends[i]);
        if (!one_number(b, s, pattern, &v[i]))
            return false;
    }
    family_xielu(v, (double)v[0], (double)v[1], (double)v[2], (double)v[3]);
    *out = (CheckedTensor){ .rows = r, .type = WT_F32 };
    return source_made_vector(b->s, r, "xielu", v, 4, b->err);
}

/* The blocks and the scales of experts in MXFP4: [experts, rows, k / 32, 16] and without the 16. */
static bool bind_mxfp4(HfBinder *b, const TensorSpec *s, const FamilyTensor *t, RowSource *r)
{
    static const char *const ends[] = { "_blocks", "_scales" };
    const uint8_t           *data[2];
    TensorShape              want = stored_shape(b, s, t, 1, r);
    char                     name[NAME_BYTES];
    r->part = source_alloc(b->s, 2 * sizeof *r->part, b->err);
    if (!r->part)
        return false;
    want.dim[want.rank - 1] = s->k / 32;
    want.dim[want.rank++]   = 16;
    for (int i = 0; i < 2; i++, want.rank--) {
        fill_in(b, t->name, s->layer, 0, false, name);
        memcpy(strrchr(name, '_'), ends[i], 8);
        NamedTensor *n = hf_find(b, name);
        if (!n)
            return missing(b, s, name, &want);
        if (s->k % 32 != 0)
            return fail(b->err, INPUT, "%s: tensor %s: expected rows of whole blocks of 32, found "
                                       "rows of %d in the config", n->file->map.path, name, s->k);
        if (!fits(b, s, n->t, &want))
            return misshaped(b, s, n, &want);
        if (n->t->dtype != DT_U8)
            return fail(b->err, INPUT, "%s: tensor %s: expected U8, found %s", n->file->map.path,
                        name, dtype_name(n->t->dtype));
        n->used    = true;
        data[i]    = n->t->data;
        r->part[i] = (SourcePart){ n->t, &n->file->map };
    }
    r->n_parts = 2;
    r->name    = r->part[0].t->name;
    return hf_mxfp4_source(b->s, data[0], data[1], r, b->err);
}

/* One tensor of a quantized matrix. */
static bool bind_quant_part(HfBinder *b, const TensorSpec *s, const QuantTensor *q, SourcePart *out)
{
    TensorShape  want = { .rank = q->rank, .dim = { q->dim[0], q->dim[1] } };
    NamedTensor *n    = hf_find(b, q->name);
    bool         one  = q->dim[0] == 1 && (q->rank == 1 || q->dim[1] == 1), good = false;
    char         known[64] = "";
    if (!n)
        return missing(b, s, q->name, &want);
    if (!(one && n->t->n_elements == 1) && !fits(b, s, n->t, &want))
        return misshaped(b, s, n, &want);
    for (int i = 0; i < q->n_dtypes; i++) {
        size_t used = strlen(known);
        good |= n->t->dtype == q->dtype[i];
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                 dtype_name(q->dtype[i]));
    }
    n->used = true;
    *out    = (SourcePart){ n->t, &n->file->map };
    return good
        || fail(b->err, INPUT, "%s: tensor %s: expected %s, found %s", n->file->map.path, q->name,
                known, dtype_name(n->t->dtype));
}

/* weight_shape repeats the shape of the codes before they were packed. */
static bool check_quant_shape(HfBinder *b, const SourcePart *p, int64_t rows, int64_t k)
{
    int64_t found[2];
    for (int i = 0; i < 2; i++)
        if (p->t->dtype == DT_I64) {
            memcpy(&found[i], (const char *)p->t->data + 8 * i, 8);
        } else {
            int32_t narrow;
            memcpy(&narrow, (const char *)p->t->data + 4 * i, 4);
            found[i] = narrow;
        }
    return (found[0] == rows && found[1] == k)
        || fail(b->err, INPUT, "%s: tensor %s: expected %lld, %lld, found %lld, %lld", p->map->path,
                p->t->name, (long long)rows, (long long)k, (long long)found[0],
                (long long)found[1]);
}

/* Scales of activations, which other programs quantize and we do not. */
static void skip_activations(const HfBinder *b, const char *name)
{
    static const char *const ends[] = { "activation_scale", "input_scale", "input_zero_point" };
    char other[NAME_BYTES + 32];
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        snprintf(other, sizeof other, "%.*s%s", (int)(strrchr(name, '.') + 1 - name), name,
                 ends[i]);
        NamedTensor *n = hf_find(b, other);
        if (n)
            n->used = true;
    }
}

/* n quantized matrices, the experts of a layer or one. */
static bool bind_quant(HfBinder *b, const TensorSpec *s, const FamilyTensor *t, int n, RowSource *r)
{
    const HfQuant    *q = &b->h->quant;
    const SourcePart *part[QUANT_PARTS] = { NULL };
    const int         k = t->lies & (IN_UK | IN_UV) ? b->c->kv_lora : s->k;
    int64_t           rows = hf_fused_rows(b->c, t->lies, s->rows, r);
    char              name[NAME_BYTES];
    QuantTensor       want;
    r->part = source_alloc(b->s, (size_t)n * QUANT_PARTS * sizeof *r->part, b->err);
    if (!r->part)
        return false;
    r->n_parts = 0;
    for (QuantPart kind = QUANT_CODES; kind < QUANT_PARTS; kind++) {
        fill_in(b, t->name, s->layer, 0, false, name);
        if (!hf_quant_tensor(q, kind, name, rows, k, &want)
            || (want.optional && !hf_find(b, want.name)))
            continue;
        part[kind] = &r->part[r->n_parts];
        for (int i = 0; i < n; i++, r->n_parts++) {
            fill_in(b, t->name, s->layer, i, false, name);
            hf_quant_tensor(q, kind, name, rows, k, &want);
            if (!bind_quant_part(b, s, &want, &r->part[r->n_parts])
                || (kind == QUANT_SHAPE && !check_quant_shape(b, &r->part[r->n_parts], rows, k)))
                return false;
            skip_activations(b, name);
        }
    }
    r->name       = r->part[0].t->name;
    r->transposed = t->lies & TRANSPOSED;
    return hf_quant_source(b->s, q, r, part, n, (int)rows, b->err);
}

/* Is this matrix quantized? Then its first tensor is. Only whole matrices, stored by rows, can be,
 * and kv_b_proj, which holds two of ours. */
static bool is_quant(const HfBinder *b, const TensorSpec *s, const FamilyTensor *t, int n)
{
    char name[NAME_BYTES];
    fill_in(b, t->name, s->layer, 0, false, name);
    return s->k && !s->bias
        && (t->lies & (IN_UK | IN_UV)
            || ((s->stack == 1 || n > 1) && !(t->lies & TRANSPOSED) && !strstr(t->name, "{h}")))
        && hf_find_codes(b, name);
}

/* From A_log, which has been bound. */
static bool rate(HfBinder *b, RowSource *r, int n, CheckedTensor *out)
{
    const Tensor *t = r->part[0].t;
    float        *v = source_alloc(b->s, (size_t)n * sizeof *v, b->err);
    if (!v)
        return false;
    read_floats(t, 0, 0, (size_t)n, v);
    for (int i = 0; i < n; i++)
        v[i] = (float)-math64_exp((double)v[i]);
    *out = (CheckedTensor){ .rows = r, .type = WT_F32 };
    return source_made_vector(b->s, r, t->name, v, n, b->err);
}

static bool bind(HfBinder *b, const TensorSpec *s, RowSource *r, CheckedTensor *out)
{
    const FamilyTensor *t = choose(b, s);
    if (s->role == ROLE_ROPE_FACTORS) {
        *out = (CheckedTensor){ .rows = r, .type = WT_F32 };
        return source_made_vector(b->s, r, "rope_factors", b->s->rope_factors, s->rows, b->err);
    }
    if (t && s->role == ROLE_XIELU)
        return bind_xielu(b, s, t, r, out);
    if (!t)
        return fail(b->err, INPUT, "%s: tensor %s: expected one of family %s, which has none",
                    b->s->path, s->name, b->h->family->name);
    int heads = s->role == ROLE_Q_NORM ? b->c->heads : b->c->kv_heads;
    int n     = strstr(t->name, "{e}") ? b->c->n_experts : strstr(t->name, "{h}") ? heads : 1;
    *r = (RowSource){ .stack = s->stack,
                      .rows = s->rows,
                      .k = s->k ? s->k : 1,
                      .head_dim = s->rows_unit > 1 ? s->rows_unit : b->c->head_dim,
                      .pair = t->lies & PAIRS && !b->h->halves ? b->c->rotary_dim : 0,
                      .last = t->lies & ROTATED_LAST ? b->c->rotary_dim : 0,
                      .n_parts = n,
                      .part = source_alloc(b->s, (size_t)n * sizeof(SourcePart), b->err) };
    if (!r->part)
        return false;
    bool quant = is_quant(b, s, t, n);
    if (t->lies & IN_MXFP4 || quant) {
        bool ok = quant ? bind_quant(b, s, t, n, r) : bind_mxfp4(b, s, t, r);
        *out    = (CheckedTensor){ .rows = r, .type = r->type };
        return ok;
    }
    TensorShape want = stored_shape(b, s, t, n, r);
    for (int i = 0; i < n; i++)
        if (!bind_part(b, s, t, i, &want, r))
            return false;
    r->name = r->part[0].t->name;
    row_source_type(r->part[0].t->dtype, &r->type);
    if (b->h->family->has & NORMS_PLUS_ONE && is_norm(s)) {
        r->plus_one  = true;
        r->type      = WT_F32;
        r->read      = read_floats;
        r->read_from = r->part[0].t;
    }
    *out = (CheckedTensor){ .rows = r, .type = r->type };
    return s->role != ROLE_DELTA_RATE || rate(b, r, s->rows, out);
}

static bool stores_head(const HfBinder *b)
{
    bool there = false;
    for (const FamilyTensor *t = hf_family_rows(b->h->family, ROLE_LM_HEAD); t;
         t = hf_family_more(t + 1, ROLE_LM_HEAD))
        there |= hf_find(b, t->name) != NULL;
    return there;
}

/* The MTP layer, with its four tensors that no other layer has, is kept if it has experts like the
 * others. Its embedding and head are the model's (README_WEIGHTS.md of DeepSeek-V3): copies of them
 * are left out. */
static bool keep_next(HfBinder *b, Config *c)
{
    bool there = b->s->next_layers == 1 && c->n_experts > 0 && !c->headless;
    char name[NAME_BYTES];
    for (TensorRole i = ROLE_MTP_EMBED_NORM; there && i <= ROLE_MTP_FINAL_NORM; i++) {
        fill_in(b, hf_family_rows(b->h->family, i)->name, c->n_layers, 0, false, name);
        there = hf_find(b, name) || hf_find_codes(b, name);
    }
    c->mtp_layers = there;
    return config_check(c, b->s->path, b->err);
}

/* The tensor gives the number of labels. transformers uses the last token's hidden state. */
static bool take_labels(HfBinder *b, Config *c)
{
    const NamedTensor *score = hf_find(b, "score.weight");
    const int64_t      most  = score && score->t->rank == 2 ? score->t->shape[0] : 0;
    if (most < 1 || most > MAX_WIDTH)
        return fail(b->err, INPUT, "%s: tensor score.weight: expected a row for each label, found "
                                   "%s", b->s->path, score ? "another shape" : "no such tensor");
    if (c->dense1 || c->pool == POOL_OTHER)
        return fail(b->err, INPUT,
                    "%s: expected a head of labels (score.weight) behind the states, found "
                    "modules or a pooling before it", b->s->path);
    c->pool            = c->pool == POOL_UNSAID ? POOL_LAST : c->pool;
    c->dense1          = (int)most;
    c->dense1_bias     = hf_find(b, "score.bias") != NULL;
    c->dense1_act      = most == 1 && !b->h->raw_label ? DENSE_SIGMOID : DENSE_PLAIN;
    c->labels          = true;
    c->tied_embeddings = false;
    return true;
}

bool hf_tensors_bind(Source *s, const HfConfig *h, Error *err)
{
    HfBinder      b = { .s = s, .h = h, .c = &s->stored.config, .err = err };
    StoredModel *c = &s->stored;
    int         i = 0;
    if (!hf_list_names(&b))
        return no_memory(s->path, err);
    if (h->labels && !take_labels(&b, &c->config))
        return false;
    if (h->head_decides)
        c->config.tied_embeddings = !stores_head(&b);
    b.prefix           = choose_prefix(&b);
    c->config.headless = (h->inside || !*b.prefix) && !c->config.tied_embeddings
        && !stores_head(&b);
    if (!keep_next(&b, &c->config) || !source_begin(s, err))
        return false;
    for (TensorSpec spec = tensor_list_start(); tensor_list_next(&c->config, &spec); i++)
        if (!bind(&b, &spec, &s->rows[i], &c->tensor[i]))
            return false;
    return hf_check_rest(&b);
}
