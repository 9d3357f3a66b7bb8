/* The tables of Unicode and lookups in them: categories, case, grapheme clusters, normalization. */
#include "tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"

#include "tokenizer/unicode_data.inc"

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

size_t ascii_prefix(const char *p, size_t n)
{
    size_t i = 0;
    for (uint64_t eight;
         n - i >= 8 && (memcpy(&eight, p + i, 8), (eight & 0x8080808080808080u) == 0); i += 8)
        ;
    while (i < n && (unsigned char)p[i] < 0x80)
        i++;
    return i;
}

size_t valid_prefix(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint32_t cp = 0;
        size_t   len = (unsigned char)p[i] < 0x80 ? ascii_prefix(p + i, n - i)
                                                  : character_at(p + i, n - i, &cp);
        if (!len)
            break;
        i += len;
    }
    return i;
}

/* Go back to the last lead byte. The bytes from there on are such a prefix if the decoder took all
 * of them and wanted more; it stops at the first wrong byte. */
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
    return (cp >= 9 && cp <= 13) || cp == ' ' || cp == 0x85 || cp == 0xA0 || cp == 0x1680
        || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F
        || cp == 0x205F || cp == 0x3000;
}

/* The value of character c in a table of runs, searched in run[low .. high). */
static uint32_t run_value(const uint32_t *run, size_t low, size_t high, int bits, uint32_t c)
{
    low++;
    BISECT (low, high, run[low] >> bits <= c);
    return run[low - 1] & ((1u << bits) - 1);
}

Category category_of(uint32_t cp)
{
    return (Category)run_value(CATEGORY_RUNS, 0, CATEGORY_RUNS_N, CATEGORY_BITS, cp);
}

bool is_word(uint32_t cp)
{
    const uint32_t words = 1u << LU | 1u << LL | 1u << LT | 1u << LM | 1u << LO | 1u << MN |
                           1u << MC | 1u << ME | 1u << ND | 1u << NL | 1u << PC;
    if (cp == 0x200C || cp == 0x200D || (cp >= 0x24B6 && cp <= 0x24E9)
        || (cp >= 0x1F130 && cp <= 0x1F149) || (cp >= 0x1F150 && cp <= 0x1F169)
        || (cp >= 0x1F170 && cp <= 0x1F189))
        return true; /* joiners; circled letters, which are symbols but Alphabetic */
    return words >> category_of(cp) & 1;
}

uint32_t to_lower(uint32_t cp)
{
    size_t i = 1;
    if (cp < 0x80)
        return cp >= 'A' && cp <= 'Z' ? cp + 'a' - 'A' : cp;
    BISECT (i, LOWER_RUNS_N, LOWER_RUNS[i].first <= cp);
    const CaseRun *r = &LOWER_RUNS[i - 1];
    uint32_t       past = cp - r->first; /* the first run begins at or below cp */
    return past % r->step == 0 && past / r->step < r->n ? cp + (uint32_t)r->add : cp;
}

/* ---- Grapheme clusters (Unicode annex 29) ---------------------------------------------------- */

static Grapheme grapheme_of(uint32_t c)
{
    if (c >= ' ' && c < 0x7F)
        return GB_OTHER;
    if (c >= 0xAC00 && c < 0xD7A4)
        return (c - 0xAC00) % 28 ? GB_LVT : GB_LV;
    return (Grapheme)run_value(GRAPHEME_RUNS, 0, GRAPHEME_RUNS_N, GRAPHEME_BITS, c);
}

static bool is_extender(Grapheme g) { return g == GB_EXTEND || g == GB_ZWNJ || g == GB_LINKER; }

static bool is_joined(const GraphemeRun *r, Grapheme left, Grapheme right)
{
    bool left_control = left == GB_CR || left == GB_LF || left == GB_CONTROL;
    if (left == GB_CR && right == GB_LF)
        return true;
    if (left_control || right == GB_CR || right == GB_LF || right == GB_CONTROL)
        return false;
    if ((left == GB_L && (right == GB_L || right == GB_V || right == GB_LV || right == GB_LVT))
        || ((left == GB_LV || left == GB_V) && (right == GB_V || right == GB_T))
        || ((left == GB_LVT || left == GB_T) && right == GB_T))
        return true;
    return is_extender(right) || right == GB_ZWJ || right == GB_SPACING || left == GB_PREPEND
        || (right == GB_CONSONANT && r->linked)
        || (right == GB_PICTOGRAPHIC && left == GB_ZWJ && r->pictographic)
        || (right == GB_REGIONAL && left == GB_REGIONAL && r->odd);
}

