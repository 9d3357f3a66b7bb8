#include "test.h"
#include "base/error.h"
#include "text/chat_format.h"

#define FORM(...) "{\"version\": 1, \"name\": \"t\", " __VA_ARGS__ "}"
#define TURNS     "\"user\": \"U{content}u\", \"assistant\": \"A{content}a\", \"open\": \"A\""

static Error err;

static ChatMessage say(ChatRole role, const char *text)
{
    return (ChatMessage){ role, text, strlen(text), NULL, 0 };
}

/* Render and compare; expected NULL: an error that has `word` in it. */
static void check_text(const char *json, const ChatMessage *m, size_t n, bool open,
                       const char *expected, const char *word)
{
    ChatText    out = { 0 };
    ChatFormat *f = chat_format_parse(json, strlen(json), "test", &err);
    CHECK(f, "%s", err.msg);
    bool ok = f && chat_render(f, m, n, open, "<s>", "</s>", &out, &err);
    if (expected)
        CHECK(ok && out.n == strlen(expected) && memcmp(out.text, expected, out.n) == 0,
              "expected '%s', found '%s'", expected,
              ok ? out.text : err.msg);
    else
        CHECK(!ok && strstr(err.msg, word), "expected an error with '%s', found '%s'", word,
              ok ? out.text : err.msg);
    chat_text_free(&out);
    chat_format_free(f);
}

static void check_refused(const char *json, const char *word)
{
    ChatFormat *f = chat_format_parse(json, strlen(json), "test", &err);
    CHECK(!f, "accepted: %s", json);
    CHECK(f || (err.status == INPUT && strstr(err.msg, word)), "expected '%s' in '%s'", word,
          err.msg);
    chat_format_free(f);
}

static void forms_are_filled_in(void)
{
    ChatMessage m[] = { say(CHAT_SYSTEM, "s"), say(CHAT_USER, "x"), say(CHAT_ASSISTANT, "y"),
                        say(CHAT_USER, "z") };
    const char *f =
        FORM("\"begin\": \"{bos}\", \"system\": \"[{system}]\", \"close\": \"{eos}\", " TURNS);
    check_text(f, m, 4, true, "<s>[s]UxuAyaUzuA", NULL);
    check_text(f, m + 1, 3, true, "<s>UxuAyaUzuA", NULL);
    check_text(f, m + 1, 1, false, "<s>Uxu</s>", NULL);
}

static void doubled_braces_are_one(void)
{
    ChatMessage m[] = { say(CHAT_USER, "{content}") };
    check_text(FORM("\"user\": \"{{x}}{content}\", \"assistant\": \"{content}\", \"open\": \"\""),
               m, 1, true, "{x}{content}", NULL);
}

static void trimming_takes_what_python_takes(void)
{
    ChatMessage m[] = { say(CHAT_SYSTEM, " s "),
                        say(CHAT_USER, " \n\t\xC2\xA0\x1C x y \xE3\x80\x80\r\n") };
    check_text(FORM("\"system\": \"[{trim}{system}{/trim}]\", \"user\": "
                    "\"<{trim}{content}{/trim}>\", \"assistant\": \"{content}\", \"open\": \"\""),
               m, 2, true, "[s]<x y>", NULL);
    ChatMessage empty[] = { say(CHAT_SYSTEM, "s"), say(CHAT_USER, "") };
    check_text(FORM("\"user_system\": \"<{trim}S{system}\\n\\n{content}{/trim}>\", \"user\": "
                    "\"{content}\", \"assistant\": \"{content}\", \"open\": \"\""),
               empty, 2, true, "<Ss>", NULL); /* the group's own text is trimmed too */
}

static void system_text_goes_where_the_format_says(void)
{
    ChatMessage m[] = { say(CHAT_SYSTEM, "s"), say(CHAT_USER, "x"), say(CHAT_ASSISTANT, "y"),
                        say(CHAT_USER, "z") };
    check_text(FORM("\"user_system\": \"U{system}|{content}u\", " TURNS), m, 4, true,
               "Us|xuAyaUzuA", NULL);
    check_text(
        FORM("\"user_system\": \"U{system}|{content}u\", \"user_system_at\": \"last\", " TURNS), m,
        4, true, "UxuAyaUs|zuA", NULL);
    check_text(FORM("\"system\": \"\", " TURNS), m, 4, true, "UxuAyaUzuA", NULL);
    check_text(FORM(TURNS), m, 4, true, NULL, "does not support");
    check_text(FORM("\"system\": \"[{system}]\", \"default_system\": \"d\", " TURNS), m + 1, 1,
               true, "[d]UxuA", NULL);
    check_text(FORM("\"system\": \"[{system}]\", \"user_first\": \"F{content}\", " TURNS), m, 4,
               true, "[s]FxAyaUzuA", NULL);
    ChatMessage late[] = { say(CHAT_USER, "x"), say(CHAT_SYSTEM, "s") };
    check_text(FORM("\"system\": \"[{system}]\", " TURNS), late, 2, true, NULL, "in front");
}

