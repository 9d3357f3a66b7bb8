/* constrain/schema_parts.h: compiling a JSON Schema to a grammar: shared by the files schema_*.c.
 *
 * A set of values is a conjunction of literals. A literal is a schema of the document or a value of
 * it (an entry of `enum`), perhaps negated. There are finitely many literals, so recursive schemas
 * give finitely many sets, and each set becomes one rule.
 *
 * The numbers, strings and words (null, true, false) of a set are one regular expression each, in
 * which every keyword has an exact complement. Its objects and arrays are a union of shapes.
 *
 * The files schema*.c need each other, because schemas are recursive: a set has shapes, whose
 * members are sets, whose symbols are those of their shapes. */
#ifndef CONSTRAIN_SCHEMA_PARTS_H
#define CONSTRAIN_SCHEMA_PARTS_H

#include "base/hash.h"
#include "base/json.h"
#include "constrain/constrain.h"

/* The types of JSON values, in the order in which they are looked at. */
typedef enum ValueType { IS_NULL, IS_BOOL, IS_NUMBER, IS_STRING, IS_ARRAY, IS_OBJECT } ValueType;
enum { SCALAR_TYPES = 4, VALUE_TYPES = 6, FORMATS = 12 };

enum {
    MOST_SHAPES = 1000,   /* alternatives of one set */
    MOST_PAIRS = 100000,  /* pairs of alternatives that are compared */
    MOST_STATES = 20000,  /* rules that counts of one object or array need */
    MOST_NESTED = 200,    /* recursion of the compiler, through $ref too */
    MOST_SETS = 60000,
    MOST_NAMES = 1000,    /* that patterns of names match, if finitely many */
};

typedef uint32_t SetLiteral; /* node << 2 | is it a value << 1 | is it negated */
typedef uint32_t SetId;   /* conjunction of literals, see schema_sets.c */
enum { SET_ANY = 0, SET_NONE = 1 };

/* ---- Shapes ---------------------------------------------------------------------------------- */

typedef enum Presence { OPTIONAL, REQUIRED, ABSENT } Presence;

typedef struct Named {
    const char *name;
    uint32_t    n;
    Presence    presence;
    SetId       child;
} Named;

/* Properties whose names match an expression. */
typedef struct NameClass { Expr names; SetId child; } NameClass;

/* Items from index `from` on, of which min to max are in child. */
typedef struct Contains { SetId child; uint32_t min, max, from; } Contains;

typedef struct Shape {
    uint32_t   min, max; /* items or properties; max: REPEAT_FOREVER */
    /* Objects: the named properties in order. Any other name is in one class or forbidden. some:
     * at least one property has such a name and such a value. */
    Named     *named;
    NameClass *classes, *some;
    /* Arrays. unique: the node of the schema, or 0. */
    SetId     *prefix, rest;
    Contains  *contains;
    uint32_t   n_named, n_classes, n_some, n_prefix, n_contains, unique;
} Shape;

/* An immutable list of shapes. After its n shapes there may be room for those of a longer list:
 * room->cap in all, of which the longest list so far uses room->n. */
typedef struct ShapeRoom { size_t n, cap; } ShapeRoom;
typedef struct Shapes { Shape *shape; size_t n; ShapeRoom *room; } Shapes;

/* ---- The compiler ---------------------------------------------------------------------------- */

typedef enum Draft { DRAFT_4, DRAFT_7, DRAFT_2019, DRAFT_2020 } Draft;

/* The facts of one node of the document, used as a schema. */
typedef struct NodeFacts {
    uint32_t same;                    /* the first node with the same text; may be itself */
    uint32_t target;                  /* of $ref */
    uint32_t parent;                  /* the array or object that contains it */
    bool     checked, resolved, has_id;
    enum { NOT_LOOKED, IN_WAYS, ONCE } spelled; /* its numbers: schema_number.c */
    bool     known[SCALAR_TYPES];
    uint8_t  busy[VALUE_TYPES];       /* 1 + s->asking when its compilation began; 0: not now */
    Expr     scalar[SCALAR_TYPES];
    Shapes   shapes[2][2];            /* of arrays and objects; negated */
    bool     shapes_known[2][2];
} NodeFacts;

