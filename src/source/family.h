/* source/family.h: Hugging Face families as data: config keys with their defaults, tensor names,
 * and how rows are stored. A new family is a new row of the table; GGUF files use the same row
 * (gguf_arch.c). The defaults of absent keys are those of the configuration classes of
 * transformers 5.23 (models/NAME/configuration_NAME.py). */
#ifndef SOURCE_FAMILY_H
#define SOURCE_FAMILY_H

#include "model/config.h"
#include "model/tensor_list.h"

/* How a value of config.json is converted to ours. */
typedef enum KeyForm {
    FORM_END,
    FORM_SIZE,          /* a whole number from 1 on, stored as an int */
    FORM_SIZE_OR_NULL,  /* null is 0 */
    FORM_COUNT,         /* a whole number from 0 on */
    FORM_NONE,          /* the family has no such key */
    FORM_FLAG,
    FORM_NUMBER,        /* this and the following are stored as a double */
    FORM_POSITIVE,
    FORM_OR_NULL,       /* above 0; null is 0 */
    FORM_INVERSE,       /* 1 / x                                              */
    FORM_INVERSE_ROOT   /* 1 / sqrt x                                         */
} KeyForm;

typedef struct FamilyKey {
    KeyForm     form;
    const char *names;  /* its spellings, separated by "|"; NULL: those of model/config_keys.c */
    size_t      at;     /* offset in Config */
    double      absent; /* the value in config.json's terms if the key is absent; NAN: null */
} FamilyKey;

/* How the rows of one of our tensors are stored there. */
enum {
    /* a part of one matrix that holds the rows of q, then k, then v */
    IN_Q = 1, IN_K = 2, IN_V = 4,
    /* added to these: q, k, v of the first head, then of the second ... */
    BY_HEAD    = 8,
    IN_GATE = 16, IN_UP = 32,     /* the first and second half of the rows of one matrix */
    /* the rows of a head rotate as neighbours (2i, 2i + 1); ours as halves */
    PAIRS      = 64,
    TRANSPOSED = 128,             /* stored [k, rows] */
    IN_MXFP4   = 512,             /* blocks of codes, the scales in NAME_scales (hf_mxfp4.c) */
    ROTATED_LAST = 1024,          /* rotated rows last in a head; ours first */
    /* of latent attention: for each head the columns of its w_uk, then the rows of its w_uv */
    IN_UK = 2048, IN_UV = 4096,
    /* thirds of one matrix: those of conv_b, conv_c, conv_x */
    IN_B = 8192, IN_C = 1 << 14, IN_X = 1 << 15,
    /* of each head the rows of q, then those of the gate of attention's output */
    IN_HEAD_Q = 1 << 16, IN_HEAD_GATE = 1 << 17,
    /* of each key head of the delta rule the rows of its q, k, v and z; of its b and a */
    IN_GROUP_QKV = 1 << 18, IN_GROUP_Z = 1 << 19, IN_GROUP_B = 1 << 20, IN_GROUP_A = 1 << 21,
    IN_TURN    = 256              /* with IN_GATE, IN_UP: gate and up in turn, gate first */
};

/* The name of a tensor in the folder: "@" is the model's prefix, "#" the layer, "{e}" the expert,
 * "{h}" the head. The name of its bias ends with bias instead of weight. If a role has several
 * rows, the folder has one of them. */
typedef struct FamilyTensor {
    TensorRole  role;
    const char *name;       /* NULL: none of its own */
    unsigned    lies;
} FamilyTensor;             /* role ROLE_COUNT ends */

