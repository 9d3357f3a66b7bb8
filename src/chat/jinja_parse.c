/* chat/jinja_parse.c: parses tokens to a tree, one function for each rule of jinja2/parser.py, with
 * its order of precedence. What the children of a node mean is said where it is made. */
#include "chat/jinja_parts.h"

#include <stdio.h>

typedef struct Parser {
    JinjaRun *r;
    Token    *t;           /* the current one; the last is T_END */
    int       depth;
    int       loops;       /* for loops around, inside the innermost macro */
    bool      caller, kwargs, varargs; /* names that the macro's body reads */
} Parser;

static Node *expression(Parser *p);
static Node *or_(Parser *p);
static Node *unary(Parser *p, bool with_filters);
static Node *primary(Parser *p, bool namespaces);
static Node *tuple(Parser *p, bool conditions, bool parentheses, const char *end);
static Node *statements(Parser *p, const char *const *ends);

/* ---- Tokens ---------------------------------------------------------------------------------- */

static void describe(const Token *t, char out[64])
{
    static const char *const names[] = {
        [T_END] = "the end of the template", [T_DATA] = "text", [T_VARIABLE_BEGIN] = "'{{'",
        [T_VARIABLE_END] = "'}}'", [T_BLOCK_BEGIN] = "'{%'", [T_BLOCK_END] = "'%}'",
        [T_NAME] = "a name", [T_STRING] = "a string", [T_INT] = "an integer",
        [T_FLOAT] = "a number", [T_ADD] = "'+'", [T_ASSIGN] = "'='", [T_COLON] = "':'",
        [T_COMMA] = "','", [T_DIV] = "'/'", [T_DOT] = "'.'", [T_EQ] = "'=='",
        [T_FLOORDIV] = "'//'", [T_GT] = "'>'", [T_GE] = "'>='", [T_LBRACE] = "'{'",
        [T_LBRACKET] = "'['", [T_LPAREN] = "'('", [T_LT] = "'<'", [T_LE] = "'<='",
        [T_MOD] = "'%'", [T_MUL] = "'*'", [T_NE] = "'!='", [T_PIPE] = "'|'", [T_POW] = "'**'",
        [T_RBRACE] = "'}'", [T_RBRACKET] = "']'", [T_RPAREN] = "')'", [T_SEMICOLON] = "';'",
        [T_SUB] = "'-'", [T_TILDE] = "'~'", [T_IN] = "'in'", [T_NOT_IN] = "'not in'",
    };
    if (t->type == T_NAME)
        snprintf(out, 64, "'%.*s'", t->text->n < 40 ? (int)t->text->n : 40, t->text->s);
    else
        snprintf(out, 64, "%s", names[t->type]);
}

#if defined(__GNUC__)
__attribute__((noreturn))
#endif
static void expected(Parser *p, const char *what)
{
    char found[64];
    describe(p->t, found);
    p->r->at = p->t->at;
    jinja_fail(p->r, "expected %s, found %s", what, found);
}

static bool is(const Parser *p, TokenType type) { return p->t->type == type; }

static bool is_name(const Token *t, const char *name)
{
    return t->type == T_NAME && string_is(t->text, name);
}

static Token *next(Parser *p) { return p->t->type == T_END ? p->t : p->t++; }

static bool skip(Parser *p, TokenType type) { return is(p, type) && next(p); }
static bool skip_name(Parser *p, const char *name) { return is_name(p->t, name) && next(p); }

static Token *expect(Parser *p, TokenType type)
{
    if (!is(p, type)) {
        char what[64];
        describe(&(Token){ .type = type == T_NAME ? T_STRING : type }, what);
        expected(p, type == T_NAME ? "a name" : what);
    }
    return next(p);
}

static void expect_name(Parser *p, const char *name)
{
    if (!skip_name(p, name)) {
        char what[64];
        snprintf(what, sizeof what, "'%s'", name);
        expected(p, what);
    }
}

static void deeper(Parser *p)
{
    p->r->at = p->t->at;
    if (++p->depth > JINJA_NESTED)
        jinja_fail(p->r, "nested deeper than %d levels", JINJA_NESTED);
}

static Node *node(Parser *p, NodeType type)
{
    Node *n = jinja_alloc(p->r, sizeof *n);
    n->type = type;
    n->at = p->t->at;
    return n;
}

