/* cli/options.h: the option tables of the commands, and their one reader.
 *
 * An option is declared once, in a table. Parsing, defaults, ranges, help and everything else
 * that prints options read that table. A table fills a struct: `where` is an offset in it. If a
 * value is given twice, the last one counts, except for OPT_TEXTS, which collects all. Numbers
 * are read the same in every locale. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "tblock.h"

typedef enum OptionKind {
    OPT_FLAG,   /* bool; takes no value */
    OPT_NOW,    /* bool; a flag, and reading stops (--help, --version) */
    OPT_INT,    /* int, from min to max */
    OPT_FLOAT,  /* double, from min to max; NaN if not given, no default */
    OPT_TEXT,   /* const char *, any text; NULL if not given */
    OPT_TEXTS,  /* TextList of texts that are not empty; repeatable */
    OPT_CHOICE, /* const char *, one of the words of `argument`: "f32|f16" */
    OPT_SEED,   /* Seed: 64 bits, decimal or 0x hexadecimal, or "random" */
    OPT_IDS     /* IdList: token ids, separated by commas or spaces; or empty */
} OptionKind;

typedef struct TextList { const char **texts; size_t n; } TextList;
typedef struct IdList { int32_t *ids; size_t n; bool given; } IdList;
typedef struct Seed { uint64_t value; bool random; } Seed; /* random: the command chooses */

/* The default of an option that must be given. */
extern const char OPT_REQUIRED[];

typedef struct Option {
    const char *name;     /* without the dashes; NULL ends a table */
    char        letter;   /* short form; 0: none */
    const char *argument; /* the value's name in help, or the choices; NULL: no value */
    OptionKind  kind;
    size_t      where;    /* offset in the struct that the table fills */
    double      min, max; /* of a number */
    const char *fallback; /* the default, read like a value; NULL: none; OPT_REQUIRED */
    const char *help;
} Option;

/* A group of options in the help. Their struct is at offset `where` of the command's arguments. */
typedef struct OptionGroup { const char *title; const Option *options; size_t where; } OptionGroup;

/* An argument without a name: const char * at offset `where`; NULL if it is optional and absent.
 * Its name says what it may be: one of the words of "bash|zsh", the name of a COMMAND, or
 * otherwise a file. In the zeroed entry that ends a table, help may say what one more argument
 * was probably meant to be. */
typedef struct Operand { const char *name; size_t where; bool optional; const char *help; } Operand;

/* What one command accepts. Groups and operands end with a zeroed entry. */
typedef struct Syntax {
    const char        *command;
    const Operand     *operands;
    const OptionGroup *groups;
} Syntax;

/* Reads argv[0 .. argc), without the names of program and command, into args, a zeroed struct.
 * Forms: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, letters without value together (-qh).
 * After -- all are operands, and so is a lone -. *now is set to the OPT_NOW option that ended
 * the reading, or NULL. Texts in args point into argv. Fails with TBLOCK_USAGE, or TBLOCK_SYSTEM
 * (no memory). Call options_free even on failure. */
bool options_read(const Syntax *syntax, int argc, char **argv, void *args, const Option **now, tblock_error *err);

/* Frees the lists in args. */
void options_free(const Syntax *syntax, void *args);

#endif
