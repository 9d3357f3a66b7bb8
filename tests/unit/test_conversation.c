/* What a template sees of a conversation, and what renderings show of a template. Whole
 * conversations are in tests/text/test_chat_templates.py. */
#include "test.h"
#include "chat/chat_template.h"

static Error err;

static ChatTemplate *template_of(const char *text, const char *special, const char *args)
{
    ChatTemplate *t = chat_template_new(&(ChatTemplateOptions){ .text = text, .what = "test",
                                            .special = special, .bos = "<b>", .args = args }, &err);
    CHECK(t, "%s: %s", text, err.msg);
    return t;
}

/* Render the first n of these messages. */
static void check(ChatTemplate *t, const ChatTurn *turn, size_t n_all, size_t n, const char *text)
{
    Conversation c = { 0 };
    JinjaText    out = { 0 };
    bool ok = t && conversation_new(t, turn, n_all, &c, &err)
        && conversation_render(&c, n, n < n_all, &out, &err);
    CHECK(ok && strcmp(out.text, text) == 0, "expected %s, found %s", text,
          ok ? out.text : err.msg);
    jinja_text_free(&out);
    conversation_free(&c);
    chat_template_free(t);
}

static const ChatTurn talk[] = { { .role = "user", .text = "a", .n = 1 },
                                 { .json = "{\"role\": \"tool\", \"x\": null, \"reasoning\": 1}" },
                                 { .role = "user", .text = "c\xFF", .n = 2 } };
static const char keys[] = "{% for m in messages %}{{ m | list | join(' ') }};{% endfor %}"
                           "{{ add_generation_prompt }}";

static void the_first_messages_are_rendered_alone(void)
{
    check(template_of(keys, NULL, NULL), talk, 3, 3,
          "role content;thinking role reasoning reasoning_content;role content;False");
    check(template_of(keys, NULL, NULL), talk, 3, 1, "role content;True");
    check(template_of(keys, NULL, NULL), talk, 3, 0, "True");
    check(template_of("{{ messages[2].content }}", NULL, NULL), talk, 3, 3, "c\xEF\xBF\xBD");
}

static void special_tokens_are_what_the_source_says(void)
{
    static const char names[] = "{{ bos_token }}{{ eos_token is defined }}{{ pad_token }}"
                                "{{ tools }}";
    check(template_of(names, NULL, NULL), talk, 1, 1, "<b>FalseNone");
    check(template_of(names, "{\"bos_token\": null, \"eos_token\": \"\"}", NULL), talk, 1, 1,
          "TrueNone");
    check(template_of(names, "{\"bos_token\": \"B\", \"pad_token\": \"P\"}",
                      "{\"bos_token\": \"mine\", \"tools\": 3}"), talk, 1, 1, "mineFalseP3");
}

static void what_is_no_conversation_is_refused(void)
{
    static const ChatTurn bad[] = { { .json = "[]" }, { .json = "{" } };
    ChatTemplate *t = template_of("{{ 1 }}", NULL, NULL);
    Conversation  c;
    CHECK(!conversation_new(t, talk, 0, &c, &err) && strstr(err.msg, "found none"), "%s", err.msg);
    for (size_t i = 0; i < 2; i++)
        CHECK(!conversation_new(t, &bad[i], 1, &c, &err) && err.status == INPUT
              && strstr(err.msg, "message 1"), "%s", err.msg);
    chat_template_free(t);
}

static void nobody_need_ask_why_a_template_fails(void)
{
    ChatTemplate *t = template_of("{{ raise_exception('no') }}", NULL, NULL);
    Conversation  c;
    JinjaText     out = { 0 };
    CHECK(t && conversation_new(t, talk, 3, &c, &err), "%s", err.msg);
    CHECK(!conversation_render(&c, 3, true, &out, NULL), "rendered");
    conversation_free(&c);
    chat_template_free(t);
}

static void options_are_checked(void)
{
    static const ChatTemplateOptions bad[] = {
        { .args = "[1]" }, { .args = "{" }, { .args = "{\"add_generation_prompt\": 1}" },
        { .tools = "{}" }, { .tools = "[[]]" }, { .date = "2024-7-26" }, { .date = "2024-00-10" },
        { .date = "26-07-2024" }, { .date = "2024-07-26x" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ChatTemplateOptions o = bad[i];
        o.text = "{{ 1 }}", o.what = "test";
        CHECK(!chat_template_new(&o, &err) && err.status == USAGE, "%zu: %s", i, err.msg);
    }
    CHECK(!chat_template_new(&(ChatTemplateOptions){ .text = "{{", .what = "it" }, &err)
          && err.status == INPUT && strstr(err.msg, "it: line 1"), "%s", err.msg);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(the_first_messages_are_rendered_alone);
    TEST(special_tokens_are_what_the_source_says);
    TEST(what_is_no_conversation_is_refused);
    TEST(nobody_need_ask_why_a_template_fails);
    TEST(options_are_checked);
    return TEST_END();
}
