#include "message.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

size_t cli_utf8_length(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    if (n == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    size_t   length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    unsigned point = s[0] & (0x7Fu >> length);
    if (s[0] < 0xC2 || s[0] > 0xF4 || n < length)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        point = point << 6 | (s[i] & 0x3F);
    }
    static const unsigned least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    bool surrogate = point >= 0xD800 && point <= 0xDFFF;
    return point >= least[length] && point <= 0x10FFFF && !surrogate ? length : 0;
}

void cli_escape(char *out, size_t n_out, const char *text, size_t n)
{
    assert(n_out >= 8);
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)text[i];
        size_t        length = cli_utf8_length(text + i, n - i);
        char          hex[5];
        const char   *from = text + i;
        size_t        n_from = length;
        if (length == 0 || c < 0x20 || c == 0x7F) {
            snprintf(hex, sizeof hex, c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : "\\x%02x", c);
            from = hex;
            n_from = strlen(hex);
            length = 1;
        }
        bool last = i + length >= n;
        if (used + n_from + (last ? 1 : 4) > n_out) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        memcpy(out + used, from, n_from);
        used += n_from;
        i += length;
    }
    out[used] = '\0';
}

bool cli_fail(tblock_error *err, int status, const char *fmt, ...)
{
    if (!err)
        return false;
    char    raw[2 * sizeof err->msg];
    va_list list;
    va_start(list, fmt);
    vsnprintf(raw, sizeof raw, fmt, list);
    va_end(list);
    err->status = status;
    cli_escape(err->msg, sizeof err->msg, raw, strlen(raw));
    return false;
}

bool cli_no_memory(tblock_error *err) { return cli_fail(err, TBLOCK_SYSTEM, "out of memory"); }

void cli_note(bool quiet, const char *fmt, ...)
{
    if (quiet)
        return;
    char    raw[1024], line[1024];
    va_list list;
    va_start(list, fmt);
    vsnprintf(raw, sizeof raw, fmt, list);
    va_end(list);
    cli_escape(line, sizeof line, raw, strlen(raw));
    fprintf(stderr, "tblock: %s\n", line);
}
