/* cli/answer_view.c: a reply on standard output: its reasoning dim, or not at all, and its tool
 * calls as lines of JSON. */
#include "chat_session.h"

#include "command.h"

#include <unistd.h>

bool answer_view_open(AnswerView *v, const tblock_chat *c, bool raw, tblock_error *err)
{
    *v = (AnswerView){ .last = -1 };
    v->answer = raw ? NULL : tblock_answer_new(c, err);
    return raw || v->answer;
}

static bool is_call(int kind) { return kind >= TBLOCK_ANSWER_CALL; }

/* Switches between reasoning, content and each call. */
static void go_over(AnswerView *v, int kind)
{
    bool same = v->last == kind || (is_call(kind) && kind != TBLOCK_ANSWER_CALL);
    if (v->last == TBLOCK_ANSWER_REASONING && !same) {
        output_format("%s", terminal_tone(STDOUT_FILENO, TONE_OFF));
        output_format("%s", "\n\n");
    } else if (v->last >= 0 && !same) {
        output_format("%s", "\n");
    }
    if (kind == TBLOCK_ANSWER_REASONING && !same)
        output_format("%s", terminal_tone(STDOUT_FILENO, TONE_DIM));
    v->last = kind;
}

/* A line end between the members of the arguments would end the line of the call. */
static void write_arguments(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        output_write(s[i] == '\n' || s[i] == '\r' ? " " : s + i, 1);
}

static void show_part(AnswerView *v, const tblock_answer_part *p)
{
    v->calls_or_reasons |= p->kind != TBLOCK_ANSWER_CONTENT;
    if (p->kind == TBLOCK_ANSWER_CALL_ID
        || (p->kind == TBLOCK_ANSWER_REASONING && !output_is_terminal()))
        return;
    go_over(v, p->kind);
    if (p->kind == TBLOCK_ANSWER_CALL) {
        output_format("%s", "{\"name\": ");
        output_json_text(p->text, p->n);
        output_format("%s", ", \"arguments\": ");
    } else if (p->kind == TBLOCK_ANSWER_ARGUMENTS) {
        write_arguments(p->text, p->n);
    } else if (p->kind == TBLOCK_ANSWER_CALL_END) {
        output_format("%s", "}");
    } else {
        output_write(p->text, p->n);
    }
}

bool answer_view_text(AnswerView *v, const char *text, size_t n, bool ended, tblock_error *err)
{
    const tblock_answer_part *part;
    size_t                    n_parts;
    if (!v->answer && n > v->n_read)
        output_write(text + v->n_read, n - v->n_read);
    for (int last = 0; v->answer && last <= ended; last++) {
        bool more = !last;
        const char *from = !more ? NULL : text ? text + v->n_read : "";
        if (!tblock_answer_put(v->answer, from, more ? n - v->n_read : 0, &part, &n_parts, err))
            return false;
        for (size_t i = 0; i < n_parts; i++)
            show_part(v, &part[i]);
    }
    v->n_read = n;
    if (ended && v->last == TBLOCK_ANSWER_REASONING)
        output_format("%s", terminal_tone(STDOUT_FILENO, TONE_OFF));
    return output_flush(err);
}