bool grapheme_goes_on(GraphemeRun *r, uint32_t c)
{
    Grapheme right = grapheme_of(c), left = (Grapheme)r->last;
    bool     joined = r->begun && is_joined(r, left, right);
    bool     in_conjunct = right == GB_EXTEND || right == GB_LINKER || right == GB_ZWJ;
    r->odd          = right == GB_REGIONAL && !(joined && left == GB_REGIONAL && r->odd);
    r->pictographic = right == GB_PICTOGRAPHIC
        || (r->pictographic && (is_extender(right) || (right == GB_ZWJ && left != GB_ZWJ)));
    r->linked       = in_conjunct && (r->linked || (right == GB_LINKER && r->consonant));
    r->consonant    = right == GB_CONSONANT || (in_conjunct && r->consonant);
    r->last         = right;
    r->begun        = true;
    return joined;
}

/* ---- Normalization forms --------------------------------------------------------------------- */

/* The table's value for c: the rank of its combining class, and one bit for each form. The bit
 * means that c may change in that form, or may join with what comes before it. */
static uint32_t normal_value(uint32_t c)
{
    size_t block = c >> 8;
    if (block + 1 >= NORMAL_BLOCKS_N)
        return 0;
    return run_value(NORMAL_RUNS, NORMAL_BLOCKS[block], (size_t)NORMAL_BLOCKS[block + 1] + 1,
                     NORMAL_BITS, c);
}

static uint32_t combining_rank(uint32_t c)
{
    return normal_value(c) & ((1u << COMBINING_BITS) - 1);
}

/* Does c stay as it is whatever is before it, and does nothing after it reach back across it? */
static bool is_inert(NormalForm form, uint32_t c)
{
    return c < 0xA0
        || !(normal_value(c) & (1u << (COMBINING_BITS + form) | ((1u << COMBINING_BITS) - 1)));
}

enum {
    HANGUL   = 0xAC00,
    HANGULS  = 11172,
    LEADS    = 0x1100,
    N_LEADS  = 19,
    VOWELS   = 0x1161,
    N_VOWELS = 21,
    TRAILS   = 0x11A7,
    N_TRAILS = 28
};

typedef struct CodePoints { uint32_t *c; size_t n, cap; } CodePoints;

static bool push(CodePoints *to, uint32_t c)
{
    if (!ARRAY_ROOM(to->c, to->cap, to->n + 1))
        return false;
    to->c[to->n++] = c;
    return true;
}

static const Decomposition *decomposition_of(uint32_t c)
{
    size_t i = 1;
    BISECT (i, DECOMPOSITIONS_N, DECOMPOSITIONS[i].first <= c);
    const Decomposition *d = &DECOMPOSITIONS[i - 1];
    return c - d->first < d->n ? d : NULL;
}

/* Append the full decomposition of c. Rows of the table may decompose further, at most 3 deep.
 * False: no memory. */
static bool decompose(NormalForm form, uint32_t c, CodePoints *to)
{
    if (c - HANGUL < HANGULS) {
        uint32_t k = c - HANGUL, trail = k % N_TRAILS;
        return push(to, LEADS + k / (N_VOWELS * N_TRAILS))
            && push(to, VOWELS + k / N_TRAILS % N_VOWELS) && (!trail || push(to, TRAILS + trail));
    }
    const Decomposition *d = c < 0xA0 ? NULL : decomposition_of(c);
    if (!d || (d->compatible && (form == NFC || form == NFD)))
        return push(to, c);
    const uint32_t *part = DECOMPOSED + d->at + (c - d->first) * d->length;
    for (int i = 0; i < d->length; i++)
        if (!decompose(form, part[i], to))
            return false;
    return true;
}

/* Sort each run of combining marks by class; marks of one class keep their order. A counting sort,
 * so a long run takes linear time too. */