static Node *node2(Parser *p, NodeType type, size_t at, Node *a, Node *b)
{
    Node *n = node(p, type);
    n->at = at, n->a = a, n->b = b;
    return n;
}

/* Appends a node to a list; *end is where the next one goes. */
static Node **append(Node **end, Node *n)
{
    *end = n;
    return &n->next;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static Node *constant(Parser *p, Value v)
{
    Node *n = node(p, N_CONST);
    n->value = v;
    return n;
}

static Node *list(Parser *p)
{
    Node *n = node(p, N_LIST), **end = &n->a; /* a: the items */
    next(p);
    while (!is(p, T_RBRACKET)) {
        if (n->a)
            expect(p, T_COMMA);
        if (is(p, T_RBRACKET))
            break;
        end = append(end, expression(p));
    }
    next(p);
    return n;
}

static Node *dict(Parser *p)
{
    Node *n = node(p, N_DICT), **end = &n->a; /* a: operands, each of a key a and a value b */
    next(p);
    while (!is(p, T_RBRACE)) {
        if (n->a)
            expect(p, T_COMMA);
        if (is(p, T_RBRACE))
            break;
        Node *pair = node(p, N_OPERAND);
        pair->a = expression(p);
        expect(p, T_COLON);
        pair->b = expression(p);
        end = append(end, pair);
    }
    next(p);
    return n;
}

static Node *named(Parser *p, bool namespaces)
{
    const Token *t = p->t;
    Node        *n = node(p, N_NAME);
    n->name = t->text;
    next(p);
    if (is_name(t, "true") || is_name(t, "True") || is_name(t, "false") || is_name(t, "False")) {
        n->type = N_CONST;
        n->value = v_bool((t->text->s[0] | 32) == 't');
    } else if (is_name(t, "none") || is_name(t, "None")) {
        n->type = N_CONST;
        n->value = v_none();
    } else if (namespaces && skip(p, T_DOT)) {
        n->type = N_NAMESPACE_TARGET; /* name: the namespace; value: the attribute */
        n->value = v_string(expect(p, T_NAME)->text);
    } else {
        p->caller |= is_name(t, "caller");
        p->kwargs |= is_name(t, "kwargs");
        p->varargs |= is_name(t, "varargs");
    }
    return n;
}

/* A string of the tree, without a buffer to which a run could append. */
static String *joined(Parser *p, String *a, const String *b)
{
    String *s = string_join2(p->r, a, b);
    s->buffer = NULL;
    string_chars(p->r, s);
    return s;
}

static Node *primary(Parser *p, bool namespaces)
{
    Node *n = NULL;
    deeper(p);
    if (is(p, T_NAME)) {
        n = named(p, namespaces);
    } else if (is(p, T_STRING)) {
        n = constant(p, v_string(next(p)->text));
        while (is(p, T_STRING))
            n->value = v_string(joined(p, n->value.s, next(p)->text));
    } else if (is(p, T_INT) || is(p, T_FLOAT)) {
        n = constant(p, p->t->number);
        next(p);
    } else if (skip(p, T_LPAREN)) {
        n = tuple(p, true, true, NULL);
        expect(p, T_RPAREN);
    } else if (is(p, T_LBRACKET)) {
        n = list(p);
    } else if (is(p, T_LBRACE)) {
        n = dict(p);
    } else {
        expected(p, "an expression");
    }
    p->depth--;
    return n;
}

static bool tuple_ends(const Parser *p, const char *end)
{
    return is(p, T_VARIABLE_END) || is(p, T_BLOCK_END) || is(p, T_RPAREN)
        || (end && is_name(p->t, end));
}

/* One expression, or a tuple of several. conditions: parse "a if b". end: a name that ends it. */
static Node *tuple(Parser *p, bool conditions, bool parentheses, const char *end)
{
    Node  *n = node(p, N_TUPLE), **last = &n->a; /* a: the items */
    bool   many = false;
    for (;;) {
        if (n->a)
            expect(p, T_COMMA);
        if (tuple_ends(p, end))
            break;
        last = append(last, conditions ? expression(p) : or_(p));
        if (!is(p, T_COMMA))
            break;
        many = true;
    }
    if (!many && n->a)
        return n->a;
    if (!many && !parentheses)
        expected(p, "an expression");
    return n;
}

/* ---- After a value --------------------------------------------------------------------------- */

/* The arguments of a call: values, N_KEYWORD, N_STAR and N_STAR_STAR. */
static Node *arguments(Parser *p)
{
    Node *first = NULL, **end = &first, *n;
    bool  star = false, star_star = false, keyword = false;
    expect(p, T_LPAREN);
    while (!is(p, T_RPAREN)) {
        if (first)
            expect(p, T_COMMA);
        if (is(p, T_RPAREN))
            break;
        bool is_keyword = is(p, T_NAME) && p->t[1].type == T_ASSIGN;
        bool positional = !is_keyword && !is(p, T_MUL) && !is(p, T_POW);
        if (star_star || (star && (positional || is(p, T_MUL))) || (keyword && positional))
            expected(p, "a keyword argument");
        n = node(p, is_keyword ? N_KEYWORD : is(p, T_MUL) ? N_STAR : N_STAR_STAR);
        star |= is(p, T_MUL);
        star_star |= is(p, T_POW);
        keyword |= is_keyword;
        if (is_keyword)
            n->name = next(p)->text; /* a: the value, also of the stars */
        if (!positional) {
            next(p);
            n->a = expression(p);
        } else { /* in its own node, because a value can be in one list only */
            n->type = N_OPERAND;
            n->a = expression(p);
        }
        end = append(end, n);
    }
    next(p);
    return first;
}

/* The content of brackets: an expression or a slice of a start, b stop, c step. */
static Node *subscribed(Parser *p)
{
    Node *n = node(p, N_SLICE);
    if (!is(p, T_COLON)) {
        n->a = expression(p);
        if (!is(p, T_COLON))
            return n->a;
    }
    next(p);
    if (!is(p, T_COLON) && !is(p, T_RBRACKET) && !is(p, T_COMMA))
        n->b = expression(p);
    if (skip(p, T_COLON) && !is(p, T_RBRACKET) && !is(p, T_COMMA))
        n->c = expression(p);
    return n;
}

static Node *subscript(Parser *p, Node *of)
{
    Node *n = node2(p, N_ITEM, p->t->at, of, NULL); /* a[b] */
    if (skip(p, T_DOT)) {
        if (is(p, T_INT)) {
            n->b = constant(p, p->t->number);
        } else if (is(p, T_NAME)) {
            n->type = N_ATTRIBUTE; /* a.name */
            n->name = p->t->text;
        } else {
            expected(p, "a name or a number after '.'");
        }
        next(p);
        return n;
    }
    next(p);
    Node *all = node(p, N_TUPLE), **end = &all->a;
    while (!is(p, T_RBRACKET)) {
        if (all->a)
            expect(p, T_COMMA);
        end = append(end, subscribed(p));
        if (all->a->type == N_SLICE && all->a->next)
            expected(p, "one slice in brackets");
    }
    next(p);
    n->b = all->a && !all->a->next ? all->a : all;
    return n;
}

static Node *call_node(Parser *p, Node *f)
{
    Node *n = node2(p, N_CALL, p->t->at, f, NULL); /* a(b) */
    n->b = arguments(p);
    return n;
}

static Node *postfix(Parser *p, Node *n)
{
    for (;;) {
        if (is(p, T_DOT) || is(p, T_LBRACKET))
            n = subscript(p, n);
        else if (is(p, T_LPAREN))
            n = call_node(p, n);
        else
            return n;
    }
}

static String *dotted(Parser *p)
{
    String *name = expect(p, T_NAME)->text;
    while (skip(p, T_DOT))
        name = joined(p, joined(p, name, string_new(p->r, ".", NULL, 1)), expect(p, T_NAME)->text);
    return name;
}

/* a|name(b), after the bar */
static Node *filter(Parser *p, Node *of)
{
    Node *n = node2(p, N_FILTER, p->t->at, of, NULL);
    n->name = dotted(p);
    if (is(p, T_LPAREN))
        n->b = arguments(p);
    return n;
}

/* a is name(b), after "is" */
static Node *test(Parser *p, Node *of)
{
    size_t at = p->t->at;
    bool   not = skip_name(p, "not");
    Node  *n = node2(p, N_TEST, at, of, NULL);
    n->name = dotted(p);
    bool value = is(p, T_STRING) || is(p, T_INT) || is(p, T_FLOAT) || is(p, T_LBRACKET)
              || is(p, T_LBRACE)
              || (is(p, T_NAME) && !is_name(p->t, "else") && !is_name(p->t, "or")
                  && !is_name(p->t, "and"));
    if (is_name(p->t, "is"))
        expected(p, "no second test (tests cannot be chained)");
    if (is(p, T_LPAREN)) {
        n->b = arguments(p);
    } else if (value) {
        n->b = node(p, N_OPERAND);
        n->b->a = postfix(p, primary(p, false));
    }
    return not ? node2(p, N_NOT, at, n, NULL) : n;
}

static Node *filters(Parser *p, Node *n)
{
    for (;;) {
        if (skip(p, T_PIPE))
            n = filter(p, n);
        else if (skip_name(p, "is"))
            n = test(p, n);
        else if (is(p, T_LPAREN))
            n = call_node(p, n);
        else
            return n;
    }
}

/* ---- Operators ------------------------------------------------------------------------------- */

static Node *unary(Parser *p, bool with_filters)
{
    Node *n;
    deeper(p);
    if (is(p, T_SUB) || is(p, T_ADD)) {
        n = node(p, is(p, T_SUB) ? N_NEGATE : N_PLUS);
        next(p);
        n->a = unary(p, false);
    } else {
        n = primary(p, false);
    }
    p->depth--;
    n = postfix(p, n);
    return with_filters ? filters(p, n) : n;
}

static Node *binary_node(Parser *p, Node *a, Node *(*right)(Parser *))
{
    Node *n = node2(p, N_BINARY, p->t->at, a, NULL); /* a op b */
    n->op = (int)next(p)->type;
    n->b = right(p);
    return n;
}

static Node *power_operand(Parser *p) { return unary(p, true); }

static Node *power(Parser *p)
{
    Node *n = unary(p, true);
    while (is(p, T_POW)) /* left-associative, unlike Python, as Jinja2 has it */
        n = binary_node(p, n, power_operand);
    return n;
}

static Node *product(Parser *p)
{
    Node *n = power(p);
    while (is(p, T_MUL) || is(p, T_DIV) || is(p, T_FLOORDIV) || is(p, T_MOD))
        n = binary_node(p, n, power);
    return n;
}

static Node *concat(Parser *p)
{
    Node *first = product(p);
    if (!is(p, T_TILDE))
        return first;
    Node *n = node(p, N_CONCAT), **end = &n->a; /* a: operands, each with its value a */
    end = append(end, node2(p, N_OPERAND, first->at, first, NULL));
    while (skip(p, T_TILDE)) {
        Node *one = node(p, N_OPERAND);
        one->a = product(p);
        end = append(end, one);
    }
    return n;
}

static Node *sum(Parser *p)
{
    Node *n = concat(p);
    while (is(p, T_ADD) || is(p, T_SUB))
        n = binary_node(p, n, concat);
    return n;
}

static bool comparison(Parser *p, TokenType *op)
{
    *op = p->t->type;
    if (*op == T_EQ || *op == T_NE || *op == T_LT || *op == T_LE || *op == T_GT || *op == T_GE)
        return next(p);
    *op = T_IN;
    if (skip_name(p, "in"))
        return true;
    *op = T_NOT_IN;
    return is_name(p->t, "not") && is_name(p->t + 1, "in") && next(p) && next(p);
}

static Node *compare_(Parser *p)
{
    Node *first = sum(p), *n = node2(p, N_COMPARE, p->t->at, first, NULL), **end = &n->b;
    for (TokenType op; comparison(p, &op);) { /* b: operands, each op a */
        Node *one = node(p, N_OPERAND);
        one->op = (int)op;
        one->a = sum(p);
        end = append(end, one);
    }
    return n->b ? n : first;
}

static Node *not_(Parser *p)
{
    if (!is_name(p->t, "not"))
        return compare_(p);
    deeper(p);
    Node *n = node(p, N_NOT);
    next(p);
    n->a = not_(p);
    p->depth--;
    return n;
}

static Node *and_(Parser *p)
{
    Node *n = not_(p);
    while (is_name(p->t, "and")) {
        size_t at = next(p)->at;
        n = node2(p, N_AND, at, n, not_(p));
    }
    return n;
}

static Node *or_(Parser *p)
{
    Node *n = and_(p);
    while (is_name(p->t, "or")) {
        size_t at = next(p)->at;
        n = node2(p, N_OR, at, n, and_(p));
    }
    return n;
}

/* b if a else c; without else c is NULL */
static Node *expression(Parser *p)
{
    deeper(p);
    Node *n = or_(p);
    while (is_name(p->t, "if")) {
        size_t at = next(p)->at;
        Node  *condition = or_(p);
        n = node2(p, N_CONDITION, at, condition, n);
        if (skip_name(p, "else"))
            n->c = expression(p);
    }
    p->depth--;
    return n;
}

/* ---- Statements ------------------------------------------------------------------------------ */

static Node *target(Parser *p, bool namespaces, const char *end);

static Node *one_target(Parser *p, bool namespaces)
{
    size_t at = p->t->at;
    Node  *n;
    deeper(p);
    if (skip(p, T_LPAREN)) {
        n = target(p, namespaces, NULL);
        expect(p, T_RPAREN);
    } else {
        if (!is(p, T_NAME))
            expected(p, "a name to assign to");
        bool caller = p->caller, kwargs = p->kwargs, varargs = p->varargs;
        n = named(p, namespaces);
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
static Node *target(Parser *p, bool namespaces, const char *end)
{
    Node *n = node(p, N_TUPLE), **last = &n->a;
    bool  many = false;
    do {
        if (n->a && (is(p, T_ASSIGN) || tuple_ends(p, end)))
            break;
        last = append(last, one_target(p, namespaces));
        many |= is(p, T_COMMA);
    } while (skip(p, T_COMMA));
    return many ? n : n->a;
}

static Node *body(Parser *p, const char *const *ends)
{
    skip(p, T_COLON);
    expect(p, T_BLOCK_END);
    return statements(p, ends);
}

static Node *body_to(Parser *p, const char *end)
{
    const char *const ends[] = { end, NULL };
    Node *n = body(p, ends);
    next(p);
    return n;
}

/* a: the condition; b: the body; c: the else or elif */
static Node *if_(Parser *p)
{
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    Node *first = NULL, **end = &first;
    do {
        Node *n = node(p, N_IF);
        next(p);
        n->a = tuple(p, false, false, NULL);
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
static Node *for_(Parser *p)
{
    static const char *const ends[] = { "endfor", "else", NULL };
    Node *n = node(p, N_FOR);
    next(p);
    n->a = target(p, false, "in");
    if (n->a->type == N_NAME && string_is(n->a->name, "loop"))
        expected(p, "another name than 'loop' for the items of a loop");
    expect_name(p, "in");
    n->b = tuple(p, false, false, "recursive");
    n->d = node(p, N_OPERAND);
    if (skip_name(p, "if"))
        n->d->a = expression(p);
    n->recursive = skip_name(p, "recursive");
    p->loops++;
    n->c = body(p, ends);
    p->loops--;
    if (is_name(next(p), "else"))
        n->d->b = body_to(p, "endfor");
    return n;
}

/* a: the target; b: the value, or for a block the filters over N_BUFFER; c: the block */
static Node *set(Parser *p)
{
    Node *n = node(p, N_SET);
    next(p);
    n->a = target(p, true, NULL);
    if (skip(p, T_ASSIGN)) {
        n->b = tuple(p, true, false, NULL);
        return n;
    }
    n->type = N_SET_BLOCK;
    n->b = node(p, N_BUFFER);
    while (skip(p, T_PIPE))
        n->b = filter(p, n->b);
    n->c = body_to(p, "endset");
    return n;
}

/* b: the parameters: N_KEYWORD with a name and the default a, or NULL */
static void signature(Parser *p, Node *n)
{
    Node **end = &n->b, *last = NULL;
    expect(p, T_LPAREN);
    while (!is(p, T_RPAREN)) {
        if (last)
            expect(p, T_COMMA);
        Node *one = node(p, N_KEYWORD);
        one->name = expect(p, T_NAME)->text;
        if (skip(p, T_ASSIGN))
            one->a = expression(p);
        else if (last && last->a)
            expected(p, "a default, because the parameter before has one");
        end = append(end, one);
        last = one;
    }
    next(p);
}

/* c: the body of a macro, which cannot reach the loops around it. */
static void macro_body(Parser *p, Node *n, const char *end)
{
    Parser outer = *p;
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

static Node *macro(Parser *p)
{
    Node *n = node(p, N_MACRO);
    next(p);
    n->name = expect(p, T_NAME)->text;
    signature(p, n);
    macro_body(p, n, "endmacro");
    return n;
}

/* a: the call */
static Node *call_block(Parser *p)
{
    Node *n = node(p, N_CALL_BLOCK);
    next(p);
    if (is(p, T_LPAREN))
        signature(p, n);
    n->a = expression(p);
    if (n->a->type != N_CALL)
        expected(p, "a call before this");
    macro_body(p, n, "endcall");
    return n;
}

/* b: the filters over N_BUFFER; c: the block */
static Node *filter_block(Parser *p)
{
    Node *n = node(p, N_FILTER_BLOCK);
    next(p);
    n->b = filter(p, node(p, N_BUFFER));
    while (skip(p, T_PIPE))
        n->b = filter(p, n->b);
    n->c = body_to(p, "endfilter");
    return n;
}

/* a: operands, each of a target a and a value b; c: the block */
static Node *with(Parser *p)
{
    Node *n = node(p, N_WITH), **end = &n->a;
    next(p);
    while (!is(p, T_BLOCK_END)) {
        if (n->a)
            expect(p, T_COMMA);
        Node *one = node(p, N_OPERAND);
        one->a = target(p, false, NULL);
        expect(p, T_ASSIGN);
        one->b = expression(p);
        end = append(end, one);
    }
    n->c = body_to(p, "endwith");
    return n;
}

/* a: operands, each with its value a */
static Node *print(Parser *p)
{
    Node *n = node(p, N_PRINT), **end = &n->a;
    next(p);
    while (!is(p, T_BLOCK_END)) {
        if (n->a)
            expect(p, T_COMMA);
        Node *one = node(p, N_OPERAND);
        one->a = expression(p);
        end = append(end, one);
    }
    return n;
}

static Node *leave_loop(Parser *p)
{
    Node *n = node(p, is_name(p->t, "break") ? N_BREAK : N_CONTINUE);
    if (!p->loops)
        expected(p, "a tag that may stand outside of a loop");
    next(p);
    return n;
}

/* transformers treats {% generation %} as a call block: a scope of its own. */
static Node *generation(Parser *p)
{
    Node *n = node(p, N_GENERATION);
    next(p);
    macro_body(p, n, "endgeneration");
    return n;
}

static Node *statement(Parser *p)
{
    static const struct { const char *name; Node *(*read)(Parser *); } tags[] = {
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
    describe(p->t, found);
    p->r->at = p->t->at;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (is_name(p->t, refused[i]))
            jinja_fail(p->r, "the tag %s is not supported in chat templates", found);
    jinja_fail(p->r, "expected a tag, found %s", found);
}

static bool at_end(const Parser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (is_name(p->t, *ends))
            return true;
    return false;
}

/* Parses text and tags up to one of the names, which is not consumed; without names, to the end. */
static Node *statements(Parser *p, const char *const *ends)
{
    Node *first = NULL, **end = &first;
    deeper(p);
    for (;;) {
        Node *n;
        if (is(p, T_END)) {
            if (ends) {
                char what[64];
                snprintf(what, sizeof what, "'%s'", ends[0]);
                expected(p, what);
            }
            break;
        }
        if (is(p, T_DATA)) {
            n = node(p, N_DATA);
            n->value = v_string(next(p)->text);
        } else if (is(p, T_VARIABLE_BEGIN)) {
            n = node(p, N_PRINT);
            next(p);
            n->a = node(p, N_OPERAND);
            n->a->a = tuple(p, true, false, NULL);
            expect(p, T_VARIABLE_END);
        } else {
            expect(p, T_BLOCK_BEGIN);
            if (at_end(p, ends))
                break;
            n = statement(p);
            expect(p, T_BLOCK_END);
        }
        end = append(end, n);
    }
    p->depth--;
    return first;
}

Node *jinja_tree(JinjaRun *r)
{
    size_t n;
    Parser p = { .r = r, .t = jinja_tokens(r, &n) };
    return statements(&p, NULL);
}
