/* chat/jinja_parts.h: internals of the template interpreter. Only chat/jinja_*.c include it.
 *
 * One JinjaRun is one parse or one rendering. All its memory is in its arena and is freed at once,
 * so an error may leave from any depth: jinja_fail jumps to where the run began. Values never
 * change once made, except namespaces, cyclers, joiners, iterators and loops.
 *
 * The files jinja_*.c need each other, because templates are recursive: an expression runs filters,
 * tests and calls, and a call of a macro or of a loop runs expressions again. */
#ifndef CHAT_JINJA_PARTS_H
#define CHAT_JINJA_PARTS_H

#include <setjmp.h>
#include "base/text.h"
#include "chat/jinja.h"

/* ---- Values ---------------------------------------------------------------------------------- */

typedef enum ValueKind {
    V_MISSING, /* no value: an argument that was not given */
    V_UNDEFINED, V_NONE, V_BOOL, V_INT, V_FLOAT, V_STRING, V_LIST, V_TUPLE, V_DICT, V_RANGE,
    V_VIEW,    /* keys(), values() or items() of a dict */
    V_ITER,    /* what Python calls a generator: can be iterated once */
    V_NAMESPACE, V_MACRO, V_LOOP, V_METHOD, V_GLOBAL, V_CYCLER, V_JOINER,
} ValueKind;

/* n bytes of UTF-8 at s. mark: one byte for each, 1 if it is the template's; NULL: all data. */
typedef struct StringBuffer { char *s, *mark; size_t n, cap; } StringBuffer;
typedef struct String {
    const char *s, *mark;
    size_t      n, n_chars;   /* n_chars: NOT_COUNTED until it is needed */
    StringBuffer *buffer;     /* whose prefix it is, if it may grow there */
    bool        safe;         /* the filter `safe` made it */
} String;
#define NOT_COUNTED SIZE_MAX

typedef struct Value Value;
/* group: made by the filter groupby, a tuple with the names grouper and list. */
typedef struct List { Value *item; size_t n; bool group; } List;
typedef struct Dict { Value *key, *value; size_t n, cap; } Dict;
typedef struct JinjaRange { int64_t start, stop, step; size_t n; } JinjaRange;
typedef struct View { char kind; Dict *dict; } View;            /* 'k', 'v' or 'i' */
typedef struct Iter Iter;
typedef struct Macro Macro;
typedef struct Loop Loop;
typedef struct Method Method;
typedef struct Cycler { List *items; size_t at; } Cycler;
typedef struct Joiner { String *separator; bool used; } Joiner;

struct Value {
    ValueKind kind;
    union {
        bool        truth;
        int64_t     i;
        double      f;
        String     *s;       /* V_STRING; V_UNDEFINED: why */
        List       *list;    /* V_LIST, V_TUPLE */
        Dict       *dict;    /* V_DICT, V_NAMESPACE */
        JinjaRange *range;
        View       *view;
        Iter       *iter;
        Macro      *macro;
        Loop       *loop;
        Method     *method;
        Cycler     *cycler;
        Joiner     *joiner;
        int         global;
        void       *any;
    };
};
struct Method { Value self; const char *name; };

/* ---- The tree -------------------------------------------------------------------------------- */

typedef enum NodeType {
    N_CONST, N_NAME, N_LIST, N_TUPLE, N_DICT, N_ATTRIBUTE, N_ITEM, N_SLICE, N_CALL, N_FILTER,
    N_TEST, N_CONDITION, N_OR, N_AND, N_NOT, N_COMPARE, N_BINARY, N_NEGATE, N_PLUS, N_CONCAT,
    N_BUFFER,                       /* the text of a filter block */
    N_NAMESPACE_TARGET, N_KEYWORD, N_STAR, N_STAR_STAR, N_OPERAND,
    N_DATA, N_PRINT, N_IF, N_FOR, N_SET, N_SET_BLOCK, N_MACRO, N_CALL_BLOCK, N_FILTER_BLOCK,
    N_WITH, N_BREAK, N_CONTINUE, N_GENERATION,
} NodeType;

