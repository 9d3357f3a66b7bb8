/* chat/answer_calls.c: the calls of an answer: in a JSON value, or in a frame that the template
 * writes around names and arguments. */
#include "chat/chat_answer_parts.h"

#include "base/json.h"

/* ---- Calls ----------------------------------------------------------------------------------- */

void answer_no_call(Answer *a)
{
    if (a->told)
        answer_emit(a, ANSWER_CALL_END, "", 0);
    else if (a->held && a->at > a->held_from)
        answer_emit(a, ANSWER_CONTENT, a->in.text + a->held_from, a->at - a->held_from);
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

void answer_hold_call(Answer *a, size_t from, AnswerState state)
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
    answer_emit(a, ANSWER_CALL, a->name.text, a->name.n);
    answer_emit(a, ANSWER_CALL_ID, a->id.text, a->id.n);
    a->told = true;
    a->held = false;
}

static void call_done(Answer *a)
{
    if (!a->told)
        tell_call(a);
    if (!a->has_args)
        answer_emit(a, ANSWER_ARGUMENTS, "{}", 2);
    answer_emit(a, ANSWER_CALL_END, "", 0);
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
        answer_emit(a, ANSWER_ARGUMENTS, s, n);
        a->args_from = whole ? SIZE_MAX : to;
    } else if (whole) {
        TextOut text = { 0 };
        if (json_unquote(&text, s, n))
            answer_emit(a, ANSWER_ARGUMENTS, text.text, text.n);
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
            answer_emit(a, ANSWER_CALL_ID, text->text, text->n);
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
            answer_no_call(a);
            return true;
        }
        if (step == JSON_DONE) {
            a->at = i + 1;
            a->args_from = a->args_to = a->value_at = SIZE_MAX;
            if (a->held)
                answer_no_call(a);
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
    a->at = answer_skip(a, a->at);
    if (a->at == a->in.n)
        return false;
    if (a->in.text[a->at] == '{' || a->in.text[a->at] == '[')
        a->state = JSON_CALL;
    else
        answer_no_call(a);
    return true;
}

/* ---- Calls in a frame ------------------------------------------------------------------------ */

static void end_call(Answer *a, bool another)
{
    call_done(a);
    a->fresh = false;
    if (another)
        answer_hold_call(a, a->at, FIELD);
    else
        a->state = FREE;
}

void answer_arguments_begin(Answer *a)
{
    tell_call(a);
    a->skip = true;
    if (!a->f->calls.by_key) {
        a->state = JSON_ARGS;
        return;
    }
    answer_emit(a, ANSWER_ARGUMENTS, "{", 1);
    a->has_args = true;
    a->state = KEY;
}

