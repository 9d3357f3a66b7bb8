/* cli/bench_numbers.h: lists of counts, and what repeated measurements come to. */
#ifndef CLI_BENCH_NUMBERS_H
#define CLI_BENCH_NUMBERS_H

#include "tblock.h"

enum { COUNTS_MOST = 16 };
typedef struct Counts { int value[COUNTS_MOST]; int n; } Counts;

/* Read "16,2048": 1 to COUNTS_MOST numbers from min to max. Fails (TBLOCK_USAGE) naming the option. */
bool counts_read(Counts *c, const char *option, const char *text, int min, int max, tblock_error *err);
int  counts_largest(const Counts *c); /* 0 for none */

/* Of n >= 1 seconds, which get sorted; the median of an even number is the mean of the two in the middle. */
typedef struct Spread { double median, least, most; } Spread;
Spread spread_of(double *seconds, int n);

/* How often something that takes so many seconds is repeated for one reading of the clock, so that it takes at least
 * TIMING_SECONDS: 1 to 10^6. */
#define TIMING_SECONDS 0.05
int repetitions(double seconds);

#endif
