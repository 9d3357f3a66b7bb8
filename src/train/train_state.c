#include "train/train_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/config.h"

static const char *const sets[3] = { "w.", "m.", "v." }; /* parameters, first and second moments */

static float *set_of(const Trainer *t, int i) { return i == 0 ? t->w : i == 1 ? t->m : t->v; }

/* ---- Writing ---- */

typedef struct Writing { TensorWriter *w; const Trainer *t; const TensorFile *tokenizer; } Writing;

static bool write_meta(const Writing *x, const StateSetting *setting, size_t n_settings, Error *err)
{
    char        step[32], key[64];
    char       *config = config_to_json(&x->t->p->config, err);
    const char *tokenizer = x->tokenizer ? tensor_meta(x->tokenizer, "tokenizer") : NULL;
    snprintf(step, sizeof step, "%" PRId64, x->t->step);
    bool ok = config && tensor_writer_meta(x->w, "format", "tblock-checkpoint", err) && tensor_writer_meta(x->w, "version", "1", err)
           && tensor_writer_meta(x->w, "step", step, err) && tensor_writer_meta(x->w, "config", config, err)
           && (!tokenizer || tensor_writer_meta(x->w, "tokenizer", tokenizer, err));
    free(config);
    for (size_t i = 0; ok && i < n_settings; i++) {
        snprintf(key, sizeof key, "set.%s", setting[i].key);
        ok = tensor_writer_meta(x->w, key, setting[i].value, err);
    }
    return ok;
}

static bool of_tokenizer(const Tensor *t) { return strncmp(t->name, "tok.", 4) == 0; }

static bool declare(const Writing *x, Error *err)
{
    const Trainer *t = x->t;
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < t->p->n; i++) {
            char    name[80];
            int64_t shape[3];
            snprintf(name, sizeof name, "%s%s", sets[s], t->p->spec[i].name);
            if (!tensor_writer_declare(x->w, name, DT_F32, tensor_spec_shape(&t->p->spec[i], shape), shape, err))
                return false;
        }
    for (int i = 0; x->tokenizer && i < x->tokenizer->n_tensors; i++) {
        const Tensor *a = &x->tokenizer->tensors[i];
        if (of_tokenizer(a) && !tensor_writer_declare(x->w, a->name, a->dtype, a->rank, a->shape, err))
            return false;
    }
    return tensor_writer_declare(x->w, "history.loss", DT_F32, 1, &t->step, err)
        && tensor_writer_declare(x->w, "history.validation", DT_F64, 2, (int64_t[]){ (int64_t)t->n_val, 2 }, err);
}

static bool put_all(const Writing *x, Error *err)
{
    const Trainer *t = x->t;
    int            at = 0;
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < t->p->n; i++)
            if (!tensor_writer_put(x->w, at++, 0, set_of(t, s) + t->p->at[i], params_length(t->p, i) * sizeof(float), err))
                return false;
    for (int i = 0; x->tokenizer && i < x->tokenizer->n_tensors; i++) {
        const Tensor *a = &x->tokenizer->tensors[i];
        if (of_tokenizer(a) && !tensor_writer_put(x->w, at++, 0, a->data, a->n_bytes, err))
            return false;
    }
    bool ok = tensor_writer_put(x->w, at++, 0, t->loss, (size_t)t->step * sizeof *t->loss, err);
    for (size_t i = 0; ok && i < t->n_val; i++)
        ok = tensor_writer_put(x->w, at, i * 2 * sizeof(double), (double[]){ (double)t->val[i].step, (double)t->val[i].loss },
                               2 * sizeof(double), err);
    return ok;
}

bool train_state_save(const Trainer *t, const char *path, const StateSetting *setting, size_t n_settings, const TensorFile *tokenizer,
                      Error *err)
{
    Writing x = { tensor_writer_new(path, 64, err), t, tokenizer };
    if (!x.w)
        return false;
    if (write_meta(&x, setting, n_settings, err) && declare(&x, err) && tensor_writer_begin(x.w, err) && put_all(&x, err))
        return tensor_writer_end(x.w, err);
    tensor_writer_abort(x.w);
    return false;
}

/* ---- Reading ---- */

bool train_state_check(const TensorFile *f, const StateSetting *setting, size_t n_settings, Error *err)
{
    const char *format = tensor_meta(f, "format"), *version = tensor_meta(f, "version"), *path = f->map.path;
    char        key[64];
    if (!format || strcmp(format, "tblock-checkpoint") != 0)
        return fail(err, INPUT, "%s: metadata format: expected \"tblock-checkpoint\", found %s", path, format ? format : "no such entry");
    if (!version || strcmp(version, "1") != 0)
        return fail(err, INPUT, "%s: metadata version: expected 1, found %s", path, version ? version : "no such entry");
    for (size_t i = 0; i < n_settings; i++) {
        snprintf(key, sizeof key, "set.%s", setting[i].key);
        const char *was = tensor_meta(f, key);
        if (!was || strcmp(was, setting[i].value) != 0)
            return fail(err, INPUT, "%s: %s: the checkpoint was made with %s, found %s: training can only go on with the same settings",
                        path, setting[i].key, was ? was : "no such setting", setting[i].value);
    }
    return true;
}

static const Tensor *expect(const TensorFile *f, const char *name, DType dtype, size_t n_elements, Error *err)
{
    char          shape[64];
    const Tensor *t = tensor_find(f, name);
    if (!t)
        fail(err, INPUT, "%s: tensor %s: expected %zu elements of %s, found no such tensor", f->map.path, name, n_elements, dtype_name(dtype));
    else if (t->dtype != dtype || t->n_elements != n_elements) {
        fail(err, INPUT, "%s: tensor %s: expected %zu elements of %s, found %s %s", f->map.path, name, n_elements, dtype_name(dtype),
             dtype_name(t->dtype), tensor_shape_text(t, shape, sizeof shape));
        t = NULL;
    }
    return t;
}

static bool load_sets(Trainer *t, const TensorFile *f, Error *err)
{
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < t->p->n; i++) {
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
    const Tensor *loss = expect(f, "history.loss", DT_F32, (size_t)t->step, err), *val = tensor_find(f, "history.validation");
    if (!loss)
        return false;
    memcpy(t->loss, loss->data, loss->n_bytes);
    if (!val || val->dtype != DT_F64 || val->rank != 2 || val->shape[1] != 2)
        return fail(err, INPUT, "%s: tensor history.validation: expected F64 [n, 2]", f->map.path);
    t->n_val = t->cap_val = (size_t)val->shape[0];
    t->val = calloc(t->n_val ? t->n_val : 1, sizeof *t->val);
    if (!t->val)
        return fail(err, SYSTEM, "out of memory for validation losses");
    for (size_t i = 0; i < t->n_val; i++) {
        double pair[2];
        memcpy(pair, (const char *)val->data + i * sizeof pair, sizeof pair);
        if (!(pair[0] >= 0 && pair[0] <= (double)t->step))
            return fail(err, INPUT, "%s: tensor history.validation: row %zu: expected a step from 0 to %" PRId64 ", found %g", f->map.path, i,
                        t->step, pair[0]);
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
        return fail(err, INPUT, "%s: metadata step: expected 0 to %" PRId64 ", found %s", f->map.path, t->s.n_steps,
                    step ? step : "no such entry");
    t->step = n;
    return load_sets(t, f, err) && load_history(t, f, err);
}
