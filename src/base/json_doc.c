/* base/json_doc.c: a recursive descent parser, one function for each rule of RFC 8259. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/fp_env.h"
#include "base/hash.h"
#include "base/text.h"

enum {
    MAX_DEPTH = 64,
    MOST_NODES = 1 << 24, /* 512 MB of nodes; a vocabulary of 256k with merges has 2 M */
    FEW_KEYS = 8,         /* up to this many are compared pairwise */
};

typedef struct JsonParser {
    JsonDoc    *d;
    char       *at, *end;
    int         depth;
    unsigned    refused;
    size_t      most; /* nodes */
    const char *what;
    Error      *err;
} JsonParser;

static bool expected(const JsonParser *p, const char *thing)
{
    size_t offset = (size_t)(p->at - p->d->text);
    if (p->at == p->end)
        return fail(p->err, INPUT, "%s: byte %zu: expected %s, found the end of the text", p->what,
                    offset, thing);
    unsigned char c = (unsigned char)*p->at;
    if (c > 0x20 && c < 0x7F)
        return fail(p->err, INPUT, "%s: byte %zu: expected %s, found '%c'", p->what, offset, thing,
                    c);
    return fail(p->err, INPUT, "%s: byte %zu: expected %s, found byte 0x%02x", p->what, offset,
                thing, c);
}

static void skip_space(JsonParser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r'))
        p->at++;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* ---- Strings --------------------------------------------------------------------------------- */

static bool hex4(JsonParser *p, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        int digit = p->at < p->end ? hex_digit(*p->at) : -1;
        if (digit < 0)
            return expected(p, "four hex digits after \\u");
        *unit = *unit << 4 | (uint32_t)digit;
    }
    return true;
}

static char *write_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xC0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        *out++ = (char)(0xE0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3F));
        *out++ = (char)(0x80 | (c & 0x3F));
    } else {
        *out++ = (char)(0xF0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3F));
        *out++ = (char)(0x80 | (c >> 6 & 0x3F));
        *out++ = (char)(0x80 | (c & 0x3F));
    }
    return out;
}

/* After "\u". The character is shorter than its escape, so it overwrites the escape. */
static bool unicode_escape(JsonParser *p, char **out)
{
    size_t   start = (size_t)(p->at - p->d->text) - 2;
    uint32_t unit, low = 0;
    if (!hex4(p, &unit))
        return false;
    if (unit >= 0xD800 && unit < 0xDC00 && p->end - p->at > 2 && p->at[0] == '\\'
        && p->at[1] == 'u') {
        p->at += 2;
        if (!hex4(p, &low))
            return false;
    }
    if (unit >= 0xD800 && unit <= 0xDFFF) {
        if (unit >= 0xDC00 || low < 0xDC00 || low > 0xDFFF)
            return fail(p->err, INPUT, "%s: byte %zu: half a surrogate pair (\\u%04x)", p->what,
                        start, (unsigned)unit);
        unit = 0x10000 + ((unit & 0x3FF) << 10 | (low & 0x3FF));
    }
    if (unit == 0 && p->refused & JSON_NO_NUL)
        return fail(p->err, INPUT,
                    "%s: byte %zu: a string holds NUL (\\u0000), which is not supported", p->what,
                    start);
    *out = write_utf8(*out, unit);
    return true;
}

