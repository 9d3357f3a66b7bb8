/* tblock: finds the command in one table, prints the one error line and returns its status.
 *
 * Numbers are read and written with a point everywhere. The program never sets LC_NUMERIC; chat's
 * line editor sets LC_CTYPE. */
#include "cli/command.h"
#include "cli/frame.h"
#include "cli/help.h"
#include "tblock_tools.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const Command *const all_commands[] = {
    &cmd_run,
    &cmd_chat,
    &cmd_serve,
    &cmd_info,
    &cmd_tokenize,
    &cmd_constrain,
    &cmd_embed,
    &cmd_rerank,
    &cmd_logits,
    &cmd_verify,
    &cmd_audit,
    &cmd_eval,
    &cmd_attn,
    &cmd_train,
    &cmd_grad,
    &cmd_block,
    &cmd_quantize,
    &cmd_convert,
    &cmd_synth,
    &cmd_bench,
    &cmd_pull,
    &cmd_list,
    &cmd_rm,
    &cmd_completions,
    &cmd_help,
    NULL
};

static bool print_version(void)
{
    output_format("tblock %s (numerics version %d, Unicode %s)\n", tblock_version(),
                  TBLOCK_NUMERICS_VERSION, TBLOCK_UNICODE_VERSION);
    return true;
}

static bool run_command(const Command *command, int argc, char **argv, tblock_ranks *ranks,
                        tblock_error *err)
{
    const Option *now;
    void         *args = calloc(1, command->args_size);
    if (!args)
        return no_memory(NULL, err);
    bool good = options_read(&command->syntax, argc, argv, args, &now, err);
    if (good && now && strcmp(now->name, "version") == 0)
        print_version();
    else if (good && now && strcmp(now->name, "usage") == 0)
        help_usage(command);
    else if (good && now)
        help_command(command);
    else if (good)
        good = frame_run(command, args, ranks, err);
    options_free(&command->syntax, args);
    free(args);
    return good;
}

static bool dispatch(int argc, char **argv, tblock_ranks *ranks, tblock_error *err)
{
    if (argc < 2) { /* a script that lost its command must notice */
        output_to_stderr();
        help_short();
        return fail(err, TBLOCK_USAGE, "%s", "");
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return print_version();
    if (strcmp(name, "--usage") == 0 || strcmp(name, "-h") == 0) {
        help_start();
        return true;
    }
    if (strcmp(name, "--help") == 0)
        name = "help";
    if (name[0] == '-') {
        Nearest near = { name, 0, 0 };
        nearest_offer(&near, "--help");
        nearest_offer(&near, "--version");
        const char *meant = nearest_answer(&near);
        return fail(err, TBLOCK_USAGE, "unknown option %s; %s%s%s", name,
                        meant ? "did you mean " : "the command comes first, tblock help lists them",
                        meant ? meant : "", meant ? "?" : "");
    }
    const Command *command = command_find(name, err);
    return command && run_command(command, argc - 2, argv + 2, ranks, err);
}

/* Opens /dev/null for each standard descriptor that the caller left closed. Otherwise the next file
 * opened would get its number: messages would then be printed into an output file, for example. */
static void keep_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0
            && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            exit(TBLOCK_SYSTEM);
}

/* The command runs on rank 0, which without ranks is the only process. */
static bool run_program(int argc, char **argv, tblock_error *err)
{
    tblock_ranks *ranks;
    if (!tblock_ranks_join(&ranks, err))
        return false;
    bool good = ranks && tblock_ranks_rank(ranks) > 0 ? tblock_ranks_follow(ranks, err)
                                                      : dispatch(argc, argv, ranks, err);
    tblock_ranks_leave(ranks);
    return good;
}

int main(int argc, char **argv)
{
    tblock_error err = { 0 }, output_err = { 0 };

    keep_standard_files();
    commands = all_commands;
    help_program(argc > 0 ? argv[0] : NULL);
    fault_catch();
    bool good = run_program(argc, argv, &err);
    if (!output_flush(&output_err) && good) {
        err = output_err;
        good = false;
    }
    if (!good && err.msg[0])
        fprintf(stderr, "%stblock:%s %s\n", terminal_tone(STDERR_FILENO, TONE_BAD),
                terminal_tone(STDERR_FILENO, TONE_OFF), err.msg);
    return good ? TBLOCK_OK : err.status;
}
