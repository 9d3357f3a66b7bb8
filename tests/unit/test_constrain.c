/* tests/unit/test_constrain.c: the recogniser against the definition: sets of all short texts. */
#include "test.h"

#include "constrain/grammar_parts.h"

static Error err;

/* ---- Languages over a and b, of texts of at most 5 letters, as sets of 63 bits --------------- */

enum { LETTERS = 5, TEXTS = (2 << LETTERS) - 1 };
static char     spelled[TEXTS][LETTERS + 1];
static int      length_of[TEXTS], joined[TEXTS][TEXTS]; /* -1: too long */
static uint64_t ALL;

static void spell(void)
{
    ALL = ((uint64_t)1 << TEXTS) - 1;
    for (int i = 0; i < TEXTS; i++) {
        int n = 0;
        while ((2 << n) - 1 <= i)
            n++;
        length_of[i] = n;
        for (int k = 0; k < n; k++)
            spelled[i][k] = (i - ((1 << n) - 1)) >> (n - 1 - k) & 1 ? 'b' : 'a';
    }
    for (int i = 0; i < TEXTS; i++)
        for (int j = 0; j < TEXTS; j++) {
            int n = length_of[i] + length_of[j], low = (1 << length_of[j]) - 1;
            joined[i][j] = n > LETTERS ? -1
                : (1 << n) - 1 + ((i - ((1 << length_of[i]) - 1)) << length_of[j]) + (j - low);
        }
}

static uint64_t both(uint64_t a, uint64_t b)
{
    uint64_t r = 0;
    for (int i = 0; i < TEXTS; i++)
        for (int j = 0; j < TEXTS && a >> i & 1; j++)
            if (b >> j & 1 && joined[i][j] >= 0)
                r |= (uint64_t)1 << joined[i][j];
    return r;
}

static uint64_t times(uint64_t a, unsigned min, unsigned max)
{
    uint64_t r = 0, power = 1;
    for (unsigned i = 0; i <= max && i <= min + LETTERS + 1; i++, power = both(power, a))
        r |= i >= min ? power : 0;
    return r;
}

typedef struct Made { Expr e; uint64_t texts; } Made;

static Made random_expr(Grammar *g, int depth)
{
    Made a = { 0 }, b = { 0 };
    int  kind = depth ? rand() % 9 : rand() % 3;
    if (kind > 2)
        a = random_expr(g, depth - 1);
    if (kind > 4)
        b = random_expr(g, depth - 1);
    unsigned min = (unsigned)rand() % 3, max = rand() % 2 ? REPEAT_FOREVER
                                                          : min + (unsigned)rand() % 3;
    switch (kind) {
    case 0:
        return (Made){ expr_range(g, 'a', 'a'), 2 };
    case 1:
        return (Made){ expr_range(g, 'a', 'b'), 6 };
    case 2:
        return (Made){ expr_text(g, "ba", 2), (uint64_t)1 << joined[2][1] };
    case 3:
        return (Made){ expr_not(g, a.e), ALL & ~a.texts };
    case 4:
        return (Made){ expr_repeat(g, a.e, min, max), times(a.texts, min, max) };
    case 5:
        return (Made){ expr_and(g, a.e, b.e), a.texts & b.texts };
    case 6:
        return (Made){ expr_alt(g, a.e, b.e), a.texts | b.texts };
    default:
        return (Made){ expr_seq(g, a.e, b.e), both(a.texts, b.texts) };
    }
}

/* Is a state that may end within reach? */
static bool leads_on(Constraint *c, ConstraintState from)
{
    static ConstraintState found[400];
    int                    n = 1;
    found[0] = from;
    for (int i = 0; i < n; i++) {
        if (constraint_may_end(c, found[i]))
            return true;
        for (int byte = 0; byte < 256 && n < 400; byte++) {
            ConstraintState next = found[i];
            char            one = (char)byte;
            bool            known = !constraint_advance(c, &next, &one, 1, &err);
            for (int k = 0; k < n && !known; k++)
                known = found[k] == next;
            if (!known && next != STATE_DEAD)
                found[n++] = next;
        }
    }
    return n == 400; /* not known */
}

