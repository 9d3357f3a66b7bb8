/* base/memory.h: is there memory for something large? */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include "base/error.h"

/* Linux gives more memory than there is, and ends a process that uses it: better said before. what: "activations take", say. Fails with
 * SYSTEM where n_bytes are more than the machine has, naming both; what other processes use of it does not count. */
bool memory_fits(double n_bytes, const char *what, Error *err);

#endif
