/* base/json_out.c: the writer of JSON. */
#include "base/json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fp_env.h"

/* ---- Values ---------------------------------------------------------------------------------- */

FP_ENV_WORK
static void shortest_text(char text[JSON_NUMBER], double x)
{
    if (x == rint(x) && fabs(x) < 1e15) {
        snprintf(text, JSON_NUMBER, "%.0f", x);
    } else {
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(text, JSON_NUMBER, "%.*g", digits, x);
            if (strtod(text, NULL) == x)
                break;
        }
    }
}

/* Not inlined: its callers compare doubles. */
FP_ENV_WORK
void json_number_text(char text[JSON_NUMBER], double x)
{
    HostEnv env;
    host_env_enter(&env);
    shortest_text(text, x);
    host_env_leave(&env);
}

/* Writes one character of a string, in ASCII. Returns its length. */
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
    return (size_t)snprintf(out, 13, "\\u%04x\\u%04x", (unsigned)(0xD800 + (code >> 10)),
                            (unsigned)(0xDC00 + (code & 0x3FF)));
}

bool json_out_string(TextOut *o, const char *s, size_t n)
{
    text_out_bytes(o, "\"", 1);
    for (size_t i = 0; i < n;) {
        size_t run = i; /* a run of plain ASCII at once */
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

size_t json_char(char out[JSON_CHAR_BYTES], const char *s, size_t n, size_t *n_read)
{
    uint32_t code   = 0xFFFD;
    int      length = utf8_decode(s, n, &code);
    *n_read = length > 0 ? (size_t)length : 1;
    if (code == '"' || code == '\\' || code == '\n')
        return (size_t)snprintf(out, JSON_CHAR_BYTES, "\\%c", code == '\n' ? 'n' : (char)code);
    if (length < 0 || !is_printable(code)) /* characters above U+FFFF are all printable */
        return (size_t)snprintf(out, JSON_CHAR_BYTES, "\\u%04x", (unsigned)code);
    memcpy(out, s, *n_read);
    return *n_read;
}

bool json_out_double(TextOut *o, double x)
{
    char text[JSON_NUMBER] = "null";
    if (isfinite(x))
        json_number_text(text, x);
    return text_out_bytes(o, text, strlen(text));
}

bool json_out_floats(TextOut *o, const float *x, size_t n)
{
    text_out_bytes(o, "[", 1);
    for (size_t i = 0; i < n; i++) {
        text_out_bytes(o, ", ", i ? 2 : 0);
        json_out_double(o, (double)x[i]);
    }
    return text_out_bytes(o, "]", 1);
}

bool json_out_node(TextOut *o, const JsonDoc *d, const JsonNode *j)
{
    static const char *const words[] = { [NODE_NULL] = "null", [NODE_FALSE] = "false",
                                         [NODE_TRUE] = "true" };
    bool object = j->kind == NODE_OBJECT, first = true;
    if (j->kind <= NODE_TRUE)
        return text_out_bytes(o, words[j->kind], strlen(words[j->kind]));
    if (j->kind == NODE_STRING)
        return json_out_string(o, j->text, j->n);
    if (j->kind <= NODE_DOUBLE)
        return text_out_bytes(o, json_spelling(d, j),
                              strspn(json_spelling(d, j), "+-.0123456789eE"));
    text_out_bytes(o, object ? "{" : "[", 1);
    JSON_NODES (i, j) {
        text_out_bytes(o, ", ", first ? 0 : 2);
        if (object)
            json_out_string(o, i->key, i->key_n);
        text_out_bytes(o, ": ", object ? 2 : 0);
        json_out_node(o, d, i);
        first = false;
    }
    return text_out_bytes(o, object ? "}" : "]", 1);
}

/* ---- Forms ----------------------------------------------------------------------------------- */

/* Is the last thing a value, so that what follows needs a comma? */
static bool needs_comma(const TextOut *o)
{
    const char last = o->n ? o->text[o->n - 1] : '\n';
    return !memchr("{[:, \n", last, 7); /* 7: NUL too, which ends a document before this one */
}

void json_out_comma(TextOut *o)
{
    if (needs_comma(o))
        text_out_bytes(o, ", ", o->compact ? 1 : 2);
}

static void out_text(TextOut *o, const char *s, size_t n)
{
    json_out_comma(o);
    if (s)
        json_out_string(o, s, n);
    else
        text_out_bytes(o, "null", 4);
}

/* A number, true, false and null as they are; any other word, and all before a colon, in quotes. */
static void out_word(TextOut *o, const char *s, size_t n)
{
    const bool plain = *s == '-' || (*s >= '0' && *s <= '9') || (n == 4 && !memcmp(s, "true", 4))
        || (n == 4 && !memcmp(s, "null", 4)) || (n == 5 && !memcmp(s, "false", 5));
    json_out_comma(o);
    if (plain && s[n] != ':')
        text_out_bytes(o, s, n);
    else
        json_out_string(o, s, n);
}

static void out_raw(TextOut *o, const char *s)
{
    if (*s)
        json_out_comma(o), text_out_bytes(o, s, strlen(s));
}

/* An integer whose conversion is at p: "d", "zu", "llu". */
static void out_integer(TextOut *o, const char *p, va_list *args)
{
    char      text[24];
    const int size = *p == 'z' ? 1 : *p == 'l' ? (p[1] == 'l' ? 2 : 1) : 0;
    const bool negative = p[strspn(p, "zl")] == 'd';
    static_assert(sizeof(size_t) == sizeof(long), "%zu and %ld are read alike");
    if (negative)
        snprintf(text, sizeof text, "%lld",
                 size == 2   ? va_arg(*args, long long)
                 : size == 1 ? va_arg(*args, long)
                             : va_arg(*args, int));
    else
        snprintf(text, sizeof text, "%llu",
                 size == 2   ? va_arg(*args, unsigned long long)
                 : size == 1 ? va_arg(*args, unsigned long)
                             : va_arg(*args, unsigned));
    out_raw(o, text);
}

/* Returns where the conversion at p, after its '%', ends. */
static const char *out_argument(TextOut *o, const char *p, va_list *args)
{
    const char *s;
    switch (*p) {
    case 's': s = va_arg(*args, const char *), out_text(o, s, s ? strlen(s) : 0); break;
    case '-': out_raw(o, va_arg(*args, const char *)), p++; break;
    case 'i': out_raw(o, va_arg(*args, int) ? "true" : "false"); break;
    case 'g': json_out_comma(o), json_out_double(o, va_arg(*args, double)); break;
    default:  out_integer(o, p, args), p += strspn(p, "zl"); break;
    }
    return p + 1;
}

/* A line break, and the spaces after it, instead of the space after a comma. */
static const char *out_line(TextOut *o, const char *p)
{
    const size_t n = 1 + strspn(p + 1, " ");
    if (p[n] && !strchr("}]", p[n]) && needs_comma(o))
        text_out_bytes(o, ",", 1);
    text_out_bytes(o, p, n);
    return p + n;
}

static const char *out_part(TextOut *o, const char *p, va_list *args)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$-";
    size_t            n      = strspn(p, word);
    if (n) {
        out_word(o, p, n), p += n;
    } else if (*p == '\'') {
        n = strcspn(p + 1, "'");
        out_text(o, p + 1, n), p += n + 2;
    } else if (*p == '%') {
        p = out_argument(o, p + 1, args);
    } else if (*p == '\n') {
        return out_line(o, p);
    } else {
        if (*p == '{' || *p == '[')
            json_out_comma(o);
        if (strchr("{[]}", *p))
            text_out_bytes(o, p, 1);
        return p + 1;
    }
    if (*p != ':')
        return p;
    text_out_bytes(o, ": ", o->compact ? 1 : 2);
    return p + 1;
}

bool json_out(TextOut *o, const char *form, ...)
{
    va_list args;
    va_start(args, form);
    for (const char *p = form; *p;)
        p = out_part(o, p, &args);
    va_end(args);
    return !o->failed;
}

bool json_out_member(TextOut *o, const char *key, const char *text, size_t n)
{
    json_out(o, "%s:", key);
    return json_out_string(o, text ? text : "", n);
}

bool json_out_ints(TextOut *o, const int *x, size_t n)
{
    json_out(o, "[");
    for (size_t i = 0; i < n; i++)
        json_out(o, "%d", x[i]);
    return json_out(o, "]");
}

bool json_out_pair(TextOut *o, const JsonDoc *d, const JsonNode *j)
{
    json_out_comma(o);
    json_out_string(o, j->key, j->key_n);
    text_out_bytes(o, ": ", o->compact ? 1 : 2);
    return json_out_node(o, d, j);
}
