/* cli/frame.h: what commands share at work. The row of a command (command.h) names what it opens;
 * the frame opens that, runs the command and closes everything. Commands whose order is their own
 * open with the same functions, and leave the closing to the frame. */
#ifndef CLI_FRAME_H
#define CLI_FRAME_H

#include "cli/command.h"

enum { FRAME_READS = COMMAND_READS + 2, FRAME_NAMES = 4 };

struct Frame {
    const Command    *command;
    void             *args;      /* the struct that the options filled */
    const char       *path;      /* the first operand: the model; NULL: none was given */

    /* Copies of the command's options, which it may change before they are used. Without options of
     * computing, compute has --sandbox alone. */
    ComputeOptions    compute;
    PromptOptions     from;
    const DraftArgs  *draft;     /* NULL: the command has no such options */

    char             *named[FRAME_NAMES]; /* paths of models that were named as published ones */
    size_t            n_named;
    TextList          reads;     /* files besides models, NULL for none, "-" for standard input */
    const char       *read[FRAME_READS];
    const char       *other;     /* another model that the command reads; NULL: none */
    const char       *needs;     /* what to do if the model has no tokenizer; NULL: it needs none */
    int               writable;  /* a descriptor that stays writable in the sandbox; -1: none */

    /* What is open; closed by the frame. */
    Guarded           out[COMMAND_WRITES];
    tblock_model     *model;
    tblock_model_info info;
    PromptInput       prompt;
    tblock_context   *context;
    Drafting          drafting;
};

/* Runs a command whose options have been read. ranks: those that it runs on; NULL: none. */
bool frame_run(const Command *command, void *args, struct tblock_ranks *ranks, tblock_error *err);

/* One more file that the command reads. */
void frame_reads(Frame *f, const char *path);

/* The steps, in the order of Opens. Opens the outputs, and with --sandbox enters it: from then on
 * only what frame.reads, the models and the command's `hold` name can be read. */
bool frame_files(Frame *f, tblock_error *err);
bool frame_model(Frame *f, tblock_error *err); /* with its description; none for path NULL */
bool frame_prompt(Frame *f, tblock_error *err);
bool frame_context(Frame *f, tblock_error *err);
bool frame_draft(Frame *f, tblock_error *err); /* the drafter of the context's generations */

/* The output must replace no file that the command reads, nor one of its models: else fails
 * (TBLOCK_USAGE, naming both). Call it before anything is opened for writing. NULL: no output.
 * `but`: a file that it may replace. */
bool frame_apart(const Frame *f, const char *output, const char *but, tblock_error *err);

/* The output is complete: it appears under its name. The frame does this itself after a command
 * that succeeds. */
bool frame_commit(Frame *f, tblock_error *err);

#endif
