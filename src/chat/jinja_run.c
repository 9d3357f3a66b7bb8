/* chat/jinja_run.c: runs the tree: statements, expressions, loops and macros. */
#include "chat/jinja_parts.h"

#include "tokenizer/unicode.h"

typedef enum Flow { GO_ON, BREAK, CONTINUE } Flow;

static Value eval(JinjaRun *r, const Node *n, Env *env);
static Flow exec(JinjaRun *r, const Node *n, Env *env);

/* ---- Iteration ------------------------------------------------------------------------------- */

Iter *iter_begin(JinjaRun *r, Value v)
{
    if (v.kind == V_ITER)
        return v.iter;
    if (v.kind == V_LOOP || length_of(r, v) == SIZE_MAX)
        jinja_fail(r, "a %s cannot be iterated", type_name(v));
    Iter *it = jinja_alloc(r, sizeof *it);
    it->source = v;
    return it;
}

static Value view_item(JinjaRun *r, const View *v, size_t i)
{
    if (v->kind != 'i')
        return v->kind == 'k' ? v->dict->key[i] : v->dict->value[i];
    List *pair = list_new(r, 2);
    pair->item[0] = v->dict->key[i], pair->item[1] = v->dict->value[i];
    return v_tuple(pair);
}

static bool source_next(JinjaRun *r, Iter *it, Value *out)
{
    Value  v = it->source;
    size_t i = it->at;
    jinja_work(r, 1);
    if (v.kind == V_ITER)
        return iter_next(r, v.iter, out);
    if (v.kind == V_STRING) {
        uint32_t c = 0;
        size_t   n = character_at(v.s->s + i, v.s->n - i, &c);
        *out = n ? v_string(string_part(r, v.s, i, i + n)) : v_none();
        it->at += n;
        return n > 0;
    }
    if (i >= length_of(r, v))
        return false;
    it->at++;
    *out = v.kind == V_DICT    ? v.dict->key[i]
           : v.kind == V_RANGE ? range_item(v.range, i)
           : v.kind == V_VIEW  ? view_item(r, v.view, i)
                               : v.list->item[i];
    return true;
}

/* A loop's condition runs when the next item is needed, so it sees what the body has done. */
bool iter_next(JinjaRun *r, Iter *it, Value *out)
{
    Env *env = NULL;
    while (source_next(r, it, out)) {
        if (!it->test)
            return true;
        env = env_new(r, env, it->env, NULL);
        env_assign(r, env, it->target, *out);
        if (truth(r, eval(r, it->test, env)))
            return true;
    }
    return false;
}

/* ---- Loops ----------------------------------------------------------------------------------- */

struct Loop {
    const Node *node;
    Env        *env;       /* around the loop */
    Iter       *it;
    Value       source, before, current, after; /* after: fetched already, or V_MISSING */
    List       *changed;
    int64_t     index0, depth0;
    size_t      length;    /* SIZE_MAX: unknown */
};

static bool loop_next(JinjaRun *r, Loop *l, Value *out)
{
    if (l->after.kind != V_MISSING) {
        *out = l->after;
        l->after = (Value){ 0 };
    } else if (!iter_next(r, l->it, out)) {
        return false;
    }
    l->index0++;
    l->before = l->current;
    l->current = *out;
    return true;
}

static bool loop_peek(JinjaRun *r, Loop *l)
{
    Value v;
    if (l->after.kind == V_MISSING && iter_next(r, l->it, &v))
        l->after = v;
    return l->after.kind != V_MISSING;
}

size_t loop_length(JinjaRun *r, Loop *l)
{
    if (l->length == SIZE_MAX && l->source.kind != V_ITER && !l->it->test)
        l->length = length_of(r, l->source);
    if (l->length == SIZE_MAX) {
        List *rest = list_new(r, 0);
        for (Value v; iter_next(r, l->it, &v);)
            list_add(r, rest, v);
        l->it = iter_begin(r, v_list(rest));
        l->length = rest->n + (size_t)(l->index0 + 1) + (l->after.kind != V_MISSING);
    }
    return l->length;
}

