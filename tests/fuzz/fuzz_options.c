/* tests/fuzz/fuzz_options.c: any bytes as a command line: texts that end with NUL, the first a
 * command's name. What is read is within the ranges that the table gives; what is not says why. No
 * command runs. */
#include "cli/command.h"
#include "fuzz.h"

enum { MOST_WORDS = 64 };

/* Numbers within range, choices among the words: as the table says. */
static void check_option(const Option *o, const char *at)
{
    double x;
    float  f;
    int    i;
    if (o->kind == OPT_INT) {
        memcpy(&i, at, sizeof i);
        claim((double)i >= o->min && (double)i <= o->max);
    } else if (o->kind == OPT_SINGLE) {
        memcpy(&f, at, sizeof f);
        claim((double)f >= (double)(float)o->min && (double)f <= o->max);
    } else if (o->kind == OPT_FLOAT) {
        memcpy(&x, at, sizeof x);
        claim(x != x || (x >= o->min && x <= o->max));
    }
}

static void read_line(const Command *command, int argc, char **argv)
{
    Error         e = { 0 };
    const Option *now = NULL;
    char         *args = calloc(1, command->args_size);
    claim(args != NULL);
    if (said(options_read(&command->syntax, argc, argv, args, &now, &e), &e) && !now)
        for (const OptionGroup *g = command->syntax.groups; g->options; g++)
            for (const Option *o = g->options; o->name; o++)
                if (o->fallback && o->fallback != OPT_REQUIRED)
                    check_option(o, args + g->where + o->where);
    options_free(&command->syntax, args);
    free(args);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    Error  e = { 0 };
    char  *text = exact_copy(bytes, n), *argv[MOST_WORDS + 1];
    int    argc = 0;
    for (size_t at = 0; at <= n && argc < MOST_WORDS; at += strlen(text + at) + 1)
        argv[argc++] = text + at;
    argv[argc] = NULL;
    commands = all_commands;
    const Command *command = command_find(argv[0], &e);
    said(command != NULL, &e);
    if (command)
        read_line(command, argc - 1, argv + 1);
    free(text);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "options"); }
#endif
