#include "text/pretokenize.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/unicode.h"

enum {
    MAX_STEPS        = 16,
    MAX_PATTERN      = 1 << 16,
    JIT_STACK_START  = 32 << 10,
    JIT_STACK_MOST   = 32 << 20,  /* address space; memory only as it is used                                     */
    HEAP_MOST_KB     = 256 << 10, /* without JIT                                                                  */
    MATCH_LIMIT_BASE = 10 << 20,  /* plus 64 for each byte of the text: a run of spaces is walked back one by one */
};

struct Pretokenizer {
    int         n_steps;
    pcre2_code *step[MAX_STEPS];
};

struct PretokenizeRun {
    const Pretokenizer  *p;
    pcre2_match_context *context;
    pcre2_jit_stack     *stack;
    pcre2_match_data    *match[MAX_STEPS];
};

/* ---- Patterns ------------------------------------------------------------------------------------------------- */

/* Oniguruma's and Rust's \s is the property White_Space; PCRE2's has U+180E besides. Spell it out: 9 to 13, U+0085 and
 * the separators. out holds 32 bytes for each byte of pattern, and one. */
static void spell_out_spaces(const char *pattern, char *out)
{
    static const char white[] = "\\t-\\r\\x{85}\\p{Z}";
    bool in_class = false;
    for (const char *p = pattern; *p;) {
        size_t n = 1;
        if (p[0] == '\\' && (p[1] == 's' || (p[1] == 'S' && !in_class))) {
            out += sprintf(out, in_class ? "%s" : p[1] == 's' ? "[%s]" : "[^%s]", white);
            p += 2;
            continue;
        }
        if (p[0] == '\\' && p[1])
            n = 2;
        else if (!in_class && p[0] == '[') { /* a ']' right after the opening is an ordinary character */
            in_class = true;
            n += p[n] == '^';
            n += p[n] == ']';
        } else if (in_class && p[0] == '[' && p[1] == ':' && strstr(p, ":]"))
            n = (size_t)(strstr(p, ":]") - p) + 2;
        else if (p[0] == ']')
            in_class = false;
        memcpy(out, p, n);
        out += n;
        p += n;
    }
    *out = '\0';
}

static pcre2_code *compile(const char *regex, const char *what, Error *err)
{
    size_t n = strlen(regex);
    if (n > MAX_PATTERN) {
        fail(err, INPUT, "%s: regex: expected at most %d bytes, found %zu", what, MAX_PATTERN, n);
        return NULL;
    }
    char *pattern = malloc(32 * n + 1);
    if (!pattern) {
        fail(err, SYSTEM, "%s: regex: no memory", what);
        return NULL;
    }
    spell_out_spaces(regex, pattern);
    int         code = 0;
    PCRE2_SIZE  at   = 0;
    pcre2_code *re   = pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern), PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                                     &code, &at, NULL);
    free(pattern);
    if (!re) {
        PCRE2_UCHAR why[256];
        pcre2_get_error_message(code, why, sizeof why);
        fail(err, INPUT, "%s: regex '%s': %s", what, regex, (const char *)why);
        return NULL;
    }
    pcre2_jit_compile(re, PCRE2_JIT_COMPLETE); /* may fail (no executable memory): then it is interpreted */
    return re;
}

static bool read_step(const Json *step, pcre2_code **re, const char *what, Error *err)
{
    const char *regex = NULL, *behavior = NULL;
    bool        invert = false;
    if (!json_is_object(step))
        return fail(err, INPUT, "%s: expected an object, found %s", what, json_kind(step));
    for (const Json *i = json_first(step); i; i = json_next(i)) {
        const char *key = json_key(i);
        char        name[512];
        snprintf(name, sizeof name, "%.420s: %.64s", what, key);
        if (strcmp(key, "regex") == 0) {
            if (!json_read_string(i, name, &regex, err))
                return false;
        } else if (strcmp(key, "behavior") == 0) {
            if (!json_read_string(i, name, &behavior, err))
                return false;
        } else if (strcmp(key, "invert") == 0) {
            if (!json_read_bool(i, name, &invert, err))
                return false;
        } else
            return fail(err, INPUT, "%s: unknown key", name);
    }
    if (!regex)
        return fail(err, INPUT, "%s: expected a regex, found none", what);
    if (behavior && strcmp(behavior, "isolated") != 0)
        return fail(err, INPUT, "%s: behavior: expected 'isolated', found '%s' (not supported)", what, behavior);
    if (invert)
        return fail(err, INPUT, "%s: invert: expected false, found true (not supported)", what);
    *re = compile(regex, what, err);
    return *re != NULL;
}

