/* chat/chat_answer.c: parses an answer as it streams, by the form that was found for its template.
 *
 * Bytes wait in `in` until their meaning is known. Each state consumes what it can from the front;
 * `step` is called until one of them needs more. At most a marker waits (and the white space before
 * it); but if only its JSON identifies a call, the JSON waits until it has shown that it is one. */
#include "chat/chat_answer_parts.h"

#include <stdlib.h>
#include "base/json.h"
#include "base/memory.h"
#include "base/sound.h"
#include "tokenizer/unicode.h"

/* ---- States ---------------------------------------------------------------------------------- */

static void begin_reasoning(Answer *a)
{
    a->fresh = false;
    a->skip = true;
    a->state = REASONING;
}

static void begin_content(Answer *a, size_t from)
{
    a->at = from;
    a->fresh = false;
    a->skip = false;
    a->state = CONTENT;
}

static void begin_call(Answer *a, size_t from)
{
    answer_hold_call(a, from, a->f->calls.style == CALLS_JSON ? JSON_BEGIN : FIELD);
}

/* A part that begins with a header, as channels do: a recipient in it makes it a tool call. */
static bool header(Answer *a, size_t from)
{
    const AnswerForm *f = a->f;
    size_t            to, call_at = SIZE_MAX, name_at = 0;
    bool              more = false;
    for (size_t i = from; i < a->in.n && i - from < HEADER_BYTES; i++) {
        if (call_at == SIZE_MAX && literal_at(a, &f->calls.begin, i, &to) == MATCHES) {
            call_at = i;
            name_at = to;
        }
        LiteralMatch ends = literal_at(a, &f->head_end, i, &to);
        more |= ends == NEEDS_MORE;
        if (ends != MATCHES)
            continue;
        size_t end = to;
        bool   thinks = literal_at(a, &f->think, from, &to) == MATCHES;
        if (call_at != SIZE_MAX) {
            begin_call(a, from);
            for (size_t k = name_at; k < i && !answer_space(a->in.text[k]) && !a->flag.text[k]
                 && a->in.text[k] != f->head_end.s[f->head_end.from]; k++)
                text_out_bytes(&a->name, a->in.text + k, 1);
            a->at = end;
            answer_arguments_begin(a);
        } else if (thinks) {
            a->at = end;
            begin_reasoning(a);
        } else {
            begin_content(a, end);
            a->skip = true;
        }
        return true;
    }
    if ((more || a->in.n - from < HEADER_BYTES) && !a->ending)
        return false;
    begin_content(a, a->ending ? a->in.n : from + 1);
    return true;
}

/* Between parts: which part begins here? */
static bool free_place(Answer *a)
{
    const AnswerForm *f = a->f;
    const CallForm   *c = &f->calls;
    size_t            to, j = answer_skip(a, a->at);
    LiteralChoice     choice = { 0 };
    bool              more;
    if (j == a->in.n && !(a->ending && j > a->at && a->fresh)) {
        a->at = a->ending ? j : a->at;
        return false;
    }
    literal_choose(&choice, &f->head);
    literal_choose(&choice, &c->begin);
    literal_choose(&choice, &f->think);
    literal_choose(&choice, &f->content);
    literal_choose(&choice, &f->turn_end);
    if (a->fresh) /* ends reasoning that never began */
        literal_choose(&choice, &f->think_end);
    if (j < a->in.n && literal_at(a, &f->head, j, &to) == MATCHES)
        return header(a, j);
    int which = literal_choice_at(a, &choice, j, &to, &more);
    if (more && !a->ending)
        return false;
    const Literal *l = which < 0 ? NULL : choice.l[which];
    a->at = l ? to : a->at;
    if (l == &c->begin && l) {
        begin_call(a, j);
    } else if (l == &f->think && l) {
        begin_reasoning(a);
    } else if (l == &f->content && l) {
        begin_content(a, to);
        a->skip = true;
    } else if (l) {
        a->fresh = false;
    } else if (f->has_specials && j < a->in.n && a->flag.text[j]) {
        a->at = j + 1;
    } else if (c->style == CALLS_JSON && literal_empty(&c->begin) && j < a->in.n
               && a->in.text[j] == c->opens) {
        answer_hold_call(a, j, JSON_CALL);
        a->at = j;
    } else {
        begin_content(a, a->fresh ? a->at : j);
    }
    return true;
}

