/* chat/chat_probe_text.c: probes as texts: rendered, cut into literals, and parsed again. */
#include "chat/chat_probe.h"

#include <stdlib.h>

enum { PROBE_STEPS = 500000 }; /* so 60 of them take a few seconds at worst */

/* ---- Rendering ------------------------------------------------------------------------------- */

static char *render_json(Probing *p, TextOut *json)
{
    JsonDoc   d = { 0 };
    JinjaText out = { 0 };
    Error     e = { 0 };
    size_t    n = json->n;
    char     *text = text_out_take(json, &e);
    bool      good = text && json_doc_parse(&d, text, n, 0, "probe", &e);
    JinjaInput in = { p->in->own, d.node, p->in->date, p->in->roles };
    good = good && jinja_render_within(p->t, &in, PROBE_STEPS, &out, &e);
    if (!good && e.status == SYSTEM)
        p->no_memory = true;
    json_doc_free(&d);
    free(out.mark);
    return good ? out.text : NULL;
}

char *probe_render(Probing *p, const char *messages, bool tools, bool prompt)
{
    TextOut     o = { 0 };
    const char *args = p->in->args ? p->in->args : "{}", *end = args + strlen(args);
    const char *off = ", \"enable_thinking\": false, \"thinking\": false";
    if (p->no_memory)
        return NULL;
    while (answer_space(*args))
        args++;
    while (end > args && answer_space(end[-1]))
        end--;
    if (end - args < 2 || *args != '{' || end[-1] != '}')
        return NULL;
    text_out_bytes(&o, args, (size_t)(end - args) - 1);
    while (o.n > 1 && answer_space(o.text[o.n - 1]))
        o.n--;
    text_out(&o, "%s\"messages\": [" USER "%s%s], \"add_generation_prompt\": %s%s%s}",
             o.n > 1 ? ", " : "", *messages ? ", " : "", messages, prompt ? "true" : "false",
             tools ? ", \"tools\": " TOOLS : ", \"tools\": null", p->thinking_off ? off : "");
    return render_json(p, &o);
}

char *probe_taken(Probing *p, TextOut *o)
{
    Error e = { 0 };
    char *text = text_out_take(o, &e);
    p->no_memory |= !text;
    return text;
}

char *probe_answer(Probing *p, bool tools, const char *fmt, ...)
{
    TextOut o = { 0 };
    va_list list;
    va_start(list, fmt);
    text_out_list(&o, fmt, list);
    va_end(list);
    char *messages = probe_taken(p, &o),
         *text = messages ? probe_render(p, messages, tools, false) : NULL;
    free(messages);
    return text;
}

static void add_call(Probing *p, TextOut *o, const char *name, const char *id, const char *args)
{
    text_out(o, "{\"id\": \"%s\", \"type\": \"function\", \"function\": {\"name\": \"%s\", "
                "\"arguments\": %s", id, name, p->as_text ? "\"" : args);
    if (p->as_text) {
        json_out_inside(o, args, strlen(args));
        text_out_bytes(o, "\"", 1);
    }
    text_out_bytes(o, "}}", 2);
}

char *probe_calls(Probing *p, const char *content, const char *args_1, const char *args_2)
{
    TextOut o = { 0 };
    add_call(p, &o, NAME_1, ID_1, args_1);
    if (args_2) {
        text_out_bytes(&o, ", ", 2);
        add_call(p, &o, NAME_2, ID_2, args_2);
    }
    char *calls = probe_taken(p, &o), *text = NULL;
    if (calls)
        text = probe_answer(p, true, "{\"role\": \"assistant\"%s, \"tool_calls\": [%s]}", content,
                             calls);
    free(calls);
    return text;
}

/* ---- Literals -------------------------------------------------------------------------------- */

void literal_set_range(Literal *l)
{
    l->from = 0;
    l->to = l->n;
    while (l->from < l->to && answer_space(l->s[l->from]))
        l->from++;
    while (l->to > l->from && answer_space(l->s[l->to - 1]))
        l->to--;
}

bool literal_set(const Probing *p, Literal *l, const char *from, const char *to)
{
    *l = (Literal){ 0 };
    if (!from || !to || to < from || to - from > LITERAL_BYTES)
        return false;
    l->known = true;
    l->n = (size_t)(to - from);
    memcpy(l->s, from, l->n);
    for (size_t i = 0, n; p->in->special && i < l->n; i += n ? n : 1) {
        n = p->in->special(p->in->user, from + i, l->n - i);
        n = n <= l->n - i ? n : 0;
        memset(l->special + i, 1, n);
    }
    literal_set_range(l);
    return true;
}

bool literal_begins(const Literal *a, const Literal *b)
{
    size_t n = b->to - b->from;
    return n <= a->to - a->from && memcmp(a->s + a->from, b->s + b->from, n) == 0;
}
bool literal_ends(const Literal *a, const Literal *b)
{
    size_t n = b->to - b->from;
    return n <= a->to - a->from && memcmp(a->s + a->to - n, b->s + b->from, n) == 0;
}
bool literal_same(const Literal *a, const Literal *b)
{
    return a->to - a->from == b->to - b->from && literal_begins(a, b);
}

