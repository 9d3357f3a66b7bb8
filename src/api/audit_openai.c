/* api/audit_openai.c: log lines in OpenAI's form: the body of a response, of completions or chat,
 * or those of a request and its response. Ids are taken from the response if it has them
 * (token_ids, prompt_token_ids); otherwise its logprobs name tokens by their bytes. */
#include "api/audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Ids of tokens that are named by their bytes --------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    const AuditPiece *p = a, *q = b;
    const int order = memcmp(p->bytes, q->bytes, p->n < q->n ? p->n : q->n);
    return order ? order : (p->n > q->n) - (p->n < q->n);
}

/* All tokens of the vocabulary that have bytes. */
static bool collect(tblock_audit_log *log, TextStream *s, int size, TextOut *all, Error *err)
{
    for (int pass = 0; pass < 2; pass++) /* the bytes move while they are collected */
        for (int32_t id = 0, at = 0; id < size; id++) {
            size_t      n;
            const char *bytes = text_stream_alone(s, id, &n);
            if (pass == 0 && !text_out_add(all, bytes, n, err))
                return false;
            if (pass == 1 && n)
                log->piece[log->n_pieces++] = (AuditPiece){ all->text + at, n, id };
            at += (int32_t)n;
        }
    return true;
}

static bool make_pieces(tblock_audit_log *log, const Record *in)
{
    const Tokenizer *t = log->model->tokenizer;
    if (log->piece)
        return true;
    if (!t)
        return fail(in->err, INPUT, "%s: expected token_ids, since the model has no tokenizer",
                    in->name);
    TextStream *s   = text_stream_new(t, true);
    TextOut     all = { 0 };
    log->piece      = calloc((size_t)tokenizer_size(t) + 1, sizeof *log->piece);
    const bool good = s && log->piece ? collect(log, s, tokenizer_size(t), &all, in->err)
                                      : no_memory(in->name, in->err);
    text_stream_free(s);
    log->bytes = all.text;
    if (good)
        qsort(log->piece, log->n_pieces, sizeof *log->piece, by_bytes);
    return good;
}

static bool id_of_bytes(tblock_audit_log *log, const Record *in, const char *bytes, size_t n,
                        int32_t *id)
{
    const AuditPiece key = { bytes, n, 0 };
    char             shown[80];
    printable_text(shown, sizeof shown, bytes, n);
    if (!make_pieces(log, in))
        return false;
    const AuditPiece *p =
        bsearch(&key, log->piece, log->n_pieces, sizeof *log->piece, by_bytes);
    if (!p)
        return fail(in->err, INPUT, "%s: logprobs: expected a token of this model, found '%s'",
                    in->name, shown);
    if ((p > log->piece && by_bytes(p - 1, p) == 0)
        || (p + 1 < log->piece + log->n_pieces && by_bytes(p, p + 1) == 0))
        return fail(in->err, INPUT, "%s: logprobs: '%s' may be one of several tokens: expected "
                                    "token_ids", in->name, shown);
    *id = p->id;
    return true;
}

/* "token_id:7", as vLLM writes with return_tokens_as_token_ids. */
static bool id_of_spelling(const JsonNode *token, int32_t *id)
{
    int  end = 0;
    long long x = -1;
    if (strncmp(token->text, "token_id:", 9) != 0
        || sscanf(token->text, "token_id:%9lld%n", &x, &end) != 1 || (size_t)end != token->n)
        return false;
    *id = (int32_t)x;
    return x >= 0;
}

static bool id_of_token(tblock_audit_log *log, const Record *in, const JsonNode *token,
                        const JsonNode *bytes, int32_t *id)
{
    char    text[1024];
    size_t  n = 0;
    int64_t byte;
    if (!token || token->kind != NODE_STRING)
        return record_wrong(in, "logprobs: token", "a text", token);
    if (id_of_spelling(token, id))
        return true;
    if (!bytes || bytes->kind != NODE_ARRAY)
        return id_of_bytes(log, in, token->text, token->n, id);
    if (bytes->n > sizeof text)
        return record_wrong(in, "logprobs: bytes", "at most 1024", bytes);
    JSON_NODES (i, bytes) {
        if (!record_whole(in, "logprobs: bytes", i, 0, 255, &byte))
            return false;
        text[n++] = (char)byte;
    }
    return id_of_bytes(log, in, text, n, id);
}

