/* One request of the JSON lines protocol. base/json is not used for the request: its strings end at NUL, and a text to
 * tokenize may hold \u0000. */
#include <stdlib.h>
#include <string.h>
#include "base/hex.h"
#include "base/json.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

enum { MOST_DEPTH = 64 };

typedef struct Line {
    const char *text;
    size_t      n, at;
    Error      *err;
} Line;

typedef struct Request {
    char   *text;          /* "text" or "bytes_hex", decoded */
    size_t  n_text;
    bool    has_text, has_ids, parse_special, add_special;
    Ids     ids;
} Request;

static bool wrong(const Line *l, const char *expected)
{
    if (l->at >= l->n)
        return fail(l->err, INPUT, "request: byte %zu: expected %s, found the end", l->at, expected);
    return fail(l->err, INPUT, "request: byte %zu: expected %s, found '%c'", l->at, expected, l->text[l->at]);
}

static int peek(Line *l) /* the next character after white space; -1: the end */
{
    while (l->at < l->n && memchr(" \t\r\n", l->text[l->at], 4))
        l->at++;
    return l->at < l->n ? (unsigned char)l->text[l->at] : -1;
}

static bool take(Line *l, char c, const char *expected)
{
    if (peek(l) != c)
        return wrong(l, expected);
    l->at++;
    return true;
}

/* ---- Strings -------------------------------------------------------------------------------------------------- */

static bool four_digits(Line *l, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++, l->at++) {
        int digit = l->at < l->n ? hex_digit(l->text[l->at]) : -1;
        if (digit < 0)
            return wrong(l, "four hex digits");
        *unit = *unit << 4 | (uint32_t)digit;
    }
    return true;
}

/* After "\u". A lone surrogate is no character and has no bytes, so it is refused. */
static bool read_unicode(Line *l, char **out)
{
    uint32_t cp, low;
    if (!four_digits(l, &cp))
        return false;
    if (cp >= 0xD800 && cp < 0xDC00 && l->n - l->at >= 6 && l->text[l->at] == '\\' && l->text[l->at + 1] == 'u') {
        l->at += 2;
        if (!four_digits(l, &low))
            return false;
        if (low >= 0xDC00 && low < 0xE000)
            cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
    }
    if (cp >= 0xD800 && cp < 0xE000)
        return fail(l->err, INPUT, "request: byte %zu: expected a character, found a lone surrogate", l->at);
    *out += character_write(cp, *out);
    return true;
}

static bool read_escape(Line *l, char **out)
{
    static const char name[] = "\"\\/bfnrt", value[] = "\"\\/\b\f\n\r\t";
    char              c = l->at < l->n ? l->text[l->at] : '\0';
    if (c == 'u') {
        l->at++;
        return read_unicode(l, out);
    }
    const char *found = c ? strchr(name, c) : NULL;
    if (!found)
        return wrong(l, "an escape");
    l->at++;
    *(*out)++ = value[found - name];
    return true;
}

/* *s is allocated and NUL-terminated; *n_s counts the NULs inside too. */
static bool read_string(Line *l, char **s, size_t *n_s)
{
    *s = NULL;
    if (!take(l, '"', "a string"))
        return false;
    char *out = malloc(l->n - l->at + 1); /* an escape is never shorter than what it stands for */
    if (!out)
        return no_memory("request", l->err);
    char *at = out;
    for (;;) {
        unsigned char c = l->at < l->n ? (unsigned char)l->text[l->at] : 0;
        size_t   len = 1;
        uint32_t cp = 0;
        bool     ok = true;
        if (c == '"' && l->at < l->n)
            break;
        if (c < 0x20)
            ok = wrong(l, "a string's next character");
        else if (c == '\\') {
            l->at++;
            ok = read_escape(l, &at);
            len = 0;
        } else if ((len = character_at(l->text + l->at, l->n - l->at, &cp)) == 0)
            ok = fail(l->err, INPUT, "request: byte %zu: expected UTF-8, found byte 0x%02x", l->at, c);
        if (!ok) {
            free(out);
            return false;
        }
        memcpy(at, l->text + l->at, len);
        at += len;
        l->at += len;
    }
    l->at++;
    *at  = '\0';
    *s   = out;
    *n_s = (size_t)(at - out);
    return true;
}

/* ---- Values --------------------------------------------------------------------------------------------------- */

static bool word(Line *l, const char *w)
{
    size_t n = strlen(w);
    if (l->n - l->at < n || memcmp(l->text + l->at, w, n) != 0)
        return false;
    l->at += n;
    return true;
}

static bool read_bool(Line *l, bool *out)
{
    peek(l);
    *out = word(l, "true");
    return *out || word(l, "false") || wrong(l, "true or false");
}

static bool skip_number(Line *l, bool *whole)
{
    const char *expected;
    l->at += json_number_length(l->text + l->at, l->n - l->at, whole, &expected);
    return !expected || wrong(l, expected);
}

