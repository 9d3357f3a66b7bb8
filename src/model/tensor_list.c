/* model/tensor_list.c: a model's tensors as one table: names, order, shapes, where each is and what
 * it reads. */
#include "model/tensor_list.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "model/config_keys.h"
#include "model/model.h"

/* ---- Conditions and sizes, as data ----------------------------------------------------------- */

/* A field of Config; size 0: none. */
typedef struct ConfigField { size_t at, size; } ConfigField;
#define FIELD(f) { offsetof(Config, f), sizeof ((Config *)0)->f }

typedef enum LayerKind { ANY, ATTENTION, STATE, DENSE, MOE, MTP } LayerKind;

/* In layers of a kind, if one field is not 0, two are, and a third has one of some values. */
typedef struct Condition {
    LayerKind   in;
    ConfigField on, off[2], word;
    unsigned    words; /* bit mask */
    bool        never;
} Condition;
#define ALWAYS              { .in = ANY }
#define NEVER               { .never = true }
#define IN(kind)            { .in = kind }
#define ON(kind, f)         { .in = kind, .on = FIELD(f) }
#define IF(f)               ON(ANY, f)
#define UNLESS(kind, f)     { .in = kind, .off = { FIELD(f) } }
#define IF_NOT(f, g)        { .on = FIELD(f), .off = { FIELD(g) } }
#define WORDS(kind, f, set) { .in = kind, .word = FIELD(f), .words = set }
#define WORD(kind, f, one)  WORDS(kind, f, 1u << one)
/* A norm before the sublayer (post-norm: after the sum), and one of the sublayer's result. */
#define ATTN_NORMED WORDS(ANY, norm_placement, ~(1u << PLACE_OUTPUT))
#define FFN_NORMED  WORDS(ANY, norm_placement, ~(1u << PLACE_OUTPUT | 1u << PLACE_PARALLEL))
#define POST_NORMED WORDS(ANY, norm_placement, 1u << PLACE_BOTH | 1u << PLACE_OUTPUT)
#define QK_NORMED   WORDS(ATTENTION, qk_norm, 1u << QK_HEAD | 1u << QK_VECTOR | 1u << QK_HEADS)
#define GATED \
    WORDS(DENSE, ffn, 1u << FFN_SWIGLU | 1u << FFN_GEGLU | 1u << FFN_GEGLU_ERF)
#define FACTORED    WORDS(ANY, rope.type, 1u << ROPE_FACTORS | 1u << ROPE_LONGROPE)
#define UNTIED      { .off = { FIELD(tied_embeddings), FIELD(headless) } }

static int two(const Config *c) { return c ? 2 : 0; }
static int head_dim(const Config *c) { return c->head_dim; }
static int value_dim(const Config *c) { return c->delta_value_dim; }
static int factors(const Config *c)
{
    return c->rope.type == ROPE_LONGROPE ? c->rotary_dim : c->rotary_dim / 2;
}

/* A dimension: a field, times a unit; or another size of the config, or a number. */
typedef struct Dim {
    ConfigField key;
    int (*unit)(const Config *);
    int (*size)(const Config *);
    int   number;
    bool  of_head; /* of one head, if norms of q and k are */
} Dim;
#define NONE       { .number = 0 }
#define ONE        { .number = 1 }
#define FOUR       { .number = 4 }
#define KEY(f)     { .key = FIELD(f) }
#define D_MODEL    KEY(d_model)
#define TWO_MODELS { FIELD(d_model), .unit = two }
#define Q_DIM      { FIELD(heads), .unit = config_query_dim }
#define KV_DIM     { FIELD(kv_heads), .unit = head_dim }
#define O_DIM      { FIELD(heads), .unit = config_value_dim }
#define Q_NORM_DIM { FIELD(heads), .unit = config_query_dim, .of_head = true }
#define K_NORM_DIM { FIELD(kv_heads), .unit = head_dim, .of_head = true }
#define TAPS       { FIELD(conv_taps), .unit = config_conv_width }
#define STATE_DIM  { FIELD(delta_heads), .unit = value_dim }
#define CONV_DIM   { .size = config_conv_width }
#define FACTORS    { FIELD(rotary_dim), .size = factors }

