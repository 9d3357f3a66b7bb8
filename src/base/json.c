/* Parsing is in two steps: check() reads the raw text by the grammar and refuses what cJSON lets pass (other number
 * forms, control characters, bad UTF-8, lone surrogates, NUL, depth, trailing text); then cJSON builds the tree. */
#include "base/json.h"

#include <cjson/cJSON.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hex.h"
#include "base/host_env.h"
#include "base/utf8.h"

enum {
    MAX_DEPTH = 64,
    CJSON_NUMBER = 63, /* cJSON 1.7 cuts a number after this many characters */
};

/* cJSON's strtod and our printf follow the locale's decimal point and the rounding mode of the host program: base/host_env.h. */
double json_number(const char *text)
{
    HostEnv env;
    host_env_enter(&env);
    double value = strtod(text, NULL);
    host_env_leave(&env);
    return value;
}

/* ---- Checking the text ------------------------------------------------------------------------------------------ */

typedef struct Check {
    const char *text;
    size_t      n, at;
    int         depth;
    char       *copy; /* the text with long numbers rewritten; NULL until there is one */
    const char *what;
    Error      *err;
} Check;

static int peek(const Check *c) { return c->at < c->n ? (unsigned char)c->text[c->at] : -1; }

static bool is_digit(int ch) { return ch >= '0' && ch <= '9'; }

static bool expected(const Check *c, const char *thing)
{
    int ch = peek(c);
    if (ch < 0)
        return fail(c->err, INPUT, "%s: byte %zu: expected %s, found the end of the text", c->what, c->at, thing);
    if (ch > 0x20 && ch < 0x7F)
        return fail(c->err, INPUT, "%s: byte %zu: expected %s, found '%c'", c->what, c->at, thing, ch);
    return fail(c->err, INPUT, "%s: byte %zu: expected %s, found byte 0x%02x", c->what, c->at, thing, (unsigned)ch);
}

static void skip_space(Check *c)
{
    while (c->at < c->n && (c->text[c->at] == ' ' || c->text[c->at] == '\n' || c->text[c->at] == '\t' || c->text[c->at] == '\r'))
        c->at++;
}

bool json_object_begins(const void *text, size_t n_bytes)
{
    Check c = { .text = text, .n = n_bytes };
    skip_space(&c);
    return peek(&c) == '{' && !memchr(text, 0, n_bytes < 8 ? n_bytes : 8);
}

static bool check_hex4(Check *c, unsigned *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++, c->at++) {
        int digit = hex_digit(peek(c));
        if (digit < 0)
            return expected(c, "four hex digits after \\u");
        *unit = *unit << 4 | (unsigned)digit;
    }
    return true;
}

/* After "\u". */
static bool check_unicode_escape(Check *c)
{
    size_t   start = c->at - 2;
    unsigned unit, low;
    if (!check_hex4(c, &unit))
        return false;
    if (unit == 0)
        return fail(c->err, INPUT, "%s: byte %zu: a string holds NUL (\\u0000), which is not supported", c->what, start);
    if (unit < 0xD800 || unit > 0xDFFF)
        return true;
    if (unit < 0xDC00 && peek(c) == '\\' && c->at + 1 < c->n && c->text[c->at + 1] == 'u') {
        c->at += 2;
        if (!check_hex4(c, &low))
            return false;
        if (low >= 0xDC00 && low <= 0xDFFF)
            return true;
    }
    return fail(c->err, INPUT, "%s: byte %zu: half a surrogate pair (\\u%04x)", c->what, start, unit);
}

static bool check_string(Check *c)
{
    if (peek(c) != '"')
        return expected(c, "a string");
    for (c->at++;;) {
        int ch = peek(c);
        if (ch == '"') {
            c->at++;
            return true;
        }
        if (ch < 0x20)
            return expected(c, ch < 0 ? "the end of a string" : "an escape for a control character in a string");
        if (ch == '\\') {
            c->at++;
            ch = peek(c);
            if (ch <= 0 || !strchr("\"\\/bfnrtu", ch))
                return expected(c, "one of \"\\/bfnrtu after \\");
            c->at++;
            if (ch == 'u' && !check_unicode_escape(c))
                return false;
            continue;
        }
        uint32_t code;
        int      length = utf8_decode(c->text + c->at, c->n - c->at, &code);
        if (length < 0)
            return expected(c, "UTF-8");
        c->at += (size_t)length;
    }
}

