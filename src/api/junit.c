/* api/junit.c: JUnit XML, which CI systems display. Elements and attributes: those that Jenkins'
 * and GitLab's readers share, https://github.com/testmoapp/junitxml. */
#include "api/api.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"

/* Attribute or text: escapes markup; writes U+FFFD for bytes that are not UTF-8 and for what XML
 * 1.0 forbids (section 2.2). */
static void put_xml(TextOut *o, const char *s)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    for (size_t n = strlen(s); n > 0;) {
        uint32_t point = 0;
        int      length = utf8_decode(s, n, &point);
        bool allowed = length > 0
            && (point >= 0x20 || point == '\t' || point == '\n' || point == '\r') && point != 0xFFFE
            && point != 0xFFFF;
        if (!allowed)
            text_out_bytes(o, replacement, 3);
        else if (point < 0x80 && (point < 0x20 || strchr("&<>\"'", (int)point)))
            text_out(o, "&#%u;", (unsigned)point);
        else
            text_out_bytes(o, s, (size_t)length);
        size_t used = (size_t)(length > 0 ? length : -length);
        s += used;
        n -= used;
    }
}

static void put_attribute(TextOut *o, const char *name, const char *value)
{
    text_out(o, " %s=\"", name);
    put_xml(o, value);
    text_out(o, "\"");
}

/* One suite; errors: its only case could not run. */
static void begin(TextOut *o, const char *suite, size_t n, size_t failures, int errors)
{
    text_out(o,
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"%zu\" "
             "failures=\"%zu\" errors=\"%d\">\n  <testsuite",
             n, failures, errors);
    put_attribute(o, "name", suite);
    text_out(o, " tests=\"%zu\" failures=\"%zu\" errors=\"%d\" skipped=\"0\">\n", n, failures,
             errors);
}

void junit_begin(TextOut *o, const char *suite, size_t n, size_t failures)
{
    begin(o, suite, n, failures, 0);
}

void junit_case(TextOut *o, const char *suite, const JunitCase *c)
{
    text_out(o, "    <testcase");
    put_attribute(o, "classname", suite);
    put_attribute(o, "name", c->name);
    text_out(o, ">\n");
    if (c->failure) {
        text_out(o, "      <failure type=\"difference\"");
        put_attribute(o, "message", c->failure);
        text_out(o, ">");
        put_xml(o, c->detail ? c->detail : "");
        text_out(o, "</failure>\n");
    }
    text_out(o, "      <system-out>");
    put_xml(o, c->out);
    text_out(o, "</system-out>\n    </testcase>\n");
}

bool junit_end(TextOut *o, const char *path, Error *err)
{
    text_out(o, "  </testsuite>\n</testsuites>\n");
    size_t n_bytes = o->n;
    char  *text = text_out_take(o, err);
    bool   ok = text && file_write(path, text, n_bytes, err);
    tblock_free(text);
    return ok;
}

bool junit_error(const char *path, const char *suite, const Error *why, Error *err)
{
    TextOut o = { 0 };
    begin(&o, suite, 1, 0, 1);
    text_out(&o, "    <testcase");
    put_attribute(&o, "classname", suite);
    text_out(&o, " name=\"verify\">\n      <error type=\"status %d\"", why ? why->status : SYSTEM);
    put_attribute(&o, "message", why ? why->msg : "");
    text_out(&o, "/>\n    </testcase>\n");
    return junit_end(&o, path, err);
}

bool junit_rows(const char *path, const char *suite, const void *rows, size_t n, JunitNth *nth,
                const Error *why, Error *err)
{
    TextOut   o        = { 0 };
    size_t    failures = 0;
    JunitRoom room;
    if (!rows)
        return junit_error(path, suite, why, err);
    for (size_t i = 0; i < n; i++) {
        JunitCase c = { .out = "" };
        nth(rows, i, &room, &c);
        failures += c.failure != NULL;
    }
    junit_begin(&o, suite, n, failures);
    for (size_t i = 0; i < n; i++) {
        JunitCase c = { .out = "" };
        nth(rows, i, &room, &c);
        junit_case(&o, suite, &c);
    }
    return junit_end(&o, path, err);
}