static void roles_alternate_where_the_format_wants_it(void)
{
    ChatMessage m[] = { say(CHAT_USER, "x"), say(CHAT_USER, "y") };
    check_text(FORM(TURNS), m, 2, true, "UxuUyuA", NULL);
    check_text(FORM("\"alternate\": true, " TURNS), m, 2, true, NULL, "alternate");
    check_text(FORM(TURNS), m, 0, true, NULL, "found none");
}

static void thoughts_of_earlier_answers_are_dropped(void)
{
    ChatMessage m[] = { say(CHAT_USER, "x"),
                        say(CHAT_ASSISTANT, "<think>no</think>hm</think>\n\ny"),
                        say(CHAT_USER, "z") };
    check_text(FORM("\"thinking_end\": \"</think>\", " TURNS), m, 3, true, "UxuA\n\nyaUzuA", NULL);
    check_text(FORM("\"thinking_end\": \"</think>\", \"thinking_strip\": true, " TURNS), m, 3, true,
               "UxuAyaUzuA", NULL);
}

static void spans_say_who_wrote_what(void)
{
    ChatMessage m[] = { say(CHAT_USER, " x "), say(CHAT_ASSISTANT, "yes"), say(CHAT_USER, "z") };
    const char *json = FORM("\"begin\": \"{bos}\", \"user\": \"U{trim}{content}{/trim}u\", "
                            "\"assistant\": \"A {content}{eos}\", \"open\": \"A\"");
    m[1].drawn = " yes", m[1].n_drawn = 4;
    ChatText    out = { 0 };
    ChatFormat *f = chat_format_parse(json, strlen(json), "test", &err);
    bool        ok = f && chat_render(f, m, 3, true, "<s>", "</s>", &out, &err);
    static const ChatSpan expected[] = { { CHAT_BOS, 0, 3, 0 },
                                         { CHAT_CONTENT, 4, 5, 0 },
                                         { CHAT_DRAWN, 7, 11, 1 },
                                         { CHAT_EOS, 11, 15, 1 },
                                         { CHAT_CONTENT, 16, 17, 2 } };
    CHECK(ok && strcmp(out.text, "<s>UxuA yes</s>UzuA") == 0, "%s", ok ? out.text : err.msg);
    CHECK(out.n_spans == 5, "%zu spans", out.n_spans);
    for (size_t i = 0; i < 5 && i < out.n_spans; i++)
        CHECK(out.span[i].kind == expected[i].kind && out.span[i].start == expected[i].start
                  && out.span[i].end == expected[i].end,
              "span %zu: kind %d, %zu to %zu", i, (int)out.span[i].kind, out.span[i].start,
              out.span[i].end);
    chat_text_free(&out);
    char *prefix = NULL;
    CHECK(f && chat_answer_prefix(f, "", "", &prefix, &err) && strcmp(prefix, " ") == 0,
          "prefix '%s'", prefix ? prefix : err.msg);
    free(prefix);
    chat_format_free(f);
}