/* It would become infinity. */
static bool too_large(const Check *c, size_t start)
{
    return fail(c->err, INPUT, "%s: byte %zu: expected a number that fits a double, found one too large", c->what, start);
}

static bool check_finite(const Check *c, size_t start)
{
    char   text[CJSON_NUMBER];
    size_t n = c->at - start;
    memcpy(text, c->text + start, n);
    text[n] = 0;
    return isfinite(json_number(text)) || too_large(c, start);
}

/* cJSON cannot read a number over 63 characters: put its value there in 17 digits, then spaces. */
static bool shorten_number(Check *c, size_t start)
{
    size_t n = c->at - start;
    if (!c->copy) {
        c->copy = malloc(c->n);
        if (!c->copy)
            return fail(c->err, SYSTEM, "%s: not enough memory to read %zu bytes of JSON", c->what, c->n);
        memcpy(c->copy, c->text, c->n);
    }
    char *digits = malloc(n + 1);
    if (!digits)
        return fail(c->err, SYSTEM, "%s: not enough memory to read a number", c->what);
    memcpy(digits, c->text + start, n);
    digits[n] = 0;

    double    value = json_number(digits);
    char      text[40];
    free(digits);
    if (!isfinite(value))
        return too_large(c, start);
    HostEnv env;
    host_env_enter(&env);
    snprintf(text, sizeof text, "%.17g", value);
    host_env_leave(&env);

    memset(c->copy + start, ' ', n);
    memcpy(c->copy + start, text, strlen(text));
    return true;
}

/* How far digits go from text[at] on, of which there must be one. */
static size_t digits_end(const char *text, size_t n, size_t at, const char *thing, const char **expected)
{
    *expected = at < n && is_digit(text[at]) ? NULL : thing;
    while (at < n && is_digit(text[at]))
        at++;
    return at;
}

size_t json_number_length(const char *text, size_t n, bool *whole, const char **expected)
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

static bool check_number(Check *c)
{
    size_t      start = c->at;
    bool        whole;
    const char *thing;
    c->at += json_number_length(c->text + start, c->n - start, &whole, &thing);
    if (thing)
        return expected(c, thing);
    if (c->at - start >= CJSON_NUMBER)
        return shorten_number(c, start);
    return whole || check_finite(c, start);
}

static bool check_value(Check *c);

static bool check_members(Check *c, bool object)
{
    const char end = object ? '}' : ']';
    c->at++;
    skip_space(c);
    if (peek(c) == end) {
        c->at++;
        return true;
    }
    for (;;) {
        skip_space(c);
        if (object) {
            if (peek(c) != '"')
                return expected(c, "a key in quotes");
            if (!check_string(c))
                return false;
            skip_space(c);
            if (peek(c) != ':')
                return expected(c, "':' after a key");
            c->at++;
        }
        if (!check_value(c))
            return false;
        skip_space(c);
        if (peek(c) == end) {
            c->at++;
            return true;
        }
        if (peek(c) != ',')
            return expected(c, object ? "',' or '}'" : "',' or ']'");
        c->at++;
    }
}

static bool check_word(Check *c)
{
    static const char *const words[] = { "true", "false", "null" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);
        if (c->n - c->at >= n && memcmp(c->text + c->at, words[i], n) == 0) {
            c->at += n;
            return true;
        }
    }
    return expected(c, "a value");
}

static bool check_value(Check *c)
{
    skip_space(c);
    int ch = peek(c);
    if (ch == '{' || ch == '[') {
        if (c->depth == MAX_DEPTH)
            return fail(c->err, INPUT, "%s: byte %zu: nested deeper than %d", c->what, c->at, MAX_DEPTH);
        c->depth++;
        bool ok = check_members(c, ch == '{');
        c->depth--;
        return ok;
    }
    if (ch == '"')
        return check_string(c);
    return ch == '-' || is_digit(ch) ? check_number(c) : check_word(c);
}

static bool check(Check *c)
{
    if (c->n >= 3 && memcmp(c->text, "\xEF\xBB\xBF", 3) == 0)
        return fail(c->err, INPUT, "%s: byte 0: a byte order mark; expected JSON without one", c->what);
    if (!check_value(c))
        return false;
    skip_space(c);
    return c->at == c->n || expected(c, "nothing after the value");
}

