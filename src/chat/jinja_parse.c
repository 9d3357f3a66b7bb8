/* chat/jinja_parse.c: parses the expressions of a template, one function for each rule of
 * jinja2/parser.py, with its order of precedence. What the children of a node mean is said where it
 * is made. */
#include "chat/jinja_parser.h"

#include <stdio.h>

static Node *or_(JinjaParser *p);

/* ---- Tokens ---------------------------------------------------------------------------------- */

void token_text(const Token *t, char out[64])
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

void parse_expected(JinjaParser *p, const char *what)
{
    char found[64];
    token_text(p->t, found);
    p->r->at = p->t->at;
    jinja_fail(p->r, "expected %s, found %s", what, found);
}

Token *parse_expect(JinjaParser *p, TokenType type)
{
    if (!is(p, type)) {
        char what[64];
        token_text(&(Token){ .type = type == T_NAME ? T_STRING : type }, what);
        parse_expected(p, type == T_NAME ? "a name" : what);
    }
    return next(p);
}

void parse_deeper(JinjaParser *p)
{
    p->r->at = p->t->at;
    if (++p->depth > JINJA_NESTED)
        jinja_fail(p->r, "nested deeper than %d levels", JINJA_NESTED);
}

Node *parse_node(JinjaParser *p, NodeType type)
{
    Node *n = jinja_alloc(p->r, sizeof *n);
    n->type = type;
    n->at = p->t->at;
    return n;
}

static Node *node2(JinjaParser *p, NodeType type, size_t at, Node *a, Node *b)
{
    Node *n = parse_node(p, type);
    n->at = at, n->a = a, n->b = b;
    return n;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static Node *constant(JinjaParser *p, Value v)
{
    Node *n = parse_node(p, N_CONST);
    n->value = v;
    return n;
}

/* Does another item follow, before `end`? A comma may also stand after the last. */
static bool another(JinjaParser *p, const Node *first, TokenType end)
{
    if (first && !is(p, end))
        parse_expect(p, T_COMMA);
    return !is(p, end);
}

static Node *list(JinjaParser *p)
{
    Node *n = parse_node(p, N_LIST), **end = &n->a; /* a: the items */
    next(p);
    while (another(p, n->a, T_RBRACKET))
        end = append(end, parse_expression(p));
    next(p);
    return n;
}

static Node *dict(JinjaParser *p)
{
    Node *n = parse_node(p, N_DICT), **end = &n->a; /* a: operands, each of a key a and a value b */
    next(p);
    while (another(p, n->a, T_RBRACE)) {
        Node *pair = parse_node(p, N_OPERAND);
        pair->a = parse_expression(p);
        parse_expect(p, T_COLON);
        pair->b = parse_expression(p);
        end = append(end, pair);
    }
    next(p);
    return n;
}

Node *parse_name(JinjaParser *p, bool namespaces)
{
    const Token *t = p->t;
    Node        *n = parse_node(p, N_NAME);
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
        n->value = v_string(parse_expect(p, T_NAME)->text);
    } else {
        p->caller |= is_name(t, "caller");
        p->kwargs |= is_name(t, "kwargs");
        p->varargs |= is_name(t, "varargs");
    }
    return n;
}

/* A string of the tree, without a buffer to which a run could append. */
static String *joined(JinjaParser *p, String *a, const String *b)
{
    String *s = string_join2(p->r, a, b);
    s->buffer = NULL;
    string_chars(p->r, s);
    return s;
}

static Node *primary(JinjaParser *p)
{
    Node *n = NULL;
    parse_deeper(p);
    if (is(p, T_NAME)) {
        n = parse_name(p, false);
    } else if (is(p, T_STRING)) {
        n = constant(p, v_string(next(p)->text));
        while (is(p, T_STRING))
            n->value = v_string(joined(p, n->value.s, next(p)->text));
    } else if (is(p, T_INT) || is(p, T_FLOAT)) {
        n = constant(p, p->t->number);
        next(p);
    } else if (skip(p, T_LPAREN)) {
        n = parse_tuple(p, true, true, NULL);
        parse_expect(p, T_RPAREN);
    } else if (is(p, T_LBRACKET)) {
        n = list(p);
    } else if (is(p, T_LBRACE)) {
        n = dict(p);
    } else {
        parse_expected(p, "an expression");
    }
    p->depth--;
    return n;
}

bool parse_tuple_ends(const JinjaParser *p, const char *end)
{
    return is(p, T_VARIABLE_END) || is(p, T_BLOCK_END) || is(p, T_RPAREN)
        || (end && is_name(p->t, end));
}

