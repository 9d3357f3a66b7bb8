/* chat/chat_probe_calls.c: finds how a template writes calls: in a JSON value, in a frame around
 * the arguments, or each argument in a frame of its own. */
#include "chat/chat_probe.h"

#include <stdlib.h>

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
    bool good = literal_set(p, &c->begin, begins, w->first);
    if (c->n_fields == 2)
        good = good && literal_set(p, &c->after[0], word_end(w, w->first, 0), w->last);
    good = good && literal_set(p, &c->after[c->n_fields - 1], word_end(w, w->last, 0), args);
    literal_drop_reasoning(p->f, &c->begin);
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
    literal_set_range(&made);
    *l = made;
    return i == l->n || k == n;
}

/* ---- Arguments one by one -------------------------------------------------------------------- */

typedef struct Kind { const char *both, *one, *first, *second; } Kind;
static const Kind kinds[2] = { { TEXTS, ONE_TEXT, TEXT_1, TEXT_2 },
                               { NUMBERS, ONE_NUMBER, NUMBER_1, NUMBER_2 } };

/* Where the end of every answer begins in a rendering; else the end. */
static const char *turn_tail(const Probing *p, const char *text)
{
    const char *plain = p->with_tools.plain + p->with_tools.begins,
               *end = after_word(strstr(plain, CONTENT), CONTENT);
    size_t      n = strlen(text), m = end ? strlen(end) : 0;
    return text + n - (m <= n && m && memcmp(text + n - m, end, m) == 0 ? m : 0);
}

/* The frame of the values of one kind, from a call with two of them and from two calls. */
static bool find_values(Probing *p, CallForm *c, int k)
{
    char       *one = probe_calls(p, p->content, kinds[k].both, NULL),
               *two = probe_calls(p, p->content, kinds[k].one, kinds[k].one);
    size_t      at = p->with_tools.begins;
    CallWords   w = { 0 };
    const char *k1 = one ? strstr(one + at, KEY_1) : NULL,
               *v1 = k1 ? strstr(k1, kinds[k].first) : k1, *k2 = v1 ? strstr(v1, KEY_2) : v1,
               *v2 = k2 ? strstr(k2, kinds[k].second) : k2;
    bool good = v2 && literal_set(p, &c->value[k], after_word(k1, KEY_1), v1)
                && literal_set(p, &c->more[k], after_word(v1, kinds[k].first), k2)
                && literal_set(p, &c->value_end[k], after_word(v2, kinds[k].second),
                               turn_tail(p, one))
                && !literal_empty(&c->value[k]) && !literal_empty(&c->more[k]);
    v1 = good && two ? strstr(two + at, kinds[k].second) : NULL;
    k2 = v1 ? strstr(v1, KEY_2) : NULL;
    if (k2 && find_words(&w, v1, NAME_2, ID_2, k2))
        literal_set(p, &c->value_next[k], after_word(v1, kinds[k].second), w.first);
    free(one);
    free(two);
    return good;
}

/* Calls without arguments. Templates differ most here, so what is not found stays unset. */
static void find_none(Probing *p, CallForm *c)
{
    char       *one = probe_calls(p, p->content, "{}", NULL),
               *two = probe_calls(p, p->content, "{}", "{}");
    size_t      at = p->with_tools.begins;
    CallWords   w = { 0 }, v = { 0 };
    if (one && find_words(&w, one + at, NAME_1, ID_1, one + strlen(one)))
        literal_set(p, &c->none_end, word_end(&w, w.last, 0), turn_tail(p, one));
    if (two && find_words(&w, two + at, NAME_1, ID_1, two + strlen(two))
        && find_words(&v, w.last, NAME_2, ID_2, two + strlen(two)))
        literal_set(p, &c->none_next, word_end(&w, w.last, 0), v.first);
    free(one);
    free(two);
}

/* Have strings quotes where other values have none? Then the frame is that of the unquoted one. */
static void find_quotes(CallForm *c)
{
    Literal *text = &c->value[TEXT_VALUE], *other = &c->value[OTHER_VALUE];
    size_t   n = other->n < text->n && memcmp(text->s, other->s, other->n) == 0 ? text->n - other->n
                                                                                  : 0;
    c->typed = !literal_same(text, other);
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
    literal_drop_front(&c->quote, other->n);
}

/* After the end of a call, the start of the next one alone identifies that. */
static void drop_next(const CallForm *c, const Literal *end, Literal *next)
{
    Literal rest = *next;
    if (rest.known && literal_drop(&rest, end) && literal_same(&rest, &c->begin))
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

const char *call_start(const CallForm *c, const char *from, const char *name,
                               const char *id, const char **end)
{
    const char *args_end = NULL, *args, *word = strstr(from, name);
    CallWords   w;
    if (c->style == CALLS_JSON)
        return value_over(from, word, end);
    if (c->by_key)
        args = args_end = strstr(from, KEY_1) ? strstr(from, KEY_1) : strstr(from, KEY_2);
    else if (!(args = object_of(from, KEY_1, &args_end)))
        args = object_of(from, KEY_2, &args_end);
    *end = args_end;
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
            bool good = literal_set(p, &c->begin, from, s)
                        && literal_set(p, &c->end, end, turn_tail(p, text));
            literal_drop_reasoning(p->f, &c->begin);
            return good;
        }
    const char *args = object_of(from, KEY_1, &end);
    *c = (CallForm){ 0 };
    return args && find_words(&w, from, NAME_1, ID_1, args)
           && set_fields(p, c, &w, from, args + 1)
           && literal_set(p, &c->end, end, turn_tail(p, text));
}

