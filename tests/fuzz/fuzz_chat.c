/* tests/fuzz/fuzz_chat.c: any bytes as an entry `chat`, whose template can then be read; as the
 * variables of a template; and as a conversation. */
#include "fuzz.h"
#include "chat/chat_format.h"
#include "chat/chat_template.h"
#include "chat/jinja.h"

/* The template that stands for the format can be read. */
static void use_entry(const char *json, size_t n)
{
    Error  e = { 0 };
    char  *text = chat_entry_template(json, n, "format", &e);
    Jinja *t = text ? jinja_parse(text, strlen(text), "template", &e) : NULL;
    claim(t != NULL);
    jinja_free(t);
    free(text);
}

static void use_format(const char *json, size_t n)
{
    Error       e = { 0 };
    ChatFormat *f = chat_format_parse(json, n, "format", &e);
    said(f != NULL, &e);
    if (f) {
        const char *const *stop;
        size_t             n_stops = chat_format_stops(f, &stop);
        for (size_t i = 0; i < n_stops; i++)
            touch(stop[i], strlen(stop[i]));
        claim(chat_format_name(f) != NULL && (int)chat_format_system(f) >= 0);
        use_entry(json, n);
    }
    chat_format_free(f);
}

/* The bytes as variables and tools, and in a conversation of a template that shows all it sees. */
static void use_variables(const char *text)
{
    static const char all[] = "{{ bos_token }}{{ tools }}{{ documents }}{% for m in messages %}"
                              "{{ m.role }}{{ m | tojson }}{% endfor %}{{ add_generation_prompt }}";
    Error               e = { 0 };
    ChatTemplateOptions o = { .text = all, .what = "template", .bos = "<s>", .eos = "" };
    for (int i = 0; i < 3; i++) {
        o.args    = i == 0 ? text : NULL;
        o.tools   = i == 1 ? text : NULL;
        o.special = i == 2 ? text : NULL;
        ChatTemplate *t = chat_template_new(&o, &e);
        said(t != NULL, &e);
        chat_template_free(t);
    }
    o.special = NULL;
    ChatTemplate  *t = chat_template_new(&o, &e);
    const ChatTurn turn[] = { { .role = "user", .text = text, .n = strlen(text) },
                              { .role = "tool", .json = text } };
    Conversation   c = { 0 };
    claim(t != NULL);
    for (size_t n = 1; n <= 2; n++) {
        JinjaText out = { 0 };
        if (said(conversation_new(t, turn, n, &c, &e), &e)
            && said(conversation_render(&c, n, n == 1, &out, &e), &e))
            touch(out.text, out.n);
        jinja_text_free(&out);
        conversation_free(&c);
    }
    chat_template_free(t);
}

static void use_conversation(const char *text, size_t n)
{
    Error                e = { 0 };
    tblock_chat_message *m = NULL;
    size_t               n_messages;
    char                *json = NULL;
    if (said(tblock_chat_from_json(text, n, "conversation", &m, &n_messages, &e), &e)) {
        for (size_t i = 0; i < n_messages; i++)
            touch(m[i].text, m[i].n_bytes);
        claim(tblock_chat_to_json(m, n_messages, &json, &e));
    }
    tblock_free(json);
    tblock_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = exact_copy(bytes, n), *ended = calloc(1, n + 1);
    claim(ended != NULL);
    if (n)
        memcpy(ended, bytes, n);
    use_format(text, n);
    use_variables(ended);
    use_conversation(text, n);
    free(ended);
    free(text);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "chat"); }
#endif
