/* format/llama2c.h: checkpoints of karpathy/llama2.c (.bin): where each tensor's values lie.
 *
 * Version 0: seven int32 (dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len; vocab_size < 0: an output
 * matrix of its own), then f32 tensors, each kind over all layers, and two rotary tables. Version 1: 256 bytes of header
 * ("ak42" as a number, version, the seven, a byte: output matrix shared), then f32 tensors, norms first. Version 2: the same
 * with a group size in the header, and each matrix as its int8 codes followed by f32 scales, one for each group of that many
 * codes; groups run over the flattened matrix and may go past the end of a row. All little-endian.
 * Source: export.py, run.c and runq.c of github.com/karpathy/llama2.c. */
#ifndef FORMAT_LLAMA2C_H
#define FORMAT_LLAMA2C_H

#include <stddef.h>
#include <stdint.h>
#include "base/file.h"

typedef struct Llama2cDims {
    int dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len;
} Llama2cDims;

/* One of: embed [vocab_size, dim], layers.N.attn_norm [dim], .wq [dim, dim], .wk and .wv [n_kv_heads * head size, dim], .wo
 * [dim, dim], .ffn_norm [dim], .w_gate and .w_up [hidden_dim, dim], .w_down [dim, hidden_dim], final_norm [dim], and, where
 * the output matrix is not shared, lm_head [vocab_size, dim]. Row-major. Either f32 or codes is set. */
typedef struct Llama2cTensor {
    char                 name[32];
    int                  rank;            /* 1 or 2                                                                     */
    int64_t              shape[2];
    size_t               n_elements, offset, n_bytes; /* offset and bytes in the file, scales included                   */
    const float         *f32;
    const int8_t        *codes;           /* element i is codes[i] * scale number i / group_size                         */
    const unsigned char *scales;          /* f32, at any alignment                                                       */
    int                  group_size;      /* divides n_elements                                                          */
    int                  pair_heads;      /* wq, wk: heads whose rows are rotary pairs (2i, 2i + 1); 0: no such rows     */
} Llama2cTensor;

typedef struct Llama2cFile {
    FileMap        map;
    int            version;               /* 0, 1, 2                                                                     */
    Llama2cDims    dims;                  /* vocab_size is positive                                                      */
    bool           tied;                  /* the embedding is the output matrix too                                      */
    Llama2cTensor *tensors;               /* in file order                                                               */
    int            n_tensors;
    const float   *rope_cos;              /* version 0: [seq_len, head size / 2]; NULL else. run.c does not use it       */
} Llama2cFile;

/* Whether a file of this size that begins with these n bytes (28 are enough) is such a checkpoint: the magic of versions 1
 * and 2; for version 0, which has none, seven plausible sizes that ask for as many bytes, or for more (cut short). */
bool llama2c_is(const unsigned char *bytes, size_t n, size_t file_size);

/* Open and check: sizes in the ranges a model may have, divisible as they must be, the file exactly as long as they ask for.
 * Errors are INPUT and name the file and the field; SYSTEM without memory (7 MB at most). */
bool llama2c_open(Llama2cFile *f, const char *path, Error *err);
void llama2c_close(Llama2cFile *f);       /* a zeroed one is accepted */

const Llama2cTensor *llama2c_find(const Llama2cFile *f, const char *name); /* NULL: no such tensor; linear */

/* Elements first .. first + n - 1 of the flattened tensor as f32: as they are, or code * scale in one f32 multiplication. */
void llama2c_read(const Llama2cTensor *t, size_t first, size_t n, float *out);

/* Version 0 stores the rotary cosines: are they those of theta 10000, which run.c uses? One position is compared, within
 * 1e-3. True where none are stored. */
bool llama2c_rope_agrees(const Llama2cFile *f);

#endif
