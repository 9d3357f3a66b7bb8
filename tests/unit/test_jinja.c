/* Templates: marks, bounds, errors with their place. What the language's features render is in
 * tests/text/test_jinja.py, against recorded answers of Jinja2. */
#include <pthread.h>
#include <time.h>
#include "test.h"
#include "chat/jinja.h"

static JsonDoc parse(const char *text)
{
    JsonDoc d = { 0 };
    Error   e = { 0 };
    CHECK(json_doc_parse(&d, strdup(text), strlen(text), 0, "test", &e), "%s", e.msg);
    return d;
}

static bool render(const char *template, const char *own, const char *given, JinjaText *out,
                   Error *e)
{
    JsonDoc    o = parse(own), g = parse(given);
    static const char *const roles[] = { "user", NULL };
    JinjaInput in = { o.node, g.node, "2026-02-03", roles };
    Jinja     *t = jinja_parse(template, strlen(template), "test", e);
    bool       ok = t && jinja_render(t, &in, out, e);
    jinja_free(t);
    json_doc_free(&o);
    json_doc_free(&g);
    return ok;
}

#define GIVEN "{\"x\": \"<s>\", \"l\": [\"a\", \"b\"], \"n\": 5, \"bos\": \"no\"}"

static void renders(const char *template, const char *expected)
{
    Error     e = { 0 };
    JinjaText out = { 0 };
    bool      ok = render(template, "{}", GIVEN, &out, &e);
    CHECK(ok && strcmp(out.text, expected) == 0, "%s: expected %s, found %s", template, expected,
          ok ? out.text : e.msg);
    jinja_text_free(&out);
}

/* expected: for each byte of the text a '1' where it is the template's. */
static void marks(const char *template, const char *text, const char *expected)
{
    Error     e = { 0 };
    JinjaText out = { 0 };
    bool      ok = render(template, "{\"bos\": \"<b>\"}", GIVEN, &out, &e);
    CHECK(ok && strcmp(out.text, text) == 0, "%s: expected %s, found %s", template, text,
          ok ? out.text : e.msg);
    CHECK(!ok || out.n == strlen(expected), "%s: %zu bytes", template, out.n);
    for (size_t i = 0; ok && i < out.n && i < strlen(expected); i++)
        CHECK(out.mark[i] == expected[i] - '0', "%s: %s: byte %zu is marked %d", template, text, i,
              out.mark[i]);
    jinja_text_free(&out);
}

static void fails(const char *template, const char *words)
{
    Error           e = { 0 };
    JinjaText       out = { 0 };
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    bool ok = render(template, "{}", "{\"x\": \"<s>\", \"l\": [1, 2]}", &out, &e);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    CHECK(!ok && strstr(e.msg, words), "%.80s: expected %s, found %s", template, words,
          ok ? out.text : e.msg);
    CHECK(e.status == INPUT, "status %d", e.status);
    double seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    CHECK(seconds < 120, "%.80s took %.1f s", template, seconds); /* with a sanitizer */
    jinja_text_free(&out);
}

static void template_text_and_constants_are_marked(void)
{
    marks("a{{ x }}b", "a<s>b", "10001");
    marks("{{ '<s>' }}{{ x }}", "<s><s>", "111000");
    marks("{{ bos }}{{ x }}", "<b><s>", "111000");
    marks("{% set y = '[' + x + ']' %}{{ y }}", "[<s>]", "10001");
    marks("{% raw %}{{{% endraw %}", "{{", "11");
}

static void numbers_and_what_filters_make_is_data(void)
{
    marks("{{ '<' + (x | safe) + '>' + x }}", "&lt;<s>&gt;&lt;s&gt;", "1111000111100000" "0000");
    marks("{{ 1 }}{{ n }}{{ true }}{{ none }}", "15TrueNone", "0000000000");
    marks("{{ ['<s>', x] }}", "['<s>', '<s>']", "00111000000000");
    marks("{{ {'k': x} | tojson }}", "{\"k\": \"<s>\"}", "001000000000");
    marks("{{ l | join }}{{ 'c' | center(3) }}", "ab c ", "00010");
    marks("{{ 'a\nb' | indent(1) }}", "a\n b", "1001");
}

static void known_roles_are_marked(void)
{
    marks("{% for m in [{'role': x}, {'role': 'q'}] %}{{ m.role }}{% endfor %}", "<s>q", "0001");
    Error     e = { 0 };
    JinjaText out = { 0 };
    bool      ok = render("{% for m in d %}<{{ m.role }}>{{ m.text }}{% endfor %}", "{}",
                          "{\"d\": [{\"role\": \"user\", \"text\": \"user\"},"
                          " {\"role\": \"u\"}]}", &out, &e);
    CHECK(ok && strcmp(out.text, "<user>user<u>") == 0, "%s", ok ? out.text : e.msg);
    CHECK(ok && memcmp(out.mark, "\1\1\1\1\1\1\0\0\0\0\1\0\1", 13) == 0, "marks");
    jinja_text_free(&out);
}

