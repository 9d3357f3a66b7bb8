/* The normalizer of tokenizer.json as a list of steps. Each step does what tokenizers 0.23 does
 * (normalizers/). */
#include "tokenizer/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tokenizer/unicode.h"

enum { MAX_STEPS = 16 };

typedef enum NormalKind {
    FORM,
    PREPEND,
    REPLACE,
    REPLACE_REGEX,
    STRIP,
    CHARSMAP,
    LOWERCASE
} NormalKind;

typedef struct NormalStep {
    NormalKind       kind;
    NormalForm form;
    char      *text, *with; /* what to prepend or replace; the replacement */
    Regex     *regex;
    bool       left, right; /* STRIP: which sides */
} NormalStep;

struct Normalizer {
    int      n_steps;
    NormalStep     step[MAX_STEPS];
    Charsmap charsmap;
};

/* ---- Opening --------------------------------------------------------------------------------- */

static bool read_form(const Json *j, const char *name, NormalForm *form, Error *err)
{
    static const char *const known[] = {
        [NFC] = "nfc", [NFD] = "nfd", [NFKC] = "nfkc", [NFKD] = "nfkd"
    };
    const char *text;
    if (!json_read_string(j, name, &text, err))
        return false;
    for (int i = 0; i < 4; i++)
        if (strcmp(text, known[i]) == 0) {
            *form = (NormalForm)i;
            return true;
        }
    return fail(err, INPUT, "%s: expected nfc, nfd, nfkc or nfkd, found '%s'", name, text);
}

static bool read_sides(const Json *j, const char *name, NormalStep *s, Error *err)
{
    const char *text;
    if (!json_read_string(j, name, &text, err))
        return false;
    s->left  = strcmp(text, "left") == 0 || strcmp(text, "both") == 0;
    s->right = strcmp(text, "right") == 0 || strcmp(text, "both") == 0;
    return s->left || s->right
        || fail(err, INPUT, "%s: expected left, right or both, found '%s'", name, text);
}

static bool read_true(const Json *j, const char *name, Error *err)
{
    bool value;
    return json_read_bool(j, name, &value, err)
        && (value || fail(err, INPUT, "%s: expected true, found false", name));
}

/* Read one step: {"form": "nfc"}, {"prepend": TEXT}, {"replace": TEXT, "with": TEXT},
 * {"replace_regex": REGEX, "with": TEXT}, {"strip": "left"}, {"charsmap": true} or {"lowercase":
 * true}. */
static bool read_step(const Json *j, NormalStep *s, const char *what, Error *err)
{
    int kinds = 0;
    if (!json_is_object(j))
        return fail(err, INPUT, "%s: expected an object, found %s", what, json_kind(j));
    for (const Json *i = json_first(j); i; i = json_next(i)) {
        static const char *const known[] = { "form", "prepend", "replace", "replace_regex",
                                             "strip", "charsmap", "lowercase" };
        const char *key = json_key(i);
        char        name[512];
        int         kind = 0;
        bool        ok = true;
        snprintf(name, sizeof name, "%.420s: %.64s", what, key);
        while (kind <= LOWERCASE && strcmp(key, known[kind]) != 0)
            kind++;
        if (kind <= LOWERCASE) {
            s->kind = (NormalKind)kind;
            kinds++;
        }
        switch (kind) {
        case FORM:          ok = read_form(i, name, &s->form, err); break;
        case PREPEND:
        case REPLACE:
        case REPLACE_REGEX: ok = json_copy_string(i, name, SIZE_MAX, &s->text, err); break;
        case STRIP:         ok = read_sides(i, name, s, err); break;
        case CHARSMAP:
        case LOWERCASE:     ok = read_true(i, name, err); break;
        default:
            ok = strcmp(key, "with") == 0 ? json_copy_string(i, name, SIZE_MAX, &s->with, err)
                                          : fail(err, INPUT, "%s: unknown key", name);
        }
        if (!ok)
            return false;
    }
    bool replaces = s->kind == REPLACE || s->kind == REPLACE_REGEX;
    if (kinds != 1 || replaces != (s->with != NULL))
        return fail(err, INPUT,
                    "%s: expected one kind of step, and 'with' where it replaces, found other keys",
                    what);
    if (s->kind == REPLACE && !*s->text)
        return fail(err, INPUT, "%s: replace: expected a text, found an empty one", what);
    return s->kind != REPLACE_REGEX || regex_compile(&s->regex, s->text, what, err);
}

