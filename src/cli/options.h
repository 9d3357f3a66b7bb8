/* cli/options.h: the option tables of the commands and their one reader.
 *
 * An option is declared once, in a table; parsing, defaults, ranges and help (and whatever else prints options) read
 * that table. A table fills a struct: `where` is an offset into it. Values given twice: the last one counts, except
 * for OPT_TEXTS, which collects. Numbers are read the same in every locale. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "tblock.h"

typedef enum OptionKind {
    OPT_FLAG,   /* bool; takes no value                                              */
    OPT_NOW,    /* bool; as a flag, and nothing after it is read (--help, --version) */
    OPT_INT,    /* int, from min to max                                              */
    OPT_FLOAT,  /* double, from min to max; NaN when not given and without default   */
    OPT_TEXT,   /* const char *, any text; NULL when not given                       */
    OPT_TEXTS,  /* TextList, not empty texts; may be given several times             */
    OPT_CHOICE, /* const char *, one of the words of `argument`: "f32|f16"           */
    OPT_SEED,   /* Seed: 64 bits, decimal or 0x hexadecimal, or the word random      */
    OPT_IDS     /* IdList: token ids, separated by commas or spaces; may be empty    */
} OptionKind;

typedef struct TextList { const char **texts; size_t n; } TextList;
typedef struct IdList { int32_t *ids; size_t n; bool given; } IdList;
typedef struct Seed { uint64_t value; bool random; } Seed; /* random: the command is to choose a value */

/* The default of an option that has to be given. */
extern const char OPT_REQUIRED[];

typedef struct Option {
    const char *name;     /* without the dashes; NULL ends a table                         */
    char        letter;   /* short form; 0: none                                           */
    const char *argument; /* what help calls the value, or the choices; NULL: takes none   */
    OptionKind  kind;
    size_t      where;    /* offset in the struct that the table fills                     */
    double      min, max; /* of a number                                                   */
    const char *fallback; /* the default, read like a value; NULL: none; or OPT_REQUIRED   */
    const char *help;
} Option;

/* Options that stand together in the help. Their struct lies at offset `where` of the command's arguments. */
typedef struct OptionGroup { const char *title; const Option *options; size_t where; } OptionGroup;

/* An argument without a name: const char * at offset `where`; NULL when optional and absent. Its name says what it may
 * be: one of the words of "bash|zsh", the name of a COMMAND, or else that of a file. In the zeroed entry that ends a
 * table, help may say what one more argument was probably meant to be. */
typedef struct Operand { const char *name; size_t where; bool optional; const char *help; } Operand;

/* What one command accepts; groups and operands end with a zeroed entry. */
typedef struct Syntax {
    const char        *command;
    const Operand     *operands;
    const OptionGroup *groups;
} Syntax;

/* Read argv[0 .. argc) (without the program's and the command's name) into args, a zeroed struct. Forms: --name VALUE,
 * --name=VALUE, -n VALUE, -nVALUE, letters without value together (-qh); after -- all are operands; a lone - is one
 * too. *now is set to the OPT_NOW option that ended the reading, or NULL. Texts in args point into argv. Fails with
 * TBLOCK_USAGE, or TBLOCK_SYSTEM without memory; options_free is due in any case. */
bool options_read(const Syntax *syntax, int argc, char **argv, void *args, const Option **now, tblock_error *err);

/* Release the lists in args. */
void options_free(const Syntax *syntax, void *args);

#endif