Node *parse_tuple(JinjaParser *p, bool conditions, bool parentheses, const char *end)
{
    Node  *n = parse_node(p, N_TUPLE), **last = &n->a; /* a: the items */
    bool   many = false;
    for (;;) {
        if (n->a)
            parse_expect(p, T_COMMA);
        if (parse_tuple_ends(p, end))
            break;
        last = append(last, conditions ? parse_expression(p) : or_(p));
        if (!is(p, T_COMMA))
            break;
        many = true;
    }
    if (!many && n->a)
        return n->a;
    if (!many && !parentheses)
        parse_expected(p, "an expression");
    return n;
}

/* ---- After a value --------------------------------------------------------------------------- */

/* The arguments of a call: values, N_KEYWORD, N_STAR and N_STAR_STAR. */
static Node *arguments(JinjaParser *p)
{
    Node *first = NULL, **end = &first, *n;
    bool  star = false, star_star = false, keyword = false;
    parse_expect(p, T_LPAREN);
    while (another(p, first, T_RPAREN)) {
        bool is_keyword = is(p, T_NAME) && p->t[1].type == T_ASSIGN;
        bool positional = !is_keyword && !is(p, T_MUL) && !is(p, T_POW);
        if (star_star || (star && (positional || is(p, T_MUL))) || (keyword && positional))
            parse_expected(p, "a keyword argument");
        n = parse_node(p, is_keyword ? N_KEYWORD : is(p, T_MUL) ? N_STAR : N_STAR_STAR);
        star |= is(p, T_MUL);
        star_star |= is(p, T_POW);
        keyword |= is_keyword;
        if (is_keyword)
            n->name = next(p)->text; /* a: the value, also of the stars */
        if (!positional) {
            next(p);
            n->a = parse_expression(p);
        } else { /* in its own node, because a value can be in one list only */
            n->type = N_OPERAND;
            n->a = parse_expression(p);
        }
        end = append(end, n);
    }
    next(p);
    return first;
}

/* The content of brackets: an expression or a slice of a start, b stop, c step. */
static Node *subscribed(JinjaParser *p)
{
    Node *n = parse_node(p, N_SLICE);
    if (!is(p, T_COLON)) {
        n->a = parse_expression(p);
        if (!is(p, T_COLON))
            return n->a;
    }
    next(p);
    if (!is(p, T_COLON) && !is(p, T_RBRACKET) && !is(p, T_COMMA))
        n->b = parse_expression(p);
    if (skip(p, T_COLON) && !is(p, T_RBRACKET) && !is(p, T_COMMA))
        n->c = parse_expression(p);
    return n;
}

static Node *subscript(JinjaParser *p, Node *of)
{
    Node *n = node2(p, N_ITEM, p->t->at, of, NULL); /* a[b] */
    if (skip(p, T_DOT)) {
        if (is(p, T_INT)) {
            n->b = constant(p, p->t->number);
        } else if (is(p, T_NAME)) {
            n->type = N_ATTRIBUTE; /* a.name */
            n->name = p->t->text;
        } else {
            parse_expected(p, "a name or a number after '.'");
        }
        next(p);
        return n;
    }
    next(p);
    Node *all = parse_node(p, N_TUPLE), **end = &all->a;
    while (!is(p, T_RBRACKET)) {
        if (all->a)
            parse_expect(p, T_COMMA);
        end = append(end, subscribed(p));
        if (all->a->type == N_SLICE && all->a->next)
            parse_expected(p, "one slice in brackets");
    }
    next(p);
    n->b = all->a && !all->a->next ? all->a : all;
    return n;
}

static Node *call_node(JinjaParser *p, Node *f)
{
    Node *n = node2(p, N_CALL, p->t->at, f, NULL); /* a(b) */
    n->b = arguments(p);
    return n;
}

static Node *postfix(JinjaParser *p, Node *n)
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

static String *dotted(JinjaParser *p)
{
    String *name = parse_expect(p, T_NAME)->text;
    while (skip(p, T_DOT))
        name = joined(p, joined(p, name, v_text(p->r, ".").s), parse_expect(p, T_NAME)->text);
    return name;
}

Node *parse_filter(JinjaParser *p, Node *of)
{
    Node *n = node2(p, N_FILTER, p->t->at, of, NULL);
    n->name = dotted(p);
    if (is(p, T_LPAREN))
        n->b = arguments(p);
    return n;
}

