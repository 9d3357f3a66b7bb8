/* cli/man_page.c: prints the manual page. Option groups that several commands take are described
 * once, after the commands. */
#include "help.h"

#include "command.h"

#include <stdio.h>
#include <string.h>

/* ---- Text in roff: special characters are spelled so that they can be copied from the page
 * ---- */

static const char *roff_name(char c)
{
    switch (c) {
    case '\\': return "\\e";
    case '-':  return "\\-";
    case '\'': return "\\(aq";
    case '"':  return "\\(dq";
    case '`':  return "\\(ga";
    case '^':  return "\\(ha";
    case '~':  return "\\(ti";
    }
    return NULL;
}

static void put(const char *text)
{
    for (; *text; text++) {
        const char *name = roff_name(*text);
        output_write(name ? name : text, name ? strlen(name) : 1);
    }
}

/* Prints text that roff fills, and a newline. Cuts it into lines at words, which must not start
 * with a dot. */
static void put_text(const char *text)
{
    enum { WIDTH = 72 };
    int at = 0;
    while (*text) {
        char word[256];
        int  n = (int)strcspn(text, " ");
        snprintf(word, sizeof word, "%.*s", n, text);
        output_format("%s%s",
                      at == 0              ? ""
                          : at + n > WIDTH ? "\n"
                                           : " ",
                      *word == '.' ? "\\&" : "");
        put(word);
        at = at + n > WIDTH ? n : at + n + 1;
        text += n + (text[n] == ' ');
    }
    output_format("\n");
}

static void put_paragraphs(const char *text)
{
    const char *end;
    for (bool first = true; *text; text = end + (*end != '\0'), first = false) {
        char paragraph[4096];
        end = text + strcspn(text, "\n");
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)(end - text), text);
        output_format("%s", first ? "" : ".PP\n");
        put_text(paragraph);
    }
}

static void section(const char *title) { output_format(".SH %s\n", title); }

static void put_bold(const char *text)
{
    output_format("\\fB");
    put(text);
    output_format("\\fR");
}

static void put_italic(const char *text)
{
    output_format("\\fI");
    put(text);
    output_format("\\fR");
}

/* ---- Options --------------------------------------------------------------------------------- */

static void put_option(const Option *o)
{
    char value[128], name[64], line[1024];
    output_format(".TP\n");
    if (o->letter) {
        snprintf(name, sizeof name, "-%c", o->letter);
        put_bold(name);
        output_format(", ");
    }
    snprintf(name, sizeof name, "--%s", o->name);
    put_bold(name);
    if (o->argument) {
        output_format(" ");
        put_italic(o->argument);
    }
    output_format("\n");
    help_describe_value(o, value, sizeof value);
    snprintf(line, sizeof line, "%s%s", o->help, value);
    put_text(line);
}

static void put_options(const OptionGroup *g)
{
    for (const Option *o = g->options; o->name; o++)
        put_option(o);
}

static bool is_shared(const Option *options)
{
    const Command *first;
    return help_takers(options, &first) > 1;
}

/* Prints the title of a group in bold: "Prompt: one of ..." is Prompt. */
static void put_title(const char *title)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(title, ":"), title);
    put_bold(word);
}

/* Prints "Also the options under Prompt, Computing and General below." */
static void put_shared_titles(const Syntax *s)
{
    size_t left = 0, n = 0;
    for (const OptionGroup *g = s->groups; g->options; g++)
        left += is_shared(g->options);
    for (const OptionGroup *g = s->groups; g->options; g++)
        if (is_shared(g->options)) {
            output_format("%s",
                          n++ == 0        ? ".PP\nAlso the options under\n"
                              : left == 1 ? " and\n"
                                          : ",\n");
            put_title(g->title);
            left--;
        }
    output_format("%s", n ? "\nbelow.\n" : "");
}

/* ---- Commands -------------------------------------------------------------------------------- */

static void put_examples(const Command *c)
{
    output_format(".PP\n\\fBExamples\\fR\n");
    for (const Example *e = c->examples; e->line; e++) {
        output_format(".TP\n");
        put(e->line);
        output_format("\n");
        put_text(e->what);
    }
}

static void put_operands(const Syntax *s, const char *before, const char *after)
{
    for (const Operand *o = s->operands; o->name; o++)
        output_format(o->optional ? "%s[\\fI%s\\fR]%s" : "%s\\fI%s\\fR%s", before, o->name, after);
}

/* Prints the summary as a sentence. */
static void put_summary(const char *summary)
{
    char line[256];
    snprintf(line, sizeof line, "%s.", summary);
    if (line[0] >= 'a' && line[0] <= 'z')
        line[0] = (char)(line[0] - 'a' + 'A');
    put_text(line);
}

static void put_command(const Command *c)
{
    const Syntax *s = &c->syntax;
    output_format(".SS tblock %s", s->command);
    put_operands(s, " ", "");
    output_format(" [options]\n");
    put_summary(c->summary);
    output_format(".PP\n");
    put_paragraphs(c->text);
    for (const Operand *o = s->operands; o->name; o++) {
        output_format(".TP\n");
        put_italic(o->name);
        output_format("\n");
        put_text(o->help);
    }
    for (const OptionGroup *g = s->groups; g->options; g++)
        if (!is_shared(g->options)) {
            output_format(".PP\n");
            put_title(g->title);
            output_format("\n");
            put_options(g);
        }
    put_shared_titles(s);
    put_examples(c);
}

static void put_shared_groups(void)
{
    const Command *first = NULL;
    section("OPTIONS SHARED BY SEVERAL COMMANDS");
    for (const Command *const *c = commands; *c; c++)
        for (const OptionGroup *g = (*c)->syntax.groups; g->options; g++)
            if (help_takers(g->options, &first) > 1 && first == *c) {
                output_format(".SS ");
                put(g->title);
                output_format("\n");
                put_options(g);
            }
}

static void put_aliases(void)
{
    char also[1024];
    section("OTHER NAMES OF OPTIONS");
    put_text("Commands that have these options also read the names of other programs, and _ for - "
             "in a name:");
    put_text(alias_list(NULL, also, sizeof also));
}

static void put_facts(const char *title, const Fact *fact)
{
    section(title);
    for (; fact->name; fact++) {
        output_format(".TP\n");
        put_bold(fact->name);
        output_format("\n");
        put_text(fact->what);
    }
}

void man_page_print(void)
{
    output_format(
        ".\\\" printed by: tblock help --man\n.TH TBLOCK 1 \"\" \"tblock %s\" \"User Commands\"\n",
        tblock_version());
    section("NAME");
    output_format("tblock \\-\n");
    put_text(help_summary);
    section("SYNOPSIS");
    for (const Command *const *c = commands; *c; c++) {
        output_format("%s.B tblock %s\n", c == commands ? "" : ".br\n", (*c)->syntax.command);
        put_operands(&(*c)->syntax, "", "\n");
        output_format("[options]\n");
    }
    section("DESCRIPTION");
    put_paragraphs(help_description);
    section("COMMANDS");
    for (const Command *const *c = commands; *c; c++)
        put_command(*c);
    put_shared_groups();
    put_aliases();
    put_facts("EXIT STATUS", help_statuses);
    put_facts("ENVIRONMENT", help_environment);
}