/* c accepts these texts and no other; no state is alive that leads nowhere. */
static void check_texts(Constraint *c, uint64_t texts, const char *how)
{
    for (int i = 0; i < TEXTS && test_case_state == 0; i++) {
        ConstraintState s = constraint_start(c);
        CHECK(constraint_advance(c, &s, spelled[i], (size_t)length_of[i], &err), "%s: %s", how,
              err.msg);
        CHECK(constraint_may_end(c, s) == (texts >> i & 1), "%s: '%s': expected %d", how,
              spelled[i], (int)(texts >> i & 1));
        CHECK(s == STATE_DEAD || leads_on(c, s), "%s: '%s' leads nowhere", how, spelled[i]);
    }
}

static void expressions_match_as_defined(void)
{
    for (int round = 0; round < 3000 && test_case_state == 0; round++) {
        srand((unsigned)round);
        Grammar    *g = grammar_new(&err);
        Made        m = random_expr(g, 4);
        bool        nothing = expr_is_nothing(g, m.e);
        Constraint *c = constraint_of_expr(g, m.e, "test", &err);
        CHECK(nothing == !c && (c || strstr(err.msg, "no text fits")), "round %d: %s", round,
              err.msg);
        CHECK(c || m.texts == 0, "round %d: a text fits", round);
        char how[32];
        snprintf(how, sizeof how, "round %d", round);
        if (c)
            check_texts(c, m.texts, how);
        constraint_free(c);
    }
}

/* ---- Grammars -------------------------------------------------------------------------------- */

enum { RULES = 4, ROWS = 3, SYMBOLS = 3 };
/* kind 0: text, 1: rule, 2: rule* */
typedef struct Drawn { int n, kind[SYMBOLS], id[SYMBOLS]; } Drawn;

static const char *const words[] = { "", "a", "b", "ab", "ba" };
static uint64_t word_set(int i)
{
    for (int k = 0; k < TEXTS; k++)
        if (strcmp(spelled[k], words[i]) == 0)
            return (uint64_t)1 << k;
    return 0;
}

/* The texts of rule 0: the least sets that satisfy all rules. */
static uint64_t texts_of(Drawn row[RULES][ROWS])
{
    uint64_t texts[RULES] = { 0 };
    for (bool more = true; more;) {
        more = false;
        for (int r = 0; r < RULES; r++)
            for (int a = 0; a < ROWS; a++) {
                uint64_t t = 1;
                for (int i = 0; i < row[r][a].n; i++) {
                    int      id = row[r][a].id[i], kind = row[r][a].kind[i];
                    t = both(t, kind == 0   ? word_set(id)
                                : kind == 1 ? texts[id]
                                            : times(texts[id], 0, REPEAT_FOREVER));
                }
                more |= (t & ~texts[r]) != 0;
                texts[r] |= t;
            }
    }
    return texts[0];
}

static void build(Grammar *g, Drawn row[RULES][ROWS])
{
    for (int r = 0; r < RULES; r++)
        grammar_rule(g, "r");
    for (int r = 0; r < RULES; r++)
        for (int a = 0; a < ROWS; a++) {
            Symbol s[SYMBOLS];
            for (int i = 0; i < row[r][a].n; i++) {
                const char *word = words[row[r][a].id[i]];
                s[i] = row[r][a].kind[i] ? symbol_rule((Rule)row[r][a].id[i])
                                         : symbol_expr(expr_text(g, word, strlen(word)));
                if (row[r][a].kind[i] == 2)
                    s[i] = grammar_repeat(g, s[i], 0, REPEAT_FOREVER);
            }
            grammar_add(g, (Rule)r, s, (size_t)row[r][a].n);
        }
}

/* Left, right and middle recursion, cycles, ambiguity, rules that match nothing: all by chance. */
static void grammars_match_as_defined(void)
{
    for (int round = 0; round < 400 && test_case_state == 0; round++) {
        Drawn row[RULES][ROWS];
        char  how[32];
        srand((unsigned)round);
        for (int r = 0; r < RULES; r++)
            for (int a = 0; a < ROWS; a++) {
                row[r][a].n = rand() % (SYMBOLS + 1);
                for (int i = 0; i < SYMBOLS; i++) {
                    row[r][a].kind[i] = rand() % 5 == 0 ? 2 : rand() % 2;
                    row[r][a].id[i] = row[r][a].kind[i] ? rand() % RULES : 1 + rand() % 4;
                }
                if (row[r][a].n == 0 && rand() % 3)
                    row[r][a] = row[r][a ? a - 1 : 0];
            }
        snprintf(how, sizeof how, "round %d", round);
        uint64_t texts = texts_of(row);
        Grammar *g = grammar_new(&err);
        build(g, row);
        Constraint *c = constraint_new(g, 0, "test", &err);
        CHECK(c || (texts == 0 && strstr(err.msg, "no text fits")), "%s: %s", how, err.msg);
        if (c)
            check_texts(c, texts, how);
        constraint_free(c);
    }
}

