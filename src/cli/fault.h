/* cli/fault.h: signals that end the program, and what has to be said or tidied up before. The library has no handler. */
#ifndef CLI_FAULT_H
#define CLI_FAULT_H

/* Once, at the start. From here on
 * - a mapped file that is cut short under us, or whose disk fails (SIGBUS), is an error line with the file's name and status 4,
 * - SIGINT, SIGTERM, SIGHUP and SIGQUIT remove the temporary files of outputs before they end the program as ever; one that was
 *   ignored stays so, as under nohup,
 * - a limit on the size of files (SIGXFSZ) and a reader that goes away (SIGPIPE) are errors of write. */
void fault_catch(void);

/* End now, by this signal, from a handler or elsewhere. Async-signal-safe. Where a handler is being run for the same signal, it ends
 * the program when the handler returns. */
void fault_end(int signal_number);

#endif
