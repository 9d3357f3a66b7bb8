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

typedef enum State {
    FREE,       /* between parts */
    CONTENT, REASONING,
    JSON_BEGIN, JSON_CALL,
    FIELD, HEADER_REST, JSON_ARGS, /* of a call in a frame */
    KEY, VALUE_BEGIN, VALUE, VALUE_TRACKED,
    CALL_AFTER,
} State;

/* Holds between public calls, while there is memory (answer_is_sound):
 * - Consumed bytes are gone from `in`, except those that may be emitted later: a held call from
 *   held_from on, which may be content; a call's arguments, name or id in a JSON value. flag has a
 *   byte for each of `in`. An incomplete character waits in tail, not in `in`.
 * - A call is held until it is emitted (told), never both. Between tool calls it is neither; held
 *   while its name is read, told while its arguments are; in a JSON value it may be either.
 * - The texts of the parts are in `out` in their order, each with a NUL. A part of a call names one
 *   that was emitted. */
struct Answer {
    const AnswerForm *f;
    const JsonNode   *tools;
    State      state;
    TextOut    in, flag;        /* flag: 1 for each byte of a special token */
    size_t     at;              /* what is before it was consumed */
    bool       ending, fresh, skip, no_memory;
    size_t     marker_at;       /* start of the literal that text_until found, with white
                                 * space */
    char       tail[4];         /* an incomplete character */
    size_t     n_tail;

    TextOut    out;             /* the texts of the parts */
    AnswerPart *part;
    size_t     n_parts, cap;

    int        n_calls;
    bool       held, told;      /* a call: its text may still be content; it was emitted */
    size_t     held_from;       /* in `in` */
    TextOut    name, id, key, value;
    int        field;
    size_t     args_from, args_to, value_at; /* CALLS_JSON: indices into `in`; SIZE_MAX: none */
    bool       has_args, args_text; /* args_text: they are a string that contains JSON */
    JsonTrack  json;
    int        kind;            /* of the value being read: TEXT_VALUE or OTHER_VALUE */
    bool       text, any_value; /* it streams as a string; there was one before */
    int        deep;            /* VALUE_TRACKED: open brackets; the open quote */
    char       quote;
    bool       escape;
};

/* ---- Parts ----------------------------------------------------------------------------------- */

