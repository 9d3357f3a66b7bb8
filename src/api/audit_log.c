/* api/audit_log.c: a log of texts to audit, and its lines in tblock's own form. */
#include "api/audit.h"

#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"

static bool make_room(tblock_audit_log *log, const Record *in)
{
    if (log->n == TBLOCK_AUDIT_TEXTS)
        return fail(in->err, INPUT, "%s: expected at most %d texts in a log, found more", in->name,
                    TBLOCK_AUDIT_TEXTS);
    if (log->n < log->cap)
        return true;
    const size_t       cap   = log->cap ? 2 * log->cap : 16;
    tblock_audit_text *text  = realloc(log->text, cap * sizeof *text);
    log->text                = text ? text : log->text;
    AuditOwned        *owned = text ? realloc(log->owned, cap * sizeof *owned) : NULL;
    log->owned               = owned ? owned : log->owned;
    log->cap                 = owned ? cap : log->cap;
    return owned || no_memory(in->name, in->err);
}

static void *copy_of(const void *from, size_t n, size_t size)
{
    void *out = malloc((n + 1) * size);
    if (out && n)
        memcpy(out, from, n * size);
    return out;
}

bool audit_log_text(tblock_audit_log *log, const Record *in, const int32_t *prompt, size_t n_prompt,
                    const int32_t *sampled, size_t n_sampled, const SamplerOptions *sampling,
                    bool seeded)
{
    if (n_prompt == 0)
        return fail(in->err, INPUT, "%s: expected a prompt of at least one token, found none",
                    in->name);
    if (n_prompt + n_sampled > TBLOCK_AUDIT_IDS - log->n_ids)
        return fail(in->err, INPUT, "%s: expected at most %d ids in a log, found more", in->name,
                    TBLOCK_AUDIT_IDS);
    if (!make_room(log, in))
        return false;
    log->n_ids += n_prompt + n_sampled;
    AuditOwned own = { .ids      = malloc((n_prompt + n_sampled) * sizeof *own.ids),
                       .bias_ids = copy_of(sampling->bias_ids, sampling->n_bias, sizeof(int32_t)),
                       .bias     = copy_of(sampling->bias, sampling->n_bias, sizeof(float)) };
    tblock_audit_text *t = &log->text[log->n];
    tblock_model_info  info;
    log->owned[log->n++] = own;
    *t = (tblock_audit_text){ own.ids, n_prompt + n_sampled, n_prompt, *sampling, seeded };
    t->sampling.bias_ids = own.bias_ids;
    t->sampling.bias     = own.bias;
    t->sampling.n_given  = n_prompt;
    tblock_model_describe(log->model, &info);
    t->sampling.end_ids   = info.eos;
    t->sampling.n_end_ids = (size_t)info.n_eos;
    if (!own.ids || !own.bias_ids || !own.bias)
        return no_memory(in->name, in->err);
    memcpy(own.ids, prompt, n_prompt * sizeof *prompt);
    if (n_sampled)
        memcpy(own.ids + n_prompt, sampled, n_sampled * sizeof *sampled);
    return true;
}

bool audit_ids(const Record *in, const char *key, const JsonNode *j, int32_t **out, size_t *n)
{
    *n = 0;
    if (!j || j->kind != NODE_ARRAY)
        return record_wrong(in, key, "an array of ids", j);
    *out = malloc(((size_t)j->n + 1) * sizeof **out);
    return *out ? record_ids(in, key, j, *out, n) : no_memory(in->name, in->err);
}

/* ---- {"prompt": [...], "drawn": [...], "sampling": {...}} ------------------------------------ */

typedef struct OwnLine { int32_t *prompt, *sampled, *bias_ids; float *bias; } OwnLine;

static bool read_options(const Record *in, const JsonNode *j, SamplerOptions *o, bool *seeded,
                         OwnLine *own)
{
    const JsonNode *v[RECORD_OPTIONS];
    if (!j)
        return true;
    if (!record_members(in, "sampling", j, record_options, RECORD_OPTIONS, 0, v))
        return false;
    *seeded = *seeded || v[RECORD_SEED];
    return record_sampling(in, NULL, v, o, &own->bias_ids, &own->bias);
}

