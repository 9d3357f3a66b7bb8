/* base/hex.h: hexadecimal digits. */
#ifndef BASE_HEX_H
#define BASE_HEX_H

/* The value of a hex digit, 0 to 15, or -1 for another character. */
static inline int hex_digit(int c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

#endif
