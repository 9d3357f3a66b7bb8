/* base/sound.h: invariants. The declaration of a struct that changes states its invariant in prose,
 * and X_is_sound checks it. */
#ifndef BASE_SOUND_H
#define BASE_SOUND_H

#include <assert.h>

/* Functions that change it end with ASSERT_SOUND(x_is_sound(x)): an assert in config=debug and in
 * the fuzzers, elsewhere nothing. */
#ifdef TBLOCK_DEBUG
#define ASSERT_SOUND(sound) assert(sound)
#else
#define ASSERT_SOUND(sound) ((void)0)
#endif

#endif
