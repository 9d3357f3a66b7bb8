/* base/json.c: trees, which cJSON parses; reading typed values from them. */
#include "base/json.h"

#include <cjson/cJSON.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/fp_env.h"
#include "base/text.h"

/* ---- The tree -------------------------------------------------------------------------------- */

enum { NUMBER_MOST = 62 }; /* the longest number that cJSON 1.7.15 reads */

/* A copy of text in which longer numbers have fewer digits, the same values, and are padded with
 * blanks. NULL: no memory. */
static char *shorten(const JsonDoc *d, const char *text, size_t n_bytes)
{
    char *out = malloc(n_bytes + 1);
    if (!out)
        return NULL;
    memcpy(out, text, n_bytes);
    for (size_t i = 0; i < d->n_nodes; i++) {
        const JsonNode *j = &d->node[i];
        char            few[JSON_NUMBER];
        size_t          n = 0;
        if (j->kind == NODE_INT || j->kind == NODE_DOUBLE)
            n = strspn(json_spelling(d, j), "0123456789+-.eE");
        if (n <= NUMBER_MOST)
            continue;
        json_number_text(few, node_number(j));
        memset(out + j->n, ' ', n);
        memcpy(out + j->n, few, strlen(few));
    }
    return out;
}

/* json_doc.c checks the grammar, and rejects more than cJSON does: duplicate keys, depth, NUL,
 * infinite numbers. */
Json *json_parse(const char *text, size_t n_bytes, const char *what, Error *err)
{
    JsonDoc d;
    HostEnv env;
    if (!json_doc_read(&d, text, n_bytes, JSON_NO_NUL | JSON_FINITE, what, err))
        return NULL;
    char *copy = shorten(&d, text, n_bytes);
    json_doc_free(&d);
    host_env_enter(&env);
    cJSON *root = copy ? cJSON_ParseWithLength(copy, n_bytes) : NULL;
    host_env_leave(&env);
    free(copy);
    if (!root)
        fail(err, SYSTEM, "%s: out of memory for %zu bytes of JSON", what, n_bytes);
    return root;
}

bool json_object_begins(const void *text, size_t n_bytes)
{
    const char *p = text;
    size_t      at = 0;
    while (at < n_bytes && p[at] && strchr(" \t\r\n", p[at]))
        at++;
    return at < n_bytes && p[at] == '{' && !memchr(text, 0, n_bytes < 8 ? n_bytes : 8);
}

void json_free(Json *j) { cJSON_Delete(j); }

const Json *json_get(const Json *object, const char *key)
{
    for (const Json *item = json_is_object(object) ? object->child : NULL; item; item = item->next)
        if (strcmp(item->string, key) == 0)
            return item;
    return NULL;
}

const Json *json_first(const Json *j)
{
    return json_is_object(j) || json_is_array(j) ? j->child : NULL;
}
const Json *json_next(const Json *item) { return item->next; }
const char *json_key(const Json *item) { return item->string; }

size_t json_count(const Json *j)
{
    size_t n = 0;
    for (const Json *item = json_first(j); item; item = item->next)
        n++;
    return n;
}

bool json_is_object(const Json *j) { return cJSON_IsObject(j); }
bool json_is_array(const Json *j) { return cJSON_IsArray(j); }
bool json_is_string(const Json *j) { return cJSON_IsString(j); }
bool json_is_number(const Json *j) { return cJSON_IsNumber(j); }
bool json_is_bool(const Json *j) { return cJSON_IsBool(j); }
bool json_is_null(const Json *j) { return cJSON_IsNull(j); }

bool json_equal(const Json *a, const Json *b) { return cJSON_Compare(a, b, true); }

const char *json_kind(const Json *j)
{
    return !j                  ? "nothing"
           : json_is_object(j) ? "object"
           : json_is_array(j)  ? "array"
           : json_is_string(j) ? "string"
           : json_is_number(j) ? "number"
           : json_is_bool(j)   ? (cJSON_IsTrue(j) ? "true" : "false")
                               : "null";
}

/* ---- Typed reads ----------------------------------------------------------------------------- */

/* The value found, for a message. */
static const char *found(const Json *j, char text[JSON_NUMBER])
{
    if (!json_is_number(j))
        return json_kind(j);
    json_number_text(text, j->valuedouble);
    return text;
}

bool json_read_int(const Json *j, const char *what, int64_t min, int64_t max, int64_t *out,
                   Error *err)
{
    char   text[JSON_NUMBER];
    double x = json_is_number(j) ? j->valuedouble : NAN;
    /* Not 2^53 itself: it may have been 2^53 + 1 in the text. */
    if (!(fabs(x) < 0x1p53) || x != rint(x) || (int64_t)x < min || (int64_t)x > max)
        return fail(err, INPUT, "%s: expected an integer from %lld to %lld, found %s", what,
                    (long long)min, (long long)max, found(j, text));
    *out = (int64_t)x;
    return true;
}

bool json_read_double(const Json *j, const char *what, double min, double max, double *out,
                      Error *err)
{
    char   text[JSON_NUMBER], low[JSON_NUMBER], high[JSON_NUMBER];
    double x = json_is_number(j) ? j->valuedouble : NAN;
    if (isfinite(x) && x >= min && x <= max) {
        *out = x;
        return true;
    }
    bool no_min = min <= -DBL_MAX, no_max = max >= DBL_MAX;
    snprintf(low, sizeof low, "-inf");
    snprintf(high, sizeof high, "inf");
    if (!no_min)
        json_number_text(low, min);
    if (!no_max)
        json_number_text(high, max);
    if (no_min && no_max)
        return fail(err, INPUT, "%s: expected a number, found %s", what, found(j, text));
    if (no_max)
        return fail(err, INPUT, "%s: expected a number of at least %s, found %s", what, low,
                    found(j, text));
    return fail(err, INPUT, "%s: expected a number from %s to %s, found %s", what, low, high,
                found(j, text));
}

bool json_read_bool(const Json *j, const char *what, bool *out, Error *err)
{
    char text[JSON_NUMBER];
    if (!json_is_bool(j))
        return fail(err, INPUT, "%s: expected true or false, found %s", what, found(j, text));
    *out = cJSON_IsTrue(j);
    return true;
}

bool json_read_string(const Json *j, const char *what, const char **out, Error *err)
{
    char text[JSON_NUMBER];
    if (!json_is_string(j))
        return fail(err, INPUT, "%s: expected a string, found %s", what, found(j, text));
    *out = j->valuestring;
    return true;
}

bool json_copy_string(const Json *j, const char *what, size_t most, char **out, Error *err)
{
    const char *text = NULL;
    if (!json_read_string(j, what, &text, err))
        return false;
    if (strlen(text) > most)
        return fail(err, INPUT, "%s: expected at most %zu bytes, found %zu", what, most,
                    strlen(text));
    free(*out);
    *out = strdup(text);
    return *out || no_memory(what, err);
}