static void bad_formats_are_refused(void)
{
    static const char *const bad[][2] = {
        { "[]", "expected an object" },
        { "{\"user\": \"{content}\", \"assistant\": \"{content}\", \"open\": \"\"}", "version" },
        { "{\"version\": 2, " TURNS "}", "version" },
        { FORM("\"user\": \"{content}\", \"open\": \"\""), "assistant" },
        { FORM("\"user\": \"U\", \"assistant\": \"{content}\", \"open\": \"\""), "{content}" },
        { FORM("\"user\": \"{content}{content}\", \"assistant\": \"{content}\", \"open\": \"\""),
          "twice" },
        { FORM("\"user\": \"{system}{content}\", \"assistant\": \"{content}\", \"open\": \"\""),
          "not allowed here" },
        { FORM("\"user\": \"{trim}{content}\", \"assistant\": \"{content}\", \"open\": \"\""),
          "{/trim}" },
        { FORM("\"user\": \"{content}{/trim}\", \"assistant\": \"{content}\", \"open\": \"\""),
          "pairs" },
        { FORM("\"user\": \"{trim}{trim}{content}{/trim}{/trim}\", \"assistant\": \"{content}\", "
               "\"open\": \"\""),
          "pairs" },
        { FORM("\"user\": \"{content} {\", \"assistant\": \"{content}\", \"open\": \"\""), "'{'" },
        { FORM("\"user\": \"{content} }\", \"assistant\": \"{content}\", \"open\": \"\""), "'}'" },
        { FORM("\"colour\": \"red\", " TURNS), "unknown key" },
        { FORM("\"stop\": [\"\"], " TURNS), "empty" },
        { FORM("\"stop\": \"x\", " TURNS), "array" },
        { FORM("\"stop\": [1], " TURNS), "stop" },
        { FORM("\"default_system\": \"d\", " TURNS), "{system}" },
        { FORM("\"system\": \"{system}\", \"user_system\": \"{system}{content}\", " TURNS),
          "both" },
        { FORM("\"user_system_at\": \"middle\", " TURNS), "first or last" },
        { FORM("\"thinking_end\": \"\", " TURNS), "empty" },
        { FORM("\"alternate\": 1, " TURNS), "alternate" },
        { "{\"version\": 1", "test" },
        { FORM(TURNS ", \"open\": \"\""), "open" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_refused(bad[i][0], bad[i][1]);
    size_t n = 70000;
    char  *large = malloc(n + 1);
    memset(large, ' ', n);
    large[n] = '\0';
    check_refused(large, "at most");
    free(large);
}

static void every_known_format_opens_and_renders(void)
{
    ChatMessage m[] = { say(CHAT_USER, "x"), say(CHAT_ASSISTANT, "y"), say(CHAT_USER, "z") };
    size_t n = 0;
    for (const char *name; (name = chat_format_known(n)) != NULL; n++) {
        ChatText    out = { 0 };
        ChatFormat *f = chat_format_named(name, &err);
        CHECK(f && strcmp(chat_format_name(f), name) == 0, "%s: %s", name, err.msg);
        CHECK(f && chat_render(f, m, 3, true, "", "", &out, &err) && strstr(out.text, "z"),
              "%s: %s", name, err.msg);
        chat_text_free(&out);
        chat_format_free(f);
    }
    CHECK(n > 20, "%zu formats", n);
    ChatFormat *f = chat_format_named("llama33", &err);
    CHECK(!f && err.status == USAGE && strstr(err.msg, "llama3, "), "%s", err.msg);
}

static void unknown_templates_are_refused_with_a_way_out(void)
{
    static const char *const program[] = { "",
                                           "{{ messages }}",
                                           "{% for",
                                           "{{ strftime_now('%d') }}<|start_of_role|>",
                                           "{{ '<|im_start|>' }}\n\n   {{ x }}{{ y }}",
                                           "{{ '" };
    for (size_t i = 0; i < sizeof program / sizeof *program; i++) {
        char *json = NULL;
        CHECK(!chat_format_recognise(program[i], strlen(program[i]), "m.gguf: chat_template", &json,
                                     &err), "accepted: %s", program[i]);
        CHECK(strstr(err.msg, "--chat-format") && strstr(err.msg, "m.gguf"), "%s", err.msg);
        free(json);
    }
    char *json = NULL, nul[] = "<|im_start|>\0<|im_sep|>";
    CHECK(chat_format_recognise(nul, sizeof nul - 1, "t", &json, &err) && strstr(json, "chatml"),
          "%s", err.msg);
    free(json);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(forms_are_filled_in);
    TEST(doubled_braces_are_one);
    TEST(trimming_takes_what_python_takes);
    TEST(system_text_goes_where_the_format_says);
    TEST(roles_alternate_where_the_format_wants_it);
    TEST(thoughts_of_earlier_answers_are_dropped);
    TEST(spans_say_who_wrote_what);
    TEST(bad_formats_are_refused);
    TEST(every_known_format_opens_and_renders);
    TEST(unknown_templates_are_refused_with_a_way_out);
    return TEST_END();
}
