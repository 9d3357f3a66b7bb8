#include "train_check.h"

#include "message.h"
#include "output.h"
#include "progress_bar.h"
#include "tblock_tools.h"

static void print_row(const tblock_grad_check_row *r, double limit)
{
    bool ok = r->worst <= limit;
    output_format("%-24s %4d %9.3g %13.6g %13.6g  ", r->name, r->n, r->worst, r->grad, r->difference);
    output_toned(ok ? TONE_GOOD : TONE_BAD, ok ? "ok" : "TOO LARGE");
    output_format("\n");
}

static void print_json_row(const tblock_grad_check_row *r)
{
    output_format("{\"name\": \"%s\", \"elements\": %d, ", r->name, r->n);
    output_json_number("worst", r->worst);
    output_format(", ");
    output_json_number("grad", r->grad);
    output_format(", ");
    output_json_number("difference", r->difference);
    output_format(", \"element\": %zu}\n", r->element);
}

bool train_check(const tblock_grad_check_options *o, double limit, bool json, tblock_error *err)
{
    tblock_grad_check_row *rows;
    size_t                 n, bad = 0, worst = 0;
    progress_show("checking gradients", -1);
    bool checked = tblock_grad_check(o, &rows, &n, err);
    progress_end();
    if (!checked)
        return false;
    if (!json)
        output_format("%-24s %4s %9s %13s %13s\n", "", "n", "worst", "gradient", "difference");
    for (size_t i = 0; i < n; i++) {
        bad += !(rows[i].worst <= limit);
        worst = !(rows[i].worst <= rows[worst].worst) ? i : worst;
        if (json)
            print_json_row(&rows[i]);
        else
            print_row(&rows[i], limit);
    }
    bool ok = bad == 0 || fail(err, TBLOCK_NO, "gradient check: expected relative errors of at most %g, found %.3g in %s, element %zu", limit,
                                   rows[worst].worst, rows[worst].name, rows[worst].element);
    tblock_free(rows);
    return ok;
}
