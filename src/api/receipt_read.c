/* api/receipt_read.c: reads a receipt, which is untrusted input: every field is required, no other
 * is allowed, and none of them is a file name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/receipt.h"
#include "api/record.h"
#include "base/fp_env.h"

enum { MOST_FACT = 4096, MOST_DATE = 64, MOST_EVERY = 1 << 30 };

typedef struct Reading { tblock_receipt *r; Record at; } Reading;

/* Printable ASCII, like all that a receipt says of its run. */
static bool read_fact(const Reading *in, const char *key, const JsonNode *j, size_t most,
                      char **out)
{
    bool good = j->kind == NODE_STRING && j->n <= most;
    for (size_t i = 0; good && i < j->n; i++)
        good = j->text[i] >= 0x20 && j->text[i] < 0x7f;
    if (!good)
        return record_wrong(&in->at, key, "a short text in ASCII", j);
    *out = strdup(j->text);
    return *out || no_memory(in->at.name, in->at.err);
}

static bool read_digest(const Reading *in, const char *key, const JsonNode *j, Digest *out)
{
    return (j->kind == NODE_STRING && digest_read(j->text, j->n, out->byte))
        || record_wrong(&in->at, key, "64 lowercase hexadecimal digits", j);
}

/* ---- The fields ------------------------------------------------------------------------------ */

static bool read_version(const Reading *in, const JsonNode *j)
{
    int64_t version;
    if (!record_whole(&in->at, "receipt", j, 1, RECEIPT_VERSION, &version))
        return false;
    in->r->version = (int)version;
    return true;
}

static bool read_run(const Reading *in, const JsonNode *j)
{
    const JsonNode *value[RECEIPT_FACTS];
    const int       needed = in->r->version == 1 ? TOKENIZER_FACT : ROPE_LENGTH_FACT;
    bool            good   = record_members(&in->at, "run", j, receipt_fact_keys, RECEIPT_FACTS,
                                            (size_t)needed, value);
    for (int i = 0; good && i < RECEIPT_FACTS; i++)
        good = !value[i]
            || read_fact(in, receipt_fact_keys[i], value[i], MOST_FACT, &in->r->fact[i]);
    return good;
}

static bool read_chat(const Reading *in, const JsonNode *j)
{
    static const char *const keys[2] = { "sha256", "date" };
    const JsonNode          *value[2];
    Digest                   digest;
    if (j->kind == NODE_NULL)
        return true;
    return record_members(&in->at, "chat", j, keys, 2, 2, value)
        && read_digest(in, "chat.sha256", value[0], &digest)
        && read_fact(in, "chat.sha256", value[0], 2 * SHA256_BYTES, &in->r->chat_sha256)
        && (value[1]->kind == NODE_NULL
            || read_fact(in, "chat.date", value[1], MOST_DATE, &in->r->chat_date));
}

static bool read_sampling(const Reading *in, const JsonNode *j)
{
    const JsonNode *v[RECORD_OPTIONS];
    tblock_receipt *r = in->r;
    return record_members(&in->at, "sampling", j, record_options, RECORD_OPTIONS, RECORD_FIRST, v)
        && record_sampling(&in->at, NULL, v, &r->sampling, &r->bias_ids, &r->bias);
}

static bool read_constraint(const Reading *in, const JsonNode *j)
{
    static const char *const keys[4] = { "kind", "text", "stop_ids", "rules" };
    const JsonNode          *v[4];
    int64_t                  rules = 1; /* those of before they had a number */
    tblock_receipt          *r     = in->r;
    if (j->kind == NODE_NULL)
        return true;
    if (!record_members(&in->at, "constraint", j, keys, 4, 3, v)
        || (v[3] && !record_whole(&in->at, "constraint.rules", v[3], 2, SCHEMA_RULES, &rules)))
        return false;
    r->rules = (int)rules;
    for (int i = 1; i < RECEIPT_KINDS; i++)
        if (node_is(v[0], receipt_kinds[i]))
            r->kind = i;
    if (!r->kind && !node_is(v[0], receipt_kinds[0]))
        return record_wrong(&in->at, "constraint.kind",
                            "regex, grammar, json_schema, json_schema_any_order or calls", v[0]);
    if (v[1]->kind != NODE_STRING)
        return record_wrong(&in->at, "constraint.text", "a text", v[1]);
    if (v[2]->kind != NODE_ARRAY)
        return record_wrong(&in->at, "constraint.stop_ids", "an array", v[2]);
    r->n_text   = v[1]->n;
    r->text     = malloc(r->n_text + 1);
    r->stop_ids = malloc((v[2]->n + 1) * sizeof *r->stop_ids);
    if (!r->text || !r->stop_ids)
        return no_memory(in->at.name, in->at.err);
    memcpy(r->text, v[1]->text, r->n_text);
    r->sampling.end_ids = r->stop_ids;
    return record_ids(&in->at, "constraint.stop_ids", v[2], r->stop_ids, &r->sampling.n_end_ids);
}