/* What the children mean is said where the parser makes each. */
typedef struct Node Node;
struct Node {
    NodeType type;
    int      op;         /* a TokenType */
    size_t   at;         /* byte of the template */
    Node    *a, *b, *c, *d, *next;
    String  *name;
    Value    value;
    struct Var *hidden;  /* of a node with a scope: the names that have no value at the start */
    bool     recursive, wants_caller, wants_kwargs, wants_varargs;
};

typedef enum TokenType {
    T_END, T_DATA, T_VARIABLE_BEGIN, T_VARIABLE_END, T_BLOCK_BEGIN, T_BLOCK_END, T_NAME, T_STRING,
    T_INT, T_FLOAT, T_ADD, T_ASSIGN, T_COLON, T_COMMA, T_DIV, T_DOT, T_EQ, T_FLOORDIV, T_GT, T_GE,
    T_LBRACE, T_LBRACKET, T_LPAREN, T_LT, T_LE, T_MOD, T_MUL, T_NE, T_PIPE, T_POW, T_RBRACE,
    T_RBRACKET, T_RPAREN, T_SEMICOLON, T_SUB, T_TILDE, T_IN, T_NOT_IN,
} TokenType;
typedef struct Token { TokenType type; size_t at; String *text; Value number; } Token;

/* ---- A run ----------------------------------------------------------------------------------- */

typedef struct Var { String *name; Value value; struct Var *next; } Var;
typedef struct Env { Var *vars; struct Env *parent; bool captured; } Env;

struct Macro {
    const Node *node;    /* N_MACRO, N_CALL_BLOCK */
    String     *name;    /* NULL: a call block */
    Env        *env;
};

typedef struct JinjaRun {
    jmp_buf     failed;
    Error      *err;
    const char *what, *source;   /* the template's name and text, for messages */
    size_t      n_source, at;    /* where it is now */
    struct Block { struct Block *next; size_t cap; } *blocks;
    size_t      used, in_block, memory;
    uint64_t    steps;
    int         depth;
    const char *date;
    const char *const *roles;
    StringBuffer *out;
    Value       filtered;        /* what N_BUFFER stands for */
    Var        *free_vars;
} JinjaRun;

enum { JINJA_MEMORY = 64 << 20, JINJA_STEPS = 20000000, JINJA_DEPTH = 1200, JINJA_NESTED = 150 };

struct Jinja {
    JinjaRun run;     /* its arena holds the tree */
    Node    *body;
    struct Var *hidden;
};

/* ---- jinja_value.c: memory, strings, what values are ----------------------------------------- */

#if defined(__GNUC__)
__attribute__((noreturn, format(printf, 2, 3)))
#endif
void jinja_fail(JinjaRun *r, const char *fmt, ...);   /* INPUT, with line and column */
void *jinja_alloc(JinjaRun *r, size_t n);             /* zeroed; never NULL */
void *jinja_array(JinjaRun *r, size_t n, size_t size);
void  jinja_run_free(JinjaRun *r);
void  jinja_work(JinjaRun *r, size_t n);              /* counts n small steps */
void  jinja_enter(JinjaRun *r);                       /* one level deeper; pair with r->depth-- */

static inline Value v_none(void) { return (Value){ .kind = V_NONE }; }
static inline Value v_bool(bool b) { return (Value){ .kind = V_BOOL, .truth = b }; }
static inline Value v_int(int64_t i) { return (Value){ .kind = V_INT, .i = i }; }
static inline Value v_float(double f) { return (Value){ .kind = V_FLOAT, .f = f }; }
static inline Value v_string(String *s) { return (Value){ .kind = V_STRING, .s = s }; }
static inline Value v_list(List *l) { return (Value){ .kind = V_LIST, .list = l }; }
static inline Value v_tuple(List *l) { return (Value){ .kind = V_TUPLE, .list = l }; }
Value v_undefined(JinjaRun *r, const char *why, const char *name, size_t n);
Value v_iter(JinjaRun *r, List *l);
Value v_view(JinjaRun *r, char kind, Dict *d);
Value v_text(JinjaRun *r, const char *s);             /* data */