/* ---- Patterns and GBNF ----------------------------------------------------------------------- */

static Constraint *of_pattern(const char *pattern, bool search, CharForm form)
{
    Grammar *g = grammar_new(&err);
    return constraint_of_expr(g, expr_regex(g, pattern, strlen(pattern), search, form, "p"), "c",
                              &err);
}

static Constraint *of_gbnf(const char *text)
{
    Grammar *g = grammar_new(&err);
    Rule     root = 0;
    grammar_read_gbnf(g, text, strlen(text), "g", &root);
    return constraint_new(g, root, "c", &err);
}

static bool fits(Constraint *c, const char *text)
{
    ConstraintState s = constraint_start(c);
    CHECK(constraint_advance(c, &s, text, strlen(text), &err), "%s", err.msg);
    return constraint_may_end(c, s);
}

typedef struct PatternCase { const char *pattern, *yes[5], *no[5]; } PatternCase;

static void check_patterns(const PatternCase *p, bool search)
{
    for (; p->pattern && test_case_state == 0; p++) {
        Constraint *c = of_pattern(p->pattern, search, CHARS_UTF8);
        CHECK(c, "%s: %s", p->pattern, err.msg);
        for (int i = 0; i < 5 && c && p->yes[i]; i++)
            CHECK(fits(c, p->yes[i]), "%s: '%s' does not fit", p->pattern, p->yes[i]);
        for (int i = 0; i < 5 && c && p->no[i]; i++)
            CHECK(!fits(c, p->no[i]), "%s: '%s' fits", p->pattern, p->no[i]);
        constraint_free(c);
    }
}

/* x{a,b}{min,max}; 9 stands for any number */
static bool counts_allow(size_t n, size_t a, size_t b, size_t min, size_t max)
{
    for (size_t k = min; k <= (max == 9 ? min + n : max); k++)
        if (n >= k * a && ((b == 9 && k) || n <= k * b))
            return true;
    return false;
}