static bool escape(JsonParser *p, char **out)
{
    static const char spelled[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    p->at++;
    if (p->at < p->end && *p->at == 'u') {
        p->at++;
        return unicode_escape(p, out);
    }
    const char *hit = p->at < p->end && *p->at ? strchr(spelled, *p->at) : NULL;
    if (!hit)
        return expected(p, "one of \"\\/bfnrtu after \\");
    *(*out)++ = meant[hit - spelled];
    p->at++;
    return true;
}

/* A character of a string that is not plain ASCII: an escape, or more bytes of UTF-8. */
static bool odd_character(JsonParser *p, char **out)
{
    uint32_t code;
    if (p->at == p->end)
        return expected(p, "the end of a string");
    if (*p->at == '\\')
        return escape(p, out);
    if ((unsigned char)*p->at < 0x20)
        return expected(p, "an escape for a control character in a string");
    int n = utf8_decode(p->at, (size_t)(p->end - p->at), &code);
    if (n < 0)
        return expected(p, "UTF-8");
    memmove(*out, p->at, (size_t)n);
    *out += n;
    p->at += n;
    return true;
}

static bool string(JsonParser *p, const char **text, uint32_t *n)
{
    if (p->at == p->end || *p->at != '"')
        return expected(p, "a string");
    char *out = ++p->at;
    *text = out;
    for (;;) {
        while (p->at < p->end && (unsigned char)(*p->at - 0x20) < 0x60 && *p->at != '"'
               && *p->at != '\\')
            *out++ = *p->at++;
        if (p->at < p->end && *p->at == '"')
            break;
        if (!odd_character(p, &out))
            return false;
    }
    p->at++;
    *out = 0; /* overwrites an escape or the closing quote */
    *n = (uint32_t)(out - *text);
    return true;
}

/* ---- Numbers and words ----------------------------------------------------------------------- */

/* The end of the digits from text[at] on; there must be at least one. */
static size_t digits_end(const char *text, size_t n, size_t at, const char *thing,
                         const char **expected)
{
    *expected = at < n && is_digit(text[at]) ? NULL : thing;
    while (at < n && is_digit(text[at]))
        at++;
    return at;
}

/* The length of the number at the start of text. *expected: NULL, or what should come after
 * that many bytes instead. *whole: it has no decimal point and no exponent. */
static size_t number_length(const char *text, size_t n, bool *whole, const char **expected)
{
    size_t first = n && *text == '-', at = digits_end(text, n, first, "a digit", expected);
    *whole = true;
    if (at - first > 1 && text[first] == '0') {
        *expected = "no digit after a leading 0";
        return first + 1;
    }
    if (!*expected && at < n && text[at] == '.') {
        *whole = false;
        at = digits_end(text, n, at + 1, "a digit after the decimal point", expected);
    }
    if (!*expected && at < n && (text[at] == 'e' || text[at] == 'E')) {
        *whole = false;
        at++;
        at += at < n && (text[at] == '+' || text[at] == '-');
        at = digits_end(text, n, at, "a digit in the exponent", expected);
    }
    return at;
}

double json_to_double(const char *text)
{
    HostEnv env;
    host_env_enter(&env);
    double value = strtod(text, NULL);
    host_env_leave(&env);
    return value;
}

static bool number(JsonParser *p, JsonNode *j)
{
    char       *start = p->at, *first = start + (*start == '-');
    bool        whole;
    const char *thing;
    j->n = (uint32_t)(start - p->d->text);
    p->at += number_length(start, (size_t)(p->end - start), &whole, &thing);
    if (thing)
        return expected(p, thing);
    /* 18 digits always fit an int64_t. */
    if (whole && p->at - first <= 18) {
        int64_t value = 0;
        for (const char *c = first; c < p->at; c++)
            value = 10 * value + (*c - '0');
        j->kind = NODE_INT;
        j->integer = *start == '-' ? -value : value;
        return true;
    }
    j->kind = NODE_DOUBLE;
    j->number = json_to_double(start);
    return isfinite(j->number) || !(p->refused & JSON_FINITE)
        || fail(p->err, INPUT,
                "%s: byte %zu: expected a number that fits a double, found one too large", p->what,
                (size_t)(start - p->d->text));
}

static bool word(JsonParser *p, JsonNode *j)
{
    static const char *const words[] = {
        [NODE_NULL] = "null", [NODE_FALSE] = "false", [NODE_TRUE] = "true"
    };
    for (uint32_t i = NODE_NULL; i <= NODE_TRUE; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(p->end - p->at) >= n && memcmp(p->at, words[i], n) == 0) {
            p->at += n;
            j->kind = i;
            return true;
        }
    }
    return expected(p, "a value");
}

/* ---- Values ---------------------------------------------------------------------------------- */

