/* api/receipt.c: makes a receipt, token by token, and writes it (docs/receipts.md). */
#include "api/receipt.h"
#include "api/record.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/json.h"
#include "base/memory.h"

const char *const receipt_fact_keys[RECEIPT_FACTS] = {
    "numerics", "model_sha256", "config_sha256", "math",        "weight_types",
    "activations", "kv_type",   "loaded_as",     "model_layout", "tokenizer_sha256", "rope_length"
};

const char *const receipt_kinds[RECEIPT_KINDS] = {
    [0]                            = "none", /* of the mask of min_tokens alone */
    [TBLOCK_REGEX]                 = "regex",
    [TBLOCK_GRAMMAR]               = "grammar",
    [TBLOCK_JSON_SCHEMA]           = "json_schema",
    [TBLOCK_JSON_SCHEMA_ANY_ORDER] = "json_schema_any_order",
    [CONSTRAINT_CALLS]             = "calls",
};

enum { CONFIG = 2 }; /* the page of JSON whose hash a receipt has */

bool receipt_facts(const tblock_context *c, const char *loaded_as, RunBinding *b, char hex[65],
                   Error *err)
{
    if (!run_binding(b, c, loaded_as, err))
        return false;
    const char *config = b->fact[CONFIG].value;
    if (!sha256_hex(config, strlen(config), hex))
        return no_memory(NULL, err);
    b->fact[CONFIG] = (RunFact){ receipt_fact_keys[CONFIG], hex };
    for (int i = 0; i < RECEIPT_FACTS; i++)
        assert(strcmp(b->fact[i].key, receipt_fact_keys[i]) == 0);
    return true;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void put_ids(TextOut *o, const char *key, const int32_t *ids, size_t n)
{
    json_out(o, "%s:", key);
    json_out_ints(o, ids, n);
}

static void put_digest(TextOut *o, const char *key, const Digest *d)
{
    char hex[65];
    digest_hex(d->byte, hex);
    json_out(o, key ? "%s: %s" : "%-s%s", key ? key : "", hex);
}

static void put_sampling(TextOut *o, const tblock_receipt *r)
{
    const SamplerOptions *s = &r->sampling;
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, s->seed);
    json_out(o, "sampling: {");
    for (int i = RECORD_NUMBERS; i < RECORD_OPTIONS; i++) {
        const double x = sampling_get(s, &tblock_sampling_rows()[i - RECORD_NUMBERS]);
        if (i < RECORD_FIRST || x != 0)
            json_out(o, "%s: %g", record_options[i], x);
    }
    json_out(o, "seed: %s, bias: [", seed);
    for (size_t i = 0; i < s->n_bias; i++)
        json_out(o, "[%" PRId32 ", %g]", s->bias_ids[i], (double)s->bias[i]);
    json_out(o, "]}");
}

static void put_run(TextOut *o, const tblock_receipt *r)
{
    json_out(o, "run: {");
    for (int i = 0; i < RECEIPT_FACTS; i++)
        if (r->fact[i])
            json_out(o, "%s: %s", receipt_fact_keys[i], r->fact[i]);
    json_out(o, "}");
}

static void put_chat(TextOut *o, const tblock_receipt *r)
{
    if (r->chat_sha256)
        json_out(o, "chat: {sha256: %s, date: %s}", r->chat_sha256, r->chat_date);
    else
        json_out(o, "chat: null");
}

static void put_prompt(TextOut *o, const tblock_receipt *r)
{
    put_ids(o, "prompt", r->ids, r->n_given);
}

static void put_constraint(TextOut *o, const tblock_receipt *r)
{
    if (!r->kind && !r->sampling.min_tokens) {
        json_out(o, "constraint: null");
        return;
    }
    json_out(o, "constraint: {kind: %s", receipt_kinds[r->kind]);
    json_out_member(o, "text", r->text, r->n_text);
    put_ids(o, "stop_ids", r->stop_ids, r->sampling.n_end_ids);
    if (r->rules > 1)
        json_out(o, "rules: %d", r->rules);
    json_out(o, "}");
}

/* The fields before `begin`, which is their hash. */
typedef struct ReceiptField {
    const char *key;
    void (*put)(TextOut *, const tblock_receipt *); /* the key and its value */
} ReceiptField;
static const ReceiptField fields[] = {
    { "run", put_run }, { "chat", put_chat }, { "prompt", put_prompt },
    { "sampling", put_sampling }, { "constraint", put_constraint },
};
enum { FIELDS = sizeof fields / sizeof *fields };

static void put_head(TextOut *o, const tblock_receipt *r)
{
    json_out(o, "{receipt: %d", r->version);
    for (int i = 0; i < FIELDS; i++)
        fields[i].put(o, r);
}

const char *receipt_heads_part(const tblock_receipt *a, const tblock_receipt *b, Error *err)
{
    const char *part = a->version == b->version ? "" : "receipt";
    for (int i = 0; i < FIELDS && part && !*part; i++) {
        TextOut one = { .compact = true }, other = { .compact = true };
        fields[i].put(&one, a), fields[i].put(&other, b);
        if (one.failed || other.failed)
            no_memory("receipt", err), part = NULL;
        else if (one.n != other.n || memcmp(one.text, other.text, one.n) != 0)
            part = fields[i].key;
        text_out_free(&one), text_out_free(&other);
    }
    return part;
}

