/* model/count.h: what a model is made of, in numbers: parameters, bytes, KV cache. Reports draw what is counted here. */
#ifndef MODEL_COUNT_H
#define MODEL_COUNT_H

#include "format/tensors.h"
#include "model/config.h"
#include "quant/quant.h"

enum { COUNT_MAX_PARTS = 32 };

/* One kind of tensor: all layers' wq, or the embedding. */
typedef struct CountPart {
    const char *name;          /* "wq"                                              */
    bool        in_layer, bias;
    int         rows, k;       /* of one tensor; k 0: a vector [rows]               */
    int         n_tensors;     /* n_layers, or 1                                    */
    uint64_t    params;        /* of all of them                                    */
    uint64_t    bytes;         /* of all of them, as stored                         */
    unsigned    dtypes;        /* bit mask of the DTypes they are stored in         */
    int         n_panels;      /* how many are matrices stored in panels            */
} CountPart;

typedef struct Count {
    CountPart part[COUNT_MAX_PARTS]; /* in file order                               */
    int       n_parts;
    uint64_t  params, embed_params, layer_params, blocks_params, final_norm_params, head_params; /* head 0 when tied */
    uint64_t  bytes, embed_bytes, layer_bytes, blocks_bytes, final_norm_bytes, head_bytes; /* layer_*: of the first layer */
    uint64_t  bytes_of[DT_COUNT];          /* bytes by dtype; their sum is bytes      */
    uint64_t  kv_bytes_f32, kv_bytes_f16;  /* of one position, all layers            */
    int       n_row_major;     /* matrices that loading packs into panels (layout rows) */
} Count;

/* Parameters of a model with this config; a tied head counts once. */
uint64_t count_params(const Config *c);

/* Count a config (config_check passed) with matrices of one type, vectors F32, stored as docs/format.md says. */
void count_config(Count *n, const Config *c, WeightType type);

/* Count what is stored: sizes and dtypes from the file's tensors, which are all checked against the config as model_bind
 * does. Fails (INPUT) naming the tensor. */
bool count_file(Count *n, const Config *c, const TensorFile *f, Error *err);

#endif
