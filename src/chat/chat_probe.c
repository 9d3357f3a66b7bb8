/* chat/chat_probe.c: finds how a template writes reasoning and tool calls, by rendering probes
 * through it. A probe is a conversation whose last message contains words that no template has. The
 * text around the words is the template's frame; several probes distinguish its parts. The form
 * found then parses the renderings of the probes, and is kept only if that gives what the probes
 * said. */
#include "chat/chat_answer_parts.h"

#include <stdlib.h>

enum { PROBE_STEPS = 500000 }; /* so 60 of them take a few seconds at worst */

#define USER      "{\"role\": \"user\", \"content\": \"q\"}"
#define LATER     ", " USER ", {\"role\": \"assistant\", \"content\": \"b\"}, " USER
#define CONTENT   "Wqcontent"
#define REASONING "Wqreason"
#define NAME_1    "qzfirst"
#define NAME_2    "xwsecond"
#define ID_1      "q1w2e3r4t" /* nine letters and digits, as some templates require */
#define ID_2      "z9x8c7v6b"
#define KEY_1     "karg1"
#define KEY_2     "karg2"
#define TEXT_1    "vala1"
#define TEXT_2    "valb2"
#define NUMBER_1  "50171"
#define NUMBER_2  "50282"
#define TEXTS     "{\"" KEY_1 "\": \"" TEXT_1 "\", \"" KEY_2 "\": \"" TEXT_2 "\"}"
#define NUMBERS   "{\"" KEY_1 "\": " NUMBER_1 ", \"" KEY_2 "\": " NUMBER_2 "}"
#define ONE_TEXT  "{\"" KEY_2 "\": \"" TEXT_2 "\"}"
#define ONE_NUMBER "{\"" KEY_2 "\": " NUMBER_2 "}"

#define PROPERTY(key) "\"" key "\": {\"type\": \"string\", \"description\": \"d\"}"
#define TOOL(name)                                                                                 \
    "{\"type\": \"function\", \"function\": {\"name\": \"" name "\", \"description\": \"d\", "     \
    "\"parameters\": {\"type\": \"object\", \"properties\": {" PROPERTY(KEY_1) ", "               \
    PROPERTY(KEY_2) "}, \"required\": [\"" KEY_1 "\"]}}}"
#define TOOLS "[" TOOL(NAME_1) ", " TOOL(NAME_2) "]"

/* With tools or without: the end of the prompt, a last answer, and an answer with a turn after it;
 * where the answer begins in each, and the text before and after its content. */
typedef struct ProbePlace {
    bool  tools;
    char *prompt, *plain, *earlier;
    size_t begins;
} ProbePlace;

typedef struct Probing {
    const Jinja       *t;
    const AnswerInput *in;
    Error             *err;
    bool               no_memory;
    AnswerForm        *f;
    ProbePlace         here, with_tools;
    const char        *content;     /* of a message with calls, with its key */
    bool               as_text;     /* arguments as a string */
    bool               thinking_off;
} Probing;

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

/* NULL: it fails. messages: what follows the user's first, or "". */
static char *render(Probing *p, const char *messages, bool tools, bool prompt)
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

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static char *render_answer(Probing *p, bool tools, const char *fmt, ...)
{
    TextOut o = { 0 };
    Error   e = { 0 };
    va_list list;
    va_start(list, fmt);
    text_out_list(&o, fmt, list);
    va_end(list);
    char *messages = text_out_take(&o, &e), *text = NULL;
    if (messages)
        text = render(p, messages, tools, false);
    else
        p->no_memory = true;
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

/* An answer with one call, or with two if args_2 is not NULL. content: as it is in the message. */
static char *render_calls(Probing *p, const char *content, const char *args_1, const char *args_2)
{
    TextOut o = { 0 };
    Error   e = { 0 };
    add_call(p, &o, NAME_1, ID_1, args_1);
    if (args_2) {
        text_out_bytes(&o, ", ", 2);
        add_call(p, &o, NAME_2, ID_2, args_2);
    }
    char *calls = text_out_take(&o, &e), *text = NULL;
    if (calls)
        text = render_answer(p, true, "{\"role\": \"assistant\"%s, \"tool_calls\": [%s]}", content,
                             calls);
    else
        p->no_memory = true;
    free(calls);
    return text;
}

/* ---- Literals -------------------------------------------------------------------------------- */

static void set_range(Literal *l)
{
    l->from = 0;
    l->to = l->n;
    while (l->from < l->to && answer_space(l->s[l->from]))
        l->from++;
    while (l->to > l->from && answer_space(l->s[l->to - 1]))
        l->to--;
}

/* False: too long, or absent (to is before from). */
static bool set_literal(const Probing *p, Literal *l, const char *from, const char *to)
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
    set_range(l);
    return true;
}

