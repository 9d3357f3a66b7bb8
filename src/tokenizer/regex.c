/* A tokenizer's pattern usually looks at one word and the character after it. So it runs on a
 * window of the text, with PCRE2's partial matching: a match that touched the end of the window
 * does not count. This happens with a word longer than the window, or with a pattern that looks far
 * ahead. Such a position is tried again on the whole text by a second program of the same pattern
 * (the careful one). It reports its position before every item; the sum of the distances it moves
 * is bounded for each text. So work is linear, or ends in an error that is the same on every
 * machine. Inside windows a clock is the last resort. */
#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tokenizer/unicode.h"

enum {
    MAX_PATTERN      = 1 << 16,
    MOST_SHOWN       = 200,       /* bytes of a pattern shown in a message */
    JIT_STACK_START  = 32 << 10,
    JIT_STACK_MOST   = 1 << 20,
    HEAP_MOST_KB     = 256 << 10, /* for the careful program */
    WINDOW           = 512,       /* bytes; 256 to 2048 are equally fast on text */
    WINDOW_LIMIT     = 20000,     /* backtracks of one attempt in a window */
    CALLS_PER_LOOK   = 64,        /* the clock costs a system call, so it is read rarely */
};
/* Steps of the careful program. An ordinary pattern takes under 20 per byte. */
static const uint64_t WAY_BASE = 64 << 20, WAY_PER_BYTE = 64;
static const double   SECONDS_BASE = 10, SECONDS_PER_BYTE = 20e-6;

struct Regex {
    char       *name; /* begins messages */
    Spelling    spelling;
    pcre2_code *fast, *careful;
};

struct RegexRun {
    pcre2_match_context *fast, *careful;
    pcre2_jit_stack     *stack;
    pcre2_match_data    *match;
    size_t               n_text;    /* bytes that the budget is for                 */
    uint64_t             way, most; /* steps of the careful program: taken, allowed */
    size_t               last_at;   /* its position at the last callout             */
    unsigned             calls;
    double               started;   /* in CPU seconds of this thread */
};

/* ---- Patterns -------------------------------------------------------------------------------- */

/* Without UCP, and so without PCRE2's Unicode tables: the set of letters must not depend on the
 * library's version. */
static pcre2_code *compile(const char *spelled, uint32_t options, const char *what, Error *err)
{
    int         code = PCRE2_ERROR_HEAP_FAILED;
    PCRE2_SIZE  at   = 0;
    pcre2_code *re   = NULL;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        re = pcre2_compile((PCRE2_SPTR)spelled, PCRE2_ZERO_TERMINATED,
                           PCRE2_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C | options, &code,
                           &at, context);
    }
    pcre2_compile_context_free(context);
    if (!re) {
        PCRE2_UCHAR why[256];
        pcre2_get_error_message(code, why, sizeof why);
        fail(err, code == PCRE2_ERROR_HEAP_FAILED ? SYSTEM : INPUT, "%s: %s", what,
             (const char *)why);
    }
    return re;
}

bool regex_compile(Regex **out, const char *pattern, const char *what, Error *err)
{
    *out = NULL;
    size_t n = strlen(pattern);
    if (n > MAX_PATTERN)
        return fail(err, INPUT, "%s: regex: expected at most %d bytes, found %zu", what,
                    MAX_PATTERN, n);
    char   name[768]; /* a long pattern must leave room for the reason */
    size_t shown = n > MOST_SHOWN ? MOST_SHOWN - partial_tail(pattern, MOST_SHOWN) : n;
    snprintf(name, sizeof name, "%.400s: regex '%.*s%s'", what, (int)shown, pattern,
             shown < n ? "..." : "");
    Regex *re = calloc(1, sizeof *re);
    if (!re || !(re->name = strdup(what))) {
        regex_free(re);
        return fail(err, SYSTEM, "%s: regex: out of memory", what);
    }
    if (!regex_spell(&re->spelling, pattern, name, err)) {
        regex_free(re);
        return false;
    }
    re->fast    = compile(re->spelling.pattern, 0, name, err);
    re->careful = re->fast
        ? compile(re->spelling.pattern, PCRE2_ANCHORED | PCRE2_AUTO_CALLOUT, name, err)
        : NULL;
    if (!re->careful) {
        regex_free(re);
        return false;
    }
    /* This may fail; the pattern is interpreted then. */
    pcre2_jit_compile(re->fast, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    *out = re;
    return true;
}

void regex_free(Regex *re)
{
    if (!re)
        return;
    pcre2_code_free(re->fast);
    pcre2_code_free(re->careful);
    regex_spelling_free(&re->spelling);
    free(re->name);
    free(re);
}

const char *regex_text(const Regex *re, const char *text, size_t n, char **room, size_t *n_room,
                       Error *err)
{
    const char *view = spelling_view(&re->spelling, text, n, room, n_room);
    if (!view)
        fail(err, SYSTEM, "%s: no memory for a text of %zu bytes", re->name, n);
    return view;
}

/* ---- Running --------------------------------------------------------------------------------- */

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* PCRE2 calls this before each item of the careful program. */
static int add_way(pcre2_callout_block *block, void *arg)
{
    RegexRun *r = arg;
    size_t    at = block->current_position;
    r->way += 1 + (at > r->last_at ? at - r->last_at : r->last_at - at);
    r->last_at = at;
    return r->way > r->most ? PCRE2_ERROR_CALLOUT : 0;
}

bool regex_begin(RegexRun **out, Error *err)
{
    *out = NULL;
    RegexRun *r = calloc(1, sizeof *r);
    bool ok = false;
    if (r) {
        r->fast    = pcre2_match_context_create(NULL);
        r->careful = pcre2_match_context_create(NULL);
        r->stack   = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MOST, NULL);
        r->match   = pcre2_match_data_create(1, NULL);
        ok = r->fast && r->careful && r->match; /* without this stack, JIT has only 32 KB */
    }
    if (!ok) {
        regex_end(r);
        return fail(err, SYSTEM, "tokenizer: out of memory for regular expressions");
    }
    pcre2_set_match_limit(r->fast, WINDOW_LIMIT);
    if (r->stack)
        pcre2_jit_stack_assign(r->fast, NULL, r->stack);
    pcre2_set_heap_limit(r->careful, HEAP_MOST_KB);
    /* No limit is needed here: add_way counts every step. */
    pcre2_set_match_limit(r->careful, UINT32_MAX);
    pcre2_set_callout(r->careful, add_way, r);
    regex_budget(r, 0);
    *out = r;
    return true;
}