/* Of chat: {"content": [{"token", "bytes"}]}; of completions: {"tokens": [...]}. */
static bool ids_of_logprobs(tblock_audit_log *log, const Record *in, const JsonNode *logprobs,
                            int32_t **out, size_t *n)
{
    const JsonNode *content = node_get(logprobs, "content"), *tokens = node_get(logprobs, "tokens");
    const JsonNode *list    = content ? content : tokens;
    *n                      = 0;
    if (!list || list->kind != NODE_ARRAY)
        return record_wrong(in, "choices", "token_ids, or logprobs with tokens", list);
    if (!(*out = malloc(((size_t)list->n + 1) * sizeof **out)))
        return no_memory(in->name, in->err);
    JSON_NODES (i, list) {
        const JsonNode *token = content ? node_get(i, "token") : i;
        if (!id_of_token(log, in, token, content ? node_get(i, "bytes") : NULL, &(*out)[(*n)++]))
            return false;
    }
    return true;
}

/* ---- The request ----------------------------------------------------------------------------- */

/* Parameters that change no probability; any other that is not null is rejected by name. */
static const char *const harmless[] = {
    "model", "messages", "prompt", "max_tokens", "max_completion_tokens", "n", "stop",
    "stop_token_ids", "ignore_eos", "logprobs", "top_logprobs", "user", "return_token_ids",
    "return_tokens_as_token_ids", "metadata", "store", "service_tier", "seed", "add_special_tokens",
};

#define ROW(field, type, least, most, usual, option, help, low, off, parameter, ...) parameter,
static const char *const api_names[RECORD_OPTIONS] = { "seed", "logit_bias", SAMPLING_ROWS(ROW) };
#undef ROW

static bool is_one_of(const JsonNode *m, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(names[i]) == m->key_n && memcmp(names[i], m->key, m->key_n) == 0)
            return true;
    return false;
}

static bool refuse_others(const Record *in, const JsonNode *request)
{
    if (request->kind != NODE_OBJECT)
        return record_wrong(in, "request", "an object", request);
    JSON_NODES (m, request)
        if (m->kind != NODE_NULL && m->kind != NODE_FALSE
            && !is_one_of(m, harmless, sizeof harmless / sizeof *harmless)
            && !is_one_of(m, api_names, RECORD_OPTIONS))
            return fail(in->err, INPUT, "%s: request: \"%.60s\": not known to audit, and it may "
                                        "change what is sampled", in->name, m->key);
    return true;
}

typedef struct ClaimedOptions {
    SamplerOptions o;
    bool           seeded;
    int32_t       *bias_ids;
    float         *bias;
} ClaimedOptions;

/* {"17": -2}. */
static bool read_bias_map(const Record *in, const JsonNode *j, ClaimedOptions *c)
{
    if (j->kind != NODE_OBJECT)
        return record_wrong(in, "request: logit_bias", "an object", j);
    c->bias_ids = malloc(((size_t)j->n + 1) * sizeof *c->bias_ids);
    c->bias     = malloc(((size_t)j->n + 1) * sizeof *c->bias);
    c->o.n_bias = 0;
    if (!c->bias_ids || !c->bias)
        return no_memory(in->name, in->err);
    JSON_NODES (m, j) {
        int end = 0;
        if (sscanf(m->key, "%9d%n", &c->bias_ids[c->o.n_bias], &end) != 1
            || (size_t)end != m->key_n || c->bias_ids[c->o.n_bias] < 0)
            return fail(in->err, INPUT, "%s: request: logit_bias: expected ids of tokens, found "
                                        "\"%.60s\"", in->name, m->key);
        if (!record_float(in, "request: logit_bias", m, &c->bias[c->o.n_bias++]))
            return false;
    }
    c->o.bias_ids = c->bias_ids;
    c->o.bias     = c->bias;
    return true;
}

/* Starts with the log's claims; what a request leaves out has the API's default: temperature 1, all
 * else off. */
static bool read_claim(const tblock_audit_log *log, const Record *in, const JsonNode *request,
                       ClaimedOptions *c)
{
    const JsonNode *v[RECORD_OPTIONS];
    int64_t         seed = 0;
    *c = (ClaimedOptions){ .o = log->claimed, .seeded = log->flags & TBLOCK_AUDIT_SHARED_SEED };
    if (request && !refuse_others(in, request))
        return false;
    if (!request || !(log->flags & TBLOCK_AUDIT_CLAIMS_FROM_LOG))
        return true;
    c->o = (SamplerOptions){ .temp = 1, .seed = log->claimed.seed };
    for (int i = 0; i < RECORD_OPTIONS; i++) {
        v[i] = node_get(request, api_names[i]);
        v[i] = v[i] && v[i]->kind == NODE_NULL ? NULL : v[i];
    }
    const JsonNode *bias = v[RECORD_BIAS], *given = v[RECORD_SEED];
    v[RECORD_BIAS] = v[RECORD_SEED] = NULL;
    const JsonNode **top_k = &v[RECORD_NUMBERS + SAMPLING_top_k];
    if (*top_k && (*top_k)->kind == NODE_INT && (*top_k)->integer == -1)
        *top_k = NULL; /* vLLM's "all" */
    if (!record_sampling(in, api_names, v, &c->o, NULL, NULL)
        || (given && !record_whole(in, "request: seed", given, 0, INT64_MAX, &seed)))
        return false;
    c->o.seed = given ? (uint64_t)seed : c->o.seed;
    return !bias || read_bias_map(in, bias, c);
}

