/* cli/fault.h: signals that end the program, and what it reports or removes before. The library
 * has no handlers. */
#ifndef CLI_FAULT_H
#define CLI_FAULT_H

/* Call it once, at the start. From then on:
 * - If a mapped file is cut short while in use, or its disk fails (SIGBUS), the program prints an
 *   error line with the file's name and ends with status 4.
 * - SIGINT, SIGTERM, SIGHUP and SIGQUIT remove the temporary files of outputs, then end the program
 *   as usual. A signal that was ignored stays ignored, as under nohup.
 * - A limit on the size of files (SIGXFSZ) and a reader that goes away (SIGPIPE) are errors of
 *   write. */
void fault_catch(void);

/* Ends the program now by this signal; from a handler or elsewhere. Async-signal-safe. Inside a
 * handler of the same signal, the program ends when the handler returns. */
void fault_end(int signal_number);

#endif