static void put_digests(TextOut *o, const char *key, const Digest *d, size_t n)
{
    json_out(o, "%s: [", key);
    for (size_t i = 0; i < n; i++)
        put_digest(o, NULL, &d[i]);
    json_out(o, "]");
}

FP_ENV_WORK
static bool write(const tblock_receipt *r, char **json, Error *err)
{
    TextOut o    = { .compact = true };
    Digest  root = r->root, text = r->text_hash;
    if (r->no_memory)
        return no_memory("receipt", err);
    if (r->gap)
        return fail(err, USAGE, "receipt: a sampled token was not recorded");
    if (r->sha && (!receipt_root(r, &root, err)
                   || (r->has_text && !receipt_text(r, r->tokenizer, &text, err))))
        return false;
    put_head(&o, r);
    put_digest(&o, "begin", &r->begin);
    put_ids(&o, "drawn", r->ids + r->n_given, r->n_ids - r->n_given);
    if (r->version > 1 && r->has_text)
        put_digest(&o, "text_sha256", &text);
    else if (r->version > 1)
        json_out(&o, "text_sha256: null");
    json_out(&o, "every: %zu", r->every);
    put_digests(&o, "links", r->links, r->n_links);
    if (r->version > 1)
        put_digests(&o, "blocks", r->blocks, r->n_blocks);
    put_digest(&o, r->version > 1 ? "root" : "end", &root);
    json_out(&o, "}");
    *json = text_out_take(&o, err);
    return *json != NULL;
}

bool tblock_receipt_json(const tblock_receipt *r, char **json, tblock_error *err)
{
    NEED(false, err, json);
    *json = NULL;
    NEED(false, err, r);
    HOST_ENV_RETURN(bool, write(r, json, err));
}

bool tblock_receipt_recorded(const tblock_receipt *r, tblock_recorded *out, tblock_error *err)
{
    NEED(false, err, r, out);
    run_recorded(out, r->n_ids, r->fact[ROPE_LENGTH_FACT]);
    return true;
}

/* ---- The chain ------------------------------------------------------------------------------- */

bool receipt_begin(const tblock_receipt *r, Digest *out, Error *err)
{
    TextOut head = { .compact = true };
    Sha256 *sha  = sha256_new();
    put_head(&head, r);
    const bool good = sha && !head.failed;
    if (good) {
        sha256_add(sha, head.text, head.n);
        sha256_take(sha, out->byte);
    }
    sha256_free(sha);
    text_out_free(&head);
    return good || no_memory("receipt", err);
}

bool receipt_text(const tblock_receipt *r, const Tokenizer *t, Digest *out, Error *err)
{
    Sha256     *sha    = sha256_new();
    TextStream *stream = text_stream_new(t, true);
    const bool  good   = (sha && stream) || no_memory("receipt", err);
    for (size_t i = r->n_given, n; good && i < r->n_ids; i++) {
        const char *bytes = text_stream_alone(stream, r->ids[i], &n);
        sha256_add(sha, bytes, n);
    }
    if (good)
        sha256_take(sha, out->byte);
    text_stream_free(stream);
    sha256_free(sha);
    return good;
}

void tblock_receipt_token(void *receipt, size_t index, int32_t token, const float *logits)
{
    NEED(, NULL, receipt, logits);
    tblock_receipt *r = receipt;
    if (index < r->n_ids)
        return;
    const size_t number = r->n_ids - r->n_given + 1;
    const bool   keeps  = r->every && number % r->every == 0;
    r->gap |= index > r->n_ids;
    r->no_memory |= !ARRAY_ROOM(r->ids, r->cap_ids, r->n_ids + 1)
        || !ARRAY_ROOM(r->blocks, r->cap_blocks, r->n_blocks + 1)
        || (keeps && !ARRAY_ROOM(r->links, r->cap_links, r->n_links + 1));
    if (r->gap || r->no_memory)
        return;
    r->ids[r->n_ids++] = token;
    r->n_blocks        = (number - 1) / RECEIPT_BLOCK + 1;
    receipt_link(r->sha, r, index, logits, r->vocab_size, &r->link);
    receipt_leaf(r->sha, r, &r->link, &r->blocks[r->n_blocks - 1]);
    if (keeps)
        r->links[r->n_links++] = r->link;
}

/* ---- Start and end --------------------------------------------------------------------------- */

static bool copy_ids(int32_t **to, const int32_t *ids, size_t n)
{
    *to = malloc((n + 1) * sizeof **to);
    if (*to && n)
        memcpy(*to, ids, n * sizeof *ids);
    return *to != NULL;
}

static bool copy_sampling(tblock_receipt *r, const SamplerOptions *s)
{
    r->sampling           = *s;
    r->sampling.n_given   = r->n_given;
    r->sampling.n_end_ids = 0;
    r->bias             = malloc((s->n_bias + 1) * sizeof *r->bias);
    if (!r->bias || !copy_ids(&r->bias_ids, s->bias_ids, s->n_bias))
        return false;
    if (s->n_bias)
        memcpy(r->bias, s->bias, s->n_bias * sizeof *r->bias);
    r->sampling.bias_ids = r->bias_ids;
    r->sampling.bias     = r->bias;
    return true;
}

