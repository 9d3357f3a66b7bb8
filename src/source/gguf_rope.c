/* source/gguf_rope.c: how the settings of a GGUF file scale the rotation. */
#include "source/gguf_config.h"

#include <math.h>

#include "base/number.h"

static bool read_yarn(GgufReader *r)
{
    Rope  *rope = &r->c->rope;
    double attn = -1;
    int    original = r->c->n_ctx;
    for (const ConfigKey *k = rope_keys; k->name; k++)
        if (k->gguf && gguf_has(r, k->gguf) && !key_read(&r->keys, k, k->gguf, NULL, rope))
            return false;
    if (!gguf_maybe_number(r, "rope.scaling.attn_factor", &attn)
        || !gguf_maybe_size(r, "rope.scaling.original_context_length", &original))
        return false;
    rope->original_n_ctx = original;
    if (r->arch->flags & (QUERY_SCALE | OF_DEEPSEEK)
        && !gguf_maybe_number(r, LOG_MULTIPLIER, &rope->mscale_all_dim))
        return false;
    if (r->arch->flags & OF_DEEPSEEK) /* a tenth of it; and sine and cosine stay as they are */
        rope->mscale_all_dim = (double)(float)(10 * rope->mscale_all_dim);
    rope->mscale = r->arch->flags & OF_DEEPSEEK ? rope->mscale_all_dim : rope->mscale_all_dim != 0;
    if (r->arch->flags & OF_DEEPSEEK && rope->mscale_all_dim == 0)
        rope->attention_factor = 1;
    rope->truncate       = !(r->arch->flags & OF_GPT_OSS);
    if (attn > 0 && attn != 1 && r->arch->flags & OF_DEEPSEEK)
        return key_wrong(&r->keys, "rope.scaling.attn_factor", "expected 1, found %g", attn);
    if (attn > 0 && attn != 1) /* llama.cpp multiplies it by a function of the factor */
        rope->attention_factor = attn * (0.1 * math64_log(rope->factor) + 1);
    return true;
}

/* A file of llama.cpp's converter has no type, but the tensors. */
static bool is_longrope(GgufReader *r, GgufString type)
{
    return gguf_string_is(type, "longrope") || gguf_tensor(r->f, "rope_factors_long.weight")
        || gguf_tensor(r->f, "rope_factors_short.weight");
}

static bool read_longrope(GgufReader *r)
{
    Rope  *rope = &r->c->rope;
    double factor = 1;
    int    original = r->c->n_ctx;
    rope->attention_factor = 1;
    if (!gguf_maybe_number(r, "rope.scaling.factor", &factor)
        || !gguf_maybe_number(r, "rope.scaling.attn_factor", &rope->attention_factor)
        || !gguf_maybe_size(r, "rope.scaling.original_context_length", &original))
        return false;
    if (factor != 0 && factor != 1)
        return key_wrong(&r->keys, "rope.scaling.factor",
                         "expected 1 with rope type longrope, found %g", factor);
    if (!(rope->attention_factor > 0)) /* below 0 would be none */
        return key_wrong(&r->keys, "rope.scaling.attn_factor",
                         "expected a number above 0, found %g", rope->attention_factor);
    rope->original_n_ctx = original;
    rope->factor         = fmax(1, r->c->n_ctx / fmax(1, original));
    return true;
}

/* The kind of scaling: none, linear, yarn or longrope. */
static bool rope_kind(GgufReader *r, RopeType *kind)
{
    char       full[GGUF_NAME];
    GgufString type = { "linear", 6 }; /* llama.cpp's default if there is only a factor */
    if (gguf_has(r, "rope.scaling.type")
        && !gguf_read_string(r->keys.gguf, gguf_name(&r->keys, "rope.scaling.type", full), &type,
                             r->keys.err))
        return false;
    *kind = is_longrope(r, type)           ? ROPE_LONGROPE
        : gguf_string_is(type, "linear")   ? ROPE_LINEAR
        : gguf_string_is(type, "yarn")     ? ROPE_YARN
                                           : ROPE_DEFAULT;
    return *kind != ROPE_DEFAULT || gguf_string_is(type, "none")
        || key_wrong(&r->keys, "rope.scaling.type",
                     "expected none, linear, yarn or longrope, found '%.*s'",
                     (int)(type.n < 40 ? type.n : 40), type.bytes);
}

bool gguf_read_rope(GgufReader *r)
{
    Config  *c = r->c;
    RopeType kind = ROPE_DEFAULT;
    double   factor = 0;
    if (!rope_kind(r, &kind))
        return false;
    if (kind == ROPE_LONGROPE) {
        c->rope.type = kind;
        return read_longrope(r);
    }
    if (gguf_tensor(r->f, "rope_freqs.weight"))
        c->rope.type = ROPE_FACTORS;
    if (kind == ROPE_DEFAULT)
        return true;
    /* the older name */
    const char *key = gguf_has(r, "rope.scaling.factor") ? "rope.scaling.factor"
                                                         : "rope.scale_linear";
    if (!gguf_maybe_number(r, key, &factor))
        return false;
    if (factor == 0 || factor == 1) /* 0: none */
        return true;
    if (c->rope.type == ROPE_FACTORS)
        return key_wrong(&r->keys, "rope.scaling.factor",
                         "expected 1 beside tensor rope_freqs.weight, found %g", factor);
    c->rope.type   = kind;
    c->rope.factor = factor;
    return kind == ROPE_LINEAR || read_yarn(r);
}

/* Ministral 3: queries grow with the position, by the length before scaling. */
bool gguf_read_query_scale(GgufReader *r)
{
    Config *c = r->c;
    int     n = c->n_ctx;
    if (!(r->arch->flags & QUERY_SCALE))
        return true;
    if (!gguf_maybe_number(r, TEMPERATURE, &c->query_scale)
        || !gguf_maybe_size(r, "rope.scaling.original_context_length", &n))
        return false;
    c->query_scale_length = c->query_scale != 0 ? n : 0;
    return true;
}

/* Gemma 3, OLMo 3: layers with a window have a separate theta, which is never scaled. */
bool gguf_read_window_theta(GgufReader *r)
{
    Config       *c = r->c;
    const Family *f = r->family;
    if ((f->theta_window == 0 && !f->window_unscaled) || c->window == 0)
        return true;
    c->theta_window = f->theta_window != 0 ? f->theta_window : c->theta;
    if (!gguf_maybe_number(r, "rope.freq_base_swa", &c->theta_window))
        return false;
    family_one_theta(f, c);
    return true;
}
