/* api/receipt_read.c: a receipt of anybody is read: every field must be there, no other may, and
 * nothing in it is a name of a file. */
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/receipt.h"
#include "base/fp_env.h"
#include "base/json.h"

enum { MOST_FACT = 4096, MOST_DATE = 64, MOST_EVERY = 1 << 30 };

typedef struct Reading { tblock_receipt *r; const char *name; Error *err; } Reading;

static bool wrong(const Reading *in, const char *key, const char *expected, const JsonNode *found)
{
    char text[NODE_TEXT];
    return fail(in->err, INPUT, "%s: %s: expected %s, found %s", in->name, key, expected,
                node_text(found, text));
}

/* An object with exactly these members. */
static bool read_members(const Reading *in, const char *key, const JsonNode *object,
                         const char *const *keys, size_t n, const JsonNode **value)
{
    if (!object || object->kind != NODE_OBJECT)
        return wrong(in, key, "an object", object);
    for (size_t i = 0; i < n; i++)
        value[i] = NULL;
    JSON_NODES (m, object) {
        size_t i = 0;
        while (i < n && (strlen(keys[i]) != m->key_n || memcmp(keys[i], m->key, m->key_n) != 0))
            i++;
        if (i == n)
            return fail(in->err, INPUT, "%s: %s: unknown field \"%.60s\"", in->name, key, m->key);
        value[i] = m;
    }
    for (size_t i = 0; i < n; i++)
        if (!value[i])
            return fail(in->err, INPUT, "%s: %s: expected the field \"%s\", found none", in->name,
                        key, keys[i]);
    return true;
}

static bool read_whole(const Reading *in, const char *key, const JsonNode *j, int64_t least,
                       int64_t most, int64_t *out)
{
    char expected[80];
    snprintf(expected, sizeof expected, "an integer from %lld to %lld", (long long)least,
             (long long)most);
    const bool good = j->kind == NODE_INT && j->integer >= least && j->integer <= most;
    *out            = good ? j->integer : least;
    return good || wrong(in, key, expected, j);
}

/* As many bits as the sampler has. */
static bool read_float(const Reading *in, const char *key, const JsonNode *j, float *out)
{
    const double x = j->kind == NODE_INT || j->kind == NODE_DOUBLE ? node_number(j) : NAN;
    if (!(x >= -(double)FLT_MAX && x <= (double)FLT_MAX))
        return wrong(in, key, "a number", j);
    *out = (float)x;
    return true;
}

/* Printable ASCII, as all that a receipt says of its run. */
static bool read_fact(const Reading *in, const char *key, const JsonNode *j, size_t most,
                      char **out)
{
    bool good = j->kind == NODE_STRING && j->n <= most;
    for (size_t i = 0; good && i < j->n; i++)
        good = j->text[i] >= 0x20 && j->text[i] < 0x7f;
    if (!good)
        return wrong(in, key, "a short text in ASCII", j);
    *out = strdup(j->text);
    return *out || no_memory(in->name, in->err);
}

static bool read_digest(const Reading *in, const char *key, const JsonNode *j, Digest *out)
{
    return (j->kind == NODE_STRING && digest_read(j->text, j->n, out->byte))
        || wrong(in, key, "64 lowercase hexadecimal digits", j);
}

static bool read_ids(const Reading *in, const char *key, const JsonNode *j, int32_t *out, size_t *n)
{
    JSON_NODES (i, j) {
        int64_t id;
        if (!read_whole(in, key, i, 0, INT32_MAX, &id))
            return false;
        out[(*n)++] = (int32_t)id;
    }
    return true;
}

/* ---- The fields ------------------------------------------------------------------------------ */

static bool read_version(const Reading *in, const JsonNode *j)
{
    int64_t version;
    return read_whole(in, "receipt", j, RECEIPT_VERSION, RECEIPT_VERSION, &version);
}

static bool read_run(const Reading *in, const JsonNode *j)
{
    const JsonNode *value[BINDING_FACTS];
    bool            good = read_members(in, "run", j, receipt_fact_keys, BINDING_FACTS, value);
    for (int i = 0; good && i < BINDING_FACTS; i++)
        good = read_fact(in, receipt_fact_keys[i], value[i], MOST_FACT, &in->r->fact[i]);
    return good;
}

