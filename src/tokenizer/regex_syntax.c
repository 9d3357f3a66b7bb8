/* Rejects parts of a pattern that Oniguruma and PCRE2 read differently. The library tokenizers runs
 * the patterns of a tokenizer.json with Oniguruma. */
#include <stdlib.h>
#include <string.h>
#include "tokenizer/vocab_draft.h"

static bool refuse(VocabDraft *d, const char *what, Text regex, Text part)
{
    return fail(d->err, INPUT, "%s: %s: '%.*s' in the regex '%.*s' is not supported", d->file, what,
                SHOWN(part), SHOWN(regex));
}

static bool is_name(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'
        || (c & 0x80);
}

/* Bytes of "[:alpha:]" at p; 0: no such class. */
static size_t posix_class(const char *p, const char *end)
{
    const char *at = p + 2;
    if (end - p < 5 || p[0] != '[' || p[1] != ':')
        return 0;
    at += *at == '^';
    const char *name = at;
    while (at < end && is_name(*at))
        at++;
    return at > name && end - at >= 2 && at[0] == ':' && at[1] == ']' ? (size_t)(at + 2 - p) : 0;
}

/* The ']' that ends a set whose members start at p; NULL: the set has no end. If the only ']' is
 * that of a named class, it is the end. */
static const char *set_end(const char *p, const char *end)
{
    const char *last = NULL;
    while (p < end && *p != ']') {
        size_t n = posix_class(p, end);
        if (n)
            last = p + n - 1;
        p += n ? n : 1;
    }
    return p < end ? p : last;
}

/* If "[...]" is at p: its last character, and where its members start. NULL: it is not. A ']' at
 * the front is a member. */
static const char *set_at(const char *p, const char *end, const char **members)
{
    if (p == end || *p != '[')
        return NULL;
    p++;
    p += p < end && *p == '^';
    if (p < end && *p == ']') {
        const char *close = set_end(p + 1, end);
        *members = p + 1;
        if (close)
            return close;
    }
    *members = p;
    return set_end(p, end);
}

static bool check_members(VocabDraft *d, const char *what, Text regex, const char *p,
                          const char *end)
{
    for (size_t n; p < end; p += n) {
        if (*p == '&' && end - p > 1 && p[1] == '&')
            return refuse(d, what, regex, TEXT("&&"));
        n = posix_class(p, end);
        if (n && (n != sizeof "[:digit:]" - 1 || memcmp(p, "[:digit:]", n) != 0))
            /* Both libraries have such classes, but with different members. */
            return refuse(d, what, regex, (Text){ p, n });
        if (!n && *p == '[')
            return refuse(d, what, regex, TEXT("[ in ["));
        n = n ? n : 1;
    }
    return true;
}

/* Bytes of "(?x:" and the like with x or m at p; 0: none. x and m are errors: in Oniguruma, m
 * concerns the dot. */
static size_t option_at(const char *p, const char *end)
{
    const char *at = p + 2;
    bool        hit = false;
    if (end - p < 3 || p[0] != '(' || p[1] != '?')
        return 0;
    for (; at < end && *at >= 'a' && *at <= 'z'; at++)
        hit |= *at == 'm' || *at == 'x';
    while (at < end && ((*at >= 'a' && *at <= 'z') || *at == '-'))
        at++;
    return hit && at < end && (*at == ':' || *at == ')') ? (size_t)(at + 1 - p) : 0;
}

static const char *after_digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* Bytes of a repeat at p that the two read differently; 0: none. "{,3}" is text in PCRE2. In "{3}?"
 * and "{1,3}+", Oniguruma takes the last character as a second repeat; in PCRE2 it makes the first
 * one lazy or possessive. */
static size_t odd_repeat_at(const char *p, const char *end)
{
    if (*p != '{')
        return 0;
    const char *low = p + 1, *low_end = after_digits(low, end),
               *high = low_end + (low_end < end && *low_end == ',');
    const char *close = after_digits(high, end);
    if (close == end || *close != '}' || (low == low_end && high == close))
        return 0;
    char next = close + 1 < end ? close[1] : '\0';
    bool odd = next == '+' || (next == '?' && high == low_end);
    return odd || low == low_end ? (size_t)(close - p) + 1 + odd : 0;
}

/* Check the item at p, outside sets. */
static bool check_part(VocabDraft *d, const char *what, Text regex, const char *p, const char *end)
{
    size_t n = option_at(p, end);
    n = n ? n : odd_repeat_at(p, end);
    if (*p == '^' || *p == '$')
        /* In Oniguruma these match at lines, in PCRE2 at the whole text. */
        return refuse(d, what, regex, (Text){ p, 1 });
    return !n || refuse(d, what, regex, (Text){ p, n });
}

static bool check_plain(VocabDraft *d, const char *what, Text regex, const char *p, const char *end)
{
    while (p < end) {
        const char *members = p, *close = set_at(p, end, &members);
        if (!(close ? check_members(d, what, regex, members, close)
                    : check_part(d, what, regex, p, end)))
            return false;
        p = close ? close + 1 : p + 1;
    }
    return true;
}

/* Bytes of "{1F600}" at p; 0: something else. */
static size_t code_at(const char *p, const char *end)
{
    const char *at = p + 1;
    while (
        at < end
        && ((*at >= '0' && *at <= '9') || (*at >= 'A' && *at <= 'F') || (*at >= 'a' && *at <= 'f')))
        at++;
    return at < end && *at == '}' ? (size_t)(at + 1 - p) : 0;
}

bool regex_syntax_check(VocabDraft *d, const char *what, Text regex)
{
    /* The pattern with each escape that both know replaced by a letter. */
    char *plain = draft_bytes(d, regex.n + 1), *out = plain;
    if (!plain)
        return false;
    for (size_t i = 0; i < regex.n; i++) {
        bool escape = regex.p[i] == '\\' && i + 1 < regex.n;
        if (escape && memchr("hHKGRXyYOkgvV", regex.p[i + 1], 13))
            return refuse(d, what, regex, (Text){ regex.p + i, 2 });
        *out++ = escape ? 'e' : regex.p[i];
        i += escape;
        if (escape && (regex.p[i] == 'x' || regex.p[i] == 'o') && i + 1 < regex.n
            && regex.p[i + 1] == '{')
            i += code_at(regex.p + i + 1, regex.p + regex.n);
    }
    return check_plain(d, what, regex, plain, out);
}