/* Reads a name up to one of the literals; -1: needs more; -2: it is no name. */
static int name_until(Answer *a, TextOut *name, const LiteralChoice *c)
{
    while (a->at < a->in.n) {
        bool   more;
        size_t to = 0, j = answer_skip(a, a->at);
        bool   sound = j - a->at <= SPACES;
        int    which = sound && j < a->in.n ? literal_choice_at(a, c, j, &to, &more) : -1;
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
    literal_choose(&choice, after);
    literal_choose(&choice, turn_end);
    if (last && headed)
        literal_choose(&choice, &a->f->head);
    if (last && c->by_key) {
        literal_choose(&choice, &c->none_end);
        literal_choose(&choice, &c->none_next);
    }
    int which = name_until(a, c->field[a->field] == 'n' ? &a->name : &a->id, &choice);
    if (which == -1)
        return false;
    const Literal *found = which < 0 ? turn_end : choice.l[which];
    if (found == turn_end) {
        a->at = which < 0 ? a->at : a->marker_at;
        answer_no_call(a);
    } else if (!last) {
        a->field++;
    } else if (found == after) {
        a->at -= !c->by_key; /* the opening brace of the arguments */
        answer_arguments_begin(a);
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
    literal_choose(&choice, &a->f->head_end);
    if (answer_text_until(a, &choice) < 0)
        return false;
    answer_arguments_begin(a);
    return true;
}

static bool json_args(Answer *a)
{
    size_t   from = a->has_args ? a->at : answer_skip(a, a->at), i = from;
    JsonStep step = JSON_INSIDE;
    if (from == a->in.n)
        return false;
    if (!a->has_args && a->in.text[from] != '{')
        step = JSON_BAD;
    while (i < a->in.n && step != JSON_BAD && step != JSON_DONE)
        step = json_track(&a->json, a->in.text[i++]);
    i -= step == JSON_BAD && i > from;
    answer_emit(a, ANSWER_ARGUMENTS, a->in.text + from, i - from);
    a->has_args |= i > from;
    a->at = i;
    if (step != JSON_BAD && step != JSON_DONE)
        return false;
    call_done(a);
    a->state = CALL_AFTER;
    return true;
}

/* ---- Arguments one by one -------------------------------------------------------------------- */

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
        literal_choose(&choice, &c->value[k]);
    int which = answer_text_until(a, &choice);
    if (which < 0)
        return false;
    a->kind = choice.l[which] == &c->value[OTHER_VALUE] ? OTHER_VALUE : TEXT_VALUE;
    answer_emit(a, ANSWER_ARGUMENTS, ", ", a->any_value ? 2 : 0);
    a->any_value = true;
    answer_emit(a, ANSWER_ARGUMENTS, "\"", 1);
    answer_emit_inside(a, a->key.text, a->key.n);
    answer_emit(a, ANSWER_ARGUMENTS, "\": ", 3);
    a->state = VALUE_BEGIN;
    return true;
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
        answer_text_begins(a);
    return true;
}

/* Emits the waiting value: as JSON, or as a string. */
static void value_done(Answer *a)
{
    TextOut        o = { 0 };
    const Literal *quote = &a->f->calls.quote;
    size_t         n = a->value.n;
    if (a->text) {
        answer_emit(a, ANSWER_ARGUMENTS, "\"", 1);
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
    answer_emit(a, ANSWER_ARGUMENTS, o.text, o.failed ? 0 : o.n);
    a->no_memory |= o.failed;
    text_out_free(&o);
}

static LiteralChoice value_ends(const Answer *a)
{
    const CallForm *c = &a->f->calls;
    LiteralChoice   choice = { 0 };
    literal_choose(&choice, &c->more[a->kind]);
    literal_choose(&choice, &c->value_end[a->kind]);
    literal_choose(&choice, &c->value_next[a->kind]);
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
    answer_emit(a, ANSWER_ARGUMENTS, "}", 1);
    end_call(a, found == &c->value_next[a->kind]);
}

static bool value(Answer *a)
{
    LiteralChoice choice = value_ends(a);
    int           which = answer_text_until(a, &choice);
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
        size_t to, i = answer_skip(a, a->at), n = 0;
        bool   more = i == a->in.n;
        int    which = -1;
        if (!more && !a->deep && !a->quote)
            which = literal_choice_at(a, &choice, i, &to, &more);
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

bool answer_call_step(Answer *a)
{
    switch (a->state) {
    case JSON_BEGIN: return json_begin(a);
    case JSON_CALL: return json_call(a);
    case FIELD: return field(a);
    case HEADER_REST: return header_rest(a);
    case JSON_ARGS: return json_args(a);
    case KEY: return key(a);
    case VALUE_BEGIN: return value_begin(a);
    case VALUE: return value(a);
    default: return value_tracked(a);
    }
}

void answer_close_call(Answer *a)
{
    if (a->state == VALUE || a->state == VALUE_TRACKED || a->state == VALUE_BEGIN)
        value_done(a);
    if (a->told && a->f->calls.by_key && a->state != JSON_ARGS)
        answer_emit(a, ANSWER_ARGUMENTS, "}", 1);
    if (a->told)
        call_done(a);
    else if (a->held)
        answer_no_call(a);
}
