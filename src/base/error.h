/* base/error.h: one error value that travels up. Only main.c prints it. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/cpu.h"
#include "tblock.h"

typedef tblock_error Error;
enum { NO = TBLOCK_NO, USAGE = TBLOCK_USAGE, INPUT = TBLOCK_INPUT, SYSTEM = TBLOCK_SYSTEM };

/* Fills *err (err may be NULL) with a status and a one-line message. Escapes control characters
 * and invalid UTF-8 that came in through names. Cuts a long message at a character and adds
 * "...". Arguments may point into err->msg, to prefix it. Always returns
 * false. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
bool fail(Error *err, int status, const char *fmt, ...);

/* At the head of a public function: if one of the pointers is NULL, fails with USAGE, naming the
 * function and the pointer, and returns `none`. `p || !n`: an array that may be NULL if n is 0. */
#define NEED(none, err, ...) \
    do { \
        const bool given_[] = { __VA_ARGS__ }; \
        if (!all_given(given_, sizeof given_, __func__, #__VA_ARGS__, err)) \
            return none; \
    } while (0)
bool all_given(const bool *given, size_t n, const char *function, const char *names, Error *err);

/* "WHAT: out of memory" (SYSTEM); what may be NULL. Always returns false. */
bool no_memory(const char *what, Error *err);

/* Is x one of min .. max? If not: "NAME: expected MIN to MAX, found X" (USAGE). */
bool check_range(const char *name, int x, int min, int max, Error *err);

#endif