static void text_operations_keep_the_marks(void)
{
    marks("{{ ('<' ~ x)[0:2] }}", "<<", "10");
    marks("{{ ('<' ~ x)[::-1] }}", ">s<<", "0001");
    marks("{{ (x + '<e>').replace('>', '|') }}", "<s|<e|", "001111");
    marks("{{ ('a<s>' + x).replace(x, x) }}", "a<s><s>", "1000000");
    marks("{{ (' ' ~ x ~ ' ').strip() ~ 'y' }}", "<s>y", "0001");
    marks("{{ ('A' ~ x).lower() ~ (x ~ 'b') | upper }}", "a<s><S>B", "10000001");
    marks("{{ '<|'.join(l) }}{{ l | join('|') }}", "a<|ba|b", "0110010");
    marks("{{ ('p' ~ x ~ 'q').split('s') | join('-') }}", "p<->q", "10101");
    marks("{{ '[%s]' % x }}{{ '{}.'.format(x) }}", "[<s>]<s>.", "100010001");
    marks("{% filter upper %}a{{ x }}{% endfilter %}", "A<S>", "1000");
    marks("{% macro m(y) %}<{{ y }}>{% endmacro %}{{ m(x) }}", "<<s>>", "10001");
    marks("{{ ('a' ~ x) | tojson }}", "\"a<s>\"", "010000");
    marks("{{ ('\\n' ~ x) | tojson }}", "\"\\n<s>\"", "0110000");
    marks("{{ ('a' ~ x) | list | last }}{{ ('a' ~ x) | first }}", ">a", "01");
}

static void a_date_is_the_only_clock(void)
{
    renders("{{ strftime_now('%d %b %Y') }}", "03 Feb 2026");
    renders("{{ strftime_now('%A %-d. %B %y %j %H:%M %F') }}",
            "Tuesday 3. February 26 034 00:00 2026-02-03");
    fails("{{ strftime_now('%s') }}", "is not supported");
    Error      e = { 0 };
    JinjaText  out = { 0 };
    JinjaInput in = { 0 };
    Jinja     *t = jinja_parse("{{ strftime_now is defined }}", 29, "test", &e);
    CHECK(t && jinja_render(t, &in, &out, &e), "%s", e.msg);
    CHECK(out.text && strcmp(out.text, "False") == 0, "%s", out.text);
    jinja_text_free(&out);
    jinja_free(t);
}

static void errors_name_line_and_column(void)
{
    fails("a\n  {{ x.y.z }}", "test: line 2, column 9: 'y' is no attribute");
    fails("{% if x %}\n\nb", "line 3, column 2: expected 'elif', found the end");
    fails("{{ raise_exception('bad ' ~ x) }}", "the template says: bad <s>");
    fails("{{ 'é' ~ nope.x }}", "column 14: 'nope' is undefined");
    fails("{% include 'x' %}", "the tag 'include' is not supported");
    fails("{% block b %}{% endblock %}", "the tag 'block' is not supported");
    fails("{{ x | escape }}", "the filter 'escape' is not supported");
    fails("{{ x | nope }}", "there is no filter 'nope'");
    fails("{{ x.encode() }}", "the method encode of a str is not supported");
    fails("{{ lipsum() }}", "lipsum is not supported");
    fails("{{ x.upper }}", "printing a method is not supported");
    fails("{{ l.append(3) }}", "may not be used in a template");
    fails("{{ '\xff' }}", "not UTF-8");
    fails("{{ (x | safe) % 'a' }}", "safe text");
    fails("{% set ns = namespace(_a=1) %}", "underscore");
}

static void integers_have_64_bits(void)
{
    renders("{{ 9223372036854775807 }}", "9223372036854775807");
    fails("{{ 9223372036854775808 }}", "64 bits");
    fails("{{ 9223372036854775807 + 1 }}", "64 bits");
    fails("{{ 2 ** 64 }}", "64 bits");
    fails("{{ -9223372036854775807 - 2 }}", "64 bits");
    fails("{{ 4611686018427387904 * 2 }}", "64 bits");
    fails("{{ (-9223372036854775807 - 1) // -1 }}", "64 bits");
    fails("{{ '9223372036854775808' | int }}", "64 bits");
}

