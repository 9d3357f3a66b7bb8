/* base/memory.h: is there enough memory for something large? */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include "base/error.h"

/* Linux promises more memory than there is, and later kills a process that uses it. So check
 * before. what: "activations take", for example. Fails with SYSTEM if n_bytes exceed the
 * machine's memory, naming both. Memory that other processes use does not count. */
bool memory_fits(double n_bytes, const char *what, Error *err);

#endif
