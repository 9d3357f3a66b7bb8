/* source/gguf_model.c: finds our tensors in a GGUF file: names, fused matrices, the order of
 * rotated dimensions. */
#include "source/adapter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "source/family.h"
#include "source/hf.h"

bool gguf_is(const unsigned char *head, size_t n)
{
    static const char magics[][4] = { { 'G', 'G', 'U', 'F' }, { 'F', 'U', 'G', 'G' },
                                      { 't', 'j', 'g', 'g' }, { 'f', 'm', 'g', 'g' },
                                      { 'l', 'm', 'g', 'g' }, { 'a', 'l', 'g', 'g' } };
    for (size_t i = 0; n >= 4 && i < sizeof magics / sizeof *magics; i++)
        if (memcmp(head, magics[i], 4) == 0)
            return true;
    return false;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* The state of binding. */
typedef struct GgufBinder {
    Source         *s;
    const GgufArch *arch;
    const char     *part;    /* of a matrix: ".lora_b" in adapters, else "" */
    bool           *used;    /* [n_tensors of the file] */
    Error          *err;
} GgufBinder;

void gguf_tensor_name(const TensorSpec *s, const char *base, const char *part,
                      char name[GGUF_NAME_BYTES])
{
    const char *end = *base == '=' ? "" : s->bias ? ".bias" : ".weight";
    base += *base == '=';
    if (s->layer < 0)
        snprintf(name, GGUF_NAME_BYTES, "%s%s%s", base, end, part);
    else
        snprintf(name, GGUF_NAME_BYTES, "blk.%d.%s%s%s", s->layer, base, end, part);
}

static const Tensor *find(GgufBinder *b, const TensorSpec *s, const char *base, char *name)
{
    gguf_tensor_name(s, base, b->part, name);
    const Tensor *t = gguf_tensor(&b->s->gguf, name);
    if (t)
        b->used[t - b->s->gguf.tensors] = true;
    return t;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* The rows of a tensor of the file that are one of ours. */
typedef struct GgufPlace {
    const Tensor *t;
    int           base;      /* its first row in t */
    size_t        rows;      /* of the whole tensor t */
    unsigned      lies;      /* how its rows are stored (family.h) */
} GgufPlace;

/* Of parts that are stored as in folders. */
static GgufPlace fused(const Config *c, const TensorSpec *s, const Tensor *t, unsigned lies)
{
    RowSource unused = { 0 };
    return (GgufPlace){ t, 0, (size_t)hf_fused_rows(c, lies, s->rows, &unused), lies };
}

/* Queries with a gate, and the tensors of a layer with the delta rule; false: neither. */
static bool find_gated(GgufBinder *b, const TensorSpec *s, GgufPlace *p, char *name)
{
    const Config *c   = &b->s->stored.config;
    const bool    one = s->role == ROLE_DELTA_B;
    if (c->attn_gate && (s->role == ROLE_WQ || s->role == ROLE_ATTN_GATE))
        *p = fused(c, s, p->t, s->role == ROLE_WQ ? IN_HEAD_Q : IN_HEAD_GATE);
    else if ((one || s->role == ROLE_DELTA_A) && p->t)
        *p = fused(c, s, p->t, one ? IN_GROUP_B : IN_GROUP_A);
    else if (one || s->role == ROLE_DELTA_A) /* Qwen3.5 */
        p->t = find(b, s, one ? "ssm_beta" : "ssm_alpha", name);
    else
        return s->role == ROLE_DELTA_QKV;
    return true;
}

/* Does t hold the rows of gate, then those of up? */
static bool both_halves(const Tensor *t, size_t ff)
{
    return t->rank >= 1 && (uint64_t)t->shape[0] == 2 * ff;
}

/* Find the tensor that holds ours: a separate or a fused one (q, k and v in attn_qkv; gate and up
 * in ffn_up). */
static GgufPlace find_place(GgufBinder *b, const TensorSpec *s, char *name)
{
    const Config *c = &b->s->stored.config;
    size_t        q = (size_t)c->heads * (size_t)c->head_dim,
           kv = (size_t)c->kv_heads * (size_t)c->head_dim, ff = (size_t)c->d_ff;
    char          own[GGUF_NAME_BYTES];
    const char   *usual = gguf_arch_name(b->arch, s->role, tensor_row(s->role)->gguf);
    GgufPlace     p = { .t = find(b, s, usual, name),
                            .rows = (size_t)s->stack * (size_t)s->rows };
    if (s->role == ROLE_CONV && c->delta_heads > 0)
        p.t = find(b, s, "ssm_conv1d", name);
    if (find_gated(b, s, &p, name))
        return p;
    if (s->role >= ROLE_CONV_B && s->role <= ROLE_CONV_X) /* one after the other */
        return (GgufPlace){ p.t, ((int)s->role - ROLE_CONV_B) * s->rows, 3 * (size_t)s->rows, 0 };
    bool          gate = s->role == ROLE_W_GATE, up = s->role == ROLE_W_UP;
    if (!p.t && (s->role == ROLE_WQ || s->role == ROLE_WK || s->role == ROLE_WV))
        p = (GgufPlace){ find(b, s, "attn_qkv", own),
                         s->role == ROLE_WQ       ? 0
                             : s->role == ROLE_WK ? (int)q
                                                  : (int)(q + kv),
                         q + 2 * kv, 0 };
    else if (gate && !p.t && (p.t = find(b, s, tensor_row(ROLE_W_UP)->gguf, own)) != NULL)
        p = both_halves(p.t, ff) ? (GgufPlace){ p.t, 0, 2 * ff, 0 } : (GgufPlace){ 0 };
    else if (up && p.t && both_halves(p.t, ff) && config_gated(c))
        p = (GgufPlace){ p.t, (int)ff, 2 * ff, 0 };
    return p;
}

static bool wrong_shape(const GgufBinder *b, const Tensor *t, size_t rows, int k)
{
    char found[160], want[64];
    if (k > 1)
        snprintf(want, sizeof want, "[%zu, %d]", rows, k);
    else
        snprintf(want, sizeof want, "[%zu]", rows);
    return fail(b->err, INPUT, "%s: tensor %s: expected %s, found %s",
                gguf_part_of(&b->s->gguf, t)->map.path, t->name, want,
                tensor_shape_text(t, found, sizeof found));
}

/* The elements in rows of k, whatever the ranks: stacks are [experts, rows, k], norms of heads
 * [heads, head_dim]. */
static bool check_shape(const GgufBinder *b, const TensorSpec *s, const GgufPlace *p)
{
    size_t k = (size_t)(s->k ? s->k : 1);
    bool   columns = s->k == 0 || (p->t->rank >= 1 && p->t->shape[p->t->rank - 1] == s->k);
    return columns && p->t->n_elements == p->rows * k ? true
                                                      : wrong_shape(b, p->t, p->rows, (int)k);
}

/* Does the file order this tensor's rows by neighbouring dimensions of a head, while ours are by
 * halves? */
static int pair_of(const GgufBinder *b, const TensorSpec *s)
{
    const Config *c = &b->s->stored.config;
    bool rotated = s->role == ROLE_WQ || s->role == ROLE_WK || s->role == ROLE_WQ_B
        || (c->qk_norm == QK_HEADS && (s->role == ROLE_Q_NORM || s->role == ROLE_K_NORM));
    return rotated && gguf_arch_pairs(b->arch) ? c->rotary_dim : 0;
}

/* ---- Experts one by one, as files of 2023 have them: blk.0.ffn_gate.3.weight ----------------- */

static bool bind_experts(GgufBinder *b, const TensorSpec *s, RowSource *r)
{
    const char *base = s->role == ROLE_EXPERT_GATE ? "ffn_gate"
        : s->role == ROLE_EXPERT_UP                ? "ffn_up"
                                                   : "ffn_down";
    char        one[32], name[GGUF_NAME_BYTES];
    r->part = source_alloc(b->s, (size_t)s->stack * sizeof *r->part, b->err);
    if (!r->part)
        return false;
    for (r->n_parts = 0; r->n_parts < s->stack; r->n_parts++) {
        snprintf(one, sizeof one, "%s.%d", base, r->n_parts);
        GgufPlace p = { .t = find(b, s, one, name), .rows = (size_t)s->rows };
        if (!p.t)
            return fail(b->err, INPUT, "%s: tensor %s: expected [%d, %d], found no such tensor",
                        b->s->path, name, s->rows, s->k);
        if (!check_shape(b, s, &p))
            return false;
        if (r->n_parts > 0 && p.t->dtype != r->part[0].t->dtype)
            return fail(b->err, INPUT,
                        "%s: tensor %s: expected the type of the experts before, %s, found %s",
                        b->s->path, name, dtype_name(r->part[0].t->dtype), dtype_name(p.t->dtype));
        r->part[r->n_parts] = (SourcePart){ p.t, &gguf_part_of(&b->s->gguf, p.t)->map };
    }
    return true;
}

/* ---- Binding --------------------------------------------------------------------------------- */

static bool bind_place(GgufBinder *b, const TensorSpec *s, RowSource *r, const char *name,
                       const GgufPlace *p)
{
    if (!p->t && s->k)
        return fail(b->err, INPUT, "%s: tensor %s: expected [%d, %d], found no such tensor",
                    b->s->path, name, s->rows, s->k);
    if (!p->t)
        return fail(b->err, INPUT, "%s: tensor %s: expected [%d], found no such tensor", b->s->path,
                    name, s->rows);
    if (!check_shape(b, s, p))
        return false;
    r->part      = source_alloc(b->s, sizeof *r->part, b->err);
    r->n_parts   = 1;
    r->base      = p->base;
    r->item_rows = s->rows;
    if (p->lies)
        hf_fused_rows(&b->s->stored.config, p->lies, s->rows, r);
    if (r->part)
        r->part[0] = (SourcePart){ p->t, &gguf_part_of(&b->s->gguf, p->t)->map };
    return r->part != NULL;
}

/* The numbers of xIELU are lists of settings, one for each layer. */
static bool bind_xielu(GgufBinder *b, const TensorSpec *s, RowSource *r, CheckedTensor *out)
{
    static const char *const keys[] = { "xielu.alpha_p", "xielu.alpha_n", "xielu.beta",
                                        "xielu.eps" };
    float v[4];
    for (int i = 0; i < 4; i++) {
        float *list;
        size_t n;
        if (!gguf_read_floats(b->s->gguf.meta, keys[i], &list, &n, b->err))
            return false;
        bool there = n > (size_t)s->layer;
        v[i]       = there ? list[s->layer] : 0;
        free(list);
        if (!there)
            return fail(b->err, INPUT,
                        "%s: key %s: expected a number for each of %d layers, found %zu",
                        b->s->path, keys[i], b->s->stored.config.n_layers, n);
    }
    family_xielu(v, (double)v[0], (double)v[1], (double)v[2], (double)v[3]);
    *out = (CheckedTensor){ .rows = r, .type = WT_F32 };
    return source_made_vector(b->s, r, "xielu", v, 4, b->err);
}

/* longrope: two tensors are one of ours. */
static bool bind_both_factors(GgufBinder *b, const TensorSpec *s, RowSource *r, CheckedTensor *out)
{
    static const char *const two[] = { "rope_factors_short", "rope_factors_long" };
    char                     name[GGUF_NAME_BYTES];
    *r = (RowSource){ .stack = 1, .rows = s->rows, .k = 1, .shards = 2, .n_parts = 2 };
    r->part = source_alloc(b->s, 2 * sizeof *r->part, b->err);
    for (int i = 0; r->part && i < 2; i++) {
        const Tensor *t = find(b, s, two[i], name);
        if (!t)
            return fail(b->err, INPUT, "%s: tensor %s: expected [%d], found no such tensor",
                        b->s->path, name, s->rows / 2);
        if (t->n_elements != (size_t)s->rows / 2)
            return wrong_shape(b, t, (size_t)s->rows / 2, 1);
        if (t->dtype != DT_F32)
            return fail(b->err, INPUT, "%s: tensor %s: expected F32, found %s", b->s->path, name,
                        dtype_name(t->dtype));
        r->part[i] = (SourcePart){ t, &gguf_part_of(&b->s->gguf, t)->map };
    }
    if (!r->part)
        return false;
    r->name = r->part[0].t->name;
    r->type = WT_F32;
    *out    = (CheckedTensor){ .rows = r, .type = WT_F32 };
    return true;
}

static bool bind(GgufBinder *b, const TensorSpec *s, RowSource *r, CheckedTensor *out)
{
    if (s->role == ROLE_XIELU)
        return bind_xielu(b, s, r, out);
    if (s->role == ROLE_ROPE_FACTORS && b->s->stored.config.rope.type == ROPE_LONGROPE)
        return bind_both_factors(b, s, r, out);
    const Config *c = &b->s->stored.config;
    char  name[GGUF_NAME_BYTES];
    bool  expert =
        s->role == ROLE_EXPERT_GATE || s->role == ROLE_EXPERT_UP || s->role == ROLE_EXPERT_DOWN;
    GgufPlace p = find_place(b, s, name);
    *r = (RowSource){ .stack = s->stack,
                      .rows = s->rows,
                      .k = s->k ? s->k : 1,
                      .head_dim = s->rows_unit > 1 ? s->rows_unit : c->head_dim,
                      .pair = pair_of(b, s),
                      .last = c->kv_lora ? pair_of(b, s) : 0 };
    if (!(expert && !p.t ? bind_experts(b, s, r) : bind_place(b, s, r, name, &p)))
        return false;
    const Tensor *t = r->part[0].t;
    r->name = t->name;
    if (!row_source_type(t->dtype, &r->type))
        return fail(b->err, INPUT, "%s: tensor %s: expected a type of weights, found %s",
                    b->s->path, t->name, dtype_name(t->dtype));
    if (s->k == 0 && weight_type_quantized(r->type))
        return fail(b->err, INPUT, "%s: tensor %s: expected floats, found %s", b->s->path, t->name,
                    dtype_name(t->dtype));
    *out = (CheckedTensor){ .rows = r, .type = r->type };
    return true;
}

/* An unused tensor would change the result, except tables that follow from the config. */
static bool check_unused(const GgufBinder *b)
{
    const GgufFile *f = &b->s->gguf;
    for (size_t i = 0; i < f->n_tensors; i++) {
        const char *name = f->tensors[i].name, *end = strrchr(name, '.');
        bool        table = strstr(name, ".attn_rot_embd.") || strstr(name, ".rotary_emb.inv_freq");
        int         layer = 0, behind;
        bool        in_layer = sscanf(name, "blk.%9d.", &layer) == 1;
        behind = layer - b->s->stored.config.n_layers;
        if (!b->used[i] && !table && !(in_layer && behind >= 0 && behind < b->s->next_layers))
            return fail(b->err, INPUT,
                        "%s: tensor %s: expected no such tensor for architecture and settings of "
                        "this file%s",
                        gguf_part_of(f, &f->tensors[i])->map.path, name,
                        end && strcmp(end, ".bias") == 0 ? " (no bias there)" : "");
    }
    return true;
}

/* As keep_next of hf_tensors.c. */
static bool keep_next(GgufBinder *b)
{
    Config    *c = &b->s->stored.config;
    TensorSpec s = { .layer = c->n_layers };
    char       name[GGUF_NAME_BYTES];
    bool       there = b->s->next_layers == 1 && c->n_experts > 0 && !c->headless
        && (gguf_arch_of(b->arch, "glm4_moe") || gguf_arch_of(b->arch, "deepseek_v3"));
    for (int role = ROLE_MTP_EMBED_NORM; there && role <= ROLE_MTP_FINAL_NORM; role++)
        there = find(b, &s, tensor_row((TensorRole)role)->gguf, name) != NULL;
    c->mtp_layers = there;
    return config_check(c, b->s->path, b->err);
}

static bool bind_all(GgufBinder *b)
{
    StoredModel *c = &b->s->stored;
    int         i = 0;
    b->used = source_alloc(b->s, b->s->gguf.n_tensors, b->err);
    if (!b->used || !keep_next(b) || !source_begin(b->s, b->err))
        return false;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(&c->config, &s); i++)
        if (!bind(b, &s, &b->s->rows[i], &c->tensor[i]))
            return false;
    return check_unused(b);
}

/* ---- Chat ------------------------------------------------------------------------------------ */

static bool keep_template(Source *s, const char *key, ChatMeta which, Error *err)
{
    GgufString text;
    return !gguf_find(s->gguf.meta, key)
        || (gguf_read_string(s->gguf.meta, key, &text, err)
            && source_keep_chat(s, which, text.bytes, text.n, err));
}

/* The special tokens that the file names by their ids, as strings. */
static bool keep_special(Source *s, Error *err)
{
    static const char *const ids[SPECIAL_TOKEN_KEYS] = {
        "tokenizer.ggml.bos_token_id",       "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.unknown_token_id",   "tokenizer.ggml.seperator_token_id",
        "tokenizer.ggml.padding_token_id",   "tokenizer.ggml.cls_token_id",
        "tokenizer.ggml.mask_token_id"
    };
    const GgufMeta *meta = s->gguf.meta;
    GgufString     *piece;
    size_t          n;
    TextOut         o = { 0 };
    if (!gguf_find(meta, "tokenizer.ggml.tokens"))
        return true;
    if (!gguf_read_strings(meta, "tokenizer.ggml.tokens", &piece, &n, err))
        return false;
    for (int i = 0; i < SPECIAL_TOKEN_KEYS; i++) {
        int64_t id;
        Error   ignored;
        if (!gguf_find(meta, ids[i]) || !n
            || !gguf_read_int(meta, ids[i], 0, (int64_t)n - 1, &id, &ignored))
            continue;
        json_out(&o, o.n ? "" : "{");
        json_out_member(&o, special_token_keys[i], piece[id].bytes, piece[id].n);
    }
    free(piece);
    return source_keep_special(s, &o, err);
}

/* ---- Adapters -------------------------------------------------------------------------------- */

/* Source: llama.cpp, src/llama-adapter.cpp; alpha 0 or none: the product is not scaled. */
static bool read_alpha(const GgufMeta *meta, double *alpha, Error *err)
{
    static const char *const want[][2] = { { "general.type", "adapter" },
                                           { "adapter.type", "lora" } };
    GgufString               text;
    for (int i = 0; i < 2; i++) {
        if (!gguf_read_string(meta, want[i][0], &text, err))
            return false;
        if (!gguf_string_is(text, want[i][1]))
            return fail(err, INPUT, "%s: key %s: expected '%s', found '%.*s'", meta->path,
                        want[i][0], want[i][1], (int)(text.n < 40 ? text.n : 40), text.bytes);
    }
    if (gguf_find(meta, "adapter.alora.invocation_tokens"))
        return fail(err, INPUT, "%s: key adapter.alora.invocation_tokens: expected none, found an "
                                "adapter that begins with certain tokens (aLoRA)", meta->path);
    *alpha = 0;
    return !gguf_find(meta, "adapter.lora.alpha")
        || gguf_read_number(meta, "adapter.lora.alpha", alpha, err);
}

static bool add_adapted(GgufBinder *b, AdapterParts *parts, const TensorSpec *s, double alpha)
{
    char      name[GGUF_NAME_BYTES];
    GgufPlace p = find_place(b, s, name);
    if (!p.t)
        return true;
    snprintf(name, sizeof name, "%s", p.t->name);
    name[strlen(name) - 1] = 'a';
    const Tensor *a        = gguf_tensor(&b->s->gguf, name);
    if (!a)
        return fail(b->err, INPUT, "%s: tensor %s: expected beside %s, found no such tensor",
                    b->s->path, name, p.t->name);
    RowSource rows = { .base = p.base, .pair = pair_of(b, s) };
    double    rank = a->rank == 2 && a->shape[0] > 0 ? (double)a->shape[0] : 1;
    return adapter_add(parts, s, a, p.t, (int64_t)p.rows, &rows, alpha != 0 ? alpha / rank : 1,
                       &gguf_part_of(&b->s->gguf, p.t)->map);
}

bool gguf_adapter_read(Source *s, AdapterParts *parts, Error *err)
{
    GgufBinder b = { .s = s, .part = ".lora_b", .used = parts->used, .err = err };
    double     alpha;
    if (!read_alpha(s->gguf.meta, &alpha, err) || !(b.arch = gguf_arch(&s->gguf, err)))
        return false;
    if (!gguf_arch_of(b.arch, s->stored.config.family))
        return fail(err, INPUT, "%s: key general.architecture: expected that of a %s model, found "
                                "another", s->path, s->stored.config.family);
    TensorSpec spec = tensor_list_start();
    while (adapter_next(&s->stored.config, &spec))
        if (!add_adapted(&b, parts, &spec, alpha))
            return false;
    return true;
}

bool gguf_model_open(Source *s, Error *err)
{
    if (!gguf_open(&s->gguf, s->path, err) || !refuse_gguf(s->gguf.meta, err)
        || !keep_template(s, "tokenizer.chat_template", CHAT_TEMPLATE, err)
        || !keep_template(s, "tokenizer.chat_template.tool_use", CHAT_TEMPLATE_TOOLS, err)
        || !keep_special(s, err))
        return false;
    if (s->gguf.n_tensors == 0)
        return true;
    GgufBinder b = { .s = s, .part = "", .err = err };
    if (!(b.arch = gguf_arch(&s->gguf, err)) || !gguf_config(s, b.arch, err))
        return false;
    s->has_weights = bind_all(&b);
    return s->has_weights;
}
