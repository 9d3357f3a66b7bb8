/* cli/optimizer_options.h: AdamW's numbers as options, for grad and train. */
#ifndef CLI_OPTIMIZER_OPTIONS_H
#define CLI_OPTIMIZER_OPTIONS_H

#include <stddef.h>

#include "options.h"

typedef struct OptimizerOptions {
    double      lr, eps, weight_decay;
    const char *betas, *decay;
} OptimizerOptions;

/* Rows of an option table that fills an OptimizerOptions; --decay, whose default differs, is the command's own. */
#define OPTIMIZER_OPTIONS(rate)                                                                                             \
    { "lr",    0, "F",   OPT_FLOAT, offsetof(OptimizerOptions, lr), 0, 1e3, rate, "learning rate" },                         \
    { "betas", 0, "F,F", OPT_TEXT,  offsetof(OptimizerOptions, betas), 0, 0, "0.9,0.95",                                  \
      "decay rates of AdamW's two moments" },                                                                                \
    { "eps",   0, "F",   OPT_FLOAT, offsetof(OptimizerOptions, eps), 1e-30, 1, "1e-8", "AdamW's epsilon" },                  \
    { "weight-decay", 0, "F", OPT_FLOAT, offsetof(OptimizerOptions, weight_decay), 0, 1e3, "0.1", "decoupled weight decay" }

/* Before OpenBLAS is loaded: it need not make threads of its own, as the work is cut by ours. */
void blas_without_threads(void);

/* Fails with TBLOCK_USAGE: betas that are not two numbers from 0 to below 1. */
bool optimizer_read(const OptimizerOptions *o, tblock_adamw *out, tblock_error *err);

#endif
