/* model/config.h: the shape and constants of a model. Knows nothing of execution. docs/format.md lists the JSON keys. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "base/error.h"

typedef enum Norm          { NORM_RMS, NORM_LAYER } Norm;
typedef enum NormPlacement { PLACE_PRE, PLACE_POST, PLACE_BOTH, PLACE_PARALLEL } NormPlacement;
typedef enum FfnKind       { FFN_SWIGLU, FFN_GEGLU, FFN_GELU, FFN_RELU } FfnKind;
typedef enum Positions     { POS_ROPE, POS_LEARNED } Positions;
typedef enum RopeType      { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN } RopeType;

typedef struct Rope {
    RopeType type;
    double   factor;                             /* linear, llama3, yarn                                */
    double   low_freq_factor, high_freq_factor;  /* llama3                                              */
    double   original_n_ctx;                     /* llama3, yarn                                        */
    double   beta_fast, beta_slow;               /* yarn; defaults 32, 1                                */
    double   attention_factor;                   /* yarn; < 0: from factor (or mscale / mscale_all_dim) */
    double   mscale, mscale_all_dim;             /* yarn; 0: absent                                     */
    bool     truncate;                           /* yarn; default true                                  */
} Rope;

enum { MAX_EOS = 16 };

typedef struct Config {
    char    family[32];
    int     d_model, n_layers, heads, kv_heads, head_dim, d_ff, vocab_size, n_ctx;
    double  theta, norm_eps;
    bool    tied_embeddings;
    Norm          norm;
    NormPlacement norm_placement;
    FfnKind       ffn;
    bool    qkv_bias, out_bias, ffn_bias, qk_norm;
    int     window;                              /* positions a query sees, itself included; 0: all */
    Rope    rope;
    Positions positions;
    int     bos;                                 /* -1: none */
    int     eos[MAX_EOS], n_eos;
} Config;

/* The Llama defaults: what an absent key means. Required keys (d_model, n_layers, heads, d_ff, vocab_size) are 0. */
void config_defaults(Config *c);

/* Parse the JSON config (docs/format.md). what names the source in messages. Unknown keys are refused by name; derived
 * defaults (kv_heads = heads, head_dim = d_model / heads) are filled in; config_check is called. */
bool config_parse(Config *c, const char *json, size_t n_bytes, const char *what, Error *err);

/* Ranges and contradictions: every number positive and small enough that all sizes fit, heads % kv_heads == 0, head_dim
 * even for rope... Needs no JSON (also for configs made in C). */
bool config_check(const Config *c, const char *what, Error *err);

/* Is every part of the config one that the forward pass implements? If not, names the part. */
bool config_supported(const Config *c, const char *what, Error *err);

/* The config as one line of JSON with every key in the order of docs/format.md; caller frees. */
char *config_to_json(const Config *c, Error *err);

/* inv_freq [head_dim / 2] of the rotary embedding in double, and the factor that multiplies sine and cosine (1 but for yarn).
 * Formula order: transformers' modeling_rope_utils.py; design section 3. */
void config_inv_freq(const Config *c, double *inv_freq, double *factor);

#endif
