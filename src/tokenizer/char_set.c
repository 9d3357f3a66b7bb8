/* Sets of characters as sorted edges, and the sets of named Unicode properties. */
#include "tokenizer/regex.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "tokenizer/unicode.h"

void char_set_free(CharSet *s)
{
    free(s->edge);
    *s = (CharSet){ 0 };
}

void char_set_add(CharSet *s, uint32_t first, uint32_t last)
{
    if (!ARRAY_ROOM(s->edge, s->cap, s->n + 2)) {
        s->failed = true;
        return;
    }
    s->edge[s->n++] = first;
    s->edge[s->n++] = last + 1;
}

void char_set_sort(CharSet *s)
{
    size_t n = 0, ordered = 2; /* most sets are sorted already */
    while (ordered < s->n && s->edge[ordered - 2] <= s->edge[ordered])
        ordered += 2;
    if (ordered < s->n)
        qsort(s->edge, s->n / 2, 2 * sizeof *s->edge, compare_u32);
    for (size_t i = 0; i < s->n; i += 2)
        if (n && s->edge[i] <= s->edge[n - 1])
            s->edge[n - 1] = s->edge[i + 1] > s->edge[n - 1] ? s->edge[i + 1] : s->edge[n - 1];
        else
            memmove(s->edge + n, s->edge + i, 2 * sizeof *s->edge), n += 2;
    s->n = n;
}

void char_set_invert(CharSet *s)
{
    uint32_t from = 0;
    CharSet  out = { .failed = s->failed };
    for (size_t i = 0; i < s->n; from = s->edge[i + 1], i += 2)
        if (s->edge[i] > from)
            char_set_add(&out, from, s->edge[i] - 1);
    if (from < CHARACTERS)
        char_set_add(&out, from, CHARACTERS - 1);
    char_set_free(s);
    *s = out;
}

CharShare char_set_share(const CharSet *s, uint32_t first, uint32_t last)
{
    size_t i = 0;
    BISECT (i, s->n, s->edge[i] <= first);
    if (i % 2 == 1)
        return s->edge[i] > last ? SHARE_ALL : SHARE_SOME;
    return i < s->n && s->edge[i] <= last ? SHARE_SOME : SHARE_NONE;
}

/* Simple case folding. The first pass adds the folded form of each member. The second pass adds
 * every character whose folded form is a member. */
void char_set_fold(CharSet *s)
{
    for (int back = 0; back < 2; back++) {
        CharSet more = { 0 };
        for (size_t i = 0; i < FOLD_RUNS_N; i++) {
            const CaseRun *r = &FOLD_RUNS[i];
            uint32_t from = back ? r->first + (uint32_t)r->add : r->first;
            uint32_t to   = back ? r->first : r->first + (uint32_t)r->add;
            uint32_t last = (r->n - 1u) * r->step;
            if (char_set_share(s, from, from + last) == SHARE_NONE)
                continue;
            for (uint32_t k = 0; k <= last; k += r->step)
                if (char_set_share(s, from + k, from + k) == SHARE_ALL)
                    char_set_add(&more, to + k, to + k);
        }
        for (size_t i = 0; i < more.n; i += 2)
            char_set_add(s, more.edge[i], more.edge[i]);
        s->failed |= more.failed;
        char_set_free(&more);
        char_set_sort(s);
    }
}

/* ---- Properties ------------------------------------------------------------------------------ */

/* Add the runs of a table with a wanted value. In the table of categories, mask has a bit for each
 * wanted value; in every other table, `value` is the wanted one. */
static void add_runs(CharSet *s, const uint32_t *run, size_t n, int bits, uint32_t mask,
                     uint32_t value)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t v = run[i] & ((1u << bits) - 1);
        if (bits == CATEGORY_BITS ? mask >> v & 1 : v == value)
            char_set_add(s, run[i] >> bits, i + 1 < n ? (run[i + 1] >> bits) - 1 : CHARACTERS - 1);
    }
}

static void add_categories(CharSet *s, uint32_t mask)
{
    add_runs(s, CATEGORY_RUNS, CATEGORY_RUNS_N, CATEGORY_BITS, mask, 0);
}

static void add_binary(CharSet *s, const BinaryName *b)
{
    add_categories(s, b->mask);
    for (uint32_t i = 0; i < b->n; i += 2)
        char_set_add(s, BINARY_EDGES[b->first + i], BINARY_EDGES[b->first + i + 1] - 1);
}

/* Every row starts with its name, so one comparison serves all tables. */
static int compare_names(const void *name, const void *row)
{
    return strcmp(name, *(const char *const *)row);
}

static const void *look_up(const char *name, const void *rows, size_t n, size_t size)
{
    return bsearch(name, rows, n, size, compare_names);
}

/* Copy a name to out in lower case, without spaces, hyphens and underscores. False: too long to be
 * a name. */
static bool plain_name(const char *name, size_t n, char *out, size_t room)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (memchr(" -_\t", name[i], 4))
            continue;
        if (at + 1 == room)
            return false;
        out[at++] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + 'a' - 'A') : name[i];
    }
    out[at] = '\0';
    return true;
}

bool char_set_property(CharSet *s, const char *name, size_t n_name)
{
    char plain[64];
    if (!plain_name(name, n_name, plain, sizeof plain))
        return false;
    static const char *const of_script[] = { "sc:", "sc=", "script:", "script=" };
    const char *script = plain;
    for (int i = 0; i < 4; i++)
        if (strncmp(plain, of_script[i], strlen(of_script[i])) == 0)
            script = plain + strlen(of_script[i]);
    const CategoryName *c = look_up(plain, CATEGORY_NAMES, CATEGORY_NAMES_N, sizeof *c);
    const BinaryName   *b = look_up(plain, BINARY_NAMES, BINARY_NAMES_N, sizeof *b);
    const ScriptName   *of = look_up(script, SCRIPT_NAMES, SCRIPT_NAMES_N, sizeof *of);
    bool ascii = strcmp(plain, "ascii") == 0;
    if (c)
        add_categories(s, c->mask);
    else if (b)
        add_binary(s, b);
    else if (of)
        add_runs(s, SCRIPT_RUNS, SCRIPT_RUNS_N, SCRIPT_BITS, 0, of->script);
    else if (ascii)
        char_set_add(s, 0, 0x7F);
    return c || b || of || ascii;
}

void char_set_words(CharSet *s)
{
    char_set_property(s, "Alphabetic", strlen("Alphabetic"));
    add_categories(s, 1u << MN | 1u << MC | 1u << ME | 1u << ND | 1u << PC);
    char_set_add(s, 0xB2, 0xB3);
    char_set_add(s, 0xB9, 0xB9);
    char_set_add(s, 0xBC, 0xBE);
}
