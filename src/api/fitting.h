/* api/fitting.h: the constraint state of a generation (constraint_api.c). */
#ifndef API_FITTING_H
#define API_FITTING_H

#include "api/api.h"
#include "constrain/constrain.h"

/* A constraint sees each special token as five bytes, of which no text has the first. An ordinary
 * token that contains that byte is never allowed. */
enum { SPECIAL_BYTES = 5, NO_TEXT = 0xFF };
void special_bytes(char out[SPECIAL_BYTES], int id);

/* The position of a text in its constraint: a state of one of its engines. */
typedef struct FitPlace { Constraint *engine; ConstraintState state; } FitPlace;

/* The constraint of a generation, its state, and the tokens allowed next. */
typedef struct Fitting {
    tblock_constraint *constraint; /* NULL: none; the rest is then unused */
    FitPlace           at;
    FitPlace           known;      /* the state that the fields below are of; engine NULL: none */
    const int32_t     *end;        /* [n_end] tokens that end the text */
    size_t             n_end;
    int                vocab_size;
    uint64_t          *allowed;    /* [(vocab_size + 63) / 64] bits, as the sampler takes them */
    bool               may_end;    /* true: the tokens of `end` are allowed */
    int                n_texts;    /* allowed tokens other than `end`: 0, 1, or 2 for more */
    int32_t            only;       /* if it is 1, that token */
} Fitting;

/* A constraint over the tokens of m; NULL: over bytes. Takes ownership of the engine, also on
 * failure; NULL fails, with its maker's error. begun: when the making began, by clock_ns. */
tblock_constraint *constraint_over(const tblock_model *m, Constraint *engine, int64_t begun,
                                   const char *name, Error *err);

/* c applies once `lead`, what comes before it, may end; no token crosses that point. may_end: the
 * text may also stop anywhere in the lead; c is lazy there, and stop strings work. Takes ownership
 * of both, also on failure. NULL if either is NULL. */
tblock_constraint *constraint_behind(tblock_constraint *c, Constraint *lead, bool may_end);
bool constraint_sleeps(const tblock_constraint *c); /* can it be lazy? NULL: no */

/* What tblock_constraint_new was given, or what calls_constraint_read reads (api/calls.h); kind 0:
 * the constraint has no text. */
enum { CONSTRAINT_CALLS = TBLOCK_JSON_SCHEMA_ANY_ORDER + 1 };
bool constraint_keep_text(tblock_constraint *c, int kind, const char *text, size_t n, Error *err);
typedef struct ConstraintText { int kind; const char *text; size_t n; } ConstraintText;
ConstraintText constraint_text(const tblock_constraint *c);

/* Start: f has constraint, end, n_end and vocab_size. Fails (USAGE) if the constraint was made for
 * another vocabulary. */
bool fitting_begin(Fitting *f, const tblock_model *m, Error *err);
void fitting_end(Fitting *f); /* frees; accepts a zeroed one */
/* Was it lazy, and has its lead ended? */
bool fitting_awake(const Fitting *f);
/* Compute the allowed tokens at f->at. Fails with INPUT, also at a dead end: the text may not end
 * and no token can follow. */
bool fitting_allow(Fitting *f, Error *err);
/* Advance by one allowed token, which does not end the text. */
bool fitting_take(Fitting *f, int32_t id, Error *err);
/* The forced tokens: each is the only one allowed after those before it; at most `most`. Changes
 * f->allowed. */
size_t fitting_forced(Fitting *f, int32_t *out, size_t most);
/* Draft tokens if the next bytes are forced but not their tokens: the longest, at most `most`;
 * others may be sampled. Not the one that reaches the end of the bytes: a longer one may fit. */
size_t fitting_likely(Fitting *f, int32_t *out, size_t most);

#endif
