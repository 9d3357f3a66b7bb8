/* chat/jinja_parser.h: the parser of templates. jinja_parse.c parses expressions, jinja_statement.c
 * the tags around them; no other file includes it. */
#ifndef CHAT_JINJA_PARSER_H
#define CHAT_JINJA_PARSER_H

#include "chat/jinja_parts.h"

typedef struct JinjaParser {
    JinjaRun *r;
    Token    *t;           /* the current one; the last is T_END */
    int       depth;
    int       loops;       /* for loops around, inside the innermost macro */
    bool      caller, kwargs, varargs; /* names that the macro's body reads */
} JinjaParser;

static inline bool is(const JinjaParser *p, TokenType type) { return p->t->type == type; }
static inline bool is_name(const Token *t, const char *name)
{
    return t->type == T_NAME && string_is(t->text, name);
}
static inline Token *next(JinjaParser *p) { return is(p, T_END) ? p->t : p->t++; }
static inline bool skip(JinjaParser *p, TokenType type) { return is(p, type) && next(p); }
static inline bool skip_name(JinjaParser *p, const char *name)
{
    return is_name(p->t, name) && next(p);
}

/* Appends a node to a list; *end is where the next one goes. */
static inline Node **append(Node **end, Node *n)
{
    *end = n;
    return &n->next;
}

void  token_text(const Token *t, char out[64]);       /* for messages */
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
void  parse_expected(JinjaParser *p, const char *what); /* fails: expected what, found the token */
Token *parse_expect(JinjaParser *p, TokenType type);       /* skips it, or fails */
void  parse_deeper(JinjaParser *p);                        /* pair with p->depth-- */
Node *parse_node(JinjaParser *p, NodeType type);           /* at the current token */

Node *parse_expression(JinjaParser *p);
/* One expression, or a tuple of several. conditions: parse "a if b". end: a name that ends it. */
Node *parse_tuple(JinjaParser *p, bool conditions, bool parentheses, const char *end);
bool  parse_tuple_ends(const JinjaParser *p, const char *end);
Node *parse_name(JinjaParser *p, bool namespaces);         /* also a constant, or NAMESPACE.NAME */
Node *parse_filter(JinjaParser *p, Node *of);              /* of|name(b), after the bar */

#endif
