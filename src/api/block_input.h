/* api/block_input.h: what `tblock block` looks into: a block of a config, of a model, or of a case with its tensors. */
#ifndef API_BLOCK_INPUT_H
#define API_BLOCK_INPUT_H

#include "source/source.h"
#include "tblock_tools.h"
#include "train/block_lab.h"

typedef enum BlockOrigin { BLOCK_SEEDED, BLOCK_GIVEN, BLOCK_OF_MODEL } BlockOrigin;

typedef struct BlockInput {
    const char *path;              /* NULL: options alone                                       */
    const tblock_block_options *opt;
    Config      config;            /* of one layer                                              */
    bool        causal;
    int         n_seqs, seq_len;
    BlockOrigin origin;            /* of the weights                                            */
    bool        input_given;       /* x and d_y                                                 */
    Source      source;            /* BLOCK_OF_MODEL                                            */
    TensorFile  tensors;           /* of --tensors                                              */
} BlockInput;

/* Everything but the values. Errors: INPUT (file, thing, expected, found), USAGE (options that contradict each other), SYSTEM. */
bool block_input_open(BlockInput *in, const char *path, const tblock_block_options *opt, Error *err);
void block_input_close(BlockInput *in);        /* a zeroed one is accepted */

/* The values into a lab of that config. Block number b of seeded weights; of a model, layer opt->layer + b. A value that is not
 * finite is INPUT, naming tensor and place. */
bool block_input_weights(const BlockInput *in, BlockLab *lab, int b, Error *err);
bool block_input_values(const BlockInput *in, BlockLab *lab, Error *err);

/* The most blocks that can stand one on another: of a model, its layers from opt->layer on. */
int block_input_most(const BlockInput *in);

/* The name of a block's tensor in cases and outputs: "wq", "bq", "norm1_weight". */
const char *block_tensor_name(TensorRole role, bool bias);

#endif
