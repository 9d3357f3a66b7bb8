/* base/text.h: a string builder, UTF-8, and numbers and bytes in readable form. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/error.h"

/* ---- text_out.c ------------------------------------------------------------------------------ */

/* A string that grows: JSON, reports, normalized text, input from a pipe. */

/* Start zeroed. If memory runs out or the text would exceed `most`, it stops growing and sets
 * `failed`. So a writer need not check each call, only the end. */
typedef struct TextOut {
    char  *text;   /* n bytes, no NUL; NULL: nothing written yet */
    size_t n, cap;
    size_t most;   /* the most bytes it may hold; 0: no limit */
    bool   failed, full; /* full: because of `most` */
    bool   compact;      /* json_out writes no spaces into it; stays when it is taken or freed */
} TextOut;

bool text_out_grow(TextOut *o, size_t n); /* private: text_out_reserve when there is no room */

/* Makes room for n more bytes and a NUL; then text is not NULL. Like all functions that add, it
 * returns false if `failed`. */
static inline bool text_out_reserve(TextOut *o, size_t n)
{
    bool room = n < o->cap - o->n && !o->failed && (!o->most || o->n + n <= o->most);
    return room || text_out_grow(o, n);
}

static inline bool text_out_bytes(TextOut *o, const char *s, size_t n)
{
    if (!text_out_reserve(o, n))
        return false;
    if (n)
        memcpy(o->text + o->n, s, n);
    o->n += n;
    return true;
}

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
bool text_out(TextOut *o, const char *fmt, ...); /* printf; the decimal point is always '.' */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 0)))
#endif
bool text_out_list(TextOut *o, const char *fmt, va_list list);

/* The same as text_out_bytes, but reports lack of memory at once. */
bool text_out_add(TextOut *o, const char *s, size_t n, Error *err);

/* Returns the text, NUL-terminated; free() it. NULL: it failed. Zeroes o. */
char *text_out_take(TextOut *o, Error *err);

void text_out_free(TextOut *o); /* drops the text; zeroes o */

/* ---- base64.c -------------------------------------------------------------------------------- */

/* Encodes bytes that come one at a time. Zeroed, but for out. */
typedef struct Base64 { TextOut *out; unsigned held; int n; } Base64; /* n: bytes in held */
void base64_byte(Base64 *b, unsigned byte);
void base64_end(Base64 *b); /* the last one or two bytes, padded with '=' */

/* ---- utf8 ------------------------------------------------------------------------------------ */

/* A strict UTF-8 decoder: no overlong forms, no surrogates, nothing above U+10FFFF. */

/* Decodes the character at s, of which n >= 1 bytes may be read. Returns its length, 1 to 4, and
 * sets *code. If the bytes are not a character, it returns minus the length of the longest
 * prefix of one (at least 1): Unicode recommends to replace this unit by one U+FFFD (Unicode 15,
 * section 3.9, "maximal subpart"). Then *code is not changed. */
static inline int utf8_decode(const char *s, size_t n, uint32_t *code)
{
    const unsigned char *p = (const unsigned char *)s;
    if (p[0] < 0x80) {
        *code = p[0];
        return 1;
    }
    if (p[0] < 0xC2 || p[0] > 0xF4)
        return -1;
    int length = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    /* The second byte's range excludes overlong forms, surrogates, and values above U+10FFFF. */
    unsigned low  = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    unsigned high = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    uint32_t c = p[0] & (0x7Fu >> length);
    for (int i = 1; i < length; i++) {
        if ((size_t)i >= n || p[i] < low || p[i] > high)
            return -i;
        c = c << 6 | (p[i] & 0x3Fu);
        low = 0x80, high = 0xBF;
    }
    *code = c;
    return length;
}
/* Is it UTF-8 from end to end? */
static inline bool utf8_valid(const char *s, size_t n)
{
    uint32_t code;
    for (int length; n; s += length, n -= (size_t)length)
        if ((length = utf8_decode(s, n, &code)) < 0)
            return false;
    return true;
}

/* Do the bytes begin as a text does? Of the first 512: UTF-8 without the control characters that
 * text never has. */
static inline bool text_begins(const char *s, size_t n)
{
    uint32_t code = 0;
    for (size_t i = 0; i < n && i < 512;) {
        int length = utf8_decode(s + i, n - i, &code);
        if (length < 0 || code == 0x7F
            || (code < 0x20 && !(code >= '\t' && code <= '\r') && code != 0x1B))
            return false;
        i += (size_t)length;
    }
    return n > 0;
}

/* ---- printable.c ----------------------------------------------------------------------------- */

/* How to show text from files and command lines on a terminal. What is safe is decided only
 * here. */

/* Not printable are control characters (C0, DEL, C1), which terminals obey; marks and overrides
 * of direction, which reorder the text around them (Unicode Standard Annex 9, section 2); line
 * and paragraph separators. */
static inline bool is_printable(uint32_t c)
{
    bool direction = c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E)
        || (c >= 0x2066 && c <= 0x2069);
    return c >= 0x20 && !(c >= 0x7F && c < 0xA0) && c != 0x2028 && c != 0x2029 && !direction;
}

/* The next character of s[0 .. n), n >= 1, in a safe form: unchanged, or escaped as \n, \t,
 * \r, or \xHH for each byte of other characters that are not printable and for bytes that are
 * not UTF-8. out ends with a NUL. Returns its length. *n_read: how many bytes of s it stands
 * for. */
enum { PRINTABLE_BYTES = 17 };
size_t printable(char out[PRINTABLE_BYTES], const char *s, size_t n, size_t *n_read);

/* All of s[0 .. n) like that. If it does not fit into n_out bytes (at least 4, with the NUL), it
 * is cut at a character and ends with "...". Returns the length. */
size_t printable_text(char *out, size_t n_out, const char *s, size_t n);

/* ---- form.c ---------------------------------------------------------------------------------- */

/* Numbers in readable form. */

/* The number of decimals that gives `digits` digits in all, for 0 <= x < 1000. 9.996 in three
 * digits is 10.0. */
int form_decimals(double x, int digits);

/* These fill buf, which has room for n bytes, and return it. */
/* decimal units, three digits: "5.79 MB" */
const char *form_bytes(double v, char *buf, size_t n);
/* 1234567: "1,234,567" */
const char *form_count(uint64_t v, char *buf, size_t n);
/* four digits: "274.9 G" */
const char *form_si(double v, char *buf, size_t n);
/* "33.2%" */
const char *form_percent(double part, double whole, char *buf, size_t n);
/* Three digits: "0.25", "341"; "-" if not above 0. */
const char *form_ratio(double v, char *buf, size_t n);

/* Decimal digits at *s, which moves past them; false: there are none, or *out would be over max. */
bool form_read_count(const char **s, int max, int *out);

#endif