static bool new_node(JsonParser *p, size_t *index)
{
    JsonDoc *d = p->d;
    if (d->n_nodes == p->most)
        return fail(p->err, INPUT, "%s: expected at most %zu values, found more", p->what, p->most);
    if (d->n_nodes == d->cap) {
        size_t    cap = d->cap ? 2 * d->cap : 64;
        JsonNode *grown = realloc(d->node, cap * sizeof *grown);
        if (!grown)
            return fail(p->err, SYSTEM, "%s: out of memory for %zu values of JSON", p->what, cap);
        d->node = grown;
        d->cap  = cap;
    }
    *index = d->n_nodes++;
    d->node[*index] = (JsonNode){ .skip = 1 };
    return true;
}

static bool same_key(const JsonParser *p, const JsonNode *j)
{
    return fail(p->err, INPUT, "%s: the key \"%.*s\" appears twice in one object", p->what,
                j->key_n < 100 ? (int)j->key_n : 100, j->key);
}

static bool check_keys(const JsonParser *p, const JsonNode *object)
{
    if (object->n <= FEW_KEYS) {
        JSON_NODES (i, object)
            for (const JsonNode *k = object + 1; k != i; k += k->skip)
                if (k->key_n == i->key_n && memcmp(k->key, i->key, i->key_n) == 0)
                    return same_key(p, i);
        return true;
    }
    ByteMap seen = { 0 };
    bool    ok = byte_map_reserve(&seen, object->n, p->err);
    JSON_NODES (i, object) {
        bool twice;
        if (!ok)
            break;
        ok = byte_map_put(&seen, i->key, i->key_n, 0, &twice, p->err) && (!twice || same_key(p, i));
    }
    byte_map_free(&seen);
    return ok;
}

static bool value(JsonParser *p, const char *key, uint32_t key_n);

static bool member(JsonParser *p, bool object)
{
    const char *key = NULL;
    uint32_t    key_n = 0;
    skip_space(p);
    if (object) {
        if (p->at == p->end || *p->at != '"')
            return expected(p, "a key in quotes");
        if (!string(p, &key, &key_n))
            return false;
        skip_space(p);
        if (p->at == p->end || *p->at != ':')
            return expected(p, "':' after a key");
        p->at++;
    }
    return value(p, key, key_n);
}

static bool members(JsonParser *p, size_t index, bool object)
{
    const char close = object ? '}' : ']';
    p->at++;
    skip_space(p);
    while (p->at == p->end || *p->at != close) {
        if (p->d->node[index].n && (p->at == p->end || *p->at != ','))
            return expected(p, object ? "',' or '}'" : "',' or ']'");
        if (p->d->node[index].n)
            p->at++;
        if (!member(p, object))
            return false;
        p->d->node[index].n++;
        skip_space(p);
    }
    p->at++;
    p->d->node[index].skip = (uint32_t)(p->d->n_nodes - index);
    return !object || check_keys(p, &p->d->node[index]);
}

static bool value(JsonParser *p, const char *key, uint32_t key_n)
{
    size_t index = 0;
    skip_space(p);
    if (!new_node(p, &index))
        return false;
    JsonNode *j = &p->d->node[index];
    j->key   = key;
    j->key_n = key_n;
    char c = p->at < p->end ? *p->at : ' ';
    if (c == '{' || c == '[') {
        j->kind = c == '{' ? NODE_OBJECT : NODE_ARRAY;
        if (p->depth == MAX_DEPTH)
            return fail(p->err, INPUT, "%s: byte %zu: nested deeper than %d", p->what,
                        (size_t)(p->at - p->d->text), MAX_DEPTH);
        p->depth++;
        bool ok = members(p, index, c == '{');
        p->depth--;
        return ok;
    }
    if (c == '"') {
        j->kind = NODE_STRING;
        return string(p, &j->text, &j->n);
    }
    return c == '-' || is_digit(c) ? number(p, j) : word(p, j);
}

