/* cli/chat_line.h: messages that someone types, with editing and history on a terminal that can do it. */
#ifndef CLI_CHAT_LINE_H
#define CLI_CHAT_LINE_H

#include "output.h"

typedef struct ChatLines ChatLines;

typedef enum LineResult { LINE_READ, LINE_END, LINE_INTERRUPT, LINE_FAILED } LineResult;

/* Read from standard input; prompts and what is typed go to standard error. history: keep one in the user's state folder
 * ($XDG_STATE_HOME/tblock/history, else ~/.local/state/tblock/history); where it cannot be written, there is none. A terminal
 * without control sequences (TERM=dumb or unset), or a program built without libedit, gets plain lines. NULL: no memory. */
ChatLines *chat_lines_open(bool history, tblock_error *err);
void       chat_lines_close(ChatLines *l); /* NULL is accepted */

/* The next message into *out (its content is replaced), without the last line end: a line, more of them where each but the last
 * ends with a backslash, or all between two lines of """. LINE_INTERRUPT: Ctrl-C, what was typed is forgotten. */
LineResult chat_lines_read(ChatLines *l, TextOut *out, tblock_error *err);

#endif
