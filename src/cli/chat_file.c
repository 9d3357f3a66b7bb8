/* cli/chat_file.c: reads conversations and templates from files for the library. */
#include "chat_session.h"

#include "command.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/nearest.h"

enum { MOST_TEMPLATE = INPUT_MB, MOST_TOOLS = 16 * INPUT_MB };

bool chat_file_read(const char *path, tblock_chat_message **messages, size_t *n, tblock_error *err)
{
    TextOut text = { 0 };
    bool  good = input_read(path, INPUT_PROMPT, &text, err)
        && tblock_chat_from_json(text.text ? text.text : "", text.n, path, messages, n, err);
    free(text.text);
    return good;
}

/* ---- Templates ------------------------------------------------------------------------------- */

#define AT(field) offsetof(TemplateOptions, field)
const Option template_options[] = {
    { "chat-format", 0, "NAME|FILE", OPT_TEXT, AT(format), 0, 0, NULL,
      "the chat template: a built-in one (llama3, chatml, ...; an unknown name lists them) or a "
      "file in Jinja; default: the model's own" },
    { "template-args", 0, "JSON", OPT_TEXT, AT(args), 0, 0, NULL,
      "variables for the template, as in '{\"enable_thinking\": false}'" },
    { "tools", 0, "FILE", OPT_TEXT, AT(tools), 0, 0, NULL,
      "a JSON array of the tools that the model may call" },
    { "date", 0, "YYYY-MM-DD", OPT_TEXT, AT(date), 0, 0, NULL,
      "today's date for templates that ask for it; without it they have none" },
    { 0 },
};

static bool is_known(const char *name)
{
    const char *known;
    for (size_t i = 0; (known = tblock_chat_known(i)); i++)
        if (strcmp(known, name) == 0)
            return true;
    return false;
}

static bool unknown(const char *name, tblock_error *err)
{
    TextOut     o    = { 0 };
    Nearest     near = { name, 0, 0 };
    const char *known, *meant;
    for (size_t i = 0; (known = tblock_chat_known(i)); i++) {
        text_out(&o, "%s%s", i ? ", " : "", known);
        nearest_offer(&near, known);
    }
    char *names = text_out_take(&o, err);
    meant       = nearest_answer(&near);
    if (names)
        fail(err, TBLOCK_USAGE, "--chat-format: expected a file or one of %s, found '%s'%s%s%s",
             names, name, meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
    free(names);
    return false;
}

bool template_read(const char *format, TextOut *text, const char **out, tblock_error *err)
{
    *out = format;
    if (!format || is_known(format))
        return true;
    if (strcmp(format, "-") != 0 && !path_exists(format))
        return unknown(format, err);
    if (!input_read(format, MOST_TEMPLATE, text, err) || !text_out_add(text, "", 1, err))
        return false;
    *out = text->text;
    return strchr(text->text, '{')
        || fail(err, TBLOCK_INPUT, "%s: expected a chat template, found a text without a brace",
                format);
}

tblock_chat *template_open(const tblock_model *m, const TemplateOptions *o, tblock_error *err)
{
    TextOut             text = { 0 }, tools = { 0 };
    tblock_chat        *c;
    tblock_chat_options opt = { .args = o->args, .date = o->date };
    bool good = template_read(o->format, &text, &opt.format, err);
    if (good && o->tools)
        good = input_read(o->tools, MOST_TOOLS, &tools, err) && text_out_add(&tools, "", 1, err);
    opt.tools = tools.text;
    c = good ? tblock_chat_new(m, &opt, err) : NULL;
    text_out_free(&text);
    text_out_free(&tools);
    return c;
}

/* ---- Prompts --------------------------------------------------------------------------------- */

bool prompt_show(const tblock_chat *c, const tblock_chat_message *messages, size_t n,
                 tblock_error *err)
{
    int32_t *ids = NULL;
    char    *text = NULL;
    size_t   n_ids, n_bytes;
    TextOut  o = { 0 };
    bool     good = tblock_chat_render(c, messages, n, true, &ids, &n_ids, err)
        && tblock_chat_text(c, messages, n, true, &text, &n_bytes, err);
    if (good) {
        json_out(&o, "{");
        json_out_member(&o, "text", text, n_bytes);
        json_out(&o, "ids:");
        json_out_ints(&o, ids, n_ids);
        good = json_out(&o, "}\n") || no_memory(NULL, err);
    }
    if (good)
        output_write(o.text, o.n);
    text_out_free(&o);
    tblock_free(ids);
    tblock_free(text);
    return good && output_flush(err);
}
