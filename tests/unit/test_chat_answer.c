/* Answers: JSON that is followed byte by byte, other notations, markers that are held back, what
 * hostile templates and answers cost. What families of templates write is in
 * tests/text/test_answers.py. */
#include <time.h>
#include "test.h"
#include "chat/chat_answer.c" /* what is inside an answer */

static const char HERMES[] =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.reasoning_content and '<think>' + "
    "m.reasoning_content + '</think>' or '' }}{{ m.content }}{% for c in m.tool_calls or [] %}"
    "<call>{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson "
    "}}}"
    "</call>{% endfor %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

static AnswerForm *form_of(const char *template, const char *args)
{
    Error e = { 0 };
    static const char *const roles[] = { "user", "assistant", NULL };
    Jinja      *t = jinja_parse(template, strlen(template), "test", &e);
    AnswerInput in = { .args = args, .roles = roles, .tools = true };
    AnswerForm *f = t ? answer_form_new(t, &in, &e) : NULL;
    CHECK(f, "%s", e.msg);
    jinja_free(t);
    return f;
}

/* The parts as text: c(...) r(...) call(name) args(...) end. */
static void print_parts(TextOut *o, const Answer *a)
{
    static const char *const names[] = { "c", "r", "call", "id", "args", "end" };
    size_t            n;
    const AnswerPart *p = answer_parts(a, &n);
    for (size_t i = 0; i < n; i++)
        text_out(o, "%s%d(%s)", names[p[i].kind], p[i].call, p[i].text);
}

static void reads(const AnswerForm *f, const char *first, const char *then, const char *expected)
{
    Error   e = { 0 };
    TextOut o = { 0 };
    Answer *a = f ? answer_new(f, NULL, &e) : NULL;
    CHECK(a, "no answer");
    if (!a)
        return;
    answer_put(a, first, strlen(first), false, &e);
    print_parts(&o, a);
    CHECK(answer_is_sound(a), "behind %s", first);
    text_out(&o, "/");
    answer_put(a, then, strlen(then), false, &e);
    print_parts(&o, a);
    CHECK(answer_is_sound(a), "behind %s+%s", first, then);
    text_out(&o, "/");
    answer_end(a, &e);
    print_parts(&o, a);
    CHECK(answer_is_sound(a), "%s+%s and its end", first, then);
    CHECK(!o.failed && o.n == strlen(expected) && memcmp(o.text, expected, o.n) == 0,
          "%s+%s: expected %s, found %.*s", first, then, expected, (int)o.n, o.text);
    answer_free(a);
    text_out_free(&o);
}

static void a_marker_is_held_back_and_no_longer_than_needed(void)
{
    AnswerForm *f = form_of(HERMES, NULL);
    AnswerFacts facts = answer_form_facts(f);
    CHECK(facts.calls && facts.reasoning && !facts.text_arguments, "facts");
    CHECK(facts.reasoning_key && strcmp(facts.reasoning_key, "reasoning_content") == 0, "key");
    reads(f, "Hi <c", "at", "c-1(Hi)/c-1( <cat)/");
    reads(f, "Hi  ", "you ", "c-1(Hi)/c-1(  you)/c-1( )");
    reads(f, "<think>a</thi", "nk>b", "r-1(a)/c-1(b)/");
    reads(f, "<think>a", " b", "r-1(a)/r-1( b)/");
    reads(f, "So <call>{\"name\": \"f\", \"argu", "ments\": {\"x\": [1, \"}\"]}}</call>",
          "c-1(So)call0(f)/args0({\"x\": [1, \"}\"]})end0()/");
    reads(f, "<call>{\"name\": \"f\", \"arguments\": {\"x\"", ": 1",
          "call0(f)args0({\"x\")/args0(: 1)"
          "/end0()");
    reads(f, "<call>{\"name\": \"f\"}</call><call>{\"name\": \"g\", \"arguments\": {}}", "</call>",
          "call0(f)args0({})end0()call1(g)args1({})end1()//");
    reads(f, "<call>{\"name", "\": nope", "//c-1(<call>{\"name\": nope)");
    reads(f, "\xc3", "\xa9", "/c-1(\xc3\xa9)/");
    answer_form_free(f);
}

static void what_cannot_be_probed_is_content(void)
{
    static const char *const templates[] = {
        "{{ raise_exception('no') }}",
        "nothing of the messages",
        "{% for m in messages %}{{ m.content }}{% endfor %}",
        ("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}"
         "{{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"),
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        AnswerForm *f = form_of(templates[i], NULL);
        AnswerFacts facts = f ? answer_form_facts(f) : (AnswerFacts){ 0 };
        CHECK(!facts.calls, "%s: calls", templates[i]);
        reads(f, "<tool_call>{\"name\": \"f\", ", "\"arguments\": {}}",
              "c-1(<tool_call>{\"name\": \"f\",)/c-1( \"arguments\": {}})/");
        answer_form_free(f);
    }
    AnswerForm *f = form_of(HERMES, "{\"messages\": 1}"); /* a variable that the probes need */
    CHECK(f && !answer_form_facts(f).calls, "calls");
    answer_form_free(f);
    f = form_of(HERMES, "not JSON");
    CHECK(f && !answer_form_facts(f).calls, "calls");
    answer_form_free(f);
}

