/* kernels/lanes/lanes.h: what the lanes headers share, and what each of them defines. A lanes
 * header computes with 16 rows at once in one machine's instructions. lanes/scalar.h defines every
 * operation on floats in plain C.
 *
 *   LANES_ACC, LANES_PANELS  f32x16 sums that the registers hold besides their operands; panels of
 *     a register block
 *   LANES_CHAINS             sums in flight that hide the latency of an fma if there is only one
 *                            token or query
 *   LANES_INTEGERS           1 if the header has the integers that follow
 *
 * An i512 is 64 bytes, that is 16 rows of 32 bits, each of them 4 int8 or 2 int16 along k.
 *
 *   I_FORM_8, I_FORM_16      the digits (bodies/int_digits.h) of 8-bit and 16-bit activations
 *   I_OFFSET                 what i_offset adds to the bytes of weights that i_dot4 takes: 128
 *                            if it needs them unsigned
 *   I_BOOK_OFFSET            what is added to the codebook of q4 for i_sub_dot, for the same reason
 *   i_dot4, i_dot2           acc + the products of 4 bytes or 2 words in each row; _at: with the
 *                            same 32 bits in all rows
 *   I_PART_WORDS             1 if the parts of i_sub_dot are words, each the sum of every second
 *                            pair of products
 *   i_shift32                32 bits n places to the left, -n to the right
 *   i_scale, i_scale_of      acc + part * sub-scale, of any sub-scale that fits a byte; byte j of
 *                            each row as it takes them
 *   i_sub_dot, i_sub_end     a sub-block of q4: part + products of 4 bytes; acc + part * sub-scale.
 *                            A part fits its words.
 *   i_sub_start              what the parts of 4 sub-blocks (16 bytes each of x) start from, in
 *                            each 32 bits of the 16 bytes
 *   i_round_mul16            (a * b + 2^15) >> 16;   i_even, i_odd: the bytes of each word as
 *     words;   i_join: back to bytes
 *   i_pair                   k 0 1 2 3 of words as 0 2 1 3, as i_even and i_odd have them
 *   i_pack                   words to bytes, in order
 *   LANES_BF16               1 if the header has products of bf16, 32 bits of each row being two
 *                            of them, (low, high):
 *   v_dot_bf16               fmaf(low, low of x, fmaf(high, high of x, acc)); subnormals are +0
 *   b_join_low, b_join_high  (low of b, low of a); (high of b, high of a)
 *   b_round_quads            32 floats, rounded as --math bf16 has them, each four k 0 1 2 3 as the
 *                            pairs (2, 0) and (3, 1)
 *   i_subscales              40 bytes of sub-scales of q4 to 4 vectors that hold them in both words
 *                            of each row;   i_sub_factors: the same as i_sub_end takes them
 *   i_load_once              i_load of what is used several times
 *   v_load_e8m0              2^(e - 128) of 16 bytes e: the scales of mxfp4 */
#ifndef KERNELS_LANES_LANES_H
#define KERNELS_LANES_LANES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/number.h"
#include "kernels/kernels.h"

/* Everything is static: code compiled with wide instructions must never become the shared copy of a
 * symbol. */
#if !defined(V_INLINE)
#define V_INLINE static inline __attribute__((always_inline, unused))
#endif

/* For loops over the sums of a block: gcc keeps an array of vectors in registers only if the
 * indices are constant. */
#if defined(UNROLL)
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#endif