static bool copy_constraint(tblock_receipt *r, const tblock_generation_options *o,
                            const tblock_model *m, Error *err)
{
    if (!o->constraint && !o->sampling.min_tokens)
        return true;
    const ConstraintText t =
        o->constraint ? constraint_text(o->constraint) : (ConstraintText){ 0, "", 0 };
    tblock_model_info info;
    if (o->constraint && !t.kind)
        return fail(err, USAGE, "receipt: expected a constraint that has a text, found one of "
                                "more tools than 1,024, or of a template that is not UTF-8");
    if (!utf8_valid(t.text, t.n))
        return fail(err, INPUT, "receipt: expected a constraint in UTF-8");
    tblock_model_describe(m, &info);
    r->kind               = t.kind;
    r->rules              = t.kind >= FIRST_BY_RULES ? SCHEMA_RULES : 1;
    r->n_text             = t.n;
    r->text               = malloc(t.n + 1);
    r->sampling.n_end_ids = o->stop_ids ? o->n_stop_ids : (size_t)info.n_eos;
    if (!r->text || !copy_ids(&r->stop_ids, o->stop_ids ? o->stop_ids : info.eos,
                              r->sampling.n_end_ids))
        return no_memory("receipt", err);
    r->sampling.end_ids = r->stop_ids;
    memcpy(r->text, t.text, t.n);
    return true;
}

static bool copy_text(char **to, const char *text)
{
    *to = text ? strdup(text) : NULL;
    return *to || !text;
}

static bool copy_chat(tblock_receipt *r, const tblock_chat *chat)
{
    const ChatParts p = chat ? chat_parts(chat) : (ChatParts){ 0 };
    return !chat || (copy_text(&r->chat_sha256, p.sha256) && copy_text(&r->chat_date, p.date));
}

static bool copy_facts(tblock_receipt *r, const tblock_context *c,
                       const tblock_receipt_options *how, Error *err)
{
    RunBinding  binding;
    char        hex[65];
    char       *given = how->lora ? lora_loaded_as(c->model, how->lora, how->n_lora, err) : NULL;
    const char *loaded_as = how->lora ? given : context_loaded_as(c, -1);
    bool        good      = loaded_as && receipt_facts(c, loaded_as, &binding, hex, err);
    for (int i = 0; good && i < RECEIPT_FACTS; i++)
        good = copy_text(&r->fact[i], binding.fact[i].value) || no_memory("receipt", err);
    free(given);
    return good;
}

static bool fill(tblock_receipt *r, const tblock_context *c, const tblock_generation_options *o,
                 const tblock_receipt_options *how, Error *err)
{
    if (o->n_drawn)
        return fail(err, USAGE, "receipt: expected no token that was sampled before, found %zu",
                    o->n_drawn);
    if ((!how->trust_hash && !model_check_hash(c->model, err))
        || !copy_facts(r, c, how, err))
        return false;
    r->version    = RECEIPT_VERSION;
    r->every      = how->every;
    r->tokenizer  = c->model->tokenizer;
    r->has_text   = r->tokenizer != NULL;
    r->vocab_size = c->model->weights.cfg.vocab_size;
    r->n_given = r->n_ids = r->cap_ids = o->n_ids;
    r->sha                             = sha256_new();
    bool good = r->sha && copy_chat(r, how->chat) && copy_ids(&r->ids, o->ids, o->n_ids)
        && copy_sampling(r, &o->sampling);
    if (!good)
        return no_memory("receipt", err);
    return copy_constraint(r, o, c->model, err) && receipt_begin(r, &r->begin, err);
}

FP_ENV_WORK
static tblock_receipt *receipt_new(const tblock_context *c, const tblock_generation_options *opt,
                                   const tblock_receipt_options *how, Error *err)
{
    static const tblock_receipt_options defaults = { 0 };
    tblock_receipt                     *r        = calloc(1, sizeof *r);
    if (!r)
        no_memory("receipt", err);
    else if (fill(r, c, opt, how ? how : &defaults, err))
        return r;
    tblock_receipt_free(r);
    return NULL;
}

tblock_receipt *tblock_receipt_new(const tblock_context *c, const tblock_generation_options *opt,
                                   const tblock_receipt_options *how, tblock_error *err)
{
    NEED(NULL, err, c, opt);
    HOST_ENV_RETURN(tblock_receipt *, receipt_new(c, opt, how, err));
}

void tblock_receipt_free(tblock_receipt *r)
{
    if (!r)
        return;
    for (int i = 0; i < RECEIPT_FACTS; i++)
        free(r->fact[i]);
    free(r->chat_sha256);
    free(r->chat_date);
    free(r->ids);
    free(r->bias_ids);
    free(r->bias);
    free(r->text);
    free(r->stop_ids);
    free(r->links);
    free(r->blocks);
    sha256_free(r->sha);
    free(r);
}