/* The text between two calls, and the counters. False: ambiguous. */
static bool find_next(Probing *p)
{
    CallForm   *c = &p->f->calls;
    char       *text = probe_calls(p, p->content, TEXTS, ONE_TEXT);
    const char *end = NULL, *end_2 = NULL, *from = text ? text + p->with_tools.begins : NULL,
               *first = text ? call_start(c, from, NAME_1, ID_1, &end) : NULL,
               *second = first && end ? call_start(c, end, NAME_2, ID_2, &end_2) : NULL;
    bool        good = true;
    CallWords   w;
    if (second && !c->by_key)
        good = literal_set(p, &c->next, end, second);
    if (second && c->style == CALLS_FRAME && !c->by_key) {
        const char *args = object_of(second, KEY_2, &end_2);
        good = good && args && find_words(&w, second, NAME_2, ID_2, args)
               && count_in(&c->after[c->n_fields - 1], word_end(&w, w.last, 1),
                           (size_t)(args + 1 - word_end(&w, w.last, 1)));
    }
    Literal end_of_two;
    if (second && end_2 && !c->by_key && literal_set(p, &end_of_two, end_2, turn_tail(p, text))
        && literal_begins(&end_of_two, &c->end))
        c->end = end_of_two; /* some templates close the section only there */
    drop_next(c, &c->end, &c->next);
    free(text);
    return good;
}

/* A call after content may have another text before it. */
static void find_later(Probing *p)
{
    CallForm   *c = &p->f->calls;
    char       *text = probe_calls(p, ", \"content\": \"" CONTENT "\"", TEXTS, NULL);
    const char *end, *from = text ? strstr(text + p->with_tools.begins, CONTENT) : NULL,
               *first = from ? call_start(c, after_word(from, CONTENT), NAME_1, ID_1, &end) : NULL;
    if (!first || !literal_set(p, &c->begin_later, after_word(from, CONTENT), first)
        || literal_same(&c->begin_later, &c->begin))
        c->begin_later = (Literal){ 0 };
    if (!literal_empty(&c->begin_later) && literal_ends(&c->begin, &c->begin_later)) {
        c->begin = c->begin_later; /* the rest of it belongs to the answer, not to the call */
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
    if (!front || !back || !literal_begins(&args, &f->head) || !literal_ends(&args, &f->head_end))
        f->head = f->head_end = (Literal){ 0 };
}

bool calls_are_read(Probing *p)
{
    const CallForm *c = &p->f->calls;
    bool  named = c->style == CALLS_JSON || c->field[0] == 'n' || (c->n_fields == 2
                                                                   && c->field[1] == 'n');
#define TWO_ARGS(v1, v2) "|{\"" KEY_1 "\":" v1 ",\"" KEY_2 "\":" v2 "}|"
#define TWO_TEXTS        TWO_ARGS("\"" TEXT_1 "\"", "\"" TEXT_2 "\"")
#define TWO_NUMBERS      TWO_ARGS(NUMBER_1, NUMBER_2)
#define LAST_TEXT        "|{\"" KEY_2 "\":\"" TEXT_2 "\"}|"
    static const struct { const char *args, *more, *said[2]; } probes[] = {
        { TEXTS, NULL, { NAME_1 TWO_TEXTS, ID_1 TWO_TEXTS } },
        { NUMBERS, NULL, { NAME_1 TWO_NUMBERS, ID_1 TWO_NUMBERS } },
        { TEXTS, ONE_TEXT,
          { NAME_1 TWO_TEXTS NAME_2 LAST_TEXT, ID_1 TWO_TEXTS ID_2 LAST_TEXT } },
    };
    bool good = true;
    for (size_t i = 0; good && i < sizeof probes / sizeof *probes; i++) {
        char       *text = probe_calls(p, p->content, probes[i].args, probes[i].more);
        const char *from = text ? text + p->with_tools.begins : NULL;
        bool        one = probes[i].more && from && !strstr(from, named ? NAME_2 : ID_2);
        good = from ? probe_reads(p, from, "", "", probes[one ? 0 : i].said[!named])
                    : probes[i].more != NULL;
        free(text);
    }
    return good;
}

static bool try_calls(Probing *p, bool by_key)
{
    static const char *const contents[] = { ", \"content\": \"\"", ", \"content\": null", "" };
    for (int i = 0; i < 3 && !p->no_memory; i++) {
        p->content = contents[i];
        char *text = probe_calls(p, p->content, TEXTS, NULL);
        place_narrow(&p->with_tools, text);
        bool good = text && strlen(text) > p->with_tools.begins
                    && strlen(text + p->with_tools.begins) < 16 << 10
                    && (by_key ? by_key_form(p, text) : json_form(p, text)) && find_next(p);
        free(text);
        if (good) {
            find_later(p);
            find_headers(p->f);
            if (calls_are_read(p)) {
                p->f->no_content = i > 0;
                return true;
            }
        }
        p->f->calls = (CallForm){ 0 };
        p->f->head = p->f->head_end = (Literal){ 0 };
    }
    return false;
}

void probe_find_calls(Probing *p)
{
    if (place_find(p, &p->with_tools, true) && !try_calls(p, false) && !try_calls(p, true)) {
        p->as_text = true;
        p->f->text_arguments = try_calls(p, false);
    }
}
