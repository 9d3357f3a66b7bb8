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

#define KEY(field, ...) #field,
const char *const record_options[RECORD_OPTIONS] = { "seed", "bias", SAMPLING_ROWS(KEY) };
#undef KEY

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

static bool read_option(const Record *in, const char *key, int number, const JsonNode *j,
                        SamplerOptions *out)
{
    const tblock_sampling_row *row = &tblock_sampling_rows()[number];
    float                      x;
    int64_t                    i;
    if (row->type == TBLOCK_DOUBLE && !is_number(j))
        return record_wrong(in, key, "a number", j);
    if ((row->type == TBLOCK_FLOAT && !record_float(in, key, j, &x))
        || (row->type == TBLOCK_INT && !record_whole(in, key, j, 0, INT32_MAX, &i)))
        return false;
    sampling_put(out, row, node_number(j));
    return true;
}

bool record_sampling(const Record *in, const char *const names[RECORD_OPTIONS],
                     const JsonNode *const value[RECORD_OPTIONS], SamplerOptions *out,
                     int32_t **ids, float **bias)
{
    char key[64];
    bool good = true;
    for (int n = 0; n < RECORD_OPTIONS && good; n++) {
        const int i = (n + RECORD_NUMBERS) % RECORD_OPTIONS; /* numbers first */
        snprintf(key, sizeof key, "%s%s", names ? "" : "sampling.",
                 names ? names[i] : record_options[i]);
        if (!value[i])
            continue;
        good = i == RECORD_SEED   ? read_seed(in, key, value[i], &out->seed)
               : i == RECORD_BIAS ? read_bias(in, key, value[i], out, ids, bias)
                                  : read_option(in, key, i - RECORD_NUMBERS, value[i], out);
    }
    return good;
}
