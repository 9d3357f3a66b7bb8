/* kernels/bodies/blocking.h: how the bodies block their work. A block keeps its sums in registers,
 * as many as there are: the steps of one sum depend on each other, and what is loaded once is
 * multiplied with all of them. */
#ifndef KERNELS_BODIES_BLOCKING_H
#define KERNELS_BODIES_BLOCKING_H

/* A size for plain C, for AVX2 and NEON, and for AVX-512. Chosen by measuring (bench_matmul). */
#define SIZE(scalar, small, large) (LANES_ACC >= 24 ? (large) : LANES_ACC >= 6 ? (small) : (scalar))

enum {
    /* Weights in floats. stream: few tokens, weights go from memory to the fma. block: many. */
    STREAM_PANELS   = 4,                     /* panels that are read at once */
    STREAM_T        = SIZE(1, 6, 8),         /* tokens in flight */
    STREAM_TOKENS   = 2 * STREAM_T,          /* the most tokens that stream takes */
    STREAM_AHEAD    = 4096,                  /* bytes ahead that a panel is prefetched into L2 */
    STREAM_SOON     = 1024,                  /* again into L1, if there are several tokens */
    STREAM_FEW      = 2,                     /* the most tokens that wait for memory alone */
    BLOCK_T         = LANES_ACC / LANES_PANELS, /* tokens of a block LANES_PANELS panels wide */
    BLOCK_TOKENS    = 384,                   /* tokens whose chunk of x lies in scratch: 384 KB */

    /* --math bf16, which has two sums for each panel and token. */
    BF16_T          = SIZE(1, 3, 6),
    BF16_STREAM     = SIZE(2, 6, 18),

    /* The same by products of pairs (matmul_bf16_pairs.h). */
    PAIRS_PANELS    = 2,                     /* of a register block of many tokens, and ... */
    PAIRS_T         = 8,                     /* ... tokens of one a panel wide, half with two */
    PAIRS_CHUNK     = 256,                   /* k of a block */
    PAIRS_TOKENS    = 768,                   /* tokens whose chunk of x lies in scratch: 384 KB */
    PAIRS_STREAM    = 16,                    /* the most tokens that stream takes */
    PAIRS_AHEAD     = 8192,                  /* as STREAM_AHEAD and STREAM_FEW, of one panel */
    PAIRS_FEW       = 3,

    /* Weights in integers. A digit row is a token, or half of one with 16-bit activations
     * (int_digits.h). */
    INT_STREAM_ROWS = SIZE(1, 4, 8),         /* digit rows in flight: q8 */
    INT_PART_ROWS   = SIZE(1, 2, 8),         /* types with sub-scales: each has a part and a sum */
    INT_STREAM      = SIZE(1, 12, 24),       /* the most tokens that stream takes */
    INT_STREAM_TWO  = SIZE(1, 4, 12),        /* if a token of q4 is two digit rows */
    INT_BLOCK_ROWS  = BLOCK_T,               /* of a register block, LANES_PANELS panels wide */
    INT_BLOCK       = 256,                   /* tokens whose digits lie in scratch */
    INT_EARLY       = 8192,                  /* bytes ahead that codes are prefetched into L2: of
                                              * q8 and q4, of others for several tokens */
    INT_AHEAD       = 4096,                  /* of others, if few tokens use a line */
    INT_SOON        = 1024,                  /* again into L1, if codes_ahead says so */

    /* Attention. */
    ATTN_Q          = 6,                     /* queries at once over f32 ... */
    ATTN_Q_NARROW   = 4,                     /* ... and over what is widened on the way */
    ATTN_WIDEN      = 9,                     /* from so many on, a tile is widened once for all */
    ATTN_WIDEN_V    = 24,                    /* the same for V alone, if K is V */
    FETCH_LINES     = 48,                    /* that memory delivers during a tile's exponentials */
};

/* How many sums for each of n others: as many as the registers hold; for one token or query, as
 * many as hide the latency. */
#define WIDTH(n) ((n) == 1 ? LANES_CHAINS : LANES_ACC / (n) >= 4 ? 4 : LANES_ACC / (n) >= 2 ? 2 : 1)

/* Sums are registers only if the compiler knows how many there are. Runs the statement with the
 * constant N = n; 1 <= n <= most, at most 12. Code of a larger N is left out. */
#define WITH_CONSTANT(n, most, ...)                                                                \
    switch (n) {                                                                                   \
        CASE_OF(1, most, __VA_ARGS__) CASE_OF(2, most, __VA_ARGS__) CASE_OF(3, most, __VA_ARGS__)  \
        CASE_OF(4, most, __VA_ARGS__) CASE_OF(5, most, __VA_ARGS__) CASE_OF(6, most, __VA_ARGS__)  \
        CASE_OF(7, most, __VA_ARGS__) CASE_OF(8, most, __VA_ARGS__) CASE_OF(9, most, __VA_ARGS__)  \
        CASE_OF(10, most, __VA_ARGS__) CASE_OF(11, most, __VA_ARGS__) CASE_OF(12, most,            \
            __VA_ARGS__)                                                                           \
    default:                                                                                       \
        break;                                                                                     \
    }
#define CASE_OF(i, most, ...)    \
    case i:                      \
        if ((i) <= (most)) {     \
            enum { N = (i) };    \
            __VA_ARGS__;         \
        }                        \
        break;

V_INLINE int min_int(int a, int b) { return a < b ? a : b; }
V_INLINE int max_int(int a, int b) { return a > b ? a : b; }

/* 0 < n <= 16: whole vectors take the plain loads. */
V_INLINE f32x16 load_upto(const float *p, int n) { return n == LANES ? v_load(p) : v_load_n(p, n); }
V_INLINE void   store_upto(float *p, f32x16 v, int n)
{
    if (n == LANES)
        v_store(p, v);
    else
        v_store_n(p, v, n);
}

#endif
