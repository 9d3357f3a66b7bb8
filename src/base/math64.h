/* base/math64.h: double functions whose bits do not depend on the C library (RoPE tables,
 * sampling). Plain IEEE operations in a fixed order, no fma. The caller must round to nearest.
 * Outside the ranges below they return the infinity, zero or NaN of the C function. test_math64
 * prints the measured errors. */
#ifndef BASE_MATH64_H
#define BASE_MATH64_H

#include <math.h>
#include <stdbool.h>

double math64_log(double x);            /* x > 0; relative error at most 2^-52 */
double math64_exp(double x);            /* relative error at most 2^-51 for normal results */
double math64_pow(double x, double y);  /* x > 0; 2^-51 for results from 1e-8 to 1e8, else 2^-48 */

/* Sine and cosine: |angle| <= 2^25, absolute error at most 2^-52. NaN for a larger angle. */
void math64_sincos(double angle, double *s, double *c);

/* Is this error worse than the worst so far? NaN is worse than every number, and stays. */
static inline bool error_is_worse(double error, double worst)
{
    return !isnan(worst) && !(error <= worst);
}

#endif