void literal_drop_front(Literal *l, size_t n)
{
    memmove(l->s, l->s + n, l->n - n);
    memmove(l->special, l->special + n, l->n - n);
    l->n -= n;
    literal_set_range(l);
}
void literal_drop_back(Literal *l, size_t n)
{
    l->n = l->to - n;
    literal_set_range(l);
}

bool literal_drop(Literal *l, const Literal *front)
{
    if (!literal_begins(l, front))
        return false;
    literal_drop_front(l, l->from + (front->to - front->from));
    return true;
}

void literal_drop_reasoning(const AnswerForm *f, Literal *l)
{
    Literal rest = *l;
    if (f->reasoning)
        literal_drop(&rest, &f->think);
    if (f->reasoning && literal_drop(&rest, &f->think_end))
        *l = rest;
}

/* ---- Positions ------------------------------------------------------------------------------- */

/* The length of the common prefix of a and b. It does not cut a marker in brackets. */
static size_t common(const char *a, const char *b, size_t most)
{
    size_t n = 0, k;
    while (n < most && a[n] && a[n] == b[n])
        n++;
    while (n && ((unsigned char)a[n] & 0xC0) == 0x80)
        n--;
    for (k = n; k && n - k < 40 && !answer_space(a[k - 1]) && !strchr(">]<[", a[k - 1]); k--)
        ;
    return k && strchr("<[", a[k - 1]) ? k - 1 : n;
}

void place_narrow(ProbePlace *w, const char *text)
{
    if (text)
        w->begins = common(w->prompt, text, w->begins);
}

bool place_find(Probing *p, ProbePlace *w, bool tools)
{
    w->tools = tools;
    w->prompt = probe_render(p, "", tools, true);
    w->plain = w->prompt ? probe_answer(p, tools, "{\"role\": \"assistant\", \"content\": \""
                                         CONTENT "\"}") : NULL;
    if (!w->plain)
        return false;
    w->earlier = probe_answer(p, tools, "{\"role\": \"assistant\", \"content\": \"" CONTENT
                               "\"}" LATER);
    w->begins = strlen(w->prompt);
    place_narrow(w, w->plain);
    place_narrow(w, w->earlier);
    return strstr(w->plain + w->begins, CONTENT) != NULL;
}

/* ---- Does it parse the probes? --------------------------------------------------------------- */

typedef struct Said { TextOut content, reasoning, calls; } Said;

static void collect(Said *s, const Answer *a)
{
    size_t            n;
    const AnswerPart *part = answer_parts(a, &n);
    for (size_t i = 0; i < n; i++) {
        TextOut *o = part[i].kind == ANSWER_CONTENT ? &s->content
                     : part[i].kind == ANSWER_REASONING ? &s->reasoning : &s->calls;
        if (part[i].kind == ANSWER_CALL_ID)
            continue;
        for (size_t k = 0; k < part[i].n; k++) /* compare JSON without white space */
            if (o != &s->calls || !answer_space(part[i].text[k]))
                text_out_bytes(o, part[i].text + k, 1);
        if (o == &s->calls && part[i].kind != ANSWER_ARGUMENTS)
            text_out_bytes(o, "|", 1);
    }
}

static bool feed(Probing *p, Answer *a, const char *text, Said *said)
{
    Error e = { 0 };
    bool  good = true;
    for (size_t i = 0, n = strlen(text), k; good && i < n; i += k) {
        k = p->in->special ? p->in->special(p->in->user, text + i, n - i) : n;
        bool special = p->in->special && k && k <= n - i;
        k = special || !p->in->special ? k : 1;
        good = answer_put(a, text + i, k, special, &e);
        if (good)
            collect(said, a);
    }
    good = good && answer_end(a, &e);
    if (good)
        collect(said, a);
    p->no_memory |= !good;
    return good;
}

static bool says(const TextOut *o, const char *text)
{
    return o->n == strlen(text) && (!o->n || memcmp(o->text, text, o->n) == 0);
}

bool probe_reads(Probing *p, const char *text, const char *content, const char *reasoning,
                  const char *calls)
{
    Error   e = { 0 };
    Said    said = { 0 };
    Answer *a = text ? answer_begin(p->f, NULL, reasoning && *reasoning ? BEGINS_ANY : BEGINS_FREE,
                                    &e) : NULL;
    p->no_memory |= text && !a;
    bool good = a && feed(p, a, text, &said) && (!content || says(&said.content, content))
                && (!reasoning || says(&said.reasoning, reasoning))
                && (!calls || says(&said.calls, calls));
    p->no_memory |= said.content.failed || said.reasoning.failed || said.calls.failed;
    answer_free(a);
    text_out_free(&said.content);
    text_out_free(&said.reasoning);
    text_out_free(&said.calls);
    return good;
}
