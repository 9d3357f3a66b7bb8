/* source/gguf_config.h: what the readers of a GGUF file's settings share. Private to gguf_arch.c,
 * gguf_config.c and gguf_rope.c. */
#ifndef SOURCE_GGUF_CONFIG_H
#define SOURCE_GGUF_CONFIG_H

#include "model/config_keys.h"
#include "source/family.h"
#include "source/source.h"

enum {
    ROTATES_PAIRS  = 1,  /* rotates neighbouring dimensions */
    RENORMALIZE    = 2,  /* the chosen experts' probabilities */
    LAST_SCALE     = 4,  /* big variants divide scores by sqrt(d_model / heads) */
    DIVIDE         = 8,  /* logit_scale divides */
    /* the norm before the feed-forward is called post_attention_norm */
    FFN_NORM_POST  = 32,
    /* attention.temperature_scale and rope.scaling.yarn_log_multiplier are read */
    QUERY_SCALE    = 64,
    /* gate_limit and gate_alpha have no keys; yarn's range is not rounded (llama.cpp rounds it) */
    OF_GPT_OSS     = 1 << 12,
    /* chunks, query_scale and norms of q and k have no keys */
    OF_LLAMA4      = 1 << 13,
    /* latent attention; no gating function is a softmax */
    OF_DEEPSEEK    = 1 << 14,
    /* layers without KV heads convolve */
    OF_LFM2        = 1 << 15,
    /* listed layers, or all but every n-th, have the delta rule, and attention has a gate */
    OF_DELTA       = 1 << 16,
    /* value heads were reordered so that their keys alternate */
    TILED_HEADS    = 1 << 17,
    /* attention in both directions, half of a window on either side */
    BOTH_DIRECTIONS = 1 << 18,
};

/* What GGUF files say differently from config.json, or omit. The rest of a family is its row in
 * source/family.c. */
struct GgufArch {
    /* moe_family, window_family: for files with experts, with windows; NULL: the same */
    const char *name, *family, *moe_family, *window_family;
    unsigned    flags;
    /* every n-th layer has no window; 0: the n of the family */
    int         full_every;
    int         big_layers;                 /* LAST_SCALE: the layers of the big variant */
    int         no_rope_every;              /* every n-th layer does not rotate; 0: all do */
};

#define TEMPERATURE    "attention.temperature_scale"
#define LOG_MULTIPLIER "rope.scaling.yarn_log_multiplier"
#define WINDOW_PATTERN "attention.sliding_window_pattern"

typedef struct GgufReader {
    KeyReader       keys;
    const GgufArch *arch;
    const Family   *family;
    const GgufFile *f;
    Config         *c;
    Source         *source; /* for what the user should know */
} GgufReader;

static inline bool gguf_has(const GgufReader *r, const char *key)
{
    return key_there(&r->keys, key);
}

/* The readers below leave *out unchanged if the file has no such key. */
static inline bool gguf_maybe_size(GgufReader *r, const char *key, int *out)
{
    return !gguf_has(r, key) || key_int(&r->keys, key, NULL, 0, KEY_LARGEST, out);
}

static inline bool gguf_maybe_number(GgufReader *r, const char *key, double *out)
{
    return !gguf_has(r, key) || key_number(&r->keys, key, NULL, out);
}

/* gguf_rope.c: the scaling of the rotation; queries that grow with the position; the theta of
 * layers with a window. */
bool gguf_read_rope(GgufReader *r);
bool gguf_read_query_scale(GgufReader *r);
bool gguf_read_window_theta(GgufReader *r);

#endif
