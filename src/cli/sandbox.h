/* cli/sandbox.h: --sandbox: from some point on, this process only computes, and reads and writes
 * what is open. */
#ifndef CLI_SANDBOX_H
#define CLI_SANDBOX_H

#include "tblock.h"

/* Was the program built with libseccomp, and does the kernel support it? Fails with
 * TBLOCK_SYSTEM, saying why not. Call it before doing work. */
bool sandbox_possible(tblock_error *err);

/* From now on the system refuses (EPERM) every call except for reading and writing what is open,
 * memory, time, threads of this process, and the settings of its terminal. Nothing can be
 * opened, renamed, removed or run, no socket made, no memory made executable. Writable
 * descriptors above 2 are closed, except the n of `writable`. Standard input is opened again for
 * reading only, unless it is the same as standard output or error. This holds for all threads,
 * for good. Fails with TBLOCK_SYSTEM as above, if standard input cannot be opened again, and
 * without memory; then there is no filter at all. */
bool sandbox_enter(const int *writable, size_t n, tblock_error *err);

#endif
