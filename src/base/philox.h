/* base/philox.h: random numbers as a function of a counter and a key, without state (Salmon et
 * al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). So any part of a random tensor can
 * be computed alone, in any order. */
#ifndef BASE_PHILOX_H
#define BASE_PHILOX_H

#include <stdint.h>

/* Philox4x32-10, with Random123's order of words: key 0, counter 0 gives 6627e8d5 e169c58d
 * bc57ac4c 9b00dbd8. */
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
