/* base/base64.c: encodes bytes (RFC 4648, section 4). */
#include "base/text.h"

void base64_byte(Base64 *b, unsigned byte)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    b->held = b->held << 8 | (byte & 0xFF);
    if (++b->n == 3) {
        text_out_bytes(b->out,
                       (char[]){ digit[b->held >> 18 & 63], digit[b->held >> 12 & 63],
                                 digit[b->held >> 6 & 63], digit[b->held & 63] },
                       4);
        b->held = 0;
        b->n    = 0;
    }
}

void base64_end(Base64 *b)
{
    const int missing = (3 - b->n) % 3;
    for (int i = 0; i < missing; i++)
        base64_byte(b, 0);
    for (int i = 0; i < missing && !b->out->failed; i++)
        b->out->text[b->out->n - 1 - (size_t)i] = '=';
}
