/* constrain/constrain.h: structured output: which bytes and tokens may come next.
 *
 * This room has regular expressions over bytes, grammars over them, the recogniser that runs both,
 * and the front ends that make them: regular expressions, GBNF, JSON Schema. It knows token bytes
 * as a list of byte strings, and nothing of models, sampling or the command line.
 *
 * A grammar is built (Grammar), finished once (constraint_new), and then run (Constraint). While it
 * is built, the first failure stays in it and later calls do nothing: check only at the end, or
 * where it matters, with grammar_failed. */
#ifndef CONSTRAIN_CONSTRAIN_H
#define CONSTRAIN_CONSTRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/text.h"
#include "tokenizer/regex.h"

/* ---- grammar.c: what is built ---------------------------------------------------------------- */

typedef struct Grammar Grammar;

Grammar *grammar_new(Error *err); /* NULL: SYSTEM, no memory */
void     grammar_free(Grammar *g); /* NULL is fine; not after constraint_new took it */

/* The first failure, or false. Copies it to *err, which may be NULL. */
bool grammar_failed(const Grammar *g, Error *err);
/* Make the grammar fail with this error, unless it has failed before. */
void grammar_fail(Grammar *g, const Error *why);
/* Count this many more units of work, of building or since the last state was made. False: that is
 * too much, and g has failed. Work is counted, not timed, so every machine decides alike. */
bool grammar_work(Grammar *g, size_t units);

/* ---- expr.c: regular expressions over bytes -------------------------------------------------- */

/* Equal expressions have equal numbers, so `==` compares them (equal in form, up to the order of
 * alternatives and the simplest laws; two different numbers may still match the same strings).
 * After a failure every function returns EXPR_NOTHING. */
typedef uint32_t Expr;
enum { EXPR_NOTHING = 0, /* matches no string */ EXPR_EMPTY = 1 /* only the empty string */ };

typedef struct ByteSet { uint64_t bits[4]; } ByteSet;

#define REPEAT_FOREVER UINT32_MAX

Expr expr_bytes(Grammar *g, ByteSet set);                  /* one byte of the set */
Expr expr_range(Grammar *g, uint8_t first, uint8_t last);  /* one byte, first .. last */
Expr expr_text(Grammar *g, const char *bytes, size_t n);   /* exactly these bytes */
Expr expr_seq(Grammar *g, Expr a, Expr b);
Expr expr_alt(Grammar *g, Expr a, Expr b);
Expr expr_alt_list(Grammar *g, const Expr *e, size_t n);   /* n = 0: EXPR_NOTHING */
Expr expr_and(Grammar *g, Expr a, Expr b);                 /* strings that both match */
/* all other byte strings, UTF-8 or not */
Expr expr_not(Grammar *g, Expr e);
Expr expr_minus(Grammar *g, Expr a, Expr b);               /* strings of a that b does not match */
Expr expr_repeat(Grammar *g, Expr e, uint32_t min, uint32_t max); /* max: also REPEAT_FOREVER */

bool expr_nullable(const Grammar *g, Expr e);              /* matches the empty string? */
/* Does it match no string at all? Exact. Work is bounded: too much fails with INPUT. */
bool expr_is_nothing(Grammar *g, Expr e);
bool expr_matches(Grammar *g, Expr e, const char *bytes, size_t n);
/* The number of strings it matches; most + 1: more, or one is longer than 200 bytes. */
uint32_t expr_count(Grammar *g, Expr e, uint32_t most);
/* Appends these strings, each ending in NUL. False: expr_count is above most, or g has failed. */
bool expr_texts(Grammar *g, Expr e, uint32_t most, TextOut *out);

/* ---- expr_chars.c, expr_regex.c: characters and patterns ------------------------------------- */

/* How a character is written. CHARS_JSON: as inside the quotes of a JSON string, each in one way:
 * itself if JSON allows it, else \" and the like, else \u00xx in lower case. So a name has one
 * spelling, and the next bytes are often forced. */
typedef enum CharForm { CHARS_UTF8, CHARS_JSON } CharForm;

/* One character of the set, which char_set_sort has sorted. Surrogates in it are ignored. */
Expr expr_chars(Grammar *g, const CharSet *set, CharForm form);
/* Any one character. */
Expr expr_any_char(Grammar *g, CharForm form);
/* This text, which is valid UTF-8, written as `form` says. */
Expr expr_chars_text(Grammar *g, const char *text, size_t n, CharForm form);

/* A pattern in the syntax of ECMA-262 with its flag u (JSON Schema's), plus (?i), (?:...), \A and
 * \z of common engines. search: the text contains a match; else the whole text is one. what begins
 * messages. Fails with INPUT and the position in the pattern ("WHAT: column 4: ...") if it is no
 * pattern, or uses what is not regular or not supported, which the message names: look-around,
 * back-references, word boundaries and others. */
Expr expr_regex(Grammar *g, const char *pattern, size_t n, bool search, CharForm form,
                const char *what);
/* A pattern that is right: all of the text, in UTF-8. */
Expr expr_pattern(Grammar *g, const char *pattern);

/* ---- Rules ----------------------------------------------------------------------------------- */

