/* source/hf_mxfp4.c: weights in MXFP4, as transformers stores them, read as bf16. */
#include "source/hf.h"

enum { BLOCK = 32, CODE_BYTES = BLOCK / 2 };

typedef struct Mxfp4 { const uint8_t *blocks, *scales; } Mxfp4;

/* Here neighbours share a byte, the first in its low bits; in ggml, whose values are taken, codes
 * that are 16 apart. Every value is a small integer times a power of two, so none is rounded. */
static void read_mxfp4(const void *from, size_t first, size_t n, void *out)
{
    const Mxfp4 *m  = from;
    uint16_t    *to = out;
    for (size_t i = first / BLOCK; i < (first + n) / BLOCK; i++, to += BLOCK) {
        const uint8_t *codes = m->blocks + i * CODE_BYTES;
        uint8_t        block[1 + CODE_BYTES] = { m->scales[i] };
        float          value[BLOCK];
        for (int j = 0; j < CODE_BYTES; j++) {
            int low = codes[j / 2] >> 4 * (j % 2) & 15,
                high = codes[(j + CODE_BYTES) / 2] >> 4 * (j % 2) & 15;
            block[1 + j] = (uint8_t)(low | high << 4);
        }
        blocks_to_f32(BLOCK_MXFP4, value, block, BLOCK);
        elements_from_f32(WT_BF16, to, value, BLOCK);
    }
}

bool hf_mxfp4_source(Source *s, const uint8_t *blocks, const uint8_t *scales, RowSource *r,
                     Error *err)
{
    Mxfp4 *m = source_alloc(s, sizeof *m, err);
    if (!m)
        return false;
    *m           = (Mxfp4){ blocks, scales };
    r->type      = WT_BF16;
    r->read      = read_mxfp4;
    r->read_from = m;
    return true;
}
