/* cli/options.c: parses a command line by the tables. The error for a wrong word names the most
 * similar known one. */
#include "command.h"

#include "help.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

const char OPT_REQUIRED[] = "required";

/* ---- Values: each parser accepts the whole text or nothing ----------------------------------- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; } /* isdigit depends on the locale */

/* Reads [+-]digits. Saturates far outside the range of any option. */
static bool parse_integer(const char *s, long long *out)
{
    char *end;
    *out = strtoll(s, &end, 10);
    return end > s && s[strspn(s, "+-0123456789")] == '\0' && *end == '\0';
}

/* Reads decimal notation only: strtod alone would also accept "nan", "inf", "0x1p3" and leading
 * space. The program never sets LC_NUMERIC, so strtod's decimal separator is the point. */
bool number_read(const char *s, double *out)
{
    char        *end;
    const double number = strtod(s, &end);
    if (end == s || *end || s[strspn(s, "+-.0123456789eE")])
        return false;
    *out = number;
    return true;
}

static bool parse_seed(const char *s, Seed *out)
{
    *out = (Seed){ 0, strcmp(s, "random") == 0 };
    if (out->random)
        return true;
    bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
    if (hex ? strspn(s + 2, "0123456789abcdefABCDEF") == 0 : !is_digit(*s))
        return false;
    char *end;
    errno = 0;
    out->value = strtoull(s, &end, hex ? 16 : 10);
    return *end == '\0' && errno == 0;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* Reads ids separated by one comma, by white space, or both. *found: the text that is not an id. */
static bool parse_ids(const char *s, IdList *out, char found[24])
{
    size_t n = 0;
    bool   comma = false; /* a comma precedes the next id */

    while (is_space(*s))
        s++;
    while (*s || comma) {
        int64_t     id = 0;
        const char *start = s;
        for (; is_digit(*s) && id <= INT32_MAX; s++)
            id = id * 10 + (*s - '0');
        bool ends = *s == '\0' || *s == ',' || is_space(*s);
        if (s == start || id > INT32_MAX || !ends) {
            snprintf(found, 24, "%.*s", (int)strcspn(start, ", \t\r\n"), start);
            return false;
        }
        out->ids[n++] = (int32_t)id;
        while (is_space(*s))
            s++;
        comma = *s == ',';
        s += comma;
        while (comma && is_space(*s))
            s++;
    }
    out->n = n;
    return true;
}

/* Spells "auto|f32|f16" as "auto, f32 or f16". */
static const char *spell_choices(const char *choices, char *out, size_t n_out)
{
    size_t used = 0;
    for (const char *c = choices; *c && used + 4 < n_out; c++) {
        if (*c != '|') {
            out[used++] = *c;
            continue;
        }
        const char *separator = strchr(c + 1, '|') ? ", " : " or ";
        memcpy(out + used, separator, strlen(separator));
        used += strlen(separator);
    }
    out[used] = '\0';
    return out;
}

/* The word of choices that value most likely means, in out. NULL: none. */
static const char *nearest_choice(const char *choices, const char *value, char *out, size_t n_out)
{
    Nearest near = { value, 0, 0 };
    snprintf(out, n_out, "%s", choices);
    for (char *word = out, *end; word; word = end ? end + 1 : NULL) {
        end = strchr(word, '|');
        if (end)
            *end = '\0';
        nearest_offer(&near, word);
    }
    return nearest_answer(&near);
}

/* Types that people try with --type although no command makes them. */
#define GGUF_TYPES                                                                                 \
    "q8_0|q4_0|q4_1|q5_0|q5_1|q2_k|q3_k|q4_k|q5_k|q6_k|iq4_nl|iq4_xs|mxfp4|"         \
    "q4_k_m|q4_k_s|q5_k_m|q5_k_s"

/* Fails unless value is one of the choices. name ("--isa") is for the message. */
static bool check_choice(const char *name, const char *choices, const char *value,
                         tblock_error *err)
{
    char all[256], words[256];
    if (choice_has(choices, value))
        return true;
    snprintf(words, sizeof words, "%s", value);
    for (char *c = words; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + ('a' - 'A') : *c);
    if (choice_has(choices, "q4") && choice_has(GGUF_TYPES, words))
        return fail(err, TBLOCK_USAGE,
                    "%s: expected %s, found '%s', which llama.cpp's tools make: convert a .gguf, "
                    "or take %s, the nearest here",
                    name, spell_choices(choices, all, sizeof all), value,
                    words[0] == 'q' && words[1] >= '6' ? "q8" : "q4");
    const char *meant = nearest_choice(choices, value, words, sizeof words);
    return fail(err, TBLOCK_USAGE, "%s: expected %s, found '%s'%s%s%s", name,
                    spell_choices(choices, all, sizeof all), value, meant ? "; did you mean " : "",
                    meant ? meant : "", meant ? "?" : "");
}

/* ---- Storing --------------------------------------------------------------------------------- */

static bool set_number(const Option *o, void *at, const char *value, tblock_error *err)
{
    long long integer = 0;
    double    number = 0;
    bool      whole = o->kind == OPT_INT;

    bool good = whole ? parse_integer(value, &integer) : number_read(value, &number);
    if (whole)
        number = (double)integer;
    if (!good || number < o->min || number > o->max)
        return fail(err, TBLOCK_USAGE, "--%s: expected %s from %.15g to %.15g, found '%s'", o->name,
                        whole ? "an integer" : "a number", o->min, o->max, value);
    if (whole)
        *(int *)at = (int)integer;
    else if (o->kind == OPT_SINGLE)
        *(float *)at = (float)number;
    else
        *(double *)at = number;
    return true;
}

static bool add_text(TextList *list, const char *value, tblock_error *err)
{
    const char **texts = realloc(list->texts, (list->n + 1) * sizeof *texts);
    if (!texts)
        return no_memory(NULL, err);
    list->texts = texts;
    list->texts[list->n++] = value;
    return true;
}

static bool set_ids(const Option *o, IdList *list, const char *value, tblock_error *err)
{
    char found[24];
    free(list->ids);
    *list = (IdList){ .given = true };
    /* An id and its separator are at least two bytes. */
    list->ids = malloc((strlen(value) / 2 + 1) * sizeof *list->ids);
    if (!list->ids)
        return no_memory(NULL, err);
    return parse_ids(value, list, found)
        || fail(err, TBLOCK_USAGE, "--%s: expected token ids such as 1,2,3, found '%s'", o->name,
                found);
}

static bool add_bias(const Option *o, BiasList *list, const char *value, tblock_error *err)
{
    const char *equals = strchr(value, '=');
    char        id[24];
    long long   integer = -1;
    double      number  = 0;
    snprintf(id, sizeof id, "%.*s", equals ? (int)(equals - value) : 0, value);
    if (!equals || equals - value > 20 || !parse_integer(id, &integer) || integer < 0
        || integer > INT32_MAX || !number_read(equals + 1, &number) || number < o->min
        || number > o->max)
        return fail(err, TBLOCK_USAGE,
                    "--%s: expected a token id, = and a number from %.15g to %.15g, found '%s'",
                    o->name, o->min, o->max, value);
    int32_t *ids = realloc(list->ids, (list->n + 1) * sizeof *ids);
    list->ids    = ids ? ids : list->ids;
    float *bias  = realloc(list->bias, (list->n + 1) * sizeof *bias);
    list->bias   = bias ? bias : list->bias;
    if (!ids || !bias)
        return no_memory(NULL, err);
    ids[list->n]    = (int32_t)integer;
    bias[list->n++] = (float)number;
    return true;
}

static bool option_set(const Option *o, void *base, const char *value, tblock_error *err)
{
    void *at = (char *)base + o->where;
    char  name[64];

    /* Other kinds have an argument in their table. */
    assert(value || o->kind == OPT_FLAG || o->kind == OPT_NOW);
    switch (o->kind) {
    case OPT_FLAG:
    case OPT_NOW:
        *(bool *)at = true;
        return true;
    case OPT_INT:
    case OPT_SINGLE:
    case OPT_FLOAT:
        return set_number(o, at, value, err);
    case OPT_TEXT:
        *(const char **)at = value;
        return true;
    case OPT_TEXTS:
        if (!*value)
            return fail(err, TBLOCK_USAGE, "--%s: expected at least one character, found ''",
                        o->name);
        return add_text(at, value, err);
    case OPT_CHOICE:
        *(const char **)at = value;
        snprintf(name, sizeof name, "--%s", o->name);
        return check_choice(name, o->argument, value, err);
    case OPT_SEED:
        return parse_seed(value, at)
            || fail(
                   err, TBLOCK_USAGE,
                   "--%s: expected an integer from 0 to 18446744073709551615 or random, found '%s'",
                   o->name, value);
    case OPT_IDS:
        return set_ids(o, at, value, err);
    case OPT_BIASES:
        return add_bias(o, at, value, err);
    }
    return true;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool set_defaults(const Syntax *syntax, void *args, tblock_error *err)
{
    EACH_OPTION(o, g, syntax) {
        char *base = GROUP_AT(args, g);
        if (o->kind == OPT_FLOAT)
            *(double *)(void *)(base + o->where) = NAN;
        if (o->fallback && o->fallback != OPT_REQUIRED && !option_set(o, base, o->fallback, err))
            return false;
    }
    return true;
}

static bool is_missing(const Option *o, const void *base)
{
    return o->fallback == OPT_REQUIRED && !*(char *const *)((const char *)base + o->where);
}

bool operand_is_list(const Operand *o)
{
    size_t n = strlen(o->name);
    return n > 3 && strcmp(o->name + n - 3, "...") == 0;
}

static bool check_required(const Syntax *syntax, size_t n_operands, void *args, tblock_error *err)
{
    const Operand *operand = &syntax->operands[n_operands];
    if (operand->name && !operand->optional)
        return fail(err, TBLOCK_USAGE, "%s: expected %s; see tblock help %s", syntax->command,
                    operand->name, syntax->command);
    EACH_OPTION(o, g, syntax)
        if (is_missing(o, GROUP_AT(args, g)))
            return fail(err, TBLOCK_USAGE, "%s: expected --%s %s; see tblock help %s",
                        syntax->command, o->name, o->argument, syntax->command);
    return true;
}

static bool unknown_option(const Syntax *syntax, const char *typed, size_t n, tblock_error *err)
{
    char    word[64];
    Nearest near = { word, 0, 0 };
    snprintf(word, sizeof word, "%.*s", (int)(n < 64 ? n : 64), typed);
    EACH_OPTION(o, g, syntax)
        nearest_offer(&near, o->name);
    for (const Alias *a = alias_next(syntax, NULL); a; a = alias_next(syntax, a))
        nearest_offer(&near, a->name);
    const char *meant = nearest_answer(&near), *hint = alias_hint(typed, n);
    if (hint)
        return fail(err, TBLOCK_USAGE, "%s: unknown option --%s; %s", syntax->command, word, hint);
    if (meant)
        return fail(err, TBLOCK_USAGE, "%s: unknown option --%s; did you mean --%s?",
                    syntax->command, word, meant);
    return fail(err, TBLOCK_USAGE, "%s: unknown option --%s; see tblock help %s", syntax->command,
                word, syntax->command);
}

typedef struct ArgReader {
    const Syntax *syntax;
    char        **argv;
    int           argc, i; /* i: the next argument to read */
    size_t        n_operands;
    void         *args;
    const Option *now;
} ArgReader;

/* Gives option o of group g its value: the text attached to it, or the next argument. */
static bool take_value(ArgReader *r, const Option *o, const OptionGroup *g, const char *attached,
                       tblock_error *err)
{
    if (o->argument && !attached) {
        if (r->i == r->argc)
            return fail(err, TBLOCK_USAGE, "--%s: expected a value (%s), found the end of the line",
                        o->name, o->argument);
        attached = r->argv[r->i++];
    }
    if (o->kind == OPT_NOW)
        r->now = o;
    return option_set(o, GROUP_AT(r->args, g), attached, err);
}

/* -m MODEL: the first operand, which then is no operand of the line. */
static bool take_model(ArgReader *r, const char *attached, tblock_error *err)
{
    const char **model = (void *)((char *)r->args + r->syntax->operands->where);
    if (!attached && r->i == r->argc)
        return fail(err, TBLOCK_USAGE, "--model: expected a value (MODEL), found the end of the "
                                       "line");
    attached = attached ? attached : r->argv[r->i++];
    if (*model)
        return fail(err, TBLOCK_USAGE, "--model: expected one MODEL, before other arguments; found "
                                       "'%s' before '%s'", *model, attached);
    *model        = attached;
    r->n_operands = 1;
    return true;
}

static bool read_long(ArgReader *r, const char *arg, tblock_error *err)
{
    char        typed[ALIAS_BYTES];
    size_t      n     = strcspn(arg, "=");
    const char *value = arg[n] ? arg + n + 1 : NULL;
    const char *name  = alias_read(r->syntax, arg, n, typed);

    if (strcmp(name, "MODEL") == 0)
        return take_model(r, value, err);
    EACH_OPTION(o, g, r->syntax) {
        if (strcmp(o->name, name) != 0)
            continue;
        if (value && !o->argument)
            return fail(err, TBLOCK_USAGE, "--%s: expected no value, found '%s'", o->name, value);
        return take_value(r, o, g, value, err);
    }
    return unknown_option(r->syntax, arg, n, err);
}

/* -temp would mean -t with the value emp, which nobody wants. */
static bool is_long_name(const ArgReader *r, const char *letters)
{
    char        typed[ALIAS_BYTES];
    const char *name = alias_read(r->syntax, letters, strlen(letters), typed);
    EACH_OPTION(o, g, r->syntax)
        if (letters[1] && strcmp(o->name, name) == 0)
            return true;
    return false;
}

/* Letters that had another meaning before each letter meant the same in all commands. */
static const struct { const char *command; char letter; const char *name; } former[] = {
    { "train", 'c', "config" }, { "train", 'n', "steps" }, { "bench", 'p', "prefill" },
};

static const char *former_name(const Syntax *syntax, char letter)
{
    for (size_t i = 0; i < sizeof former / sizeof *former; i++)
        if (former[i].letter == letter && strcmp(former[i].command, syntax->command) == 0)
            return former[i].name;
    return NULL;
}

static bool unknown_letter(const Syntax *syntax, const char *s, tblock_error *err)
{
    const char *name = former_name(syntax, *s), *hint = alias_hint(s, strlen(s));
    uint32_t    code;
    int         n = *s ? utf8_decode(s, strlen(s), &code) : 0;
    if (name)
        return fail(err, TBLOCK_USAGE, "%s: -%c is no longer an option; use --%s", syntax->command,
                    *s, name);
    if (hint)
        return fail(err, TBLOCK_USAGE, "%s: unknown option -%s; %s", syntax->command, s, hint);
    return fail(err, TBLOCK_USAGE, "%s: unknown option -%.*s; see tblock help %s", syntax->command,
                n > 0 ? n : 1, s, syntax->command);
}

/* Takes the value of a letter such as -c. If it is wrong and the letter had another meaning
 * before, the message says so. */
static bool take_letter_value(ArgReader *r, const Option *o, const OptionGroup *g,
                              const char *attached, tblock_error *err)
{
    const char *name = former_name(r->syntax, o->letter);
    if (take_value(r, o, g, attached, err))
        return true;
    tblock_error why = *err;
    return name && fail(err, why.status, "%s; -%c now means --%s, and the old -%c is --%s", why.msg,
                        o->letter, o->name, o->letter, name);
}

static bool read_letters(ArgReader *r, const char *letters, tblock_error *err)
{
    const char *hint = alias_hint(letters, strlen(letters));
    if (hint && letters[1]) /* -ngl would mean -n with the value gl */
        return fail(err, TBLOCK_USAGE, "%s: unknown option -%s; %s", r->syntax->command, letters,
                    hint);
    if (is_long_name(r, letters))
        return fail(err, TBLOCK_USAGE, "%s: unknown option -%s; did you mean --%s?",
                    r->syntax->command, letters, letters);
    for (const char *s = letters; *s && !r->now; s++) {
        const Option      *known = NULL;
        const OptionGroup *of    = NULL;
        EACH_OPTION(o, g, r->syntax)
            if (!known && o->letter == *s)
                known = o, of = g;
        for (const Alias *a = alias_next(r->syntax, NULL); !known && a;
             a = alias_next(r->syntax, a))
            if (a->letter == *s)
                return take_model(r, s[1] ? s + 1 : NULL, err);
        if (!known)
            return unknown_letter(r->syntax, s, err);
        if (known->argument)
            return take_letter_value(r, known, of, s[1] ? s + 1 : NULL, err);
        if (!take_value(r, known, of, NULL, err))
            return false;
    }
    return true;
}

/* One argument too many: names the option that it was probably meant for, if the tables know it. */
static bool surplus_argument(const ArgReader *r, const char *arg, tblock_error *err)
{
    const char *hint = r->syntax->operands[r->n_operands].help, *text = NULL;
    bool        has_text = false, wants_output = false;
    char        shown[80], advice[64] = "", why[160];
    EACH_OPTION(o, g, r->syntax) {
        bool given = o->kind == OPT_TEXT
            && *(const char *const *)((const char *)GROUP_AT(r->args, g) + o->where);
        bool takes_text = o->argument && strcmp(o->argument, "TEXT") == 0;
        if (takes_text && (strcmp(o->name, "prompt") == 0 || strcmp(o->name, "text") == 0)) {
            text = o->name;
            has_text = given;
        }
        wants_output |= !given && strcmp(o->name, "output") == 0;
    }
    if (has_text)
        snprintf(advice, sizeof advice, "put quotes around a --%s of several words", text);
    else if (text)
        snprintf(advice, sizeof advice, "write --%s before %s", text,
                 wants_output ? "a text" : "it");
    if (hint)
        snprintf(why, sizeof why, ": %s", hint);
    else if (text || wants_output)
        snprintf(why, sizeof why, ": %s%s%s", advice, text && wants_output ? ", or " : "",
                 wants_output ? "write -o before the name of the output file" : "");
    else
        snprintf(why, sizeof why, "; see tblock help %s", r->syntax->command);
    printable_text(shown, sizeof shown, arg, strlen(arg));
    return fail(err, TBLOCK_USAGE, "%s: unexpected argument '%s'%s", r->syntax->command, shown,
                why);
}

static bool take_operand(ArgReader *r, const char *arg, tblock_error *err)
{
    const Operand *operand = &r->syntax->operands[r->n_operands];
    if (r->n_operands && operand_is_list(operand - 1))
        return add_text((TextList *)((char *)r->args + operand[-1].where), arg, err);
    if (!operand->name)
        return surplus_argument(r, arg, err);
    if (strchr(operand->name, '|') && !check_choice(r->syntax->command, operand->name, arg, err))
        return false;
    r->n_operands++;
    if (operand_is_list(operand))
        return take_operand(r, arg, err);
    *(const char **)((char *)r->args + operand->where) = arg;
    return true;
}

bool options_read(const Syntax *syntax, int argc, char **argv, void *args, const Option **now,
                  tblock_error *err)
{
    ArgReader r = { .syntax = syntax, .argv = argv, .argc = argc, .args = args };
    bool   only_operands = false;

    *now = NULL;
    if (!set_defaults(syntax, args, err))
        return false;
    while (r.i < argc && !r.now) {
        const char *arg = argv[r.i++];
        if (!only_operands && strcmp(arg, "--") == 0) {
            only_operands = true;
        } else if (!only_operands && arg[0] == '-' && arg[1]) {
            if (!(arg[1] == '-' ? read_long(&r, arg + 2, err) : read_letters(&r, arg + 1, err)))
                return false;
        } else if (!take_operand(&r, arg, err)) {
            return false;
        }
    }
    *now = r.now;
    return r.now || check_required(syntax, r.n_operands, args, err);
}

void options_free(const Syntax *syntax, void *args)
{
    EACH_OPTION(o, g, syntax) {
        void *at = (char *)GROUP_AT(args, g) + o->where;
        if (o->kind == OPT_TEXTS)
            free(((TextList *)at)->texts);
        else if (o->kind == OPT_IDS)
            free(((IdList *)at)->ids);
        else if (o->kind == OPT_BIASES)
            free(((BiasList *)at)->ids), free(((BiasList *)at)->bias);
    }
    for (const Operand *o = syntax->operands; o->name; o++)
        if (operand_is_list(o))
            free(((TextList *)((char *)args + o->where))->texts);
}