static bool read_chat(const Reading *in, const JsonNode *j)
{
    static const char *const keys[2] = { "sha256", "date" };
    const JsonNode          *value[2];
    Digest                   digest;
    if (j->kind == NODE_NULL)
        return true;
    return read_members(in, "chat", j, keys, 2, value)
        && read_digest(in, "chat.sha256", value[0], &digest)
        && read_fact(in, "chat.sha256", value[0], 2 * SHA256_BYTES, &in->r->chat_sha256)
        && (value[1]->kind == NODE_NULL
            || read_fact(in, "chat.date", value[1], MOST_DATE, &in->r->chat_date));
}

static bool read_seed(const Reading *in, const JsonNode *j, uint64_t *out)
{
    bool good = j->kind == NODE_STRING && j->n > 0;
    *out      = 0;
    for (size_t i = 0; good && i < j->n; i++)
        good = j->text[i] >= '0' && j->text[i] <= '9'
            && !__builtin_mul_overflow(*out, 10u, out)
            && !__builtin_add_overflow(*out, (uint64_t)(j->text[i] - '0'), out);
    return good || wrong(in, "sampling.seed", "a text of decimal digits, below 2^64", j);
}

static bool read_bias(const Reading *in, const JsonNode *j)
{
    tblock_receipt *r = in->r;
    if (j->kind != NODE_ARRAY)
        return wrong(in, "sampling.bias", "an array", j);
    r->bias_ids = malloc((j->n + 1) * sizeof *r->bias_ids);
    r->bias     = malloc((j->n + 1) * sizeof *r->bias);
    if (!r->bias_ids || !r->bias)
        return no_memory(in->name, in->err);
    size_t n = 0;
    JSON_NODES (i, j) {
        int64_t id;
        if (i->kind != NODE_ARRAY || i->n != 2)
            return wrong(in, "sampling.bias", "pairs of an id and a number", i);
        if (!read_whole(in, "sampling.bias", i + 1, 0, INT32_MAX, &id)
            || !read_float(in, "sampling.bias", i + 1 + (i + 1)->skip, &r->bias[n]))
            return false;
        r->bias_ids[n++] = (int32_t)id;
    }
    r->sampling.bias_ids = r->bias_ids;
    r->sampling.bias     = r->bias;
    r->sampling.n_bias   = n;
    return true;
}

static bool read_sampling(const Reading *in, const JsonNode *j)
{
    enum { TEMP, TOP_K, TOP_P, MIN_P, REPEAT, PRESENCE, FREQUENCY, SEED, BIAS, N };
    static const char *const keys[N] = { "temp",           "top_k",            "top_p",
                                         "min_p",          "repeat_penalty",   "presence_penalty",
                                         "frequency_penalty", "seed",          "bias" };
    const JsonNode *v[N];
    SamplerOptions *s = &in->r->sampling;
    int64_t         top_k;
    if (!read_members(in, "sampling", j, keys, N, v)
        || !read_whole(in, "sampling.top_k", v[TOP_K], 0, INT32_MAX, &top_k)
        || !read_float(in, "sampling.temp", v[TEMP], &s->temp)
        || !read_float(in, "sampling.min_p", v[MIN_P], &s->min_p)
        || !read_float(in, "sampling.repeat_penalty", v[REPEAT], &s->repeat_penalty)
        || !read_float(in, "sampling.presence_penalty", v[PRESENCE], &s->presence_penalty)
        || !read_float(in, "sampling.frequency_penalty", v[FREQUENCY], &s->frequency_penalty)
        || !read_seed(in, v[SEED], &s->seed) || !read_bias(in, v[BIAS]))
        return false;
    if (v[TOP_P]->kind != NODE_INT && v[TOP_P]->kind != NODE_DOUBLE)
        return wrong(in, "sampling.top_p", "a number", v[TOP_P]);
    s->top_k = (int)top_k;
    s->top_p = node_number(v[TOP_P]);
    return true;
}