/* a is name(b), after "is" */
static Node *test(JinjaParser *p, Node *of)
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
        parse_expected(p, "no second test (tests cannot be chained)");
    if (is(p, T_LPAREN)) {
        n->b = arguments(p);
    } else if (value) {
        n->b = parse_node(p, N_OPERAND);
        n->b->a = postfix(p, primary(p));
    }
    return not ? node2(p, N_NOT, at, n, NULL) : n;
}

static Node *filters(JinjaParser *p, Node *n)
{
    for (;;) {
        if (skip(p, T_PIPE))
            n = parse_filter(p, n);
        else if (skip_name(p, "is"))
            n = test(p, n);
        else if (is(p, T_LPAREN))
            n = call_node(p, n);
        else
            return n;
    }
}

/* ---- Operators ------------------------------------------------------------------------------- */

static Node *unary(JinjaParser *p, bool with_filters)
{
    Node *n;
    parse_deeper(p);
    if (is(p, T_SUB) || is(p, T_ADD)) {
        n = parse_node(p, is(p, T_SUB) ? N_NEGATE : N_PLUS);
        next(p);
        n->a = unary(p, false);
    } else {
        n = primary(p);
    }
    p->depth--;
    n = postfix(p, n);
    return with_filters ? filters(p, n) : n;
}

/* a op b op ...; ops: bits of their types. Left-associative, also the power, as Jinja2 has it. */
static Node *binary_nodes(JinjaParser *p, Node *(*operand)(JinjaParser *), uint64_t ops)
{
    Node *n = operand(p);
    while (ops >> p->t->type & 1) {
        n = node2(p, N_BINARY, p->t->at, n, NULL);
        n->op = (int)next(p)->type;
        n->b = operand(p);
    }
    return n;
}

#define OP(type) (UINT64_C(1) << (type))
static Node *power_operand(JinjaParser *p) { return unary(p, true); }
static Node *power(JinjaParser *p) { return binary_nodes(p, power_operand, OP(T_POW)); }
static Node *product(JinjaParser *p)
{
    return binary_nodes(p, power, OP(T_MUL) | OP(T_DIV) | OP(T_FLOORDIV) | OP(T_MOD));
}

static Node *concat(JinjaParser *p)
{
    Node *first = product(p);
    if (!is(p, T_TILDE))
        return first;
    Node *n = parse_node(p, N_CONCAT), **end = &n->a; /* a: operands, each with its value a */
    end = append(end, node2(p, N_OPERAND, first->at, first, NULL));
    while (skip(p, T_TILDE)) {
        Node *one = parse_node(p, N_OPERAND);
        one->a = product(p);
        end = append(end, one);
    }
    return n;
}

static Node *sum(JinjaParser *p) { return binary_nodes(p, concat, OP(T_ADD) | OP(T_SUB)); }

static bool comparison(JinjaParser *p, TokenType *op)
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

static Node *compare_(JinjaParser *p)
{
    Node *first = sum(p), *n = node2(p, N_COMPARE, p->t->at, first, NULL), **end = &n->b;
    for (TokenType op; comparison(p, &op);) { /* b: operands, each op a */
        Node *one = parse_node(p, N_OPERAND);
        one->op = (int)op;
        one->a = sum(p);
        end = append(end, one);
    }
    return n->b ? n : first;
}

static Node *not_(JinjaParser *p)
{
    if (!is_name(p->t, "not"))
        return compare_(p);
    parse_deeper(p);
    Node *n = parse_node(p, N_NOT);
    next(p);
    n->a = not_(p);
    p->depth--;
    return n;
}

static Node *logic(JinjaParser *p, NodeType type, const char *word, Node *(*operand)(JinjaParser *))
{
    Node *n = operand(p);
    while (is_name(p->t, word)) {
        size_t at = next(p)->at;
        n = node2(p, type, at, n, operand(p));
    }
    return n;
}

static Node *and_(JinjaParser *p) { return logic(p, N_AND, "and", not_); }
static Node *or_(JinjaParser *p) { return logic(p, N_OR, "or", and_); }

/* b if a else c; without else c is NULL */
Node *parse_expression(JinjaParser *p)
{
    parse_deeper(p);
    Node *n = or_(p);
    while (is_name(p->t, "if")) {
        size_t at = next(p)->at;
        Node  *condition = or_(p);
        n = node2(p, N_CONDITION, at, condition, n);
        if (skip_name(p, "else"))
            n->c = parse_expression(p);
    }
    p->depth--;
    return n;
}