Value loop_attribute(JinjaRun *r, Loop *l, const String *name)
{
    int64_t index = l->index0 + 1;
    if (string_is(name, "index"))
        return v_int(index);
    if (string_is(name, "index0"))
        return v_int(l->index0);
    if (string_is(name, "first"))
        return v_bool(l->index0 == 0);
    if (string_is(name, "last"))
        return v_bool(!loop_peek(r, l));
    if (string_is(name, "length"))
        return v_int((int64_t)loop_length(r, l));
    if (string_is(name, "revindex"))
        return v_int((int64_t)loop_length(r, l) - l->index0);
    if (string_is(name, "revindex0"))
        return v_int((int64_t)loop_length(r, l) - index);
    if (string_is(name, "depth"))
        return v_int(l->depth0 + 1);
    if (string_is(name, "depth0"))
        return v_int(l->depth0);
    if (string_is(name, "previtem"))
        return l->index0 ? l->before
                         : v_undefined(r, "is not there in the first round", "previtem", 8);
    if (string_is(name, "nextitem"))
        return loop_peek(r, l) ? l->after
                               : v_undefined(r, "is not there in the last round", "nextitem", 8);
    return (Value){ 0 };
}

Value loop_method(JinjaRun *r, Loop *l, const char *name, const Args *args)
{
    if (args->named && args->named->n)
        jinja_fail(r, "loop.%s takes no keyword arguments", name);
    List *all = list_new(r, args->n);
    if (args->n)
        memcpy(all->item, args->v, args->n * sizeof *args->v);
    if (strcmp(name, "cycle") == 0) {
        if (!all->n)
            jinja_fail(r, "no items for cycling given");
        return all->item[(size_t)l->index0 % all->n];
    }
    bool same = l->changed && equal(r, v_tuple(l->changed), v_tuple(all));
    l->changed = all;
    return v_bool(!same);
}

static Flow run_loop(JinjaRun *r, const Node *n, Env *env, Value items, int64_t depth0)
{
    const Node *cond = n->d;
    Loop       *l = jinja_alloc(r, sizeof *l);
    String     *loop_name = v_text(r, "loop").s;
    *l = (Loop){ .node = n, .env = env, .source = items, .index0 = -1, .depth0 = depth0,
                 .length = SIZE_MAX };
    l->it = iter_begin(r, items);
    if (cond->a) {
        l->it = jinja_alloc(r, sizeof *l->it);
        *l->it = (Iter){ .source = items, .target = n->a, .test = cond->a, .env = env };
    }
    Env *here = NULL;
    Flow flow = GO_ON;
    bool whole = false; /* an iteration completed: Jinja2 compiles `else` to a check of this */
    for (Value v; flow != BREAK && loop_next(r, l, &v);) {
        here = env_new(r, here, env, n->hidden);
        env_define(r, here, loop_name, (Value){ .kind = V_LOOP, .loop = l });
        env_assign(r, here, n->a, v);
        flow = exec(r, n->c, here);
        whole |= flow == GO_ON;
    }
    return !whole && cond->b ? exec(r, cond->b, env_new(r, NULL, env, cond->hidden)) : GO_ON;
}

Value call_loop(JinjaRun *r, Loop *l, Value items)
{
    if (!l->node->recursive)
        jinja_fail(r, "the loop must be marked 'recursive' to be called");
    StringBuffer *outer = output_begin(r);
    run_loop(r, l->node, l->env, items, l->depth0 + 1);
    return v_string(output_end(r, outer));
}

/* ---- Macros ---------------------------------------------------------------------------------- */

static Value new_macro(JinjaRun *r, const Node *n, Env *env)
{
    Macro *m = jinja_alloc(r, sizeof *m);
    *m = (Macro){ .node = n, .name = n->name, .env = env };
    for (; env && !env->captured; env = env->parent)
        env->captured = true;
    return (Value){ .kind = V_MACRO, .macro = m };
}

