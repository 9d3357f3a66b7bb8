/* cli/input.h: text from files and standard input. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "output.h"

enum {
    INPUT_MB     = 1000000,         /* what messages call a MB */
    INPUT_PROMPT = 64 * INPUT_MB,   /* limits in bytes: of a prompt,                         */
    INPUT_LINE   = 256 * INPUT_MB,  /* of a line,                                            */
    INPUT_TEXT   = 1000 * INPUT_MB  /* of a text to tokenize; the tokenizer takes little more */
};

/* Add the bytes of a file, at most `most` with those already there, to *out; "-" is standard input. A file that cannot
 * be opened or is too long is TBLOCK_INPUT. */
bool input_read(const char *path, size_t most, TextOut *out, tblock_error *err);

/* Lines of a file, one at a time. */
typedef struct Lines {
    const char *name; /* for messages */
    int         fd;
    bool        end;  /* nothing more to read          */
    TextOut     kept; /* read, from `at` on not handed out */
    size_t      at, searched;
    size_t      number; /* of the line handed out last, from 1 */
} Lines;

bool lines_open(Lines *l, const char *path, tblock_error *err); /* "-" is standard input */
void lines_close(Lines *l);

/* The next line without its '\n', valid until the next call; NULL at the end, and on an error, where err->status is
 * set (start with a zeroed err). Before it waits for input it flushes standard output: someone who writes one line and
 * waits for its answer gets it, and a file is answered in large writes. */
const char *lines_next(Lines *l, size_t *n, tblock_error *err);

#endif
