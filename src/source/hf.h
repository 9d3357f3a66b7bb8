/* source/hf.h: folders of Hugging Face: config, tensors. */
#ifndef SOURCE_HF_H
#define SOURCE_HF_H

#include "base/json.h"
#include "model/config_keys.h"
#include "source/family.h"
#include "source/source.h"

/* ---- hf_folder.c ----------------------------------------------------------------------------- */

/* Opens a Hugging Face folder: config.json, generation_config.json, and the
 * weights: model.safetensors, or its shards with their index, or the same with pytorch_model.bin.
 * One file of weights can also be given if config.json is beside it. */

/* Is there a config.json in this folder, or beside this file of weights? head: the first n bytes of
 * the file. */
bool hf_folder_is(const char *path);
bool hf_file_is(const char *path, const unsigned char *head, size_t n);

/* Are there files of weights, or an index of them, in this folder or beside this file? */
bool hf_weights_there(const char *path);

/* Open s->path, a folder or a file of weights. */
bool hf_folder_open(Source *s, Error *err);

/* The folder that holds a source's small files: that of a file of weights, or the path itself.
 * Returns buf or s->path. */
const char *hf_folder_of(const Source *s, char *buf, size_t n);

/* ---- hf_pooling.c ---------------------------------------------------------------------------- */

/* Set c->pool, the config's fields of what follows pooling, s->dense, and s->pool_note if it is
 * "other", from the folder's modules.json, if there is one. Fails only with SYSTEM. */
bool hf_pooling_read(Source *s, Config *c, Error *err);

/* ---- hf_config.c ----------------------------------------------------------------------------- */

/* Converts the config.json of a Hugging Face folder to our config. It reads both dialects, knows
 * what an absent key means, and rejects unknown keys. What differs between families is in
 * family.c. */

/* How linear layers are stored. QUANT_INT, QUANT_FLOAT and QUANT_PACKED are compressed-tensors'. */
typedef enum QuantForm {
    QUANT_NONE, QUANT_MXFP4, QUANT_FP8, QUANT_INT, QUANT_FLOAT, QUANT_PACKED, QUANT_GPTQ, QUANT_AWQ
} QuantForm;

typedef struct HfQuant {
    QuantForm form;
    int       bits;                /* of a code */
    int       block_rows, block_k; /* rows and columns that share a scale; 0: all of them */
    bool      zeros;               /* zero points are stored, ... */
    bool      zeros_less_one;      /* ... less one (GPTQ's first format) */
    /* a tensor says which group each column belongs to: never, always, if it is there */
    enum { QUANT_NOT_ORDERED, QUANT_ORDERED, QUANT_MAY_BE_ORDERED } ordered;
} HfQuant;

typedef struct HfConfig {
    Config               config;    /* passed config_check */
    const Family        *family;
    /* set if this is the text part of a model with several kinds of input */
    const FamilyWrapper *wrapper;
    bool                 halves;       /* heads rotate as halves, whatever the family's rows say */
    bool                 head_decides; /* the model is tied if no head is stored */
    bool                 inside;       /* a model that is saved without its head */
    bool                 labels;       /* its head is one that gives logits of labels */
    bool                 raw_label;    /* ... and a rerank score is the raw logit */
    HfQuant              quant;
} HfConfig;

/* Is this JSON the config of a Hugging Face folder? Our own configs have neither of its two
 * keys. */
bool hf_config_is(const Json *root);

/* Convert root, the parsed config.json; path is its name in messages. generation_path:
 * generation_config.json, whose end-of-text ids are added, or NULL. Warnings go to source_warn.
 * hf_config_read also reads and parses the file. */
bool hf_config_parse(HfConfig *out, Source *s, const Json *root, const char *path,
                     const char *generation_path, Error *err);
bool hf_config_read(HfConfig *out, Source *s, const char *path, const char *generation_path,
                    Error *err);

/* ---- hf reader ------------------------------------------------------------------------------- */

/* The state of reading a config.json key by key. Keys that were not read must be harmless, which is
 * checked at the end. Private to hf_config.c, hf_layers.c and hf_rope.c. */