static bool read_id(Line *l, int32_t *id)
{
    bool    whole, minus = peek(l) == '-';
    size_t  first = l->at;
    int64_t value = 0;
    if (!skip_number(l, &whole))
        return false;
    for (size_t i = first + minus; whole && i < l->at && value <= INT32_MAX; i++)
        value = 10 * value + (l->text[i] - '0');
    if (!whole || value > INT32_MAX)
        return fail(l->err, INPUT, "request: byte %zu: expected an id, found %.*s", first, l->at - first < 40 ? (int)(l->at - first) : 40,
                    l->text + first);
    *id = (int32_t)(minus ? -value : value);
    return true;
}

static bool read_ids(Line *l, Ids *ids)
{
    int32_t id = -1;
    if (!take(l, '[', "an array of ids"))
        return false;
    if (peek(l) == ']')
        return take(l, ']', "]");
    do {
        if (!read_id(l, &id) || !ids_push(ids, id, l->err))
            return false;
    } while (peek(l) == ',' && take(l, ',', ","));
    return take(l, ']', "a comma or ]");
}

static bool skip_string(Line *l)
{
    char  *s;
    size_t n;
    bool   ok = read_string(l, &s, &n);
    free(s);
    return ok;
}

/* Any value that the protocol has no use for. */
static bool skip_value(Line *l, int depth)
{
    int c = peek(l);
    if (c == '"')
        return skip_string(l);
    if (c != '{' && c != '[') {
        bool whole;
        if (c == '-' || (c >= '0' && c <= '9'))
            return skip_number(l, &whole);
        return word(l, "true") || word(l, "false") || word(l, "null") || wrong(l, "a value");
    }
    if (depth == MOST_DEPTH)
        return fail(l->err, INPUT, "request: byte %zu: expected at most %d levels", l->at, MOST_DEPTH);
    char close = c == '{' ? '}' : ']';
    l->at++;
    if (peek(l) == close)
        return take(l, close, "");
    do {
        if (c == '{' && (!skip_string(l) || !take(l, ':', "a colon")))
            return false;
        if (!skip_value(l, depth + 1))
            return false;
    } while (peek(l) == ',' && take(l, ',', ","));
    return take(l, close, c == '{' ? "a comma or }" : "a comma or ]");
}

static bool unhex(Line *l, char *s, size_t *n)
{
    bool ok = *n % 2 == 0;
    for (size_t i = 0; ok && i < *n; i += 2) {
        int high = hex_digit(s[i]), low = hex_digit(s[i + 1]);
        ok = high >= 0 && low >= 0;
        s[i / 2] = (char)((high & 15) << 4 | (low & 15));
    }
    *n /= 2;
    return ok || fail(l->err, INPUT, "request: bytes_hex: expected pairs of hex digits");
}

/* ---- Requests ------------------------------------------------------------------------------------------------- */

static bool read_mode(Line *l, bool *parse_special)
{
    char  *mode;
    size_t n;
    if (!read_string(l, &mode, &n))
        return false;
    *parse_special = strcmp(mode, "special") == 0;
    bool ok = *parse_special || strcmp(mode, "plain") == 0 || strcmp(mode, "decode") == 0 ||
              fail(l->err, INPUT, "request: mode: expected 'plain', 'special' or 'decode', found '%s'", mode);
    free(mode);
    return ok;
}

/* Keys that the protocol does not have are skipped, so that a file of test cases is a file of requests: there, "ids" beside
 * a text is the expected answer. */
static bool read_value(Line *l, const char *key, Request *q)
{
    bool hex = strcmp(key, "bytes_hex") == 0;
    if (hex || strcmp(key, "text") == 0) {
        if (q->has_text)
            return fail(l->err, INPUT, "request: %s: expected one text, found a second", key);
        q->has_text = read_string(l, &q->text, &q->n_text) && (!hex || unhex(l, q->text, &q->n_text));
        return q->has_text;
    }
    if (strcmp(key, "ids") == 0 && peek(l) == '[') {
        if (q->has_ids)
            return fail(l->err, INPUT, "request: ids: expected one array, found a second");
        q->has_ids = read_ids(l, &q->ids);
        return q->has_ids;
    }
    if (strcmp(key, "mode") == 0)
        return read_mode(l, &q->parse_special);
    if (strcmp(key, "add_special") == 0)
        return read_bool(l, &q->add_special);
    return skip_value(l, 0);
}

static bool read_request(Line *l, Request *q)
{
    if (!take(l, '{', "an object"))
        return false;
    if (peek(l) != '}') {
        do {
            char  *key;
            size_t n;
            peek(l);
            if (!read_string(l, &key, &n))
                return false;
            bool ok = take(l, ':', "a colon") && read_value(l, key, q);
            free(key);
            if (!ok)
                return false;
        } while (peek(l) == ',' && take(l, ',', ","));
    }
    if (!take(l, '}', "a comma or }"))
        return false;
    if (peek(l) >= 0)
        return wrong(l, "nothing more on the line");
    return q->has_text || q->has_ids || fail(l->err, INPUT, "request: expected text, bytes_hex or ids, found none of them");
}

