/* base/math64.h: double functions whose bits do not depend on the C library (RoPE tables, sampling).
 * Plain IEEE operations in a fixed order, fma() only where the code says so. Accuracy: design section 3. */
#ifndef BASE_MATH64_H
#define BASE_MATH64_H

double math64_log(double x);            /* x > 0                                              */
double math64_exp(double x);            /* |x| < 700                                          */
double math64_pow(double x, double y);  /* x > 0; relative error at most 2^-45                */
void   math64_sincos(double angle, double *s, double *c); /* |angle| <= 2^25; absolute error at most 2^-40 */

#endif
