/* Patterns of tokenizers. pcre2_compile is replaced by one that looks at what the library is
 * handed. */
#include <dlfcn.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include "test.h"
#include "tokenizer/regex.h"

static char     spelled[1 << 20]; /* the last pattern that PCRE2 got */
static uint32_t options;

pcre2_code *pcre2_compile(PCRE2_SPTR pattern, PCRE2_SIZE n, uint32_t opt, int *code, PCRE2_SIZE *at,
                          pcre2_compile_context *context)
{
    typedef pcre2_code *Compile(PCRE2_SPTR, PCRE2_SIZE, uint32_t, int *, PCRE2_SIZE *,
                                pcre2_compile_context *);
    union { void *symbol; Compile *compile; } real = { dlsym(RTLD_NEXT, "pcre2_compile_8") };
    snprintf(spelled, sizeof spelled, "%s", (const char *)pattern);
    options = opt;
    return real.compile(pattern, n, opt, code, at, context);
}

static void check_matches(const char *pattern, const char *text, const char *expected)
{
    Error     err = { 0 };
    Regex    *re = NULL;
    RegexRun *run = NULL;
    char     *room = NULL, found[256] = "";
    size_t    n_room = 0, start, end = 0, n = strlen(text), n_found = 0;
    if (!regex_compile(&re, pattern, "test", &err) || !regex_begin(&run, &err)) {
        CHECK(false, "%s", err.msg);
        regex_free(re);
        return;
    }
    const char *seen = regex_text(re, text, n, &room, &n_room, &err);
    regex_budget(run, n);
    while (regex_next(run, re, seen, n, end, &start, &end, &err) > 0 && end > start)
        n_found += (size_t)snprintf(found + n_found, sizeof found - n_found, "%s%.*s",
                                    n_found ? "|" : "", (int)(end - start), text + start);
    CHECK(strcmp(found, expected) == 0, "%s in %s: expected %s, found %s", pattern, text, expected,
          found);
    regex_end(run);
    regex_free(re);
    free(room);
}

static const char *const PATTERNS[] = {
    /* of published tokenizers, and odd ones */
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'"
    "s|'t)?|(?:(?!\\p{Han})[\\p{L}])++|\\b\\w+\\b",
    "(?i)[a-z\\p{Greek}]|\\B\\d|[\\W\\D]|\\P{Lu}|\\p{^Lu}|\\x{1F600}|\\pL|(?-i:k)",
    "(\\p{L})\\1",
    ".",
    "",
};

static void the_library_is_asked_nothing_about_unicode(void)
{
    for (size_t i = 0; i < sizeof PATTERNS / sizeof *PATTERNS; i++) {
        Error  err = { 0 };
        Regex *re = NULL;
        CHECK(regex_compile(&re, PATTERNS[i], "test", &err), "%s", err.msg);
        CHECK((options & PCRE2_NEVER_UCP) && !(options & (PCRE2_UCP | PCRE2_CASELESS)),
              "%s: options %x", PATTERNS[i], options);
        for (const char *p = spelled; *p; p++) {
            bool asks = *p == '\\' && p[1] && strchr("pPdDsSwWbBhHvVRXN", p[1]);
            bool folds = p[0] == '(' && p[1] == '?' && p[2] == 'i';
            CHECK(!asks && !folds && (unsigned char)*p < 0x80, "%s became %.500s", PATTERNS[i],
                  spelled);
            p += *p == '\\';
        }
        regex_free(re);
    }
}

static void properties_are_those_of_unicode_16(void)
{
    check_matches("\\p{Nd}+", "a\U00010D40\U000116D9b\U00011DE0",
                  "\U00010D40\U000116D9"); /* of 16, the last one of 17 */
    check_matches("\\p{L}+", "\u1C89\U000105C0 \U00016EA0", "\u1C89\U000105C0");
    check_matches("\\p{Lowercase_Letter}+|\\p{Garay}", "ab\U00010D50", "ab|\U00010D50");
    check_matches("\\p{Script=Han}|\\p{sc:Hira}", "a\u4E00\u3042", "\u4E00|\u3042");
    check_matches("\\p{Emoji}\\p{ASCII}", "\U0001F600a", "\U0001F600a");
}

