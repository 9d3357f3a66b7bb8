/* tests/fuzz/fuzz_chat.c: any bytes as a chat format, as a chat template, and as a conversation. A
 * template that is recognised makes a format that can be read; a format renders, what a message
 * says lies in spans of its own, and the template that stands for it can be read. */
#include "fuzz.h"
#include "text/chat_format.h"
#include "text/chat_template.h"
#include "text/jinja.h"

static void check_spans(const ChatText *t, size_t n_messages)
{
    size_t at = 0;
    for (size_t i = 0; i < t->n_spans; i++) {
        const ChatSpan *s = &t->span[i];
        claim(s->start >= at && s->end >= s->start && s->end <= t->n);
        claim(s->kind == CHAT_BOS || s->kind == CHAT_EOS || s->message < n_messages);
        at = s->end;
    }
}

static void render(const ChatFormat *f, const char *text, size_t n)
{
    static const char answer[] = "<think>\nno</think>\n Yes. ";
    const ChatMessage all[] = { { CHAT_SYSTEM, text, n / 2, NULL, 0 },
                                { CHAT_USER, text + n / 2, n - n / 2, NULL, 0 },
                                { CHAT_ASSISTANT, answer, sizeof answer - 1, answer,
                                  sizeof answer - 1 },
                                { CHAT_USER, " <s>[INST] again <|im_end|>\n", 27, NULL, 0 } };
    for (size_t first = 0; first < 2; first++)
        for (size_t count = 1; first + count <= 4; count++) {
            Error    e = { 0 };
            ChatText t = { 0 };
            if (said(chat_render(f, all + first, count, count % 2, "<s>", "</s>", &t, &e), &e))
                check_spans(&t, count);
            chat_text_free(&t);
        }
    Error e = { 0 };
    char *prefix = NULL;
    claim(chat_answer_prefix(f, "<s>", "</s>", &prefix, &e));
    free(prefix);
}

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

static void use_format(const char *json, size_t n, const char *text, size_t n_text, bool must)
{
    Error       e = { 0 };
    ChatFormat *f = chat_format_parse(json, n, "format", &e);
    said(f != NULL, &e);
    claim(f || !must);
    if (f) {
        const char *const *stop;
        size_t             n_stops = chat_format_stops(f, &stop);
        for (size_t i = 0; i < n_stops; i++)
            touch(stop[i], strlen(stop[i]));
        claim(chat_format_name(f) != NULL && (int)chat_format_system(f) >= 0);
        render(f, text, n_text);
        use_entry(json, n);
    }
    chat_format_free(f);
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
    Error e = { 0 };
    char *text = exact_copy(bytes, n), *json = NULL;
    use_format(text, n, text, n < 100 ? n : 100, false);
    if (said(chat_format_recognise(text, n, "template", &json, &e), &e))
        use_format(json, strlen(json), text, n < 100 ? n : 100, true);
    use_conversation(text, n);
    free(json);
    free(text);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "chat"); }
#endif