static void repetitions_of_repetitions_count_as_defined(void)
{
    enum { ANY = 9 };
    static const char letters[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    for (uint32_t i = 0; i < 10000 && test_case_state == 0; i++) {
        uint32_t a = i % 10, b = i / 10 % 10, min = i / 100 % 10, max = i / 1000;
        if (a > b || min > max || a == ANY || min == ANY)
            continue;
        Grammar *g = grammar_new(&err);
        Expr     e = expr_repeat(g, expr_text(g, "x", 1), a, b == ANY ? REPEAT_FOREVER : b);
        e = expr_repeat(g, e, min, max == ANY ? REPEAT_FOREVER : max);
        for (size_t n = 0; n < sizeof letters; n++)
            CHECK(expr_matches(g, e, letters, n) == counts_allow(n, a, b, min, max),
                  "x{%u,%u}{%u,%u}, %zu", a, b, min, max, n);
        grammar_free(g);
    }
}

static void patterns_match_the_whole_text(void)
{
    static const PatternCase cases[] = {
        { "abc", { "abc" }, { "", "ab", "abcd", "xabc" } },
        { "a|bc*", { "a", "b", "bccc" }, { "", "ab", "ac" } },
        { "(?:ab){2,3}", { "abab", "ababab" }, { "ab", "abababab" } },
        { "a{2,}b{,3}", { "aab{,3}" }, { "aab" } }, /* {,3} is no repetition in ECMA-262 */
        { "[a-c\\d_-]+", { "a-1_" }, { "", "d", "A" } },
        { "[^a]", { "b", "\n", "\u20ac", "\U0001F600" }, { "a", "", "bb" } },
        { ".", { "x", "\u00e9" }, { "\n", "\r", "\u2028" } },
        { "\\w\\W\\s\\S", { "a-\u00a0x" }, { "--- ", "\u00e9- x" } },
        { "\\u0041\\x42\\u{43}\\cJ\\/", { "ABC\n/" }, { "ABCJ/" } },
        { "\\ud83d\\ude00", { "\U0001F600" }, { "" } },
        { "\\p{Lu}\\P{Lu}\\p{Script=Greek}", { "A1\u03b1" }, { "a1\u03b1", "AA\u03b1" } },
        { "(?i)stra\u00dfe|k", { "STRA\u00dfe", "\u212a" }, { "strasse" } },
        { "(?i:a)b(?<name>c)", { "abc", "Abc" }, { "ABc" } },
        { "^a$|^$", { "a", "" }, { "b", "aa" } },
        { "a*?b+?c??", { "b", "aabbc" }, { "ac" } },
        { 0 },
    };
    check_patterns(cases, false);
}

static void patterns_are_found_in_the_text(void)
{
    static const PatternCase cases[] = {
        { "b", { "b", "abc", "\u20acb" }, { "", "ac" } },
        { "^b", { "b", "bc" }, { "ab", "" } },
        { "b$", { "b", "ab" }, { "bc", "" } },
        { "^(a|b)$", { "a", "b" }, { "ab", "aa" } },
        { "^a|b$", { "ax", "xb" }, { "xa", "bx" } },
        { "x*^a", { "a", "ab" }, { "xa" } }, /* a star that matches nothing lets ^ stand */
        { "a$b*", { "a", "xa" }, { "ab" } },
        { "^$", { "" }, { "a", "\n" } },
        { "(^a|b)c", { "acx", "xbc" }, { "xac" } },
        { "", { "", "abc" }, { NULL } },
        { 0 },
    };
    check_patterns(cases, true);
}

static void patterns_may_stand_in_json_strings(void)
{
    Constraint *c = of_pattern("a\"\\u00e9\\n[\\u{10000}-\\u{10FFFF}]\\/", false, CHARS_JSON);
    CHECK(c, "%s", err.msg);
    CHECK(fits(c, "a\\\"\u00e9\\n\U0001F600/"), "as it stands");
    CHECK(!fits(c, "\\u0061\\\"\u00e9\\n\U0001F600/"), "an escape that is not needed");
    CHECK(!fits(c, "a\\\"\u00e9\\u000a\U0001F600/"), "not the shortest escape");
    CHECK(!fits(c, "a\"\u00e9\\n\U0001F600/"), "a quote");
    CHECK(!fits(c, "a\\\"\u00e9\n\U0001F600/"), "a control character");
    CHECK(!fits(c, "a\\\"\u00e9\\n\\uD83d/"), "half a pair");
    constraint_free(c);
}

/* Tokenizers and constraints read what they share alike. */
static void a_pattern_means_the_same_to_a_tokenizer(void)
{
    static const char *const patterns[] = {
        "(a|bc)*k?", "(?i)[a-k\u00e9]+|(?-i:[^a])b", "a{2}|b{1,}|(?:ab){2,3}|\\x{e9}{0,1}c{,2}",
        "\\p{Lu}[\\P{Lu}-]+", "(?i:s)[^\\n]|\\cJ\\0?\\x41", "[\\]\\-^b]+|\\p{Greek}",
        "(?<n>a(?i)k)a|{b}",
    };
    static const char *const texts[] = {
        "", "a", "bcak", "abab", "aa", "bbb", "K\u212a", "s\u017f", "\u00c9A", "Aa-", "\u03b1",
        "\nA", "aKa", "aKA", "{b}", "]-^", "c{,2}", "\u00e9c{,2}", "Ss", "S\n", "\u20acb",
    };
    RegexRun *run = NULL;
    CHECK(regex_begin(&run, &err), "%s", err.msg);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        Constraint *c = of_pattern(patterns[i], false, CHARS_UTF8);
        char        whole[100], *room = NULL;
        Regex      *re = NULL;
        snprintf(whole, sizeof whole, "\\A(?:%s)\\z", patterns[i]);
        CHECK(c && regex_compile(&re, whole, "whole", &err), "%s: %s", patterns[i], err.msg);
        for (size_t t = 0; c && re && t < sizeof texts / sizeof *texts; t++) {
            size_t      n_room = 0, start, end, n = strlen(texts[t]);
            const char *seen = regex_text(re, texts[t], n, &room, &n_room, &err);
            int         is = regex_next(run, re, seen, n, 0, &start, &end, &err);
            CHECK(is == fits(c, texts[t]), "%s: '%s': %d", patterns[i], texts[t], is);
            free(room);
            room = NULL;
        }
        regex_free(re);
        constraint_free(c);
    }
    regex_end(run);
}

