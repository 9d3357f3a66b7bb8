/* train/train_state.c: writes and checks checkpoints. A checkpoint is an ordinary safetensors
 * file: each parameter three times (w., m., v.), the tokenizer, and the history of losses. */
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "model/config.h"

static const char *const sets[3] = { "w.", "m.", "v." }; /* parameters, first and second moments */

static float *set_of(const Trainer *t, int i) { return i == 0 ? t->w : i == 1 ? t->m : t->v; }

/* ---- Writing --------------------------------------------------------------------------------- */

/* A tensor of the file. */
typedef struct StateTensor {
    char        name[80];
    DType       dtype;
    int         rank;
    int64_t     shape[TENSOR_MAX_RANK];
    const void *data;
    size_t      n_bytes;
} StateTensor;

typedef struct Writing {
    TensorWriter     *w;
    const Trainer    *t;
    const TensorFile *tokenizer;
    double           *validation;  /* [n_val, 2] */
    StateTensor            *entry;       /* [n] */
    int               n;
    size_t            n_bytes;     /* of all entries */
} Writing;

/* Is this one of the tokenizer's tensors? */
static bool of_tokenizer(const Tensor *t) { return strncmp(t->name, "tok.", 4) == 0; }

static void add_entry(Writing *x, const char *set, const char *name, DType dtype, int rank,
                      const int64_t *shape, const void *data, size_t n_bytes)
{
    StateTensor *e = &x->entry[x->n++];
    *e = (StateTensor){ .dtype = dtype, .rank = rank, .data = data, .n_bytes = n_bytes };
    snprintf(e->name, sizeof e->name, "%s%s", set, name);
    memcpy(e->shape, shape, (size_t)rank * sizeof *shape);
    x->n_bytes += n_bytes;
}

/* safetensors wants each tensor on a multiple of its element size. A tensor with an odd number
 * of bytes is therefore followed by a tensor of zeros, as in a model file. */
static void add(Writing *x, const char *set, const char *name, DType dtype, int rank,
                const int64_t *shape, const void *data, size_t n_bytes)
{
    static const char zeros[8];
    size_t            width = dtype_bytes(dtype), gap = (width - x->n_bytes % width) % width;
    char              number[16];
    if (gap) {
        snprintf(number, sizeof number, "%d", x->n);
        add_entry(x, "pad.", number, DT_U8, 1, (int64_t[]){ (int64_t)gap }, zeros, gap);
    }
    add_entry(x, set, name, dtype, rank, shape, data, n_bytes);
}

static bool list_tensors(Writing *x, Error *err)
{
    const Trainer *t = x->t;
    size_t most = 3 * (size_t)t->p->n + 2 + (x->tokenizer ? (size_t)x->tokenizer->n_tensors : 0);
    int64_t        shape[3];
    x->entry = calloc(2 * most, sizeof *x->entry);
    x->validation = calloc(2 * t->n_val + 1, sizeof *x->validation);
    if (!x->entry || !x->validation)
        return fail(err, SYSTEM, "out of memory for a checkpoint");
    for (size_t i = 0; i < t->n_val; i++) {
        x->validation[2 * i]     = (double)t->val[i].step;
        x->validation[2 * i + 1] = (double)t->val[i].loss;
    }
    for (int s = 0; s < 3; s++)
        for (int i = t->p->first; i < t->p->n; i++)
            add(x, sets[s], t->p->spec[i].name, DT_F32, tensor_spec_shape(&t->p->spec[i], shape),
                shape, set_of(t, s) + t->p->at[i], params_length(t->p, i) * sizeof(float));
    for (int i = 0; x->tokenizer && i < x->tokenizer->n_tensors; i++) {
        const Tensor *a = &x->tokenizer->tensors[i];
        if (of_tokenizer(a))
            add(x, "", a->name, a->dtype, a->rank, a->shape, a->data, a->n_bytes);
    }
    add(x, "history.", "loss", DT_F32, 1, &t->step, t->loss, (size_t)t->step * sizeof *t->loss);
    add(x, "history.", "validation", DT_F64, 2, (int64_t[]){ (int64_t)t->n_val, 2 }, x->validation,
        t->n_val * 2 * sizeof(double));
    return true;
}

/* The hash covers what train_state_compare does not: the step, the tokenizer and the data. */
static Sha256 *hash_begin(const char *step, const char *tokenizer, Error *err)
{
    Sha256 *sha = sha256_new();
    if (!sha) {
        fail(err, SYSTEM, "out of memory for a hash");
        return NULL;
    }
    sha256_add(sha, step, strlen(step) + 1);
    sha256_add(sha, tokenizer ? tokenizer : "", tokenizer ? strlen(tokenizer) + 1 : 1);
    return sha;
}

