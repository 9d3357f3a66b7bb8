/* api/golden_junit.c: the outcome of verify as JUnit XML. Elements and attributes: what Jenkins'
 * and GitLab's readers share, https://github.com/testmoapp/junitxml. */
#include "api/api.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/fp_env.h"
#include "base/report_rows.h"
#include "base/text.h"
#include "tblock_tools.h"

/* Attribute or text: markup escaped; U+FFFD for bytes that are not UTF-8 and for what XML 1.0
 * forbids (section 2.2). */
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

static const char *spell(double x, char out[24]) { return real_spell(x, UNIT_DIGITS + 3, out, 24); }

FP_ENV_WORK
static void explain(const tblock_verify_report *report, const tblock_verify_row *r, char *out,
                    size_t n)
{
    char rule[48] = "equal bit by bit", far[24], parted[160] = "", parted_far[24];
    spell(r->max_abs, far), spell(r->parted_abs, parted_far);
    if (!report->exact)
        snprintf(rule, sizeof rule, "within %.3g", report->tol);
    if (r->parted[0])
        snprintf(parted, sizeof parted,
                 "; the runs diverge in %s, from position %" PRId64 " on, max |diff| %s", r->parted,
                 r->parted_pos, parted_far);
    if (r->first_diff >= 0)
        snprintf(out, n,
                 "logits differ from position %" PRId64 " on: expected %s, found max |diff| %s%s",
                 r->first_diff, rule, far, parted);
    else if (r->greedy_diff >= 0)
        snprintf(out, n, "greedy continuation differs at its token %" PRId64 "%s", r->greedy_diff,
                 parted);
    else
        snprintf(out, n,
                 "hidden states differ from position %" PRId64
                 " on, in %s: expected %s, found max |diff| %s",
                 r->parted_pos, r->parted, rule, parted_far);
}

void tblock_verify_explain(const tblock_verify_report *report, const tblock_verify_row *r,
                           char *out, size_t n)
{
    HostEnv host;
    host_env_enter(&host);
    explain(report, r, out, n);
    host_env_leave(&host);
}

/* What a failure's text adds: whether the golden's run was another one, as far as the golden
 * says. */
static void put_settings(TextOut *o, const tblock_verify_report *report)
{
    put_xml(o,
            report->settings[0]    ? "recorded with other settings: "
                : report->recorded ? "recorded with the same settings"
                                   : "");
    put_xml(o, report->settings);
    put_xml(o, report->advice[0] ? "\n" : "");
    put_xml(o, report->advice);
}

static void put_row(TextOut *o, const char *suite, const tblock_verify_report *report,
                    const tblock_verify_row *r)
{
    char text[512], far[24], mean_kl[24], max_kl[24];
    text_out(o, "    <testcase");
    put_attribute(o, "classname", suite);
    put_attribute(o, "name", r->name[0] ? r->name : "tokens");
    text_out(o, ">\n");
    if (!r->ok) {
        explain(report, r, text, sizeof text);
        text_out(o, "      <failure type=\"difference\"");
        put_attribute(o, "message", text);
        text_out(o, ">");
        put_settings(o, report);
        text_out(o, "</failure>\n");
    }
    text_out(o,
             "      <system-out>%zu tokens, max |diff| %s, mean KL %s, max KL %s, top-1 %.2f%%, "
             "top-5 %.2f%%</system-out>\n"
             "    </testcase>\n",
             r->n_tokens, spell(r->max_abs, far), spell(r->mean_kl, mean_kl),
             spell(r->max_kl, max_kl), 100 * r->top1, 100 * r->top5);
}

static void put_error(TextOut *o, const char *suite, const tblock_error *why)
{
    text_out(o, "    <testcase");
    put_attribute(o, "classname", suite);
    text_out(o, " name=\"verify\">\n      <error type=\"status %d\"", why ? why->status : SYSTEM);
    put_attribute(o, "message", why ? why->msg : "");
    text_out(o, "/>\n    </testcase>\n");
}

FP_ENV_WORK
static bool junit(const char *path, const char *name, const tblock_verify_report *report,
                  const tblock_error *why, tblock_error *err)
{
    TextOut o = {0};
    size_t  n = report ? report->n_rows : 1, failures = 0;
    for (size_t i = 0; report && i < n; i++)
        failures += !report->rows[i].ok;
    text_out(&o,
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"%zu\" "
             "failures=\"%zu\" errors=\"%d\">\n  <testsuite",
             n, failures, !report);
    put_attribute(&o, "name", name);
    text_out(&o, " tests=\"%zu\" failures=\"%zu\" errors=\"%d\" skipped=\"0\">\n", n, failures,
             !report);
    for (size_t i = 0; report && i < n; i++)
        put_row(&o, name, report, &report->rows[i]);
    if (!report)
        put_error(&o, name, why);
    text_out(&o, "  </testsuite>\n</testsuites>\n");
    size_t n_bytes = o.n;
    char  *text = text_out_take(&o, err);
    bool   ok = text && file_write(path, text, n_bytes, err);
    tblock_free(text);
    return ok;
}

bool tblock_verify_junit(const char *path, const char *name, const tblock_verify_report *report,
                         const tblock_error *why, tblock_error *err)
{
    HOST_ENV_RETURN(bool, junit(path, name, report, why, err));
}
