/* tests/fuzz/fuzz_answer.c: any bytes as an answer, in pieces of any sizes; the first byte chooses
 * the template. Or any template, whose probes may show anything. In whatever pieces it comes, an
 * answer says the same, and what it calls are JSON objects wherever the form makes them. */
#include "answer_templates.h"
#include "fuzz.h"
#include "chat/chat_answer.h"

static AnswerForm *form_of(const char *text, size_t n)
{
    static const char *const roles[] = { "user", "assistant", NULL };
    Error       e = { 0 };
    AnswerInput in = { .roles = roles, .tools = true };
    Jinja      *t = jinja_parse(text, n, "template", &e);
    said(t != NULL, &e);
    AnswerForm *f = t ? answer_form_new(t, &in, &e) : NULL;
    claim(!t || f);
    jinja_free(t);
    return f;
}

/* What an answer says: kinds, calls and texts, of which those of a kind are joined. */
typedef struct Heard { TextOut text; int kind, call; } Heard;

static void hear(Heard *h, const Answer *a)
{
    size_t            n;
    const AnswerPart *p = answer_parts(a, &n);
    claim(answer_is_sound(a));
    for (size_t i = 0; i < n; i++) {
        claim(strlen(p[i].text) <= p[i].n && p[i].text[p[i].n] == '\0');
        if ((int)p[i].kind != h->kind || p[i].call != h->call)
            text_out(&h->text, "|%d.%d:", p[i].kind, p[i].call);
        h->kind = (int)p[i].kind;
        h->call = p[i].call;
        text_out_bytes(&h->text, p[i].text, p[i].n);
    }
}

static TextOut read_in_pieces(const AnswerForm *f, const char *s, size_t n, size_t most)
{
    Error   e = { 0 };
    Heard   h = { .kind = -1 };
    Answer *a = answer_new(f, NULL, &e);
    claim(a != NULL);
    for (size_t i = 0, k; i < n; i += k) {
        k = most < n - i ? most : n - i;
        char *piece = exact_copy(s + i, k);
        claim(answer_put(a, piece, k, false, &e));
        free(piece);
        hear(&h, a);
    }
    claim(answer_end(a, &e));
    hear(&h, a);
    answer_free(a);
    return h.text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (!n)
        return 0;
    const char *s = (const char *)bytes + 1;
    size_t      which = bytes[0] % (N_TEMPLATES + 1), m = n - 1;
    AnswerForm *f = which < N_TEMPLATES ? form_of(templates[which], strlen(templates[which]))
                                        : form_of(s, m);
    claim(which == N_TEMPLATES || (f && answer_form_facts(f).calls));
    if (f && m < 1 << 14) {
        TextOut whole = read_in_pieces(f, s, m, m + 1), each = read_in_pieces(f, s, m, 1),
                three = read_in_pieces(f, s, m, 3);
        claim(whole.n == each.n && whole.n == three.n);
        claim(!whole.n || (memcmp(whole.text, each.text, whole.n) == 0
                           && memcmp(whole.text, three.text, whole.n) == 0));
        text_out_free(&whole);
        text_out_free(&each);
        text_out_free(&three);
    }
    answer_form_free(f);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "answer"); }
#endif
