/* model/config.h: the shape and constants of a model. Knows nothing of execution. docs/format.md
 * lists the JSON keys. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <stdint.h>

#include "base/error.h"
#include "model/activations.h"

typedef enum Norm          { NORM_RMS, NORM_LAYER } Norm;

/* Where the norms are around the sublayers f (attention) and g (feed-forward); n is a norm:
 *   PRE       x += f(n x); x += g(n x)           POST       x = n(x + f x); x = n(x + g x)
 *   BOTH      x += n f(n x); x += n g(n x)       OUTPUT     x += n(f x); x += n(g x)
 *   PARALLEL  x += f(n x) + g(n x), one norm     PARALLEL2  the same with a norm each */
typedef enum NormPlacement {
    PLACE_PRE,
    PLACE_POST,
    PLACE_BOTH,
    PLACE_PARALLEL,
    PLACE_PARALLEL2,
    PLACE_OUTPUT
} NormPlacement;

typedef enum Positions     { POS_ROPE, POS_LEARNED } Positions;
typedef enum RopeType {
    ROPE_DEFAULT,
    ROPE_LINEAR,
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_FACTORS,
    /* these two choose frequencies by a length, a constant of the context: config_rope_length */
    ROPE_LONGROPE,
    ROPE_DYNAMIC
} RopeType;

/* Norms of q and k, of the config's kind of norm, without bias: of each
 * head with one weight [head_dim]; of the whole vector, weight [heads * head_dim]; of each head
 * with a weight of its own, [heads * head_dim]; of each head without a weight, only in layers that
 * rotate. */
typedef enum QkNorm        { QK_NONE, QK_HEAD, QK_VECTOR, QK_HEADS, QK_PLAIN } QkNorm;

/* What the logits of a router become: a softmax over all experts, or a sigmoid of each. */
typedef enum RouterScore { ROUTER_SOFTMAX, ROUTER_SIGMOID } RouterScore;

/* How a text becomes a vector, numbered as tblock_pool. OTHER: in an unsupported way. */
typedef enum PoolKind { POOL_UNSAID, POOL_MEAN, POOL_LAST, POOL_CLS, POOL_OTHER } PoolKind;

/* The activation of a matrix after pooling. */
typedef enum DenseAct { DENSE_PLAIN, DENSE_TANH, DENSE_RELU, DENSE_SIGMOID } DenseAct;

typedef struct Rope {
    RopeType type;
    double   factor;                             /* all but default and factors */
    double   low_freq_factor, high_freq_factor;  /* llama3 */
    double   original_n_ctx;                     /* llama3, yarn, longrope, dynamic */
    double   beta_fast, beta_slow;               /* yarn; defaults 32, 1 */
    /* yarn, longrope; < 0: from factor (or mscale / mscale_all_dim) */
    double   attention_factor;
    double   mscale, mscale_all_dim;             /* yarn; 0: absent */
    bool     truncate;                           /* yarn; default true */
} Rope;

enum { MAX_EOS = 16, MAX_LAYERS = 1 << 12, MAX_TAPS = 64 };

/* A set of layers. */
typedef struct Layers { uint64_t bits[MAX_LAYERS / 64]; } Layers;

typedef struct Config {
    char    family[32];
    int     d_model, n_layers, heads, kv_heads, head_dim, d_ff, vocab_size, n_ctx;
    double  theta, norm_eps;
    bool    tied_embeddings;
    bool    headless;                    /* it gives hidden states, no logits */
    bool    head_bias;                   /* a bias of a head that is not tied */
    Norm          norm;
    NormPlacement norm_placement;
    FfnKind       ffn;
    /* norm_bias: of LayerNorm */
    bool    qkv_bias, out_bias, ffn_bias, norm_bias;
    QkNorm  qk_norm;
    bool    qk_norm_after_rope;          /* they are norms of the rotated q and k */
    int     window;                      /* positions a query sees, itself included; 0: all */
    bool    window_chunked;              /* instead: those from the last multiple of window on */
    /* Each token sees the whole text; with a window, as many positions on either side */
    bool    bidirectional;
    Layers  full_layers;                 /* those without the window */
    Layers  no_rope_layers;              /* those that do not rotate q and k */
    /* of the layers without a window, where theta_window differs */
    Rope    rope;
    /* theta of the layers with a window, not scaled; 0: as the others */
    double  theta_window;
    int     rotary_dim;                  /* dimensions of a head that are rotated, the first */
    Positions positions;
    /* multiply the embedding, a sublayer's output, the logits; 1: none */
    double  embed_scale, residual_scale, logit_scale;
    double  attn_scale;                  /* of scores; 0: 1 / sqrt(head_dim) */
    /* queries times 1 + query_scale * ln(1 + floor(pos / query_scale_length)); 0: none */
    double  query_scale;
    int     query_scale_length;
    bool    query_scale_unrotated;       /* only in layers that do not rotate, with pos + 1 */
    double  attn_softcap, logit_softcap; /* cap * tanh(x / cap) of scores, of logits; 0: none */
    /* gate at most this, up within -+ this, h = gate sigmoid(gate_alpha gate) (up + 1); 0:
     * SwiGLU */
    double  gate_limit, gate_alpha;
    /* Latent attention: a position keeps one vector for all heads: rotary_dim rotated values, then
     * kv_lora latent ones (kv_heads 1; head_dim is their sum). Each head has its own matrices from
     * the nope_dim other values of its query to the latent ones, and from those to its v_dim
     * values. kv_lora 0: none; q_lora: width between the two matrices of q, 0: it has one */
    int     kv_lora, q_lora, nope_dim, v_dim;
    double  latent_norm_eps;             /* of its two norms; 0: norm_eps */
    bool    attn_sinks;                  /* each head's softmax has one more logit */
    bool    attn_gate;                   /* attention's output is times a sigmoid */
    /* Recurrent layers, with a state instead of attention: a short convolution over conv_taps
     * tokens, the current one included; conv_bias: of it and of the products around it */
    Layers  state_layers;
    int     conv_taps;
    bool    conv_bias;
    /* Or the gated delta rule after a convolution: value heads, each with a matrix [delta_key_dim,
     * delta_value_dim], and fewer key heads. delta_heads 0: none */
    int     delta_heads, delta_key_heads, delta_key_dim, delta_value_dim;
    bool    delta_tiled;                 /* head h has key h modulo delta_key_heads, else h times
                                          * delta_key_heads / delta_heads */
    double  qkv_clip;                    /* clamps q, k, v to -+ this, after norms; 0: none */
    int     n_experts, experts_used;     /* 0: no layer has experts */
    int     expert_d_ff, shared_d_ff;    /* of each expert; of the shared one, 0: there is none */
    bool    router_bias, expert_bias;    /* of the router; of each expert's three matrices */
    RouterScore router_score;
    bool    choice_bias;                 /* a bias of each expert, for the choice only */
    /* experts of the groups with the largest sums of two; 0: of all */
    int     expert_groups, groups_used;
    bool    group_by_largest;            /* ... or with the largest single one */
    bool    renormalize;                 /* the chosen experts' scores to sum 1 */
    double  renormalize_min;             /* the sum that divides them is at least this ... */
    double  renormalize_add;             /* ... and this is added to it */
    double  expert_scale;                /* of these scores, then; 1: none */
    bool    expert_input_scaled;         /* a score multiplies its expert's input */
    bool    shared_router;               /* the shared expert's output is times a sigmoid */
    Layers  dense_layers;                /* those without experts */
    /* 1: an MTP layer predicts the token after the next (docs/drafts.md) */
    int     mtp_layers;
    PoolKind pool;                       /* what the model was trained for */
    /* Rows of the matrices that the pooled vector goes through, 0: there is none */
    int      dense1, dense2;
    bool     dense1_bias, dense2_bias;
    DenseAct dense1_act, dense2_act;
    bool     labels;                     /* dense1 gives logits of labels, no vector */
    int     bos;                         /* -1: none */
    int     eos[MAX_EOS], n_eos;
} Config;

