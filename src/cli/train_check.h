/* cli/train_check.h: `train --grad-check`. */
#ifndef CLI_TRAIN_CHECK_H
#define CLI_TRAIN_CHECK_H

#include "tblock_tools.h"

/* Prints the worst relative error of each parameter. Fails with TBLOCK_NO if one is above the
 * limit. */
bool train_check(const tblock_grad_check_options *o, double limit, bool json, tblock_error *err);

#endif
