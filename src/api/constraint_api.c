/* api/constraint_api.c: constraints over a model's vocabulary, and texts checked against them. */
#include "api/fitting.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/progress.h"

typedef struct Pieces {
    const Tokenizer *t;
    TextStream      *stream;
    char             special[SPECIAL_BYTES];
} Pieces;

struct tblock_constraint {
    Constraint      *engine, *lead;   /* lead: of the text before engine's; NULL: none */
    bool             lead_may_end;    /* the text may end in the lead */
    const TokenTrie *trie;      /* of the model; NULL: over bytes */
    Pieces           pieces;    /* of its tokenizer */
    /* Whole nanoseconds: no float arithmetic between the switches of the host's settings. */
    TextOut          times;           /* int64_t of each mask */
    int64_t          compile_ns;
    char            *unknown_formats; /* NULL: none */
    int              kind;            /* as in ConstraintText */
    char            *text;            /* [n_text] */
    size_t           n_text;
};

/* ---- The vocabulary -------------------------------------------------------------------------- */

/* Bytes that mean nothing in JSON, with six bits each. */
void special_bytes(char out[SPECIAL_BYTES], int id)
{
    out[0] = (char)NO_TEXT;
    for (int i = 1; i < SPECIAL_BYTES; i++, id >>= 6)
        out[i] = (char)(0x80 | (id & 63));
}

/* The bytes of one token inside a text, or those that stand for a special one. NULL: none. */
static const char *text_of(void *user, int id, size_t *n)
{
    Pieces *p = user;
    if (tokenizer_is_text(p->t, id)) {
        const char *text = text_stream_alone(p->stream, id, n);
        return memchr(text, NO_TEXT, *n) ? NULL : text;
    }
    special_bytes(p->special, id);
    *n = sizeof p->special;
    return tokenizer_is_special(p->t, id) ? p->special : NULL;
}

static TokenTrie *trie_make(const Tokenizer *t, Error *err)
{
    Pieces     p = { .t = t, .stream = text_stream_new(t, true) };
    TokenTrie *trie = p.stream ? token_trie_new(tokenizer_size(t), text_of, &p, err) : NULL;
    if (!trie)
        no_memory("vocabulary", err);
    text_stream_free(p.stream);
    return trie;
}

/* The model's, made by the first that needs it. If two threads make it at once, one frees its
 * own. */
