/* api/block_report.h: what a report of one block is made from. */
#ifndef API_BLOCK_REPORT_H
#define API_BLOCK_REPORT_H

#include "report/block_page.h"
#include "source/source.h"
#include "tblock_tools.h"
#include "train/block_lab.h"

/* ---- block_input.c --------------------------------------------------------------------------- */

/* The input of `tblock block`: a block of a config, of a model, or of a case
 * with tensors. */

typedef enum BlockOrigin { BLOCK_SEEDED, BLOCK_GIVEN, BLOCK_OF_MODEL } BlockOrigin;

typedef struct BlockInput {
    const char *path;              /* NULL: only options */
    const tblock_block_options *opt;
    Config      config;            /* of one layer                                              */
    bool        causal;
    int         n_seqs, seq_len;
    BlockOrigin origin;            /* of the weights */
    bool        input_given;       /* x and d_y                                                 */
    Source      source;            /* BLOCK_OF_MODEL                                            */
    TensorFile  tensors;           /* of --tensors */
} BlockInput;

/* Opens everything except the values. Fails with INPUT (a bad file), USAGE (contradicting
 * options) or SYSTEM. */
bool block_input_open(BlockInput *in, const char *path, const tblock_block_options *opt,
                      Error *err);
void block_input_close(BlockInput *in);        /* accepts a zeroed one */

/* Copies the values into a lab of that config. Weights: block b of the seed, or the model's layer
 * opt->layer + b. Fails with INPUT, naming tensor and index, if a value is not finite. */
bool block_input_weights(const BlockInput *in, BlockLab *lab, int b, Error *err);
bool block_input_values(const BlockInput *in, BlockLab *lab, Error *err);

/* How many blocks can be stacked: for a model, its layers from opt->layer on. */
int block_input_most(const BlockInput *in);

/* The name of a block's tensor in cases and outputs: "wq", "bq", "norm1_weight". */
const char *block_tensor_name(TensorRole role, bool bias);

/* ---- block_steps.c --------------------------------------------------------------------------- */

/* A lab's steps in words: symbols and formulas of a block, shapes, costs. */

/* Fills in step, n_steps and the FLOP of the page, whose config and sizes are set. */
void block_page_steps(BlockPage *p, const BlockLab *lab);

/* The symbol of a step in this block: "n1". */
const char *block_step_symbol(const BlockLab *lab, BlockStep step, char *buf, size_t n);

/* The first value of the forward pass that is not finite, or else the first gradient, in words;
 * "" if all are. */
void block_first_bad(const BlockLab *lab, char *buf, size_t n);

#endif
