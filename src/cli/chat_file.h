/* cli/chat_file.h: conversations in files, as JSON. */
#ifndef CLI_CHAT_FILE_H
#define CLI_CHAT_FILE_H

#include "tblock.h"

/* Reads the messages of a file; release them with tblock_free. */
bool chat_file_read(const char *path, tblock_chat_message **messages, size_t *n, tblock_error *err);

#endif
