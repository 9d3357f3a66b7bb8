/* api/chat_calls.c: how a chat's template writes tool calls. It renders probe calls of unique
 * words; the text around these words is what the model must generate. */
#include "api/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/json.h"
#include "base/memory.h"

#define USER    "{\"role\": \"user\", \"content\": \"q\"}"
#define CONTENT "Wqcontent"
#define ID_1    "q1w2e3r4t" /* nine letters and digits, as some templates demand */
#define ID_2    "z9x8c7v6b"
#define NAME_1  "qzfirst"
#define NAME_2  "xwsecond"
#define KEY     "\"karg1\""
#define VALUE   "\"vala1\""
#define ARGS    "{" KEY ": " VALUE "}"

enum { MARKER_LEAST = 3 };           /* bytes of a marker that is not a token */

/* before: the text before the first call, up to a marker; empty: the reply begins with the call. */
typedef struct CallTexts { TextOut before; CallFrame form; } CallTexts;

static bool no_form(const tblock_chat *c, const char *why, Error *err)
{
    tblock_chat_info i;
    tblock_chat_describe(c, &i);
    return fail(err, INPUT, "chat template (%s): its calls cannot be constrained: %s", i.name, why);
}

/* ---- What the template writes ---------------------------------------------------------------- */

/* answer NULL: the prompt for one. The caller frees. */
static char *written(const tblock_chat *c, const char *answer, Error *err)
{
    const tblock_chat_message m[] = { { .json = USER }, { .json = answer } };
    char                     *text;
    size_t                    n;
    return tblock_chat_text(c, m, answer ? 2 : 1, !answer, &text, &n, err) ? text : NULL;
}

static void out_call(TextOut *o, const char *id, const char *name, bool as_text)
{
    json_out(o, "{id: %s, type: function, function: {name: %s, arguments:", id, name);
    json_out(o, as_text ? "%s}}" : "%-s}}", ARGS);
}

static char *written_calls(const tblock_chat *c, int n, Error *err)
{
    const AnswerFacts f = answer_form_facts(chat_parts(c).answers);
    TextOut           o = { 0 };
    json_out(&o, "{role: assistant, content: %s, tool_calls: [", f.no_content ? NULL : "");
    out_call(&o, ID_1, NAME_1, f.text_arguments);
    if (n == 2)
        out_call(&o, ID_2, NAME_2, f.text_arguments);
    json_out(&o, "]}");
    char *json = text_out_take(&o, err), *text = json ? written(c, json, err) : NULL;
    free(json);
    return text;
}

/* The arguments from s on; *end: after them. NULL: they are not written as a JSON object. */
static const char *find_args(const char *s, const char **end)
{
    const char *key = strstr(s, KEY), *value = key ? strstr(key, VALUE) : NULL;
    if (!value)
        return NULL;
    while (key > s && key[-1] == ' ')
        key--;
    *end = value + strlen(VALUE);
    *end += strspn(*end, " ") + 1;
    return key > s && key[-1] == '{' && (*end)[-1] == '}' ? key - 1 : NULL;
}

/* Appends s[0 .. n) with marks for the name and for ids, also those of the call before. Returns the
 * number of names; -1: the text has a byte that is a mark. */
static int mark(TextOut *o, const char *s, size_t n, const char *name)
{
    const size_t n_name = strlen(name), n_id = strlen(ID_1);
    int          names  = 0;
    for (size_t i = 0; i < n;) {
        const bool is_name = n - i >= n_name && memcmp(s + i, name, n_name) == 0;
        const bool is_id   = n - i >= n_id
            && (memcmp(s + i, ID_1, n_id) == 0 || memcmp(s + i, ID_2, n_id) == 0);
        if (s[i] == MARK_NAME || s[i] == MARK_ID)
            return -1;
        text_out_bytes(o, is_name ? &(char){ MARK_NAME } : is_id ? &(char){ MARK_ID } : s + i, 1);
        names += is_name;
        i += is_name ? n_name : is_id ? n_id : 1;
    }
    return names;
}