static bool document(JsonParser *p)
{
    size_t n = (size_t)(p->end - p->at);
    if (n > UINT32_MAX)
        return fail(p->err, INPUT, "%s: expected less than 4 GB of JSON, found %zu bytes", p->what,
                    n);
    if (n >= 3 && memcmp(p->at, "\xEF\xBB\xBF", 3) == 0)
        return fail(p->err, INPUT, "%s: byte 0: a byte order mark; expected JSON without one",
                    p->what);
    if (!value(p, NULL, 0))
        return false;
    skip_space(p);
    return p->at == p->end || expected(p, "nothing after the value");
}

static bool parse(JsonDoc *d, char *text, size_t n_bytes, unsigned refused, size_t most,
                  const char *what, Error *err)
{
    *d = (JsonDoc){ .text = text };
    bool ok = document(&(JsonParser){ .d       = d,
                                      .at      = text,
                                      .end     = text + n_bytes,
                                      .refused = refused,
                                      .most    = most,
                                      .what    = what,
                                      .err     = err });
    if (!ok)
        json_doc_free(d);
    return ok;
}

bool json_doc_parse(JsonDoc *d, char *text, size_t n_bytes, unsigned refused, const char *what,
                    Error *err)
{
    return parse(d, text, n_bytes, refused, MOST_NODES, what, err);
}

bool json_doc_read(JsonDoc *d, const char *text, size_t n_bytes, unsigned refused, const char *what,
                   Error *err)
{
    return json_doc_read_within(d, text, n_bytes, refused, MOST_NODES, what, err);
}

bool json_doc_read_within(JsonDoc *d, const char *text, size_t n_bytes, unsigned refused,
                          size_t most, const char *what, Error *err)
{
    char *copy = n_bytes < SIZE_MAX ? malloc(n_bytes + 1) : NULL;
    *d = (JsonDoc){ 0 };
    if (!copy)
        return fail(err, SYSTEM, "%s: out of memory for %zu bytes of JSON", what, n_bytes);
    if (n_bytes)
        memcpy(copy, text, n_bytes);
    copy[n_bytes] = '\0';
    return parse(d, copy, n_bytes, refused, most, what, err);
}

void json_doc_free(JsonDoc *d)
{
    free(d->text);
    free(d->node);
    *d = (JsonDoc){ 0 };
}

/* ---- Reading --------------------------------------------------------------------------------- */

const JsonNode *node_get(const JsonNode *object, const char *key)
{
    size_t n = strlen(key);
    if (object && object->kind == NODE_OBJECT)
        JSON_NODES (i, object)
            if (i->key_n == n && memcmp(i->key, key, n) == 0)
                return i;
    return NULL;
}

bool node_is(const JsonNode *j, const char *text)
{
    return j && j->kind == NODE_STRING && j->n == strlen(text) && memcmp(j->text, text, j->n) == 0;
}

bool node_truth(const JsonNode *j)
{
    if (!j || j->kind <= NODE_FALSE)
        return false;
    return j->kind == NODE_TRUE || (j->kind <= NODE_DOUBLE ? node_number(j) != 0 : j->n > 0);
}

double node_number(const JsonNode *j)
{
    switch (j ? j->kind : NODE_NULL) {
    case NODE_FALSE:  return 0;
    case NODE_TRUE:   return 1;
    case NODE_INT:    return (double)j->integer;
    case NODE_DOUBLE: return j->number;
    default:          return NAN;
    }
}

const char *node_text(const JsonNode *j, char buf[NODE_TEXT])
{
    static const char *const fixed[] = { [NODE_NULL] = "null",
                                         [NODE_FALSE] = "false",
                                         [NODE_TRUE] = "true",
                                         [NODE_ARRAY] = "an array",
                                         [NODE_OBJECT] = "an object" };
    if (!j)
        return "nothing";
    if (j->kind == NODE_STRING)
        snprintf(buf, NODE_TEXT, "'%.*s'", j->n < 120 ? (int)j->n : 120, j->text);
    else if (j->kind == NODE_INT)
        snprintf(buf, NODE_TEXT, "%lld", (long long)j->integer);
    else if (j->kind == NODE_DOUBLE)
        snprintf(buf, NODE_TEXT, "%.6g", j->number); /* for messages: digits need not be exact */
    else
        return fixed[j->kind];
    return buf;
}
