/* chat/chat_probe.c: finds how a template writes reasoning and tool calls, by rendering probes
 * through it. A probe is a conversation whose last message contains words that no template has. The
 * text around the words is the template's frame; several probes distinguish its parts. The form
 * found then parses the renderings of the probes, and is kept only if that gives what the probes
 * said. */
#include "chat/chat_probe.h"

#include <stdlib.h>

/* ---- Reasoning ------------------------------------------------------------------------------- */

/* What a template writes before the content of an answer that has nothing else. */
static void find_content(Probing *p)
{
    const ProbePlace *w = &p->here;
    const char       *from = w->plain + w->begins;
    literal_set(p, &p->f->content, from, strstr(from, CONTENT));
    literal_drop_reasoning(p->f, &p->f->content);
}

/* text: an answer with REASONING, then CONTENT. */
static bool reasoning_from(Probing *p, const char *text)
{
    AnswerForm *f = p->f;
    const char *from = text + p->here.begins, *r = strstr(from, REASONING),
               *c = r ? strstr(r, CONTENT) : NULL;
    if (!c)
        return false;
    place_narrow(&p->here, text);
    from = text + p->here.begins;
    find_content(p);
    f->reasoning = literal_set(p, &f->think, from, r)
                   && literal_set(p, &f->think_end, after_word(r, REASONING), c);
    f->starts_reasoning = literal_empty(&f->think);
    bool content = !literal_empty(&f->content) && !literal_begins(&f->content, &f->think);
    if (content && literal_ends(&f->think_end, &f->content)
        && !literal_same(&f->think_end, &f->content))
        literal_drop_back(&f->think_end, f->content.to - f->content.from);
    find_content(p);
    f->reasoning = f->reasoning && !literal_empty(&f->think_end);
    return f->reasoning && probe_reads(p, from, CONTENT, REASONING, "");
}

void no_reasoning(AnswerForm *f)
{
    f->reasoning = f->starts_reasoning = false;
    f->reasoning_key = NULL;
    f->think = f->think_end = (Literal){ 0 };
}

static const char *const reasoning_keys[] = { "reasoning_content", "reasoning", "thinking",
                                              "tool_plan" };
enum { N_KEYS = sizeof reasoning_keys / sizeof *reasoning_keys };

/* The template renders it: from its own key, or as a part of the content. */
static bool find_shown_reasoning(Probing *p)
{
    for (size_t k = 0; k <= N_KEYS; k++) {
        bool  part = k == N_KEYS;
        char *text = part ? probe_answer(p, p->here.tools, "{\"role\": \"assistant\", "
                "\"content\": [{\"type\": \"thinking\", \"thinking\": \"" REASONING "\"}, "
                "{\"type\": \"text\", \"text\": \"" CONTENT "\"}]}")
            : probe_answer(p, p->here.tools, "{\"role\": \"assistant\", \"%s\": \""
                            REASONING "\", \"content\": \"" CONTENT "\"}", reasoning_keys[k]);
        bool found = text && strlen(text) > p->here.begins && reasoning_from(p, text);
        free(text);
        if (found) {
            p->f->reasoning_key = part ? NULL : reasoning_keys[k];
            return true;
        }
        no_reasoning(p->f);
    }
    return false;
}

/* Does the template render of content with `mark` only what follows, as if that were all? */
static bool takes_off(Probing *p, const char *mark, size_t n, bool last)
{
    TextOut o = { 0 };
    json_out_inside(&o, mark, n);
    char *inside = probe_taken(p, &o), *text = NULL;
    if (inside)
        text = probe_answer(p, p->here.tools, "{\"role\": \"assistant\", \"content\": \""
                             REASONING "%s" CONTENT "\"}%s", inside, last ? "" : LATER);
    const char *alone = last ? p->here.plain : p->here.earlier;
    bool        off = text && alone && strcmp(text, alone) == 0;
    free(inside);
    free(text);
    return off;
}

typedef struct Candidates { Probing *p; int tried; size_t n; char mark[64]; } Candidates;

/* A longer text that contains the mark works as well; the shortest is the mark. */
static void try_mark(void *user, const char *s, size_t n)
{
    Candidates *t = user;
    bool        signs = false;
    for (size_t i = 0; i < n; i++) {
        if (answer_space(s[i]) || !s[i])
            return;
        signs |= !((s[i] >= '0' && s[i] <= '9') || ((s[i] | 32) >= 'a' && (s[i] | 32) <= 'z'));
    }
    if (!signs || n < 3 || n > sizeof t->mark || (t->n && n >= t->n) || t->tried++ > 40
        || !(takes_off(t->p, s, n, false) || takes_off(t->p, s, n, true)))
        return;
    memcpy(t->mark, s, n);
    t->n = n;
}