typedef struct Refused { const char *text, *why; } Refused;

static void what_is_no_pattern_is_refused_by_name(void)
{
    static const Refused cases[] = {
        { "a(?=b)", "p: column 2: look-around" },
        { "\u00e9(?<!b)", "p: column 2: look-around" },
        { "(a)\\1", "p: column 4: back-reference" },
        { "\\bx", "p: column 1: word boundary" },
        { "a)", "p: column 2: expected ( before )" },
        { "(a", "p: column 1: expected ) after (" },
        { "[a", "p: column 1: expected ] after [" },
        { "[b-a]", "p: column 2: expected a range" },
        { "*a", "p: column 1: expected something to repeat" },
        { "a**", "p: column 3: expected something to repeat" },
        { "a++", "p: column 2: possessive repetition" },
        { "a{3,2}", "p: column 2: expected a repetition" },
        { "a{99999999}", "p: column 2: a repetition is at most" },
        { "(^a)*", "p: column 1: an anchor that is repeated" },
        { "\\q", "p: column 1: unknown escape" },
        { "\\p{Nothing}", "p: column 1: no such property" },
        { "(?>a)", "p: column 1: this kind of group" },
        { "a\\", "p: column 2: expected a character after" },
        { "\xff", "p: column 1: expected UTF-8" },
        { "a[^\\u{0}-\\u{10FFFF}]", "c: no text fits" },
        { "b^a", "c: no text fits" },
        { 0 },
    };
    for (const Refused *r = cases; r->text && test_case_state == 0; r++) {
        Constraint *c = of_pattern(r->text, false, CHARS_UTF8);
        CHECK(!c && err.status == INPUT && strstr(err.msg, r->why), "%s: '%s'", r->text, err.msg);
        constraint_free(c);
    }
}

static void gbnf_is_read_as_llama_cpp_describes_it(void)
{
    Constraint *c = of_gbnf("# moves\n"
                            "root ::= ( # in parentheses, lines may end\n"
                            "   \"1. \" move \" \" move \"\\n\"\n"
                            "   ([1-9] [0-9]? \". \" move \"\\x0a\")+\n)\n"
                            "move ::= (pawn | Non_pawn-2) [+#]? |\n   \"O-O\"\n"
                            "pawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBKQR])?\n"
                            "Non_pawn-2 ::= [NBKQR] [a-h]{0,1} [1-8]{1} # the end");
    CHECK(c, "%s", err.msg);
    CHECK(fits(c, "1. e4 e5\n2. Nf3\n33. O-O\n"), "moves");
    CHECK(!fits(c, "1. e4 e5\n"), "one more move");
    constraint_free(c);
    c = of_gbnf("root ::= \"[\" (root (\",\" root)*)? \"]\" | [^\\]\\[,\\\"] | .{3} \"\\u20ac\"");
    CHECK(c, "%s", err.msg);
    CHECK(fits(c, "[x,[],[y,[z]]]") && fits(c, "\u00e9x\n\u20ac"), "nested");
    CHECK(!fits(c, "[x,]") && !fits(c, "[x") && !fits(c, "\""), "broken");
    constraint_free(c);
}

