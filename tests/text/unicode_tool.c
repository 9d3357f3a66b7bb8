/* Prints what the program says of every character, for test_unicode.py: unicode_tool KIND
 * [ARGUMENT...].
 *
 *   set REGEX...   for each pattern, which matches one character: a line of it, and a line
 *                  "first last" for each run of what it matches
 *   map FORM       nfc, nfd, nfkc, nfkd or lower: "character becomes ..." of each that is another
 *   word           \w as an added token's neighbours are told; in runs
 *   cluster after  what a cluster goes on with after "a"; in runs
 *   cluster before what a cluster goes on from, with "b"; in runs */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"

enum { ALL_CHARACTERS = 0x110000 };

static bool is_character(uint32_t c) { return c < 0xD800 || c >= 0xE000; }

typedef bool Holds(const void *arg, uint32_t c);

static void print_runs(Holds *holds, const void *arg)
{
    uint32_t first = ALL_CHARACTERS, last = 0;
    for (uint32_t c = 0; c <= ALL_CHARACTERS; c++) {
        if (!is_character(c))
            continue;
        bool in = c < ALL_CHARACTERS && holds(arg, c);
        if (in && first == ALL_CHARACTERS)
            first = c;
        if (!in && first < ALL_CHARACTERS) {
            printf("%x %x\n", first, last);
            first = ALL_CHARACTERS;
        }
        last = c;
    }
}

/* All characters, and where each begins. */
typedef struct All {
    char *text; size_t n, at[ALL_CHARACTERS + 1]; uint32_t code[ALL_CHARACTERS + 1];
} All;

static size_t index_at(const All *all, size_t n_characters, size_t at)
{
    size_t low = 0, high = n_characters + 1;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (all->at[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* A run goes on over the surrogates, which are no characters. */
static bool print_set(const char *pattern, Error *err)
{
    static All all;
    char      *spelled = malloc(strlen(pattern) + 8), *room = NULL;
    size_t     n = 0, n_room = 0, start = 0, end = 0;
    Regex     *re = NULL;
    RegexRun  *run = NULL;
    int        found = -1;
    all.text = malloc((size_t)4 * ALL_CHARACTERS);
    all.n    = 0;
    for (uint32_t c = 0; all.text && c < ALL_CHARACTERS; c++)
        if (is_character(c)) {
            all.code[n] = c;
            all.at[n++] = all.n;
            all.n += character_write(c, all.text + all.n);
        }
    all.at[n] = all.n;
    if (spelled && all.text)
        sprintf(spelled, "(?:%s)+", pattern);
    const char *seen = NULL;
    if (spelled && all.text && regex_compile(&re, spelled, "unicode_tool", err)
        && regex_begin(&run, err))
        seen = regex_text(re, all.text, all.n, &room, &n_room, err);
    if (seen)
        regex_budget(run, (size_t)1 << 30);
    printf("%s\n", pattern);
    while (seen && (found = regex_next(run, re, seen, all.n, end, &start, &end, err)) > 0)
        printf("%x %x\n", all.code[index_at(&all, n, start)], all.code[index_at(&all, n, end) - 1]);
    regex_end(run);
    regex_free(re);
    free(spelled);
    free(room);
    free(all.text);
    return found == 0;
}

static bool word(const void *arg, uint32_t c) { return (void)arg, is_word(c); }

static bool extends(const void *arg, uint32_t c)
{
    GraphemeRun run = { 0 };
    bool        after = *(const bool *)arg;
    grapheme_goes_on(&run, after ? 'a' : c);
    return grapheme_goes_on(&run, after ? c : 'b');
}

static int print_map(const char *form)
{
    static const char *const known[] = { "nfc", "nfd", "nfkc", "nfkd", "lower" };
    int kind = 0;
    while (kind < 5 && strcmp(form, known[kind]) != 0)
        kind++;
    for (uint32_t c = 0; c < ALL_CHARACTERS; c++) {
        char   text[4], *out = NULL;
        size_t n = is_character(c) ? character_write(c, text) : 0, n_out = n;
        if (n && kind < 4 && !normalize_form((NormalForm)kind, text, n, &out, &n_out))
            return 1;
        if (n && kind == 4 && (out = malloc(4)))
            n_out = character_write(to_lower(c), out);
        if (out && (n_out != n || memcmp(out, text, n) != 0)) {
            printf("%x", c);
            for (size_t i = 0; i < n_out;) {
                uint32_t to = 0;
                i += character_at(out + i, n_out - i, &to);
                printf(" %x", to);
            }
            printf("\n");
        }
        free(out);
    }
    return kind == 5;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "", *what = argc > 2 ? argv[2] : "";
    Error       err = { 0 };
    if (strcmp(kind, "map") == 0)
        return print_map(what);
    if (strcmp(kind, "word") == 0)
        print_runs(word, NULL);
    else if (strcmp(kind, "cluster") == 0)
        print_runs(extends, &(bool){ strcmp(what, "after") == 0 });
    else if (strcmp(kind, "set") != 0) {
        fprintf(stderr, "unicode_tool: expected set, map, word or cluster\n");
        return 1;
    }
    for (int i = 2; kind[0] == 's' && i < argc; i++)
        if (!print_set(argv[i], &err)) {
            fprintf(stderr, "%s\n", err.msg);
            return 1;
        }
    return 0;
}