/* Parts of a config that are on or off, for Family.has and for flags of config.json. */
enum {
    HAS_QKV_BIAS = 1, HAS_OUT_BIAS = 2, HAS_FFN_BIAS = 4, HAS_NORM_BIAS = 8,
    HAS_RENORMALIZE = 16, HAS_SHARED_ROUTER = 32,
    EXPERTS_AS_WIDE = 64,                  /* expert_d_ff is d_ff */
    EMBED_SCALED = 128,                    /* the embedding is multiplied by sqrt(d_model) */
    NORMS_PLUS_ONE = 256,                  /* norms are stored as w - 1 */
    NO_GATE = 512,                         /* the feed-forward has no gate */
    GELU_IS_TANH = 1024,                   /* the activation "gelu" is read as gelu_pytorch_tanh */
    QUERY_SCALED = 4096,                   /* llama_4_scaling_beta beside the scaling */
    QK_NORM_ROTATED = 2048,                /* norms of q and k are those of rotated heads */
    HAS_CHOICE_BIAS = 1 << 16, SIGMOID_ROUTER = 1 << 17,
    HAS_EXPERT_BIAS = 1 << 19, HAS_SINKS = 1 << 20, /* the first: the router too */
    TAKES_MXFP4 = 1 << 22,                 /* experts may be quantized as MXFP4 */
    /* three positions of a token (time, height, width), which are equal in text: each pair of
     * dimensions then rotates as usual, whichever of the three it takes */
    TAKES_MROPE = 1 << 23,
    NEEDS_ROPE_TYPE = 1 << 21,             /* an absent rope scaling has its own default */
    SCORES_SCALE_INPUT = 1 << 24,          /* expert_input_scaled */
    UNROTATED_SCALED = 1 << 25,            /* query_scale_unrotated; without it no query_scale */
    SHARED_AS_WIDE = 1 << 26,              /* shared_d_ff is expert_d_ff */
    LATENT_KV = 1 << 27,                   /* latent attention */
    BOTH_WAYS = 1 << 28,                   /* attention in both directions */
    /* use_bidirectional_attention says so, and halves the window */
    TAKES_BOTH_WAYS = 1 << 29,
    SHORT_CONV = 1 << 13,                  /* layers without attention: convolution */
    DELTA_RULE = 1 << 15,                  /* they: gated delta rule; attention: a gate */
    FF_ADJUSTED = 1 << 14,                 /* d_ff follows from block_... keys */
    SHARED_COUNTED = 1 << 18,                 /* shared_d_ff is read as a number of experts */
};

/* A flag of config.json. It turns on parts of our config, or it chooses between two values. */
typedef struct FamilyFlag {
    const char *name;
    bool        absent;
    unsigned    has;        /* parts that it turns on; 0: see the fields below */
    KeyForm     form;       /* FORM_SIZE: an enum; FORM_NUMBER: a double  */
    size_t      at;
    double      if_true, if_false;
} FamilyFlag;

/* Which layers use the window of the key sliding_window. */
typedef enum WindowRule {
    WINDOW_NONE,            /* the family has none */
    WINDOW_ALL,             /* every layer */
    WINDOW_LAST,            /* if use_sliding_window is true, from layer max_window_layers on */
    WINDOW_NAMED,           /* if use_sliding_window is true, those that layer_types names */
    WINDOW_EVERY,           /* all but every n-th */
    WINDOW_BUT_FIRST,       /* all but the first of n */
    WINDOW_UNROTATED,       /* if use_sliding_window is true, those that do not rotate */
    WINDOW_CHUNKED          /* those that rotate, in chunks of attention_chunk_size */
} WindowRule;

/* Which layers rotate q and k. */
typedef enum RopeRule {
    ROPE_EVERYWHERE,
    ROPE_LISTED,            /* no_rope_layers, or all but every no_rope_layer_interval-th */
    ROPE_WINDOWED,          /* if there is a window, only the layers that have it */
    ROPE_THETAS             /* those with a theta above 0 in layer_rope_theta; absent: all */
} RopeRule;

/* Which layers have experts: every n-th from one layer to another (below 0: the last). Names of
 * keys; NULL: decoder_sparse_step and mlp_only_layers say it. list: a key that lists them; types:
 * one that says "sparse" or "dense" for each layer. Both count unless they are null. */
typedef struct MoeLayers {
    const char *first, *last, *step, *list, *types;
    int         first_absent;
} MoeLayers;
/* A rotation that is the default of a family. */
typedef struct FamilyRope { double theta; Rope rope; double query_scale; } FamilyRope;

typedef struct Family {
    const char         *name, *architecture[2];
    /* replace the rows of family_llama_keys for the same field */
    const FamilyKey    *keys;
    /* replace the rows of family_usual_tensors for the same role */
    const FamilyTensor *tensors;
    unsigned            has;
    Norm                norm;
    NormPlacement       placement;
    QkNorm              qk_norm;
    Positions           positions;
    FamilyFlag          flags[4];   /* name NULL ends */
    /* the keys of the activation, of which the first present counts; the value if none is */
    const char         *act_keys[2], *act;
    /* if absent; theta_window 0: all layers have the same */
    double              theta, theta_window;
    const FamilyRope   *rope_absent; /* what no scaling and no rope_parameters mean; or NULL */
    bool                rope_alpha;  /* rope type dynamic with alpha: a fixed, larger theta */
    /* Phi-3: the length before scaling, if absent; 0: that of the context */
    int                 rope_original;
    bool                window_unscaled; /* scaling is for layers without a window only */
    RopeRule            rope_rule;
    const char         *theta_keys; /* NULL: no rope */
    /* share of a head that is rotated if absent; 0: always all of it */
    double              rotary;
    const char         *rotary_keys;
    unsigned            rope_types; /* bit mask */
    WindowRule          window;
    /* window_absent: sliding_window if absent; 0: null */
    int                 window_every, window_absent;
    bool                window_needed;  /* null is an error */
    int                 bos, eos;   /* ids if absent; -1: none */
    int                 eos_more[2]; /* more EOS ids; 0: none */
    bool                eos_null;   /* null means these ids too */
    const char         *prefix[3];  /* what "@" may stand for; NULL ends */
    MoeLayers           moe;
    bool                topk_method;    /* the key says whether experts are chosen by groups */
    double              renormalize_min, renormalize_add;
    /* number of MTP layers if the key is absent; they are ignored. 0: the family has none */
    int                 next_layers;
    const char         *rotary_dim_key; /* dimensions that are rotated, if no share is given */
    /* tensors that are skipped; "#" stands for digits, "*" at the end for the rest */
    const char         *unused[3];
    /* keys that change nothing in this family: with any value (NULL), or with this one */
    const char         *fixed[14][2];
} Family;