/* Removes the keyword argument of that name from the rest. */
static Value take_named(JinjaRun *r, const Dict *named, Dict *rest, const String *name)
{
    Value *v = named ? dict_name(named, name->s, name->n) : NULL;
    Dict   kept = { 0 };
    for (size_t i = 0; v && i < rest->n; i++)
        if (!string_same(rest->key[i].s, name))
            dict_put_new(r, &kept, rest->key[i], rest->value[i]);
    if (v)
        *rest = kept;
    return v ? *v : (Value){ 0 };
}

static String *literal(JinjaRun *r, const char *s) { return v_text(r, s).s; }

/* The remaining arguments: caller, kwargs, varargs, in the order of jinja2's Macro. */
static void special_args(JinjaRun *r, const Macro *m, const Args *args, Dict *rest, size_t at,
                         bool explicit_caller, Env *env)
{
    const Node *n = m->node;
    if (n->wants_caller && !explicit_caller) {
        Value caller = take_named(r, args->named, rest, literal(r, "caller"));
        if (caller.kind == V_MISSING || caller.kind == V_NONE)
            caller = v_undefined(r, "is not defined: no call block", "caller", 6);
        env_define(r, env, literal(r, "caller"), caller);
    }
    if (n->wants_kwargs)
        env_define(r, env, literal(r, "kwargs"), (Value){ .kind = V_DICT, .dict = rest });
    else if (rest->n)
        jinja_fail(r, "the macro takes no keyword argument '%.*s'",
                   (int)(rest->key[0].s->n < 80 ? rest->key[0].s->n : 80), rest->key[0].s->s);
    size_t more = args->n > at ? args->n - at : 0;
    List  *l = list_new(r, more);
    for (size_t i = 0; i < more; i++)
        l->item[i] = args->v[at + i];
    if (n->wants_varargs)
        env_define(r, env, literal(r, "varargs"), v_tuple(l));
    else if (more)
        jinja_fail(r, "the macro takes not more than %zu arguments, found %zu", at, args->n);
}

Value call_macro(JinjaRun *r, const Macro *m, const Args *args)
{
    Env  *env = env_new(r, NULL, m->env, m->node->hidden);
    Dict *rest = dict_new(r);
    if (args->named)
        *rest = *args->named;
    rest->cap = rest->n; /* it is copied before it grows */
    size_t n = 0, n_params = 0;
    bool   explicit_caller = false;
    for (const Node *p = m->node->b; p; p = p->next)
        n_params++;
    for (const Node *p = m->node->b; p; p = p->next, n++) {
        Value v = n < args->n ? args->v[n] : take_named(r, args->named, rest, p->name);
        explicit_caller |= string_is(p->name, "caller");
        if (v.kind == V_MISSING)
            v = p->a ? eval(r, p->a, env)
                     : v_undefined(r, "is a parameter that was not provided", p->name->s,
                                   p->name->n);
        env_define(r, env, p->name, v);
    }
    special_args(r, m, args, rest, n_params, explicit_caller, env);
    StringBuffer *outer = output_begin(r);
    exec(r, m->node->c, env);
    return v_string(output_end(r, outer));
}

/* ---- Expressions ----------------------------------------------------------------------------- */

static void spread(JinjaRun *r, Args *a, Value v)
{
    if (v.kind != V_DICT)
        jinja_fail(r, "expected a dict after **, found %s", type_name(v));
    for (size_t i = 0; i < v.dict->n; i++) {
        need_string(r, "a keyword", v.dict->key[i]);
        if (dict_find(r, a->named, v.dict->key[i]))
            jinja_fail(r, "a keyword argument was given twice");
        dict_put_new(r, a->named, v.dict->key[i], v.dict->value[i]);
    }
}

static Args eval_args(JinjaRun *r, const Node *n, Env *env)
{
    Args  a = { .named = dict_new(r) };
    List *l = list_new(r, 0);
    for (; n; n = n->next) {
        Value v = eval(r, n->a, env);
        if (n->type == N_OPERAND) {
            list_add(r, l, v);
        } else if (n->type == N_STAR) {
            const List *more = to_list(r, v);
            for (size_t i = 0; i < more->n; i++)
                list_add(r, l, more->item[i]);
        } else if (n->type == N_STAR_STAR) {
            spread(r, &a, v);
        } else {
            if (dict_name(a.named, n->name->s, n->name->n))
                jinja_fail(r, "a keyword argument was given twice");
            dict_put_new(r, a.named, v_string(n->name), v);
        }
    }
    a.v = l->item;
    a.n = l->n;
    return a;
}

