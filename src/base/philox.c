/* base/philox.c: ten rounds of Philox4x32; the constants are those of the paper. */
#include "base/number.h"

#include <string.h>

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = { (uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b,
                             (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a };
        memcpy(c, next, sizeof c);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}
