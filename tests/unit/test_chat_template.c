/* The templates that tblock makes itself. What they render is in
 * tests/text/test_chat_entries.py. */
#include "test.h"
#include "chat/chat_template.h"
#include "chat/jinja.h"

static void builtin_templates_are_in_order_and_found_by_name(void)
{
    size_t      n = 0;
    const char *before = "", *name;
    for (; (name = chat_builtin_name(n)) != NULL; before = name, n++) {
        CHECK(strcmp(before, name) < 0, "%s does not come after %s", name, before);
        Error       err = { 0 };
        const char *text = chat_builtin_template(name);
        Jinja      *t = text ? jinja_parse(text, strlen(text), name, &err) : NULL;
        CHECK(t, "%s: %s", name, text ? err.msg : "no text");
        jinja_free(t);
    }
    CHECK(n > 10, "found %zu", n);
    CHECK(!chat_builtin_name(n + 1) && !chat_builtin_template("orion")
          && !chat_builtin_template(""), "a name that there is not");
}

/* Render one message of the user by the template of an entry; it says what is the template's. */
static void check(const char *entry, const char *text, const char *mark)
{
    static const char *const roles[] = { "user", NULL };
    char given[] = "{\"messages\": [{\"role\": \"user\", \"content\": \" {{ <s> \"}]}";
    Error     err = { 0 };
    JinjaText out = { 0 };
    JsonDoc   d = { 0 };
    char     *t = chat_entry_template(entry, strlen(entry), "test", &err);
    Jinja    *j = t ? jinja_parse(t, strlen(t), "test", &err) : NULL;
    bool      ok = j && json_doc_parse(&d, strdup(given), strlen(given), 0, "given", &err)
        && jinja_render(j, &(JinjaInput){ .given = d.node, .roles = roles }, &out, &err);
    CHECK(ok && strcmp(out.text, text) == 0, "expected %s, found %s", text,
          ok ? out.text : err.msg);
    for (size_t i = 0; ok && i < out.n; i++)
        CHECK(out.mark[i] == mark[i] - '0', "%s: byte %zu is marked %d", text, i, out.mark[i]);
    jinja_text_free(&out);
    json_doc_free(&d);
    jinja_free(j);
    free(t);
}

static void an_entry_becomes_a_template_with_its_marks(void)
{
    check("{\"version\": 1, \"user\": \"<u>{content}</u>\", \"assistant\": \"{content}\", "
          "\"open\": \"\"}", "<u> {{ <s> </u>", "111000000001111");
    /* without bos_token {bos} is nothing */
    check("{\"version\": 1, \"begin\": \"{bos}\\\"{{%\\\\\\r\\n\", \"user\": "
          "\"{trim}\\n{content}{/trim}{trim}{/trim}\", \"assistant\": \"{content}\", "
          "\"open\": \"\", \"close\": \"{{{{ x\"}", "\"{%\\\r\n{{ <s>{{ x", "1111110000001111");
}

static void an_entry_that_is_none_is_refused(void)
{
    static const struct { const char *entry, *word; } cases[] = {
        { "{", "test: " },
        { "[]", "expected an object" },
        { "{\"version\": 2}", "version" },
        { "{\"version\": 1, \"user\": \"{content}\", \"assistant\": \"{content}\"}", "open" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error err = { 0 };
        char *t = chat_entry_template(cases[i].entry, strlen(cases[i].entry), "test", &err);
        CHECK(!t && err.status == INPUT && strstr(err.msg, cases[i].word), "%s: found %s",
              cases[i].entry, t ? t : err.msg);
        free(t);
    }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(builtin_templates_are_in_order_and_found_by_name);
    TEST(an_entry_becomes_a_template_with_its_marks);
    TEST(an_entry_that_is_none_is_refused);
    return TEST_END();
}
