#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static bool continues(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

size_t character_before(const char *p, size_t n, uint32_t *cp)
{
    for (size_t back = 1; back <= 4 && back <= n; back++)
        if (!continues(p[n - back]))
            return character_at(p + n - back, back, cp) == back ? back : 0;
    return 0;
}

size_t character_write(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3F));
    static const unsigned char lead[5] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    out[0] = (char)(lead[n] | cp);
    return n;
}

size_t valid_prefix(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        uint32_t cp = 0;
        if (n - i >= 8 && (memcpy(&eight, p + i, 8), (eight & 0x8080808080808080u) == 0)) {
            i += 8;
            continue;
        }
        size_t len = character_at(p + i, n - i, &cp);
        if (len == 0)
            break;
        i += len;
    }
    return i;
}

/* The bytes from the last lead byte on are such a prefix if the decoder, which stops at the first wrong byte, took all of
 * them and wanted more. */
size_t partial_tail(const char *p, size_t n)
{
    uint32_t cp = 0;
    for (size_t back = 1; back <= 3 && back <= n; back++)
        if (!continues(p[n - back])) {
            const unsigned char lead = (unsigned char)p[n - back];
            bool longer = lead >= 0xC2 && lead <= 0xF4;
            return longer && utf8_decode(p + n - back, back, &cp) == -(int)back ? back : 0;
        }
    return 0;
}

bool is_white_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == ' ' || cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool is_word(uint32_t cp)
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

uint32_t to_lower(uint32_t cp) { return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp); }

bool grapheme_break(uint32_t left, uint32_t right, int32_t *state)
{
    return utf8proc_grapheme_break_stateful((utf8proc_int32_t)left, (utf8proc_int32_t)right, state);
}

/* ---- Normalization forms -------------------------------------------------------------------------------------- */

/* No code point under U+0300 changes in NFC or combines with one before it, and their UTF-8 has no byte over 0xCB; in the
 * other forms no ASCII changes. */
static bool surely_normal(NormalForm form, const char *p, size_t n)
{
    unsigned char most = form == NFC ? 0xCB : 0x7F;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)p[i] > most)
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

enum { LONGEST_DECOMPOSITION = 18 }; /* U+FDFA in NFKD; 4 in NFD */

/* Decompose valid UTF-8. *cps is allocated. False: no memory. */
static bool decompose(NormalForm form, const char *p, size_t n, int32_t **cps, size_t *n_cps)
{
    const utf8proc_option_t options = form == NFC || form == NFD ? UTF8PROC_DECOMPOSE : UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
    size_t cap = n + LONGEST_DECOMPOSITION, n_out = 0;
    *cps = cap < SIZE_MAX / 16 ? malloc(cap * sizeof **cps) : NULL;
    for (size_t i = 0; *cps && i < n;) {
        uint32_t cp = 0;
        i += character_at(p + i, n - i, &cp);
        if (cap - n_out < LONGEST_DECOMPOSITION) {
            cap *= 2;
            int32_t *grown = cap < SIZE_MAX / 16 ? realloc(*cps, cap * sizeof *grown) : NULL;
            if (!grown)
                free(*cps);
            *cps = grown;
            if (!grown)
                break;
        }
        if (cp < 0xA0) {
            (*cps)[n_out++] = (int32_t)cp;
            continue;
        }
        int last_class = 0;
        n_out += (size_t)utf8proc_decompose_char((int32_t)cp, *cps + n_out, LONGEST_DECOMPOSITION, options, &last_class);
    }
    *n_cps = n_out;
    return *cps != NULL;
}

bool normalize_form(NormalForm form, const char *p, size_t n, char **out, size_t *n_out)
{
    *out   = NULL;
    *n_out = n;
    if (surely_normal(form, p, n))
        return true;
    size_t   n_cps;
    int32_t *cps, *scratch = NULL;
    if (!decompose(form, p, n, &cps, &n_cps))
        return false;
    scratch = malloc((n_cps + 1) * sizeof *scratch);
    if (!scratch) {
        free(cps);
        return false;
    }
    for (size_t i = 0; i < n_cps; i++) {
        size_t first = i;
        while (i < n_cps && combining_class(cps[i]))
            i++;
        if (i - first > 1)
            sort_marks(cps + first, i - first, scratch);
    }
    if (form == NFC || form == NFKC)
        n_cps = (size_t)utf8proc_normalize_utf32(cps, (utf8proc_ssize_t)n_cps, UTF8PROC_STABLE | UTF8PROC_COMPOSE);

    size_t at = 0;
    for (size_t i = 0; i < n_cps; i++) /* scratch has 4 bytes for each */
        at += character_write((uint32_t)cps[i], (char *)scratch + at);
    free(cps);
    *out   = (char *)scratch;
    *n_out = at;
    return true;
}
