/* source/hf_mxfp4.c: weights in MXFP4, as transformers stores them, read as ggml's blocks. */
#include "source/hf.h"

enum { BLOCK = 32, CODE_BYTES = BLOCK / 2 };

typedef struct Mxfp4 { const uint8_t *blocks, *scales; } Mxfp4;

/* Here neighbours share a byte, the first in its low bits, and scales are in a separate tensor; in
 * ggml, codes that are 16 apart share one, after their scale. */
static void read_mxfp4(const void *from, int part, size_t first, size_t n, void *out)
{
    (void)part;
    const Mxfp4 *m  = from;
    uint8_t     *to = out;
    for (size_t i = first / BLOCK; i < (first + n) / BLOCK; i++, to += 1 + CODE_BYTES) {
        const uint8_t *codes = m->blocks + i * CODE_BYTES;
        to[0] = m->scales[i];
        for (int j = 0; j < CODE_BYTES; j++) {
            int low = codes[j / 2] >> 4 * (j % 2) & 15,
                high = codes[(j + CODE_BYTES) / 2] >> 4 * (j % 2) & 15;
            to[1 + j] = (uint8_t)(low | high << 4);
        }
    }
}

bool hf_mxfp4_source(Source *s, const uint8_t *blocks, const uint8_t *scales, RowSource *r,
                     Error *err)
{
    Mxfp4 *m = source_alloc(s, sizeof *m, err);
    if (!m)
        return false;
    *m           = (Mxfp4){ blocks, scales };
    r->type      = WT_MXFP4;
    r->read      = read_mxfp4;
    r->read_from = m;
    return true;
}