static void what_is_no_gbnf_is_refused_with_its_place(void)
{
    static const Refused cases[] = {
        { "root ::= a", "g:1:10: this rule is not defined" },
        { "a ::= \"b\"", "g: expected a rule root" },
        { "root ::= \"a", "g:1:10: expected a second quote" },
        { "root ::= \"a\"\n  ::=", "g:2:3: expected the name of a rule" },
        { "root ::= (\"a\"", "g:1:10: expected ) after" },
        { "root ::= [a", "g:1:10: expected ] after" },
        { "root ::= *", "g:1:10: expected something to repeat" },
        { "root ::= \"a\"{2,1}", "g:1:13: expected {m,n}" },
        { "root := \"a\"", "g:1:6: expected ::=" },
        { "root ::= \"a\"\nroot ::= \"b\"", "g:2:1: this rule is defined already" },
        { "root ::= <think>", "g:1:10: tokens: not supported" },
        { "root ::= \"\\q\"", "g:1:11: unknown escape" },
        { "root ::= \"\\ud800\"", "g:1:11: expected the code of a character" },
        { "root ::= \"a\" )", "g:1:14: expected a symbol" },
        { "root ::= \"a\" root", "c: no text fits" },
        { "", "g: expected a rule root" },
        { 0 },
    };
    for (const Refused *r = cases; r->text && test_case_state == 0; r++) {
        Constraint *c = of_gbnf(r->text);
        CHECK(!c && err.status == INPUT && strstr(err.msg, r->why), "%s: '%s'", r->text, err.msg);
        constraint_free(c);
    }
}

/* ---- States and masks ------------------------------------------------------------------------ */

static const char JSON[] =
    "root ::= value\n"
    "value ::= \"{\" ws (pair (\",\" ws pair)*)? \"}\" ws | \"[\" ws (value (\",\" ws value)*)? "
    "\"]\" ws"
    " | string | number | \"true\" ws | \"null\" ws\n"
    "pair ::= string \":\" ws value\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" "
    "[0-9a-fA-F]{4}))* "
    "\"\\\"\" ws\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)? ws\n"
    "ws ::= [ \\n\\t]{0,20}\n";

static void lists_do_not_make_states_without_end(void)
{
    static const char *const grammars[] = {
        "root ::= \"(\" list \")\"\nlist ::= root | root \",\" list | \"x\" | \"x,\" list",
        "root ::= \"(\" list \")\"\nlist ::= root | list \",\" root | \"x\" | list \",x\"", JSON };
    for (int k = 0; k < 3; k++) {
        Constraint     *c = of_gbnf(grammars[k]);
        const char     *begin = k < 2 ? "((" : "[[", *item = k < 2 ? "x," : "1,";
        CHECK(c, "%s", err.msg);
        ConstraintState s = constraint_start(c), first = 0;
        CHECK(constraint_advance(c, &s, begin, 2, &err), "%s", err.msg);
        for (int i = 0; i < 1000; i++) {
            CHECK(constraint_advance(c, &s, item, 2, &err) && s, "%s", err.msg);
            first = i == 1 ? s : first;
        }
        CHECK(s == first, "grammar %d: state %u, then %u", k, first, s);
        constraint_free(c);
    }
}

enum { VOCABULARY = 900 };
static char   piece_text[VOCABULARY][80];
static size_t piece_n[VOCABULARY];

static const char *piece(void *user, int id, size_t *n)
{
    (void)user;
    *n = piece_n[id];
    return id % 97 == 5 ? NULL : piece_text[id]; /* some are special */
}

static void draw_vocabulary(void)
{
    static const char *const parts[] = {
        "\"", "\\", "a", "Zz", "\u20ac", "\xe2", "\x82\xac", "\xac",
        "{",  "}",  "[", "]",  ",",      ":",    " ",        "\n",
        "1",  "0",  ".", "e",  "true",   "null", "u00",      "longer word"
    };
    for (int id = 0; id < VOCABULARY; id++) {
        char *to = memset(piece_text[id], 0, sizeof *piece_text);
        if (id < 256) { /* each byte */
            *to = (char)id;
            piece_n[id] = 1;
            continue;
        }
        if (id % 4 == 0) /* a long one */
            memset(to, "a 1\xac"[rand() % 4], 1 + (size_t)rand() % 67);
        for (int i = rand() % 5; i >= 0 && strlen(to) < 67 && (id % 4 || i % 2); i--)
            strcat(to, parts[(size_t)rand() % (sizeof parts / sizeof *parts)]);
        piece_n[id] = strlen(to);
    }
}

