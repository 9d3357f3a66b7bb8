/* format/llama2c.h: checkpoints of karpathy/llama2.c (.bin), and where each tensor's values are.
 *
 * Version 0: seven int32 (dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len;
 * vocab_size < 0: the output matrix is separate), then f32 tensors, each kind over all layers, and
 * two rotary tables.
 * Version 1: 256 bytes of header ("ak42" as a number, version, the seven sizes, a byte: the output
 * matrix is shared), then f32 tensors, norms first.
 * Version 2: like version 1 with a group size in the header. Each matrix is its int8 codes, then
 * f32 scales, one for each group of that many codes. Groups run over the flattened matrix and may
 * go past the end of a row.
 * All numbers are little-endian. Source: export.py, run.c and runq.c of
 * github.com/karpathy/llama2.c. */
#ifndef FORMAT_LLAMA2C_H
#define FORMAT_LLAMA2C_H

#include <stddef.h>
#include <stdint.h>
#include "base/file.h"

typedef struct Llama2cDims {
    int dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len;
} Llama2cDims;

/* One tensor; either f32 or codes is set. Row-major. The names and shapes:
 *   embed [vocab_size, dim]
 *   layers.N.attn_norm [dim], .wq and .wo [dim, dim], .wk and .wv [n_kv_heads * head size, dim]
 *   layers.N.ffn_norm [dim], .w_gate and .w_up [hidden_dim, dim], .w_down [dim, hidden_dim]
 *   final_norm [dim]
 *   lm_head [vocab_size, dim], if the output matrix is not shared */
typedef struct Llama2cTensor {
    char                 name[32];
    int                  rank;            /* 1 or 2 */
    int64_t              shape[2];
    /* Offset and bytes in the file, with scales. */
    size_t               n_elements, offset, n_bytes;
    const float         *f32;
    const int8_t        *codes;           /* element i is codes[i] * scale i / group_size */
    const unsigned char *scales;          /* f32, maybe unaligned                         */
    int                  group_size;      /* divides n_elements                           */
    /* wq, wk: the number of heads, whose rows come in rotary pairs (2i, 2i + 1); 0: no such
     * rows. */
    int                  pair_heads;
} Llama2cTensor;

typedef struct Llama2cFile {
    FileMap        map;
    int            version;               /* 0, 1, 2                                 */
    Llama2cDims    dims;                  /* vocab_size is positive                  */
    bool           tied;                  /* the embedding is also the output matrix */
    Llama2cTensor *tensors;               /* in file order                           */
    int            n_tensors;
    /* Version 0: [seq_len, head size / 2], which run.c does not use; else NULL. */
    const float   *rope_cos;
} Llama2cFile;

/* Is a file of file_size bytes that begins with these n bytes (28 are enough) such a checkpoint?
 * Versions 1 and 2 have a magic. Version 0 has none: there, the seven sizes must be plausible and
 * need at least file_size bytes (more if the file is truncated). */
bool llama2c_is(const unsigned char *bytes, size_t n, size_t file_size);

/* Open and check: sizes are in range and divisible as needed, and the file is exactly as long as
 * they say. Errors: INPUT, which names the file and the field; SYSTEM without memory (at most 7
 * MB). Close with llama2c_close. */
bool llama2c_open(Llama2cFile *f, const char *path, Error *err);
void llama2c_close(Llama2cFile *f);       /* a zeroed one is fine */

/* NULL: no such tensor. A linear search. */
const Llama2cTensor *llama2c_find(const Llama2cFile *f, const char *name);

/* Elements first .. first + n - 1 of the flattened tensor as f32: unchanged, or code * scale, one
 * f32 multiplication. */
void llama2c_read(const Llama2cTensor *t, size_t first, size_t n, float *out);

/* Version 0 stores rotary cosines. Are they those of theta 10000, which run.c uses? One position is
 * compared, within 1e-3. True if the file stores none. */
bool llama2c_rope_agrees(const Llama2cFile *f);

#endif