static Value eval_dict(JinjaRun *r, const Node *n, Env *env)
{
    Dict *d = dict_new(r);
    for (const Node *i = n->a; i; i = i->next) {
        Value key = eval(r, i->a, env);
        dict_put(r, d, key, eval(r, i->b, env));
    }
    return (Value){ .kind = V_DICT, .dict = d };
}

static Value eval_items(JinjaRun *r, const Node *n, Env *env)
{
    List *l = list_new(r, 0);
    for (const Node *i = n->a; i; i = i->next)
        list_add(r, l, eval(r, i, env));
    return n->type == N_LIST ? v_list(l) : v_tuple(l);
}

static bool holds(JinjaRun *r, int op, Value a, Value b)
{
    if (op == T_EQ || op == T_NE)
        return equal(r, a, b) == (op == T_EQ);
    if (op == T_IN || op == T_NOT_IN)
        return contains(r, b, a) == (op == T_IN);
    int c = compare(r, a, b);
    return c != 2 && (op == T_LT ? c < 0 : op == T_LE ? c <= 0 : op == T_GT ? c > 0 : c >= 0);
}

static Value eval_compare(JinjaRun *r, const Node *n, Env *env)
{
    Value a = eval(r, n->a, env);
    for (const Node *i = n->b; i; i = i->next) {
        Value b = eval(r, i->a, env);
        r->at = i->at;
        if (!holds(r, i->op, a, b))
            return v_bool(false);
        a = b;
    }
    return v_bool(true);
}

static Value eval_concat(JinjaRun *r, const Node *n, Env *env)
{
    String *s = literal(r, "");
    for (const Node *i = n->a; i; i = i->next)
        s = string_join2(r, s, to_string(r, eval(r, i->a, env)));
    return v_string(s);
}

static Value eval_slice(JinjaRun *r, const Node *n, Value of, Env *env)
{
    Value start = n->a ? eval(r, n->a, env) : v_none();
    Value stop = n->b ? eval(r, n->b, env) : v_none();
    return get_slice(r, of, start, stop, n->c ? eval(r, n->c, env) : v_none());
}

static Value eval_call(JinjaRun *r, const Node *n, Env *env, const Value *caller)
{
    Value f = eval(r, n->a, env);
    Args  a = eval_args(r, n->b, env);
    if (caller)
        dict_put(r, a.named, v_text(r, "caller"), *caller);
    r->at = n->at;
    return call(r, f, &a);
}

static Value eval_two(JinjaRun *r, const Node *n, Env *env)
{
    Value a = eval(r, n->a, env);
    Args  args;
    r->at = n->at;
    switch (n->type) {
    case N_OR: return truth(r, a) ? a : eval(r, n->b, env);
    case N_AND: return truth(r, a) ? eval(r, n->b, env) : a;
    case N_NOT: return v_bool(!truth(r, a));
    case N_NEGATE: return negate(r, a);
    case N_PLUS: return negate(r, negate(r, a));
    case N_ATTRIBUTE: return get_attribute(r, a, n->name);
    case N_CONDITION:
        if (truth(r, a))
            return eval(r, n->b, env);
        return n->c ? eval(r, n->c, env)
                    : v_undefined(r, "has no value: its condition is false and it has no else",
                                  "the inline if", 13);
    case N_ITEM:
        if (n->b->type == N_SLICE)
            return eval_slice(r, n->b, a, env);
        return get_item(r, a, eval(r, n->b, env));
    case N_BINARY: {
        Value b = eval(r, n->b, env);
        r->at = n->at;
        return binary(r, n->op, a, b);
    }
    case N_FILTER:
        args = eval_args(r, n->b, env);
        r->at = n->at;
        return apply_filter(r, n->name, a, &args);
    default:
        args = eval_args(r, n->b, env);
        r->at = n->at;
        return v_bool(apply_test(r, n->name, a, &args));
    }
}

