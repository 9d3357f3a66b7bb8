/* Included before each file by lint.sh: what clang's and gcc's analyzers, which see one file at a
 * time, cannot know. The functions that fill an error return false, always: after "ok = p ||
 * fail(...)", ok means that there is a p. */
#include "base/error.h"

#define fail(...)            (fail(__VA_ARGS__), false)
#define no_memory(what, err) (no_memory(what, err), false)