void regex_end(RegexRun *r)
{
    if (!r)
        return;
    pcre2_match_data_free(r->match);
    pcre2_jit_stack_free(r->stack);
    pcre2_match_context_free(r->fast);
    pcre2_match_context_free(r->careful);
    free(r);
}

void regex_budget(RegexRun *r, size_t n_bytes)
{
    r->n_text  = n_bytes;
    r->way     = 0;
    r->most    = WAY_BASE + WAY_PER_BYTE * n_bytes;
    r->started = thread_seconds();
}

static int failed(const Regex *re, int rc, size_t at, size_t n, Error *err)
{
    PCRE2_UCHAR why[256];
    if (rc == PCRE2_ERROR_CALLOUT)
        snprintf((char *)why, sizeof why, "matching passed the limit of steps");
    else
        pcre2_get_error_message(rc, why, sizeof why);
    fail(err, rc == PCRE2_ERROR_NOMEMORY ? SYSTEM : INPUT, "%s: at byte %zu of a text of %zu: %s",
         re->name, at, n, (const char *)why);
    return -1;
}

static int found(const RegexRun *r, const Regex *re, size_t from, size_t *start, size_t *end,
                 Error *err)
{
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(r->match);
    *start = range[0];
    *end   = range[1];
    if (*start >= from && *end >= *start)
        return 1;
    /* Possible with \K. */
    fail(err, INPUT, "%s: at byte %zu: a match that runs backwards", re->name, from);
    return -1;
}

/* Try to match at `at` only, on the whole text. */
static int try_carefully(RegexRun *r, const Regex *re, const char *text, size_t n, size_t at)
{
    r->last_at = at;
    return pcre2_match(re->careful, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, r->match,
                       r->careful);
}

static size_t window_end(const char *text, size_t n, size_t from)
{
    if (n - from <= WINDOW)
        return n;
    size_t end = from + WINDOW;
    while (((unsigned char)text[end] & 0xC0) == 0x80)
        end--;
    return end;
}

int regex_next(RegexRun *r, const Regex *re, const char *text, size_t n, size_t from, size_t *start,
               size_t *end, Error *err)
{
    while (from <= n) {
        double most = SECONDS_BASE + SECONDS_PER_BYTE * (double)r->n_text;
        if (++r->calls % CALLS_PER_LOOK == 0 && thread_seconds() - r->started > most) {
            fail(err, INPUT,
                 "%s: at byte %zu of a text of %zu: more than %.0f seconds (time limit exceeded)",
                 re->name, from, n, most);
            return -1;
        }
        size_t   stop = window_end(text, n, from);
        uint32_t options = PCRE2_NO_UTF_CHECK | (stop < n ? PCRE2_PARTIAL_HARD : 0);
        int rc = pcre2_match(re->fast, (PCRE2_SPTR)text, stop, from, options, r->match, r->fast);
        size_t   at = from;
        if (rc >= 0)
            return found(r, re, from, start, end, err);
        if (rc == PCRE2_ERROR_NOMATCH && stop == n)
            return 0;
        if (rc == PCRE2_ERROR_NOMATCH) {
            from = stop;
            continue;
        }
        /* Partial: no match starts before that position, because attempts before it ended inside
         * the window. */
        if (rc == PCRE2_ERROR_PARTIAL)
            at = pcre2_get_ovector_pointer(r->match)[0];
        else if (rc != PCRE2_ERROR_MATCHLIMIT && rc != PCRE2_ERROR_JIT_STACKLIMIT)
            return failed(re, rc, from, n, err);
        rc = try_carefully(r, re, text, n, at);
        if (rc >= 0)
            return found(r, re, from, start, end, err);
        if (rc != PCRE2_ERROR_NOMATCH)
            return failed(re, rc, at, n, err);
        uint32_t cp = 0;
        size_t   len = character_at(text + at, n - at, &cp);
        from = at + (len ? len : 1);
    }
    return 0;
}
