/* cli/sandbox.h: --sandbox: from a moment on this process computes, reads and writes what is open, and can do nothing else. */
#ifndef CLI_SANDBOX_H
#define CLI_SANDBOX_H

#include "tblock.h"

/* Whether the program was built with libseccomp and the kernel has what it needs; else false and why (TBLOCK_SYSTEM). To be asked
 * before work is done. */
bool sandbox_possible(tblock_error *err);

/* From here on the system refuses (EPERM) every call but those for reading and writing what is open, memory, time, threads of this
 * process and the settings of its terminal: nothing can be opened, renamed, removed or run, no socket made, no memory made
 * executable. Descriptors over 2 that can be written to are closed, except the n of `writable`; standard input is opened again for reading
 * alone, unless it is what standard output or error is. For all threads, and for good. Fails (TBLOCK_SYSTEM) as above, where standard
 * input cannot be opened again, and without memory; then there is no filter at all. */
bool sandbox_enter(const int *writable, size_t n, tblock_error *err);

#endif
