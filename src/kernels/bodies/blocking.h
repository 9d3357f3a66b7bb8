/* kernels/bodies/blocking.h: how bodies cut their work to registers and vectors. */
#ifndef KERNELS_BODIES_BLOCKING_H
#define KERNELS_BODIES_BLOCKING_H

/* How many sums beside n others: as many as the registers hold, for one token or query as many as hide the latency. */
#define WIDTH(n) ((n) == 1 ? LANES_CHAINS : LANES_ACC / (n) >= 4 ? 4 : LANES_ACC / (n) >= 2 ? 2 : 1)

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