bool normalizer_open(Normalizer **out, const Json *steps, const TensorFile *f, const char *what,
                     Error *err)
{
    *out = NULL;
    if (!json_is_array(steps) || json_count(steps) > MAX_STEPS)
        return fail(err, INPUT, "%s: expected an array of at most %d steps, found %s of %zu", what,
                    MAX_STEPS, json_kind(steps), json_count(steps));
    Normalizer *z = calloc(1, sizeof *z);
    if (!z)
        return no_memory(what, err);
    for (const Json *i = json_first(steps); i; i = json_next(i)) {
        NormalStep *s = &z->step[z->n_steps++];
        char  name[512];
        snprintf(name, sizeof name, "%.400s step %d", what, z->n_steps - 1);
        if (!read_step(i, s, name, err)
            || (s->kind == CHARSMAP && !z->charsmap.bytes
                && !charsmap_open(&z->charsmap, f, err))) {
            normalizer_free(z);
            return false;
        }
    }
    *out = z;
    return true;
}

void normalizer_free(Normalizer *z)
{
    if (!z)
        return;
    for (int i = 0; i < MAX_STEPS; i++) {
        free(z->step[i].text);
        free(z->step[i].with);
        regex_free(z->step[i].regex);
    }
    free(z);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Bytes of the next character, or 1 for a byte that starts none (then *cp is 0). */
static size_t next_unit(const char *p, size_t n, uint32_t *cp)
{
    *cp = 0;
    size_t len = character_at(p, n, cp);
    return len ? len : 1;
}

static bool form(NormalForm which, const char *p, size_t n, TextOut *out, Error *err)
{
    for (size_t i = 0; i < n;) {
        size_t valid = valid_prefix(p + i, n - i), n_part;
        char  *part;
        if (!normalize_form(which, p + i, valid, &part, &n_part))
            return fail(err, SYSTEM, "tokenizer: not enough memory to normalize %zu bytes", n);
        bool ok = text_out_bytes(out, part ? part : p + i, n_part);
        free(part);
        i += valid;
        for (uint32_t cp; ok && i < n && character_at(p + i, n - i, &cp) == 0; i++)
            ok = text_out_bytes(out, p + i, 1);
        if (!ok)
            return false;
    }
    return true;
}

static bool replace_text(const NormalStep *s, const char *p, size_t n, TextOut *out)
{
    size_t n_text = strlen(s->text), n_with = strlen(s->with);
    while (n) {
        const char *hit = memmem(p, n, s->text, n_text);
        size_t      before = hit ? (size_t)(hit - p) : n;
        if (!text_out_bytes(out, p, before) || (hit && !text_out_bytes(out, s->with, n_with)))
            return false;
        p += before + (hit ? n_text : 0);
        n -= before + (hit ? n_text : 0);
    }
    return true;
}

/* Replace matches in p, which is valid UTF-8. The pattern runs on `seen`, which regex_text made. */
static bool replace_matches(const NormalStep *s, RegexRun *r, const char *p, const char *seen,
                            size_t n, TextOut *out, Error *err)
{
    size_t n_with = strlen(s->with), done = 0, from = 0, start, end;
    while (from <= n) {
        int found = regex_next(r, s->regex, seen, n, from, &start, &end, err);
        if (found < 0)
            return false;
        if (found == 0)
            break;
        if (!text_out_bytes(out, p + done, start - done) || !text_out_bytes(out, s->with, n_with))
            return false;
        done = from = end;
        if (start == end) {
            uint32_t cp;
            from += next_unit(p + end, n - end, &cp);
        }
    }
    return text_out_bytes(out, p + done, n - done);
}

static bool replace_regex(const NormalStep *s, RegexRun *r, const char *p, size_t n, TextOut *out,
                          Error *err)
{
    char  *room = NULL;
    size_t n_room = 0;
    bool   ok = true;
    for (size_t i = 0; ok && i < n;) {
        size_t      valid = valid_prefix(p + i, n - i);
        const char *seen = regex_text(s->regex, p + i, valid, &room, &n_room, err);
        ok = seen && (!valid || replace_matches(s, r, p + i, seen, valid, out, err));
        i += valid;
        if (ok && i < n)
            ok = text_out_bytes(out, p + i++, 1);
    }
    free(room);
    return ok;
}

static bool strip(const NormalStep *s, const char *p, size_t n, TextOut *out)
{
    uint32_t cp = 0;
    size_t   len;
    while (s->left && (len = character_at(p, n, &cp)) > 0 && is_white_space(cp))
        p += len, n -= len;
    while (s->right && (len = character_before(p, n, &cp)) > 0 && is_white_space(cp))
        n -= len;
    return text_out_bytes(out, p, n);
}

static bool lowercase(const char *p, size_t n, TextOut *out)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t   len = next_unit(p + i, n - i, &cp);
        char     lower[4];
        /* U+0130 is the one character whose lower case is two characters. */
        bool     ok = cp == 0x130 ? text_out_bytes(out, "i\xCC\x87", 3)
                      : cp        ? text_out_bytes(out, lower, character_write(to_lower(cp), lower))
                                  : text_out_bytes(out, p + i, len);
        if (!ok)
            return false;
        i += len;
    }
    return true;
}