/* The end of the prompt opens the reasoning; else the closing marker without its slash opens it. */
static void reasoning_taken_off(Probing *p)
{
    AnswerForm *f = p->f;
    Candidates  t = { .p = p };
    const char *open = p->here.prompt + p->here.begins, *slash;
    jinja_constants(p->t, try_mark, &t);
    if (!t.n || !literal_set(p, &f->think_end, t.mark, t.mark + t.n))
        return;
    f->reasoning = literal_set(p, &f->think, open, open + strlen(open))
                   && !literal_empty(&f->think) && !strstr(open, f->think_end.s);
    slash = memchr(t.mark, '/', t.n);
    if (f->reasoning || !slash)
        return;
    memmove(t.mark + (slash - t.mark), slash + 1, t.n - 1 - (size_t)(slash - t.mark));
    f->reasoning = literal_set(p, &f->think, t.mark, t.mark + t.n - 1);
}

/* A prompt without reasoning often ends with an empty one: two markers where the answer begins. */
static void empty_reasoning(Probing *p, const char *prompt)
{
    enum { HEADER = 24 };
    AnswerForm *f = p->f;
    size_t      n = p->here.begins < HEADER ? p->here.begins : HEADER;
    const char *header = p->here.prompt + p->here.begins - n, *s = "", *middle, *end;
    for (const char *i = prompt; i && *i; i++)
        if (strncmp(i, header, n) == 0)
            s = i + n;
    while (answer_space(*s))
        s++;
    middle = strpbrk(s, ">]");
    end = middle ? strpbrk(middle + 1, ">]") : NULL;
    if (!end || !strchr("<[", *s) || !strchr("<[", *(middle + 1 + strspn(middle + 1, " \t\r\n")))
        || end[1 + strspn(end + 1, " \t\r\n")])
        return;
    f->reasoning = literal_set(p, &f->think, s, middle + 1)
                   && literal_set(p, &f->think_end, middle + 1, end + 1);
}

static void find_reasoning(Probing *p)
{
    if (!find_shown_reasoning(p))
        reasoning_taken_off(p);
    if (!p->f->reasoning)
        empty_reasoning(p, p->here.prompt);
    if (!p->f->reasoning) {
        p->thinking_off = true;
        char *prompt = probe_render(p, "", p->here.tools, true);
        p->thinking_off = false;
        empty_reasoning(p, prompt);
        free(prompt);
    }
    if (!p->f->reasoning)
        no_reasoning(p->f);
    find_content(p);
}

/* ---- Reasoning and calls --------------------------------------------------------------------- */

/* Where in the core the first marker in brackets ends and another begins; to: nowhere. */
static size_t bracket_end(const Literal *l)
{
    size_t i = l->from + 1;
    while (i < l->to && !(strchr(">]", l->s[i - 1]) && strchr("<[", l->s[i])))
        i++;
    return i;
}

/* The text between reasoning and a call: the end of the one and the start of the other. If a
 * template writes empty reasoning before every call, the boundary is unknown; then reasoning ends
 * with the first marker in brackets. */
static bool split_reasoning(AnswerForm *f)
{
    Literal *end = &f->think_end, *begin = &f->calls.begin, rest = *begin;
    if (literal_empty(&f->think))
        return false;
    if (literal_ends(end, begin) && !literal_same(end, begin)) {
        literal_drop_back(end, begin->to - begin->from);
        return true;
    }
    size_t i = bracket_end(end);
    if (!literal_drop(&rest, &f->think) || !literal_same(&rest, end) || i >= end->to)
        return false;
    *begin = *end;
    literal_drop_front(begin, i);
    literal_drop_back(end, end->to - i);
    return true;
}

