/* api/block_steps.h: a lab's steps in words: symbols and formulas of a block, shapes, what each costs. */
#ifndef API_BLOCK_STEPS_H
#define API_BLOCK_STEPS_H

#include "report/block_page.h"
#include "train/block_lab.h"

/* Fills in step, n_steps, and the FLOP of the page (its config and sizes are set). */
void block_page_steps(BlockPage *p, const BlockLab *lab);

/* A step's symbol in this block: "n1". */
const char *block_step_symbol(const BlockLab *lab, BlockStep step, char *buf, size_t n);

/* The first value of the forward pass, else the first gradient, that is not finite, in words; "" where all are. */
void block_first_bad(const BlockLab *lab, char *buf, size_t n);

#endif