static bool write_meta(const Writing *x, const StateSetting *setting, size_t n_settings, Error *err)
{
    char        step[32], key[64], hex[65];
    const char *tokenizer = x->tokenizer ? tensor_meta(x->tokenizer, "tokenizer") : NULL;
    snprintf(step, sizeof step, "%" PRId64, x->t->step);
    Sha256 *sha = hash_begin(step, tokenizer, err);
    if (!sha)
        return false;
    for (int i = 0; i < x->n; i++)
        sha256_add(sha, x->entry[i].data, x->entry[i].n_bytes);
    sha256_end(sha, hex);
    char *config = config_to_json(&x->t->p->config, err);
    bool  ok = config && tensor_writer_meta(x->w, "format", "tblock-checkpoint", err)
        && tensor_writer_meta(x->w, "version", "2", err)
        && tensor_writer_meta(x->w, "step", step, err)
        && tensor_writer_meta(x->w, "config", config, err)
        && tensor_writer_meta(x->w, "sha256", hex, err)
        && (!tokenizer || tensor_writer_meta(x->w, "tokenizer", tokenizer, err));
    free(config);
    for (size_t i = 0; ok && i < n_settings; i++) {
        snprintf(key, sizeof key, "set.%s", setting[i].key);
        ok = tensor_writer_meta(x->w, key, setting[i].value, err);
    }
    return ok;
}

static bool write_tensors(const Writing *x, Error *err)
{
    for (int i = 0; i < x->n; i++)
        if (!tensor_writer_declare(x->w, x->entry[i].name, x->entry[i].dtype, x->entry[i].rank,
                                   x->entry[i].shape, err))
            return false;
    bool ok = tensor_writer_begin(x->w, err);
    for (int i = 0; ok && i < x->n; i++)
        ok = tensor_writer_put(x->w, i, 0, x->entry[i].data, x->entry[i].n_bytes, err);
    return ok;
}