static bool sort_marks(CodePoints *text)
{
    uint32_t *sorted = NULL;
    for (size_t i = 0; i < text->n; i++) {
        size_t first = i, start[(1 << COMBINING_BITS) + 1] = { 0 };
        while (i < text->n && combining_rank(text->c[i]))
            i++;
        if (i - first < 2)
            continue;
        if (!sorted && !(sorted = malloc(text->n * sizeof *sorted)))
            return false;
        for (size_t k = first; k < i; k++)
            start[combining_rank(text->c[k]) + 1]++;
        for (int rank = 0; rank < 1 << COMBINING_BITS; rank++)
            start[rank + 1] += start[rank];
        for (size_t k = first; k < i; k++)
            sorted[start[combining_rank(text->c[k])]++] = text->c[k];
        memcpy(text->c + first, sorted, (i - first) * sizeof *sorted);
    }
    free(sorted);
    return true;
}

/* The character that a and b compose to; 0: none. */
static uint32_t composed(uint32_t a, uint32_t b)
{
    if (a - LEADS < N_LEADS && b - VOWELS < N_VOWELS)
        return HANGUL + ((a - LEADS) * N_VOWELS + b - VOWELS) * N_TRAILS;
    if (a - HANGUL < HANGULS && (a - HANGUL) % N_TRAILS == 0 && b - TRAILS - 1 < N_TRAILS - 1)
        return a + b - TRAILS;
#define PAIR(i, k) DECOMPOSED[COMPOSITIONS[i].at + (k)]
    size_t i = 0;
    BISECT (i, COMPOSITIONS_N, PAIR(i, 0) < a || (PAIR(i, 0) == a && PAIR(i, 1) < b));
    return i < COMPOSITIONS_N && PAIR(i, 0) == a && PAIR(i, 1) == b ? COMPOSITIONS[i].composed : 0;
#undef PAIR
}

/* A mark joins the starter before it unless a mark in between has the same or a higher class. */
static void compose(CodePoints *text)
{
    size_t   n = 0, starter = SIZE_MAX;
    uint32_t before = 0;
    for (size_t i = 0; i < text->n; i++) {
        uint32_t c = text->c[i], rank = combining_rank(c);
        bool     reaches = starter != SIZE_MAX && (starter + 1 == n || before < rank);
        uint32_t both = reaches ? composed(text->c[starter], c) : 0;
        if (both) {
            text->c[starter] = both;
            continue;
        }
        if (!rank)
            starter = n;
        before       = rank;
        text->c[n++] = c;
    }
    text->n = n;
}

static bool normalize_stretch(NormalForm form, const char *p, size_t n, CodePoints *codes,
                              TextOut *out)
{
    codes->n = 0;
    for (size_t i = 0; i < n;) {
        uint32_t c = 0;
        i += character_at(p + i, n - i, &c);
        if (!decompose(form, c, codes))
            return false;
    }
    if (!sort_marks(codes))
        return false;
    if (form == NFC || form == NFKC)
        compose(codes);
    for (size_t i = 0; i < codes->n; i++) {
        if (!text_out_reserve(out, 4))
            return false;
        out->n += character_write(codes->c[i], out->text + out->n);
    }
    return true;
}

/* Only stretches that may change are examined. A stretch goes from the last inert character before
 * a character that is not inert to the next inert one. */
bool normalize_form(NormalForm form, const char *p, size_t n, char **out, size_t *n_out)
{
    TextOut to = { 0 };
    CodePoints codes = { 0 };
    size_t     done = 0, last = 0; /* bytes copied so far; start of the last character */
    bool       ok = true;
    for (size_t i = 0; ok && i < n;) {
        uint32_t c = 0;
        size_t   len = character_at(p + i, n - i, &c);
        if (c < 0x80) {
            i += ascii_prefix(p + i, n - i);
            last = i - 1;
            continue;
        }
        if (is_inert(form, c)) {
            last = i;
            i += len;
            continue;
        }
        while (i < n && (len = character_at(p + i, n - i, &c), !is_inert(form, c)))
            i += len;
        ok = text_out_bytes(&to, p + done, last - done)
            && normalize_stretch(form, p + last, i - last, &codes, &to);
        done = last = i;
    }
    ok = ok && (!done || text_out_bytes(&to, p + done, n - done));
    free(codes.c);
    if (!ok)
        free(to.text);
    *out   = ok && done ? to.text : NULL;
    *n_out = done ? to.n : n;
    return ok;
}
