/* api/fitting.h: constraints in generations (constraint_api.c). */
#ifndef API_FITTING_H
#define API_FITTING_H

#include "api/api.h"
#include "constrain/constrain.h"

/* To a constraint every special token is five bytes. No text has the first one, and no token that
 * has it may come. */
enum { SPECIAL_BYTES = 5, NO_TEXT = 0xFF };
void special_bytes(char out[SPECIAL_BYTES], int id);

/* Where a text is in its constraint: a state of one of its engines. */
typedef struct FitPlace { Constraint *engine; ConstraintState state; } FitPlace;

/* Where the text of a generation is in its constraint, and what may be drawn there. */
typedef struct Fitting {
    tblock_constraint *constraint; /* NULL: any text fits, and nothing below counts */
    FitPlace           at;
    FitPlace           known;      /* of which the rest says what may be drawn; engine NULL: none */
    const int32_t     *end;        /* [n_end] tokens that end the text */
    size_t             n_end;
    int                vocab_size;
    uint64_t          *allowed;    /* [(vocab_size + 63) / 64] bits, as the sampler takes them */
    bool               may_end;    /* and then the tokens of `end` are allowed */
    int                n_texts;    /* allowed tokens that go on: 0, 1, or 2 for more */
    int32_t            only;       /* the one */
} Fitting;

/* Over the tokens of m; NULL: bytes alone. Takes over the engine, also on failure; NULL fails, and
 * whoever made it has said why. Begun: when that was, by clock_ns. */
tblock_constraint *constraint_over(const tblock_model *m, Constraint *engine, int64_t begun,
                                   const char *name, Error *err);

/* With a lead, which is what comes before: as soon as that may end, c begins. A token that has the
 * end of the lead and more does not come. may_end: the text may also end in the lead, anywhere. So
 * it sleeps there, and stop texts work. Takes over both, also on failure (NULL: one of them is). */
tblock_constraint *constraint_behind(tblock_constraint *c, Constraint *lead, bool may_end);
bool constraint_sleeps(const tblock_constraint *c); /* may it? false for NULL */

/* What tblock_constraint_new was told, or what calls_constraint_read reads (api/calls.h); kind 0:
 * no text says it. */
enum { CONSTRAINT_CALLS = TBLOCK_JSON_SCHEMA_ANY_ORDER + 1 };
bool constraint_keep_text(tblock_constraint *c, int kind, const char *text, size_t n, Error *err);
typedef struct ConstraintText { int kind; const char *text; size_t n; } ConstraintText;
ConstraintText constraint_text(const tblock_constraint *c);

/* Begin: f has constraint, end, n_end and vocab_size. Fails (USAGE) where the constraint was made
 * for another vocabulary. */
bool fitting_begin(Fitting *f, const tblock_model *m, Error *err);
void fitting_end(Fitting *f); /* frees; a zeroed one is accepted */
/* Has its text left a lead in which it slept? */
bool fitting_awake(const Fitting *f);
/* Find what may be drawn at f->at. Fails with INPUT, also where the text may not end and no
 * token goes on. */
bool fitting_allow(Fitting *f, Error *err);
/* One allowed token further, which does not end the text. */
bool fitting_take(Fitting *f, int32_t id, Error *err);
/* The tokens of which each is the only one that may come: at most `most`. Changes what is
 * allowed. */
size_t fitting_forced(Fitting *f, int32_t *out, size_t most);
/* Where the next bytes are sure but not how tokens share them: the longest tokens, at most `most`.
 * Others may be drawn. Not the one that reaches the end of those bytes: a longer one may go on. */
size_t fitting_likely(Fitting *f, int32_t *out, size_t most);

#endif