String *string_new(JinjaRun *r, const char *s, const char *mark, size_t n); /* not copied */
String *string_part(JinjaRun *r, const String *s, size_t from, size_t to);  /* bytes */
String *string_join2(JinjaRun *r, String *a, const String *b);
size_t  string_chars(JinjaRun *r, String *s);
size_t  string_byte(JinjaRun *r, String *s, size_t ch); /* where character ch begins */
bool    string_is(const String *s, const char *text);
bool    string_same(const String *a, const String *b);
/* The index in s of the first `part` at or after byte `from`; or SIZE_MAX. */
size_t  string_find(JinjaRun *r, const String *s, const String *part, size_t from);

StringBuffer *buffer_new(JinjaRun *r);
void    buffer_add(JinjaRun *r, StringBuffer *b, const char *s, const char *mark, size_t n);
void    buffer_text(JinjaRun *r, StringBuffer *b, const char *s); /* data */
void    buffer_char(JinjaRun *r, StringBuffer *b, uint32_t c, bool mark);
void    buffer_string(JinjaRun *r, StringBuffer *b, const String *s);
void    buffer_fill(JinjaRun *r, StringBuffer *b, const String *s, size_t times);
String *buffer_take(JinjaRun *r, StringBuffer *b);
StringBuffer *output_begin(JinjaRun *r);              /* returns the outer one */
String *output_end(JinjaRun *r, StringBuffer *outer);

List *list_new(JinjaRun *r, size_t n);
void  list_add(JinjaRun *r, List *l, Value v);        /* while it is made; n grows from 0 */
Dict *dict_new(JinjaRun *r);
void  dict_put(JinjaRun *r, Dict *d, Value key, Value value);
void  dict_put_new(JinjaRun *r, Dict *d, Value key, Value value); /* the key is not there yet */
Value *dict_find(JinjaRun *r, const Dict *d, Value key);          /* NULL: none */
Value *dict_name(const Dict *d, const char *s, size_t n);
bool  hashable(Value v);

const char *type_name(Value v);
bool  is_number(Value v);
bool  is_undefined(Value v);
double as_double(Value v);
bool  truth(JinjaRun *r, Value v);
bool  equal(JinjaRun *r, Value a, Value b);
int   compare(JinjaRun *r, Value a, Value b);         /* -1, 0, 1; 2: unordered (NaN) */
bool  contains(JinjaRun *r, Value in, Value x);
size_t length_of(JinjaRun *r, Value v);               /* SIZE_MAX: it has none */
List *to_list(JinjaRun *r, Value v);                  /* all items; TypeError if not iterable */
Value range_item(const JinjaRange *g, size_t i);
Value from_json(JinjaRun *r, const JsonNode *j, bool own);

/* ---- jinja_print.c --------------------------------------------------------------------------- */

String *to_string(JinjaRun *r, Value v);              /* Python's str() */
void  repr(JinjaRun *r, StringBuffer *b, Value v);
String *float_text(JinjaRun *r, double x);
Value filter_tojson(JinjaRun *r, Value v, const Value *arg);

/* ---- jinja_ops.c ----------------------------------------------------------------------------- */

Value binary(JinjaRun *r, int op, Value a, Value b);
Value negate(JinjaRun *r, Value a);
Value get_attribute(JinjaRun *r, Value v, String *name);
Value get_item(JinjaRun *r, Value v, Value key);
Value get_slice(JinjaRun *r, Value v, Value start, Value stop, Value step);
bool  to_index(Value v, int64_t *i);                  /* an int or a bool */
int64_t need_int(JinjaRun *r, const char *what, Value v);
String *need_string(JinjaRun *r, const char *what, Value v);

/* ---- jinja_format.c -------------------------------------------------------------------------- */

/* "..." % args; args is a tuple, a dict, or one value. */
Value format_percent(JinjaRun *r, const String *s, Value args);

typedef struct Args { Value *v; size_t n; Dict *named; } Args;
Value format_braces(JinjaRun *r, const String *s, const Args *args);
Value format_date(JinjaRun *r, const String *s);

/* ---- jinja_call.c ---------------------------------------------------------------------------- */

