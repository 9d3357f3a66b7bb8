/* quant/iq_blocks.h: ggml's types of 1 to 3 bits, whose codes are rows of a codebook. Private to
 * src/quant. Sources: for the layouts ggml, src/ggml-common.h (block_iq2_xxs ...); for the
 * arithmetic and the codebooks the Python package gguf, quants.py. */
#ifndef QUANT_IQ_BLOCKS_H
#define QUANT_IQ_BLOCKS_H

#include <stdint.h>

/* The block at b as one of BLOCK_Q8_16 at y (maybe unaligned). A fraction of the definition, which
 * an eighth divides, goes to d, so that codes and sub-scales are integers: 62 and 31 at most. A
 * value then has at most 11 + 5 + 6 bits, so neither this nor the definition rounds. */
void iq2_xxs(uint8_t *y, const uint8_t *b);
void iq2_xs(uint8_t *y, const uint8_t *b);
void iq2_s(uint8_t *y, const uint8_t *b);
void iq3_xxs(uint8_t *y, const uint8_t *b);
void iq1_s(uint8_t *y, const uint8_t *b);
void iq1_m(uint8_t *y, const uint8_t *b);

/* The codes of iq3_s, -15 .. 15, and its 8 scales, 1 .. 31: y = (d * scale) * code. */
void iq3_s_codes(int8_t code[256], int8_t scale[8], const uint8_t *b);

#endif