static void tell(Answer *a, AnswerKind kind, const char *s, size_t n)
{
    int         call = kind == ANSWER_CONTENT || kind == ANSWER_REASONING ? -1 : a->n_calls - 1;
    AnswerPart *last = a->n_parts ? &a->part[a->n_parts - 1] : NULL;
    bool        joins = last && last->kind == (int)kind
                 && (kind == ANSWER_ARGUMENTS || call < 0) && last->call == call;
    if (!n && kind != ANSWER_CALL && kind != ANSWER_CALL_END)
        return;
    if (!joins) {
        if (last)
            text_out_bytes(&a->out, "", 1);
        if (!ARRAY_ROOM(a->part, a->cap, a->n_parts + 1)) {
            a->no_memory = true;
            return;
        }
        last = &a->part[a->n_parts++];
        *last = (AnswerPart){ (int)kind, call, NULL, 0 };
    }
    text_out_bytes(&a->out, s, n);
    last->n += n;
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

/* ---- Literals -------------------------------------------------------------------------------- */

typedef enum Match { NO_MATCH, MATCHES, NEEDS_MORE } Match;

static size_t skip_spaces(const Answer *a, size_t i)
{
    while (i < a->in.n && answer_space(a->in.text[i]))
        i++;
    return i;
}

/* Does the literal match at byte i? White space in it matches any, or none. */
static Match literal_at(const Answer *a, const Literal *l, size_t i, size_t *to)
{
    if (literal_empty(l))
        return NO_MATCH;
    for (size_t k = l->from; k < l->to;) {
        if (answer_space(l->s[k])) {
            size_t j = skip_spaces(a, i);
            if (j - i > SPACES)
                return NO_MATCH;
            for (i = j; answer_space(l->s[k]);)
                k++;
        } else if (l->s[k] == DIGITS) {
            size_t j = i;
            while (j < a->in.n && a->in.text[j] >= '0' && a->in.text[j] <= '9' && j - i < 10)
                j++;
            if (j == i && j < a->in.n)
                return NO_MATCH;
            i = j;
            k++;
        } else if (i < a->in.n) {
            bool special = a->f->has_specials && a->flag.text[i];
            if (a->in.text[i] != l->s[k] || special != (a->f->has_specials && l->special[k]))
                return NO_MATCH;
            i++;
            k++;
        }
        if (i == a->in.n && k < l->to)
            return NEEDS_MORE;
    }
    *to = i;
    return MATCHES;
}

typedef struct LiteralChoice { const Literal *l[8]; int n; } LiteralChoice;

static void choose(LiteralChoice *c, const Literal *l)
{
    if (l->known && !literal_empty(l))
        c->l[c->n++] = l;
}

/* The longest literal that matches at byte i: its index in the choice, or -1. *more: one may
 * continue after the end of the input; then it waits for that. */
static int choice_at(const Answer *a, const LiteralChoice *c, size_t i, size_t *to, bool *more)
{
    int    best = -1;
    size_t end;
    *more = false;
    for (int k = 0; k < c->n; k++) {
        Match m = literal_at(a, c->l[k], i, &end);
        *more |= m == NEEDS_MORE;
        if (m == MATCHES && (best < 0 || end > *to)) {
            best = k;
            *to = end;
        }
    }
    return *more && !a->ending ? -1 : best;
}

/* ---- Text up to a marker --------------------------------------------------------------------- */

static void take(Answer *a, size_t from, size_t to);

/* White space before a marker is the template's; in a value, only as much as it writes there. */
static size_t spaces_kept(const Answer *a, const Literal *l, size_t from, size_t to)
{
    if (a->state != VALUE)
        return from;
    for (size_t k = l->from; k && to > from && a->in.text[to - 1] == l->s[k - 1]; k--)
        to--;
    return to;
}

/* Takes what is certainly text. Returns which literal came, and consumes it; -1: needs more. */
static int text_until(Answer *a, const LiteralChoice *c)
{
    size_t i = a->at, to = 0;
    while (i < a->in.n) {
        bool   more;
        size_t j = skip_spaces(a, i);
        i = j - i > SPACES ? j - SPACES : i;
        int which = j < a->in.n ? choice_at(a, c, j, &to, &more) : -1;
        if (which >= 0) {
            take(a, a->at, spaces_kept(a, c->l[which], i, j));
            a->marker_at = i;
            a->at = to;
            return which;
        }
        if ((j == a->in.n || more) && !a->ending)
            break;
        if (a->state == VALUE && j < a->in.n && more) { /* its end was cut */
            take(a, a->at, spaces_kept(a, c->l[0], i, j));
            a->at = a->in.n;
            return -1;
        }
        if (j < a->in.n && a->f->has_specials && a->flag.text[j]) {
            take(a, a->at, j);
            while (j < a->in.n && a->flag.text[j])
                j++;
            a->at = j;
            i = j;
        } else {
            i = j < a->in.n ? j + 1 : j;
        }
    }
    take(a, a->at, i);
    a->at = i;
    return -1;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* What looked like a call is none. If it was emitted already, it ends here. */
static void no_call(Answer *a)
{
    if (a->told)
        tell(a, ANSWER_CALL_END, "", 0);
    else if (a->held && a->at > a->held_from)
        tell(a, ANSWER_CONTENT, a->in.text + a->held_from, a->at - a->held_from);
    a->held = a->told = a->skip = false;
    a->args_from = a->args_to = a->value_at = SIZE_MAX;
    a->state = CONTENT;
}

static void next_call(Answer *a)
{
    a->told = a->has_args = a->any_value = false;
    a->name.n = a->id.n = a->key.n = a->value.n = 0;
    a->field = 0;
    a->args_from = a->args_to = a->value_at = SIZE_MAX;
}

static void hold_call(Answer *a, size_t from, State state)
{
    next_call(a);
    a->held = true;
    a->held_from = from;
    a->json = (JsonTrack){ 0 };
    a->fresh = false;
    a->skip = true;
    a->state = state;
}

/* If a model writes only an id, the id contains the tool's name. */
static void name_from_id(Answer *a)
{
    const char *best = NULL;
    size_t      n = 0;
    JSON_NODES (tool, a->tools) {
        const JsonNode *f = node_get(tool, "function"), *name = node_get(f ? f : tool, "name");
        if (!name || name->kind != NODE_STRING || name->n <= n || name->n > a->id.n)
            continue;
        for (size_t i = 0; i + name->n <= a->id.n && n < name->n; i++)
            if (memcmp(a->id.text + i, name->text, name->n) == 0) {
                best = name->text;
                n = name->n;
            }
    }
    text_out_bytes(&a->name, best ? best : a->id.text, best ? n : a->id.n);
}

static void tell_call(Answer *a)
{
    if (!a->name.n && a->id.n)
        name_from_id(a);
    a->n_calls++;
    tell(a, ANSWER_CALL, a->name.text, a->name.n);
    tell(a, ANSWER_CALL_ID, a->id.text, a->id.n);
    a->told = true;
    a->held = false;
}

static void call_done(Answer *a)
{
    if (!a->told)
        tell_call(a);
    if (!a->has_args)
        tell(a, ANSWER_ARGUMENTS, "{}", 2);
    tell(a, ANSWER_CALL_END, "", 0);
    a->told = false;
}

/* ---- Calls in a JSON value ------------------------------------------------------------------- */

static bool is_path(const Answer *a, const KeyPath *p)
{
    return p->n && a->json.path.n == p->n && key_path_same(&a->json.path, p, p->n);
}

/* Emits the arguments so far. A string that contains them is emitted as a whole. */
static void tell_json_args(Answer *a)
{
    if (!a->told || a->args_from == SIZE_MAX)
        return;
    size_t      to = a->args_to < a->at ? a->args_to : a->at, n = to - a->args_from;
    bool        whole = a->args_to != SIZE_MAX;
    const char *s = a->in.text + a->args_from;
    if (!n)
        return;
    a->has_args = true;
    if (!a->args_text) {
        tell(a, ANSWER_ARGUMENTS, s, n);
        a->args_from = whole ? SIZE_MAX : to;
    } else if (whole) {
        TextOut text = { 0 };
        if (json_unquote(&text, s, n))
            tell(a, ANSWER_ARGUMENTS, text.text, text.n);
        a->no_memory |= text.failed;
        text_out_free(&text);
        a->args_from = SIZE_MAX;
    }
}

static void json_begins(Answer *a, size_t i)
{
    const CallForm *c = &a->f->calls;
    if (is_path(a, &c->name) || is_path(a, &c->id))
        a->value_at = i;
    if (is_path(a, &c->args) && !a->has_args && a->args_from == SIZE_MAX
        && (a->in.text[i] == '{' || a->in.text[i] == '"')) {
        a->args_from = i;
        a->args_text = a->in.text[i] == '"';
        if (a->name.n && !a->told)
            tell_call(a);
    }
}

static void json_name_or_id(Answer *a, size_t to)
{
    const CallForm *c = &a->f->calls;
    bool     name = is_path(a, &c->name);
    TextOut *text = name ? &a->name : is_path(a, &c->id) ? &a->id : NULL;
    if (!text || a->value_at == SIZE_MAX)
        return;
    if (!text->n && a->in.text[a->value_at] == '"' && (!name || !a->told)) {
        json_unquote(text, a->in.text + a->value_at, to - a->value_at);
        if (!name && a->told)
            tell(a, ANSWER_CALL_ID, text->text, text->n);
        if (name && text->n && (!literal_empty(&c->begin) || a->args_from != SIZE_MAX))
            tell_call(a);
    }
    a->value_at = SIZE_MAX;
}

static void json_ends(Answer *a, size_t i)
{
    const CallForm *c = &a->f->calls;
    json_name_or_id(a, i + 1);
    if (is_path(a, &c->args) && a->args_from != SIZE_MAX && a->args_to == SIZE_MAX)
        a->args_to = i + 1;
    if (a->in.text[i] == '}' && a->json.path.n == c->shared
        && key_path_same(&a->json.path, &c->name, c->shared) && a->told) {
        a->at = i + 1;
        tell_json_args(a);
        call_done(a);
        next_call(a);
    }
}

/* If only its JSON identifies a call: does a key come that no call has? */
static bool json_other_key(const Answer *a)
{
    const CallForm *c = &a->f->calls;
    const KeyPath  *p = &a->json.path;
    return a->held && literal_empty(&c->begin) && a->json.objects == 1 && json_at_colon(&a->json)
        && !key_path_same(p, &c->name, 1) && !key_path_same(p, &c->args, 1)
        && !key_path_same(p, &c->id, 1) && !key_path_same(p, &c->first, 1);
}

static bool json_call(Answer *a)
{
    for (size_t i = a->at; i < a->in.n; i++) {
        JsonStep step = json_track(&a->json, a->in.text[i]);
        if (step == JSON_BEGINS)
            json_begins(a, i);
        else if (step == JSON_ENDS || step == JSON_DONE)
            json_ends(a, i);
        if (step == JSON_BAD || json_other_key(a)) {
            a->at = i;
            tell_json_args(a);
            no_call(a);
            return true;
        }
        if (step == JSON_DONE) {
            a->at = i + 1;
            a->args_from = a->args_to = a->value_at = SIZE_MAX;
            if (a->held)
                no_call(a);
            else
                a->state = CALL_AFTER;
            return true;
        }
    }
    a->at = a->in.n;
    tell_json_args(a);
    return false;
}

static bool json_begin(Answer *a)
{
    a->at = skip_spaces(a, a->at);
    if (a->at == a->in.n)
        return false;
    if (a->in.text[a->at] == '{' || a->in.text[a->at] == '[')
        a->state = JSON_CALL;
    else
        no_call(a);
    return true;
}

/* ---- Calls in a frame ------------------------------------------------------------------------ */

static void end_call(Answer *a, bool another)
{
    call_done(a);
    a->fresh = false;
    if (another)
        hold_call(a, a->at, FIELD);
    else
        a->state = FREE;
}

static void arguments_begin(Answer *a)
{
    tell_call(a);
    a->skip = true;
    if (!a->f->calls.by_key) {
        a->state = JSON_ARGS;
        return;
    }
    tell(a, ANSWER_ARGUMENTS, "{", 1);
    a->has_args = true;
    a->state = KEY;
}

/* Reads a name up to one of the literals; -1: needs more; -2: it is no name. */
static int name_until(Answer *a, TextOut *name, const LiteralChoice *c)
{
    while (a->at < a->in.n) {
        bool   more;
        size_t to = 0, j = skip_spaces(a, a->at);
        bool   sound = j - a->at <= SPACES;
        int    which = sound && j < a->in.n ? choice_at(a, c, j, &to, &more) : -1;
        if (which >= 0) {
            a->marker_at = a->at;
            a->at = to;
            return name->n ? which : -2;
        }
        if (sound && (j == a->in.n || more) && !a->ending)
            return -1;
        if (!sound || j == a->in.n || (j > a->at && name->n) || name->n == NAME_BYTES
            || (unsigned char)a->in.text[j] < ' ' || a->in.text[j] == 0x7F)
            return -2;
        text_out_bytes(name, a->in.text + j, 1);
        a->at = j + 1;
    }
    return a->ending ? -2 : -1;
}

static bool field(Answer *a)
{
    const CallForm *c = &a->f->calls;
    const Literal  *after = &c->after[a->field], *turn_end = &a->f->turn_end;
    bool            last = a->field == c->n_fields - 1, headed = !literal_empty(&a->f->head);
    LiteralChoice   choice = { 0 };
    choose(&choice, after);
    choose(&choice, turn_end);
    if (last && headed)
        choose(&choice, &a->f->head);
    if (last && c->by_key) {
        choose(&choice, &c->none_end);
        choose(&choice, &c->none_next);
    }
    int which = name_until(a, c->field[a->field] == 'n' ? &a->name : &a->id, &choice);
    if (which == -1)
        return false;
    const Literal *found = which < 0 ? turn_end : choice.l[which];
    if (found == turn_end) {
        a->at = which < 0 ? a->at : a->marker_at;
        no_call(a);
    } else if (!last) {
        a->field++;
    } else if (found == after) {
        a->at -= !c->by_key; /* the opening brace of the arguments */
        arguments_begin(a);
    } else if (headed) {
        a->state = HEADER_REST;
    } else {
        end_call(a, found == &c->none_next);
    }
    return true;
}

static bool header_rest(Answer *a)
{
    LiteralChoice choice = { 0 };
    choose(&choice, &a->f->head_end);
    if (text_until(a, &choice) < 0)
        return false;
    arguments_begin(a);
    return true;
}

static bool json_args(Answer *a)
{
    size_t   from = a->has_args ? a->at : skip_spaces(a, a->at), i = from;
    JsonStep step = JSON_INSIDE;
    if (from == a->in.n)
        return false;
    if (!a->has_args && a->in.text[from] != '{')
        step = JSON_BAD;
    while (i < a->in.n && step != JSON_BAD && step != JSON_DONE)
        step = json_track(&a->json, a->in.text[i++]);
    i -= step == JSON_BAD && i > from;
    tell(a, ANSWER_ARGUMENTS, a->in.text + from, i - from);
    a->has_args |= i > from;
    a->at = i;
    if (step != JSON_BAD && step != JSON_DONE)
        return false;
    call_done(a);
    a->state = CALL_AFTER;
    return true;
}

/* ---- Arguments one by one -------------------------------------------------------------------- */

static void tell_inside(Answer *a, const char *s, size_t n)
{
    TextOut o = { 0 };
    json_out_inside(&o, s, n);
    tell(a, ANSWER_ARGUMENTS, o.text, o.failed ? 0 : o.n);
    a->no_memory |= o.failed;
    text_out_free(&o);
}

/* Does the tool's schema say that this argument is a string? */
static bool is_string_argument(const Answer *a)
{
    JSON_NODES (tool, a->tools) {
        const JsonNode *f = node_get(tool, "function"), *t = f ? f : tool,
                       *name = node_get(t, "name"),
                       *all = node_get(node_get(t, "parameters"), "properties");
        if (!name || name->kind != NODE_STRING || name->n != a->name.n
            || memcmp(name->text, a->name.text, name->n) != 0)
            continue;
        JSON_NODES (p, all) {
            if (p->key_n != a->key.n || memcmp(p->key, a->key.text, p->key_n) != 0)
                continue;
            const JsonNode *type = node_get(p, "type");
            bool string = node_is(type, "string");
            if (type && type->kind == NODE_ARRAY)
                JSON_NODES (i, type)
                    string |= node_is(i, "string");
            return string;
        }
    }
    return false;
}

static bool key(Answer *a)
{
    const CallForm *c = &a->f->calls;
    LiteralChoice   choice = { 0 };
    for (int k = TEXT_VALUE; k <= (c->typed ? OTHER_VALUE : TEXT_VALUE); k++)
        choose(&choice, &c->value[k]);
    int which = text_until(a, &choice);
    if (which < 0)
        return false;
    a->kind = choice.l[which] == &c->value[OTHER_VALUE] ? OTHER_VALUE : TEXT_VALUE;
    tell(a, ANSWER_ARGUMENTS, ", ", a->any_value ? 2 : 0);
    a->any_value = true;
    tell(a, ANSWER_ARGUMENTS, "\"", 1);
    tell_inside(a, a->key.text, a->key.n);
    tell(a, ANSWER_ARGUMENTS, "\": ", 3);
    a->state = VALUE_BEGIN;
    return true;
}

static void text_begins(Answer *a)
{
    a->text = true;
    tell(a, ANSWER_ARGUMENTS, "\"", 1);
}

static bool value_begin(Answer *a)
{
    const CallForm *c = &a->f->calls;
    const Literal  *l = &c->value[a->kind];
    size_t          i = a->at;
    for (size_t k = l->to; k < l->n && i < a->in.n && a->in.text[i] == l->s[k]; k++)
        i++;
    if (i == a->in.n && !a->ending)
        return false;
    a->at = i;
    a->value.n = 0;
    a->text = a->escape = false;
    a->deep = a->quote = 0;
    a->state = VALUE;
    if (c->quoted || (c->typed && a->kind == OTHER_VALUE))
        a->state = VALUE_TRACKED;
    else if (c->typed || is_string_argument(a))
        text_begins(a);
    return true;
}

/* For an argument of unknown type: if its first byte begins no other value, it is a string. */
static void value_bytes(Answer *a, const char *s, size_t n)
{
    size_t i = 0, k = 0;
    while (i < a->value.n && answer_space(a->value.text[i]))
        i++;
    while (k < n && answer_space(s[k]))
        k++;
    if (!a->text && i == a->value.n && k < n && !strchr("{[-0123456789tfnTFN", s[k])) {
        text_begins(a);
        tell_inside(a, a->value.text, a->value.n);
    }
    if (a->text)
        tell_inside(a, s, n);
    else
        text_out_bytes(&a->value, s, n);
}

/* Emits the waiting value: as JSON, or as a string. */
static void value_done(Answer *a)
{
    TextOut        o = { 0 };
    const Literal *quote = &a->f->calls.quote;
    size_t         n = a->value.n;
    if (a->text) {
        tell(a, ANSWER_ARGUMENTS, "\"", 1);
        return;
    }
    while (n && answer_space(a->value.text[n - 1]))
        n--;
    if (!json_from_loose(&o, a->value.text, n, quote->s, quote->n) && !o.failed) {
        o.n = 0;
        text_out_bytes(&o, "\"", 1);
        json_out_inside(&o, a->value.text, n);
        text_out_bytes(&o, "\"", 1);
    }
    tell(a, ANSWER_ARGUMENTS, o.text, o.failed ? 0 : o.n);
    a->no_memory |= o.failed;
    text_out_free(&o);
}

static LiteralChoice value_ends(const Answer *a)
{
    const CallForm *c = &a->f->calls;
    LiteralChoice   choice = { 0 };
    choose(&choice, &c->more[a->kind]);
    choose(&choice, &c->value_end[a->kind]);
    choose(&choice, &c->value_next[a->kind]);
    return choice;
}

static void after_value(Answer *a, const Literal *found)
{
    const CallForm *c = &a->f->calls;
    value_done(a);
    a->skip = true;
    if (found == &c->more[a->kind]) {
        a->key.n = 0;
        a->state = KEY;
        return;
    }
    tell(a, ANSWER_ARGUMENTS, "}", 1);
    end_call(a, found == &c->value_next[a->kind]);
}

static bool value(Answer *a)
{
    LiteralChoice choice = value_ends(a);
    int           which = text_until(a, &choice);
    if (which >= 0)
        after_value(a, choice.l[which]);
    return which >= 0;
}

/* Follows brackets and quotes over one byte, or one quote of the template; returns its length. */
static size_t tracked(Answer *a, size_t i)
{
    const Literal *quote = &a->f->calls.quote;
    char           c = a->in.text[i];
    size_t         to;
    if (literal_at(a, quote, i, &to) == MATCHES && (!a->quote || a->quote == DIGITS)) {
        a->quote = a->quote ? 0 : DIGITS;
        return to - i;
    }
    if (a->quote) {
        if (!a->escape && c == a->quote)
            a->quote = 0;
        a->escape = a->quote && !a->escape && c == '\\';
    } else if (c == '"' || c == '\'') {
        a->quote = c;
    } else if (strchr("{[(", c) && c) {
        a->deep++;
    } else if (strchr("}])", c) && c) {
        a->deep -= a->deep > 0;
    }
    return 1;
}

static bool value_tracked(Answer *a)
{
    LiteralChoice choice = value_ends(a);
    while (a->at < a->in.n) {
        size_t to, i = skip_spaces(a, a->at), n = 0;
        bool   more = i == a->in.n;
        int    which = -1;
        if (!more && !a->deep && !a->quote)
            which = choice_at(a, &choice, i, &to, &more);
        if (which < 0 && (!a->quote || a->quote == DIGITS))
            more |= literal_at(a, &a->f->calls.quote, i, &n) == NEEDS_MORE;
        if (more && which < 0) {
            a->at = a->ending ? a->in.n : a->at; /* its end was cut */
            return false;
        }
        if (which >= 0) {
            a->at = to;
            after_value(a, choice.l[which]);
            return true;
        }
        n = i < a->in.n ? tracked(a, i) : 0;
        text_out_bytes(&a->value, a->in.text + a->at, i + n - a->at);
        a->at = i + n;
    }
    return false;
}

/* ---- States ---------------------------------------------------------------------------------- */

static void take(Answer *a, size_t from, size_t to)
{
    while (a->skip && from < to && answer_space(a->in.text[from]))
        from++;
    if (from >= to)
        return;
    a->skip = false;
    const char *s = a->in.text + from;
    size_t      n = to - from;
    switch (a->state) {
    case CONTENT: tell(a, ANSWER_CONTENT, s, n); break;
    case REASONING: tell(a, ANSWER_REASONING, s, n); break;
    case KEY: text_out_bytes(&a->key, s, n); break;
    case VALUE: value_bytes(a, s, n); break;
    default: break;
    }
}

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
    hold_call(a, from, a->f->calls.style == CALLS_JSON ? JSON_BEGIN : FIELD);
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
        Match ends = literal_at(a, &f->head_end, i, &to);
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
            arguments_begin(a);
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
    size_t            to, j = skip_spaces(a, a->at);
    LiteralChoice     choice = { 0 };
    bool              more;
    if (j == a->in.n && !(a->ending && j > a->at && a->fresh)) {
        a->at = a->ending ? j : a->at;
        return false;
    }
    choose(&choice, &f->head);
    choose(&choice, &c->begin);
    choose(&choice, &f->think);
    choose(&choice, &f->content);
    choose(&choice, &f->turn_end);
    if (a->fresh) /* ends reasoning that never began */
        choose(&choice, &f->think_end);
    if (j < a->in.n && literal_at(a, &f->head, j, &to) == MATCHES)
        return header(a, j);
    int which = choice_at(a, &choice, j, &to, &more);
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
        hold_call(a, j, JSON_CALL);
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
    choose(&choice, &f->calls.begin);
    choose(&choice, &f->calls.begin_later);
    choose(&choice, &f->turn_end);
    if (a->ending)
        choose(&choice, &f->turn_first);
    if (!literal_empty(&f->head))
        choose(&choice, &f->think_end);
    int which = text_until(a, &choice);
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
    choose(&choice, &a->f->think_end);
    int which = text_until(a, &choice);
    if (which >= 0)
        a->state = FREE;
    return which >= 0;
}

/* A marker after a call is not emitted if it is cut short. */
static bool call_after(Answer *a)
{
    const CallForm *c = &a->f->calls;
    LiteralChoice   choice = { 0 };
    size_t          to, j = skip_spaces(a, a->at);
    bool            more;
    choose(&choice, &c->next);
    choose(&choice, &c->end);
    if (j == a->in.n)
        return false;
    int which = choice_at(a, &choice, j, &to, &more);
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
    case JSON_BEGIN: return json_begin(a);
    case JSON_CALL: return json_call(a);
    case FIELD: return field(a);
    case HEADER_REST: return header_rest(a);
    case JSON_ARGS: return json_args(a);
    case KEY: return key(a);
    case VALUE_BEGIN: return value_begin(a);
    case VALUE: return value(a);
    case VALUE_TRACKED: return value_tracked(a);
    default: return call_after(a);
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

static void drop_parts(Answer *a)
{
    a->n_parts = a->out.n = 0;
}

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

/* Closes what is open when the answer ends. */
static void close_open(Answer *a)
{
    if (a->state == VALUE || a->state == VALUE_TRACKED || a->state == VALUE_BEGIN)
        value_done(a);
    if (a->told && a->f->calls.by_key && a->state != JSON_ARGS)
        tell(a, ANSWER_ARGUMENTS, "}", 1);
    if (a->told)
        call_done(a);
    else if (a->held)
        no_call(a);
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
    close_open(a);
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
