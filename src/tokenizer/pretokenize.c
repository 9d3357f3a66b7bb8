/* Pre-tokenizer steps. Each does what tokenizers 0.23 does: tokenizer/pattern.rs and normalizer.rs
 * (split), pre_tokenizers/metaspace.rs. */
#include "tokenizer/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "tokenizer/unicode.h"

enum { MAX_STEPS = 16 };

typedef enum Behavior {
    ISOLATED,
    REMOVED,
    MERGED_WITH_PREVIOUS,
    MERGED_WITH_NEXT,
    CONTIGUOUS,
    BEHAVIORS
} Behavior;
static const char *const BEHAVIOR[BEHAVIORS] = { "isolated", "removed", "merged_with_previous",
                                                 "merged_with_next", "contiguous" };
typedef enum Prepend { NEVER, FIRST, ALWAYS, PREPENDS } Prepend;
static const char *const PREPEND[PREPENDS] = { "never", "first", "always" };

typedef struct SplitStep {
    Regex   *regex; /* NULL: a metaspace step */
    Behavior behavior;
    bool     invert;
    Prepend  prepend;
    bool     split;
} SplitStep;

struct Pretokenizer {
    int  n_steps;
    SplitStep step[MAX_STEPS];
};

struct PretokenizeRun {
    const Pretokenizer *p;
    RegexRun           *regex;
    /* Text as a metaspace step rewrote it, or as a regex sees it. */
    char               *buffer[MAX_STEPS];
    size_t              cap[MAX_STEPS];
    PretokenizeWord     word;
    void               *arg;
};

/* ---- Opening --------------------------------------------------------------------------------- */

static bool read_choice(const Json *j, const char *name, const char *const *choice, int n, int *out,
                        Error *err)
{
    const char *text;
    if (!json_read_string(j, name, &text, err))
        return false;
    for (*out = 0; *out < n; ++*out)
        if (strcmp(text, choice[*out]) == 0)
            return true;
    return fail(err, INPUT, "%s: '%s' is not supported", name, text);
}

static bool read_step(const Json *step, SplitStep *out, const char *what, Error *err)
{
    const char *regex = NULL;
    bool        metaspace = false, cuts = false;
    int         choice = 0;
    if (!json_is_object(step))
        return fail(err, INPUT, "%s: expected an object, found %s", what, json_kind(step));
    for (const Json *i = json_first(step); i; i = json_next(i)) {
        const char *key = json_key(i);
        char        name[512];
        bool        ok;
        snprintf(name, sizeof name, "%.420s: %.64s", what, key);
        if (strcmp(key, "regex") == 0)
            ok = json_read_string(i, name, &regex, err);
        else if (strcmp(key, "behavior") == 0) {
            ok = cuts = read_choice(i, name, BEHAVIOR, BEHAVIORS, &choice, err);
            out->behavior = (Behavior)choice;
        } else if (strcmp(key, "invert") == 0)
            ok = cuts = json_read_bool(i, name, &out->invert, err);
        else if (strcmp(key, "metaspace") == 0) {
            ok = metaspace = read_choice(i, name, PREPEND, PREPENDS, &choice, err);
            out->prepend = (Prepend)choice;
        } else if (strcmp(key, "split") == 0)
            ok = json_read_bool(i, name, &out->split, err);
        else
            ok = fail(err, INPUT, "%s: unknown key", name);
        if (!ok)
            return false;
    }
    if (metaspace == (regex != NULL) || (metaspace && cuts) || (regex && out->split))
        return fail(err, INPUT,
                    "%s: expected a regex (behavior, invert) or metaspace (split), found %s", what,
                    metaspace && regex       ? "both"
                        : metaspace || regex ? "keys of the other"
                                             : "neither");
    return metaspace || regex_compile(&out->regex, regex, what, err);
}

bool pretokenizer_open(Pretokenizer **out, const Json *steps, const char *what, Error *err)
{
    *out = NULL;
    if (!json_is_array(steps) || json_count(steps) > MAX_STEPS)
        return fail(err, INPUT, "%s: expected an array of at most %d steps, found %s of %zu", what,
                    MAX_STEPS, json_kind(steps), json_count(steps));
    Pretokenizer *p = calloc(1, sizeof *p);
    if (!p)
        return no_memory(what, err);
    for (const Json *i = json_first(steps); i; i = json_next(i)) {
        char name[512];
        snprintf(name, sizeof name, "%.400s step %d", what, p->n_steps);
        if (!read_step(i, &p->step[p->n_steps], name, err)) {
            pretokenizer_free(p);
            return false;
        }
        p->n_steps++;
    }
    *out = p;
    return true;
}

void pretokenizer_free(Pretokenizer *p)
{
    if (!p)
        return;
    for (int i = 0; i < MAX_STEPS; i++)
        regex_free(p->step[i].regex);
    free(p);
}

bool pretokenize_begin(PretokenizeRun **out, const Pretokenizer *p, RegexRun *regex, Error *err)
{
    PretokenizeRun *r = *out = calloc(1, sizeof *r);
    if (!r)
        return no_memory("tokenizer", err);
    r->p     = p;
    r->regex = regex;
    return true;
}

void pretokenize_end(PretokenizeRun *r)
{
    if (!r)
        return;
    for (int i = 0; i < MAX_STEPS; i++)
        free(r->buffer[i]);
    free(r);
}

