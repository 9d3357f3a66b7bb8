/* cli/chat_line.h: messages that someone types, with editing and history on terminals that allow
 * it. */
#ifndef CLI_CHAT_LINE_H
#define CLI_CHAT_LINE_H

#include "output.h"

typedef struct ChatLines ChatLines;

typedef enum LineResult { LINE_READ, LINE_END, LINE_INTERRUPT, LINE_FAILED } LineResult;

/* Opens standard input for messages; prompts and typed text go to standard error. history: keep
 * one in the user's state folder ($XDG_STATE_HOME/tblock/history, else
 * ~/.local/state/tblock/history), if it can be written. A terminal without control sequences
 * (TERM=dumb or unset), or a program built without libedit, gets plain lines. NULL: no memory. */
ChatLines *chat_lines_open(bool history, tblock_error *err);
void       chat_lines_close(ChatLines *l); /* accepts NULL */

/* Reads the next message into *out, replacing its content, without the last newline. A message
 * is one line; or several lines, each but the last ending with a backslash; or all lines between
 * two lines of """. LINE_INTERRUPT: Ctrl-C; what was typed is dropped. */
LineResult chat_lines_read(ChatLines *l, TextOut *out, tblock_error *err);

#endif
