/* base/form.h: numbers as people read them. */
#ifndef BASE_FORM_H
#define BASE_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of decimals that gives `digits` digits in all, for 0 <= x < 1000. 9.996 in three
 * digits is 10.0. */
int form_decimals(double x, int digits);

/* These fill buf, which has room for n bytes, and return it. */
const char *form_bytes(double v, char *buf, size_t n);      /* decimal units, three digits: "5.79 MB" */
const char *form_count(uint64_t v, char *buf, size_t n);    /* 1234567: "1,234,567"                   */
const char *form_si(double v, char *buf, size_t n);         /* four digits: "274.9 G"                 */
const char *form_percent(double part, double whole, char *buf, size_t n); /* "33.2%"                  */
/* Three digits: "0.25", "341"; "-" if not above 0. */
const char *form_ratio(double v, char *buf, size_t n);

/* Decimal digits at *s, which moves past them; false: there are none, or *out would be over max. */
bool form_read_count(const char **s, int max, int *out);

#endif
