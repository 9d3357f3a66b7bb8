/* Writes a conversation out by the forms of a chat format, and notes which span of the text came
 * from which message. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "text/chat_format.h"
#include "text/unicode.h"

/* A conversation while it is rendered. */
typedef struct Render {
    const ChatFormat *f;
    const char       *bos, *eos;
    TextOut           out;
    ChatSpan         *span;
    size_t            n_spans, cap_spans;
    size_t            trim_from, trim_span; /* byte and span at which the open {trim} began */
    Error            *err;
} Render;

/* The values of a form's placeholders. */
typedef struct Filling {
    const char *content, *system; size_t n_content, n_system, message;
} Filling;

static bool add_span(Render *r, ChatSpanKind kind, size_t start, size_t message)
{
    if (!ARRAY_ROOM(r->span, r->cap_spans, r->n_spans + 1))
        return fail(r->err, SYSTEM, "chat: out of memory for a conversation");
    r->span[r->n_spans++] = (ChatSpan){ kind, start, r->out.n, message };
    return true;
}

static bool add_text(Render *r, const char *text, size_t n)
{
    return text_out_bytes(&r->out, text, n)
        || fail(r->err, SYSTEM, "chat: out of memory for a conversation");
}

static bool add_marked(Render *r, ChatSpanKind kind, const char *text, size_t n, size_t message)
{
    size_t start = r->out.n;
    return n == 0 || (add_text(r, text, n) && add_span(r, kind, start, message));
}

/* ---- Trimming: the white space of Python's str.strip and Jinja's trim
 * ----------------------------- */

static bool is_space(uint32_t cp) { return is_white_space(cp) || (cp >= 0x1C && cp <= 0x1F); }

static size_t space_before(const char *p, size_t n)
{
    uint32_t cp = 0;
    size_t   len = character_before(p, n, &cp);
    return is_space(cp) ? len : 0;
}

static size_t space_at(const char *p, size_t n)
{
    uint32_t cp = 0;
    size_t   len = character_at(p, n, &cp);
    return is_space(cp) ? len : 0;
}

/* Remove the white space at both ends of the text written since {trim}. */
static void trim(Render *r)
{
    size_t from = r->trim_from, len, cut = 0;
    while (r->out.n > from && (len = space_before(r->out.text + from, r->out.n - from)) > 0)
        r->out.n -= len;
    while (from + cut < r->out.n
           && (len = space_at(r->out.text + from + cut, r->out.n - from - cut)) > 0)
        cut += len;
    if (cut)
        memmove(r->out.text + from, r->out.text + from + cut, r->out.n - from - cut);
    r->out.n -= cut;
    for (size_t i = r->trim_span; i < r->n_spans; i++) {
        ChatSpan *s = &r->span[i];
        s->start = s->start > from + cut ? s->start - cut : from;
        s->end   = s->end > from + cut ? s->end - cut : from;
        s->start = s->start < r->out.n ? s->start : r->out.n;
        s->end   = s->end < r->out.n ? s->end : r->out.n;
    }
}

/* ---- Forms ----------------------------------------------------------------------------------- */

static bool add_part(Render *r, const FormPart *p, const Filling *with)
{
    switch (p->kind) {
    case FORM_TEXT:    return add_text(r, p->text, p->n);
    case FORM_CONTENT:
        return add_marked(r, CHAT_CONTENT, with->content, with->n_content, with->message);
    case FORM_SYSTEM:
        return add_marked(r, CHAT_CONTENT, with->system, with->n_system, with->message);
    case FORM_BOS:     return add_marked(r, CHAT_BOS, r->bos, strlen(r->bos), with->message);
    case FORM_EOS:     return add_marked(r, CHAT_EOS, r->eos, strlen(r->eos), with->message);
    case FORM_TRIM:
        r->trim_from = r->out.n;
        r->trim_span = r->n_spans;
        return true;
    case FORM_TRIM_END:
        trim(r);
        return true;
    }
    return true;
}

