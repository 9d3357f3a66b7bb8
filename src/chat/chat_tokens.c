/* Tokenizes conversations, and finds where a template's answers begin and end. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "chat/chat_template.h"

/* How much of a text is searched for the special token at its start. */
enum { SPECIAL_LOOK = 256 };
/* A runaway template shows in its first real rendering; four small conversations need not find
 * it. */
enum { PROBE_STEPS = 1000000 };

/* ---- Special tokens in a template's text ----------------------------------------------------- */

/* The number of bytes from `at` on that are the template's. */
static size_t own_bytes(const JinjaText *text, size_t at)
{
    size_t n = 0;
    while (at + n < text->n && text->mark[at + n])
        n++;
    return n;
}

static const SpelledToken *spelled_at(const ChatTokens *k, const char *text, size_t n)
{
    for (size_t i = 0; i < k->n_spelled; i++) {
        size_t len = strlen(k->spelled[i].text);
        if (len <= n && memcmp(text, k->spelled[i].text, len) == 0)
            return &k->spelled[i];
    }
    return NULL;
}

/* The first special token in n bytes of a template's text; -1: none. begins: only at their
 * start. */
static bool first_special(const ChatTokens *k, const char *text, size_t n, bool begins, int32_t *id,
                          Error *err)
{
    Ids                 ids = { 0 };
    const SpelledToken *s = spelled_at(k, text, n);
    bool                ok = s || tokenizer_encode(k->tokenizer, text, n, true, false, &ids, err);
    *id = s ? s->id : -1;
    for (size_t i = 0; ok && *id < 0 && i < ids.n && (i == 0 || !begins); i++)
        if (tokenizer_is_special(k->tokenizer, ids.id[i]))
            *id = ids.id[i];
    free(ids.id);
    return ok;
}

/* ---- Ids ------------------------------------------------------------------------------------- */

/* A conversation while it becomes tokens. */
typedef struct Encoding {
    const ChatTokens *k;
    JinjaText         text;
    TextSpan         *sampled;  /* [n_sampled] answers that keep their own ids */
    size_t            n_sampled, cap_sampled;
    TextSpan         *span;
    size_t            n_spans, cap;
    Error            *err;
} Encoding;

static bool add_span(Encoding *e, TextSpan span)
{
    if (!ARRAY_ROOM(e->span, e->cap, e->n_spans + 1))
        return no_memory("chat", e->err);
    e->span[e->n_spans++] = span;
    return true;
}

/* Does the text after what the model saw continue with the answer of message m, as sampled? */
static bool keeps(const Encoding *e, const JinjaText *seen, const ChatTurn *m, bool *answer)
{
    const JinjaText *t = &e->text;
    size_t           at = seen->n, end = at + m->n_sampled;
    int32_t          special = -1;
    *answer = m->n_sampled && end <= t->n && end >= at && memcmp(t->text, seen->text, at) == 0
        && memcmp(t->mark, seen->mark, at) == 0
        && memcmp(t->text + at, m->sampled, m->n_sampled) == 0;
    if (!*answer || end == t->n)
        return true;
    size_t n = own_bytes(t, end);
    if (!first_special(e->k, t->text + end, n < SPECIAL_LOOK ? n : SPECIAL_LOOK, true, &special,
                       e->err))
        return false;
    *answer = special >= 0;
    return true;
}

/* Records answer i as sampled, if the model sampled it after a rendering of the messages before. */
static bool find_sampled(Encoding *e, Conversation *c, const ChatTurn *turn, size_t i)
{
    JinjaText seen = { 0 };
    Error     why = { 0 };
    bool      answer, ok;
    if (!conversation_render(c, i, true, &seen, &why))
        return why.status == INPUT || fail(e->err, why.status, "%s", why.msg);
    ok = keeps(e, &seen, &turn[i], &answer);
    size_t from = e->n_sampled ? e->sampled[e->n_sampled - 1].end : 0;
    if (ok && answer && seen.n >= from) {
        size_t end = seen.n + turn[i].n_sampled;
        bool   literal = spelled_at(e->k, e->text.text + end, own_bytes(&e->text, end)) != NULL;
        ok = ARRAY_ROOM(e->sampled, e->cap_sampled, e->n_sampled + 1) || no_memory("chat", e->err);
        if (ok)
            e->sampled[e->n_sampled++] = (TextSpan){ seen.n, end, turn[i].ids, turn[i].n_ids,
                                                 !literal };
    }
    jinja_text_free(&seen);
    return ok;
}

/* The spans that are not the template's text: answers with their ids, other bytes of messages, and
 * tokens that the tokenizer does not find. */
static bool find_spans(Encoding *e)
{
    const JinjaText *t = &e->text;
    bool             ok = true;
    for (size_t at = 0, next = 0; ok && at < t->n;) {
        size_t stop = next < e->n_sampled ? e->sampled[next].start : t->n, end = at;
        if (at == stop) {
            ok = add_span(e, e->sampled[next]);
            at = e->sampled[next++].end;
            continue;
        }
        while (end < stop && !t->mark[end])
            end++;
        size_t n = own_bytes(t, at);
        const SpelledToken *s = spelled_at(e->k, t->text + at, n < stop - at ? n : stop - at);
        if (end > at)
            ok = add_span(e, (TextSpan){ .start = at, .end = end });
        else if (s)
            ok = add_span(e, (TextSpan){ at, end = at + strlen(s->text), &s->id, 1, false });
        at = end > at ? end : at + 1;
    }
    return ok;
}

