/* report/attn_label.c: tokens as labels of a page: invisible characters are spelled. */
#include "report/attn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/unicode.h"

/* The brackets U+27E8 and U+27E9 around a spelled character. */
#define OPEN  "\xE2\x9F\xA8"
#define CLOSE "\xE2\x9F\xA9"

/* How a character that is invisible, or would disturb its neighbours, is shown; NULL: as it is. */
static const char *spelling(uint32_t code, char *room, size_t n_room)
{
    if (code == ' ')
        return "\xE2\x90\xA3"; /* U+2423 */
    if (code < 0x20 || code == 0x7F) { /* not the control pictures of U+2400: few fonts have them */
        static const char *const named[] = {['\t'] = "\\t", ['\n'] = "\\n", ['\r'] = "\\r"};
        const char *name = code <= '\r' ? named[code] : NULL;
        if (name)
            snprintf(room, n_room, OPEN "%s" CLOSE, name);
        else
            snprintf(room, n_room, OPEN "%02X" CLOSE, (unsigned)code);
        return room;
    }
    switch (category_of(code)) {
    case CC: case CF: case CN: case CO: case CS: case ZS: case ZL: case ZP:
        snprintf(room, n_room, OPEN "U+%04X" CLOSE, (unsigned)code);
        return room;
    default: return NULL;
    }
}

static bool is_mark(uint32_t code)
{
    Category c = category_of(code);
    return c == MN || c == ME;
}

void attn_label(TextOut *out, const AttnPiece *piece, size_t limit)
{
    TextOut text = {0};
    for (size_t i = 0; i < piece->n_bytes;) {
        uint32_t    code = 0;
        char        room[32];
        const char *at     = piece->bytes + i;
        int         length = utf8_decode(at, piece->n_bytes - i, &code);
        const char *shown  = length > 0 ? spelling(code, room, sizeof room) : NULL;
        for (int b = 0; b < -length; b++) /* bytes that are not UTF-8 */
            text_out(&text, OPEN "%02X" CLOSE, (unsigned)(unsigned char)at[b]);
        if (length > 0 && !shown && i == 0 && is_mark(code))
            text_out_bytes(&text, "\xE2\x97\x8C", 3); /* U+25CC carries a mark without a base
                                                       * character */
        if (shown)
            text_out_bytes(&text, shown, strlen(shown));
        else if (length > 0)
            text_out_bytes(&text, at, (size_t)length);
        i += (size_t)abs(length);
        if (text.n >= limit && i < piece->n_bytes) {
            text_out_bytes(&text, "\xE2\x80\xA6", 3); /* U+2026 */
            break;
        }
    }
    json_out_string(out, text.text ? text.text : "", text.n);
    out->failed |= text.failed;
    text_out_free(&text);
}