/* Does the prompt open reasoning? */
static bool opens_reasoning(const tblock_chat *c, bool *opens, Error *err)
{
    tblock_answer_info        said = { 0 };
    const tblock_answer_part *part;
    size_t                    n;
    tblock_answer            *a    = tblock_answer_new(c, err);
    const bool good = a && tblock_answer_put(a, CONTENT, strlen(CONTENT), &part, &n, err)
        && tblock_answer_put(a, NULL, 0, &part, &n, err);
    if (good)
        tblock_answer_describe(a, &said);
    tblock_answer_free(a);
    *opens = said.n_reasoning > 0;
    return good;
}

static bool ends_answers(const tblock_chat *c, int id)
{
    tblock_chat_info i;
    tblock_chat_describe(c, &i);
    for (size_t k = 0; k < i.n_stop_ids; k++)
        if (i.stop_ids[k] == id)
            return true;
    return false;
}

static const char *find_marker(const char *s, const char *end, AnswerMarker m)
{
    for (; m.n && (size_t)(end - s) >= m.n; s++)
        if (memcmp(s, m.s, m.n) == 0)
            return s;
    return NULL;
}

/* A chat and its rendered texts: the prompt, and one with a reply of content alone. */
typedef struct Written {
    const tblock_chat *chat;
    AnswerFacts        facts;
    bool               opens; /* the prompt opens reasoning */
    char              *prompt, *plain;
} Written;

/* Where the reply begins. A template may omit reasoning that its prompt opens. */
static const char *answer_of(const Written *w, const char *text)
{
    const size_t n = strlen(w->prompt), primed = w->opens ? w->facts.primed.n : 0;
    if (strncmp(text, w->prompt, n) == 0)
        return text + n;
    return primed && primed <= n && memcmp(w->prompt + n - primed, w->facts.primed.s, primed) == 0
                   && strncmp(text, w->prompt, n - primed) == 0
               ? text + n - primed
               : NULL;
}

/* The end of the reply, after its calls: an end token, or what ends a reply without calls. */
static const char *tail_of(const Written *w, const char *from)
{
    const Tokenizer *t       = chat_parts(w->chat).model->tokenizer;
    const char      *end     = from + strlen(from), *content = strstr(w->plain, CONTENT),
                    *tail    = content ? content + strlen(CONTENT) : NULL;
    const size_t     n_tail  = tail ? strlen(tail) : 0;
    int              id      = -1;
    for (const char *s = from; s < end; s++)
        if (tokenizer_special_at(t, s, (size_t)(end - s), &id) && ends_answers(w->chat, id))
            return s;
    return tail && (size_t)(end - from) >= n_tail && strcmp(end - n_tail, tail) == 0 ? end - n_tail
                                                                                    : NULL;
}

/* The text before the arguments, which begin at args. False: it does not have the name once. */
static bool read_first(const Written *w, const char *begin, const char *args, TextOut *first)
{
    const AnswerMarker end  = w->opens ? w->facts.think_end : (AnswerMarker){ 0 };
    const char        *over = find_marker(begin, args, end);
    if (over)
        begin = over + end.n;
    else if (end.n)
        text_out_bytes(first, w->facts.think_gap.s, w->facts.think_gap.n);
    return mark(first, begin, (size_t)(args - begin), NAME_1) == 1;
}

static bool same_text(const TextOut *a, const TextOut *b)
{
    return a->n == b->n && (!a->n || memcmp(a->text, b->text, a->n) == 0);
}

/* From two calls: the text between them, if the rest is as with one. False: no memory. */
static bool read_two(const Written *w, const char *two, CallTexts *out)
{
    TextOut     first = { 0 }, last = { 0 };
    const char *begin = answer_of(w, two), *end, *end_2,
               *args  = begin ? find_args(begin, &end) : NULL,
               *more  = args ? find_args(end, &end_2) : NULL,
               *tail  = more ? tail_of(w, end_2) : NULL;
    out->form.several = tail && read_first(w, begin, args, &first)
        && same_text(&out->form.first, &first)
        && mark(&out->form.next, end, (size_t)(more - end), NAME_2) == 1
        && mark(&last, end_2, (size_t)(tail - end_2), NAME_2) == 0
        && same_text(&out->form.end, &last);
    const bool good = !first.failed && !last.failed && !out->form.next.failed;
    text_out_free(&first);
    text_out_free(&last);
    return good;
}