static void case_is_spelled_out(void)
{
    check_matches("(?i:'s|'k)", "'s 'S '\u017F 'K '\u212A 'x", "'s|'S|'\u017F|'K|'\u212A");
    check_matches("(?i)[^a\u03C3]", "aA\u03C3\u03A3\u03C2b", "b");
    check_matches("(?i)\\p{Lu}|[\\p{Lt}x]", "aAX\u01C5\u01C6",
                  "A|X|\u01C5|\u01C6"); /* case counts in [ ] alone, as in Oniguruma */
    check_matches("a(?i)b(?-i)c|(?i:d)e", "aBc ABc aBC De DE", "aBc|De");
    check_matches("(a(?i)b)b", "aBb aBB", "aBb");
    check_matches("(?i)\uA7CB", "\u0264\uA7CB", "\u0264|\uA7CB"); /* a pair of Unicode 16 */
}

static void each_part_of_a_pattern_keeps_its_meaning(void)
{
    check_matches("\\bab\\b", "ab cab ab\u0301 (ab)", "ab|ab");
    check_matches("\\Bb", "ab b \u00E9b", "b|b");
    check_matches("[]\\-a]+|[^]x]", "]-ax\u00E9", "]-a|\u00E9");
    check_matches("[\\x41\\x{42}\\0101\\n\\t]+|\\x{e9}\\e?", "ABb\n\t\u00E9", "AB|\n\t|\u00E9");
    check_matches("a{2}|b{1,}|c{,2}|d{|{", "aaa bb c{,2} d{{", "aa|bb|c{,2}|d{|{");
    check_matches("(\\p{L})\\1", "\u00E9\u00E8\u00E8\u4E00\u4E00",
                  "\u00E8\u00E8|\u4E00\u4E00"); /* classes do not tell them apart */
    check_matches("(?<x>a)(?#b)c(?:d|e)(?=f)(?!g)(?<=e)(?<!d)f", "acef acdf", "acef");
    check_matches("(?s).(?-s).", "\n\u00E9\n\n", "\n\u00E9");
    check_matches("\\pN}+", "1}}2}", "1}}|2}"); /* the brace is no part of the property */
    check_matches("[[:digit:]]+[[:^digit:]]", "1\u0661x", "1\u0661x");
    check_matches("\\S\\s\\D\\W", "\u4E00\u3000\u4E8C\u3002", "\u4E00\u3000\u4E8C\u3002");
    check_matches("[\\s\\S]", "a\U0001F600", "a|\U0001F600");
    check_matches("[^\\s\\S]", "a", "");
}

static void what_is_not_known_is_refused_by_name(void)
{
    static const struct { const char *pattern, *message;
    } row[] = {
        {"a\\p{Klingon}b", "'\\p{Klingon}' is not supported"},
        { "\\p{L",         "without its }"                  },
        { "\\X",           "'\\X' is not"                   },
        { "[\\R]",         "'\\R' is not"                   },
        { "\\h",           "'\\h' is not"                   },
        { "\\v",           "'\\v' is not"                   },
        { "(*UCP)a",       "'(*' is not"                    },
        { "(?x)a",         "'(?x' is not"                   },
        { "(?R)",          "'(?R' is not"                   },
        { "(?1)",          "'(?1' is not"                   },
        { "(?P>a)",        "'(?P' is not"                   },
        { "(?i)(a)\\1",    "'\\1' is not"                   },
        { "\\12",          "'\\1' is not"                   },
        { "[z-a]",         "'z-a' is not"                   },
        { "[a-\\d]",       "'a-\\d' is not"                 },
        { "[\\d-a]",       "is not supported"               },
        { "[a",            "without its ]"                  },
        { "a)",            "without its ("                  },
        { "(a",            "without its )"                  },
        { "\\",            "'\\' is not"                    },
        { "\\x{110000}",   "code point"                     },
        { "\\x{d800}",     "code point"                     },
        { "\\x{}",         "code point"                     },
        { "[[:alpha:]]",   "'[:alpha:]' is not"             },
        { "\\q",           "'\\q' is not"                   },
        { "(?",            "'(?' is not"                    },
        { "\xFF",          "UTF-8"                          },
        { "a**b+++",       "regex 'a**b+++'"                },
        { "(?<a",          "'(?<' is not"                   },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Error  err = { 0 };
        Regex *re = NULL;
        CHECK(!regex_compile(&re, row[i].pattern, "test", &err) && !re, "%s: taken",
              row[i].pattern);
        CHECK(err.status == INPUT && strstr(err.msg, row[i].message), "%s: expected '%s' in '%s'",
              row[i].pattern, row[i].message, err.msg);
    }
}