/* Assign the arguments to parameters, whose names are separated by spaces. "name=None" (or False, a
 * number, 'text') has this default, other names that in out; V_MISSING: it is required. */
void  take_args(JinjaRun *r, const char *what, const Args *args, const char *names, Value *out);
Value call(JinjaRun *r, Value f, const Args *args);
bool  is_method(Value self, const String *name, bool *unsafe, const char **known);
void  namespace_put(JinjaRun *r, Dict *d, Value name, Value v);
int   global_find(const String *name);                /* -1: none */

/* ---- jinja_string.c: methods of strings ------------------------------------------------------ */

Value string_method(JinjaRun *r, String *self, const char *name, const Args *args);
typedef enum CaseChange { CASE_LOWER, CASE_UPPER, CASE_TITLE, CASE_CAPITAL, CASE_SWAP } CaseChange;
String *change_case(JinjaRun *r, String *s, CaseChange how);
String *strip(JinjaRun *r, String *s, Value chars, bool left, bool right);
List *split_lines(JinjaRun *r, String *s, bool keep);
String *pad(JinjaRun *r, String *s, size_t width, String *fill, char how); /* '<', '>', '^' */
String *replace(JinjaRun *r, String *s, const String *old, const String *with, int64_t count);
String *join(JinjaRun *r, const String *separator, const List *l);
bool  is_space(uint32_t c);                           /* Python's str.isspace */
bool  text_test(JinjaRun *r, String *s, const char *name);   /* isalpha and the like */

/* ---- jinja_filter.c, jinja_filter_text.c, jinja_test.c --------------------------------------- */

/* args: the names and defaults of the parameters, which take_args gives to `with`; "": `plain` has
 * none; NULL: `raw` takes them as they come. safe: accepts a text made by the filter `safe`. */
typedef struct Filter {
    const char *name, *args;
    bool        safe;
    Value     (*plain)(JinjaRun *r, Value v);
    Value     (*with)(JinjaRun *r, Value v, const Value *a);
    Value     (*raw)(JinjaRun *r, Value v, const Args *args);
} Filter;
extern const Filter text_filters[];                   /* up to a NULL name */
Value apply_filter(JinjaRun *r, const String *name, Value v, const Args *args);
bool  filter_exists(const String *name);
bool  apply_test(JinjaRun *r, const String *name, Value v, const Args *args);

/* ---- jinja_lex.c, jinja_statement.c ---------------------------------------------------------- */

Token *jinja_tokens(JinjaRun *r);
Node *jinja_tree(JinjaRun *r);

/* ---- jinja_scope.c --------------------------------------------------------------------------- */

Var  *jinja_hidden(JinjaRun *r, Node *body);
/* A scope in parent where the hidden names have no value. A loop passes the one of its last round,
 * which is reused unless a macro defined in it still needs it. */
Env  *env_new(JinjaRun *r, Env *env, Env *parent, const Var *hidden);
Value env_get(JinjaRun *r, const Env *env, const String *name);
void  env_define(JinjaRun *r, Env *env, String *name, Value value);
void  env_assign(JinjaRun *r, Env *env, const Node *to, Value v); /* to a target, maybe a tuple */

/* ---- jinja_run.c ----------------------------------------------------------------------------- */

void  jinja_exec(JinjaRun *r, const Node *body, Env *env);
Value call_macro(JinjaRun *r, const Macro *m, const Args *args);
Value call_loop(JinjaRun *r, Loop *l, Value items);
Value loop_attribute(JinjaRun *r, Loop *l, const String *name); /* V_MISSING: none */
Value loop_method(JinjaRun *r, Loop *l, const char *name, const Args *args);
size_t loop_length(JinjaRun *r, Loop *l);

struct Iter {                                         /* jinja_run.c and V_ITER */
    Value  source;      /* what is iterated */
    size_t at;          /* the next item, or byte of a string */
    const Node *target, *test;                        /* a for loop's own condition */
    Env   *env;
};
bool iter_next(JinjaRun *r, Iter *it, Value *out);
Iter *iter_begin(JinjaRun *r, Value v);               /* TypeError if it cannot be iterated */

#endif
