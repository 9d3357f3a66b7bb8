/* api/logit_rows.h: what the logits of one position say: probabilities, the distance of two
 * rows, the most likely tokens. All in double, in ascending order of tokens, with math64: the
 * same bits everywhere. */
#ifndef API_LOGIT_ROWS_H
#define API_LOGIT_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cpu.h"

/* log(sum of exp(x[i])) of n >= 1 logits. NaN if one is NaN, -inf if all are -inf. */
double log_sum_exp(const double *x, int n);

/* The Kullback-Leibler divergence, sum of p (log p - log q), in nats. p and q are the softmax of
 * two rows of n logits; lp, lq: their log_sum_exp. Never negative. Tokens with p under e^-700
 * count as 0. NaN if a row holds a NaN or its largest logit is infinite. */
double kl_divergence(const double *x_p, double lp, const double *x_q, double lq, int n);

/* The ids of the k largest of n logits, largest first; of equal ones the lower id. Returns how
 * many: k, or fewer if the others are NaN. */
enum { TOP_MOST = 5 };
int top_tokens(const double *x, int n, int k, int id[TOP_MOST]);

/* Are these the same ids, in any order? */
bool same_tokens(const int *a, int n_a, const int *b, int n_b);

/* Widens a row of logits. */
void widen_row(double *out, const float *x, int n);

/* Mean and standard error of numbers that come one at a time (Welford 1962). */
typedef struct Moments { double mean, m2; size_t n; } Moments;
void   moments_add(Moments *m, double x);
double moments_error(const Moments *m); /* of the mean: sqrt(m2 / (n - 1) / n); NaN for n < 2 */

#endif
