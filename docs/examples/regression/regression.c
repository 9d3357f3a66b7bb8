/* A regression test in C against libtblock: are the logits of golden files still the same bits?
 *   cc regression.c $(pkg-config --cflags --libs tblock) -o regression && ./regression model.bin
 *     golden/NAME.safetensors... */
#include <stdio.h>
#include <tblock_tools.h>

/* Whether every sequence of a golden file is equal, bit by bit. Says what is not. */
static bool check(tblock_context *c, const char *golden)
{
    tblock_verify_options rule = {.exact = true};
    tblock_verify_report  report;
    tblock_error          err;
    if (!tblock_verify(c, golden, &rule, &report, &err)) {
        printf("FAIL %s: %s\n", golden, err.msg);
        return false;
    }
    for (size_t i = 0; i < report.n_rows; i++) {
        const tblock_verify_row *r = &report.rows[i];
        char                     why[1024];
        if (r->ok)
            continue;
        tblock_verify_explain(&report, r, why, sizeof why);
        printf("FAIL %s: sequence '%s': %s%s%s\n", golden, r->name, why,
               report.settings[0] && !report.cause[0] ? "; recorded with " : "",
               report.cause[0] ? "" : report.settings);
    }
    bool ok = report.ok;
    if (ok)
        printf("ok %s: %zu sequences\n", golden, report.n_rows);
    tblock_free(report.rows);
    return ok;
}

int main(int argc, char **argv)
{
    tblock_error    err;
    tblock_model   *m = argc > 2 ? tblock_open(argv[1], NULL, &err) : NULL;
    tblock_context *c = m ? tblock_context_new(m, NULL, &err) : NULL;
    bool            ok = c != NULL;
    if (!c)
        fprintf(stderr, "regression: %s\n", argc > 2 ? err.msg : "expected MODEL GOLDEN...");
    for (int i = 2; c && i < argc; i++)
        ok = check(c, argv[i]) && ok;
    tblock_context_free(c);
    tblock_close(m);
    return ok ? 0 : 1;
}