/* A tokenizer.json is written for Oniguruma. NULL: it reads the pattern as PCRE2 does. */
static void what_oniguruma_reads_differently_is_told_apart(void)
{
    static const struct { const char *pattern, *part; } row[] = {
        { "a\\h", "\\h" },
        { "[\\R]", "\\R" },
        { "a^", "^" },
        { "\\^[$^]", NULL },
        { "[a&&b]", "&&" },
        { "[a[b]]", "[ in [" },
        { "[a\\[b&]|[[:digit:]]", NULL },
        { "[[:^digit:]]", "[:^digit:]" },
        { "[[:alpha:]]", "[:alpha:]" },
        { "(?m:a)", "(?m:" },
        { "(?i-m:a)(?s)", NULL },
        { "(?ix)", "(?ix)" },
        { "a{,3}", "{,3}" },
        { "a{3}?", "{3}?" },
        { "a{1,3}+", "{1,3}+" },
        { "a{1,3}?b{3}c{d", NULL },
        { "\\x{5e}{,3}", "{,3}" },
        { "\\p{^Lu}(?#^$)", NULL },
        { "(?#\\)(a)", "(?#\\)" },
        { "\\cA\\c[\\c?", NULL },
        { "\\c1", "\\c1" },
        { "\\c\\a", "\\c\\" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Pattern    pattern;
        RegexFault fault;
        const char *text = row[i].pattern, *part = row[i].part ? row[i].part : "";
        bool ok = regex_parse(&pattern, text, strlen(text), &REGEX_ONIGURUMA, &fault);
        int  n = ok ? 0 : (int)(fault.to - fault.from);
        CHECK(ok == !row[i].part && fault.unlike == !ok && n == (int)strlen(part)
                  && memcmp(ok ? "" : fault.from, part, strlen(part)) == 0,
              "%s: expected '%s', found '%.*s'", text, part, n, ok ? "" : fault.from);
        pattern_free(&pattern);
    }
}

/* Sets that share no character, and sets that all cut each other. */
static void many_sets_are_told_apart(void)
{
    char  *pattern = malloc(1 << 17), *p = pattern;
    Error  err = { 0 };
    Regex *re = NULL;
    for (int i = 0; i < 1000; i++)
        p += sprintf(p, "%s[\\x{%x}%s]", i ? "|" : "", 0x4E00 + i, i == 500 ? "!" : "");
    check_matches(pattern, "\u4E00\u4FF4!\u51E8", "\u4E00|\u4FF4|!");
    p = pattern;
    for (int i = 0; i < 300; i++)
        p += sprintf(p, "%s[\\x{%x}-\\x{%x}\\p{L}]\\d", i ? "|" : "", 0x2E00 + i, 0x2F00 + 2 * i);
    check_matches(pattern, "\u2E001\u4E002", "\u2E001|\u4E002");
    p = pattern;
    for (int i = 0; i < 5000; i++)
        p += sprintf(p, "[\\x%02x%c-%c]", 1 + i / 64 % 64, 'a' + i % 5, 'n' + i % 7);
    CHECK(!regex_compile(&re, pattern, "test", &err) && err.status == INPUT,
          "5000 sets: taken, or %s", err.msg);
    free(pattern);
}

/* Each takes seconds, or hundreds of megabytes, where nothing bounds the work. */
static void many_large_sets_are_refused_by_name(void)
{
    static const char *const row[][3] = {
        {"[",    "\\w",   "]"},
        { "",     "\\b",   "" },
        { "(?i)", "[\\W]", "" }
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char  *pattern = malloc(1 << 16), *p = pattern + sprintf(pattern, "%s", row[i][0]);
        Error  err = { 0 };
        Regex *re = NULL;
        while (p - pattern < (1 << 16) - 8)
            p += sprintf(p, "%s", row[i][1]);
        sprintf(p, "%s", row[i][2]);
        CHECK(!regex_compile(&re, pattern, "test", &err) && err.status == INPUT
                  && strstr(err.msg, "...': its sets of characters are too many or too large"),
              "%s...: taken, or %s", row[i][1], err.msg);
        regex_free(re);
        free(pattern);
    }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(the_library_is_asked_nothing_about_unicode);
    TEST(properties_are_those_of_unicode_16);
    TEST(case_is_spelled_out);
    TEST(each_part_of_a_pattern_keeps_its_meaning);
    TEST(what_is_not_known_is_refused_by_name);
    TEST(what_oniguruma_reads_differently_is_told_apart);
    TEST(many_sets_are_told_apart);
    TEST(many_large_sets_are_refused_by_name);
    return TEST_END();
}