/* Where bytes are forced, no others may come, and the longest token that begins them is found. */
static void check_forced(Constraint *c, const TokenTrie *t, ConstraintState s)
{
    char   bytes[100];
    size_t n = constraint_forced(c, s, bytes, sizeof bytes), best = 0, n_token;
    for (size_t i = 0; i < n; i++) {
        CHECK(!constraint_may_end(c, s), "the text may end before byte %zu of %zu", i, n);
        for (int b = 0; b < 256; b++) {
            ConstraintState next = s;
            char            byte = (char)b;
            CHECK(constraint_advance(c, &next, &byte, 1, &err), "%s", err.msg);
            CHECK((next != STATE_DEAD) == (byte == bytes[i]), "byte %zu of %zu: %d", i, n, b);
        }
        constraint_advance(c, &s, bytes + i, 1, &err);
    }
    for (int id = 0; id < VOCABULARY; id++)
        if (id % 97 != 5 && piece_n[id] <= n && memcmp(piece_text[id], bytes, piece_n[id]) == 0)
            best = piece_n[id] > best ? piece_n[id] : best;
    int32_t id = token_trie_longest(t, bytes, n, &n_token);
    CHECK(n_token == best && (id < 0 ? best == 0
                                     : piece_n[id] == best
                                           && memcmp(piece_text[id], bytes, best) == 0),
          "token %d of %zu bytes, expected %zu", id, n_token, best);
}

/* Walks at random; at each state the mask says of each token what its bytes say. */
static void check_masks(Constraint *c, int steps)
{
    TokenTrie      *t = token_trie_new(VOCABULARY, piece, NULL, &err);
    ConstraintState s = constraint_start(c);
    CHECK(t && token_trie_size(t) == VOCABULARY, "%s", err.msg);
    for (int i = 0; i < steps && test_case_state == 0; i++) {
        check_forced(c, t, s);
        const uint64_t *bits = constraint_mask(c, t, s, &err);
        int             n = 0, allowed[VOCABULARY];
        CHECK(bits, "%s", err.msg);
        for (int id = 0; bits && id < VOCABULARY; id++) {
            ConstraintState next = s;
            CHECK(constraint_advance(c, &next, piece_text[id], piece_n[id], &err), "%s", err.msg);
            bool may = next != STATE_DEAD && id % 97 != 5;
            CHECK((bits[id / 64] >> id % 64 & 1) == may, "step %d: token %d '%s': expected %d", i,
                  id, piece_text[id], may);
            allowed[n] = id;
            n += may;
        }
        int id = n ? allowed[rand() % n] : 0;
        if (n == 0)
            s = constraint_start(c);
        else
            constraint_advance(c, &s, piece_text[id], piece_n[id], &err);
    }
    token_trie_free(t);
}

static void masks_say_what_the_bytes_say(void)
{
    static const char *const patterns[] = { "\"[^\"\\\\\\x00-\\x1f]{0,20}\"", "[a-z ]*1", ".*\n?",
                                            "(longer word\\{nulltrue\\}|longer word1)+Zz",
                                            "\"(?:[^\"\\\\\\x00-\\x1f]|\\\\.)*\"" };
    srand(7);
    draw_vocabulary();
    Constraint *c = of_gbnf(JSON);
    CHECK(c, "%s", err.msg);
    check_masks(c, 300);
    constraint_free(c);
    for (int i = 0; i < 5; i++) {
        c = of_pattern(patterns[i], false, CHARS_UTF8);
        CHECK(c, "%s", err.msg);
        check_masks(c, 60);
        constraint_free(c);
    }
}

/* Counts that end before, at and behind the lengths by which tokens are sorted. */
static void masks_count_as_the_bytes_do(void)
{
    static const char *const counted[] = { "a", "[a1 ]", "(a|ab)", "(aa1?)", "(a{3}|1{2})", "[^\"]",
                                           "\\P{Lu}" };
    static const int         near[] = { 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 60, 66, 67, 68, 300 };
    draw_vocabulary();
    for (int i = 0; i < 60 && test_case_state == 0; i++) {
        char  pattern[400];
        Expr  e[2];
        Error why = { 0 };
        Grammar *g = grammar_new(&why);
        for (int k = 0; k < 2; k++) {
            int from = near[rand() % 15], to = from + near[rand() % 15];
            snprintf(pattern, sizeof pattern, "%s{%d,%d}%s%s{%d}[1a]*", counted[rand() % 7],
                     rand() % 2 ? from : 0, to, rand() % 2 ? "|" : "", counted[rand() % 7],
                     near[rand() % 15]);
            e[k] = expr_regex(g, pattern, strlen(pattern), false, CHARS_UTF8, "pattern");
        }
        Expr even = expr_regex(g, "(..|1)*", 7, false, CHARS_UTF8, "pattern");
        Expr whole = rand() % 3 ? e[0] : rand() % 2 ? expr_and(g, e[0], even)
                                                    : expr_alt(g, e[0], e[1]);
        Constraint *c = constraint_of_expr(g, whole, "pattern", &why);
        if (c)
            check_masks(c, 12);
        constraint_free(c);
    }
}