static bool add_form(Render *r, FormName name, const Filling *with)
{
    const ChatForm *form = &r->f->form[name];
    for (size_t i = 0; i < form->n_parts; i++)
        if (!add_part(r, &form->part[i], with))
            return false;
    return true;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static const char *last_match(const char *text, size_t n, const char *word)
{
    size_t n_word = strlen(word);
    for (size_t i = n >= n_word ? n - n_word + 1 : 0; i-- > 0;)
        if (memcmp(text + i, word, n_word) == 0)
            return text + i;
    return NULL;
}

/* Drop the thinking part at the start of an earlier answer. */
static void drop_thoughts(const ChatFormat *f, const char **text, size_t *n)
{
    const char *end = f->thinking_end && *n ? last_match(*text, *n, f->thinking_end) : NULL;
    if (!end)
        return;
    const char *rest = end + strlen(f->thinking_end);
    *n -= (size_t)(rest - *text);
    *text = rest;
    while (f->thinking_strip && *n && **text == '\n')
        (*text)++, (*n)--;
}

/* If the turn written from `start` on is the opening followed by the answer exactly as it was
 * drawn, the model's own tokens can stand for the answer. It then becomes a span of its own. */
static bool mark_drawn(Render *r, const ChatMessage *m, size_t message, size_t start,
                       size_t first_span)
{
    if (!m->drawn || !m->n_drawn)
        return true;
    Render opening = { .f = r->f, .bos = r->bos, .eos = r->eos, .err = r->err };
    bool   ok = add_form(&opening, CHAT_OPEN, &(Filling){ 0 });
    size_t n = opening.out.n, n_turn = r->out.n - start;
    bool   same = ok && n + m->n_drawn <= n_turn
        && (!n || memcmp(opening.out.text, r->out.text + start, n) == 0)
        && memcmp(r->out.text + start + n, m->drawn, m->n_drawn) == 0;
    free(opening.out.text);
    free(opening.span);
    if (!ok || !same)
        return ok;
    size_t from = start + n, to = from + m->n_drawn;
    for (size_t i = first_span; i < r->n_spans; i++) {
        ChatSpan *s = &r->span[i];
        if (s->kind != CHAT_CONTENT || s->end <= from || s->start >= to)
            continue;
        if (s->end > to)
            return true; /* content goes on after the drawn text: not the same answer */
        *s = (ChatSpan){ CHAT_DRAWN, from, to, message };
        return true;
    }
    return true;
}

static bool add_answer(Render *r, const ChatMessage *m, size_t message)
{
    Filling with = { .content = m->text, .n_content = m->n, .message = message };
    size_t  start = r->out.n, first_span = r->n_spans;
    drop_thoughts(r->f, &with.content, &with.n_content);
    return add_form(r, CHAT_ASSISTANT_TURN, &with) && mark_drawn(r, m, message, start, first_span);
}

static bool check_roles(const ChatFormat *f, const ChatMessage *m, size_t n, Error *err)
{
    size_t first = n && m[0].role == CHAT_SYSTEM;
    if (n == first)
        return fail(err, INPUT, "chat: expected a message of the user, found none");
    for (size_t i = first; i < n; i++) {
        ChatRole wanted = (i - first) % 2 ? CHAT_ASSISTANT : CHAT_USER;
        if (m[i].role == CHAT_SYSTEM)
            return fail(err, INPUT,
                        "chat: message %zu: expected the system text in front of all turns", i + 1);
        if (f->alternate && m[i].role != wanted)
            return fail(err, INPUT,
                        "chat: message %zu: format %s: expected the role %s, since roles must "
                        "alternate, found %s",
                        i + 1, f->name, chat_role_name(wanted), chat_role_name(m[i].role));
    }
    if (first && chat_format_system(f) == CHAT_SYSTEM_NONE)
        return fail(
            err, INPUT,
            "chat: format %s: expected no system text, since the format does not support one",
            f->name);
    return true;
}

static bool add_turns(Render *r, const ChatMessage *m, size_t first, size_t n,
                      const Filling *system)
{
    bool in_turn = system->system && r->f->form[CHAT_USER_SYSTEM].given, seen_user = false;
    for (size_t i = first; i < n; i++) {
        if (m[i].role == CHAT_ASSISTANT) {
            if (!add_answer(r, &m[i], i))
                return false;
            continue;
        }
        Filling with = *system;
        with.content = m[i].text, with.n_content = m[i].n, with.message = i;
        bool here = in_turn && (r->f->system_at_last ? i + 1 == n : !seen_user);
        bool special_first = !seen_user && r->f->form[CHAT_USER_FIRST].given;
        if (!add_form(r,
                      here                ? CHAT_USER_SYSTEM
                          : special_first ? CHAT_USER_FIRST
                                          : CHAT_USER_TURN,
                      &with))
            return false;
        seen_user = true;
    }
    return true;
}

bool chat_render(const ChatFormat *f, const ChatMessage *m, size_t n, bool open, const char *bos,
                 const char *eos, ChatText *out, Error *err)
{
    Render r = { .f = f, .bos = bos, .eos = eos, .err = err };
    if (!check_roles(f, m, n, err))
        return false;
    size_t  first = m[0].role == CHAT_SYSTEM;
    Filling system = { .system = f->default_system,
                       .n_system = f->default_system ? strlen(f->default_system) : 0 };
    if (first)
        system.system = m[0].text ? m[0].text : "", system.n_system = m[0].n;
    bool ok = add_form(&r, CHAT_BEGIN, &system)
        && (!system.system || add_form(&r, CHAT_SYSTEM_TURN, &system))
        && add_turns(&r, m, first, n, &system)
        && add_form(&r, open ? CHAT_OPEN : CHAT_CLOSE, &system)
        && add_text(&r, "", 1); /* NUL-terminated */
    if (!ok) {
        free(r.out.text);
        free(r.span);
        return false;
    }
    *out = (ChatText){ r.out.text, r.out.n - 1, r.span, r.n_spans };
    return true;
}

bool chat_answer_prefix(const ChatFormat *f, const char *bos, const char *eos, char **out,
                        Error *err)
{
    const ChatForm *turn = &f->form[CHAT_ASSISTANT_TURN];
    Render  opening = { .f = f, .bos = bos, .eos = eos, .err = err }, prefix = opening;
    Filling none = { 0 };
    bool    ok = add_form(&opening, CHAT_OPEN, &none);
    for (size_t i = 0; ok && i < turn->n_parts && turn->part[i].kind != FORM_CONTENT; i++)
        if (turn->part[i].kind != FORM_TRIM && turn->part[i].kind != FORM_TRIM_END)
            ok = add_part(&prefix, &turn->part[i], &none);
    size_t n = opening.out.n;
    bool   same =
        ok && n <= prefix.out.n && (!n || memcmp(opening.out.text, prefix.out.text, n) == 0);
    *out = ok
        ? strndup(same && prefix.out.n > n ? prefix.out.text + n : "", same ? prefix.out.n - n : 0)
        : NULL;
    if (ok && !*out)
        ok = no_memory("chat", err);
    free(opening.out.text);
    free(opening.span);
    free(prefix.out.text);
    free(prefix.span);
    return ok;
}

void chat_text_free(ChatText *t)
{
    free(t->text);
    free(t->span);
    *t = (ChatText){ 0 };
}
