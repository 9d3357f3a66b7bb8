/* chat/jinja_scope.c: scopes, which are Jinja2's: a loop's body, a macro, `with`, a block of `set`,
 * `filter` or `call` has its own. First the names that a scope hides, then its values.
 *
 * Jinja2 compiles each scope to a function, and a name that the scope assigns has no value there
 * before the assignment, not even the one that the caller gave. But if the scope reads the name
 * first, if it assigns the name only under an `if`, or if a scope around it uses the name, then the
 * value from outside holds until the assignment. The rules are those of jinja2/idtracking.py; each
 * scope's body is walked in the order of its text. */
#include "chat/jinja_parts.h"

typedef struct Name { String *name; bool hidden; struct Name *next; } Name;
typedef struct Scope { JinjaRun *r; const struct Scope *parent; Name *names; } Scope;

static void walk_list(Scope *s, const Node *n, bool branch);

static bool known(const Scope *s, const String *name)
{
    for (; s; s = s->parent)
        for (const Name *i = s->names; i; i = i->next) {
            jinja_work(s->r, 1);
            if (string_same(i->name, name))
                return true;
        }
    return false;
}

static void meet(Scope *s, String *name, bool hidden)
{
    if (known(s, name))
        return;
    Name *n = jinja_alloc(s->r, sizeof *n);
    *n = (Name){ name, hidden, s->names };
    s->names = n;
}

static void walk_target(Scope *s, const Node *n, bool hidden)
{
    if (n->type == N_TUPLE)
        for (const Node *i = n->a; i; i = i->next)
            walk_target(s, i, hidden);
    else
        meet(s, n->name, hidden && n->type == N_NAME);
}

/* What a node means to the scope that contains it; the bodies of other scopes mean nothing. */
static void walk(Scope *s, const Node *n, bool branch)
{
    switch (n->type) {
    case N_NAME: meet(s, n->name, false); break;
    case N_CONST: case N_DATA: case N_BUFFER: case N_GENERATION: break;
    case N_SET:
        walk(s, n->b, branch);
        walk_target(s, n->a, !branch);
        break;
    case N_SET_BLOCK: walk_target(s, n->a, !branch); break;
    case N_FOR: case N_FILTER_BLOCK: walk(s, n->b, branch); break;
    case N_MACRO: meet(s, n->name, !branch); break;
    case N_CALL_BLOCK: walk(s, n->a, branch); break;
    case N_WITH:
        for (const Node *i = n->a; i; i = i->next)
            walk(s, i->b, branch);
        break;
    case N_IF:
        walk(s, n->a, branch);
        walk_list(s, n->b, true);
        walk_list(s, n->c, true);
        break;
    default:
        walk_list(s, n->a, branch);
        walk_list(s, n->b, branch);
        walk_list(s, n->c, branch);
    }
}

static void walk_list(Scope *s, const Node *n, bool branch)
{
    for (; n; n = n->next)
        walk(s, n, branch);
}

static void inner_scopes(Scope *s, Node *n);

/* The scope of a body. owner: the node with its parameters; NULL: the template. */
static Var *scope(JinjaRun *r, const Scope *parent, const Node *owner, Node *body)
{
    Scope s = { .r = r, .parent = parent };
    Var  *hidden = NULL;
    if (owner && owner->type == N_FOR)
        walk_target(&s, owner->a, false);
    for (const Node *i = owner && owner->type == N_WITH ? owner->a : NULL; i; i = i->next)
        walk_target(&s, i->a, false);
    bool macro = owner && (owner->type == N_MACRO || owner->type == N_CALL_BLOCK);
    for (const Node *i = macro ? owner->b : NULL; i; i = i->next)
        meet(&s, i->name, false);
    for (const Node *i = macro ? owner->b : NULL; i; i = i->next)
        if (i->a)
            walk(&s, i->a, false);
    walk_list(&s, body, false);
    for (const Name *i = s.names; i; i = i->next)
        if (i->hidden) {
            Var *v = jinja_alloc(r, sizeof *v);
            *v = (Var){ i->name, v_undefined(r, "is undefined", i->name->s, i->name->n), hidden };
            v->value.s->buffer = NULL;
            hidden = v;
        }
    inner_scopes(&s, body);
    return hidden;
}

static void inner_scopes(Scope *s, Node *n)
{
    for (; n; n = n->next) {
        if (n->type == N_IF) {
            inner_scopes(s, n->b);
            inner_scopes(s, n->c);
        } else if (n->type == N_FOR) {
            n->hidden = scope(s->r, s, n, n->c);
            n->d->hidden = scope(s->r, s, NULL, n->d->b);
        } else if (n->type == N_SET_BLOCK || n->type == N_FILTER_BLOCK || n->type == N_WITH
                   || n->type == N_MACRO || n->type == N_CALL_BLOCK || n->type == N_GENERATION) {
            n->hidden = scope(s->r, s, n, n->c);
        }
    }
}

Var *jinja_hidden(JinjaRun *r, Node *body) { return scope(r, NULL, NULL, body); }

/* ---- A scope while it runs ------------------------------------------------------------------- */

static Value *find_here(JinjaRun *r, const Env *env, const String *name)
{
    for (Var *v = env->vars; v; v = v->next) {
        jinja_work(r, 1);
        if (string_same(v->name, name))
            return &v->value;
    }
    return NULL;
}

Value env_get(JinjaRun *r, const Env *env, const String *name)
{
    for (; env; env = env->parent) {
        Value *v = find_here(r, env, name);
        if (v)
            return *v;
    }
    int global = global_find(name);
    if (global >= 0 && (r->date || !string_is(name, "strftime_now")))
        return (Value){ .kind = V_GLOBAL, .global = global };
    return v_undefined(r, "is undefined", name->s, name->n);
}

void env_define(JinjaRun *r, Env *env, String *name, Value value)
{
    Value *old = find_here(r, env, name);
    if (old) {
        *old = value;
        return;
    }
    Var *v = r->free_vars;
    if (v)
        r->free_vars = v->next;
    else
        v = jinja_alloc(r, sizeof *v);
    *v = (Var){ name, value, env->vars };
    env->vars = v;
}

Env *env_new(JinjaRun *r, Env *env, Env *parent, const Var *hidden)
{
    if (!env || env->captured) {
        env = jinja_alloc(r, sizeof *env);
    } else {
        for (Var *v = env->vars, *next; v; v = next) {
            next = v->next;
            v->next = r->free_vars;
            r->free_vars = v;
        }
    }
    *env = (Env){ .parent = parent };
    for (; hidden; hidden = hidden->next)
        env_define(r, env, hidden->name, hidden->value);
    return env;
}

void env_assign(JinjaRun *r, Env *env, const Node *to, Value v)
{
    if (to->type == N_NAME) {
        env_define(r, env, to->name, v);
    } else if (to->type == N_NAMESPACE_TARGET) {
        Value space = env_get(r, env, to->name);
        if (space.kind != V_NAMESPACE)
            jinja_fail(r, "cannot assign an attribute of '%.*s', which is no namespace",
                       (int)to->name->n, to->name->s);
        namespace_put(r, space.dict, to->value, v);
    } else {
        if (is_undefined(v) || length_of(r, v) == SIZE_MAX)
            v = v_list(to_list(r, v));
        List       *l = to_list(r, v);
        size_t      n = 0;
        const Node *t = to->a;
        for (; t && n < l->n; t = t->next)
            env_assign(r, env, t, l->item[n++]);
        if (t || n < l->n)
            jinja_fail(r, "expected as many values as names to assign to, found %zu", l->n);
    }
}