/* Bytes of the grapheme cluster at the start of p. */
static size_t cluster(const char *p, size_t n)
{
    GraphemeRun run = { 0 };
    uint32_t    c;
    size_t      at = next_unit(p, n, &c);
    grapheme_goes_on(&run, c);
    for (size_t len; at < n; at += len) {
        len = next_unit(p + at, n - at, &c);
        if (!grapheme_goes_on(&run, c))
            break;
    }
    return at;
}

/* The charsmap as tokenizers applies it (normalizers/precompiled.rs): if a prefix of a cluster
 * under 6 bytes is in the map, the shortest such prefix replaces the whole cluster. Otherwise each
 * character is looked up. */
enum { SHORT_CLUSTER = 6 };

static bool charsmap(const Charsmap *m, const char *p, size_t n, TextOut *out)
{
    for (size_t i = 0, end; i < n; i = end) {
        const char *by;
        size_t      n_by;
        end = i + cluster(p + i, n - i);
        if (end - i < SHORT_CLUSTER && charsmap_match(m, p + i, end - i, true, &by, &n_by)) {
            if (!text_out_bytes(out, by, n_by))
                return false;
            continue;
        }
        for (size_t at = i, len; at < end; at += len) {
            uint32_t cp;
            len = next_unit(p + at, end - at, &cp);
            bool mapped = charsmap_match(m, p + at, len, true, &by, &n_by) > 0;
            if (!(mapped ? text_out_bytes(out, by, n_by) : text_out_bytes(out, p + at, len)))
                return false;
        }
    }
    return true;
}

static bool run_step(const Normalizer *z, const NormalStep *s, RegexRun *r, const char *p, size_t n,
                     TextOut *out, Error *err)
{
    switch (s->kind) {
    case FORM:          return form(s->form, p, n, out, err);
    case PREPEND:
        return n == 0
            || (text_out_bytes(out, s->text, strlen(s->text)) && text_out_bytes(out, p, n));
    case REPLACE:       return replace_text(s, p, n, out);
    case REPLACE_REGEX: return replace_regex(s, r, p, n, out, err);
    case STRIP:         return strip(s, p, n, out);
    case CHARSMAP:      return charsmap(&z->charsmap, p, n, out);
    case LOWERCASE:     return lowercase(p, n, out);
    }
    return false;
}

bool normalized_fits(const TextOut *o, Error *err)
{
    return !o->failed
        || (o->full ? fail(err, INPUT,
                           "tokenizer: normalizer: expected at most %zu bytes of normalized text, "
                           "found more: its rules make "
                           "the text grow",
                           o->most)
                    : fail(err, SYSTEM, "tokenizer: out of memory for a text of %zu bytes", o->n));
}

bool normalizer_run(const Normalizer *z, RegexRun *r, const char *text, size_t n, TextOut *out,
                    TextOut *scratch, size_t *budget, Error *err)
{
    bool ok = true;
    out->n = 0;
    out->most = NORMAL_MOST;
    if (z->n_steps == 0)
        text_out_bytes(out, text, n);
    for (int i = 0; ok && i < z->n_steps; i++) {
        TextOut swap = *out; /* the previous step's output becomes the input */
        *out     = *scratch;
        *scratch = swap;
        out->n    = 0;
        out->most = *budget ? *budget : 1;
        ok = run_step(z, &z->step[i], r, i ? scratch->text : text, i ? scratch->n : n, out, err);
        *budget -= out->n < *budget ? out->n : *budget;
    }
    return out->failed ? normalized_fits(out, err) : ok;
}
