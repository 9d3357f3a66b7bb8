/* cli/input.h: text from files and standard input. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "output.h"

enum {
    INPUT_MB     = 1000000,         /* a MB in messages */
    INPUT_PROMPT = 64 * INPUT_MB,   /* limits in bytes: of a prompt, */
    INPUT_LINE   = 256 * INPUT_MB,  /* of a line, */
    INPUT_TEXT   = 1000 * INPUT_MB  /* of a text to tokenize (near the tokenizer's limit) */
};

/* Adds the bytes of a file to *out, which may then hold at most `most`. "-" is standard input.
 * Fails with TBLOCK_INPUT if the file cannot be opened or is too long. */
bool input_read(const char *path, size_t most, TextOut *out, tblock_error *err);

/* The lines of a file, one at a time. */
typedef struct Lines {
    const char *name; /* for messages */
    int         fd;
    bool        end;  /* nothing more to read */
    TextOut     kept; /* bytes read; those from `at` on are not yet returned */
    size_t      at, searched;
    size_t      number; /* of the last returned line, from 1 */
} Lines;

bool lines_open(Lines *l, const char *path, tblock_error *err); /* "-" is standard input */
void lines_close(Lines *l);

/* The next line without its '\n', valid until the next call. NULL at the end, or on an error:
 * then err->status is set (start with a zeroed err). Before it waits for input it flushes
 * standard output: so someone who writes one line and waits gets the answer, and a file is still
 * answered in large writes. */
const char *lines_next(Lines *l, size_t *n, tblock_error *err);

#endif