/* A rule is one of its alternatives; an alternative is a sequence of symbols; a symbol is an
 * expression or a rule. Using a rule without alternatives is an error. Any recursion is allowed.
 * Prefer expressions where there is no recursion: they run faster. */
typedef uint32_t Rule;
typedef struct Symbol { uint32_t id; bool is_rule; } Symbol;

static inline Symbol symbol_expr(Expr e) { return (Symbol){ e, false }; }
static inline Symbol symbol_rule(Rule r) { return (Symbol){ r, true }; }

/* name is copied; it appears in messages. */
Rule grammar_rule(Grammar *g, const char *name);
void grammar_add(Grammar *g, Rule rule, const Symbol *symbols, size_t n); /* n = 0: empty string */
/* The symbol min to max times: an expression if the symbol is one; else a rule, even if the symbol
 * is defined later. Counts of recursive symbols go up to 4096. */
Symbol grammar_repeat(Grammar *g, Symbol symbol, uint32_t min, uint32_t max);
/* The texts are JSON, and an object with a duplicate name does not match, whatever the rules say.
 * The rules must offer a name only if one is left that the object does not have yet. */
void grammar_names_once(Grammar *g);

/* ---- gbnf.c ---------------------------------------------------------------------------------- */

/* Reads a grammar in GBNF, llama.cpp's format; the start is its rule "root". Messages begin with
 * "WHAT:LINE:COLUMN". False: g has failed. docs/constraints.md says what is supported. */
bool grammar_read_gbnf(Grammar *g, const char *text, size_t n, const char *what, Rule *root);

/* ---- schema.c -------------------------------------------------------------------------------- */

typedef struct SchemaOptions {
    bool any_order; /* of properties; else the schema's */
} SchemaOptions;

/* Reads a JSON Schema of n bytes, of 2020-12 or earlier: *root matches the JSON values that it
 * allows. Messages begin with "WHAT: #/pointer". unknown, which may be NULL, gets the names of
 * unknown formats, which are annotations. False: g has failed. docs/constraints.md says what is
 * supported, and in which spelling. */
bool grammar_read_schema(Grammar *g, const char *text, size_t n, const SchemaOptions *options,
                         const char *what, TextOut *unknown, Rule *root);

/* ---- constraint.c: what runs ----------------------------------------------------------------- */

/* One thread at a time may use a constraint: its tables grow as it runs. States are numbers that
 * may be copied and compared freely; equal states allow the same continuations. */
typedef struct Constraint Constraint;
typedef uint32_t ConstraintState;
enum { STATE_DEAD = 0 };

/* Takes ownership of g, also on failure. Fails with g's own failure; INPUT: the start reaches a
 * rule without alternatives, or no text matches. what begins messages. */
Constraint *constraint_new(Grammar *g, Rule start, const char *what, Error *err);
Constraint *constraint_of_expr(Grammar *g, Expr e, const char *what, Error *err); /* the same */
void        constraint_free(Constraint *c); /* NULL is fine */
/* Does its invariant hold (grammar_parts.h)? Takes time proportional to its tables. */
bool        constraint_is_sound(const Constraint *c);

ConstraintState constraint_start(const Constraint *c);
/* Moves *state over these bytes: STATE_DEAD if they are no prefix of a text that matches. False:
 * INPUT, the tables are full; SYSTEM. *state is then unchanged. */
bool constraint_advance(Constraint *c, ConstraintState *state, const char *bytes, size_t n,
                        Error *err);
/* May the text end here? */
bool constraint_may_end(const Constraint *c, ConstraintState state);
/* Finds forced bytes, each the only one that may come before the text may end: at most `most`,
 * perhaps not all. Returns their number. */
size_t constraint_forced(Constraint *c, ConstraintState state, char *bytes, size_t most);

/* ---- token_trie.c, mask.c: which tokens may come next ---------------------------------------- */

/* A vocabulary as a tree of bytes. Immutable: threads and constraints may share it. */
typedef struct TokenTrie TokenTrie;

/* piece(user, id, &n): the bytes of token id, or NULL for one that no text may contain (special
 * tokens). The bytes are copied. NULL: SYSTEM. */
TokenTrie *token_trie_new(int n_vocab, const char *(*piece)(void *user, int id, size_t *n),
                          void *user, Error *err);
void       token_trie_free(TokenTrie *t); /* NULL is fine */
int        token_trie_size(const TokenTrie *t); /* n_vocab */
/* The longest token that is a prefix of these n bytes, and its length; -1: none. */
int32_t    token_trie_longest(const TokenTrie *t, const char *bytes, size_t n, size_t *n_token);

/* Bit id % 64 of bits[id / 64] says whether token id may come next: it may if its bytes lead to no
 * dead state. Tokens without bytes never may. The end token is not covered: see constraint_may_end.
 * bits [(n_vocab + 63) / 64] belongs to the constraint until its next call. A constraint caches the
 * masks of one trie, so use one. NULL: like constraint_advance. */
const uint64_t *constraint_mask(Constraint *c, const TokenTrie *t, ConstraintState state,
                                Error *err);

#endif
