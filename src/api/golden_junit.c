/* api/golden_junit.c: the results of verify, in words and as JUnit XML. */
#include "api/api.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/report_rows.h"
#include "tblock_tools.h"

static const char *spell(double x, char out[24]) { return real_spell(x, UNIT_DIGITS + 3, out, 24); }

FP_ENV_WORK
static void explain(const tblock_verify_report *report, const tblock_verify_row *r, char *out,
                    size_t n)
{
    char   rule[48] = "equal bit by bit", far[24], parted[160] = "", parted_far[24];
    size_t at       = 0;
    spell(r->max_abs, far), spell(r->parted_abs, parted_far);
    if (!report->exact)
        snprintf(rule, sizeof rule, "within %.3g", report->tol);
    if (report->cause[0] && n)
        at = (size_t)snprintf(out, n, "%s; ", report->cause);
    at = at < n ? at : n ? n - 1 : 0;
    out += at, n -= at;
    if (r->parted[0] && report->digest)
        snprintf(parted, sizeof parted, "; the runs diverge in %s, from position %" PRId64 " on",
                 r->parted, r->parted_pos);
    else if (r->parted[0])
        snprintf(parted, sizeof parted,
                 "; the runs diverge in %s, from position %" PRId64 " on, max |diff| %s", r->parted,
                 r->parted_pos, parted_far);
    if (r->first_diff >= 0 && report->digest)
        snprintf(out, n,
                 "logits differ from position %" PRId64 " on: expected equal hashes, found max "
                 "|diff| %s among the recorded five largest%s", r->first_diff, far, parted);
    else if (r->first_diff >= 0)
        snprintf(out, n,
                 "logits differ from position %" PRId64 " on: expected %s, found max |diff| %s%s",
                 r->first_diff, rule, far, parted);
    else if (r->greedy_diff >= 0)
        snprintf(out, n, "greedy continuation differs at its token %" PRId64 "%s", r->greedy_diff,
                 parted);
    else if (!r->parted[0])
        snprintf(out, n, report->exact ? "the logits are equal" : "the logits agree, %s", rule);
    else if (report->digest)
        snprintf(out, n, "hidden states differ: expected equal hashes%s", parted);
    else
        snprintf(out, n,
                 "hidden states differ from position %" PRId64
                 " on, in %s: expected %s, found max |diff| %s",
                 r->parted_pos, r->parted, rule, parted_far);
}

void tblock_verify_explain(const tblock_verify_report *report, const tblock_verify_row *r,
                           char *out, size_t n)
{
    NEED(, NULL, report, r, out || !n);
    HostEnv host;
    host_env_enter(&host);
    explain(report, r, out, n);
    host_env_leave(&host);
}

/* The text of a failure: whether the golden's run had other settings, if it records them. */
static void put_row(TextOut *o, const char *suite, const tblock_verify_report *report,
                    const tblock_verify_row *r)
{
    char text[1024], detail[1300], out[160], far[24], mean_kl[24], max_kl[24];
    explain(report, r, text, sizeof text);
    snprintf(detail, sizeof detail, "%s%s%s%s",
             report->settings[0]    ? "recorded with other settings: "
                 : report->recorded ? "recorded with the same settings"
                                    : "",
             report->settings, report->advice[0] ? "\n" : "", report->advice);
    snprintf(out, sizeof out,
             "%zu tokens, max |diff| %s, mean KL %s, max KL %s, top-1 %.2f%%, top-5 %.2f%%",
             r->n_tokens, spell(r->max_abs, far), spell(r->mean_kl, mean_kl),
             spell(r->max_kl, max_kl), 100 * r->top1, 100 * r->top5);
    junit_case(o, suite,
               &(JunitCase){ .name    = r->name[0] ? r->name : "tokens",
                             .failure = r->ok ? NULL : text,
                             .detail  = detail,
                             .out     = out });
}

FP_ENV_WORK
static bool junit(const char *path, const char *name, const tblock_verify_report *report,
                  const tblock_error *why, tblock_error *err)
{
    TextOut o = {0};
    size_t  failures = 0;
    if (!report)
        return junit_error(path, name, why, err);
    for (size_t i = 0; i < report->n_rows; i++)
        failures += !report->rows[i].ok;
    junit_begin(&o, name, report->n_rows, failures);
    for (size_t i = 0; i < report->n_rows; i++)
        put_row(&o, name, report, &report->rows[i]);
    return junit_end(&o, path, err);
}

bool tblock_verify_junit(const char *path, const char *name, const tblock_verify_report *report,
                         const tblock_error *why, tblock_error *err)
{
    NEED(false, err, path, name);
    HOST_ENV_RETURN(bool, junit(path, name, report, why, err));
}