typedef struct HfReader {
    KeyReader            keys;      /* of the text part, if there are several */
    const FamilyWrapper *wrapper;
    const Family        *family;
    Config              *c;
    bool                 halves, inside, labels, raw_label; /* as in HfConfig */
    Source              *source;    /* gets the warnings */
} HfReader;

/* Read theta, scaling and the number of rotated dimensions: hf_rope.c. */
bool hf_rope_read(HfReader *r);

/* ---- hf_layers.c ----------------------------------------------------------------------------- */

/* Layers with a state; those that do not rotate; those with a window; whether attention goes in
 * both directions; theta by layer; experts, and the layers without them. In this order: each needs
 * what the ones before found. */
bool hf_state_layers(HfReader *r);
bool hf_no_rope_layers(HfReader *r);
bool hf_window_layers(HfReader *r);
bool hf_directions(HfReader *r);
bool hf_layer_thetas(HfReader *r);
bool hf_experts(HfReader *r);

/* ---- hf_quant.c ------------------------------------------------------------------------------ */

/* Read quantization_config. Without one the form is QUANT_NONE. */
bool hf_quant_read(HfReader *r, HfQuant *out);

/* ---- hf_codes.c ------------------------------------------------------------------------------ */

/* The tensors of a quantized linear layer NAME.weight. */
typedef enum QuantPart {
    QUANT_CODES, QUANT_SCALES, QUANT_ZEROS, QUANT_ORDER, QUANT_SHAPE, QUANT_PARTS
} QuantPart;

/* How a form stores a part: its name instead of NAME.weight, its shape for a matrix [rows, k], its
 * allowed types. False: the form has no such part. */
typedef struct QuantTensor {
    char    name[192];
    int     rank;
    int64_t dim[2];
    DType   dtype[4];
    int     n_dtypes;
    bool    optional;
} QuantTensor;
bool hf_quant_tensor(const HfQuant *q, QuantPart part, const char *name, int64_t rows, int64_t k,
                     QuantTensor *out);

/* Sets type, read and read_from of a source whose parts are bound: n of each QuantPart present, one
 * after the other (zeros, order: NULL if absent). rows: of each of the matrices; they have k
 * columns, or r's item_rows if it is transposed. The type is the smallest of ours that holds every
 * weight exactly (docs/convert.md), at worst f32: a warning then says why. */
bool hf_quant_source(Source *s, const HfQuant *q, RowSource *r, const SourcePart *const part[],
                     int n, int rows, Error *err);

/* ---- hf_mxfp4.c ------------------------------------------------------------------------------ */

/* Matrices in MXFP4 (OCP Microscaling Formats 1.0) as folders hold them: blocks of 32 codes, 16
 * bytes each, and a byte for the scale of each block in another tensor. Sets type, read and
 * read_from: rows are as a GGUF file has them. */
bool hf_mxfp4_source(Source *s, const uint8_t *blocks, const uint8_t *scales, RowSource *r,
                     Error *err);

/* ---- family_tensors.c ------------------------------------------------------------------------ */

/* The name of a tensor of the table: prefix, layer, and the number of an expert or head are filled
 * in. */
enum { HF_NAME = 160 };
void hf_tensor_name(const char *prefix, const char *pattern, int layer, int number, bool bias,
                    char out[HF_NAME]);

/* The first row of the table for a role: the family's own, or the usual one; NULL: none. */
const FamilyTensor *hf_family_rows(const Family *f, TensorRole role);
/* The next one, from t on; NULL: none. */
const FamilyTensor *hf_family_more(const FamilyTensor *t, TensorRole role);

/* ---- hf_tensors.c ---------------------------------------------------------------------------- */

/* Finds our tensors among those of a Hugging Face folder. A missing,
 * additional or misshaped tensor is an error. */

/* Fill s->stored.tensor and s->rows from s->files. s->stored.config must be h->config already. */
bool hf_tensors_bind(Source *s, const HfConfig *h, Error *err);

/* Where our rows begin in the file's matrix (r->base, unit, stride). Returns how many rows the
 * file's matrix has. */
int64_t hf_fused_rows(const Config *c, unsigned lies, int rows, RowSource *r);

#endif
