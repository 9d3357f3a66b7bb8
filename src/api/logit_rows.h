/* api/logit_rows.h: what is said about the logits of one position: probabilities, how far two rows are apart, the most likely
 * tokens. Everything is computed in double, in ascending order of tokens, with math64: the same bits everywhere. */
#ifndef API_LOGIT_ROWS_H
#define API_LOGIT_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/platform.h"

/* log(sum of exp(x[i])) of n >= 1 logits; NaN where one is NaN, -inf where all are. */
double log_sum_exp(const double *x, int n);

/* sum of p (log p - log q) in nats, p and q the softmax of two rows of n logits; lp, lq: their log_sum_exp. Not under 0. Tokens
 * whose p is under e^-700 count as 0. NaN where a row holds one, or an infinite largest logit. */
double kl_divergence(const double *x_p, double lp, const double *x_q, double lq, int n);

/* The ids of the k largest of n logits, largest first, of equals the lower id; returns how many: the smaller of k and what is
 * not NaN. */
enum { TOP_MOST = 5 };
int top_tokens(const double *x, int n, int k, int id[TOP_MOST]);

/* The same ids in any order. */
bool same_tokens(const int *a, int n_a, const int *b, int n_b);

/* Widens a row of logits. */
void widen_row(double *out, const float *x, int n);

/* Mean and standard error of numbers that come one by one (Welford 1962). */
typedef struct Moments { double mean, m2; size_t n; } Moments;
void   moments_add(Moments *m, double x);
double moments_error(const Moments *m); /* of the mean: sqrt(m2 / (n - 1) / n); NaN for fewer than two */

#endif
