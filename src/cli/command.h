/* cli/command.h: what a command consists of. The table of commands is in main.c. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "options.h"

typedef struct Example { const char *line, *what; } Example;

typedef struct Command {
    Syntax         syntax;
    const char    *summary;   /* a few words, for the list of commands */
    const char    *text;      /* paragraphs for the help, separated by \n */
    const Example *examples;  /* ends with a zeroed entry */
    size_t         args_size; /* of the struct that the options fill */

    /* Does the work. args is the filled struct. False: err has the exit status and the line to
     * print, if any. */
    bool (*run)(void *args, tblock_error *err);
} Command;

extern const Command cmd_run, cmd_chat, cmd_info, cmd_tokenize, cmd_logits, cmd_verify, cmd_eval, cmd_attn, cmd_train,
                     cmd_grad, cmd_block, cmd_quantize, cmd_convert, cmd_synth, cmd_bench, cmd_completions,
                     cmd_help;

extern const Command *const commands[]; /* in the order of the help; ends with NULL */

/* Finds a command by name. NULL: err is filled and names the most similar one. */
const Command *command_find(const char *name, tblock_error *err);

#endif