/* ---- The table ------------------------------------------------------------------------------- */

#define READS(input, o)                                                                            \
    .reads = INPUT_##input, .op = OP_##o,                                                          \
    .part = INPUT_##input <= INPUT_WO ? PART_ATTENTION : PART_FFN
#define NORMS(o) .reads = INPUT_NONE, .op = OP_##o, .part = PART_NORMS
#define OF(p)    .reads = INPUT_NONE, .op = OP_COUNT, .part = PART_##p
#define TABLE    OF(NORMS), .quantized = AT_LEAST_Q8
#define BLOCK(weight, bias) .block = { weight, bias }
#define NAMED(owner, layer, f, kind_)                                                              \
    .name = #f, .bias_name = #f "_bias", .in_layer = layer, .kind = KIND_##kind_,                  \
    .at = offsetof(owner, f)
#define LAYER_PART(role, f, kind, rows, k, has, biased, gguf_, hf_, ...)                           \
    { { NAMED(Layer, true, f, kind), .gguf = gguf_, .hf = hf_, __VA_ARGS__ },                      \
      rows, k, has, biased },
#define MODEL_PART(role, f, kind, rows, k, has, biased, gguf_, hf_, ...)                           \
    { { NAMED(Model, false, f, kind), .gguf = gguf_, .hf = hf_, __VA_ARGS__ },                     \
      rows, k, has, biased },

/* A bias follows the tensor that it belongs to. */
static const struct Part {
    TensorRow row;
    Dim       rows, k;
    Condition has, biased;
} parts[] = {
    TENSORS_BEFORE(MODEL_PART) TENSORS_OF_LAYER(LAYER_PART) TENSORS_AFTER(MODEL_PART)
};

const TensorRow *tensor_row(TensorRole role) { return &parts[role].row; }

static bool in_layers(const Config *c, LayerKind kind, int layer)
{
    bool inside = layer >= 0 && layer < MAX_LAYERS;
    switch (kind) {
    case ATTENTION: return !(inside && config_state(c, layer));
    case STATE:     return inside && config_state(c, layer);
    case DENSE:     return !(inside && config_moe(c, layer));
    case MOE:       return inside && config_moe(c, layer);
    case MTP:       return layer == c->n_layers;
    case ANY:       break;
    }
    return true;
}

static bool is_set(const Config *c, ConfigField f)
{
    static const char zero[sizeof(double)];
    return memcmp((const char *)c + f.at, zero, f.size) != 0;
}

static bool has_word(const Config *c, const Condition *w)
{
    return w->words >> config_word_get((const char *)c + w->word.at) & 1;
}

/* Does a layer have it? layer -1: outside the layers. */
static bool holds(const Config *c, const Condition *w, int layer)
{
    return !w->never && in_layers(c, w->in, layer) && (!w->on.size || is_set(c, w->on))
        && !is_set(c, w->off[0]) && !is_set(c, w->off[1]) && (!w->word.size || has_word(c, w));
}

