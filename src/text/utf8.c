#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* The length that a lead byte announces (0: not a lead byte) and the range of the second byte, which alone excludes
 * overlong forms, surrogates and code points over U+10FFFF (Unicode 15, table 3-7). */
static int lead_length(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low  = 0x80;
    *high = 0xBF;
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    if (lead < 0xE0)
        return 2;
    if (lead < 0xF0) {
        *low  = lead == 0xE0 ? 0xA0 : 0x80;
        *high = lead == 0xED ? 0x9F : 0xBF;
        return 3;
    }
    *low  = lead == 0xF0 ? 0x90 : 0x80;
    *high = lead == 0xF4 ? 0x8F : 0xBF;
    return 4;
}

/* Bytes at p that are a prefix of a valid character (0 .. 4); *want is the whole character's length. */
static int matching_bytes(const unsigned char *p, size_t n, int *want)
{
    unsigned char low, high;
    *want = n ? lead_length(p[0], &low, &high) : 0;
    if (*want <= 1)
        return *want;
    int have = 1;
    while (have < *want && (size_t)have < n && p[have] >= low && p[have] <= high) {
        low  = 0x80;
        high = 0xBF;
        have++;
    }
    return have;
}

int utf8_decode(const char *text, size_t n, uint32_t *cp)
{
    const unsigned char *p = (const unsigned char *)text;
    int want;
    if (matching_bytes(p, n, &want) != want || want == 0)
        return 0;
    if (cp) {
        static const unsigned char mask[5] = { 0, 0x7F, 0x1F, 0x0F, 0x07 };
        uint32_t c = p[0] & mask[want];
        for (int i = 1; i < want; i++)
            c = c << 6 | (p[i] & 0x3F);
        *cp = c;
    }
    return want;
}

int utf8_decode_last(const char *p, size_t n, uint32_t *cp)
{
    for (size_t back = 1; back <= 4 && back <= n; back++)
        if (((unsigned char)p[n - back] & 0xC0) != 0x80)
            return utf8_decode(p + n - back, back, cp) == (int)back ? (int)back : 0;
    return 0;
}

int utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3F));
    static const unsigned char lead[5] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    out[0] = (char)(lead[n] | cp);
    return n;
}

size_t utf8_valid_prefix(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        if (n - i >= 8 && (memcpy(&eight, p + i, 8), (eight & 0x8080808080808080u) == 0)) {
            i += 8;
            continue;
        }
        int len = utf8_decode(p + i, n - i, NULL);
        if (len == 0)
            break;
        i += (size_t)len;
    }
    return i;
}

size_t utf8_bad_length(const char *p, size_t n)
{
    int want, have = matching_bytes((const unsigned char *)p, n, &want);
    return have < 1 ? 1 : (size_t)have;
}

size_t utf8_partial_tail(const char *p, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const unsigned char *tail = (const unsigned char *)p + n - back;
        if ((*tail & 0xC0) == 0x80)
            continue;
        int want, have = matching_bytes(tail, back, &want);
        return have == (int)back && have < want ? back : 0;
    }
    return 0;
}

bool utf8_is_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == ' ' || cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool utf8_is_word(uint32_t cp)
{
    if (cp == 0x200C || cp == 0x200D || (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
        (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189))
        return true; /* joiners; circled letters, which are symbols with the property Alphabetic */
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU: case UTF8PROC_CATEGORY_LL: case UTF8PROC_CATEGORY_LT: case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: case UTF8PROC_CATEGORY_MN: case UTF8PROC_CATEGORY_MC: case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND: case UTF8PROC_CATEGORY_NL: case UTF8PROC_CATEGORY_PC: return true;
    default: return false;
    }
}

/* ---- NFC ------------------------------------------------------------------------------------------------------ */

/* No code point under U+0300 changes in NFC or combines with one before it; their UTF-8 has no byte over 0xCB. */
static bool surely_nfc(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)p[i] > 0xCB)
            return false;
    return true;
}

static int combining_class(int32_t cp) { return utf8proc_get_property(cp)->combining_class; }

/* Order one run of combining marks by class, equal ones as they were. A counting sort: utf8proc's own exchange sort
 * takes quadratic time for a long run. */
static void sort_marks(int32_t *run, size_t n, int32_t *scratch)
{
    size_t start[257] = { 0 };
    for (size_t i = 0; i < n; i++)
        start[combining_class(run[i]) + 1]++;
    for (int c = 0; c < 256; c++)
        start[c + 1] += start[c];
    for (size_t i = 0; i < n; i++)
        scratch[start[combining_class(run[i])]++] = run[i];
    memcpy(run, scratch, n * sizeof *run);
}

/* Canonical decomposition of valid UTF-8. cps has room for 2 code points for each byte: no character decomposes into more
 * than 4, and one that changes at all takes 2 bytes or more. */
static size_t decompose(const char *p, size_t n, int32_t *cps)
{
    size_t n_cps = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        i += (size_t)utf8_decode(p + i, n - i, &cp);
        if (cp < 0xC0) {
            cps[n_cps++] = (int32_t)cp;
            continue;
        }
        int last_class = 0;
        n_cps += (size_t)utf8proc_decompose_char((int32_t)cp, cps + n_cps, 4, UTF8PROC_DECOMPOSE, &last_class);
    }
    return n_cps;
}

bool utf8_nfc(const char *p, size_t n, char **out, size_t *n_out)
{
    *out   = NULL;
    *n_out = n;
    if (surely_nfc(p, n))
        return true;
    bool     ok      = false;
    int32_t *cps     = n < SIZE_MAX / 16 ? malloc(n * 2 * sizeof *cps) : NULL;
    int32_t *scratch = cps ? malloc(n * 2 * sizeof *scratch) : NULL;
    if (!scratch)
        goto done;

    size_t n_cps = decompose(p, n, cps);
    for (size_t i = 0; i < n_cps; i++) {
        size_t first = i;
        while (i < n_cps && combining_class(cps[i]))
            i++;
        if (i - first > 1)
            sort_marks(cps + first, i - first, scratch);
    }
    n_cps = (size_t)utf8proc_normalize_utf32(cps, (utf8proc_ssize_t)n_cps, UTF8PROC_STABLE | UTF8PROC_COMPOSE);

    size_t at = 0;
    for (size_t i = 0; i < n_cps; i++) /* in place: a code point takes at most the 4 bytes that it was read from */
        at += (size_t)utf8_encode((uint32_t)cps[i], (char *)scratch + at);
    *out   = (char *)scratch;
    *n_out = at;
    scratch = NULL;
    ok = true;
done:
    free(cps);
    free(scratch);
    return ok;
}