/* ---- The prompt ------------------------------------------------------------------------------ */

static bool render_messages(tblock_audit_log *log, const Record *in, const JsonDoc *d,
                            const JsonNode *messages, int32_t **ids, size_t *n)
{
    TextOut              json = { 0 };
    tblock_chat_message *m    = NULL;
    size_t               n_messages;
    if (!log->chat)
        log->chat = tblock_chat_new(log->model, &(tblock_chat_options){ 0 }, in->err);
    const bool good = log->chat
        && (json_out_node(&json, d, messages) || no_memory(in->name, in->err))
        && tblock_chat_from_json(json.text, json.n, in->name, &m, &n_messages, in->err)
        && tblock_chat_render(log->chat, m, n_messages, true, ids, n, in->err);
    text_out_free(&json);
    tblock_free(m);
    return good;
}

static bool read_prompt(tblock_audit_log *log, const Record *in, const JsonDoc *d,
                        const JsonNode *request, const JsonNode *given, int32_t **ids, size_t *n)
{
    const JsonNode *prompt = node_get(request, "prompt"), *messages = node_get(request, "messages");
    const JsonNode *add    = node_get(request, "add_special_tokens");
    if (given)
        return audit_ids(in, "prompt_token_ids", given, ids, n);
    if (prompt && prompt->kind == NODE_STRING)
        return tblock_tokenize(log->model, prompt->text, prompt->n,
                               add && add->kind == NODE_FALSE ? 0 : TBLOCK_ADD_SPECIAL, ids, n,
                               in->err);
    if (prompt)
        return audit_ids(in, "request: prompt", prompt, ids, n);
    if (messages)
        return render_messages(log, in, d, messages, ids, n);
    return fail(in->err, INPUT, "%s: expected prompt_token_ids in the answer, or a request with a "
                                "prompt or messages, found none", in->name);
}

/* ---- The response ---------------------------------------------------------------------------- */

/* NULL also if the value is null. */
static const JsonNode *get(const JsonNode *object, const char *key)
{
    const JsonNode *j = node_get(object, key);
    return j && j->kind == NODE_NULL ? NULL : j;
}

static bool read_choice(tblock_audit_log *log, const Record *in, const JsonDoc *d,
                        const JsonNode *request, const JsonNode *answer, const JsonNode *choice,
                        const ClaimedOptions *c)
{
    int32_t        *prompt = NULL, *sampled = NULL;
    size_t          n_prompt = 0, n_sampled = 0;
    const JsonNode *ids   = get(choice, "token_ids");
    const JsonNode *given = get(choice, "prompt_token_ids");
    given                 = given ? given : get(answer, "prompt_token_ids");
    const bool good = read_prompt(log, in, d, request, given, &prompt, &n_prompt)
        && (ids ? audit_ids(in, "token_ids", ids, &sampled, &n_sampled)
                : ids_of_logprobs(log, in, get(choice, "logprobs"), &sampled, &n_sampled))
        && audit_log_text(log, in, prompt, n_prompt, sampled, n_sampled, &c->o, c->seeded);
    free(prompt);
    free(sampled);
    return good;
}

/* {"choices": ...}, or {"request": ..., "response": {"choices": ...}}. */
bool audit_openai_line(tblock_audit_log *log, const Record *in, const JsonDoc *d)
{
    static const char *const keys[2] = { "request", "response" };
    const JsonNode          *v[2]    = { NULL, d->node };
    ClaimedOptions           c       = { 0 };
    if (node_get(d->node, "response") && !record_members(in, "line", d->node, keys, 2, 2, v))
        return false;
    const JsonNode *choices = node_get(v[1], "choices");
    if (!choices || choices->kind != NODE_ARRAY || choices->n == 0)
        return record_wrong(in, "choices", "an array of at least one", choices);
    bool good = read_claim(log, in, v[0], &c);
    if (good && c.seeded && choices->n > 1)
        good = fail(in->err, INPUT, "%s: choices: expected one with a shared seed, found %u",
                    in->name, (unsigned)choices->n);
    JSON_NODES (choice, choices)
        good = good && read_choice(log, in, d, v[0], v[1], choice, &c);
    free(c.bias_ids);
    free(c.bias);
    return good;
}
