/* chat/answer_text.c: the parts of an answer, the literals of its form, and text up to one. */
#include "chat/chat_answer_parts.h"

#include "base/memory.h"

/* ---- Parts ----------------------------------------------------------------------------------- */

void answer_emit(Answer *a, AnswerKind kind, const char *s, size_t n)
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

/* ---- Literals -------------------------------------------------------------------------------- */

size_t answer_skip(const Answer *a, size_t i)
{
    while (i < a->in.n && answer_space(a->in.text[i]))
        i++;
    return i;
}

LiteralMatch literal_at(const Answer *a, const Literal *l, size_t i, size_t *to)
{
    if (literal_empty(l))
        return NO_MATCH;
    for (size_t k = l->from; k < l->to;) {
        if (answer_space(l->s[k])) {
            size_t j = answer_skip(a, i);
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

void literal_choose(LiteralChoice *c, const Literal *l)
{
    if (l->known && !literal_empty(l))
        c->l[c->n++] = l;
}

int literal_choice_at(const Answer *a, const LiteralChoice *c, size_t i, size_t *to, bool *more)
{
    int    best = -1;
    size_t end;
    *more = false;
    for (int k = 0; k < c->n; k++) {
        LiteralMatch m = literal_at(a, c->l[k], i, &end);
        *more |= m == NEEDS_MORE;
        if (m == MATCHES && (best < 0 || end > *to)) {
            best = k;
            *to = end;
        }
    }
    return *more && !a->ending ? -1 : best;
}

/* ---- What is text ---------------------------------------------------------------------------- */

void answer_emit_inside(Answer *a, const char *s, size_t n)
{
    TextOut o = { 0 };
    json_out_inside(&o, s, n);
    answer_emit(a, ANSWER_ARGUMENTS, o.text, o.failed ? 0 : o.n);
    a->no_memory |= o.failed;
    text_out_free(&o);
}

void answer_text_begins(Answer *a)
{
    a->text = true;
    answer_emit(a, ANSWER_ARGUMENTS, "\"", 1);
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
        answer_text_begins(a);
        answer_emit_inside(a, a->value.text, a->value.n);
    }
    if (a->text)
        answer_emit_inside(a, s, n);
    else
        text_out_bytes(&a->value, s, n);
}

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
    case CONTENT: answer_emit(a, ANSWER_CONTENT, s, n); break;
    case REASONING: answer_emit(a, ANSWER_REASONING, s, n); break;
    case KEY: text_out_bytes(&a->key, s, n); break;
    case VALUE: value_bytes(a, s, n); break;
    default: break;
    }
}

/* ---- Text up to a marker --------------------------------------------------------------------- */

/* White space before a marker is the template's; in a value, only as much as it writes there. */
static size_t spaces_kept(const Answer *a, const Literal *l, size_t from, size_t to)
{
    if (a->state != VALUE)
        return from;
    for (size_t k = l->from; k && to > from && a->in.text[to - 1] == l->s[k - 1]; k--)
        to--;
    return to;
}

int answer_text_until(Answer *a, const LiteralChoice *c)
{
    size_t i = a->at, to = 0;
    while (i < a->in.n) {
        bool   more;
        size_t j = answer_skip(a, i);
        i = j - i > SPACES ? j - SPACES : i;
        int which = j < a->in.n ? literal_choice_at(a, c, j, &to, &more) : -1;
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
