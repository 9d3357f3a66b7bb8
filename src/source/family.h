/* source/family.h: Hugging Face families as data: config keys with their defaults, tensor names,
 * how rows lie there. A new family is a new row of the table. The converter holds the same table in
 * Python (tools/tblock_convert/families.py): a change here is one there; tests/convert compares
 * what the two make of a folder. Defaults are those of the configuration classes of transformers
 * 5.23 (models/NAME/configuration_NAME.py), which hold for a key that is absent. */
#ifndef SOURCE_FAMILY_H
#define SOURCE_FAMILY_H

#include "model/config.h"
#include "model/tensor_list.h"

/* How a value of config.json becomes ours. */
typedef enum KeyForm {
    FORM_END,
    FORM_SIZE,          /* a whole number from 1 on; into an int              */
    FORM_SIZE_OR_NULL,  /* null is 0 */
    FORM_NONE,          /* the family has no such key */
    FORM_FLAG,
    FORM_NUMBER,        /* these into a double                                */
    FORM_POSITIVE,
    FORM_OR_NULL,       /* positive; null is 0                                */
    FORM_INVERSE,       /* 1 / x                                              */
    FORM_INVERSE_ROOT   /* 1 / sqrt x                                         */
} KeyForm;

typedef struct FamilyKey {
    KeyForm     form;
    const char *names;  /* its spellings, separated by "|"; NULL: those of model/config_keys.c */
    size_t      at;     /* offset in Config */
    double      absent; /* the value of config.json that absence means; NAN: null */
} FamilyKey;

/* Where rows lie: parts of fused matrices, rotated neighbours, the transpose. */
enum {
    /* of one matrix that holds the rows of q, k and v one after the other */
    IN_Q = 1, IN_K = 2, IN_V = 4,
    BY_HEAD    = 8,               /* with these: of each head q, k, v */
    IN_GATE = 16, IN_UP = 32,     /* halves of the rows of one matrix */
    /* the rows of a head rotate as neighbours (2i, 2i + 1); ours as halves */
    PAIRS      = 64,
    TRANSPOSED = 128              /* stored [k, rows] */
};

/* A tensor there: "@" is the model's prefix, "#" the layer, "{e}" the expert, "{h}" the head. Its
 * bias is the same name with bias for weight. Several rows for one role are alternatives: the one
 * that is there. */
typedef struct FamilyTensor {
    TensorRole  role;
    const char *name;       /* NULL ends */
    unsigned    lies;
} FamilyTensor;

/* Parts of a config that are on or off, for `always` and keys of config.json. */
enum {
    HAS_QKV_BIAS = 1, HAS_OUT_BIAS = 2, HAS_FFN_BIAS = 4, HAS_NORM_BIAS = 8,
    HAS_RENORMALIZE = 16, HAS_SHARED_ROUTER = 32,
    EXPERTS_AS_WIDE = 64,                  /* expert_d_ff is d_ff */
    EMBED_SCALED = 128,                    /* the embedding is times sqrt(d_model) */
    NORMS_PLUS_ONE = 256,                  /* norms are stored as w - 1 */
    NO_GATE = 512,                         /* the feed-forward has none */
    GELU_IS_TANH = 1024,                   /* the activation "gelu" is read as gelu_pytorch_tanh */
};

/* A flag of config.json: parts of our config, or a value for true and one for false. */
typedef struct FamilyFlag {
    const char *name;
    bool        absent;
    unsigned    has;        /* parts that it turns on; 0: the rest counts */
    KeyForm     form;       /* FORM_SIZE: an enum; FORM_NUMBER: a double  */
    size_t      at;
    double      if_true, if_false;
} FamilyFlag;

/* Which layers have the window of the key sliding_window. */
typedef enum WindowRule {
    WINDOW_NONE,            /* the family has none */
    WINDOW_ALL,             /* every layer */
    WINDOW_LAST,            /* where use_sliding_window is true, from layer max_window_layers on */
    WINDOW_NAMED,           /* where use_sliding_window is true, those of layer_types */
    WINDOW_EVERY            /* all but each n-th */
} WindowRule;

typedef struct Family {
    const char         *name, *architecture[2];
    /* before family_llama_keys, of which one with the same place in Config is left out */
    const FamilyKey    *keys;
    /* before family_llama_tensors, of which those of the same role are left out */
    const FamilyTensor *tensors;
    unsigned            has;
    Norm                norm;
    NormPlacement       placement;
    QkNorm              qk_norm;
    Positions           positions;
    FamilyFlag          flags[4];   /* name NULL ends */
    /* keys of the activation, in the order in which they count; what absence means */
    const char         *act_keys[2], *act;
    /* absent; theta_window 0: the same for all layers */
    double              theta, theta_window;
    const char         *theta_keys; /* NULL: no rope */
    double              rotary;     /* absent share of a head that is rotated; 0: all, always */
    const char         *rotary_keys;
    unsigned            rope_types; /* bit mask */
    WindowRule          window;
    /* window_absent: of sliding_window; 0: null */
    int                 window_every, window_absent;
    int                 bos, eos;   /* absent; -1: none */
    const char         *prefix[3];  /* what "@" may be; NULL ends */
    const char         *unused[3];  /* tensors that every reader computes; "#" stands for digits */
    const char         *unused_key;
} Family;

extern const Family       families[];            /* name NULL ends */
extern const FamilyKey    family_llama_keys[];
extern const FamilyTensor family_llama_tensors[];

/* By model_type, or where that is NULL by architecture. NULL: unknown. */
const Family *family_find(const char *model_type, const char *architecture);

/* The flag that sets this enum of Config; NULL: none does. */
const FamilyFlag *family_flag(const Family *f, size_t at);

/* What a feed-forward with this activation is called; false: not supported there. */
bool family_activation(const Family *f, const char *word, FfnKind *out);
/* "silu, swish ...": those that are. */
void family_activations(const Family *f, char *out, size_t n);

/* Keys that change nothing whatever their value; and keys that ask for nothing with a certain
 * value: its JSON text (one or two, separated by "|"), else NULL. */
bool        family_key_harmless(const char *name);
const char *family_key_harmless_value(const char *name);

/* A model of several kinds of input whose text part is one of the families. */
typedef struct FamilyWrapper { const char *model_type, *key, *text_type, *others[4]; } FamilyWrapper;
/* model_type NULL ends; others: how names of other parts' tensors begin */
extern const FamilyWrapper family_wrappers[];

#endif
