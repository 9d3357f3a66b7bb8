/* constrain/grammar_parts.h: shared by the files of this room. */
#ifndef CONSTRAIN_GRAMMAR_PARTS_H
#define CONSTRAIN_GRAMMAR_PARTS_H

#include <string.h>
#include "base/hash.h"
#include "constrain/constrain.h"

/* ---- words.c --------------------------------------------------------------------------------- */

/* A growing array of words; start with a zeroed one and release word with free(). */
typedef struct Words { uint32_t *word; size_t n, cap; } Words;

bool words_add(Words *w, const uint32_t *word, size_t n); /* false: no memory */

/* Interned rows of words: each is stored once, and numbered from 0 in the order of first use. Start
 * with a zeroed one. Numbers never depend on the seed of the hash. */
typedef struct Interned {
    Words    words, start; /* row i lies from start[i] up to start[i + 1] or the end */
    uint32_t *slot;        /* number + 1; 0: empty */
    size_t   mask;
    HashSeed seed;
} Interned;

/* The number of this row. *known: was it there already? False: no memory. Rows may move. */
bool interned_put(Interned *t, const uint32_t *row, size_t n, uint32_t *number, bool *known);
void interned_empty(Interned *t); /* keeps small buffers */
void interned_free(Interned *t);

static inline const uint32_t *interned_row(const Interned *t, uint32_t number)
{
    return t->words.word + t->start.word[number];
}
static inline size_t interned_length(const Interned *t, uint32_t number)
{
    size_t to = number + 1u < t->start.n ? t->start.word[number + 1] : t->words.n;
    return to - t->start.word[number];
}

/* ---- grammar.c ------------------------------------------------------------------------------- */

typedef struct GrammarRule {
    char    *name;
    Words    alternatives; /* each: n, then n pairs of id and is_rule */
    uint32_t n_alternatives;
    bool     repeats;      /* its one alternative has one symbol, to be repeated */
    uint32_t min, max;
} GrammarRule;

/* Facts of an expression besides its row: a superset of the bytes that a match can begin with;
 * which bytes it may distinguish as the next one. */
enum { ALIVE = 1, NOTHING_LEFT = 2 };
typedef struct ExprFact {
    ByteSet  first;
    uint32_t split;
    uint8_t  alive; /* 0: not known yet */
} ExprFact;

struct Grammar {
    Interned     exprs;
    ExprFact    *fact;       /* of each expression */
    size_t       cap_facts;
    Interned     steps;      /* (expression, class) ... */
    Words        stepped;    /* ... to the expression after a byte of the class */
    Interned     splits;     /* each: 256 bytes, for each byte the first that is like it */
    Interned     meets;      /* two splits ... */
    Words        met;        /* ... as one */
    uint8_t      class_of[256], class_byte[256]; /* of a byte; one byte of a class */
    int          n_classes;
    size_t       n_classed;  /* expressions that the classes already cover */
    Words        stack;      /* scratch; each function uses it from its current end on */
    int          depth;
    GrammarRule *rule;
    size_t       n_rules, cap_rules;
    size_t       work;       /* since it began, or since the last state was made */
    size_t       most_exprs; /* higher when it runs than when it is built */
    bool         names_once; /* its texts are JSON, and no object has duplicate names */
    bool         failed;
    Error        why;
};
/* A unit of work takes some 30 ns, so this many take under a second. */
enum { MOST_WORK = 20000000, EXPRS_BUILT = 1 << 19, EXPRS_RUN = 1 << 20 };

/* Make g fail with INPUT. Always returns false. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
bool grammar_wrong(Grammar *g, const char *format, ...);
bool grammar_no_memory(Grammar *g);
/* Replace a rule that repeats by rules that do not. */
void grammar_spell_repeat(Grammar *g, Rule rule);

/* ---- expr.c ---------------------------------------------------------------------------------- */

/* A row is a head (kind and flags), then: BYTES the set; SEQ head and rest, where the head is no
 * SEQ; ALT and AND their operands, ascending; NOT its operand; REPEAT its operand, min, max. */
enum { BYTES, EMPTY, SEQ, ALT, AND, NOT, REPEAT };
enum {
    KIND = 255,
    NULLABLE = 256,
    COMPLEX = 512, /* contains AND or NOT: may match nothing without showing it */
    COUNTS = 1024  /* contains a counting REPEAT, not inside AND, NOT, REPEAT */
};

static inline const uint32_t *row_of(const Grammar *g, Expr e)
{
    return interned_row(&g->exprs, e);
}
static inline size_t row_length(const Grammar *g, Expr e)
{
    return interned_length(&g->exprs, e);
}
static inline uint32_t flags_of(const Grammar *g, Expr e) { return *row_of(g, e); }
static inline uint32_t kind_of(const Grammar *g, Expr e) { return *row_of(g, e) & KIND; }

/* Push e to the stack, or its operands if it is of this kind (ALT or AND) itself. */
bool expr_push(Grammar *g, uint32_t kind, Expr e);
/* Join the stack from `from` on, and pop it. */
Expr expr_join(Grammar *g, uint32_t kind, size_t from);

static inline bool bytes_have(const ByteSet *s, unsigned byte)
{
    return s->bits[byte / 64] >> byte % 64 & 1;
}
static inline ByteSet bytes_of(const Grammar *g, Expr e)
{
    ByteSet set;
    memcpy(&set, row_of(g, e) + 1, sizeof set);
    return set;
}
static inline void bytes_put(ByteSet *s, unsigned byte) { s->bits[byte / 64] |= 1ull << byte % 64; }

