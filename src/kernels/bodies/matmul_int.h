/* kernels/bodies/matmul_int.h: y = W x + bias for quantized weights with integer activations, over
 * the integers of a lanes header: exact sums in int32, then floats in a fixed order
 * (docs/numerics.md, "Weights q8 and q4" and "GGUF types"; bodies/quantized_plain.h is the same as
 * plain loops). Two ways through the weights:
 *
 *   stream   few tokens: weights go from memory to the multipliers, one panel after the other, so
 *            that each part of the matrix is read sequentially;
 *   block    many tokens: a superblock of LANES_PANELS panels is unpacked once for a slice of
 *            tokens (it stays in L1), whose digits lie in scratch (L2); register blocks run over
 *            them, one after the other through the superblocks of the slice, so that y comes from
 *            L2 and not from memory. */
#ifndef KERNELS_BODIES_MATMUL_INT_H
#define KERNELS_BODIES_MATMUL_INT_H

#include "kernels/bodies/int_digits.h"

/* One superblock of one panel, of n_p panels: those of q8 and q4, or of the GGUF types. */
typedef void StreamFn(const IntMatmulArgs *a, WeightType type, Form f, const Walk *w,
                      const Slice *x, int p, int s);
typedef void BlockFn(const IntMatmulArgs *a, WeightType type, Form f, const Walk *w, const Slice *x,
                     char *ws, int p, int n_p, int s);

V_INLINE void int_stream(const IntMatmulArgs *a, WeightType type, Integers ints, Form f,
                         StreamFn *superblock)
{
    Starts starts = starts_of(type, ints, f, true);
    Walk   w      = walk_of(type, a->w, a->k);
    int    n_s    = (a->k + SUPERBLOCK - 1) / SUPERBLOCK;
    /* superblocks of a slice */
    int    most   = (int)(KERNEL_SCRATCH
                       / (slice_bytes(f, starts, turns_of(type, a->ints)) * (size_t)a->n_tok));
    for (int s0 = 0; s0 < n_s; s0 += most) {
        Slice x =
            slice_make(a, type, f, starts, a->scratch, s0, min_int(n_s, s0 + most), 0, a->n_tok);
        for (int p = 0; p < a->n_panels; p++)
            for (int s = x.s0; s < x.end; s++)
                superblock(a, type, f, &w, &x, p, s);
    }
}

/* All panels for the tokens and superblocks of a slice. ws: buffer for the unpacked weights. */
V_INLINE void block_slice(const IntMatmulArgs *a, WeightType type, Form f, const Walk *w,
                          const Slice *x, char *ws, BlockFn *superblock)
{
    for (int p = 0, n_p; p < a->n_panels; p += n_p) {
        n_p = a->n_panels - p < LANES_PANELS ? 1 : LANES_PANELS;
        for (int s = x->s0; s < x->end; s++)
            superblock(a, type, f, w, x, ws, p, n_p, s);
    }
}

V_INLINE void int_block(const IntMatmulArgs *a, WeightType type, Integers ints, Form f,
                        BlockFn *superblock)
{
    enum { UNPACKED = LANES_PANELS * 64 * 128 };
    Starts starts = starts_of(type, ints, f, false);
    Walk   w      = walk_of(type, a->w, a->k);
    char  *ws     = a->scratch;
    int n_s = (a->k + SUPERBLOCK - 1) / SUPERBLOCK, blocks = (a->n_tok + INT_BLOCK - 1) / INT_BLOCK;
    for (int i = 0; i < blocks; i++) { /* even shares: no short last one, of superblocks too */
        int t0 = (int)((int64_t)a->n_tok * i / blocks),
            n_tok = (int)((int64_t)a->n_tok * (i + 1) / blocks) - t0;
        int most   = (int)((KERNEL_SCRATCH - UNPACKED)
                         / (slice_bytes(f, starts, turns_of(type, a->ints)) * (size_t)n_tok));
        int slices = (n_s + most - 1) / most;
        for (int j = 0; j < slices; j++) {
            Slice x = slice_make(a, type, f, starts, ws + UNPACKED, n_s * j / slices,
                                 n_s * (j + 1) / slices, t0, n_tok);
            block_slice(a, type, f, &w, &x, ws, superblock);
        }
    }
}

/* ---- The entries of the table ---------------------------------------------------------------- */

/* Codes of 8 bits are multiplied as in blocks. Smaller ones are looked up as bytes, so both sides
 * must be bytes. */
V_INLINE Form stream_form(WeightType type, Integers ints)
{
    if (gguf_is_bytes(type))
        return ints == INT16 ? I_FORM_16 : I_FORM_8;
    return ints == INT16 ? FORM_PLANES : FORM_BYTES;
}

/* A separate function for each way: in one, both would have the registers of the worse. */
#define INT_WAYS(name, type, ints, most, stream_one, block_one)                                    \
    static __attribute__((noinline)) void stream_##name##_##ints(const IntMatmulArgs *a)           \
    {                                                                                              \
        int_stream(a, type, ints, stream_form(type, ints), stream_one);                            \
    }                                                                                              \
    static __attribute__((noinline)) void block_##name##_##ints(const IntMatmulArgs *a)            \
    {                                                                                              \
        int_block(a, type, ints, ints == INT16 ? I_FORM_16 : I_FORM_8, block_one);                 \
    }                                                                                              \
    static void matmul_##name##_##ints(const IntMatmulArgs *a)                                     \
    {                                                                                              \
        (a->n_tok <= (most) ? stream_##name##_##ints : block_##name##_##ints)(a);                  \
    }

#endif