typedef struct SetFacts {
    SetLiteral *literal;
    uint32_t    n;
    enum { NOT_ASKED, ASKING, NOT_EMPTY, IS_EMPTY } empty;
    bool     begun, finished, used; /* the rule */
    Rule     rule;
    Symbol   symbol;
    Shapes   shapes[2];
    bool     shapes_known[2];
} SetFacts;

typedef struct Block Block;

typedef struct Schema {
    Grammar    *g;
    JsonDoc     doc;
    const char *what;
    Draft       draft;
    bool        any_order, one_base; /* one_base: no $id inside the document */
    NodeFacts  *fact;               /* [doc.n_nodes] */
    SetFacts   *set;
    size_t      n_sets, cap_sets, n_states, n_pairs;
    ByteMap     set_of, members, ids; /* schema_sets.c; schema_ref.c */
    Block      *blocks;
    TextOut    *unknown;
    bool        unsure;  /* a result was needed before it was known: do not cache what follows */
    const JsonNode *at;  /* what is being compiled to rules, for messages */
    int         nested, asking; /* depth: of the compiler, of set_is_empty */
    Expr        all[SCALAR_TYPES], any_char, integer, comma, colon, quote;
    Expr        number_once, number_short; /* schema_number.c: how a text spells a number */
    Expr        format[FORMATS]; /* those that have been used */
} Schema;

/* ---- schema.c -------------------------------------------------------------------------------- */

/* n zeroed elements that live as long as s. NULL: no memory, and the grammar has failed. */
void *schema_keep(Schema *s, size_t n, size_t size);
/* Makes the grammar fail: "WHAT: #/pointer: message". Returns false. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
bool schema_refuse(Schema *s, const JsonNode *at, const char *fmt, ...);
/* Appends the JSON pointer of a node, from the root: "#/properties/a". */
void schema_pointer(const Schema *s, TextOut *o, const JsonNode *at);
bool schema_failed(const Schema *s);
/* The member of a schema, or NULL. */
static inline const JsonNode *keyword(const JsonNode *schema, const char *name)
{
    return node_get(schema, name);
}
static inline uint32_t node_index(const Schema *s, const JsonNode *j)
{
    return (uint32_t)(j - s->doc.node);
}
bool schema_enter(Schema *s, const JsonNode *at); /* recursion; false: too deep, failed */
static inline void schema_leave(Schema *s) { s->nested--; }

/* ---- schema_check.c -------------------------------------------------------------------------- */

