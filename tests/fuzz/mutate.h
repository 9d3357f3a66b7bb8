/* tests/fuzz/mutate.h: changes of an input that know its structure, so that it passes the first
 * checks: values and keys of JSON, the header of a safetensors file, keys and tensors of a GGUF
 * file (mutate_gguf.h). The same for libFuzzer and for a test. */
#ifndef MUTATE_H
#define MUTATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mutate_state = 1;

/* xorshift64*: a number below n; 0 where n is 0. */
static inline uint64_t draw(uint64_t n)
{
    mutate_state ^= mutate_state >> 12;
    mutate_state ^= mutate_state << 25;
    mutate_state ^= mutate_state >> 27;
    uint64_t x = (mutate_state * UINT64_C(2685821657736338717)) >> 16;
    return n ? x % n : 0;
}

/* Where the numbers of a model's settings have their limits. */
static inline uint64_t draw_integer(void)
{
    static const uint64_t limits[] = { 0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 33, 64, 127, 128, 255, 256,
        1000, 4095, 4096, 4097, 65535, 65536, 1u << 24, 1u << 30, INT32_MAX, 1u << 31, UINT32_MAX,
        UINT64_C(1) << 32, UINT64_C(1) << 62, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX };
    uint64_t x = draw(4) ? limits[draw(sizeof limits / sizeof *limits)] : draw(300);
    return draw(8) ? x : 0 - x;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

#ifdef FUZZER
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t n, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t max, unsigned seed);
#define mutate_bytes LLVMFuzzerMutate
#else
static inline size_t mutate_bytes(uint8_t *bytes, size_t n, size_t max)
{
    (void)max;
    if (n == 0)
        return 0;
    size_t at = draw(n);
    bytes[at] = draw(2) ? (uint8_t)draw(256) : (uint8_t)(bytes[at] ^ 1 << draw(8));
    return draw(16) ? n : n - draw(n < 64 ? n : 64);
}
#endif

/* n bytes, of which `length` from `at` on become m others; the bytes as they are where these have
 * no room. `with` may lie inside the bytes. */