/* What of a condition does not hold, as the config says it. */
static const char *unmet(const Config *c, const Condition *w, int layer, char *buf, size_t n)
{
    static const char *const other[] = {
        [ATTENTION] = "a layer with a state",     [STATE] = "no state in that layer",
        [DENSE]     = "experts in that layer",    [MOE]   = "no experts in that layer",
        [MTP]       = "mtp_layers 0, or another layer,",
    };
    ConfigField off = is_set(c, w->off[0]) ? w->off[0] : w->off[1],
                f   = w->on.size && !is_set(c, w->on) ? w->on : is_set(c, off) ? off : w->word;
    if (w->never || !in_layers(c, w->in, layer)) {
        snprintf(buf, n, "%s", w->never ? "no such bias" : other[w->in]);
        return buf;
    }
    const ConfigKey *key  = config_key_at(f.at);
    bool             flag = key->kind == KEY_BOOL;
    if (f.at == w->on.at)
        snprintf(buf, n, "%s %s", key->name, flag ? "false" : "0");
    else if (f.at == off.at)
        snprintf(buf, n, "%s %s", key->name, flag ? "true" : "above 0");
    else if (key->kind == KEY_ROPE)
        snprintf(buf, n, "rope type %s", rope_type_words[c->rope.type]);
    else
        snprintf(buf, n, "%s %s", key->name,
                 key->words[config_word_get((const char *)c + f.at)]);
    return buf;
}

static bool has_part(const Config *c, const struct Part *p, bool bias, int layer)
{
    return holds(c, &p->has, layer) && (!bias || holds(c, &p->biased, layer));
}

static int dim_size(const Config *c, const Dim *d, const char **key, int *unit)
{
    static const Dim head = KEY(head_dim);
    int              n    = d->number;
    if (d->of_head && c->qk_norm == QK_HEAD)
        d = &head;
    *key  = d->key.size ? config_key_at(d->key.at)->name : "";
    *unit = d->unit ? d->unit(c) : 1;
    memcpy(&n, (const char *)c + d->key.at, d->key.size);
    return d->size ? d->size(c) : n * *unit;
}

TensorSpec tensor_list_start(void) { return (TensorSpec){ .at_ = -1, .layer = -1 }; }

static bool in_layer(int role) { return role < ROLE_COUNT && parts[role].row.in_layer; }

/* Layer `layer` starts at the first row of the layers. */
static bool begin_layer(TensorSpec *s, int layer)
{
    s->layer = layer;
    for (s->at_ = 0; !in_layer(s->at_ / 2); s->at_ += 2)
        ;
    return true;
}

/* Go to the next entry; at_ counts weights and biases. The rows of the layers are together in the
 * table: after their last row, the next layer starts at their first. The MTP layer comes at the
 * very end, so that the list without it is a prefix of the list. */
static bool advance(const Config *c, TensorSpec *s)
{
    int last = s->at_ / 2;
    s->at_++;
    if (s->at_ > 0 && s->at_ % 2 == 0 && in_layer(last) && !in_layer(last + 1)) {
        if (s->layer >= c->n_layers)
            return false;
        if (s->layer + 1 < c->n_layers)
            return begin_layer(s, s->layer + 1);
        s->layer = -1;
    } else if (s->layer < 0 && in_layer(s->at_ / 2)) {
        s->layer = 0;
    }
    return s->at_ < 2 * ROLE_COUNT || (c->mtp_layers && begin_layer(s, c->n_layers));
}

bool tensor_list_next(const Config *c, TensorSpec *s)
{
    do {
        if (!advance(c, s))
            return false;
    } while (!has_part(c, &parts[s->at_ / 2], s->at_ % 2 != 0, s->layer));

    static const Dim   none = NONE;
    const struct Part *p    = &parts[s->at_ / 2];
    s->role = (TensorRole)(s->at_ / 2);
    s->bias = s->at_ % 2 != 0;
    s->part = s->bias ? p->row.bias_name : p->row.name;
    if (p->row.in_layer)
        snprintf(s->name, sizeof s->name, "layers.%d.%s", s->layer, s->part);
    else
        snprintf(s->name, sizeof s->name, "%s", s->part);
    s->rows = dim_size(c, &p->rows, &s->rows_key, &s->rows_unit);
    s->k    = dim_size(c, s->bias ? &none : &p->k, &s->k_key, &s->k_unit);
    /* An embedding that is not also the head is read by single rows, so it is not in panels. */
    s->panels =
        s->k != 0 && (!tensor_spec_gathered(s) || (s->role == ROLE_EMBED && c->tied_embeddings));
    s->stack  = s->bias                 ? 1
        : p->row.kind == KIND_STACK ? c->n_experts
        : p->row.kind == KIND_HEADS ? c->heads
                                    : 1;
    if (p->row.kind == KIND_STACK && s->bias) { /* one vector for all experts */
        s->rows     *= c->n_experts;
        s->rows_unit = c->n_experts;
    }
    return true;
}