bool pretokenizer_open(Pretokenizer **out, const Json *steps, const char *what, Error *err)
{
    *out = NULL;
    if (!json_is_array(steps) || json_count(steps) > MAX_STEPS)
        return fail(err, INPUT, "%s: expected an array of at most %d steps, found %s of %zu", what, MAX_STEPS, json_kind(steps),
                    json_count(steps));
    Pretokenizer *p = calloc(1, sizeof *p);
    if (!p)
        return fail(err, SYSTEM, "%s: no memory", what);
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
        pcre2_code_free(p->step[i]);
    free(p);
}

/* ---- Running -------------------------------------------------------------------------------------------------- */

bool pretokenize_begin(PretokenizeRun **out, const Pretokenizer *p, Error *err)
{
    *out = NULL;
    PretokenizeRun *r = calloc(1, sizeof *r);
    bool ok = r != NULL;
    if (ok) {
        r->p       = p;
        r->context = pcre2_match_context_create(NULL);
        r->stack   = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MOST, NULL);
        ok = r->context != NULL; /* without a stack of its own, JIT has 32 KB */
        for (int i = 0; ok && i < p->n_steps; i++)
            ok = (r->match[i] = pcre2_match_data_create(1, NULL)) != NULL;
    }
    if (!ok) {
        pretokenize_end(r);
        return fail(err, SYSTEM, "tokenizer: no memory for regular expressions");
    }
    pcre2_set_heap_limit(r->context, HEAP_MOST_KB);
    if (r->stack)
        pcre2_jit_stack_assign(r->context, NULL, r->stack);
    *out = r;
    return true;
}

void pretokenize_end(PretokenizeRun *r)
{
    if (!r)
        return;
    for (int i = 0; i < MAX_STEPS; i++)
        pcre2_match_data_free(r->match[i]);
    pcre2_jit_stack_free(r->stack);
    pcre2_match_context_free(r->context);
    free(r);
}

/* The next match in text from byte `from` on. Returns 1, 0 (none) or -1 (failed). */
static int next_match(PretokenizeRun *r, int step, const char *text, size_t n, size_t from, size_t *start, size_t *end, Error *err)
{
    int rc = pcre2_match(r->p->step[step], (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK, r->match[step], r->context);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc < 0) {
        PCRE2_UCHAR why[256];
        pcre2_get_error_message(rc, why, sizeof why);
        fail(err, rc == PCRE2_ERROR_NOMEMORY ? SYSTEM : INPUT, "tokenizer: pretokenize step %d: at byte %zu of a text of %zu: %s",
             step, from, n, (const char *)why);
        return -1;
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(r->match[step]);
    *start = range[0];
    *end   = range[1];
    if (*start < from || *end < *start) { /* \K can do this */
        fail(err, INPUT, "tokenizer: pretokenize step %d: at byte %zu: a match that runs backwards", step, from);
        return -1;
    }
    return 1;
}

static bool cut(PretokenizeRun *r, int step, const char *text, size_t n, PretokenizeWord word, void *arg, Error *err)
{
    if (n == 0)
        return true;
    if (step == r->p->n_steps)
        return word(arg, text, n, err);
    size_t done = 0, from = 0, start, end;
    while (from <= n) {
        int found = next_match(r, step, text, n, from, &start, &end, err);
        if (found < 0)
            return false;
        if (found == 0)
            break;
        if (!cut(r, step + 1, text + done, start - done, word, arg, err) ||
            !cut(r, step + 1, text + start, end - start, word, arg, err))
            return false;
        done = from = end;
        if (start == end) { /* an empty match cuts here; look on from the next character */
            uint32_t cp = 0;
            size_t   len = character_at(text + end, n - end, &cp);
            from += len ? len : 1;
        }
    }
    return cut(r, step + 1, text + done, n - done, word, arg, err);
}

bool pretokenize(PretokenizeRun *r, const char *text, size_t n, PretokenizeWord word, void *arg, Error *err)
{
    size_t limit = MATCH_LIMIT_BASE + (n < UINT32_MAX / 128 ? 64 * n : UINT32_MAX / 2);
    pcre2_set_match_limit(r->context, (uint32_t)limit);
    for (size_t i = 0; i < n;) {
        size_t valid = valid_prefix(text + i, n - i);
        if (!cut(r, 0, text + i, valid, word, arg, err))
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