/* ---- From matches to pieces ------------------------------------------------------------------ */

static bool run_steps(PretokenizeRun *r, int step, const char *text, size_t n, bool at_start,
                      Error *err);

/* Takes the matches and the text between them, in order, and emits the pieces that they form. */
typedef struct Cutter {
    PretokenizeRun *r;
    int             next;       /* the step that gets the pieces */
    Behavior        behavior;
    const char     *text;
    bool            at_start;
    size_t          start, end; /* the piece that may still grow */
    bool            open;       /* is there such a piece?        */
    bool            was_match;
} Cutter;

static bool close_piece(Cutter *c, Error *err)
{
    bool open = c->open && c->end > c->start;
    c->open = false;
    return !open
        || run_steps(c->r, c->next, c->text + c->start, c->end - c->start,
                     c->at_start && c->start == 0, err);
}

static bool take(Cutter *c, size_t start, size_t end, bool is_match, Error *err)
{
    bool grows = false;
    switch (c->behavior) {
    case MERGED_WITH_PREVIOUS: grows = is_match && !c->was_match; break;
    case MERGED_WITH_NEXT:     grows = !is_match && c->was_match; break;
    case CONTIGUOUS:           grows = is_match == c->was_match;  break;
    default: break;
    }
    c->was_match = is_match;
    if (grows && c->open) {
        c->end = end;
        return true;
    }
    if (!close_piece(c, err))
        return false;
    c->open  = !(is_match && c->behavior == REMOVED);
    c->start = start;
    c->end   = end;
    return true;
}

static bool cut(PretokenizeRun *r, int step, const char *text, size_t n, bool at_start, Error *err)
{
    const SplitStep *s = &r->p->step[step];
    Cutter c = {
        .r = r, .next = step + 1, .behavior = s->behavior, .text = text, .at_start = at_start
    };
    size_t done = 0, from = 0, start, end;
    const char *seen = regex_text(s->regex, text, n, &r->buffer[step], &r->cap[step], err);
    if (!seen)
        return false;
    while (from <= n) {
        int found = regex_next(r->regex, s->regex, seen, n, from, &start, &end, err);
        if (found < 0)
            return false;
        if (found == 0)
            break;
        if ((done < start && !take(&c, done, start, s->invert, err))
            || !take(&c, start, end, !s->invert, err))
            return false;
        done = from = end;
        if (start == end) { /* an empty match cuts here; continue at the next character */
            uint32_t cp = 0;
            size_t   len = character_at(text + end, n - end, &cp);
            from += len ? len : 1;
        }
    }
    return (done == n || take(&c, done, n, s->invert, err)) && close_piece(&c, err);
}

/* ---- Metaspace ------------------------------------------------------------------------------- */

/* Cut before each U+2581. */
static bool cut_at_meta(PretokenizeRun *r, int next, const char *text, size_t n, bool at_start,
                        Error *err)
{
    for (size_t start = 0, end; start < n; start = end) {
        for (end = start + 1; end < n && !is_meta_space(text + end, n - end); end++)
            ;
        if (!run_steps(r, next, text + start, end - start, at_start && start == 0, err))
            return false;
    }
    return true;
}

static bool metaspace(PretokenizeRun *r, int step, const char *text, size_t n, bool at_start,
                      Error *err)
{
    const SplitStep *s = &r->p->step[step];
    size_t      most = META_SPACE_BYTES * (n + 1);
    if (!ARRAY_ROOM(r->buffer[step], r->cap[step], most))
        return fail(err, SYSTEM, "tokenizer: out of memory for a text of %zu bytes", n);
    char *out = r->buffer[step];
    bool  has = text[0] == ' ' || is_meta_space(text, n);
    if (!has && (s->prepend == ALWAYS || (s->prepend == FIRST && at_start)))
        memcpy(out, META_SPACE, META_SPACE_BYTES), out += META_SPACE_BYTES;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ' ')
            memcpy(out, META_SPACE, META_SPACE_BYTES), out += META_SPACE_BYTES;
        else
            *out++ = text[i];
    }
    size_t n_out = (size_t)(out - r->buffer[step]);
    return s->split ? cut_at_meta(r, step + 1, r->buffer[step], n_out, at_start, err)
                    : run_steps(r, step + 1, r->buffer[step], n_out, at_start, err);
}

static bool run_steps(PretokenizeRun *r, int step, const char *text, size_t n, bool at_start,
                      Error *err)
{
    if (n == 0)
        return true;
    if (step == r->p->n_steps)
        return r->word(r->arg, text, n, err);
    return r->p->step[step].regex ? cut(r, step, text, n, at_start, err)
                                  : metaspace(r, step, text, n, at_start, err);
}

bool pretokenize(PretokenizeRun *r, const char *text, size_t n, bool at_start, PretokenizeWord word,
                 void *arg, Error *err)
{
    r->word = word;
    r->arg  = arg;
    for (size_t i = 0; i < n;) {
        size_t valid = valid_prefix(text + i, n - i);
        if (!run_steps(r, 0, text + i, valid, at_start && i == 0, err))
            return false;
        i += valid;
        size_t   bad = 0;
        uint32_t cp = 0;
        while (i + bad < n && character_at(text + i + bad, n - i - bad, &cp) == 0)
            bad++;
        if (bad && !word(arg, text + i, bad, err))
            return false;
        i += bad;
    }
    return true;
}
