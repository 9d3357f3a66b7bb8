/* cli/chat_file.h: conversations in files, as JSON. */
#ifndef CLI_CHAT_FILE_H
#define CLI_CHAT_FILE_H

#include "tblock.h"

/* Write a file that appears whole or not at all. */
bool chat_file_write(const char *path, const char *text, size_t n, tblock_error *err);

/* Messages of a file; release with tblock_free. */
bool chat_file_read(const char *path, tblock_chat_message **messages, size_t *n, tblock_error *err);

#endif