static bool read_tokens(const Reading *in, const JsonNode *prompt, const JsonNode *sampled)
{
    tblock_receipt *r = in->r;
    if (prompt->kind != NODE_ARRAY || prompt->n == 0)
        return record_wrong(&in->at, "prompt", "an array of at least one id", prompt);
    if (sampled->kind != NODE_ARRAY)
        return record_wrong(&in->at, "drawn", "an array of ids", sampled);
    r->ids = malloc(((size_t)prompt->n + sampled->n) * sizeof *r->ids);
    if (!r->ids)
        return no_memory(in->at.name, in->at.err);
    r->n_given = r->sampling.n_given = prompt->n;
    return record_ids(&in->at, "prompt", prompt, r->ids, &r->n_ids)
        && record_ids(&in->at, "drawn", sampled, r->ids, &r->n_ids);
}

static bool read_digests(const Reading *in, const char *key, const JsonNode *j, size_t n,
                         const char *what, Digest **out, size_t *n_out)
{
    char expected[64];
    snprintf(expected, sizeof expected, "an array of %zu %s", n, what);
    if (j->kind != NODE_ARRAY || j->n != n)
        return record_wrong(&in->at, key, expected, j);
    *out = malloc((n + 1) * sizeof **out);
    if (!*out)
        return no_memory(in->at.name, in->at.err);
    JSON_NODES (i, j)
        if (!read_digest(in, key, i, &(*out)[(*n_out)++]))
            return false;
    return true;
}

static bool read_links(const Reading *in, const JsonNode *every, const JsonNode *links)
{
    tblock_receipt *r = in->r;
    int64_t         step;
    if (!record_whole(&in->at, "every", every, 0, MOST_EVERY, &step))
        return false;
    r->every = (size_t)step;
    return read_digests(in, "links", links, r->every ? (r->n_ids - r->n_given) / r->every : 0,
                        "links", &r->links, &r->n_links);
}

/* Version 1 has the last link instead of all these. */
static bool read_tree(const Reading *in, const JsonNode *text, const JsonNode *blocks,
                      const JsonNode *root, const JsonNode *end)
{
    tblock_receipt *r       = in->r;
    const size_t    n_sampled = r->n_ids - r->n_given;
    if (r->version == 1) {
        r->blocks   = malloc(sizeof *r->blocks);
        r->n_blocks = n_sampled > 0;
        if (!r->blocks)
            return no_memory(in->at.name, in->at.err);
        if (!read_digest(in, "end", end, &r->root))
            return false;
        *r->blocks = r->root;
        return true;
    }
    r->has_text = text->kind != NODE_NULL;
    return (!r->has_text || read_digest(in, "text_sha256", text, &r->text_hash))
        && read_digests(in, "blocks", blocks, (n_sampled + RECEIPT_BLOCK - 1) / RECEIPT_BLOCK,
                        "hashes", &r->blocks, &r->n_blocks)
        && read_digest(in, "root", root, &r->root);
}

static bool read_receipt(const Reading *in, const JsonNode *root)
{
    enum { VERSION, RUN, CHAT, PROMPT, SAMPLING, CONSTRAINT, BEGIN, SAMPLED, EVERY, LINKS, TEXT,
           BLOCKS, ROOT, N, END = TEXT, N_1 = END + 1 };
    const char *keys[N] = { "receipt", "run",   "chat",  "prompt", "sampling",    "constraint",
                            "begin",   "drawn", "every", "links",  "text_sha256", "blocks",
                            "root" };
    const JsonNode *v[N] = { NULL }, *version = node_get(root, "receipt");
    if (version && !read_version(in, version))
        return false;
    const size_t n = in->r->version == 1 ? N_1 : N;
    keys[TEXT]     = n == N_1 ? "end" : keys[TEXT];
    return record_members(&in->at, "receipt", root, keys, n, n, v)
        && read_run(in, v[RUN]) && read_chat(in, v[CHAT])
        && read_sampling(in, v[SAMPLING]) && read_constraint(in, v[CONSTRAINT])
        && read_tokens(in, v[PROMPT], v[SAMPLED]) && read_links(in, v[EVERY], v[LINKS])
        && read_digest(in, "begin", v[BEGIN], &in->r->begin)
        && read_tree(in, v[TEXT], v[BLOCKS], v[ROOT], v[END]);
}

FP_ENV_WORK
static tblock_receipt *receipt_read(const char *json, size_t n, const char *name, Error *err)
{
    JsonDoc d    = { 0 };
    Reading in   = { NULL, { name, err } };
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
    NEED(NULL, err, json || !n_bytes, name);
    HOST_ENV_RETURN(tblock_receipt *, receipt_read(json, n_bytes, name, err));
}