static bool own_line(tblock_audit_log *log, const Record *in, const JsonNode *root)
{
    enum { PROMPT, SAMPLED, SAMPLING, N };
    static const char *const keys[N] = { "prompt", "drawn", "sampling" };
    const JsonNode *v[N];
    OwnLine         own      = { 0 };
    SamplerOptions  o        = log->claimed;
    const bool      shared   = log->flags & TBLOCK_AUDIT_SHARED_SEED;
    const bool      own_says = log->flags & TBLOCK_AUDIT_CLAIMS_FROM_LOG;
    bool            seeded   = shared;
    size_t          n_prompt = 0, n_sampled = 0;
    const bool good = record_members(in, "line", root, keys, N, 0, v)
        && audit_ids(in, "prompt", v[PROMPT], &own.prompt, &n_prompt)
        && audit_ids(in, "drawn", v[SAMPLED], &own.sampled, &n_sampled)
        && read_options(in, v[SAMPLING], &o, &seeded, &own)
        && audit_log_text(log, in, own.prompt, n_prompt, own.sampled, n_sampled,
                          own_says ? &o : &log->claimed, own_says ? seeded : shared);
    free(own.prompt);
    free(own.sampled);
    free(own.bias_ids);
    free(own.bias);
    return good;
}

/* ---- The log --------------------------------------------------------------------------------- */

FP_ENV_WORK
static bool log_add(tblock_audit_log *log, const char *line, size_t n, const char *name, Error *err)
{
    JsonDoc      d    = { 0 };
    const Record in   = { name, err };
    bool         good = n <= TBLOCK_AUDIT_MOST
        || fail(err, INPUT, "%s: expected at most %d bytes, found %zu", name, TBLOCK_AUDIT_MOST, n);
    good = good && json_doc_read(&d, line, n, JSON_FINITE, name, err);
    if (good && (node_get(d.node, "choices") || node_get(d.node, "response")))
        good = audit_openai_line(log, &in, &d);
    else if (good)
        good = own_line(log, &in, d.node);
    json_doc_free(&d);
    return good;
}

bool tblock_audit_log_add(tblock_audit_log *log, const char *line, size_t n_bytes, const char *name,
                          tblock_error *err)
{
    NEED(false, err, log, line || !n_bytes, name);
    HOST_ENV_RETURN(bool, log_add(log, line, n_bytes, name, err));
}

tblock_audit_log *tblock_audit_log_new(const tblock_model *m, const tblock_sampler_options *claimed,
                                       unsigned flags, tblock_error *err)
{
    NEED(NULL, err, m, claimed);
    tblock_audit_log *log = calloc(1, sizeof *log);
    int32_t          *ids = copy_of(claimed->bias_ids, claimed->n_bias, sizeof *ids);
    float            *bias = copy_of(claimed->bias, claimed->n_bias, sizeof *bias);
    if (!log || !ids || !bias) {
        free(log);
        free(ids);
        free(bias);
        no_memory("log", err);
        return NULL;
    }
    log->model            = m;
    log->claimed          = *claimed;
    log->claimed.bias_ids = ids;
    log->claimed.bias     = bias;
    log->flags            = flags;
    return log;
}

void tblock_audit_log_free(tblock_audit_log *log)
{
    if (!log)
        return;
    for (size_t i = 0; i < log->n; i++) {
        free(log->owned[i].ids);
        free(log->owned[i].bias_ids);
        free(log->owned[i].bias);
    }
    free((void *)log->claimed.bias_ids);
    free((void *)log->claimed.bias);
    free(log->text);
    free(log->owned);
    free(log->piece);
    free(log->bytes);
    tblock_chat_free(log->chat);
    free(log);
}

const tblock_audit_text *tblock_audit_log_texts(const tblock_audit_log *log, size_t *n)
{
    NEED(NULL, NULL, log, n);
    *n = log->n;
    return log->text;
}