static Value eval(JinjaRun *r, const Node *n, Env *env)
{
    Value v;
    r->at = n->at;
    jinja_enter(r);
    switch (n->type) {
    case N_CONST: v = n->value; break;
    case N_NAME: v = env_get(r, env, n->name); break;
    case N_BUFFER: v = r->filtered; break;
    case N_LIST: case N_TUPLE: v = eval_items(r, n, env); break;
    case N_DICT: v = eval_dict(r, n, env); break;
    case N_CALL: v = eval_call(r, n, env, NULL); break;
    case N_COMPARE: v = eval_compare(r, n, env); break;
    case N_CONCAT: v = eval_concat(r, n, env); break;
    case N_SLICE: jinja_fail(r, "a slice among several indices is not supported");
    default: v = eval_two(r, n, env);
    }
    r->depth--;
    return v;
}

/* ---- Statements ------------------------------------------------------------------------------ */

/* c is the list of the else, or the next condition of an elif, which is alone in its list. */
static Flow run_if(JinjaRun *r, const Node *n, Env *env)
{
    for (;;) {
        if (truth(r, eval(r, n->a, env)))
            return exec(r, n->b, env);
        const Node *other = n->c;
        if (!other || other->type != N_IF || other->next)
            return exec(r, other, env);
        n = other;
    }
}

/* A block whose text passes through filters, to a target or to the output. */
static Flow run_filtered(JinjaRun *r, const Node *n, Env *env)
{
    Env          *here = env_new(r, NULL, env, n->hidden);
    StringBuffer *outer = output_begin(r);
    Flow          flow = exec(r, n->c, here);
    String       *text = output_end(r, outer);
    if (flow != GO_ON)
        return flow;
    r->filtered = v_string(text);
    Value v = eval(r, n->b, here);
    if (n->type == N_SET_BLOCK)
        env_assign(r, env, n->a, v);
    else
        buffer_string(r, r->out, to_string(r, v));
    return GO_ON;
}

static Flow run_with(JinjaRun *r, const Node *n, Env *env)
{
    Env *here = env_new(r, NULL, env, n->hidden);
    for (const Node *i = n->a; i; i = i->next)
        env_assign(r, here, i->a, eval(r, i->b, env));
    return exec(r, n->c, here);
}

static void print(JinjaRun *r, const Node *n, Env *env)
{
    for (const Node *i = n->a; i; i = i->next) {
        Value v = eval(r, i->a, env);
        r->at = i->at;
        buffer_string(r, r->out, to_string(r, v));
    }
}

static Flow run_statement(JinjaRun *r, const Node *n, Env *env)
{
    Value v;
    r->at = n->at;
    switch (n->type) {
    case N_DATA: buffer_string(r, r->out, n->value.s); break;
    case N_PRINT: print(r, n, env); break;
    case N_IF: return run_if(r, n, env);
    case N_FOR: return run_loop(r, n, env, eval(r, n->b, env), 0);
    case N_SET: env_assign(r, env, n->a, eval(r, n->b, env)); break;
    case N_SET_BLOCK: case N_FILTER_BLOCK: return run_filtered(r, n, env);
    case N_MACRO: env_define(r, env, n->name, new_macro(r, n, env)); break;
    case N_CALL_BLOCK:
        v = new_macro(r, n, env);
        v = eval_call(r, n->a, env, &v);
        buffer_string(r, r->out, to_string(r, v));
        break;
    case N_GENERATION: /* to transformers, a call block whose caller is called once */
        v = call_macro(r, &(Macro){ .node = n, .env = env }, &(Args){ 0 });
        buffer_string(r, r->out, v.s);
        break;
    case N_WITH: return run_with(r, n, env);
    case N_BREAK: return BREAK;
    default: return CONTINUE;
    }
    return GO_ON;
}

static Flow exec(JinjaRun *r, const Node *n, Env *env)
{
    Flow flow = GO_ON;
    jinja_enter(r);
    for (; n && flow == GO_ON; n = n->next)
        flow = run_statement(r, n, env);
    r->depth--;
    return flow;
}

void jinja_exec(JinjaRun *r, const Node *body, Env *env) { exec(r, body, env); }