bool chat_tokens_encode(const ChatTokens *k, const ChatTemplate *t, const ChatTurn *turn, size_t n,
                        bool answer, Ids *out, Error *err)
{
    Conversation c;
    Encoding     e = { .k = k, .err = err };
    if (!conversation_new(t, turn, n, &c, err))
        return false;
    bool ok = conversation_render(&c, n, answer, &e.text, err);
    for (size_t i = 0; ok && i < n; i++)
        ok = !turn[i].ids || find_sampled(&e, &c, turn, i);
    ok = ok && find_spans(&e)
        && tokenizer_encode_spans(k->tokenizer, e.text.text, e.text.n, e.span, e.n_spans, out, err);
    free(e.sampled);
    free(e.span);
    jinja_text_free(&e.text);
    conversation_free(&c);
    return ok;
}

/* ---- Habits ---------------------------------------------------------------------------------- */

/* Words that no template contains, and that none trims or changes. */
#define WORD(letter) "tblock" letter letter "probe"
#define TURN(who, word) { .role = who, .text = word, .n = sizeof word - 1 }

/* Render a small conversation. If the template fails, text.text is NULL. */
static bool probe(const ChatTemplate *t, const ChatTurn *turn, size_t n, bool answer,
                  JinjaText *text, Error *err)
{
    Conversation c;
    Error        why = { 0 };
    *text = (JinjaText){ 0 };
    bool ok = conversation_new(t, turn, n, &c, &why);
    if (ok) {
        c.most_steps = PROBE_STEPS;
        ok = conversation_render(&c, n, answer, text, &why);
    }
    conversation_free(&c);
    return ok || why.status == INPUT || fail(err, why.status, "%s", why.msg);
}

/* The index of a word of the messages, from a byte on; n: not found. */
static size_t find_word(const JinjaText *t, size_t from, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = from; n <= t->n && i <= t->n - n; i++)
        if (!t->mark[i] && memcmp(t->text + i, word, n) == 0)
            return i;
    return t->n;
}

static bool find_system(const ChatTemplate *t, ChatHabits *h, Error *err)
{
    static const ChatTurn turn[] = { TURN("system", WORD("s")), TURN("user", WORD("u")) };
    JinjaText with, without;
    bool      ok = probe(t, turn, 2, true, &with, err);
    if (!ok || !probe(t, turn + 1, 1, true, &without, err)) {
        jinja_text_free(&with);
        return false;
    }
    h->system = SYSTEM_TOLD;
    if (!with.text && without.text)
        h->system = SYSTEM_REFUSED;
    else if (with.text && find_word(&with, 0, WORD("s")) == with.n)
        h->system = SYSTEM_IGNORED;
    jinja_text_free(&with);
    jinja_text_free(&without);
    return true;
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The stop string of a template without a special token for it: the text up to the next message,
 * without the white space around it, but including the newline before it if it begins a line. */
static char *stop_text(const char *text, size_t n, Error *err)
{
    size_t from = 0;
    while (n && is_space(text[n - 1]))
        n--;
    while (from < n && is_space(text[from]))
        from++;
    size_t line = from;
    while (line && text[line - 1] != '\n')
        line--;
    from = line ? line - 1 : from;
    char *out = strndup(text + from, n - from);
    if (!out)
        no_memory("chat", err);
    return out;
}

/* opened: the text that ends with the generation prompt; whole: the conversation with its
 * answer. */
static bool find_answer(const ChatTokens *k, const JinjaText *opened, const JinjaText *whole,
                        ChatHabits *h, Error *err)
{
    size_t  answer = find_word(whole, 0, WORD("a")), end = answer + strlen(WORD("a"));
    size_t  next = answer < whole->n ? find_word(whole, end, WORD("n")) : whole->n;
    int32_t inside = -1, stop = -1;
    bool    together = opened->n <= answer && memcmp(opened->text, whole->text, opened->n) == 0;
    if (next == whole->n)
        return true;
    const char *before = whole->text + opened->n, *behind = whole->text + end;
    if (!first_special(k, behind, next - end, false, &stop, err)
        || (together && !first_special(k, before, answer - opened->n, false, &inside, err)))
        return false;
    /* If a template writes special tokens before the content, its answers have parts, and the end
     * of a part need not end the answer. */
    if (inside >= 0)
        return true;
    h->stop_id = stop;
    if (together) {
        free(h->answer_prefix);
        if (!(h->answer_prefix = strndup(before, answer - opened->n)))
            return no_memory("chat", err);
    }
    h->stop_text = stop < 0 ? stop_text(behind, next - end, err) : NULL;
    if (h->stop_text && !*h->stop_text) {
        free(h->stop_text);
        h->stop_text = NULL;
        return true;
    }
    return stop >= 0 || h->stop_text;
}

bool chat_habits_find(const ChatTokens *k, const ChatTemplate *t, ChatHabits *out, Error *err)
{
    static const ChatTurn turn[] = { TURN("user", WORD("u")), TURN("assistant", WORD("a")),
                                     TURN("user", WORD("n")) };
    JinjaText opened = { 0 }, whole = { 0 };
    *out = (ChatHabits){ .stop_id = -1, .system = SYSTEM_TOLD, .answer_prefix = strdup("") };
    bool ok = (out->answer_prefix || no_memory("chat", err)) && find_system(t, out, err)
        && probe(t, turn, 1, true, &opened, err) && probe(t, turn, 3, true, &whole, err);
    if (ok && opened.text && whole.text)
        ok = find_answer(k, &opened, &whole, out, err);
    jinja_text_free(&opened);
    jinja_text_free(&whole);
    if (!ok)
        chat_habits_free(out);
    return ok;
}

void chat_habits_free(ChatHabits *h)
{
    free(h->stop_text);
    free(h->answer_prefix);
    *h = (ChatHabits){ 0 };
}