bool train_state_save(const Trainer *t, const char *path, const StateSetting *setting,
                      size_t n_settings, const TensorFile *tokenizer, Error *err)
{
    Writing x  = { .w = tensor_writer_new(path, 64, err), .t = t, .tokenizer = tokenizer };
    bool    ok = x.w && list_tensors(&x, err) && write_meta(&x, setting, n_settings, err)
        && write_tensors(&x, err);
    if (ok)
        ok = tensor_writer_end(x.w, err);
    else
        tensor_writer_abort(x.w);
    free(x.entry);
    free(x.validation);
    return ok;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool check_hash(const TensorFile *f, Error *err)
{
    const char *step = tensor_meta(f, "step"), *recorded = tensor_meta(f, "sha256");
    char        hex[65];
    Sha256     *sha = hash_begin(step ? step : "", tensor_meta(f, "tokenizer"), err);
    if (!sha)
        return false;
    if (f->data_bytes)
        sha256_add(sha, f->map.data + f->data_offset, f->data_bytes);
    sha256_end(sha, hex);
    return (recorded && strcmp(recorded, hex) == 0)
        || fail(err, INPUT, "%s: sha256 of its data: expected %s, found %s: the file was changed "
                            "after it was written", f->map.path,
                recorded ? recorded : "a recorded one", hex);
}

bool train_state_check(const TensorFile *f, Error *err)
{
    const char *format = tensor_meta(f, "format"), *version = tensor_meta(f, "version"),
               *path = f->map.path;
    if (!format || strcmp(format, "tblock-checkpoint") != 0)
        return fail(err, INPUT, "%s: metadata format: expected \"tblock-checkpoint\", found %s",
                    path, format ? format : "no such entry");
    if (version && strcmp(version, "1") == 0) /* has no hash */
        return true;
    if (!version || strcmp(version, "2") != 0)
        return fail(err, INPUT, "%s: metadata version: expected 1 or 2, found %s", path,
                    version ? version : "no such entry");
    return check_hash(f, err);
}

bool train_state_compare(const TensorFile *f, const StateSetting *setting, size_t n_settings,
                         Error *err)
{
    char key[64];
    for (size_t i = 0; i < n_settings; i++) {
        snprintf(key, sizeof key, "set.%s", setting[i].key);
        const char *was = tensor_meta(f, key);
        if (!was || strcmp(was, setting[i].value) != 0)
            return fail(err, INPUT,
                        "%s: %s: the checkpoint was made with %s, found %s: training "
                        "can only continue with the same settings",
                        f->map.path, setting[i].key, was ? was : "no such setting",
                        setting[i].value);
    }
    return true;
}

static const char *spell(const Json *value, char text[40])
{
    double x;
    Error  none;
    if (!json_is_number(value) || !json_read_double(value, "", -INFINITY, INFINITY, &x, &none))
        return json_kind(value);
    snprintf(text, 40, "%.9g", x);
    return text;
}

/* Fails at the first key of a that b lacks or has with another value. swapped: a is the current
 * config, b the recorded one. */
static bool compare_keys(const char *path, const Json *a, const Json *b, bool swapped, Error *err)
{
    char text[2][40];
    for (const Json *i = json_first(a); i; i = json_next(i)) {
        const Json *other = json_get(b, json_key(i)), *was = swapped ? other : i,
                   *is = swapped ? i : other;
        if (!other || !json_equal(i, other))
            return fail(err, INPUT, "%s: config: %s: the checkpoint was made with %s, found %s: "
                                    "training can only continue with the same config",
                        path, json_key(i), spell(was, text[0]), spell(is, text[1]));
    }
    return true;
}

bool train_state_compare_config(const TensorFile *f, const Config *c, Error *err)
{
    const char *path = f->map.path, *recorded = tensor_meta(f, "config");
    if (!recorded)
        return fail(err, INPUT, "%s: metadata config: expected one, found none", path);
    char *json = config_to_json(c, err);
    Json *was  = json ? json_parse(recorded, strlen(recorded), path, err) : NULL;
    Json *is   = was ? json_parse(json, strlen(json), "config", err) : NULL;
    bool  same =
        is && compare_keys(path, was, is, false, err) && compare_keys(path, is, was, true, err);
    json_free(was);
    json_free(is);
    free(json);
    return same;
}

static const Tensor *expect(const TensorFile *f, const char *name, DType dtype, size_t n_elements,
                            Error *err)
{
    char          shape[64];
    const Tensor *t = tensor_find(f, name);
    if (!t)
        fail(err, INPUT, "%s: tensor %s: expected %zu elements of %s, found no such tensor",
             f->map.path, name, n_elements, dtype_name(dtype));
    else if (t->dtype != dtype || t->n_elements != n_elements) {
        fail(err, INPUT, "%s: tensor %s: expected %zu elements of %s, found %s %s", f->map.path,
             name, n_elements, dtype_name(dtype), dtype_name(t->dtype),
             tensor_shape_text(t, shape, sizeof shape));
        t = NULL;
    }
    return t;
}

static bool load_sets(Trainer *t, const TensorFile *f, Error *err)
{
    for (int s = 0; s < 3; s++)
        for (int i = t->p->first; i < t->p->n; i++) {
            char name[80];
            snprintf(name, sizeof name, "%s%s", sets[s], t->p->spec[i].name);
            const Tensor *a = expect(f, name, DT_F32, params_length(t->p, i), err);
            if (!a)
                return false;
            memcpy(set_of(t, s) + t->p->at[i], a->data, a->n_bytes);
        }
    return true;
}

static bool load_history(Trainer *t, const TensorFile *f, Error *err)
{
    const Tensor *loss = expect(f, "history.loss", DT_F32, (size_t)t->step, err),
                 *val = tensor_find(f, "history.validation");
    if (!loss)
        return false;
    memcpy(t->loss, loss->data, loss->n_bytes);
    if (!val || val->dtype != DT_F64 || val->rank != 2 || val->shape[1] != 2)
        return fail(err, INPUT, "%s: tensor history.validation: expected F64 [n, 2]", f->map.path);
    free(t->val); /* of a checkpoint that was loaded before */
    t->n_val = t->cap_val = (size_t)val->shape[0];
    t->val = calloc(t->n_val ? t->n_val : 1, sizeof *t->val);
    if (!t->val)
        return fail(err, SYSTEM, "out of memory for validation losses");
    for (size_t i = 0; i < t->n_val; i++) {
        double pair[2];
        memcpy(pair, (const char *)val->data + i * sizeof pair, sizeof pair);
        if (!(pair[0] >= 0 && pair[0] <= (double)t->step))
            return fail(err, INPUT,
                        "%s: tensor history.validation: row %zu: expected a step from 0 to %" PRId64
                        ", found %g",
                        f->map.path, i, t->step, pair[0]);
        t->val[i] = (Validation){ (int64_t)pair[0], (float)pair[1] };
    }
    return true;
}

bool train_state_load(Trainer *t, const TensorFile *f, Error *err)
{
    const char *step = tensor_meta(f, "step");
    char       *end = NULL;
    long long   n = step ? strtoll(step, &end, 10) : -1;
    if (n < 0 || (end && *end) || n > t->s.n_steps)
        return fail(err, INPUT, "%s: metadata step: expected 0 to %" PRId64 ", found %s",
                    f->map.path, t->s.n_steps, step ? step : "no such entry");
    t->step = n;
    return load_sets(t, f, err) && load_history(t, f, err);
}

bool train_state_spare(const char *path, Error *err)
{
    TensorFile f = { 0 };
    if (!path_exists(path))
        return true;
    Error       why;
    bool        good = safetensors_open(&f, path, &why);
    const char *format = good ? tensor_meta(&f, "format") : NULL,
               *step = good ? tensor_meta(&f, "step") : NULL;
    const char *steps = good ? tensor_meta(&f, "set.steps") : NULL;
    if (!good && why.status == SYSTEM)
        return fail(err, SYSTEM, "%s", why.msg);
    if (!format || strcmp(format, "tblock-checkpoint") != 0 || !step || !steps)
        good = fail(err, USAGE, "%s: expected a checkpoint or no file, found another file: "
                                "training would overwrite it", path);
    else if (strcmp(step, steps) != 0)
        good = fail(err, USAGE,
                    "%s: holds a training that stopped after step %s of %s: use --resume to "
                    "continue, or remove the file to start again",
                    path, step, steps);
    tensor_file_close(&f);
    return good;
}
