/* api/train_lora.c: a trained adapter, from its options to the folder that peft reads. */
#include "api/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/memory.h"
#include "source/adapter.h"

/* ---- What is trained ------------------------------------------------------------------------- */

enum { MOST_RANK = 1 << 12 };

/* What a layer's matrix is called as a target; NULL: it cannot be one. */
static const char *target(int role)
{
    const TensorRow *row = tensor_row((TensorRole)role);
    return row->in_layer ? row->lora : NULL;
}

static bool add_target(LoraPlan *out, const char *name, size_t n, Error *err)
{
    for (int i = 0; i < ROLE_COUNT; i++)
        if (target(i) && strlen(target(i)) == n && memcmp(target(i), name, n) == 0)
            return out->role[i] = true;
    return fail(err, USAGE, "lora targets: expected some of q, k, v, o, gate, up, down, found "
                            "'%.*s'", (int)(n < 40 ? n : 40), name);
}

bool lora_plan_read(LoraPlan *out, int rank, double alpha, const char *names, Error *err)
{
    *out = (LoraPlan){ .rank = rank, .alpha = alpha != 0 ? alpha : rank };
    if (rank < 0 || rank > MOST_RANK)
        return fail(err, USAGE, "lora rank: expected 0 to %d, found %d", MOST_RANK, rank);
    if (!rank)
        return (alpha == 0 && !names)
            || fail(err, USAGE, "lora alpha, lora targets: expected none without a rank of lora");
    if (!isfinite(out->alpha) || fabs(out->alpha) > 1e9)
        return fail(err, USAGE, "lora alpha: expected -1e9 to 1e9, found %g", out->alpha);
    for (const char *at = names ? names : "q,v";; at++) {
        size_t n = strcspn(at, ",");
        if (!add_target(out, at, n, err))
            return false;
        at += n;
        if (!*at)
            return true;
    }
}

void lora_plan_names(const LoraPlan *lora, char names[LORA_NAMES])
{
    size_t n = 0;
    names[0] = '\0';
    for (int i = 0; i < ROLE_COUNT; i++)
        if (lora->role[i])
            n += (size_t)snprintf(names + n, LORA_NAMES - n, "%s%s", n ? "," : "", target(i));
}

/* ---- The folder ------------------------------------------------------------------------------ */

bool lora_names_check(const Params *p, Error *err)
{
    char module[ADAPTER_MODULE];
    for (int i = p->first; i < p->n; i++)
        if (!adapter_module(&p->config, &p->spec[i], module, NULL, err))
            return false;
    return true;
}

/* Is tensor i an A? The next one is its U, the transpose of B. */
static bool is_down(const Params *p, int i)
{
    return params_lora_index(p, p->spec[i].layer, p->spec[i].role, false) == i;
}

static bool declare(TensorWriter *w, const Params *p, Error *err)
{
    char module[ADAPTER_MODULE], name[ADAPTER_MODULE + 64];
    for (int i = p->first; i < p->n; i++) {
        const TensorSpec *s       = &p->spec[i];
        bool              down    = is_down(p, i);
        int64_t           shape[] = { down ? s->rows : s->k, down ? s->k : s->rows };
        if (!adapter_module(&p->config, s, module, NULL, err))
            return false;
        snprintf(name, sizeof name, "base_model.model.%s.lora_%s.weight", module,
                 down ? "A" : "B");
        if (!tensor_writer_declare(w, name, DT_F32, 2, shape, err))
            return false;
    }
    return true;
}

/* B of the file, from U. NULL: out of memory. */
static float *turn(const float *u, const TensorSpec *s, const RowSource *rows)
{
    size_t rank = (size_t)s->rows, n = (size_t)s->k;
    float *b = malloc(rank * n * sizeof *b);
    for (size_t j = 0; b && j < n; j++)
        for (size_t r = 0; r < rank; r++)
            b[row_source_file_row(rows, (int)j) * rank + r] = u[r * n + j];
    return b;
}

static bool put(TensorWriter *w, const Params *p, const float *values, Error *err)
{
    char      module[ADAPTER_MODULE];
    RowSource rows;
    bool      ok = true;
    for (int i = p->first; ok && i < p->n; i++) {
        const TensorSpec *s    = &p->spec[i];
        const float      *from = values + p->at[i];
        float            *b    = NULL;
        if (!adapter_module(&p->config, s, module, &rows, err))
            return false;
        if (!is_down(p, i) && !(b = turn(from, s, &rows)))
            return no_memory(NULL, err);
        ok = tensor_writer_put(w, i - p->first, 0, b ? b : from,
                               params_length(p, i) * sizeof *from, err);
        free(b);
    }
    return ok;
}

static bool write_tensors(const char *path, const Params *p, const float *values, Error *err)
{
    TensorWriter *w  = tensor_writer_new(path, 64, err);
    bool          ok = w && tensor_writer_meta(w, "format", "pt", err) && declare(w, p, err)
        && tensor_writer_begin(w, err) && put(w, p, values, err);
    if (ok)
        return tensor_writer_end(w, err);
    tensor_writer_abort(w);
    return false;
}

/* The last part of each module's name, once: peft adapts every module whose name ends with it. */
static void out_modules(TextOut *o, const Params *p)
{
    char module[ADAPTER_MODULE];
    for (int i = p->first; i < p->n && p->spec[i].layer == p->spec[p->first].layer; i += 2) {
        if (!adapter_module(&p->config, &p->spec[i], module, NULL, NULL))
            continue;
        const char *word = strrchr(module, '.');
        json_out(o, "%s", word ? word + 1 : module);
    }
}

static bool write_config(const char *path, const Params *p, double alpha, const char *base,
                         Error *err)
{
    TextOut o = { 0 };
    json_out(&o, "{\n  base_model_name_or_path: %s,\n  bias: none,\n  fan_in_fan_out: false,\n"
                 "  inference_mode: true,\n  init_lora_weights: true,\n  lora_alpha: %g,\n"
                 "  lora_dropout: 0.0,\n  peft_type: LORA,\n  r: %d,\n  target_modules: [",
             base, alpha, p->rank);
    out_modules(&o, p);
    json_out(&o, "],\n  task_type: CAUSAL_LM,\n  use_rslora: false\n}\n");
    size_t n    = o.n;
    char  *text = text_out_take(&o, err);
    bool   ok   = text && file_write(path, text, n, err);
    free(text);
    return ok;
}

bool lora_folder_write(const char *const file[2], const Params *p, const float *values,
                       double alpha, const char *base, Error *err)
{
    return write_tensors(file[0], p, values, err) && write_config(file[1], p, alpha, base, err);
}
