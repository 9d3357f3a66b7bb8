/* Writes the template for an old entry `chat` of a model file: its forms become expressions, and
 * what it rejects raises an error. */
#include <string.h>

#include "base/text.h"
#include "chat/chat_format.h"
#include "chat/chat_template.h"

/* Writes a Jinja string. Line ends are escaped, since Jinja would turn all of them into "\n". */
static void out_quoted(TextOut *o, const char *s, size_t n)
{
    text_out(o, "\"");
    for (size_t i = 0; i < n; i++) {
        bool line_end = s[i] == '\n' || s[i] == '\r';
        char shown = s[i] == '\n' ? 'n' : s[i] == '\r' ? 'r' : s[i];
        if (line_end || s[i] == '"' || s[i] == '\\')
            text_out(o, "\\");
        text_out_bytes(o, &shown, 1);
    }
    text_out(o, "\"");
}

/* A form prints its parts joined by ~; a pair of {trim} and {/trim} is a filter of the parts
 * between them. The variables content, system, bos_token and eos_token are its placeholders. */
static void out_form(TextOut *o, const ChatFormat *f, FormName name)
{
    static const char *const words[] = { [FORM_CONTENT] = "content", [FORM_SYSTEM] = "system",
                                         [FORM_BOS] = "bos_token",   [FORM_EOS] = "eos_token",
                                         [FORM_TRIM] = "(" };
    const ChatForm *form = &f->form[name];
    bool            first = true; /* of the joined parts */
    for (size_t i = 0; i < form->n_parts; i++) {
        const FormPart *p = &form->part[i];
        if (p->kind == FORM_TRIM_END) {
            text_out(o, first ? "\"\") | trim" : ") | trim");
        } else {
            text_out(o, i == 0 ? "  {{- " : first ? "" : " ~ ");
            if (p->kind == FORM_TEXT)
                out_quoted(o, p->text, p->n);
            else
                text_out(o, "%s", words[p->kind]);
        }
        first = p->kind == FORM_TRIM;
    }
    text_out(o, form->n_parts ? " }}\n" : "");
}

/* Raises this error if the condition holds; NULL: always. */
static void out_refusal(TextOut *o, const ChatFormat *f, const char *condition, const char *reason)
{
    TextOut text = { 0 };
    text_out(&text, "chat format %s: %s", f->name, reason);
    if (condition)
        text_out(o, "{%%- if %s %%}", condition);
    text_out(o, "{{- raise_exception(");
    out_quoted(o, text.text, text.failed ? 0 : text.n);
    text_out(o, ") }}%s\n", condition ? "{% endif %}" : "");
    o->failed |= text.failed;
    text_out_free(&text);
}

/* Sets system, the system message or none, and turns, the other messages. */
static void out_begin(TextOut *o, const ChatFormat *f)
{
    text_out(o, "{%%- if messages and messages[0].role == \"system\" %%}\n"
                "{%%- set system, turns = messages[0].content, messages[1:] %%}\n");
    if (chat_format_system(f) == CHAT_SYSTEM_NONE)
        out_refusal(o, f, NULL, "it has no place for a system text");
    out_refusal(o, f, "system is not string", "expected the system text as one text");
    text_out(o, "{%%- else %%}\n{%%- set system, turns = ");
    if (f->default_system)
        out_quoted(o, f->default_system, strlen(f->default_system));
    text_out(o, "%s, messages %%}\n{%%- endif %%}\n", f->default_system ? "" : "none");
    out_refusal(o, f, "not turns", "expected a message of the user, found none");
    out_refusal(o, f, "tools", "it has no place for tools");
    out_form(o, f, CHAT_BEGIN);
    if (f->form[CHAT_SYSTEM_TURN].n_parts) {
        text_out(o, "{%%- if system is not none %%}\n");
        out_form(o, f, CHAT_SYSTEM_TURN);
        text_out(o, "{%%- endif %%}\n");
    }
}

/* The forms of a user's turn: the one with the system message, the first, the others. */
static void out_user(TextOut *o, const ChatFormat *f)
{
    const char *word = "if";
    if (f->form[CHAT_USER_SYSTEM].given) {
        text_out(o, "{%%- if system is not none and %s %%}\n",
                 f->system_at_last ? "loop.last" : "not seen.user");
        out_form(o, f, CHAT_USER_SYSTEM);
        word = "elif";
    }
    if (f->form[CHAT_USER_FIRST].given) {
        text_out(o, "{%%- %s not seen.user %%}\n", word);
        out_form(o, f, CHAT_USER_FIRST);
    }
    bool choice = f->form[CHAT_USER_SYSTEM].given || f->form[CHAT_USER_FIRST].given;
    text_out(o, choice ? "{%%- else %%}\n" : "");
    out_form(o, f, CHAT_USER_TURN);
    text_out(o, choice ? "{%%- endif %%}\n" : "");
    text_out(o, "{%%- set seen.user = true %%}\n");
}

static void out_assistant(TextOut *o, const ChatFormat *f)
{
    out_refusal(o, f, "message.tool_calls", "it has no place for tool calls");
    if (f->thinking_end) {
        size_t n = strlen(f->thinking_end);
        text_out(o, "{%%- if ");
        out_quoted(o, f->thinking_end, n);
        text_out(o, " in content %%}{%% set content = content.rpartition(");
        out_quoted(o, f->thinking_end, n);
        text_out(o, ")[2]%s %%}{%% endif %%}\n", f->thinking_strip ? ".lstrip(\"\\n\")" : "");
    }
    out_form(o, f, CHAT_ASSISTANT_TURN);
}

static void out_turns(TextOut *o, const ChatFormat *f)
{
    text_out(o, "{%%- set seen = namespace(user=false) %%}\n{%%- for message in turns %%}\n"
                "{%%- set content = message.content %%}\n");
    if (f->alternate)
        out_refusal(o, f, "message.role != (\"assistant\" if loop.index0 % 2 else \"user\")",
                    "roles must alternate, user and assistant, after the system text");
    out_refusal(o, f, "content is not string", "expected the content of a message as one text");
    text_out(o, "{%%- if message.role == \"user\" %%}\n");
    out_user(o, f);
    text_out(o, "{%%- elif message.role == \"assistant\" %%}\n");
    out_assistant(o, f);
    text_out(o, "{%%- else %%}\n");
    out_refusal(o, f, NULL, "expected turns of user and assistant after at most one system text");
    text_out(o, "{%%- endif %%}\n{%%- endfor %%}\n{%%- if add_generation_prompt %%}\n");
    out_form(o, f, CHAT_OPEN);
    text_out(o, "{%%- else %%}\n");
    out_form(o, f, CHAT_CLOSE);
    text_out(o, "{%%- endif %%}\n");
}

char *chat_entry_template(const char *json, size_t n_bytes, const char *what, Error *err)
{
    TextOut     o = { 0 };
    ChatFormat *f = chat_format_parse(json, n_bytes, what, err);
    if (!f)
        return NULL;
    out_begin(&o, f);
    out_turns(&o, f);
    chat_format_free(f);
    return text_out_take(&o, err);
}
