/* Answers one request of the JSON lines protocol. It is read with base/json_doc, whose strings may
 * contain NUL: a text to tokenize may too. */
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/json.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unicode.h"

typedef struct Request {
    JsonDoc     doc;
    const char *text;      /* "text" or "bytes_hex", decoded */
    size_t      n_text;
    char       *unhexed;
    bool        has_text, has_ids, parse_special, add_special;
    Ids         ids;
} Request;

static bool expected(const char *key, const char *thing, const JsonNode *found, Error *err)
{
    char text[NODE_TEXT];
    return fail(err, INPUT, "request: %s: expected %s, found %s", key, thing,
                node_text(found, text));
}

static bool read_ids(const JsonNode *list, Request *q, Error *err)
{
    JSON_NODES (j, list) {
        if (j->kind != NODE_INT || j->integer > INT32_MAX || j->integer < -INT32_MAX)
            return expected("ids", "an id", j, err);
        if (!ids_push(&q->ids, (int32_t)j->integer, err))
            return false;
    }
    q->has_ids = true;
    return true;
}

static bool read_hex(const JsonNode *j, Request *q, Error *err)
{
    bool ok = j->n % 2 == 0;
    q->unhexed = malloc(j->n / 2 + 1);
    if (!q->unhexed)
        return no_memory("request", err);
    for (size_t i = 0; ok && i < j->n; i += 2) {
        int high = hex_digit(j->text[i]), low = hex_digit(j->text[i + 1]);
        ok = high >= 0 && low >= 0;
        q->unhexed[i / 2] = (char)((high & 15) << 4 | (low & 15));
    }
    q->text   = q->unhexed;
    q->n_text = j->n / 2;
    return ok || fail(err, INPUT, "request: bytes_hex: expected pairs of hex digits");
}

static bool read_text(const JsonNode *j, bool hex, Request *q, Error *err)
{
    const char *key = hex ? "bytes_hex" : "text";
    if (q->has_text)
        return fail(err, INPUT, "request: %s: expected one text, found a second", key);
    if (j->kind != NODE_STRING)
        return expected(key, "a string", j, err);
    q->has_text = true;
    q->text     = j->text;
    q->n_text   = j->n;
    return !hex || read_hex(j, q, err);
}

/* Unknown keys are skipped, so a file of test cases is also a file of requests. In such a file,
 * "ids" beside a text is the expected result. */
static bool read_value(const JsonNode *j, Request *q, Error *err)
{
    bool hex = strcmp(j->key, "bytes_hex") == 0;
    if (hex || strcmp(j->key, "text") == 0)
        return read_text(j, hex, q, err);
    if (strcmp(j->key, "ids") == 0 && j->kind == NODE_ARRAY)
        return read_ids(j, q, err);
    if (strcmp(j->key, "mode") == 0) {
        q->parse_special = node_is(j, "special");
        return q->parse_special || node_is(j, "plain") || node_is(j, "decode")
            || expected("mode", "'plain', 'special' or 'decode'", j, err);
    }
    if (strcmp(j->key, "add_special") == 0) {
        q->add_special = j->kind == NODE_TRUE;
        return j->kind == NODE_TRUE || j->kind == NODE_FALSE
            || expected("add_special", "true or false", j, err);
    }
    return true;
}

static bool read_request(const char *line, size_t n, Request *q, Error *err)
{
    size_t begin = 0;
    while (begin < n && memchr(" \t\r\n", line[begin], 4))
        begin++;
    if (begin == n)
        return fail(err, INPUT, "request: byte %zu: expected an object, found the end", begin);
    if (!json_doc_read(&q->doc, line, n, 0, "request", err))
        return false;
    const JsonNode *root = q->doc.node;
    if (root->kind != NODE_OBJECT)
        return fail(err, INPUT, "request: byte %zu: expected an object, found '%c'", begin,
                    line[begin]);
    JSON_NODES (j, root)
        if (!read_value(j, q, err))
            return false;
    return q->has_text || q->has_ids
            || fail(err, INPUT, "request: expected text, bytes_hex or ids, found none of them");
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Show invalid UTF-8 as the tokenizer's own library does. SentencePiece replaces each byte by
 * U+FFFD; byte-level BPE (Hugging Face, from_utf8_lossy) replaces each maximal part of a
 * character. */
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

/* The same for characters of a tokenizer.json (decoders/byte_fallback.rs): if a run of byte pieces
 * is not valid UTF-8 as a whole, each of its bytes becomes U+FFFD. The ids decode to n bytes. */
static bool replace_byte_runs(const Tokenizer *t, const Ids *ids, size_t n, char **out,
                              size_t *n_out)
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
            json_out(o, "{");
            json_out_member(o, "text", shown, n_shown);
            json_out(o, "bytes_hex:");
            text_out_bytes(o, "\"", 1);
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
        json_out(o, "{ids:");
        json_out_ints(o, ids.id, ids.n);
        json_out(o, "}");
    }
    free(ids.id);
    return ok;
}

bool tokenizer_answer_json(const Tokenizer *t, const char *line, size_t n_bytes, char **answer,
                           Error *err)
{
    Request q = { 0 };
    TextOut o = { 0 };
    bool    ok = read_request(line, n_bytes, &q, err)
        && (q.has_text ? answer_ids(t, &q, &o, err) : answer_text(t, &q, &o, err));
    if (ok)
        ok = (*answer = text_out_take(&o, err)) != NULL;
    else
        text_out_free(&o);
    json_doc_free(&q.doc);
    free(q.unhexed);
    free(q.ids.id);
    return ok;
}
