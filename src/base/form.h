/* base/form.h: numbers as people read them. */
#ifndef BASE_FORM_H
#define BASE_FORM_H

#include <stddef.h>

/* Digits after the point that leave `digits` in all, for 0 <= x < 1000; 9.996 in three digits is 10.0. */
int form_decimals(double x, int digits);

/* Decimal units, three digits: "5.79 MB". Returns buf, which has room for n bytes. */
const char *form_bytes(double v, char *buf, size_t n);

#endif
