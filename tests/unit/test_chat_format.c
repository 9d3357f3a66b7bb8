#include "test.h"
#include "base/error.h"
#include "chat/chat_format.h"

#define FORM(...) "{\"version\": 1, \"name\": \"t\", " __VA_ARGS__ "}"
#define TURNS     "\"user\": \"U{content}u\", \"assistant\": \"A{content}a\", \"open\": \"A\""

static Error err;

static void check_refused(const char *json, const char *word)
{
    ChatFormat *f = chat_format_parse(json, strlen(json), "test", &err);
    CHECK(!f, "accepted: %s", json);
    CHECK(f || (err.status == INPUT && strstr(err.msg, word)), "expected '%s' in '%s'", word,
          err.msg);
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

static void what_it_says_is_kept(void)
{
    static const char json[] =
        FORM("\"user_system\": \"{{x}}{system}{content}\", \"stop\": [\"a\", \"b\"], " TURNS);
    const char *const *stop;
    ChatFormat *f = chat_format_parse(json, sizeof json - 1, "test", &err);
    CHECK(f && strcmp(chat_format_name(f), "t") == 0, "%s", err.msg);
    CHECK(f && chat_format_stops(f, &stop) == 2 && strcmp(stop[1], "b") == 0, "%s", err.msg);
    CHECK(f && chat_format_system(f) == CHAT_SYSTEM_TOLD, "%s", err.msg);
    const ChatForm *form = f ? &f->form[CHAT_USER_SYSTEM] : NULL;
    CHECK(form && form->n_parts == 3 && form->part[0].n == 3
          && memcmp(form->part[0].text, "{x}", 3) == 0, "doubled braces are one");
    chat_format_free(f);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(bad_formats_are_refused);
    TEST(what_it_says_is_kept);
    return TEST_END();
}
