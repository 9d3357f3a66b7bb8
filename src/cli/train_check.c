/* cli/train_check.c: prints the rows of a gradient check. */
#include "train_options.h"

#include "base/number.h"
#include "command.h"
#include "tblock_tools.h"

/* Prints one row. In JSON each row is an object of its own. */
static bool print_row(const tblock_grad_check_row *g, bool first, double limit, bool json,
                      tblock_error *err)
{
    static const Column columns[] = {
        { "name", "", -24, 0, UNIT_NONE, NULL },
        { "elements", "n", 4, 0, UNIT_NONE, NULL },
        { "worst", "worst", 9, 0, UNIT_DIGITS + 3, NULL },
        { "grad", "gradient", 13, 0, UNIT_DIGITS + 6, NULL },
        { "difference", "difference", 13, 0, UNIT_DIGITS + 6, NULL },
        JSON_COLUMN("element"),
        { NULL, "", -1, 1, UNIT_NONE, NULL },
    };
    static const Table table = TABLE_OF(columns);
    Rows r  = OUTPUT_ROWS(json, 0);
    bool ok = g->worst <= limit;
    if (first)
        rows_table(&r, NULL, &table);
    rows_row(&r, &table,
             (Cell[]){ v_text(g->name), v_int(g->n), v_real(g->worst), v_real(g->grad),
                       v_real(g->difference), v_count(g->element),
                       v_shown(v_flag(ok), ok ? "ok" : "TOO LARGE") },
             NULL);
    return output_rows(&r, err);
}

bool train_check(const tblock_grad_check_options *o, double limit, bool json, tblock_error *err)
{
    tblock_grad_check_row *rows;
    size_t                 n, bad = 0, worst = 0;
    progress_show("checking gradients", -1);
    bool good = tblock_grad_check(o, &rows, &n, err);
    progress_end();
    if (!good)
        return false;
    for (size_t i = 0; good && i < n; i++) {
        bad += !(rows[i].worst <= limit);
        worst = error_is_worse(rows[i].worst, rows[worst].worst) ? i : worst;
        good = print_row(&rows[i], i == 0, limit, json, err);
    }
    if (good && bad)
        good = fail(
            err, TBLOCK_NO,
            "gradient check: expected relative errors of at most %g, found %.3g in %s, element %zu",
            limit, rows[worst].worst, rows[worst].name, rows[worst].element);
    tblock_free(rows);
    return good;
}
