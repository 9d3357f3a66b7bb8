/* model/flops.h: what a block computes and what it moves, for a prompt and for one decode step.
 * docs/info.md says how each row is counted. A multiply-add is 2 FLOP. Numbers are doubles that
 * hold integers, exact below 2^53. */
#ifndef MODEL_FLOPS_H
#define MODEL_FLOPS_H

#include "model/count.h"

/* The operations (tensor_list.h) fall into four groups: the projections wq wk wv wo; the two
 * products whose cost grows with the square of the length; the feed-forward network with its
 * activation, and with the router and the sum of experts; and the rest, which is norms, RoPE,
 * softmax and residual additions. */
typedef enum FlopGroup { GROUP_PROJECTIONS, GROUP_SCORES, GROUP_FFN, GROUP_OTHER, GROUP_COUNT } FlopGroup;

const char *flop_op_name(const Config *c, FlopOp op); /* "RMSNorm", "QK^T": for people */
const char *flop_op_key(FlopOp op);          /* "attn_norm", "qk": for programs */
FlopGroup   flop_op_group(FlopOp op);
const char *flop_group_name(FlopGroup g);    /* "projections" */
const char *flop_group_key(FlopGroup g);

typedef struct FlopRow {
    /* FLOP if every query attends to every position (the full square). */
    double full;
    double computed;   /* FLOP with the positions a query sees: causal, windowed */
    /* Bytes moved between memory and processor; each input and each result counts once. */
    double bytes;
} FlopRow;

/* Computed FLOP per byte; 0: no memory is touched. */
double flop_intensity(const FlopRow *r);

typedef struct FlopLoad {
    /* Prefill: tokens of the prompt. Decode: positions that the token sees, with its own. */
    int  seq;
    int  batch;        /* sequences of that length, computed together */
    bool decode;
    int  kv_bytes;     /* bytes of one element of the KV cache: 4, 2 or 1 */
    /* Bytes of one scale, which K and V each have per position and head; 0: a cache of floats. */
    int  kv_scale_bytes;
} FlopLoad;

typedef struct Flops {
    FlopRow op[OP_COUNT];
    FlopRow group[GROUP_COUNT];
    FlopRow attention; /* the attention branch: projections, RoPE, QK^T, softmax, AV */
    /* One block, the sum of op. If blocks differ (windows, experts), the mean of all. */
    FlopRow block;
    FlopRow blocks;    /* all blocks */
    /* The final norm of all tokens, and the logits of the last token of each sequence. */
    FlopRow head;
    FlopRow total;
} Flops;

/* n: the count of the config or of the file, which gives the bytes of an average block's weights.
 * seq and batch are at least 1. */
void count_flops(Flops *f, const Config *c, const Count *n, const FlopLoad *load);

/* The shortest length at which the attention branch (projections, RoPE, scores, softmax) of a block
 * costs as much as its FFN (gate, up, SiLU, down). full: over the full square; prefill: a prompt
 * with the mask; decode: one step. 0: it never does. */
typedef struct Crossover { int full, prefill, decode; } Crossover;
Crossover count_crossover(const Config *c, const Count *n);

#endif