static const TokenTrie *trie_of(const tblock_model *m, Error *err)
{
    _Atomic(TokenTrie *) *place = &((tblock_model *)m)->trie;
    TokenTrie            *known = atomic_load(place), *made;
    if (known || !(made = trie_make(m->tokenizer, err)))
        return known;
    if (atomic_compare_exchange_strong(place, &known, made))
        return made;
    token_trie_free(made);
    return known;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static Constraint *compile(int kind, const char *text, size_t n, const char *name,
                           TextOut *unknown, Error *err)
{
    Grammar *g = grammar_new(err);
    Rule     root = 0;
    if (!g)
        return NULL;
    if (kind == TBLOCK_REGEX)
        return constraint_of_expr(g, expr_regex(g, text, n, false, CHARS_UTF8, name), name, err);
    if (kind == TBLOCK_GRAMMAR)
        grammar_read_gbnf(g, text, n, name, &root);
    else
        grammar_read_schema(g, text, n,
                            &(SchemaOptions){ kind == TBLOCK_JSON_SCHEMA_ANY_ORDER }, name, unknown,
                            &root);
    return constraint_new(g, root, name, err);
}

static bool take_vocabulary(tblock_constraint *c, const tblock_model *m, Error *err)
{
    c->pieces = (Pieces){ .t = m->tokenizer, .stream = text_stream_new(m->tokenizer, true) };
    c->trie   = c->pieces.stream ? trie_of(m, err) : NULL;
    return c->pieces.stream ? c->trie != NULL : no_memory("vocabulary", err);
}

tblock_constraint *constraint_over(const tblock_model *m, Constraint *engine, int64_t begun,
                                   const char *name, Error *err)
{
    tblock_constraint *c = engine ? calloc(1, sizeof *c) : NULL;
    if (engine && !c) {
        constraint_free(engine);
        no_memory(name, err);
    }
    if (!c)
        return NULL;
    c->engine     = engine;
    c->compile_ns = clock_ns() - begun;
    if (!m || take_vocabulary(c, m, err))
        return c;
    tblock_constraint_free(c);
    return NULL;
}

tblock_constraint *constraint_behind(tblock_constraint *c, Constraint *lead, bool may_end)
{
    if (c && lead) {
        c->lead         = lead;
        c->lead_may_end = may_end;
        return c;
    }
    constraint_free(lead);
    tblock_constraint_free(c);
    return NULL;
}

bool constraint_sleeps(const tblock_constraint *c) { return c && c->lead_may_end; }

bool constraint_keep_text(tblock_constraint *c, int kind, const char *text, size_t n, Error *err)
{
    c->kind   = kind;
    c->n_text = n;
    c->text   = malloc(n + 1);
    if (c->text && n)
        memcpy(c->text, text, n);
    return c->text || no_memory(NULL, err);
}

ConstraintText constraint_text(const tblock_constraint *c)
{
    return (ConstraintText){ c->kind, c->text, c->n_text };
}

static tblock_constraint *constraint_make_for(const tblock_model *m, int kind, const char *text,
                                              size_t n_bytes, const char *name, Error *err)
{
    int64_t begun = clock_ns();
    if (kind < TBLOCK_REGEX || kind > TBLOCK_JSON_SCHEMA_ANY_ORDER) {
        fail(err, USAGE, "kind: expected a tblock_constraint_kind, found %d", kind);
        return NULL;
    }
    if (m && !m->tokenizer) {
        fail(err, INPUT, "%s: a constraint needs a tokenizer, found a model without one", name);
        return NULL;
    }
    TextOut            unknown = { 0 };
    Constraint        *engine  = compile(kind, text, n_bytes, name, &unknown, err);
    tblock_constraint *c       = constraint_over(m, engine, begun, name, err);
    if (c && (!constraint_keep_text(c, kind, text, n_bytes, err)
              || (unknown.n && !(c->unknown_formats = text_out_take(&unknown, err))))) {
        tblock_constraint_free(c);
        c = NULL;
    }
    text_out_free(&unknown);
    return c;
}

tblock_constraint *tblock_constraint_new(const tblock_model *m, int kind, const char *text,
                                         size_t n_bytes, const char *name, tblock_error *err)
{
    NEED(NULL, err, text || !n_bytes, name);
    HOST_ENV_RETURN(tblock_constraint *,
                    constraint_make_for(m, kind, text, n_bytes, name, err));
}

void tblock_constraint_free(tblock_constraint *c)
{
    if (!c)
        return;
    constraint_free(c->engine);
    constraint_free(c->lead);
    text_stream_free(c->pieces.stream);
    text_out_free(&c->times);
    free(c->unknown_formats);
    free(c->text);
    free(c);
}

const char *tblock_constraint_unknown_formats(const tblock_constraint *c)
{
    NEED(NULL, NULL, c);
    return c->unknown_formats ? c->unknown_formats : "";
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static FitPlace place_begin(const tblock_constraint *c)
{
    Constraint *first = c->lead ? c->lead : c->engine;
    return (FitPlace){ first, constraint_start(first) };
}

/* The lead ends as soon as it may. */
static bool place_advance(const tblock_constraint *c, FitPlace *place, const char *bytes, size_t n,
                          Error *err)
{
    FitPlace p = *place;
    for (; n && p.engine == c->lead; n--, bytes++) {
        if (!constraint_advance(p.engine, &p.state, bytes, 1, err))
            return false;
        if (constraint_may_end(p.engine, p.state))
            p = (FitPlace){ c->engine, constraint_start(c->engine) };
    }
    if (!constraint_advance(p.engine, &p.state, bytes, n, err))
        return false;
    *place = p;
    return true;
}

static bool place_may_end(const tblock_constraint *c, const FitPlace *p)
{
    return p->engine == c->lead ? c->lead_may_end && p->state != STATE_DEAD
                                : constraint_may_end(p->engine, p->state);
}

/* Advance by one token; the state is STATE_DEAD if the token is not allowed. */
static bool take_token(tblock_constraint *c, FitPlace *p, int32_t id, const char *bytes, size_t n,
                       Error *err)
{
    int64_t         begun = clock_ns();
    const uint64_t *mask = constraint_mask(p->engine, c->trie, p->state, err);
    int64_t         taken = clock_ns() - begun;
    if (!mask || !text_out_add(&c->times, (const char *)&taken, sizeof taken, err))
        return false;
    if (!(mask[id / 64] >> id % 64 & 1)) {
        p->state = STATE_DEAD;
        return true;
    }
    return place_advance(c, p, bytes, n, err);
}

/* Do the tokens decode to the text? */
static bool tokens_spell(Pieces *p, const Ids *ids, const char *text, size_t n_bytes)
{
    size_t at = 0;
    for (size_t i = 0; i < ids->n; i++) {
        size_t      n = 0;
        const char *bytes = text_of(p, ids->id[i], &n);
        if (!bytes || n > n_bytes - at || memcmp(bytes, text + at, n) != 0)
            return false;
        at += n;
    }
    return at == n_bytes;
}

static bool take_tokens(tblock_constraint *c, FitPlace *place, const char *text, size_t n_bytes,
                        Error *err)
{
    Pieces *p = &c->pieces;
    Ids     ids = { 0 };
    bool    good = tokenizer_encode(p->t, text, n_bytes, false, false, &ids, err);
    if (good && !tokens_spell(p, &ids, text, n_bytes))
        good = place_advance(c, place, text, n_bytes, err);
    else
        for (size_t i = 0; good && i < ids.n && place->state != STATE_DEAD; i++) {
            size_t      n = 0;
            const char *bytes = text_of(p, ids.id[i], &n);
            good = take_token(c, place, ids.id[i], bytes, n, err);
        }
    free(ids.id);
    return good;
}

static bool accepts_text(tblock_constraint *c, const char *text, size_t n_bytes, bool *accepts,
                         Error *err)
{
    FitPlace place = place_begin(c);
    *accepts       = false;
    if (!(c->trie ? take_tokens(c, &place, text, n_bytes, err)
                  : place_advance(c, &place, text, n_bytes, err)))
        return false;
    *accepts = place_may_end(c, &place);
    return true;
}

bool tblock_constraint_accepts(tblock_constraint *c, const char *text, size_t n_bytes,
                               bool *accepts, tblock_error *err)
{
    NEED(false, err, c, text || !n_bytes, accepts);
    HOST_ENV_RETURN(bool, accepts_text(c, text, n_bytes, accepts, err));
}

static int ascending(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void tblock_constraint_measure(const tblock_constraint *c, tblock_constraint_times *out)
{
    NEED(, NULL, c, out);
    size_t n = c->times.n / sizeof(int64_t);
    *out = (tblock_constraint_times){ .compile_s = 1e-9 * (double)c->compile_ns, .n_masks = n };
    int64_t *sorted = n ? malloc(c->times.n) : NULL, sum = 0;
    if (!sorted)
        return;
    memcpy(sorted, c->times.text, c->times.n);
    out->first_s = 1e-9 * (double)sorted[0];
    for (size_t i = 0; i < n; i++)
        sum += sorted[i];
    qsort(sorted, n, sizeof *sorted, ascending);
    out->mean_s = 1e-9 * (double)sum / (double)n;
    out->p99_s = 1e-9 * (double)sorted[(n - 1) * 99 / 100];
    out->max_s = 1e-9 * (double)sorted[n - 1];
    free(sorted);
}

/* ---- In generations -------------------------------------------------------------------------- */

static size_t n_words(int n_bits) { return ((size_t)n_bits + 63) / 64; }

bool fitting_begin(Fitting *f, const tblock_model *m, Error *err)
{
    if (!f->constraint)
        return true;
    if (!m->tokenizer || f->constraint->pieces.t != m->tokenizer)
        return fail(err, USAGE, "constraint: expected one made with the model of the context");
    f->at      = place_begin(f->constraint);
    f->allowed = malloc((n_words(f->vocab_size) + 1) * sizeof *f->allowed);
    return f->allowed || no_memory(NULL, err);
}

bool fitting_awake(const Fitting *f)
{
    return constraint_sleeps(f->constraint) && f->at.engine != f->constraint->lead;
}

void fitting_end(Fitting *f) { free(f->allowed); }

/* Set or clear the bits of the tokens that end the text. */
static void allow_ends(Fitting *f, bool allow)
{
    for (size_t i = 0; i < f->n_end; i++) {
        const int32_t id = f->end[i];
        if (id < 0 || id >= f->vocab_size)
            continue;
        const uint64_t bit = 1ull << id % 64;
        f->allowed[id / 64] = (f->allowed[id / 64] & ~bit) | (allow ? bit : 0);
    }
}

static void count_texts(Fitting *f)
{
    f->n_texts = 0;
    for (size_t i = 0; i < n_words(f->vocab_size) && f->n_texts < 2; i++)
        for (uint64_t left = f->allowed[i]; left && f->n_texts < 2; left &= left - 1) {
            f->only = (int32_t)(64 * i) + __builtin_ctzll(left);
            f->n_texts++;
        }
}

bool fitting_allow(Fitting *f, Error *err)
{
    tblock_constraint *c    = f->constraint;
    if (f->known.engine == f->at.engine && f->known.state == f->at.state)
        return true;
    f->known = (FitPlace){ NULL, STATE_DEAD };
    const uint64_t    *mask = constraint_mask(f->at.engine, c->trie, f->at.state, err);
    const int          n    = token_trie_size(c->trie);
    const size_t       all  = n_words(f->vocab_size), known = n_words(n);
    if (!mask)
        return false;
    for (size_t i = 0; i < all; i++)
        f->allowed[i] = i < known ? mask[i] : 0;
    if (n > f->vocab_size && f->vocab_size % 64)
        f->allowed[all - 1] &= (1ull << f->vocab_size % 64) - 1;
    f->may_end = place_may_end(c, &f->at);
    allow_ends(f, false);
    count_texts(f);
    allow_ends(f, f->may_end);
    if (!f->may_end && !f->n_texts)
        return fail(err, INPUT, "constraint: no token of the vocabulary goes on with the text");
    f->known = f->at;
    return true;
}

bool fitting_take(Fitting *f, int32_t id, Error *err)
{
    size_t      n     = 0;
    Pieces     *p     = &f->constraint->pieces;
    const char *bytes = text_of(p, id, &n);
    return place_advance(f->constraint, &f->at, bytes ? bytes : "", bytes ? n : 0, err);
}

size_t fitting_forced(Fitting *f, int32_t *out, size_t most)
{
    const FitPlace at = f->at;
    size_t         n  = 0;
    while (n < most && fitting_allow(f, NULL) && f->n_texts == 1 && !f->may_end) {
        out[n++] = f->only;
        if (!fitting_take(f, f->only, NULL))
            break;
    }
    f->at = at;
    return n;
}

size_t fitting_likely(Fitting *f, int32_t *out, size_t most)
{
    enum { AHEAD = 256 };
    char   bytes[AHEAD];
    size_t n_bytes = constraint_forced(f->at.engine, f->at.state, bytes, sizeof bytes);
    size_t n = 0, at = 0, n_token;
    for (; n < most && at < n_bytes; at += n_token) {
        int32_t id = token_trie_longest(f->constraint->trie, bytes + at, n_bytes - at, &n_token);
        if (id < 0 || id >= f->vocab_size || at + n_token == n_bytes)
            break;
        out[n++] = id;
    }
    return n;
}
