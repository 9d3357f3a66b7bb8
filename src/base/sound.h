/* base/sound.h: invariants. Where a struct that changes is declared, its invariant stands in prose,
 * and X_is_sound says whether it holds. */
#ifndef BASE_SOUND_H
#define BASE_SOUND_H

#include <assert.h>

/* At the ends of the functions that change it, ASSERT_SOUND(x_is_sound(x)): in config=debug and in
 * the fuzzers it is an assert, elsewhere nothing. */
#ifdef TBLOCK_DEBUG
#define ASSERT_SOUND(sound) assert(sound)
#else
#define ASSERT_SOUND(sound) ((void)0)
#endif

#endif
