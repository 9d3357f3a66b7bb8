/* report/block_page.h: the inside of one block as text and as JSON. Prints what it is given,
 * computes nothing. */
#ifndef REPORT_BLOCK_PAGE_H
#define REPORT_BLOCK_PAGE_H

#include "report/info.h"

/* A value on its way through the block. Numbers that are not known are NAN. */
typedef struct BlockPageStep {
    const char *key;               /* "attn_norm" */
    char        symbol[8];         /* "n1" */
    char        formula[48];       /* "RMSNorm(x)" */
    bool        stream;            /* of the residual stream */
    int         rank;
    int64_t     shape[4];
    double      rms, largest, d_rms; /* root of the mean square, largest magnitude, that of the
                                      * gradient */
    double      flops;             /* of the operation that makes it */
    size_t      n_bad, d_n_bad;    /* NaN or infinite ones, of the gradient's too */
} BlockPageStep;

typedef struct BlockPageTensor {
    const char *name; int rows, k; uint64_t params; double rms, d_rms;
} BlockPageTensor;
typedef struct BlockPageCheck  {
    const char *name;
    int samples;
    double error, computed, expected;
    size_t at;
} BlockPageCheck;

enum { BLOCK_PAGE_PARTS = 32 };
typedef struct BlockPage {
    const char   *path;            /* NULL: options alone */
    const Config *cfg;
    bool          causal;
    const char   *weights;         /* where they come from: "seed 0" */
    const char   *input;           /* the same of x and dy */
    int           n_seqs, seq_len;
    BlockPageStep step[BLOCK_PAGE_PARTS];
    int           n_steps;
    BlockPageTensor tensor[BLOCK_PAGE_PARTS];
    int           n_tensors;
    uint64_t      params, attn_params, ffn_params, norm_params;
    double        flops[GROUP_COUNT], forward_flops, backward_flops;
    double        forward_seconds, backward_seconds;
    size_t        kept_bytes, shared_bytes, tile_bytes, weight_bytes;
    double        score_bytes;     /* of all probabilities, if they were kept */
    double        ratio;           /* |dx| / |dy| */
    bool          fused_forward, fused_backward;
    double        fused_seconds, plain_seconds;
    char          bad[160];        /* the first value that is not finite, in words; "": none */
    BlockPageCheck check[BLOCK_PAGE_PARTS];
    int           n_checks;        /* 0: not asked for */
    double        check_limit, y_error;
    int           n_stack;         /* 0: not asked for */
    char          stack_weights[64]; /* "layers 2 to 5" */
    const double *stack_rms[2], *stack_ratio[2]; /* [n_stack + 1] with norms before and after */
} BlockPage;

/* Allocates *text, NUL-terminated; fails only without memory. Text keeps within 80 columns; there
 * is no page. */
bool block_report(const BlockPage *p, Face face, bool colour, char **text, Error *err);

#endif
