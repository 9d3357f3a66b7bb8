/* tests/exact/tokens.h: the token sequences whose logits digests.txt pins. */
#ifndef TOKENS_H
#define TOKENS_H

#include <stdint.h>

enum { MAX_TOKENS = 140 }; /* three tiles of 64 positions, the last not full */

/* Token number pos of sequence seq: any fixed sequence will do. */
static inline int32_t token_at(int seq, int pos, int vocab_size)
{
    uint32_t h = (uint32_t)(seq * 1000 + pos + 1) * 2654435761u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    return (int32_t)(h % (uint32_t)vocab_size);
}

#endif