static bool read_one(const Written *w, const char *one, CallTexts *out, Error *err)
{
    const char *begin = answer_of(w, one), *end,
               *args = begin ? find_args(begin, &end) : NULL, *tail = args ? tail_of(w, end) : NULL;
    if (!begin || (args && !tail))
        return no_form(w->chat, "calls do not stand where answers do", err);
    if (!args)
        return no_form(w->chat, "arguments are not an object in JSON", err);
    if (!read_first(w, begin, args, &out->form.first)
        || mark(&out->form.end, end, (size_t)(tail - end), NAME_1) != 0)
        return no_form(w->chat, "the name does not stand once before the arguments", err);
    if (w->opens)
        text_out_bytes(&out->before, w->facts.think_end.s, w->facts.think_end.n);
    return true;
}

static bool find_texts(const tblock_chat *c, CallTexts *out, Error *err)
{
    static const char plain[] = "{\"role\": \"assistant\", \"content\": \"" CONTENT "\"}";
    Error             why     = { 0 };
    Written           w       = { .chat = c, .facts = answer_form_facts(chat_parts(c).answers) };
    w.prompt                  = opens_reasoning(c, &w.opens, err) ? written(c, NULL, err) : NULL;
    w.plain                   = w.prompt ? written(c, plain, err) : NULL;
    char *one = w.plain ? written_calls(c, 1, err) : NULL,
         *two = one ? written_calls(c, 2, &why) : NULL; /* some templates support only one */
    bool  good = one && (two || why.status != SYSTEM || no_memory(NULL, err))
        && read_one(&w, one, out, err) && (!two || read_two(&w, two, out) || no_memory(NULL, err));
    out->form.thinks = w.opens;
    tblock_free(w.prompt);
    tblock_free(w.plain);
    tblock_free(one);
    tblock_free(two);
    if (good
        && (out->before.failed || out->form.first.failed || out->form.next.failed
            || out->form.end.failed))
        return no_memory(NULL, err);
    return good;
}

/* Optional calls: they begin with the same marker wherever they are. */
static bool find_marked(const tblock_chat *c, CallTexts *t, Error *err)
{
    const ChatParts parts = chat_parts(c);
    AnswerMarker    m     = answer_form_facts(parts.answers).call;
    int             id;
    const size_t    token = tokenizer_special_at(parts.model->tokenizer, m.s, m.n, &id);
    m.n                   = token ? token : m.n >= MARKER_LEAST ? m.n : 0;
    const char *end = t->form.first.text + t->form.first.n,
               *at = find_marker(t->form.first.text, end, m);
    if (!at || memchr(t->form.first.text, MARK_NAME, (size_t)(at - t->form.first.text)))
        return no_form(c, "no marker shows where they begin", err);
    const size_t n = (size_t)(at - t->form.first.text) + m.n;
    text_out_bytes(&t->before, t->form.first.text, n);
    t->form.first.n -= n;
    memmove(t->form.first.text, t->form.first.text + n, t->form.first.n);
    t->form.begins = m;
    return !t->before.failed || no_memory(NULL, err);
}

/* ---- Does it parse as a call? ---------------------------------------------------------------- */

static void unmark(TextOut *o, const TextOut *marked, const char *name, const char *id)
{
    for (size_t i = 0; i < marked->n; i++) {
        const char s = marked->text[i];
        if (s == MARK_NAME || s == MARK_ID)
            text_out(o, "%s", s == MARK_NAME ? name : id);
        else
            text_out_bytes(o, &s, 1);
    }
}