extern const Family       families[];            /* name NULL ends */
extern const FamilyKey    family_llama_keys[];
/* The names of model/tensor_rows.h, and more. */
extern const FamilyTensor family_usual_tensors[];
/* family_keys.c */
extern const FamilyKey no_keys[], mistral_keys[], qwen2_keys[], qwen2_vl_keys[], qwen3_keys[],
    qwen3_vl_keys[], qwen2_moe_keys[], qwen3_moe_keys[], mixtral_keys[], phi3_keys[], gemma_keys[],
    gemma2_keys[], gemma3_keys[], olmo2_keys[], olmoe_keys[], granite_keys[], granite_swa_keys[],
    granite_moe_keys[], granite_shared_keys[], minimax_m2_keys[], gpt_oss_keys[], glm4_moe_keys[],
    deepseek_v3_keys[], deepseek_v2_keys[], glm4_moe_lite_keys[], ernie4_5_moe_keys[],
    llama4_keys[], cohere_keys[], stablelm_keys[], gpt2_keys[], seed_oss_keys[], glm4_keys[],
    ernie4_5_keys[], helium_keys[], smollm3_keys[], exaone4_keys[], hunyuan_keys[], arcee_keys[],
    nemotron_keys[], ministral3_keys[], lfm2_keys[], lfm2_moe_keys[], qwen3_next_keys[],
    qwen3_5_keys[], qwen3_5_moe_keys[], apertus_keys[], neox_keys[], phi_keys[];
/* family_tensors.c */
extern const FamilyTensor no_tensors[], qwen2_moe_tensors[], qwen3_next_tensors[],
    mixtral_tensors[], minimax_m2_tensors[], gpt_oss_tensors[], deepseek_v3_tensors[],
    ernie4_5_moe_tensors[], llama4_tensors[], granite_moe_tensors[], granite_shared_tensors[],
    phi3_tensors[], gemma2_tensors[], hunyuan_tensors[], apertus_tensors[], cohere_tensors[],
    paired_tensors[], glm4_tensors[], lfm2_tensors[], lfm2_moe_tensors[], stablelm_tensors[],
    gpt2_tensors[], neox_tensors[], phi_tensors[];

/* Find a family by model_type, or by architecture if that is NULL. NULL: unknown. */
const Family *family_find(const char *model_type, const char *architecture);

/* The flag of the family that sets this enum of Config; NULL: there is none. */
const FamilyFlag *family_flag(const Family *f, size_t at);

/* The tensor xielu from what other programs store: softplus of both alphas. */
void family_xielu(float out[4], double alpha_p, double alpha_n, double beta, double eps);

/* Latent attention: the sizes and the scale that follow from the others, rotary_dim among them. */
void family_latent(Config *c);

/* If layers with and without a window rotate alike, drop the theta of those with one. */
void family_one_theta(const Family *f, Config *c);

/* The kind of feed-forward that uses this activation; false: the family does not support it. */
bool family_activation(const Family *f, const char *word, FfnKind *out);
/* Write the activations that the family supports: "silu, swish ...". */
void family_activations(const Family *f, char *out, size_t n);

/* Keys that never change the result; and keys that do not change it if they have a certain value.
 * The second returns that value as JSON text (two are separated by "|"), or NULL. */
bool        family_key_harmless(const char *name);
const char *family_key_harmless_value(const char *name);

/* A model with several kinds of input (text, images) whose text part is one of the families. */
typedef struct FamilyWrapper {
    const char *model_type, *key, *text_type, *architecture, *others[6];
    /* unless the outer config says tie_word_embeddings, a model without a stored head is tied */
    bool        head_decides;
    bool        either_ties;  /* tie_word_embeddings of the outer config or the text part */
    /* without its object, the outer config's keys are the text part's */
    bool        flat;
    const char *ignored;      /* keys that say nothing about text: " a b c " */
} FamilyWrapper;
/* model_type NULL ends; an absent text_type means the first row of a type. others: prefixes of the
 * names of the other parts' tensors. */
extern const FamilyWrapper family_wrappers[];

#endif
