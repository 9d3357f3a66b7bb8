/* chat/jinja_statement.c: parses the text and the tags of a template, one function for each tag of
 * jinja2/parser.py. What the children of a node mean is said where it is made. */
#include "chat/jinja_parser.h"

#include <stdio.h>

static Node *statements(JinjaParser *p, const char *const *ends);

static void expect_name(JinjaParser *p, const char *name)
{
    if (!skip_name(p, name)) {
        char what[64];
        snprintf(what, sizeof what, "'%s'", name);
        parse_expected(p, what);
    }
}

static Node *target(JinjaParser *p, bool namespaces, const char *end);

static Node *one_target(JinjaParser *p, bool namespaces)
{
    size_t at = p->t->at;
    Node  *n;
    parse_deeper(p);
    if (skip(p, T_LPAREN)) {
        n = target(p, namespaces, NULL);
        parse_expect(p, T_RPAREN);
    } else {
        if (!is(p, T_NAME))
            parse_expected(p, "a name to assign to");
        bool caller = p->caller, kwargs = p->kwargs, varargs = p->varargs;
        n = parse_name(p, namespaces);
        p->caller = caller, p->kwargs = kwargs, p->varargs = varargs;
    }
    p->depth--;
    if (n->type == N_CONST) {
        p->r->at = at;
        jinja_fail(p->r, "cannot assign to a constant");
    }
    return n;
}

/* A name, a namespace's attribute, or a tuple of them. */
static Node *target(JinjaParser *p, bool namespaces, const char *end)
{
    Node *n = parse_node(p, N_TUPLE), **last = &n->a;
    bool  many = false;
    do {
        if (n->a && (is(p, T_ASSIGN) || parse_tuple_ends(p, end)))
            break;
        last = append(last, one_target(p, namespaces));
        many |= is(p, T_COMMA);
    } while (skip(p, T_COMMA));
    return many ? n : n->a;
}

static Node *body(JinjaParser *p, const char *const *ends)
{
    skip(p, T_COLON);
    parse_expect(p, T_BLOCK_END);
    return statements(p, ends);
}

static Node *body_to(JinjaParser *p, const char *end)
{
    const char *const ends[] = { end, NULL };
    Node *n = body(p, ends);
    next(p);
    return n;
}

/* a: the condition; b: the body; c: the else or elif */
static Node *if_(JinjaParser *p)
{
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    Node *first = NULL, **end = &first;
    do {
        Node *n = parse_node(p, N_IF);
        next(p);
        n->a = parse_tuple(p, false, false, NULL);
        n->b = body(p, ends);
        *end = n;
        end = &n->c;
    } while (is_name(p->t, "elif"));
    if (skip_name(p, "else"))
        *end = body_to(p, "endif");
    else
        next(p);
    return first;
}

/* a: the target; b: what is iterated; c: the body; d: an operand of a condition and b else */
static Node *for_(JinjaParser *p)
{
    static const char *const ends[] = { "endfor", "else", NULL };
    Node *n = parse_node(p, N_FOR);
    next(p);
    n->a = target(p, false, "in");
    if (n->a->type == N_NAME && string_is(n->a->name, "loop"))
        parse_expected(p, "another name than 'loop' for the items of a loop");
    expect_name(p, "in");
    n->b = parse_tuple(p, false, false, "recursive");
    n->d = parse_node(p, N_OPERAND);
    if (skip_name(p, "if"))
        n->d->a = parse_expression(p);
    n->recursive = skip_name(p, "recursive");
    p->loops++;
    n->c = body(p, ends);
    p->loops--;
    if (is_name(next(p), "else"))
        n->d->b = body_to(p, "endfor");
    return n;
}

/* a: the target; b: the value, or for a block the filters over N_BUFFER; c: the block */
static Node *set(JinjaParser *p)
{
    Node *n = parse_node(p, N_SET);
    next(p);
    n->a = target(p, true, NULL);
    if (skip(p, T_ASSIGN)) {
        n->b = parse_tuple(p, true, false, NULL);
        return n;
    }
    n->type = N_SET_BLOCK;
    n->b = parse_node(p, N_BUFFER);
    while (skip(p, T_PIPE))
        n->b = parse_filter(p, n->b);
    n->c = body_to(p, "endset");
    return n;
}

/* b: the parameters: N_KEYWORD with a name and the default a, or NULL */
static void signature(JinjaParser *p, Node *n)
{
    Node **end = &n->b, *last = NULL;
    parse_expect(p, T_LPAREN);
    while (!is(p, T_RPAREN)) {
        if (last)
            parse_expect(p, T_COMMA);
        Node *one = parse_node(p, N_KEYWORD);
        one->name = parse_expect(p, T_NAME)->text;
        if (skip(p, T_ASSIGN))
            one->a = parse_expression(p);
        else if (last && last->a)
            parse_expected(p, "a default, because the parameter before has one");
        end = append(end, one);
        last = one;
    }
    next(p);
}