/* A token that ends replies would end one before its calls are complete. */
static bool check_ends(const tblock_chat *c, const TextOut *text, Error *err)
{
    const Tokenizer *t     = chat_parts(c).model->tokenizer;
    const char      *piece = "";
    size_t           n;
    char             why[160];
    for (size_t i = 0; i < text->n; i++) {
        int id = -1;
        if (!tokenizer_special_at(t, text->text + i, text->n - i, &id) || !ends_answers(c, id))
            continue;
        tokenizer_piece(t, id, &piece, &n);
        snprintf(why, sizeof why, "it has the token %.*s, which ends answers",
                 (int)(n < 100 ? n : 100), piece);
        return no_form(c, why, err);
    }
    return true;
}

/* Do quotes and brackets pair, as in JSON, with some brackets open? Names of objects are told by
 * them. */
static bool is_balanced(const TextOut *text)
{
    int  open   = 0;
    bool inside = false;
    for (size_t i = 0; i < text->n && open >= 0; i++) {
        const char s = text->text[i];
        inside ^= s == '"';
        open += inside ? 0 : (s == '{' || s == '[') - (s == '}' || s == ']');
    }
    return open >= 0 && !inside;
}

static void write_answer(TextOut *o, const CallTexts *texts)
{
    unmark(o, &texts->form.first, NAME_1, ID_1);
    text_out(o, ARGS);
    if (texts->form.several) {
        unmark(o, &texts->form.next, NAME_2, ID_2);
        text_out(o, ARGS);
    }
    unmark(o, &texts->form.end, "", texts->form.several ? ID_2 : ID_1);
}

/* The template's own reply must parse as exactly these calls. */
static bool check_texts(const tblock_chat *c, const CallTexts *texts, Error *err)
{
    TextOut                   o = { 0 };
    tblock_answer_info        said;
    tblock_answer_call_info   call = { 0 };
    const tblock_answer_part *part;
    size_t                    n;
    tblock_answer            *a    = tblock_answer_new(c, err);
    const char               *name = texts->form.several ? NAME_2 : NAME_1;
    write_answer(&o, texts);
    bool good = a && (!o.failed || no_memory(NULL, err)) && check_ends(c, &o, err)
        && tblock_answer_put(a, texts->before.n ? texts->before.text : "", texts->before.n, &part,
                             &n, err)
        && tblock_answer_put(a, o.text, o.n, &part, &n, err)
        && tblock_answer_put(a, NULL, 0, &part, &n, err);
    if (good) {
        tblock_answer_describe(a, &said);
        if (said.n_calls)
            tblock_answer_describe_call(a, said.n_calls - 1, &call);
        good = (said.n_calls == (texts->form.several ? 2 : 1) && !said.n_content
                && call.n_name == strlen(name) && memcmp(call.name, name, call.n_name) == 0
                && is_balanced(&texts->form.first) && is_balanced(&o))
            || no_form(c, "it would not be read as one", err);
    }
    tblock_answer_free(a);
    text_out_free(&o);
    return good;
}

static tblock_constraint *chat_calls(const tblock_chat *c, const char *name, unsigned flags,
                                     Error *err)
{
    const int64_t      begun = clock_ns();
    const ChatParts    parts = chat_parts(c);
    const AnswerFacts  facts = answer_form_facts(parts.answers);
    CallTexts          texts = { .form = { .think = facts.think, .think_end = facts.think_end } };
    tblock_constraint *out   = NULL;
    bool               good  = parts.tools->node != NULL
        || fail(err, INPUT, "tools: expected one, found none");
    if (good && !facts.calls)
        good = no_form(c, "it shows none that could be read", err);
    if (good && find_texts(c, &texts, err)
        && (!(flags & TBLOCK_CALLS_OPTIONAL) || find_marked(c, &texts, err))
        && check_texts(c, &texts, err)) {
        texts.form.several = texts.form.several && flags & TBLOCK_CALLS_SEVERAL;
        out = calls_constraint(parts.model, &texts.form, parts.tools, name, begun, err);
    }
    text_out_free(&texts.before);
    call_form_free(&texts.form);
    return out;
}

tblock_constraint *tblock_chat_calls(const tblock_chat *c, const char *name, unsigned flags,
                                     tblock_error *err)
{
    NEED(NULL, err, c);
    HOST_ENV_RETURN(tblock_constraint *, chat_calls(c, name, flags, err));
}
