/* tests/neon/image.h: a bound model's input as plain memory, so that a program without JSON can run
 * it on another processor. Structs are written as they lie: x86-64 and aarch64 Linux agree on their
 * layout, and image_check compares the sizes. */
#ifndef NEON_IMAGE_H
#define NEON_IMAGE_H

#include <stdlib.h>
#include <string.h>

#include "format/tensors.h"
#include "model/model.h"
#include "runtime/forward.h"
#include "runtime/numerics.h"

/* more tokens than one attention tile */
enum { IMAGE_MAGIC = 0x74626c6c, IMAGE_TOKENS = 70, IMAGE_MODES = 7 };

/* What is computed of a model; a mode that needs weights it lacks is left out. */
typedef struct ImageMode { const char *name, *math, *activations; KvType kv; } ImageMode;
static const ImageMode image_modes[IMAGE_MODES] = {
    { "kv_f32", NULL, NULL, KV_F32 },        { "kv_f16", NULL, NULL, KV_F16 },
         { "kv_q8", NULL, NULL, KV_Q8 },
    { "activations_8", NULL, "8", KV_F16 },  { "activations_16", NULL, "16", KV_F16 },
    { "math_bf16", "bf16", NULL, KV_F32 },   { "math_f32", "f32", NULL, KV_F32 },
};

typedef struct ImageHead {
    uint32_t magic, config_bytes;
    int32_t  n_tensors, vocab_size;
    Config   config;
    /* then: ImageTensor [n_tensors]; logits F32 [IMAGE_MODES][IMAGE_TOKENS][vocab_size]; the
     * tensors' bytes, each on 64 */
} ImageHead;

typedef struct ImageTensor {
    char    name[64], type[8]; /* type: what the metadata says, or nothing */
    int32_t dtype, rank;
    int64_t shape[TENSOR_MAX_RANK];
    size_t  n_elements, n_bytes;
} ImageTensor;

static inline int image_token(int pos, int vocab_size) { return (pos * 37 + 11) % vocab_size; }
static inline size_t image_padded(size_t n) { return (n + 63) / 64 * 64; }

/* Run the image's tokens in pieces and write all logits, [IMAGE_TOKENS][vocab_size]. Exits where
 * the library fails. */
static inline void image_run(const Model *m, const Kernels *kernels, Numerics numerics,
                             KvType kv_type, int piece, float *logits)
{
    Error    err    = { 0 };
    size_t   stride = image_padded((size_t)m->cfg.vocab_size);
    float   *rows   = aligned_alloc(64, stride * sizeof *rows * IMAGE_TOKENS);
    KvShape  shape  = kv_shape(&m->cfg, kv_type);
    KvCache  kv     = { 0 };
    Forward *f      = forward_new(m, kernels, numerics, piece, 1, 0, &err);
    if (!rows || !f || !kv_cache_init(&kv, &shape, 1, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        exit(SYSTEM);
    }
    for (int pos = 0; pos < IMAGE_TOKENS; pos += piece) {
        BatchToken batch[IMAGE_TOKENS];
        int        n = pos + piece > IMAGE_TOKENS ? IMAGE_TOKENS - pos : piece;
        for (int i = 0; i < n; i++)
            batch[i] = (BatchToken){ .pos    = pos + i,
                                     .token  = image_token(pos + i, m->cfg.vocab_size),
                                     .logits = rows + (size_t)(pos + i) * stride };
        if (!kv_cache_reserve(&kv, 0, n, &err)) {
            fprintf(stderr, "%s\n", err.msg);
            exit(SYSTEM);
        }
        forward(f, &kv, batch, n, 0);
    }
    for (int t = 0; t < IMAGE_TOKENS; t++)
        memcpy(logits + (size_t)t * (size_t)m->cfg.vocab_size, rows + (size_t)t * stride,
               (size_t)m->cfg.vocab_size * sizeof *logits);
    forward_free(f);
    kv_cache_free(&kv);
    free(rows);
}

#endif