/* Are the keywords of this schema well-formed, and all supported? */
bool schema_check(Schema *s, const JsonNode *schema);
/* The items of an array, or the single value. */
#define EACH_OR_ONE(i, j)                                                                          \
    for (const JsonNode *i = (j) && (j)->kind == NODE_ARRAY ? (j) + 1 : (j),                       \
         *i##_end = (j) ? node_end(j) : NULL; i != i##_end; i += i->skip)
/* A count: 0 to 2^32 - 2. `otherwise` if j is NULL. */
uint32_t schema_count(Schema *s, const JsonNode *j, uint32_t otherwise);

/* ---- schema_ref.c ---------------------------------------------------------------------------- */

/* The schema that this one stands for: the target of its $ref if nothing else in it counts. */
const JsonNode *schema_target(Schema *s, const JsonNode *schema); /* of its $ref; NULL: failed */
/* Does $ref hide the other keywords? It does before 2019. */
static inline bool ref_alone(const Schema *s) { return s->draft < DRAFT_2019; }

/* ---- schema_sets.c --------------------------------------------------------------------------- */

static inline SetLiteral literal_of(const Schema *s, const JsonNode *j, bool value, bool negated)
{
    return (SetLiteral)(j - s->doc.node) << 2 | (value ? 2u : 0) | (negated ? 1u : 0);
}
static inline const JsonNode *literal_node(const Schema *s, SetLiteral l)
{
    return s->doc.node + (l >> 2);
}
SetId set_of(Schema *s, const JsonNode *j, bool value, bool negated);
SetId set_and(Schema *s, SetId a, SetId b);
/* True only if the set has no value; false may also mean unknown. */
bool set_is_empty(Schema *s, SetId id);
/* Its values of one scalar type. */
Expr set_scalar(Schema *s, SetId id, ValueType type);
Shapes set_shapes(Schema *s, SetId id, ValueType type);

/* ---- schema_scalar.c ------------------------------------------------------------------------- */

/* The values of a scalar type that are in a literal, as JSON text; strings without quotes. */
Expr scalar_of(Schema *s, SetLiteral l, ValueType type);
/* The intersection of two parts of s->all[type]. */
Expr scalar_and(Schema *s, ValueType type, Expr a, Expr b);
bool scalar_begin(Schema *s); /* fills s->all and the like */
/* Does the schema's `type` allow it? */
bool type_allows(const JsonNode *schema, ValueType type);
/* Is this value of that type? */
bool value_has_type(const JsonNode *value, ValueType type);
/* A text as it stands inside a JSON string. */
Expr string_text(Schema *s, const char *text, size_t n);
Expr string_pattern(Schema *s, const JsonNode *at, const char *pattern, size_t n);

/* ---- schema_number.c ------------------------------------------------------------------------- */

/* Numbers at least (above: more than) the number that the node spells. */
Expr number_from(Schema *s, const JsonNode *j, bool above);
Expr number_equal(Schema *s, const JsonNode *j);
Expr number_multiple(Schema *s, const JsonNode *j);
void number_begin(Schema *s); /* for number_spelled; the document has been read */
/* Of the numbers e of a set, the spellings that a text may have: a bounded number of digits, and
 * one spelling for each if the set's schemas ask for integers or listed values. */
Expr number_spelled(Schema *s, SetId id, Expr e);

/* ---- schema_format.c ------------------------------------------------------------------------- */

/* The strings of a format; if it is unknown, all strings, and s->unknown gets its name. */
Expr format_strings(Schema *s, const JsonNode *j);
bool is_format(const Schema *s, Expr e); /* a result of format_strings; each matches some string */

/* ---- schema_shapes.c ------------------------------------------------------------------------- */

Shape  shape_any(Schema *s); /* all objects, and all arrays */
Shapes shapes_one(Schema *s, const Shape *shape);
Shapes shapes_and(Schema *s, Shapes a, Shapes b, ValueType type, const JsonNode *at);
Shapes shapes_or(Schema *s, Shapes a, Shapes b, const JsonNode *at);
SetId  shape_child(Schema *s, const Shape *shape, const char *name, uint32_t n);
Shape  shape_with_name(Schema *s, const JsonNode *name, Presence presence, SetId child);

/* ---- schema_expand.c ------------------------------------------------------------------------- */

/* The arrays or objects of a literal. */
Shapes shapes_of(Schema *s, SetLiteral l, ValueType type);
/* schema_direct.c: what the keywords of a schema allow that are about arrays or objects and contain
 * no schema of the whole value; and the complement. */
Shapes direct_shapes(Schema *s, const JsonNode *schema, ValueType type);
Shapes direct_opposite(Schema *s, const JsonNode *schema, ValueType type);

/* ---- schema_grammar.c ------------------------------------------------------------------------ */

/* The grammar of one value of the set. */
Symbol set_symbol(Schema *s, SetId id);
Expr   set_scalars(Schema *s, SetId id); /* its values that are neither object nor array */
Symbol symbol_row(Schema *s, const Symbol *part, size_t n);    /* one after the other */
Symbol symbol_choice(Schema *s, const Symbol *part, size_t n);  /* one of them */
Symbol symbol_times(Schema *s, Symbol part, uint32_t min, uint32_t max);
static inline bool symbol_is_nothing(Symbol y) { return !y.is_rule && y.id == EXPR_NOTHING; }
Symbol object_symbol(Schema *s, const Shape *shape); /* schema_object.c */
Symbol array_symbol(Schema *s, const Shape *shape);  /* schema_array.c */

#endif
