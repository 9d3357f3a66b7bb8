/* api/record.c: fields of receipts and logs. */
#include "api/record.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool record_wrong(const Record *in, const char *key, const char *expected, const JsonNode *found)
{
    char text[NODE_TEXT];
    return fail(in->err, INPUT, "%s: %s: expected %s, found %s", in->name, key, expected,
                node_text(found, text));
}

bool record_members(const Record *in, const char *key, const JsonNode *object,
                    const char *const *keys, size_t n, size_t needed, const JsonNode **value)
{
    if (!object || object->kind != NODE_OBJECT)
        return record_wrong(in, key, "an object", object);
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
    for (size_t i = 0; i < needed; i++)
        if (!value[i])
            return fail(in->err, INPUT, "%s: %s: expected the field \"%s\", found none", in->name,
                        key, keys[i]);
    return true;
}

bool record_whole(const Record *in, const char *key, const JsonNode *j, int64_t least, int64_t most,
                  int64_t *out)
{
    char expected[80];
    snprintf(expected, sizeof expected, "an integer from %lld to %lld", (long long)least,
             (long long)most);
    const bool good = j->kind == NODE_INT && j->integer >= least && j->integer <= most;
    *out            = good ? j->integer : least;
    return good || record_wrong(in, key, expected, j);
}

static bool is_number(const JsonNode *j) { return j->kind == NODE_INT || j->kind == NODE_DOUBLE; }

bool record_float(const Record *in, const char *key, const JsonNode *j, float *out)
{
    const double x = is_number(j) ? node_number(j) : NAN;
    if (!(x >= -(double)FLT_MAX && x <= (double)FLT_MAX))
        return record_wrong(in, key, "a number", j);
    *out = (float)x;
    return true;
}

bool record_ids(const Record *in, const char *key, const JsonNode *j, int32_t *out, size_t *n)
{
    JSON_NODES (i, j) {
        int64_t id;
        if (!record_whole(in, key, i, 0, INT32_MAX, &id))
            return false;
        out[(*n)++] = (int32_t)id;
    }
    return true;
}

/* ---- Sampling options ------------------------------------------------------------------------ */

const char *const record_options[RECORD_OPTIONS] = {
    "temp",           "top_k",            "top_p",             "min_p", "repeat_penalty",
    "presence_penalty", "frequency_penalty", "seed",              "bias"
};

static bool read_seed(const Record *in, const char *key, const JsonNode *j, uint64_t *out)
{
    bool good = j->kind == NODE_STRING && j->n > 0;
    *out      = 0;
    for (size_t i = 0; good && i < j->n; i++)
        good = j->text[i] >= '0' && j->text[i] <= '9'
            && !__builtin_mul_overflow(*out, 10u, out)
            && !__builtin_add_overflow(*out, (uint64_t)(j->text[i] - '0'), out);
    return good || record_wrong(in, key, "a text of decimal digits, below 2^64", j);
}

static bool read_pairs(const Record *in, const char *key, const JsonNode *j, int32_t *ids,
                       float *bias, size_t *n)
{
    JSON_NODES (i, j) {
        int64_t id;
        if (i->kind != NODE_ARRAY || i->n != 2)
            return record_wrong(in, key, "pairs of an id and a number", i);
        if (!record_whole(in, key, i + 1, 0, INT32_MAX, &id)
            || !record_float(in, key, i + 1 + (i + 1)->skip, &bias[*n]))
            return false;
        ids[(*n)++] = (int32_t)id;
    }
    return true;
}

static bool read_bias(const Record *in, const char *key, const JsonNode *j, SamplerOptions *out,
                      int32_t **ids, float **bias)
{
    if (j->kind != NODE_ARRAY)
        return record_wrong(in, key, "an array", j);
    *ids  = malloc(((size_t)j->n + 1) * sizeof **ids);
    *bias = malloc(((size_t)j->n + 1) * sizeof **bias);
    if (!*ids || !*bias)
        return no_memory(in->name, in->err);
    out->bias_ids = *ids;
    out->bias     = *bias;
    out->n_bias   = 0;
    return read_pairs(in, key, j, *ids, *bias, &out->n_bias);
}

bool record_sampling(const Record *in, const char *const keys[RECORD_OPTIONS],
                     const JsonNode *const value[RECORD_OPTIONS], SamplerOptions *out,
                     int32_t **ids, float **bias)
{
    float *const to[RECORD_OPTIONS] = {
        [RECORD_TEMP] = &out->temp,           [RECORD_MIN_P] = &out->min_p,
        [RECORD_REPEAT] = &out->repeat_penalty, [RECORD_PRESENCE] = &out->presence_penalty,
        [RECORD_FREQUENCY] = &out->frequency_penalty,
    };
    for (int i = 0; i < RECORD_OPTIONS; i++)
        if (to[i] && value[i] && !record_float(in, keys[i], value[i], to[i]))
            return false;
    const JsonNode *top_k = value[RECORD_TOP_K], *top_p = value[RECORD_TOP_P];
    int64_t         k     = out->top_k;
    if (top_k && !record_whole(in, keys[RECORD_TOP_K], top_k, 0, INT32_MAX, &k))
        return false;
    if (top_p && !is_number(top_p))
        return record_wrong(in, keys[RECORD_TOP_P], "a number", top_p);
    out->top_k = (int)k;
    out->top_p = top_p ? node_number(top_p) : out->top_p;
    return (!value[RECORD_SEED] || read_seed(in, keys[RECORD_SEED], value[RECORD_SEED], &out->seed))
        && (!value[RECORD_BIAS]
            || read_bias(in, keys[RECORD_BIAS], value[RECORD_BIAS], out, ids, bias));
}
