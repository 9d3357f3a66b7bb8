/* cli/train_options.h: what the training commands share. */
#ifndef CLI_TRAIN_OPTIONS_H
#define CLI_TRAIN_OPTIONS_H

#include <stddef.h>
#include "cli/command.h"
#include "tblock_tools.h"

/* ---- optimizer_options.c --------------------------------------------------------------------- */

/* AdamW's numbers as options, for grad and train. */

typedef struct OptimizerArgs {
    double      lr, eps, weight_decay;
    const char *betas, *decay;
} OptimizerArgs;

/* Rows for an option table that fills OptimizerArgs. --decay has a default per command. */
#define OPTIMIZER_OPTION(name, argument, kind, field, min, max, fallback, help)                    \
    { name, 0, argument, kind, offsetof(OptimizerArgs, field), min, max, fallback, help }
#define OPTIMIZER_OPTIONS(decaying)                                                                \
    OPTIMIZER_OPTION("lr", "F", OPT_FLOAT, lr, 0, 1e3, "1e-3", "learning rate"),                   \
    OPTIMIZER_OPTION("betas", "F,F", OPT_TEXT, betas, 0, 0, "0.9,0.95",                            \
                     "decay rates of AdamW's two moments"),                                        \
    OPTIMIZER_OPTION("eps", "F", OPT_FLOAT, eps, 1e-30, 1, "1e-8", "AdamW's epsilon"),             \
    OPTIMIZER_OPTION("weight-decay", "F", OPT_FLOAT, weight_decay, 0, 1e3, "0.1",                  \
                     "decoupled weight decay"),                                                    \
    OPTIMIZER_OPTION("decay", "all|matrices", OPT_CHOICE, decay, 0, 0, decaying,                   \
                     "parameters that decay; norms and biases do not count as matrices")

/* Call it before OpenBLAS is loaded: it then starts no threads of its own. We split the work. */
void blas_without_threads(void);

/* Fails with TBLOCK_USAGE if betas are not two numbers from 0 to below 1. */
bool optimizer_read(const OptimizerArgs *o, tblock_adamw *out, tblock_error *err);

/* ---- train_check.c --------------------------------------------------------------------------- */

/* `train --grad-check`. */

/* Prints the worst relative error of each parameter. Fails with TBLOCK_NO if one is above the
 * limit. */
bool train_check(const tblock_grad_check_options *o, double limit, bool json, tblock_error *err);

#endif