static void json_is_followed_byte_by_byte(void)
{
    static const struct { const char *text; size_t n; } cases[] = {
        { "{}", 2 }, { "[]x", 2 }, { "[1, {\"a\": \"]\\\"\"}] ", 17 },
        { "{\"a\": [true, -1.5e+3]}", 22 },
        { "{\"a\" 1}", 0 }, { "[1 2]", 0 }, { "{1: 2}", 0 }, { "[}", 0 }, { "{\"a\": }", 0 },
        { "[", 0 },
        { "x", 0 }, { "", 0 }, { "[\"\n\"]", 0 }, { "[{]}", 0 }, { "[,]", 0 }, { "{,}", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = json_length(cases[i].text, strlen(cases[i].text));
        CHECK(n == cases[i].n, "%s: expected %zu, found %zu", cases[i].text, cases[i].n, n);
    }
    char deep[200];
    memset(deep, '[', sizeof deep);
    CHECK(json_length(deep, sizeof deep) == 0, "deep");
}

static void other_notations_become_json(void)
{
    static const struct { const char *text, *json; } cases[] = {
        { "5", "5" }, { " 'a\"b' ", "\"a\\\"b\"" },
        { "'it\\'s \\x41\\u00e9\\q'", "\"it's \\u0041\\u00e9\\\\q\"" },
        { "{'a': (1, None), 'b': True}", "{\"a\": [1, null], \"b\": true}" },
        { "{a:<q>x, 'y'<q>,b:[<q><q>]}", "{\"a\": \"x, 'y'\", \"b\": [\"\"]}" }, { "[]", "[]" },
        { "null", "null" }, { "-1.5e3", "-1.5e3" }, { "1.2.3", NULL }, { "word", NULL },
        { "", NULL },
        { "'open", NULL }, { "[1", NULL }, { "{a}", NULL }, { "1 2", NULL }, { "'\\u12'", NULL },
        { "'\\", NULL }, { "<q>open", NULL }, { "[1,]", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TextOut o = { 0 };
        bool    good = json_from_loose(&o, cases[i].text, strlen(cases[i].text), "<q>", 3);
        const char *json = cases[i].json;
        bool    same = good && json && o.n == strlen(json) && memcmp(o.text, json, o.n) == 0;
        CHECK(json ? same : !good, "%s: expected %s, found %.*s", cases[i].text,
              json ? json : "none", (int)o.n, o.text);
        text_out_free(&o);
    }
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void hostile_templates_are_probed_in_bounded_time(void)
{
    static const char *const templates[] = {
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ messages[-1].content }}{% for a in range(30000) %}x{% endfor %}",
        "{% for m in messages %}{% for i in range(2000) %}{{ m | tojson }}[{% endfor %}{% endfor "
        "%}",
        "{% for m in messages %}{{ m.content }}{% endfor %}{% for i in range(3000) %}{{ '{[' }}"
        "{% endfor %}{{ messages | tojson }}",
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        double      from = cpu_seconds();
        AnswerForm *f = form_of(templates[i], NULL);
        CHECK(cpu_seconds() - from < 60, "%s took %.1f s", templates[i], cpu_seconds() - from);
        answer_form_free(f);
    }
}

static void long_answers_take_time_in_proportion(void)
{
    static const char *const pieces[] = { " ",
                                          "<",
                                          "<think>",
                                          "<call>",
                                          "<call>{\"name",
                                          "{",
                                          "\xc3",
                                          "<call>{\"arguments\": [",
                                          "\n\n<|e",
                                          "[[" };
    AnswerForm *f = form_of(HERMES, NULL);
    Error       e = { 0 };
    for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
        double  from = cpu_seconds();
        Answer *a = answer_new(f, NULL, &e);
        for (int i = 0; a && i < 20000; i++)
            for (const char *s = pieces[k]; *s; s++)
                CHECK(answer_put(a, s, 1, false, &e), "%s", e.msg);
        CHECK(a && answer_end(a, &e), "%s", e.msg);
        CHECK(cpu_seconds() - from < 60, "%s took %.1f s", pieces[k], cpu_seconds() - from);
        answer_free(a);
    }
    answer_form_free(f);
}

static void a_broken_invariant_shows(void)
{
    AnswerForm *f = form_of(HERMES, NULL);
    Error       e = { 0 };
    Answer     *a = answer_new(f, NULL, &e);
    const char *call = "So <call>{\"name\": \"f\", \"arguments\": {\"x\": 1, \"\xc3";
    CHECK(a && answer_put(a, call, strlen(call), false, &e) && a->n_parts == 3 && a->told,
          "%zu parts", a ? a->n_parts : 0);
    BREAKS(answer_is_sound(a), a->held, true);
    BREAKS(answer_is_sound(a), a->state, FREE);
    BREAKS(answer_is_sound(a), a->state, FIELD);
    BREAKS(answer_is_sound(a), a->at, a->in.n + 1);
    BREAKS(answer_is_sound(a), a->args_from, a->at + 1);
    BREAKS(answer_is_sound(a), a->flag.n, a->in.n + 1);
    BREAKS(answer_is_sound(a), a->n_tail, sizeof a->tail);
    BREAKS(answer_is_sound(a), a->tail[0], 'a');
    BREAKS(answer_is_sound(a), a->json.objects, a->json.depth + 1);
    BREAKS(answer_is_sound(a), a->n_calls, 0);
    BREAKS(answer_is_sound(a), a->part[0].call, 0);
    BREAKS(answer_is_sound(a), a->part[1].n, 2);
    BREAKS(answer_is_sound(a), a->part[2].text, a->part[1].text);
    answer_free(a);
    answer_form_free(f);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(a_marker_is_held_back_and_no_longer_than_needed);
    TEST(what_cannot_be_probed_is_content);
    TEST(json_is_followed_byte_by_byte);
    TEST(other_notations_become_json);
    TEST(hostile_templates_are_probed_in_bounded_time);
    TEST(long_answers_take_time_in_proportion);
    TEST(a_broken_invariant_shows);
    return TEST_END();
}