static void hostile_input_ends_in_an_error(void)
{
    char       *text = malloc(400001);
    Constraint *c;
    text[400000] = '\0';
    memset(text, '(', 400000);
    CHECK(!of_pattern(text, false, CHARS_UTF8) && strstr(err.msg, "too deeply"), "%s", err.msg);
    memset(text, '|', 400000);
    c = of_pattern(text, false, CHARS_UTF8);
    CHECK(c && fits(c, "") && !fits(c, "|"), "%s", err.msg);
    constraint_free(c);
    c = of_pattern("(.*a.{200}){20}", false, CHARS_UTF8);
    if (c) { /* 2^200 states, of which few are made */
        ConstraintState s = constraint_start(c);
        srand(1);
        for (int i = 0; i < 3000; i++) {
            char byte = rand() % 2 ? 'a' : 'b';
            if (!constraint_advance(c, &s, &byte, 1, &err))
                break;
        }
    }
    constraint_free(c);
    /* every reading of a's is possible */
    c = of_gbnf("root ::= root root | \"a\" | root root root");
    CHECK(c, "%s", err.msg);
    ConstraintState s = constraint_start(c);
    memset(text, 'a', 200);
    CHECK(constraint_advance(c, &s, text, 200, &err) && constraint_may_end(c, s), "%s", err.msg);
    constraint_free(c);
    free(text);
}

static void a_broken_invariant_shows(void)
{
    Constraint *c = of_gbnf("root ::= root \"b\" | item\nitem ::= [a-c] item? \".\"");
    CHECK(c, "%s", err.msg);
    ConstraintState s = constraint_start(c);
    CHECK(constraint_advance(c, &s, "aa", 2, &err) && s != STATE_DEAD, "%s", err.msg);
    uint32_t  n_states = (uint32_t)c->states.start.n;
    uint32_t *row = c->states.words.word + c->states.start.word[s], *next = c->next;
    BREAKS(constraint_is_sound(c), c->start, n_states);
    BREAKS(constraint_is_sound(c), c->cap_next, 1);
    BREAKS(constraint_is_sound(c), next[0], s);
    BREAKS(constraint_is_sound(c), next[s * (uint32_t)c->g->n_classes], n_states);
    BREAKS(constraint_is_sound(c), row[0], 2);
    BREAKS(constraint_is_sound(c), row[1], (uint32_t)c->g->exprs.start.n);
    BREAKS(constraint_is_sound(c), row[2], DOT_ACCEPT);
    BREAKS(constraint_is_sound(c), row[3], (uint32_t)c->follows.start.n);
    BREAKS(constraint_is_sound(c), c->states.start.word[s], c->states.start.word[s] - 1);
    constraint_free(c);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    spell();
    TEST(expressions_match_as_defined);
    TEST(grammars_match_as_defined);
    TEST(repetitions_of_repetitions_count_as_defined);
    TEST(patterns_match_the_whole_text);
    TEST(patterns_are_found_in_the_text);
    TEST(patterns_may_stand_in_json_strings);
    TEST(a_pattern_means_the_same_to_a_tokenizer);
    TEST(what_is_no_pattern_is_refused_by_name);
    TEST(gbnf_is_read_as_llama_cpp_describes_it);
    TEST(what_is_no_gbnf_is_refused_with_its_place);
    TEST(lists_do_not_make_states_without_end);
    TEST(masks_say_what_the_bytes_say);
    TEST(masks_count_as_the_bytes_do);
    TEST(hostile_input_ends_in_an_error);
    TEST(a_broken_invariant_shows);
    return TEST_END();
}