bool expr_begin(Grammar *g); /* makes EXPR_NOTHING and EXPR_EMPTY */
/* The common refinement: the bytes that a or b distinguishes. */
uint32_t split_meet(Grammar *g, uint32_t a, uint32_t b);
/* The first class that the split treats like this one. */
static inline unsigned split_class(const Grammar *g, uint32_t split, unsigned class)
{
    const uint8_t *like = (const uint8_t *)interned_row(&g->splits, split);
    return g->class_of[like[g->class_byte[class]]];
}
/* e with its first counts lowered to `most`, but not inside AND and NOT. Both match the same
 * strings of fewer bytes, and the same strings of `most` bytes are prefixes of their matches. */
Expr expr_clamp(Grammar *g, Expr e, uint32_t most);
/* If e begins with a repetition: what is repeated, and at most how often; else EXPR_NOTHING. */
Expr expr_repeated(const Grammar *g, Expr e, uint32_t *max);

/* The number of expressions that follow one another in e. */
size_t expr_length(const Grammar *g, Expr e);

/* ---- expr_step.c ----------------------------------------------------------------------------- */

/* Bytes that no expression distinguishes are one class. Call it before expr_step. */
void expr_classes(Grammar *g);
/* The derivative: what may follow a byte of the class in a match of e; EXPR_NOTHING: nothing. */
Expr expr_step(Grammar *g, Expr e, unsigned class);

/* ---- grammar_plan.c -------------------------------------------------------------------------- */

/* A grammar in the form that runs. A dot is a position in an alternative: the symbols of all
 * alternatives are in one array, with an end after each alternative, so the next dot is dot + 1. */
enum { DOT_END, DOT_EXPR, DOT_RULE, DOT_BITS = 2 };
enum { DOT_ACCEPT = 0 }; /* the end of the whole text */

typedef struct GrammarPlan {
    Words     dot;         /* each: its number << DOT_BITS | what it is */
    Words     alternative; /* the first dot of each */
    Words     rule;        /* its first alternative; one more entry at the end */
    uint8_t  *nullable;    /* of a rule */
    /* Rules that can begin with one another before any byte share a component. A rule that begins
     * another, but not the other way round, has a lower component. */
    uint32_t *component;
    uint8_t  *recursive;   /* may the rule begin with itself like this? */
} GrammarPlan;

/* Rule 0 is the start. what begins messages. False: g has failed. */
bool grammar_plan_make(GrammarPlan *p, Grammar *g, Rule start);
void grammar_plan_free(GrammarPlan *p);

/* ---- constraint.c ---------------------------------------------------------------------------- */

/* The cache of masks of states. */
typedef struct MaskCache MaskCache;
void mask_cache_free(MaskCache *m); /* mask.c */
typedef struct Names Names; /* names.c */

/* What a text may still be is a set of items: an expression in progress, the dot of its symbol, and
 * what follows the end of the dot's rule. */
typedef struct ParseItem { uint32_t expr, dot, follow; } ParseItem;

/* Holds unless the grammar has failed, for example when a table is full (constraint_is_sound):
 * - State 0 is the dead one, which has no items and leads nowhere; row 0 of follows is the end of
 *   the text. States and rows are never changed or removed, so their numbers stay valid.
 * - The items of a state ascend. Each is before an expression (not a rule, not the end), and its
 *   follow is an existing row. A row refers to rows before it (not asserted).
 * - next has room for every state, and leads to existing states.
 * - start is a state; if names are tracked, a row of names (names.c) that has one. */
struct Constraint {
    Grammar    *g;
    GrammarPlan plan;
    Interned    follows;      /* what follows a rule: constraint.c says how */
    Interned    states;       /* each: may the text end here?, then the items, ascending */
    uint32_t   *next;         /* [state][class]; NOT_MADE */
    size_t      cap_next;     /* states that it has room for */
    Interned    seen;         /* scratch of the closure: pairs of dot and reference ... */
    Words       items, waits, follow, copy;
    uint32_t   *resolved;     /* of each rule: what follows it in the closure being made */
    bool        may_end;
    ConstraintState start;
    Expr       plain;        /* a character that a JSON string holds unescaped */
    Interned   plain_known;  /* expressions whose steps over plain text mask.c knows */
    Words      plain_facts, plain_after;
    MaskCache *masks;
    Names     *names;        /* NULL: objects may have duplicate names */
};
#define NOT_MADE UINT32_MAX

/* Computes the state after a byte of the class. NOT_MADE: failed, as constraint_advance. */
ConstraintState constraint_make(Constraint *c, ConstraintState state, unsigned class, Error *err);
/* A state with the same continuations of at most `most` bytes; often the same one for states that
 * differ only in how far they have counted. NOT_MADE: failed. */
ConstraintState constraint_clamp(Constraint *c, ConstraintState state, uint32_t most, Error *err);

static inline ConstraintState constraint_next(Constraint *c, ConstraintState state, unsigned class,
                                              Error *err)
{
    ConstraintState next = c->next[(size_t)state * (size_t)c->g->n_classes + class];
    return next != NOT_MADE ? next : constraint_make(c, state, class, err);
}

/* mask.c: the mask of a state of the automaton. */
const uint64_t *state_mask(Constraint *c, const TokenTrie *t, ConstraintState state, Error *err);

/* ---- names.c --------------------------------------------------------------------------------- */

/* If names are tracked, a ConstraintState stands for a state of the automaton and those names:
 * names_state gives the former. The others are the functions of constrain.h for that case.
 * names_begin makes c->start one of them; false: c->g has failed. */
bool            names_begin(Constraint *c);
void            names_free(Names *n);
uint32_t        names_state(const Names *n, ConstraintState number);
bool            names_advance(Constraint *c, ConstraintState *state, const char *bytes, size_t n,
                              Error *err);
const uint64_t *names_mask(Constraint *c, const TokenTrie *t, ConstraintState state, Error *err);

#endif