/* ---- Duplicate keys --------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Sorted, not hashed: no choice of keys makes it quadratic. */
static bool check_keys(const cJSON *object, const char *what, Error *err)
{
    size_t n = json_count(object), i = 0;
    if (n < 2)
        return true;
    const char **key = malloc(n * sizeof *key);
    if (!key)
        return fail(err, SYSTEM, "%s: not enough memory to check %zu keys", what, n);
    for (const cJSON *item = object->child; item; item = item->next)
        key[i++] = item->string;
    qsort(key, n, sizeof *key, by_text);
    bool ok = true;
    for (i = 1; i < n && ok; i++)
        if (strcmp(key[i - 1], key[i]) == 0)
            ok = fail(err, INPUT, "%s: the key \"%s\" appears twice in one object", what, key[i]);
    free(key);
    return ok;
}

static bool check_all_keys(const cJSON *j, const char *what, Error *err)
{
    if (cJSON_IsObject(j) && !check_keys(j, what, err))
        return false;
    for (const cJSON *item = j->child; item; item = item->next)
        if (item->child && !check_all_keys(item, what, err))
            return false;
    return true;
}

/* ---- The tree --------------------------------------------------------------------------------------------------- */

Json *json_parse(const char *text, size_t n_bytes, const char *what, Error *err)
{
    Check  c = { .text = text, .n = n_bytes, .what = what, .err = err };
    cJSON *root = NULL;
    if (check(&c)) {
        HostEnv env;
        host_env_enter(&env);
        root = cJSON_ParseWithLengthOpts(c.copy ? c.copy : text, n_bytes, NULL, false);
        host_env_leave(&env);
        if (!root) /* the text is sound, so this is all that can have failed */
            fail(err, SYSTEM, "%s: out of memory for %zu bytes of JSON", what, n_bytes);
    }
    free(c.copy);
    if (root && !check_all_keys(root, what, err)) {
        cJSON_Delete(root);
        return NULL;
    }
    return root;
}

void json_free(Json *j) { cJSON_Delete(j); }

const Json *json_get(const Json *object, const char *key)
{
    for (const Json *item = json_is_object(object) ? object->child : NULL; item; item = item->next)
        if (strcmp(item->string, key) == 0)
            return item;
    return NULL;
}

const Json *json_first(const Json *j) { return json_is_object(j) || json_is_array(j) ? j->child : NULL; }
const Json *json_next(const Json *item) { return item->next; }
const char *json_key(const Json *item) { return item->string; }

size_t json_count(const Json *j)
{
    size_t n = 0;
    for (const Json *item = json_first(j); item; item = item->next)
        n++;
    return n;
}

bool json_is_object(const Json *j) { return cJSON_IsObject(j); }
bool json_is_array(const Json *j) { return cJSON_IsArray(j); }
bool json_is_string(const Json *j) { return cJSON_IsString(j); }
bool json_is_number(const Json *j) { return cJSON_IsNumber(j); }
bool json_is_bool(const Json *j) { return cJSON_IsBool(j); }
bool json_is_null(const Json *j) { return cJSON_IsNull(j); }

bool json_equal(const Json *a, const Json *b) { return cJSON_Compare(a, b, true); }

const char *json_kind(const Json *j)
{
    return !j                  ? "nothing"
           : json_is_object(j) ? "object"
           : json_is_array(j)  ? "array"
           : json_is_string(j) ? "string"
           : json_is_number(j) ? "number"
           : json_is_bool(j)   ? (cJSON_IsTrue(j) ? "true" : "false")
                               : "null";
}

/* ---- Typed reads ------------------------------------------------------------------------------------------------ */

enum { NUMBER_TEXT = 40 };

FP_ENV_WORK
static void shortest_text(char text[NUMBER_TEXT], double x)
{
    if (x == rint(x) && fabs(x) < 1e15) {
        snprintf(text, NUMBER_TEXT, "%.0f", x);
    } else {
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(text, NUMBER_TEXT, "%.*g", digits, x);
            if (strtod(text, NULL) == x)
                break;
        }
    }
}

/* The fewest digits that read back as x, which is finite. Not inlined either: its callers compare doubles. */
FP_ENV_WORK
static void number_text(char text[NUMBER_TEXT], double x)
{
    HostEnv env;
    host_env_enter(&env);
    shortest_text(text, x);
    host_env_leave(&env);
}

