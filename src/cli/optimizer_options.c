/* cli/optimizer_options.c: turns the options into the numbers of AdamW. */
#include "train_options.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "tblock_tools.h"

/* The program never sets LC_NUMERIC, so strtod's decimal separator is the point. */
static bool read_betas(const char *text, double beta[2])
{
    char *end;
    for (int i = 0; i < 2; i++) {
        beta[i] = strtod(text, &end);
        if (end == text || *end != (i ? '\0' : ',') || !(beta[i] >= 0 && beta[i] < 1))
            return false;
        text = end + 1;
    }
    return true;
}

bool optimizer_read(const OptimizerArgs *o, tblock_adamw *out, tblock_error *err)
{
    double beta[2];
    if (!read_betas(o->betas, beta))
        return fail(err, TBLOCK_USAGE,
                    "--betas: expected two numbers from 0 to below 1, as in 0.9,0.95, found '%s'",
                    o->betas);
    *out = (tblock_adamw){ o->lr, beta[0], beta[1],
                           o->eps, o->weight_decay, strcmp(o->decay, "all") == 0 };
    return true;
}

void blas_without_threads(void) { setenv("OPENBLAS_NUM_THREADS", "1", 0); }