static bool read_constraint(const Reading *in, const JsonNode *j)
{
    static const char *const keys[3] = { "kind", "text", "stop_ids" };
    const JsonNode          *v[3];
    tblock_receipt          *r = in->r;
    if (j->kind == NODE_NULL)
        return true;
    if (!read_members(in, "constraint", j, keys, 3, v))
        return false;
    for (int i = 1; i < RECEIPT_KINDS; i++)
        if (node_is(v[0], receipt_kinds[i]))
            r->kind = i;
    if (!r->kind)
        return wrong(in, "constraint.kind", "regex, grammar, json_schema or json_schema_any_order",
                     v[0]);
    if (v[1]->kind != NODE_STRING)
        return wrong(in, "constraint.text", "a text", v[1]);
    if (v[2]->kind != NODE_ARRAY)
        return wrong(in, "constraint.stop_ids", "an array", v[2]);
    r->n_text   = v[1]->n;
    r->text     = malloc(r->n_text + 1);
    r->stop_ids = malloc((v[2]->n + 1) * sizeof *r->stop_ids);
    if (!r->text || !r->stop_ids)
        return no_memory(in->name, in->err);
    memcpy(r->text, v[1]->text, r->n_text);
    return read_ids(in, "constraint.stop_ids", v[2], r->stop_ids, &r->n_stop_ids);
}

static bool read_tokens(const Reading *in, const JsonNode *prompt, const JsonNode *drawn)
{
    tblock_receipt *r = in->r;
    if (prompt->kind != NODE_ARRAY || prompt->n == 0)
        return wrong(in, "prompt", "an array of at least one id", prompt);
    if (drawn->kind != NODE_ARRAY)
        return wrong(in, "drawn", "an array of ids", drawn);
    r->ids = malloc(((size_t)prompt->n + drawn->n) * sizeof *r->ids);
    if (!r->ids)
        return no_memory(in->name, in->err);
    r->n_given = r->sampling.n_given = prompt->n;
    return read_ids(in, "prompt", prompt, r->ids, &r->n_ids)
        && read_ids(in, "drawn", drawn, r->ids, &r->n_ids);
}

static bool read_links(const Reading *in, const JsonNode *every, const JsonNode *links)
{
    tblock_receipt *r = in->r;
    char            expected[64];
    int64_t         step;
    if (!read_whole(in, "every", every, 0, MOST_EVERY, &step))
        return false;
    r->every           = (size_t)step;
    const size_t count = r->every ? (r->n_ids - r->n_given) / r->every : 0;
    snprintf(expected, sizeof expected, "an array of %zu links", count);
    if (links->kind != NODE_ARRAY || links->n != count)
        return wrong(in, "links", expected, links);
    r->links = malloc((count + 1) * sizeof *r->links);
    if (!r->links)
        return no_memory(in->name, in->err);
    JSON_NODES (i, links)
        if (!read_digest(in, "links", i, &r->links[r->n_links++]))
            return false;
    return true;
}

static bool read_receipt(const Reading *in, const JsonNode *root)
{
    enum { VERSION, RUN, CHAT, PROMPT, SAMPLING, CONSTRAINT, BEGIN, DRAWN, EVERY, LINKS, END, N };
    static const char *const keys[N] = { "receipt",    "run",   "chat",  "prompt", "sampling",
                                         "constraint", "begin", "drawn", "every",  "links",
                                         "end" };
    const JsonNode *v[N];
    return read_members(in, "receipt", root, keys, N, v) && read_version(in, v[VERSION])
        && read_run(in, v[RUN]) && read_chat(in, v[CHAT]) && read_sampling(in, v[SAMPLING])
        && read_constraint(in, v[CONSTRAINT]) && read_tokens(in, v[PROMPT], v[DRAWN])
        && read_links(in, v[EVERY], v[LINKS])
        && read_digest(in, "begin", v[BEGIN], &in->r->begin)
        && read_digest(in, "end", v[END], &in->r->end);
}

FP_ENV_WORK
static tblock_receipt *receipt_read(const char *json, size_t n, const char *name, Error *err)
{
    JsonDoc d    = { 0 };
    Reading in   = { NULL, name, err };
    bool    good = n <= TBLOCK_RECEIPT_MOST
           || fail(err, INPUT, "%s: expected a receipt of at most %d bytes, found %zu", name,
                   TBLOCK_RECEIPT_MOST, n);
    good = good && json_doc_read(&d, json, n, JSON_FINITE, name, err);
    if (good) {
        in.r = calloc(1, sizeof *in.r);
        good = in.r ? read_receipt(&in, d.node) : no_memory(name, err);
    }
    json_doc_free(&d);
    if (good)
        return in.r;
    tblock_receipt_free(in.r);
    return NULL;
}

tblock_receipt *tblock_receipt_read(const char *json, size_t n_bytes, const char *name,
                                    tblock_error *err)
{
    HOST_ENV_RETURN(tblock_receipt *, receipt_read(json, n_bytes, name, err));
}