static void hostile_templates_end(void)
{
    fails("{{ range(10**9) }}", "range: more than 100000 items");
    fails("{{ range(-(2**62), 2**62 + 2) }}", "range: more than");
    fails("{{ 'a' * 10**9 }}", "64 MB");
    fails("{{ [0] * 10**12 }}", "64 MB");
    fails("{{ 'ab'.center(10**12) }}", "64 MB");
    fails("{{ '%1000000000d' % 1 }}", "64 MB");
    fails("{{ '%.500f' % 1 }}", "precision");
    fails("{{ '{:>99999999999}'.format('a') }}", "64 MB");
    fails("{{ l | tojson(indent=10**10) }}", "64 MB");
    fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "deeper than");
    fails("{% for x in [l] recursive %}{{ loop([l]) }}{% endfor %}", "deeper than");
    fails("{% set n = namespace(a=1) %}{% set n.a = n %}{{ n }}", "deeper than");
    fails("{% set n = namespace(a=[]) %}{% for i in range(9999) %}{% set n.a = [n.a] %}{% endfor %}"
          "{{ n.a == n.a }}", "deeper than");
    fails("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
          "takes more than");
    fails("{% for a in range(99999) %}{% for b in range(99999) %}{{ 'some text' }}{% endfor %}"
          "{% endfor %}", "more than");
    fails("{% set n = namespace(a='aaaaaaaa') %}{% for i in range(99) %}"
          "{% set n.a = n.a + n.a %}{% endfor %}", "64 MB");
    fails("{% set n = namespace(a='a') %}{% for i in range(99) %}"
          "{% set n.a = n.a.replace('a', 'aaaa') %}{% endfor %}", "more than");
    fails("{{ ('a' * 3000000).count('a') }}{{ ('a' * 9000000).upper() }}", "more than");
    fails("{{ (('a' * 100000) ~ 'b') in ('a' * 10000000) }}{% for i in range(90000) %}"
          "{{ 'b' in x * 100000 }}{% endfor %}", "more than");
}

static void a_template_of_brackets_is_not_deep(void)
{
    static char text[40000];
    static const char *const opens[] = { "(", "[", "{1:", "-", "not ", "x[", "x if " };
    for (size_t k = 0; k < sizeof opens / sizeof *opens; k++) {
        size_t n = (size_t)snprintf(text, sizeof text, "{{ ");
        for (int i = 0; i < 5000; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", opens[k]);
        if (k < 6)
            fails(text, "deep");
        else
            fails(text, "expected");
    }
    size_t n = 0;
    for (int i = 0; i < 3000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "{%%if x%%}");
    fails(text, "deeper");
    n = (size_t)snprintf(text, sizeof text, "{{ 1");
    for (int i = 0; i < 5000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "+1");
    snprintf(text + n, sizeof text - n, "}}");
    fails(text, "deeper");
}

static void appending_is_not_square(void)
{
    Error     e = { 0 };
    JinjaText out = { 0 };
    bool ok = render("{% set n = namespace(a='') %}{% for i in range(50000) %}"
                     "{% set n.a = n.a + 'some words ' %}{% endfor %}{{ n.a | length }}",
                     "{}", "{}", &out, &e);
    CHECK(ok && strcmp(out.text, "550000") == 0, "%s", ok ? out.text : e.msg);
    jinja_text_free(&out);
    /* A text that was appended to is still itself. */
    renders("{% set a = x + 'b' %}{% set c = a + '1' %}{% set d = a + '2' %}{{ a }}{{ c }}{{ d }}",
            "<s>b<s>b1<s>b2");
}

static void *render_often(void *template)
{
    Error      e = { 0 };
    JinjaInput in = { 0 };
    for (int i = 0; i < 50; i++) {
        JinjaText out = { 0 };
        if (!jinja_render(template, &in, &out, &e) || strcmp(out.text, "3xa") != 0)
            return "differs";
        jinja_text_free(&out);
    }
    return NULL;
}

static void threads_share_a_template(void)
{
    const char text[] = "{% set y = 'x' %}{{ 'abé' | length }}{{ y }}{{ 'abé'[0] }}";
    Error      e = { 0 };
    Jinja     *t = jinja_parse(text, strlen(text), "test", &e);
    pthread_t  thread[4];
    void      *wrong = NULL, *one;
    CHECK(t, "%s", e.msg);
    for (int i = 0; t && i < 4; i++)
        CHECK(pthread_create(&thread[i], NULL, render_often, t) == 0, "no thread");
    for (int i = 0; t && i < 4; i++) {
        pthread_join(thread[i], &one);
        wrong = one ? one : wrong;
    }
    CHECK(!wrong, "%s", (char *)wrong);
    jinja_free(t);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(template_text_and_constants_are_marked);
    TEST(numbers_and_what_filters_make_is_data);
    TEST(known_roles_are_marked);
    TEST(text_operations_keep_the_marks);
    TEST(a_date_is_the_only_clock);
    TEST(errors_name_line_and_column);
    TEST(integers_have_64_bits);
    TEST(hostile_templates_end);
    TEST(a_template_of_brackets_is_not_deep);
    TEST(appending_is_not_square);
    TEST(threads_share_a_template);
    return TEST_END();
}