/* c: the body of a macro, which cannot reach the loops around it. */
static void macro_body(JinjaParser *p, Node *n, const char *end)
{
    JinjaParser outer = *p;
    p->caller = p->kwargs = p->varargs = false;
    p->loops = 0;
    n->c = body_to(p, end);
    n->wants_caller = p->caller, n->wants_kwargs = p->kwargs, n->wants_varargs = p->varargs;
    for (const Node *i = n->b; i; i = i->next) {
        n->wants_kwargs &= !string_is(i->name, "kwargs");
        n->wants_varargs &= !string_is(i->name, "varargs");
        if (string_is(i->name, "caller") && p->caller && !i->a) {
            p->r->at = i->at;
            jinja_fail(p->r, "the parameter 'caller' needs a default");
        }
    }
    p->loops = outer.loops;
    p->caller |= outer.caller, p->kwargs |= outer.kwargs, p->varargs |= outer.varargs;
}

static Node *macro(JinjaParser *p)
{
    Node *n = parse_node(p, N_MACRO);
    next(p);
    n->name = parse_expect(p, T_NAME)->text;
    signature(p, n);
    macro_body(p, n, "endmacro");
    return n;
}

/* a: the call */
static Node *call_block(JinjaParser *p)
{
    Node *n = parse_node(p, N_CALL_BLOCK);
    next(p);
    if (is(p, T_LPAREN))
        signature(p, n);
    n->a = parse_expression(p);
    if (n->a->type != N_CALL)
        parse_expected(p, "a call before this");
    macro_body(p, n, "endcall");
    return n;
}

/* b: the filters over N_BUFFER; c: the block */
static Node *filter_block(JinjaParser *p)
{
    Node *n = parse_node(p, N_FILTER_BLOCK);
    next(p);
    n->b = parse_filter(p, parse_node(p, N_BUFFER));
    while (skip(p, T_PIPE))
        n->b = parse_filter(p, n->b);
    n->c = body_to(p, "endfilter");
    return n;
}

/* a: operands, each of a target a and a value b; c: the block */
static Node *with(JinjaParser *p)
{
    Node *n = parse_node(p, N_WITH), **end = &n->a;
    next(p);
    while (!is(p, T_BLOCK_END)) {
        if (n->a)
            parse_expect(p, T_COMMA);
        Node *one = parse_node(p, N_OPERAND);
        one->a = target(p, false, NULL);
        parse_expect(p, T_ASSIGN);
        one->b = parse_expression(p);
        end = append(end, one);
    }
    n->c = body_to(p, "endwith");
    return n;
}

/* a: operands, each with its value a */
static Node *print(JinjaParser *p)
{
    Node *n = parse_node(p, N_PRINT), **end = &n->a;
    next(p);
    while (!is(p, T_BLOCK_END)) {
        if (n->a)
            parse_expect(p, T_COMMA);
        Node *one = parse_node(p, N_OPERAND);
        one->a = parse_expression(p);
        end = append(end, one);
    }
    return n;
}

static Node *leave_loop(JinjaParser *p)
{
    Node *n = parse_node(p, is_name(p->t, "break") ? N_BREAK : N_CONTINUE);
    if (!p->loops)
        parse_expected(p, "a tag that may stand outside of a loop");
    next(p);
    return n;
}

/* transformers treats {% generation %} as a call block: a scope of its own. */
static Node *generation(JinjaParser *p)
{
    Node *n = parse_node(p, N_GENERATION);
    next(p);
    macro_body(p, n, "endgeneration");
    return n;
}

static Node *statement(JinjaParser *p)
{
    static const struct { const char *name; Node *(*read)(JinjaParser *); } tags[] = {
        { "if", if_ }, { "for", for_ }, { "set", set }, { "macro", macro },
        { "call", call_block }, { "filter", filter_block }, { "with", with }, { "print", print },
        { "break", leave_loop }, { "continue", leave_loop }, { "generation", generation },
    };
    static const char *const refused[] = { "block", "extends", "include", "import", "from",
                                           "autoescape" };
    char found[64];
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (is_name(p->t, tags[i].name))
            return tags[i].read(p);
    token_text(p->t, found);
    p->r->at = p->t->at;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (is_name(p->t, refused[i]))
            jinja_fail(p->r, "the tag %s is not supported in chat templates", found);
    jinja_fail(p->r, "expected a tag, found %s", found);
}

static bool at_end(const JinjaParser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (is_name(p->t, *ends))
            return true;
    return false;
}

/* Parses text and tags up to one of the names, which is not consumed; without names, to the end. */
static Node *statements(JinjaParser *p, const char *const *ends)
{
    Node *first = NULL, **end = &first;
    parse_deeper(p);
    for (;;) {
        Node *n;
        if (is(p, T_END)) {
            if (ends) {
                char what[64];
                snprintf(what, sizeof what, "'%s'", ends[0]);
                parse_expected(p, what);
            }
            break;
        }
        if (is(p, T_DATA)) {
            n = parse_node(p, N_DATA);
            n->value = v_string(next(p)->text);
        } else if (is(p, T_VARIABLE_BEGIN)) {
            n = parse_node(p, N_PRINT);
            next(p);
            n->a = parse_node(p, N_OPERAND);
            n->a->a = parse_tuple(p, true, false, NULL);
            parse_expect(p, T_VARIABLE_END);
        } else {
            parse_expect(p, T_BLOCK_BEGIN);
            if (at_end(p, ends))
                break;
            n = statement(p);
            parse_expect(p, T_BLOCK_END);
        }
        end = append(end, n);
    }
    p->depth--;
    return first;
}

Node *jinja_tree(JinjaRun *r)
{
    JinjaParser p = { .r = r, .t = jinja_tokens(r) };
    return statements(&p, NULL);
}