/* The Llama defaults: what an absent key means. Required keys (d_model, n_layers, heads, d_ff,
 * vocab_size) are 0. */
void config_defaults(Config *c);

/* Parse the JSON config (docs/format.md). what names the source in messages. An unknown key is an
 * error that names it; derived defaults (kv_heads = heads, head_dim = d_model / heads) are filled
 * in; config_check is called. */
bool config_parse(Config *c, const char *json, size_t n_bytes, const char *what, Error *err);

/* Ranges and contradictions: every number positive and small enough that all sizes fit, heads %
 * kv_heads == 0, head_dim even for rope... Needs no JSON (also for configs made in C). */
bool config_check(const Config *c, const char *what, Error *err);

/* Does the forward pass implement every part of the config? If not, err names the part. */
bool config_supported(const Config *c, const char *what, Error *err);

/* The config as one line of JSON with every key in the order of docs/format.md; caller frees. */
char *config_to_json(const Config *c, Error *err);

/* The config of the MTP layer as a model of its own. */
Config config_mtp(const Config *c);

/* Make it a config without experts, or without recurrent layers. */
void config_no_experts(Config *c);
void config_no_states(Config *c);

bool layers_has(const Layers *set, int layer);
void layers_add(Layers *set, int layer);

/* Positions that a query of this layer sees, 0: all; does the layer have experts? */
int  config_window(const Config *c, int layer);
/* The oldest position that a query at pos sees through such a window. */
int  window_oldest(int window, bool chunked, int pos);
/* One past the newest position that it sees of a sequence that has n with this call. */
int  window_end(int window, bool bidirectional, int pos, int n);
bool config_moe(const Config *c, int layer);
/* Does the layer rotate q and k? */
bool config_rotates(const Config *c, int layer);
/* Is the layer recurrent (a state instead of attention); is any; the floats of that state. */
bool   config_state(const Config *c, int layer);
bool   config_has_state(const Config *c);
size_t config_state_floats(const Config *c);
/* The channels of a recurrent layer's convolution, and the width of its last product's input. */
int config_conv_width(const Config *c);
int config_state_width(const Config *c);

/* The factor of scores: attn_scale, or the default from the length of a head's query. */
double config_attn_scale(const Config *c);

/* YaRN's factor of sine and cosine; latent attention multiplies its scores by it twice. */
double config_yarn_mscale(double factor, double mscale);

/* The width of a head in wq's output, and in wo's input. */
int config_query_dim(const Config *c);
int config_value_dim(const Config *c);
/* Vectors cached per position and KV head: 2, K and V, or 1 that is both. */
int config_kv_vectors(const Config *c);

static inline bool config_gated(const Config *c) { return ffn_gated(c->ffn); }

/* Do the frequencies depend on a length? */
bool config_rope_length(const Config *c);

/* inv_freq [rotary_dim / 2] of the rotary embedding in double, and the factor that multiplies sine
 * and cosine (1 but for yarn and longrope). windowed: of layers with a window (theta_window).
 * factors: the model's rope_factors, by which the frequencies are divided, or NULL. length: if
 * config_rope_length. Formula order: transformers' modeling_rope_utils.py. */
void config_inv_freq(const Config *c, bool windowed, const float *factors, int length,
                     double *inv_freq, double *factor);

#endif