/* What stands there instead, for a message. */
static const char *found(const Json *j, char text[NUMBER_TEXT])
{
    if (!json_is_number(j))
        return json_kind(j);
    number_text(text, j->valuedouble);
    return text;
}

bool json_read_int(const Json *j, const char *what, int64_t min, int64_t max, int64_t *out, Error *err)
{
    char   text[NUMBER_TEXT];
    double x = json_is_number(j) ? j->valuedouble : NAN;
    /* 2^53 itself may have been 2^53 + 1 in the text */
    if (!(fabs(x) < 0x1p53) || x != rint(x) || (int64_t)x < min || (int64_t)x > max)
        return fail(err, INPUT, "%s: expected an integer from %lld to %lld, found %s", what, (long long)min, (long long)max,
                    found(j, text));
    *out = (int64_t)x;
    return true;
}

bool json_read_double(const Json *j, const char *what, double min, double max, double *out, Error *err)
{
    char   text[NUMBER_TEXT], low[NUMBER_TEXT], high[NUMBER_TEXT];
    double x = json_is_number(j) ? j->valuedouble : NAN;
    if (isfinite(x) && x >= min && x <= max) {
        *out = x;
        return true;
    }
    bool no_min = min <= -DBL_MAX, no_max = max >= DBL_MAX;
    snprintf(low, sizeof low, "-inf");
    snprintf(high, sizeof high, "inf");
    if (!no_min)
        number_text(low, min);
    if (!no_max)
        number_text(high, max);
    if (no_min && no_max)
        return fail(err, INPUT, "%s: expected a number, found %s", what, found(j, text));
    if (no_max)
        return fail(err, INPUT, "%s: expected a number of at least %s, found %s", what, low, found(j, text));
    return fail(err, INPUT, "%s: expected a number from %s to %s, found %s", what, low, high, found(j, text));
}

bool json_read_bool(const Json *j, const char *what, bool *out, Error *err)
{
    char text[NUMBER_TEXT];
    if (!json_is_bool(j))
        return fail(err, INPUT, "%s: expected true or false, found %s", what, found(j, text));
    *out = cJSON_IsTrue(j);
    return true;
}

bool json_read_string(const Json *j, const char *what, const char **out, Error *err)
{
    char text[NUMBER_TEXT];
    if (!json_is_string(j))
        return fail(err, INPUT, "%s: expected a string, found %s", what, found(j, text));
    *out = j->valuestring;
    return true;
}

/* ---- Output ----------------------------------------------------------------------------------------------------- */

static size_t escape(char out[13], uint32_t code)
{
    static const char short_for[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *p = short_for; *p; p += 2)
        if ((uint32_t)(unsigned char)p[0] == code)
            return (size_t)snprintf(out, 13, "\\%c", p[1]);
    if (code >= 0x20 && code < 0x7F)
        return (size_t)snprintf(out, 13, "%c", (int)code);
    if (code < 0x10000)
        return (size_t)snprintf(out, 13, "\\u%04x", (unsigned)code);
    code -= 0x10000;
    return (size_t)snprintf(out, 13, "\\u%04x\\u%04x", (unsigned)(0xD800 + (code >> 10)), (unsigned)(0xDC00 + (code & 0x3FF)));
}

bool json_out_string(TextOut *o, const char *s, size_t n)
{
    text_out_bytes(o, "\"", 1);
    for (size_t i = 0; i < n;) {
        size_t run = i; /* plain ASCII goes out in one piece */
        while (run < n && s[run] >= 0x20 && s[run] < 0x7F && s[run] != '"' && s[run] != '\\')
            run++;
        text_out_bytes(o, s + i, run - i);
        i = run;
        if (i == n)
            break;
        uint32_t code = 0xFFFD;
        int      length = utf8_decode(s + i, n - i, &code);
        char     text[13];
        text_out_bytes(o, text, escape(text, code));
        i += (size_t)(length < 0 ? -length : length);
    }
    return text_out_bytes(o, "\"", 1);
}

bool json_out_double(TextOut *o, double x)
{
    char text[NUMBER_TEXT] = "null";
    if (isfinite(x))
        number_text(text, x);
    return text_out_bytes(o, text, strlen(text));
}
