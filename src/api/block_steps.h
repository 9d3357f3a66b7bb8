/* api/block_steps.h: a lab's steps in words: symbols and formulas of a block, shapes, costs. */
#ifndef API_BLOCK_STEPS_H
#define API_BLOCK_STEPS_H

#include "report/block_page.h"
#include "train/block_lab.h"

/* Fills in step, n_steps and the FLOP of the page, whose config and sizes are set. */
void block_page_steps(BlockPage *p, const BlockLab *lab);

/* The symbol of a step in this block: "n1". */
const char *block_step_symbol(const BlockLab *lab, BlockStep step, char *buf, size_t n);

/* The first value of the forward pass that is not finite, or else the first gradient, in words;
 * "" if all are. */
void block_first_bad(const BlockLab *lab, char *buf, size_t n);

#endif