static bool same_core(const Literal *a, const Literal *b)
{
    size_t n = a->to - a->from;
    return n == b->to - b->from && memcmp(a->s + a->from, b->s + b->from, n) == 0;
}

/* Does a's core begin, or end, with b's core? */
static bool begins_with(const Literal *a, const Literal *b)
{
    size_t n = b->to - b->from;
    return n <= a->to - a->from && memcmp(a->s + a->from, b->s + b->from, n) == 0;
}
static bool ends_with(const Literal *a, const Literal *b)
{
    size_t n = b->to - b->from;
    return n <= a->to - a->from && memcmp(a->s + a->to - n, b->s + b->from, n) == 0;
}

static void drop_front(Literal *l, size_t n)
{
    memmove(l->s, l->s + n, l->n - n);
    memmove(l->special, l->special + n, l->n - n);
    l->n -= n;
    set_range(l);
}
static void drop_back(Literal *l, size_t n)
{
    l->n = l->to - n;
    set_range(l);
}

/* Some templates put empty reasoning before everything else: remove it from what follows it. */
static void drop_empty_reasoning(const AnswerForm *f, Literal *l)
{
    Literal rest = *l;
    if (f->reasoning && begins_with(&rest, &f->think))
        drop_front(&rest, rest.from + (f->think.to - f->think.from));
    if (!f->reasoning || !begins_with(&rest, &f->think_end))
        return;
    drop_front(&rest, rest.from + (f->think_end.to - f->think_end.from));
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

static void narrow(ProbePlace *w, const char *text)
{
    if (text)
        w->begins = common(w->prompt, text, w->begins);
}

static bool find_place(Probing *p, ProbePlace *w, bool tools)
{
    w->tools = tools;
    w->prompt = render(p, "", tools, true);
    w->plain = w->prompt ? render_answer(p, tools, "{\"role\": \"assistant\", \"content\": \""
                                         CONTENT "\"}") : NULL;
    if (!w->plain)
        return false;
    w->earlier = render_answer(p, tools, "{\"role\": \"assistant\", \"content\": \"" CONTENT
                               "\"}" LATER);
    w->begins = strlen(w->prompt);
    narrow(w, w->plain);
    narrow(w, w->earlier);
    return strstr(w->plain + w->begins, CONTENT) != NULL;
}

static void free_place(ProbePlace *w)
{
    free(w->prompt);
    free(w->plain);
    free(w->earlier);
    *w = (ProbePlace){ 0 };
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

/* Does parsing the text give this content, reasoning and so on? NULL: anything. */
static bool reads(Probing *p, const char *text, const char *content, const char *reasoning,
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
/* ---- Reasoning ------------------------------------------------------------------------------- */

static const char *after(const char *s, const char *word) { return s ? s + strlen(word) : NULL; }

/* What a template writes before the content of an answer that has nothing else. */
static void find_content(Probing *p)
{
    const ProbePlace *w = &p->here;
    const char       *from = w->plain + w->begins;
    set_literal(p, &p->f->content, from, strstr(from, CONTENT));
    drop_empty_reasoning(p->f, &p->f->content);
}

/* text: an answer with REASONING, then CONTENT. */
static bool reasoning_from(Probing *p, const char *text)
{
    AnswerForm *f = p->f;
    const char *from = text + p->here.begins, *r = strstr(from, REASONING),
               *c = r ? strstr(r, CONTENT) : NULL;
    if (!c)
        return false;
    narrow(&p->here, text);
    from = text + p->here.begins;
    find_content(p);
    f->reasoning = set_literal(p, &f->think, from, r)
                   && set_literal(p, &f->think_end, after(r, REASONING), c);
    f->starts_reasoning = literal_empty(&f->think);
    bool content = !literal_empty(&f->content) && !begins_with(&f->content, &f->think);
    if (content && ends_with(&f->think_end, &f->content)
        && !same_core(&f->think_end, &f->content))
        drop_back(&f->think_end, f->content.to - f->content.from);
    find_content(p);
    f->reasoning = f->reasoning && !literal_empty(&f->think_end);
    return f->reasoning && reads(p, from, CONTENT, REASONING, "");
}

static void no_reasoning(AnswerForm *f)
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
        char *text = part ? render_answer(p, p->here.tools, "{\"role\": \"assistant\", "
                "\"content\": [{\"type\": \"thinking\", \"thinking\": \"" REASONING "\"}, "
                "{\"type\": \"text\", \"text\": \"" CONTENT "\"}]}")
            : render_answer(p, p->here.tools, "{\"role\": \"assistant\", \"%s\": \""
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

/* The template strips it: of content that contains `mark`, it renders only what follows, as if that
 * were all. */
static bool takes_off(Probing *p, const char *mark, size_t n, bool last)
{
    TextOut o = { 0 };
    Error   e = { 0 };
    json_out_inside(&o, mark, n);
    char *inside = text_out_take(&o, &e), *text = NULL;
    if (inside)
        text = render_answer(p, p->here.tools, "{\"role\": \"assistant\", \"content\": \""
                             REASONING "%s" CONTENT "\"}%s", inside, last ? "" : LATER);
    else
        p->no_memory = true;
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
    if (!t.n || !set_literal(p, &f->think_end, t.mark, t.mark + t.n))
        return;
    f->reasoning = set_literal(p, &f->think, open, open + strlen(open))
                   && !literal_empty(&f->think) && !strstr(open, f->think_end.s);
    slash = memchr(t.mark, '/', t.n);
    if (f->reasoning || !slash)
        return;
    memmove(t.mark + (slash - t.mark), slash + 1, t.n - 1 - (size_t)(slash - t.mark));
    f->reasoning = set_literal(p, &f->think, t.mark, t.mark + t.n - 1);
}

/* A prompt without reasoning often ends with an empty one: two markers at the position where
 * otherwise the answer begins. */
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
    f->reasoning = set_literal(p, &f->think, s, middle + 1)
                   && set_literal(p, &f->think_end, middle + 1, end + 1);
}

static void find_reasoning(Probing *p)
{
    if (!find_shown_reasoning(p))
        reasoning_taken_off(p);
    if (!p->f->reasoning)
        empty_reasoning(p, p->here.prompt);
    if (!p->f->reasoning) {
        p->thinking_off = true;
        char *prompt = render(p, "", p->here.tools, true);
        p->thinking_off = false;
        empty_reasoning(p, prompt);
        free(prompt);
    }
    if (!p->f->reasoning)
        no_reasoning(p->f);
    find_content(p);
}

/* ---- Calls in a JSON value ------------------------------------------------------------------- */

/* The path of the text `word`, or (args) of the arguments, as an object or as a string. */
static bool find_path(const JsonNode *j, const char *word, bool args, KeyPath *path)
{
    const JsonNode *key = args ? node_get(j, KEY_1) : NULL;
    bool text = j->kind == NODE_STRING
                && (args ? j->n && j->text[0] == '{' && strstr(j->text, KEY_1) != NULL
                         : node_is(j, word));
    if (text || (key && node_is(key, TEXT_1)))
        return true;
    if (j->kind != NODE_OBJECT && j->kind != NODE_ARRAY)
        return false;
    JSON_NODES (i, j) {
        bool keyed = j->kind == NODE_OBJECT;
        if (keyed && (path->n == PATH_KEYS || i->key_n >= KEY_BYTES))
            continue;
        if (keyed) {
            path->key[path->n].n = i->key_n;
            memcpy(path->key[path->n++].s, i->key, i->key_n);
        }
        if (find_path(i, word, args, path))
            return true;
        path->n -= keyed;
    }
    return false;
}

static int shared_keys(const KeyPath *a, const KeyPath *b, int most)
{
    int n = 0;
    while (n < most && n < a->n - 1 && n < b->n - 1 && key_path_same(a, b, n + 1))
        n++;
    return n;
}

static void first_key(const JsonNode *j, KeyPath *path)
{
    while (j->kind == NODE_ARRAY && j->n)
        j++;
    if (j->kind == NODE_OBJECT && j->n && j[1].key_n < KEY_BYTES) {
        path->n = 1;
        path->key[0].n = j[1].key_n;
        memcpy(path->key[0].s, j[1].key, j[1].key_n);
    }
}

/* Are name and arguments in the JSON value s[0 .. n)? */
static bool paths_in(Probing *p, CallForm *c, const char *s, size_t n)
{
    JsonDoc d = { 0 };
    Error   e = { 0 };
    bool    good = json_doc_read(&d, s, n, 0, "probe", &e);
    p->no_memory |= !good && e.status == SYSTEM;
    *c = (CallForm){ .style = CALLS_JSON, .opens = s[0] };
    good = good && find_path(d.node, NAME_1, false, &c->name)
           && find_path(d.node, "", true, &c->args) && c->name.n && c->args.n;
    if (good) {
        if (!find_path(d.node, ID_1, false, &c->id))
            c->id.n = 0;
        first_key(d.node, &c->first);
        c->shared = shared_keys(&c->name, &c->args, PATH_KEYS);
        c->shared = c->id.n ? shared_keys(&c->name, &c->id, c->shared) : c->shared;
    }
    json_doc_free(&d);
    return good;
}

/* The first JSON value from `from` on that contains `over`; *end is its end. */
static const char *value_over(const char *from, const char *over, const char **end)
{
    for (const char *s = from; over && s < over; s++) {
        size_t n = json_length(s, strlen(s));
        if (n && s + n > over) {
            *end = s + n;
            return s;
        }
    }
    return NULL;
}

/* ---- Calls in a frame ------------------------------------------------------------------------ */

/* The positions of a call's words in a rendering. NULL: not there. first: name or id. */
typedef struct CallWords { const char *name, *id, *first, *last, *args, *args_end; } CallWords;

static const char *before(const char *s, const char *end) { return s && end && s < end ? s : NULL; }

static bool find_words(CallWords *w, const char *from, const char *name, const char *id,
                       const char *args)
{
    w->args = args;
    w->name = before(strstr(from, name), args);
    w->id = before(strstr(from, id), args);
    w->first = !w->id || (w->name && w->name < w->id) ? w->name : w->id;
    w->last = w->first == w->name && w->id ? w->id : w->name ? w->name : w->id;
    return w->first != NULL;
}

/* The JSON object whose first key is key; *end is its end. */
static const char *object_of(const char *from, const char *key, const char **end)
{
    const char *k = from ? strstr(from, key) : NULL, *s = k;
    if (!k || k == from || k[-1] != '"')
        return NULL;
    for (s = k - 1; s > from && answer_space(s[-1]);)
        s--;
    size_t n = s > from && s[-1] == '{' ? json_length(s - 1, strlen(s - 1)) : 0;
    *end = s - 1 + n;
    return n ? s - 1 : NULL;
}

static const char *word_end(const CallWords *w, const char *word, int call)
{
    return word + strlen(word == w->name ? call ? NAME_2 : NAME_1 : call ? ID_2 : ID_1);
}

/* args: the end of the frame before the arguments. */
static bool set_fields(Probing *p, CallForm *c, const CallWords *w, const char *begins,
                       const char *args)
{
    c->style = CALLS_FRAME;
    c->n_fields = w->first == w->last ? 1 : 2;
    c->field[0] = w->first == w->name ? 'n' : 'i';
    c->field[1] = w->last == w->name ? 'n' : 'i';
    bool good = set_literal(p, &c->begin, begins, w->first);
    if (c->n_fields == 2)
        good = good && set_literal(p, &c->after[0], word_end(w, w->first, 0), w->last);
    good = good && set_literal(p, &c->after[c->n_fields - 1], word_end(w, w->last, 0), args);
    drop_empty_reasoning(p->f, &c->begin);
    return good && !literal_empty(&c->begin) && !literal_empty(&c->after[0])
           && !literal_empty(&c->after[c->n_fields - 1]);
}

/* A number that counts the calls. second: the text in its place at the second call. */
static bool count_in(Literal *l, const char *second, size_t n)
{
    Literal made = *l;
    size_t  i = 0, k = 0;
    made.n = 0;
    while (i < l->n && k < n) {
        size_t a = i, b = k;
        while (i < l->n && l->s[i] >= '0' && l->s[i] <= '9')
            i++;
        while (k < n && second[k] >= '0' && second[k] <= '9')
            k++;
        if (i > a && k > b && (i - a != k - b || memcmp(l->s + a, second + b, i - a) != 0)) {
            made.special[made.n] = 0;
            made.s[made.n++] = DIGITS;
            continue;
        }
        i = a, k = b;
        if (l->s[i] != second[k])
            return false;
        made.special[made.n] = l->special[i];
        made.s[made.n++] = l->s[i++];
        k++;
    }
    set_range(&made);
    *l = made;
    return i == l->n || k == n;
}

/* ---- Arguments one by one -------------------------------------------------------------------- */

typedef struct Kind { const char *both, *one, *first, *second; } Kind;
static const Kind kinds[2] = { { TEXTS, ONE_TEXT, TEXT_1, TEXT_2 },
                               { NUMBERS, ONE_NUMBER, NUMBER_1, NUMBER_2 } };

static const char *turn_tail(const Probing *p, const char *text);

/* The frame of the values of one kind, from a call with two of them and from two calls. */
static bool find_values(Probing *p, CallForm *c, int k)
{
    char       *one = render_calls(p, p->content, kinds[k].both, NULL),
               *two = render_calls(p, p->content, kinds[k].one, kinds[k].one);
    size_t      at = p->with_tools.begins;
    CallWords   w = { 0 };
    const char *k1 = one ? strstr(one + at, KEY_1) : NULL,
               *v1 = k1 ? strstr(k1, kinds[k].first) : k1, *k2 = v1 ? strstr(v1, KEY_2) : v1,
               *v2 = k2 ? strstr(k2, kinds[k].second) : k2;
    bool good = v2 && set_literal(p, &c->value[k], after(k1, KEY_1), v1)
                && set_literal(p, &c->more[k], after(v1, kinds[k].first), k2)
                && set_literal(p, &c->value_end[k], after(v2, kinds[k].second), turn_tail(p, one))
                && !literal_empty(&c->value[k]) && !literal_empty(&c->more[k]);
    v1 = good && two ? strstr(two + at, kinds[k].second) : NULL;
    k2 = v1 ? strstr(v1, KEY_2) : NULL;
    if (k2 && find_words(&w, v1, NAME_2, ID_2, k2))
        set_literal(p, &c->value_next[k], after(v1, kinds[k].second), w.first);
    free(one);
    free(two);
    return good;
}

/* Calls without arguments. Templates differ most here, so what is not found stays unset. */
static void find_none(Probing *p, CallForm *c)
{
    char       *one = render_calls(p, p->content, "{}", NULL),
               *two = render_calls(p, p->content, "{}", "{}");
    size_t      at = p->with_tools.begins;
    CallWords   w = { 0 }, v = { 0 };
    if (one && find_words(&w, one + at, NAME_1, ID_1, one + strlen(one)))
        set_literal(p, &c->none_end, word_end(&w, w.last, 0), turn_tail(p, one));
    if (two && find_words(&w, two + at, NAME_1, ID_1, two + strlen(two))
        && find_words(&v, w.last, NAME_2, ID_2, two + strlen(two)))
        set_literal(p, &c->none_next, word_end(&w, w.last, 0), v.first);
    free(one);
    free(two);
}

/* Have strings quotes where other values have none? Then the frame is that of the unquoted
 * value. */
static void find_quotes(CallForm *c)
{
    Literal *text = &c->value[TEXT_VALUE], *other = &c->value[OTHER_VALUE];
    size_t   n = other->n < text->n && memcmp(text->s, other->s, other->n) == 0 ? text->n - other->n
                                                                                  : 0;
    c->typed = !same_core(text, other);
    if (!c->typed || !n || n > c->more[TEXT_VALUE].n
        || memcmp(c->more[TEXT_VALUE].s, text->s + other->n, n) != 0)
        return;
    if (n == 1 && (text->s[text->n - 1] == '"' || text->s[text->n - 1] == '\'')) {
        c->quoted = true;
        c->typed = false;
        c->value[TEXT_VALUE] = c->value[OTHER_VALUE];
        c->more[TEXT_VALUE] = c->more[OTHER_VALUE];
        c->value_end[TEXT_VALUE] = c->value_end[OTHER_VALUE];
        c->value_next[TEXT_VALUE] = c->value_next[OTHER_VALUE];
        return;
    }
    c->quote = *text;
    drop_front(&c->quote, other->n);
}

/* If the end of a call is followed by the start of the next one, the start alone identifies the
 * next call. */
static void drop_next(const CallForm *c, const Literal *end, Literal *next)
{
    Literal rest = *next;
    if (!rest.known || (!literal_empty(end) && !begins_with(&rest, end)))
        return;
    drop_front(&rest, rest.from + (end->to - end->from));
    if (same_core(&rest, &c->begin))
        *next = (Literal){ 0 };
}

static bool by_key_form(Probing *p, const char *text)
{
    CallForm   *c = &p->f->calls;
    CallWords   w = { 0 };
    const char *from = text + p->with_tools.begins, *k1 = strstr(from, KEY_1);
    *c = (CallForm){ .by_key = true };
    if (!k1 || strstr(from, "{'" KEY_1 "': '" TEXT_1 "'") /* Python's dict: no model's form */
        || !find_words(&w, from, NAME_1, ID_1, k1) || !set_fields(p, c, &w, from, k1)
        || !find_values(p, c, TEXT_VALUE) || !find_values(p, c, OTHER_VALUE))
        return false;
    find_none(p, c);
    find_quotes(c);
    drop_next(c, &c->none_end, &c->none_next);
    for (int k = 0; k < 2; k++)
        drop_next(c, &c->value_end[k], &c->value_next[k]);
    return true;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Where the end of every answer begins in a rendering; else the end. */
static const char *turn_tail(const Probing *p, const char *text)
{
    const char *end = after(strstr(p->with_tools.plain + p->with_tools.begins, CONTENT), CONTENT);
    size_t      n = strlen(text), m = end ? strlen(end) : 0;
    return text + n - (m <= n && m && memcmp(text + n - m, end, m) == 0 ? m : 0);
}

/* Where the first call begins in a rendering: its JSON value, or its first word. */
static const char *call_begins(const CallForm *c, const char *from, const char *name,
                               const char *id, const char **end)
{
    const char *args_end = NULL, *args, *word = strstr(from, name);
    CallWords   w;
    if (c->style == CALLS_JSON)
        return value_over(from, word, end);
    args = object_of(from, KEY_1, &args_end);
    args = args ? args : object_of(from, KEY_2, &args_end);
    *end = args_end;
    if (c->by_key) {
        args = strstr(from, KEY_1) ? strstr(from, KEY_1) : strstr(from, KEY_2);
        *end = args;
    }
    return args && find_words(&w, from, name, id, args) ? w.first : NULL;
}

static bool json_form(Probing *p, const char *text)
{
    CallForm   *c = &p->f->calls;
    CallWords   w = { 0 };
    const char *from = text + p->with_tools.begins, *end, *name = strstr(from, NAME_1),
               *over = name ? strstr(from, KEY_1) : NULL;
    over = over && over > name ? over : name;
    for (const char *s = value_over(from, over, &end); s && !p->no_memory;
         s = value_over(s + 1, over, &end))
        if (paths_in(p, c, s, (size_t)(end - s))) {
            bool good = set_literal(p, &c->begin, from, s)
                        && set_literal(p, &c->end, end, turn_tail(p, text));
            drop_empty_reasoning(p->f, &c->begin);
            return good;
        }
    const char *args = object_of(from, KEY_1, &end);
    *c = (CallForm){ 0 };
    return args && find_words(&w, from, NAME_1, ID_1, args)
           && set_fields(p, c, &w, from, args + 1)
           && set_literal(p, &c->end, end, turn_tail(p, text));
}

/* The text between two calls, and the counters. False: ambiguous. */
static bool find_next(Probing *p)
{
    CallForm   *c = &p->f->calls;
    char       *text = render_calls(p, p->content, TEXTS, ONE_TEXT);
    const char *end = NULL, *end_2 = NULL, *from = text ? text + p->with_tools.begins : NULL,
               *first = text ? call_begins(c, from, NAME_1, ID_1, &end) : NULL,
               *second = first && end ? call_begins(c, end, NAME_2, ID_2, &end_2) : NULL;
    bool        good = true;
    CallWords   w;
    if (second && !c->by_key)
        good = set_literal(p, &c->next, end, second);
    if (second && c->style == CALLS_FRAME && !c->by_key) {
        const char *args = object_of(second, KEY_2, &end_2);
        good = good && args && find_words(&w, second, NAME_2, ID_2, args)
               && count_in(&c->after[c->n_fields - 1], word_end(&w, w.last, 1),
                           (size_t)(args + 1 - word_end(&w, w.last, 1)));
    }
    Literal end_of_two;
    if (second && end_2 && !c->by_key && set_literal(p, &end_of_two, end_2, turn_tail(p, text))
        && begins_with(&end_of_two, &c->end))
        c->end = end_of_two; /* some templates close the section only there */
    drop_next(c, &c->end, &c->next);
    free(text);
    return good;
}

/* A call after content may have another text before it. */
static void find_later(Probing *p)
{
    CallForm   *c = &p->f->calls;
    char       *text = render_calls(p, ", \"content\": \"" CONTENT "\"", TEXTS, NULL);
    const char *end, *from = text ? strstr(text + p->with_tools.begins, CONTENT) : NULL,
               *first = from ? call_begins(c, after(from, CONTENT), NAME_1, ID_1, &end) : NULL;
    if (!first || !set_literal(p, &c->begin_later, after(from, CONTENT), first)
        || same_core(&c->begin_later, &c->begin))
        c->begin_later = (Literal){ 0 };
    if (!literal_empty(&c->begin_later) && ends_with(&c->begin, &c->begin_later)) {
        c->begin = c->begin_later; /* the rest of it belongs to the answer, not to the
                                    * call */
        c->begin_later = (Literal){ 0 };
    }
    free(text);
}

/* Parts with headers: those of reasoning and content begin and end alike, and so does the text
 * between a call's name and its arguments. */
static void find_headers(AnswerForm *f)
{
    const Literal *a = &f->think, *b = &f->content;
    size_t         front = 0, back = 0, n = a->to - a->from, m = b->to - b->from;
    if (f->calls.style != CALLS_FRAME || f->calls.by_key || literal_empty(a) || literal_empty(b))
        return;
    n = n < m ? n : m;
    while (front < n && a->s[a->from + front] == b->s[b->from + front])
        front++;
    while (back < n - front && a->s[a->to - 1 - back] == b->s[b->to - 1 - back])
        back++;
    f->head = f->head_end = *a;
    f->head.to = a->from + front;
    f->head_end.from = a->to - back;
    Literal args = f->calls.after[f->calls.n_fields - 1]; /* without the brace */
    args.to -= args.to > args.from;
    while (args.to > args.from && answer_space(args.s[args.to - 1]))
        args.to--;
    if (!front || !back || !begins_with(&args, &f->head) || !ends_with(&args, &f->head_end))
        f->head = f->head_end = (Literal){ 0 };
}

/* Does the form parse the probes that it was made from? */
static bool calls_read(Probing *p)
{
    const CallForm *c = &p->f->calls;
    bool  named = c->style == CALLS_JSON || c->field[0] == 'n' || (c->n_fields == 2
                                                                   && c->field[1] == 'n');
    static const struct { const char *args, *more, *said[2]; } probes[] = {
        { TEXTS, NULL, { NAME_1 "|{\"karg1\":\"vala1\",\"karg2\":\"valb2\"}|",
                         ID_1 "|{\"karg1\":\"vala1\",\"karg2\":\"valb2\"}|" } },
        { NUMBERS, NULL, { NAME_1 "|{\"karg1\":50171,\"karg2\":50282}|",
                           ID_1 "|{\"karg1\":50171,\"karg2\":50282}|" } },
        { TEXTS, ONE_TEXT,
          { NAME_1 "|{\"karg1\":\"vala1\",\"karg2\":\"valb2\"}|" NAME_2
                   "|{\"karg2\":\"valb2\"}|",
            ID_1 "|{\"karg1\":\"vala1\",\"karg2\":\"valb2\"}|" ID_2
                 "|{\"karg2\":\"valb2\"}|" } },
    };
    bool good = true;
    for (size_t i = 0; good && i < sizeof probes / sizeof *probes; i++) {
        char *text = render_calls(p, p->content, probes[i].args, probes[i].more);
        bool  two = probes[i].more && text
                   && strstr(text + p->with_tools.begins, named ? NAME_2 : ID_2);
        const char *said = probes[probes[i].more && !two ? 0 : i].said[!named];
        good = text ? reads(p, text + p->with_tools.begins, "", "", said) : probes[i].more != NULL;
        free(text);
    }
    return good;
}

static bool try_calls(Probing *p, bool by_key)
{
    static const char *const contents[] = { ", \"content\": \"\"", ", \"content\": null", "" };
    for (int i = 0; i < 3 && !p->no_memory; i++) {
        p->content = contents[i];
        char *text = render_calls(p, p->content, TEXTS, NULL);
        enum { MOST = 16 << 10 };
        narrow(&p->with_tools, text);
        bool good = text && strlen(text) > p->with_tools.begins
                    && strlen(text + p->with_tools.begins) < MOST
                    && (by_key ? by_key_form(p, text) : json_form(p, text)) && find_next(p);
        free(text);
        if (good) {
            find_later(p);
            find_headers(p->f);
            if (calls_read(p)) {
                p->f->no_content = i > 0;
                return true;
            }
        }
        p->f->calls = (CallForm){ 0 };
        p->f->head = p->f->head_end = (Literal){ 0 };
    }
    return false;
}

static void find_calls(Probing *p)
{
    if (!find_place(p, &p->with_tools, true))
        return;
    if (!try_calls(p, false) && !try_calls(p, true)) {
        p->as_text = true;
        p->f->text_arguments = try_calls(p, false);
    }
}

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
    if (ends_with(end, begin) && !same_core(end, begin)) {
        drop_back(end, begin->to - begin->from);
        return true;
    }
    if (!begins_with(&rest, &f->think))
        return false;
    drop_front(&rest, rest.from + (f->think.to - f->think.from));
    size_t i = bracket_end(end);
    if (!same_core(&rest, end) || i >= end->to)
        return false;
    *begin = *end;
    drop_front(begin, i);
    drop_back(end, end->to - i);
    return true;
}

/* Some templates render reasoning only if a call follows. */
static void find_reasoning_of_calls(Probing *p)
{
    AnswerForm *f = p->f;
    for (size_t k = 0; !f->reasoning && k < N_KEYS && f->calls.style && !p->no_memory; k++) {
        TextOut o = { 0 };
        Error   e = { 0 };
        text_out(&o, "%s, \"%s\": \"" REASONING "\"", p->content, reasoning_keys[k]);
        char *more = text_out_take(&o, &e),
             *text = more ? render_calls(p, more, TEXTS, NULL) : NULL;
        const char *from = text && strlen(text) > p->with_tools.begins
                               ? text + p->with_tools.begins : NULL,
                   *r = from ? strstr(from, REASONING) : NULL, *end,
                   *first = r ? call_begins(&f->calls, after(r, REASONING), NAME_1, ID_1, &end)
                              : NULL;
        p->no_memory |= !more;
        CallForm kept = f->calls;
        f->reasoning = first && set_literal(p, &f->think, from, r)
                       && set_literal(p, &f->think_end, after(r, REASONING), first)
                       && split_reasoning(f) && reads(p, from, "", REASONING, NULL)
                       && calls_read(p);
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
    if (find_place(&p, &p.here, in->tools)) {
        const char *end = after(strstr(p.here.plain + p.here.begins, CONTENT), CONTENT);
        if (set_literal(&p, &f->turn_end, end, end + strlen(end)) && !literal_empty(&f->turn_end)) {
            f->turn_first = f->turn_end;
            drop_back(&f->turn_first, f->turn_end.to - bracket_end(&f->turn_end));
        }
        find_reasoning(&p);
        find_calls(&p);
        find_reasoning_of_calls(&p);
        f->object_arguments = f->calls.style != CALLS_NONE && !f->text_arguments;
        const char *open = p.here.prompt + p.here.begins;
        set_literal(&p, &f->primed, open, open + strlen(open));
        if (!in->tools) /* without tools nothing is a call */
            f->calls = (CallForm){ 0 };
    }
    free_place(&p.here);
    free_place(&p.with_tools);
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
    const bool      same = !c->begin_later.known || same_core(&c->begin_later, &c->begin);
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