static bool content(Answer *a)
{
    const AnswerForm *f = a->f;
    LiteralChoice     choice = { 0 };
    literal_choose(&choice, &f->calls.begin);
    literal_choose(&choice, &f->calls.begin_later);
    literal_choose(&choice, &f->turn_end);
    if (a->ending)
        literal_choose(&choice, &f->turn_first);
    if (!literal_empty(&f->head))
        literal_choose(&choice, &f->think_end);
    int which = answer_text_until(a, &choice);
    if (which < 0)
        return false;
    const Literal *l = choice.l[which];
    if (l == &f->calls.begin || l == &f->calls.begin_later)
        begin_call(a, a->marker_at);
    else
        a->state = FREE;
    return true;
}

static bool reasoning(Answer *a)
{
    LiteralChoice choice = { 0 };
    literal_choose(&choice, &a->f->think_end);
    int which = answer_text_until(a, &choice);
    if (which >= 0)
        a->state = FREE;
    return which >= 0;
}

/* A marker after a call is not emitted if it is cut short. */
static bool call_after(Answer *a)
{
    const CallForm *c = &a->f->calls;
    LiteralChoice   choice = { 0 };
    size_t          to, j = answer_skip(a, a->at);
    bool            more;
    literal_choose(&choice, &c->next);
    literal_choose(&choice, &c->end);
    if (j == a->in.n)
        return false;
    int which = literal_choice_at(a, &choice, j, &to, &more);
    if (more && which < 0) {
        a->at = a->ending ? a->in.n : a->at;
        return false;
    }
    a->at = which < 0 ? j : to;
    a->state = FREE;
    if (which >= 0 && choice.l[which] == &c->next)
        begin_call(a, a->at);
    return true;
}