static inline size_t splice(uint8_t *bytes, size_t n, size_t max, size_t at, size_t length,
                            const void *with, size_t m)
{
    if (at > n || length > n - at || m > max || n - length > max - m)
        return n;
    uint8_t *copy = malloc(m + 1);
    if (!copy)
        return n;
    if (m)
        memcpy(copy, with, m);
    memmove(bytes + at + m, bytes + at + length, n - at - length);
    if (m)
        memcpy(bytes + at, copy, m);
    free(copy);
    return n - length + m;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

typedef struct Span { size_t at, n; } Span;

static inline bool json_blank(uint8_t c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static inline size_t json_string_end(const uint8_t *t, size_t n, size_t at)
{
    for (at++; at < n && t[at] != '"'; at++)
        at += t[at] == '\\' && at + 1 < n;
    return at < n ? at + 1 : n;
}

/* The end of the value that begins at `at`. */
static inline size_t json_value_end(const uint8_t *t, size_t n, size_t at)
{
    int depth = 0;
    do {
        if (t[at] == '"') {
            at = json_string_end(t, n, at);
        } else if (t[at] == '{' || t[at] == '[') {
            depth++, at++;
        } else if (t[at] == '}' || t[at] == ']') {
            depth--, at++;
        } else if (strchr(",: \n\t\r", t[at])) {
            at++;
        } else {
            while (at < n && !strchr(",:}] \n\t\r", t[at]))
                at++;
        }
    } while (at < n && depth > 0);
    return at;
}

/* One of the text's keys, or of its values, each as likely as the others. */
static inline bool json_sample(const uint8_t *t, size_t n, bool keys, Span *out)
{
    size_t seen = 0;
    for (size_t i = 0; i < n;) {
        if (strchr(",:}] \n\t\r", t[i])) { /* a NUL too */
            i++;
            continue;
        }
        size_t end  = t[i] == '{' || t[i] == '[' ? i + 1
                    : t[i] == '"'                ? json_string_end(t, n, i)
                                                 : json_value_end(t, n, i);
        size_t next = end;
        while (next < n && json_blank(t[next]))
            next++;
        bool key = t[i] == '"' && next < n && t[next] == ':';
        if (key == keys && draw(++seen) == 0)
            *out = (Span){ i, end - i };
        i = end > i ? end : i + 1;
    }
    if (seen && (t[out->at] == '{' || t[out->at] == '['))
        out->n = json_value_end(t, n, out->at) - out->at;
    return seen > 0;
}

/* What a value becomes that has nothing to do with it. */
static inline size_t json_other(char *out, size_t room)
{
    static const char *const words[] = { "null", "true", "false", "[]", "{}", "\"\"", "\"x\"",
        "0.5", "-1.5", "1e-9", "1e30", "-1e308", "[0]", "[1,2]", "[[]]", "{\"\":0}", "{\"a\":{}}",
        "\"none\"", "\" \"", "[null]", "[\"\"]", "0.0" };
    size_t n = 0;
    if (draw(2)) {
        strcpy(out, words[draw(sizeof words / sizeof *words)]);
        return strlen(out);
    }
    uint64_t x = draw_integer();
    char     digits[24];
    size_t   k = 0;
    if ((int64_t)x < 0 && draw(2))
        out[n++] = '-', x = 0 - x;
    do
        digits[k++] = (char)('0' + x % 10);
    while (x /= 10);
    while (k && n < room)
        out[n++] = digits[--k];
    return n;
}

/* Removes the member or item, with one comma beside it. */
static inline size_t json_remove(uint8_t *t, size_t n, size_t max, Span s)
{
    size_t end = s.at + s.n, begin = s.at;
    while (end < n && json_blank(t[end]))
        end++;
    if (end < n && t[end] == ':') { /* a key: its value goes too */
        for (end++; end < n && json_blank(t[end]);)
            end++;
        end = end < n ? json_value_end(t, n, end) : n;
    }
    while (end < n && json_blank(t[end]))
        end++;
    if (end < n && t[end] == ',') {
        end++;
    } else {
        while (begin && json_blank(t[begin - 1]))
            begin--;
        begin -= begin && t[begin - 1] == ',';
    }
    return splice(t, n, max, begin, end - begin, "", 0);
}

static inline size_t mutate_json(uint8_t *t, size_t n, size_t max)
{
    char   other[64];
    Span   s, from;
    bool   key = draw(4) == 0;
    if (!json_sample(t, n, key, &s))
        return mutate_bytes(t, n, max);
    switch (draw(8)) {
    case 0:
        return json_remove(t, n, max, s);
    case 1: /* another of the same text */
    case 2:
        if (json_sample(t, n, key, &from))
            return splice(t, n, max, s.at, s.n, t + from.at, from.n);
        return n;
    case 3: { /* its bytes */
        uint8_t piece[256];
        if (s.n > 200)
            return n;
        memcpy(piece, t + s.at, s.n);
        return splice(t, n, max, s.at, s.n, piece, mutate_bytes(piece, s.n, sizeof piece));
    }
    case 4: /* once more */
        strcpy(other, key ? "\"\":0," : "0,");
        return splice(t, n, max, s.at, 0, other, strlen(other));
    default:
        return splice(t, n, max, s.at, s.n, key ? "\"\"" : other, key ? 2 : json_other(other, 40));
    }
}

/* ---- safetensors ----------------------------------------------------------------------------- */

static inline size_t mutate_safetensors(uint8_t *bytes, size_t n, size_t max)
{
    uint64_t length;
    if (n < 8 || draw(8) == 0)
        return mutate_bytes(bytes, n, max);
    memcpy(&length, bytes, 8);
    if (length > n - 8)
        return mutate_bytes(bytes, n, max);
    size_t m = length + 512;
    uint8_t *header = malloc(m);
    if (!header)
        return n;
    memcpy(header, bytes + 8, length);
    m = mutate_json(header, length, m);
    n = splice(bytes, n, max, 8, length, header, m);
    if (n >= 8 + m && memcmp(bytes + 8, header, m) == 0)
        memcpy(bytes, &(uint64_t){ m }, 8);
    free(header);
    return n;
}

#endif
