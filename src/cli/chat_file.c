/* cli/chat_file.c: reads a file or standard input, and lets the library parse it. */
#include "chat_session.h"

#include "command.h"

#include <stdlib.h>

bool chat_file_read(const char *path, tblock_chat_message **messages, size_t *n, tblock_error *err)
{
    TextOut text = { 0 };
    bool  good = input_read(path, INPUT_PROMPT, &text, err)
        && tblock_chat_from_json(text.text ? text.text : "", text.n, path, messages, n, err);
    free(text.text);
    return good;
}