/* Returns true if something changed, so there may be more to do. */
static bool step(Answer *a)
{
    switch (a->state) {
    case FREE: return free_place(a);
    case CONTENT: return content(a);
    case REASONING: return reasoning(a);
    case CALL_AFTER: return call_after(a);
    default: return answer_call_step(a);
    }
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* The first byte of `in` that is still needed. */
static size_t keep_from(const Answer *a)
{
    size_t keep = a->held && a->held_from < a->at ? a->held_from : a->at;
    keep = a->args_from < keep ? a->args_from : keep;
    return a->value_at < keep ? a->value_at : keep;
}

static bool parts_are_sound(const Answer *a)
{
    size_t at = 0;
    for (size_t i = 0; i < a->n_parts; i++) {
        const AnswerPart *p    = &a->part[i];
        const bool        call = p->kind != ANSWER_CONTENT && p->kind != ANSWER_REASONING;
        if (p->text != a->out.text + at || (call ? p->call < 0 : p->call != -1)
            || p->call >= a->n_calls)
            return false;
        at += p->n + 1;
    }
    return a->n_parts == 0 || at == a->out.n;
}

/* Do held and told agree with the state? At the end, an open call is closed as it is. */
static bool call_is_sound(const Answer *a)
{
    switch (a->state) {
    case JSON_CALL: return !(a->held && a->told);
    case JSON_BEGIN: case FIELD: case HEADER_REST: return a->ending || (a->held && !a->told);
    case JSON_ARGS: case KEY: case VALUE_BEGIN: case VALUE: case VALUE_TRACKED:
        return a->ending || (a->told && !a->held);
    default: return !a->held && !a->told;
    }
}

bool answer_is_sound(const Answer *a)
{
    const bool in_json = a->state == JSON_CALL;
    return a->no_memory
        || (a->at <= a->in.n && a->flag.n == a->in.n && keep_from(a) == 0
            && (!a->held || a->held_from <= a->at)
            && (a->args_from == SIZE_MAX || (in_json && a->args_from <= a->at))
            && (a->value_at == SIZE_MAX || (in_json && a->value_at < a->at))
            && a->n_tail < sizeof a->tail && partial_tail(a->tail, a->n_tail) == a->n_tail
            && a->json.objects <= a->json.depth && call_is_sound(a) && parts_are_sound(a));
}

/* Sets the texts late, because `out` moves while it grows. */
static void parts_done(Answer *a)
{
    size_t at = 0;
    text_out_bytes(&a->out, "", 1);
    a->no_memory |= a->out.failed || a->in.failed || a->flag.failed || a->name.failed
                    || a->id.failed || a->key.failed || a->value.failed;
    for (size_t i = 0; i < a->n_parts && !a->no_memory; i++) {
        a->part[i].text = a->out.text + at;
        at += a->part[i].n + 1;
    }
}

/* Drops consumed bytes from the front of `in`. */
static void compact(Answer *a)
{
    size_t *const places[] = { &a->at, &a->held_from, &a->args_from, &a->args_to, &a->value_at };
    size_t keep = keep_from(a);
    if (!keep || a->no_memory)
        return;
    memmove(a->in.text, a->in.text + keep, a->in.n - keep);
    memmove(a->flag.text, a->flag.text + keep, a->in.n - keep);
    a->in.n = a->flag.n = a->in.n - keep;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (*places[i] != SIZE_MAX)
            *places[i] -= *places[i] < keep ? *places[i] : keep;
}

static bool run(Answer *a, Error *err)
{
    if (!a->in.failed && !a->flag.failed)
        while (step(a))
            ;
    compact(a);
    parts_done(a);
    ASSERT_SOUND(answer_is_sound(a));
    return !a->no_memory || no_memory("answer", err);
}

static void add_bytes(Answer *a, const char *s, size_t n, bool special)
{
    text_out_bytes(&a->in, s, n);
    if (text_out_reserve(&a->flag, n)) {
        memset(a->flag.text + a->flag.n, special, n);
        a->flag.n += n;
    }
}

static void drop_parts(Answer *a) { a->n_parts = a->out.n = 0; }

bool answer_put(Answer *a, const char *s, size_t n, bool special, Error *err)
{
    drop_parts(a);
    if (a->ending || a->no_memory)
        return !a->no_memory || no_memory("answer", err);
    add_bytes(a, a->tail, a->n_tail, false);
    add_bytes(a, s, n, special);
    a->n_tail = a->in.failed || special ? 0 : partial_tail(a->in.text + a->at, a->in.n - a->at);
    if (a->n_tail) {
        a->in.n -= a->n_tail;
        a->flag.n = a->in.n;
        memcpy(a->tail, a->in.text + a->in.n, a->n_tail);
    }
    return run(a, err);
}

bool answer_end(Answer *a, Error *err)
{
    drop_parts(a);
    if (a->ending || a->no_memory)
        return !a->no_memory || no_memory("answer", err);
    a->ending = true;
    add_bytes(a, a->tail, a->n_tail, false);
    if (!a->in.failed && !a->flag.failed)
        while (step(a))
            ;
    answer_close_call(a);
    return run(a, err);
}

const AnswerPart *answer_parts(const Answer *a, size_t *n)
{
    *n = a->n_parts;
    return a->part;
}

Answer *answer_begin(const AnswerForm *f, const JsonNode *tools, AnswerBegin where, Error *err)
{
    Answer *a = calloc(1, sizeof *a);
    if (!a) {
        no_memory("answer", err);
        return NULL;
    }
    *a = (Answer){ .f = f, .tools = tools, .fresh = true, .held_from = SIZE_MAX,
                   .args_from = SIZE_MAX, .args_to = SIZE_MAX, .value_at = SIZE_MAX };
    if (f->starts_reasoning && where != BEGINS_FREE)
        begin_reasoning(a);
    const Literal *l = &f->primed;
    bool           good = true;
    for (size_t i = 0, k; where == BEGINS_PRIMED && good && i < l->n; i = k) {
        for (k = i + 1; k < l->n && l->special[k] == l->special[i];)
            k++;
        good = answer_put(a, l->s + i, k - i, l->special[i], err);
    }
    drop_parts(a);
    if (!good) {
        answer_free(a);
        a = NULL;
    }
    return a;
}

Answer *answer_new(const AnswerForm *f, const JsonNode *tools, Error *err)
{
    return answer_begin(f, tools, BEGINS_PRIMED, err);
}

void answer_free(Answer *a)
{
    if (!a)
        return;
    TextOut *const texts[] = { &a->in, &a->flag, &a->out, &a->name, &a->id, &a->key, &a->value };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        text_out_free(texts[i]);
    free(a->part);
    free(a);
}