/* ---- Answers -------------------------------------------------------------------------------------------------- */

/* Invalid UTF-8 as the tokenizer's own library shows it: SentencePiece replaces each byte, byte-level BPE (Hugging Face,
 * from_utf8_lossy) each maximal part of a character. */
static bool replace_invalid(bool each_byte, const char *text, size_t n, char **out, size_t *n_out)
{
    char *at = *out = n < SIZE_MAX / 4 ? malloc(3 * n + 1) : NULL;
    if (!at)
        return false;
    uint32_t cp = 0;
    for (size_t i = 0; i < n;) {
        size_t valid = valid_prefix(text + i, n - i);
        memcpy(at, text + i, valid);
        at += valid;
        i += valid;
        if (i < n) {
            memcpy(at, "\xEF\xBF\xBD", 3);
            at += 3;
            i += each_byte ? 1 : (size_t)-utf8_decode(text + i, n - i, &cp);
        }
    }
    *n_out = (size_t)(at - *out);
    return true;
}

/* The same for characters of a tokenizer.json: a run of byte pieces that is no UTF-8 as a whole (decoders/byte_fallback.rs)
 * is shown as one U+FFFD for each byte. ids decode to n bytes. */
static bool replace_byte_runs(const Tokenizer *t, const Ids *ids, size_t n, char **out, size_t *n_out)
{
    char *at = *out = n < SIZE_MAX / 4 ? malloc(3 * n + decode_longest(t) + 1) : NULL;
    bool  start = true;
    if (!at)
        return false;
    for (size_t i = 0; i < ids->n;) {
        char *run = at;
        bool  bytes = t->vocab.types[ids->id[i]] == PIECE_BYTE;
        do
            at += decode_id(t, ids->id[i++], &start, at);
        while (bytes && i < ids->n && t->vocab.types[ids->id[i]] == PIECE_BYTE);
        size_t n_run = (size_t)(at - run);
        if (!bytes || valid_prefix(run, n_run) == n_run)
            continue;
        for (at = run; n_run; n_run--, at += 3)
            memcpy(at, "\xEF\xBF\xBD", 3);
    }
    *n_out = (size_t)(at - *out);
    return true;
}

static bool answer_text(const Tokenizer *t, const Request *q, TextOut *o, Error *err)
{
    char  *text = NULL, *shown = NULL;
    size_t n = 0, n_shown = 0;
    bool   ok = tokenizer_decode(t, q->ids.id, q->ids.n, &text, &n, err);
    if (ok) {
        bool characters = t->type == BPE_CHAR || t->type == UNIGRAM;
        ok = characters ? replace_byte_runs(t, &q->ids, n, &shown, &n_shown)
                        : replace_invalid(is_sentencepiece(t), text, n, &shown, &n_shown);
        ok = ok || no_memory("request", err);
        if (ok) {
            text_out_bytes(o, "{\"text\": ", 9);
            json_out_string(o, shown, n_shown);
            text_out_bytes(o, ", \"bytes_hex\": \"", 16);
            for (size_t i = 0; i < n; i++) {
                static const char digit[] = "0123456789abcdef";
                unsigned char     c = (unsigned char)text[i];
                text_out_bytes(o, (char[2]){ digit[c >> 4], digit[c & 15] }, 2);
            }
            text_out_bytes(o, "\"}", 2);
        }
    }
    free(text);
    free(shown);
    return ok;
}

static bool answer_ids(const Tokenizer *t, const Request *q, TextOut *o, Error *err)
{
    Ids  ids = { 0 };
    bool ok = tokenizer_encode(t, q->text, q->n_text, q->parse_special, q->add_special, &ids, err);
    if (ok) {
        text_out_bytes(o, "{\"ids\": [", 9);
        for (size_t i = 0; i < ids.n; i++)
            text_out(o, i ? ", %d" : "%d", ids.id[i]);
        text_out_bytes(o, "]}", 2);
    }
    free(ids.id);
    return ok;
}

bool tokenizer_answer_json(const Tokenizer *t, const char *line, size_t n_bytes, char **answer, Error *err)
{
    Line    l = { .text = line, .n = n_bytes, .err = err };
    Request q = { 0 };
    TextOut o = { 0 };
    bool    ok = read_request(&l, &q) && (q.has_text ? answer_ids(t, &q, &o, err) : answer_text(t, &q, &o, err));
    if (ok)
        ok = (*answer = text_out_take(&o, err)) != NULL;
    else
        text_out_free(&o);
    free(q.text);
    free(q.ids.id);
    return ok;
}
