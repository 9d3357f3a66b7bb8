/* text/utf8.h: UTF-8 and what the tokenizers ask of Unicode. Valid is as in RFC 3629: no surrogates, nothing over
 * U+10FFFF, shortest form only. */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the valid character at p (1 .. 4, with *cp set unless cp is NULL); 0 when there is none (n 0, or invalid). */
int utf8_decode(const char *p, size_t n, uint32_t *cp);

/* The last character of p[0 .. n): its bytes, or 0 when p does not end in a valid character. */
int utf8_decode_last(const char *p, size_t n, uint32_t *cp);

/* cp as UTF-8 into out; returns 1 .. 4. cp must be a scalar value. */
int utf8_encode(uint32_t cp, char out[4]);

/* Bytes from p on that are valid UTF-8. */
size_t utf8_valid_prefix(const char *p, size_t n);

/* Bytes at an invalid place p that one replacement character stands for: the longest prefix of a valid character, at
 * least 1 (Unicode 15, section 3.9, "substitution of maximal subparts"). */
size_t utf8_bad_length(const char *p, size_t n);

/* Bytes at the end of p (0 .. 3) that are a proper prefix of some valid character: what a stream must hold back. */
size_t utf8_partial_tail(const char *p, size_t n);

bool utf8_is_space(uint32_t cp); /* property White_Space                                             */
bool utf8_is_word(uint32_t cp);  /* \w of Unicode TS 18: letters, marks, digits, connectors, joiners */

/* NFC of valid UTF-8: *out is allocated (caller frees), or NULL where the text is surely NFC already (nothing from
 * U+0300 on) and can be used as it is. Linear time. False: no memory. */
bool utf8_nfc(const char *p, size_t n, char **out, size_t *n_out);

#endif
