/* source/adapter.h: opens LoRA adapters for a model: folders as peft publishes them, GGUF files as
 * llama.cpp's convert_lora_to_gguf.py makes them. */
#ifndef SOURCE_ADAPTER_H
#define SOURCE_ADAPTER_H

#include "model/lora.h"
#include "source/source.h"

/* Opens the adapter at path for a model with this config. Anything unsupported in it that would
 * change results is rejected with an error that names it. Errors: INPUT with file and position,
 * SYSTEM. Free with lora_free, also after a failure. */
bool adapter_open(Lora *out, const Config *c, const char *path, Error *err);

/* Fails (USAGE, with both names) if output is one of the files that the adapter was read from. */
bool adapter_check_apart(const Lora *l, const char *output, Error *err);

/* The name of the module that a matrix is in a folder of the model's family:
 * "model.layers.0.self_attn.q_proj", and where its rows are there (row_source_file_row; NULL: not
 * wanted). Fails (INPUT) if the family stores it fused with others or transposed. */
enum { ADAPTER_MODULE = 160 };
bool adapter_module(const Config *c, const TensorSpec *s, char module[ADAPTER_MODULE],
                    RowSource *rows, Error *err);

/* ---- Between the files of this reader -------------------------------------------------------- */

/* The parts found so far, and which tensors of the file they use. */
typedef struct AdapterParts {
    const char   *path;          /* of the tensors' file, for messages */
    const Config *config;
    const Tensor *tensors;       /* [n_tensors] of the file */
    size_t        n_tensors;
    bool         *used;          /* [n_tensors] */
    LoraPart     *part;          /* [n], room for one of each matrix */
    SourcePart   *from;          /* what the RowSources of the parts point to */
    size_t        n;
    Error        *err;
} AdapterParts;

bool adapter_parts_new(AdapterParts *p, const char *path, const Config *c, const Tensor *tensors,
                       size_t n_tensors, Error *err);
void adapter_parts_free(AdapterParts *p);

/* Visits the matrices that an adapter may change, with the head of a tied model. Starts with
 * tensor_list_start(). */
bool adapter_next(const Config *c, TensorSpec *s);

/* Adds the tensors a [rank, k] and b [file_rows, rank] as a part; `rows` says where b's rows are
 * (base, unit, stride, pair). Checks their shapes. */
bool adapter_add(AdapterParts *p, const TensorSpec *s, const Tensor *a, const Tensor *b,
                 int64_t file_rows, const RowSource *rows, double scale, const FileMap *map);

/* Fails with the first tensor of the file that is no part. */
bool adapter_parts_check(const AdapterParts *p);

/* gguf_model.c: adds all matrices of an adapter. s has the open file, its path and the model's
 * config. */
bool gguf_adapter_read(Source *s, AdapterParts *p, Error *err);

/* peft_config.c: what adapter_config.json says. */
typedef struct PeftConfig PeftConfig;
PeftConfig *peft_config_open(const char *path, Error *err);
void        peft_config_free(PeftConfig *p);
/* The rank and the scale of a module of the model. Fails with INPUT or SYSTEM. */
bool        peft_config_module(PeftConfig *p, const char *module, int *rank, double *scale,
                               Error *err);

#endif
