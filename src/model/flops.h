/* model/flops.h: what a block computes and what it moves, for a prompt and for one decode step.
 * docs/info.md says how every row is counted. A multiply-add is 2 FLOP. Numbers are doubles: whole,
 * and exact below 2^53. */
#ifndef MODEL_FLOPS_H
#define MODEL_FLOPS_H

#include "model/count.h"

/* The operations (tensor_list.h) in four groups: the projections wq wk wv wo; the two products
 * whose cost grows with the square of the length; the feed-forward network with its activation, of
 * experts with their router and their sum; and norms, RoPE, softmax and residual additions. */
typedef enum FlopGroup { GROUP_PROJECTIONS, GROUP_SCORES, GROUP_FFN, GROUP_OTHER, GROUP_COUNT } FlopGroup;

const char *flop_op_name(const Config *c, FlopOp op); /* "RMSNorm", "QK^T": for people */
const char *flop_op_key(FlopOp op);          /* "attn_norm", "qk": for programs    */
FlopGroup   flop_op_group(FlopOp op);
const char *flop_group_name(FlopGroup g);    /* "projections" */
const char *flop_group_key(FlopGroup g);

typedef struct FlopRow {
    double full;     /* FLOP with attention over the full square: every query with every position */
    double computed; /* FLOP with the positions a query sees: causal, windowed */
    double bytes;    /* moved between memory and processor, each input and result once */
} FlopRow;

/* FLOP for each byte, of what is computed; 0 where no memory is touched. */
double flop_intensity(const FlopRow *r);

typedef struct FlopLoad {
    /* prefill: tokens of the prompt; decode: positions that the token sees, itself included */
    int  seq;
    int  batch;        /* sequences of that length, computed together */
    bool decode;
    int  kv_bytes;     /* of one element of the KV cache: 4, 2 or 1 */
    /* of K's scale for a position of a head, and of V's; 0 for a cache of floats */
    int  kv_scale_bytes;
} FlopLoad;

typedef struct Flops {
    FlopRow op[OP_COUNT];
    FlopRow group[GROUP_COUNT];
    FlopRow attention; /* the attention branch: projections, RoPE, QK^T, softmax, AV */
    /* sum of op: one block; where blocks differ (windows, experts), the mean of all */
    FlopRow block;
    FlopRow blocks;    /* all of them */
    FlopRow head;      /* final norm of all tokens, logits of the last one of each sequence */
    FlopRow total;
} Flops;

/* n: the config's or the file's count, for the bytes of the weights (of an average block). seq,
 * batch >= 1. */
void count_flops(Flops *f, const Config *c, const Count *n, const FlopLoad *load);

/* The shortest length at which the attention branch (projections, RoPE, scores, softmax) costs a
 * block as much as the FFN (gate, up, SiLU, down): over the full square; in a prompt with the mask;
 * for one decode step. 0: at no length. */
typedef struct Crossover { int full, prefill, decode; } Crossover;
Crossover count_crossover(const Config *c, const Count *n);

#endif
