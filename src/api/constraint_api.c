/* api/constraint_api.c: constraints over a model's vocabulary, and texts held against them. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/progress.h"
#include "constrain/constrain.h"

struct tblock_constraint {
    Constraint      *engine;
    const Tokenizer *tokenizer; /* NULL: bytes alone */
    TokenTrie       *trie;
    /* Whole nanoseconds: no arithmetic of floats between the switches of the host's settings. */
    TextOut          times;           /* int64_t of each mask */
    int64_t          compile_ns;
    char            *unknown_formats; /* NULL: none */
};

/* ---- The vocabulary -------------------------------------------------------------------------- */

typedef struct Pieces { const Tokenizer *t; TextStream *stream; TextOut bytes; } Pieces;

/* The bytes of one token in the midst of a text. */
static const char *text_of(void *user, int id, size_t *n)
{
    Pieces *p = user;
    p->bytes.n = 0;
    if (!tokenizer_is_text(p->t, id))
        return NULL;
    const char *part = text_stream_put(p->stream, id, n);
    text_out_bytes(&p->bytes, part, *n);
    part = text_stream_flush(p->stream, n);
    text_out_bytes(&p->bytes, part, *n);
    *n = p->bytes.n;
    return p->bytes.failed ? NULL : p->bytes.text;
}

static TokenTrie *trie_of(const Tokenizer *t, Error *err)
{
    Pieces     p = { .t = t, .stream = text_stream_new(t, true) };
    TokenTrie *trie = p.stream ? token_trie_new(tokenizer_size(t), text_of, &p, err) : NULL;
    if (trie && p.bytes.failed) {
        token_trie_free(trie);
        trie = NULL;
    }
    if (!trie)
        no_memory("vocabulary", err);
    text_stream_free(p.stream);
    text_out_free(&p.bytes);
    return trie;
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
    tblock_constraint *c = calloc(1, sizeof *c);
    if (!c) {
        no_memory(name, err);
        return NULL;
    }
    TextOut unknown = { 0 };
    c->engine = compile(kind, text, n_bytes, name, &unknown, err);
    bool told = !unknown.n || (c->unknown_formats = text_out_take(&unknown, err)) != NULL;
    text_out_free(&unknown);
    c->compile_ns = clock_ns() - begun;
    c->tokenizer = m ? m->tokenizer : NULL;
    if (c->engine && told && (!c->tokenizer || (c->trie = trie_of(c->tokenizer, err))))
        return c;
    tblock_constraint_free(c);
    return NULL;
}

tblock_constraint *tblock_constraint_new(const tblock_model *m, int kind, const char *text,
                                         size_t n_bytes, const char *name, tblock_error *err)
{
    HOST_ENV_RETURN(tblock_constraint *,
                    constraint_make_for(m, kind, text, n_bytes, name, err));
}

void tblock_constraint_free(tblock_constraint *c)
{
    if (!c)
        return;
    constraint_free(c->engine);
    token_trie_free(c->trie);
    text_out_free(&c->times);
    free(c->unknown_formats);
    free(c);
}

const char *tblock_constraint_unknown_formats(const tblock_constraint *c)
{
    return c->unknown_formats ? c->unknown_formats : "";
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* One token further; *state is STATE_DEAD if the token may not come there. */
static bool take_token(tblock_constraint *c, ConstraintState *state, int32_t id, const char *bytes,
                       size_t n, Error *err)
{
    int64_t         begun = clock_ns();
    const uint64_t *mask = constraint_mask(c->engine, c->trie, *state, err);
    int64_t         taken = clock_ns() - begun;
    if (!mask || !text_out_add(&c->times, (const char *)&taken, sizeof taken, err))
        return false;
    if (!(mask[id / 64] >> id % 64 & 1)) {
        *state = STATE_DEAD;
        return true;
    }
    return constraint_advance(c->engine, state, bytes, n, err);
}

/* Do the tokens spell the text? */
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

static bool take_tokens(tblock_constraint *c, ConstraintState *state, const char *text,
                        size_t n_bytes, Error *err)
{
    Pieces p = { .t = c->tokenizer, .stream = text_stream_new(c->tokenizer, true) };
    Ids    ids = { 0 };
    bool   good = (p.stream || no_memory(NULL, err))
             && tokenizer_encode(c->tokenizer, text, n_bytes, false, false, &ids, err);
    if (good && !tokens_spell(&p, &ids, text, n_bytes))
        good = constraint_advance(c->engine, state, text, n_bytes, err);
    else
        for (size_t i = 0; good && i < ids.n && *state != STATE_DEAD; i++) {
            size_t      n = 0;
            const char *bytes = text_of(&p, ids.id[i], &n);
            good = take_token(c, state, ids.id[i], bytes, n, err);
        }
    if (good && p.bytes.failed)
        good = no_memory(NULL, err);
    free(ids.id);
    text_stream_free(p.stream);
    text_out_free(&p.bytes);
    return good;
}

static bool accepts_text(tblock_constraint *c, const char *text, size_t n_bytes, bool *accepts,
                         Error *err)
{
    ConstraintState state = constraint_start(c->engine);
    *accepts = false;
    if (c->tokenizer ? !take_tokens(c, &state, text, n_bytes, err)
                     : !constraint_advance(c->engine, &state, text, n_bytes, err))
        return false;
    *accepts = constraint_may_end(c->engine, state);
    return true;
}

bool tblock_constraint_accepts(tblock_constraint *c, const char *text, size_t n_bytes,
                               bool *accepts, tblock_error *err)
{
    HOST_ENV_RETURN(bool, accepts_text(c, text, n_bytes, accepts, err));
}

static int ascending(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void tblock_constraint_measure(const tblock_constraint *c, tblock_constraint_times *out)
{
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