/* Some templates render reasoning only if a call follows. */
static void find_reasoning_of_calls(Probing *p)
{
    AnswerForm *f = p->f;
    for (size_t k = 0; !f->reasoning && k < N_KEYS && f->calls.style && !p->no_memory; k++) {
        TextOut o = { 0 };
        text_out(&o, "%s, \"%s\": \"" REASONING "\"", p->content, reasoning_keys[k]);
        char *more = probe_taken(p, &o),
             *text = more ? probe_calls(p, more, TEXTS, NULL) : NULL;
        const char *from = text && strlen(text) > p->with_tools.begins
                               ? text + p->with_tools.begins : NULL,
                   *r = from ? strstr(from, REASONING) : NULL, *end,
                   *first = r ? call_start(&f->calls, after_word(r, REASONING), NAME_1, ID_1, &end)
                              : NULL;
        CallForm kept = f->calls;
        f->reasoning = first && literal_set(p, &f->think, from, r)
                       && literal_set(p, &f->think_end, after_word(r, REASONING), first)
                       && split_reasoning(f) && probe_reads(p, from, "", REASONING, NULL)
                       && calls_are_read(p);
        f->reasoning_key = reasoning_keys[k];
        if (!f->reasoning) {
            no_reasoning(f);
            f->calls = kept;
        }
        free(more);
        free(text);
    }
}

/* ---- The form -------------------------------------------------------------------------------- */

AnswerForm *answer_form_new(const Jinja *t, const AnswerInput *in, Error *err)
{
    AnswerForm *f = calloc(1, sizeof *f);
    Probing     p = { .t = t, .in = in, .err = err, .f = f };
    if (!f) {
        no_memory("answer", err);
        return NULL;
    }
    f->has_specials = in->special != NULL;
    if (place_find(&p, &p.here, in->tools)) {
        const char *end = after_word(strstr(p.here.plain + p.here.begins, CONTENT), CONTENT);
        if (literal_set(&p, &f->turn_end, end, end + strlen(end)) && !literal_empty(&f->turn_end)) {
            f->turn_first = f->turn_end;
            literal_drop_back(&f->turn_first, f->turn_end.to - bracket_end(&f->turn_end));
        }
        find_reasoning(&p);
        probe_find_calls(&p);
        find_reasoning_of_calls(&p);
        f->object_arguments = f->calls.style != CALLS_NONE && !f->text_arguments;
        const char *open = p.here.prompt + p.here.begins;
        literal_set(&p, &f->primed, open, open + strlen(open));
        if (!in->tools) /* without tools nothing is a call */
            f->calls = (CallForm){ 0 };
    }
    for (ProbePlace *w = &p.here; w; w = w == &p.here ? &p.with_tools : NULL)
        free(w->prompt), free(w->plain), free(w->earlier);
    if (p.no_memory) {
        free(f);
        no_memory("answer", err);
        return NULL;
    }
    return f;
}

void answer_form_free(AnswerForm *f) { free(f); }

static AnswerMarker core_of(const Literal *l)
{
    return (AnswerMarker){ l->s + l->from, l->known ? l->to - l->from : 0 };
}

/* Up to white space, which an answer may omit, and digits, which differ. If all parts have a
 * header, only later text says what a part is. */
static AnswerMarker call_marker(const AnswerForm *f)
{
    const CallForm *c    = &f->calls;
    AnswerMarker    m    = core_of(&c->begin);
    size_t          n    = 0;
    const bool      same = !c->begin_later.known || literal_same(&c->begin_later, &c->begin);
    while (n < m.n && !answer_space(m.s[n]) && m.s[n] != DIGITS)
        n++;
    m.n = same && literal_empty(&f->head) ? n : 0;
    return m;
}

AnswerFacts answer_form_facts(const AnswerForm *f)
{
    const Literal *end = &f->think_end;
    return (AnswerFacts){ .reasoning        = f->reasoning,
                          .calls            = f->calls.style != CALLS_NONE,
                          .reasoning_key    = f->reasoning_key,
                          .text_arguments   = f->text_arguments,
                          .object_arguments = f->object_arguments,
                          .no_content       = f->no_content,
                          .primed           = { f->primed.s, f->primed.n },
                          .think            = core_of(&f->think),
                          .think_end        = core_of(end),
                          .think_gap        = { end->s + end->to, end->n - end->to },
                          .call             = call_marker(f) };
}

bool answer_goes_on(const AnswerForm *f, const char *text)
{
    const Literal *const markers[] = { &f->think_end, &f->calls.begin, &f->calls.begin_later };
    size_t n = strlen(text);
    for (size_t i = 0; i < sizeof markers / sizeof *markers; i++)
        if (n && n <= markers[i]->to - markers[i]->from
            && memcmp(markers[i]->s + markers[i]->from, text, n) == 0)
            return true;
    return false;
}