int tensor_list_count(const Config *c)
{
    int n = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);)
        n++;
    return n;
}

int tensor_spec_shape(const TensorSpec *s, int64_t shape[3])
{
    int rank = 0;
    if (s->stack > 1)
        shape[rank++] = s->stack;
    shape[rank++] = s->rows;
    if (s->k)
        shape[rank++] = s->k;
    return rank;
}

uint64_t tensor_spec_params(const TensorSpec *s)
{
    if (s->role == ROLE_ROPE_FACTORS) /* constants, which are not counted */
        return 0;
    return (uint64_t)s->stack * (uint64_t)s->rows * (uint64_t)(s->k ? s->k : 1);
}

size_t tensor_spec_bytes(const TensorSpec *s, WeightType type)
{
    size_t n = (size_t)s->rows * sizeof(float);
    if (tensor_spec_panels(s, type))
        matrix_bytes(type, tensor_spec_panel_rows(s), s->k, &n);
    else if (s->k)
        n = (size_t)s->stack * (size_t)s->rows * (size_t)s->k * weight_type_bytes(type);
    return n;
}

/* What a tensor's name means: its row, whether it is the bias, its layer (-1: outside the
 * layers). */
typedef struct NamedPart { const struct Part *p; bool bias; int layer; } NamedPart;

/* p NULL: no config has such a tensor. */
static NamedPart find_part(const char *name)
{
    const char *part  = name;
    NamedPart       found = { .layer = -1 };
    if (strncmp(name, "layers.", 7) == 0) {
        const char *p = name + 7;
        int         n = 0, digits = 0;
        for (; p[digits] >= '0' && p[digits] <= '9' && digits < 7; digits++)
            n = n * 10 + (p[digits] - '0');
        if (digits == 0 || p[digits] != '.' || (p[0] == '0' && digits > 1)) /* 007 is not a layer */
            return found;
        found.layer = n;
        part = p + digits + 1;
    }
    for (int i = 0; i < ROLE_COUNT; i++) {
        const TensorRow *row = &parts[i].row;
        found.bias = !parts[i].biased.never && strcmp(row->bias_name, part) == 0;
        if (row->in_layer == (found.layer >= 0) && (found.bias || strcmp(row->name, part) == 0)) {
            found.p = &parts[i];
            return found;
        }
    }
    return found;
}

bool tensor_list_has(const Config *c, const char *name)
{
    NamedPart n = find_part(name);
    return n.p && n.layer < c->n_layers + c->mtp_layers && has_part(c, n.p, n.bias, n.layer);
}

bool tensor_list_has_matrix(const Config *c, const char *name)
{
    NamedPart n = find_part(name);
    return tensor_list_has(c, name) && !n.bias && n.p->row.kind != KIND_NORM
        && n.p->row.kind != KIND_VECTOR;
}

const char *tensor_list_why_absent(const Config *c, const char *name, char *buf, size_t n)
{
    NamedPart t = find_part(name);
    char      why[80];
    buf[0] = '\0';
    if (t.p && t.layer >= c->n_layers + c->mtp_layers)
        snprintf(buf, n, " (n_layers %d in the config)", c->n_layers);
    else if (t.p && !has_part(c, t.p, t.bias, t.layer))
        snprintf(buf, n, " (%s in the config)",
                 unmet(c, holds(c, &t.p->has, t.layer) ? &t.p->biased : &t.p->has, t.layer, why,
                       sizeof why));
    return buf;
}
