/* api/lora_api.c: a model's adapters, and which of them a context's sequences use. */
#include "api/api.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/json.h"
#include "base/memory.h"
#include "source/adapter.h"

/* Adapters that were set together. */
struct LoraChoice {
    LoraSet set;
    char   *loaded_as;      /* "stored + lora SHA256:1" */
};

/* ---- Of a model ------------------------------------------------------------------------------ */

FP_ENV_WORK
static bool load_here(tblock_model *m, const char *path, size_t number, Error *err)
{
    model_free_loras(m, number);
    if (!source_need_weights(&m->source, err))
        return false;
    if (!ARRAY_ROOM(m->lora, m->cap_lora, m->n_lora + 1))
        return no_memory(path, err);
    Lora *l = calloc(1, sizeof *l);
    if (!l)
        return no_memory(path, err);
    if (!adapter_open(l, &m->weights.cfg, path, err)) {
        lora_free(l);
        free(l);
        return false;
    }
    m->lora[m->n_lora++] = l;
    return true;
}

bool lora_load_here(tblock_model *m, const char *path, size_t number, Error *err)
{
    HOST_ENV_RETURN(bool, load_here(m, path, number, err));
}

bool tblock_lora_load(tblock_model *m, const char *path, int *number, tblock_error *err)
{
    NEED(false, err, m, path, number);
    const size_t n  = m->n_lora;
    const bool   ok = m->ranks ? ranks_order_lora(m, path, lora_load_here, err)
                               : lora_load_here(m, path, n, err);
    if (!ok)
        model_free_loras(m, n);
    *number = ok ? (int)n : -1;
    return ok;
}

const char *tblock_lora_hash(const tblock_model *m, int number)
{
    NEED(NULL, NULL, m);
    return number >= 0 && (size_t)number < m->n_lora ? m->lora[number]->sha256 : NULL;
}

bool model_check_apart(const tblock_model *m, const char *output, Error *err)
{
    bool apart = source_check_apart(&m->source, output, err);
    for (size_t i = 0; apart && i < m->n_lora; i++)
        apart = adapter_check_apart(m->lora[i], output, err);
    return apart;
}

bool model_check_hash(const tblock_model *m, Error *err)
{
    return m->ranks ? ranks_check_hash(m, err) : source_hash_check(&m->source, err);
}

void model_free_loras(tblock_model *m, size_t from)
{
    while (m->n_lora > from) {
        Lora *last = m->lora[--m->n_lora];
        lora_free(last);
        free(last);
    }
}

/* ---- In a context ---------------------------------------------------------------------------- */

static bool read_set(const tblock_model *m, const tblock_lora *use, size_t n, LoraSet *out,
                     Error *err)
{
    if (n > LORA_MOST)
        return fail(err, USAGE, "lora: expected at most %d adapters at once, found %zu", LORA_MOST,
                    n);
    *out = (LoraSet){ .n = (int)n };
    for (size_t i = 0; i < n; i++) {
        int number = use[i].adapter;
        if (number < 0 || (size_t)number >= m->n_lora)
            return fail(err, USAGE, "lora: adapter: expected a number below %zu, found %d",
                        m->n_lora, number);
        if (!isfinite(use[i].scale))
            return fail(err, USAGE, "lora: scale: expected a finite number");
        out->use[i] = (LoraUse){ m->lora[number], use[i].scale };
    }
    return true;
}

static bool same_set(const LoraSet *a, const LoraSet *b)
{
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = a->use[i].lora == b->use[i].lora && a->use[i].scale == b->use[i].scale;
    return same;
}

static bool used(const tblock_context *c, const LoraChoice *x)
{
    bool any = c->lora == &x->set;
    for (int s = 0; !any && s < c->n_seqs; s++)
        any = c->seq_lora[s] == &x->set;
    return any;
}

static void free_choice(LoraChoice *x)
{
    if (x)
        free(x->loaded_as);
    free(x);
}

static void drop_unused(tblock_context *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_loras; i++)
        if (used(c, c->loras[i]))
            c->loras[n++] = c->loras[i];
        else
            free_choice(c->loras[i]);
    c->n_loras = n;
}

static const char *plainly_loaded_as(const tblock_model *m)
{
    return m->retyped ? m->retyped : "stored";
}

static char *spell(const tblock_model *m, const LoraSet *set, Error *err)
{
    TextOut o = { 0 };
    text_out(&o, "%s", plainly_loaded_as(m));
    for (int i = 0; i < set->n; i++) {
        text_out(&o, " + lora %s:", set->use[i].lora->sha256);
        json_out_double(&o, set->use[i].scale);
    }
    return text_out_take(&o, err);
}

static LoraChoice *new_choice(const tblock_context *c, const LoraSet *set, Error *err)
{
    LoraChoice *x    = calloc(1, sizeof *x);
    char       *text = spell(c->model, set, err);
    if (!x || !text) {
        free(x);
        free(text);
        no_memory(NULL, err);
        return NULL;
    }
    *x = (LoraChoice){ *set, text };
    return x;
}

/* The choice for this set: an existing one, or a new one. */
static LoraChoice *find_choice(tblock_context *c, const LoraSet *set, Error *err)
{
    for (size_t i = 0; i < c->n_loras; i++)
        if (same_set(&c->loras[i]->set, set))
            return c->loras[i];
    drop_unused(c);
    if (!ARRAY_ROOM(c->loras, c->cap_loras, c->n_loras + 1)) {
        no_memory(NULL, err);
        return NULL;
    }
    LoraChoice *x = new_choice(c, set, err);
    if (x)
        c->loras[c->n_loras++] = x;
    return x;
}

static bool check_empty(const tblock_context *c, int32_t seq, Error *err)
{
    if (seq < -1 || seq >= c->n_seqs)
        return fail(err, USAGE, "lora: sequence: expected -1 to %d, found %d", c->n_seqs - 1, seq);
    if (seq >= 0 && (c->kv.seq[seq].length > 0 || c->seq_tokens[seq].taken))
        return fail(err, USAGE, "lora: sequence %d: expected one that holds no tokens and is no "
                                "generation's, found another", seq);
    return true;
}

bool lora_set_of(tblock_context *c, const tblock_lora *use, size_t n, const LoraSet **out,
                 Error *err)
{
    LoraSet     set;
    LoraChoice *x = NULL;
    if (!read_set(c->model, use, n, &set, err) || (n && !(x = find_choice(c, &set, err)))
        || (n && !forward_lora(c->forward, c->seq_lora, &x->set, err)))
        return false;
    *out = x ? &x->set : NULL;
    return true;
}

FP_ENV_WORK
static bool choose(tblock_context *c, int32_t seq, const tblock_lora *use, size_t n, Error *err)
{
    const LoraSet *set;
    if (!check_empty(c, seq, err) || !lora_set_of(c, use, n, &set, err))
        return false;
    if (seq >= 0) {
        c->seq_lora[seq] = set;
        return true;
    }
    c->lora = set;
    for (int32_t s = 0; s < c->n_seqs; s++)
        if (c->kv.seq[s].length == 0)
            context_begin_seq(c, s);
    return true;
}

bool tblock_lora_choose(tblock_context *c, int32_t seq, const tblock_lora *use, size_t n,
                        tblock_error *err)
{
    NEED(false, err, c, use || !n);
    ALONE(c);
    HOST_ENV_RETURN(bool, choose(c, seq, use, n, err));
}

void context_begin_seq(tblock_context *c, int32_t seq)
{
    if (!c->seq_tokens[seq].taken)
        c->seq_lora[seq] = c->lora;
}

const char *context_loaded_as(const tblock_context *c, int32_t seq)
{
    const LoraSet *set = seq < 0 ? c->lora : c->seq_lora[seq];
    for (size_t i = 0; i < c->n_loras; i++)
        if (&c->loras[i]->set == set)
            return c->loras[i]->loaded_as;
    return plainly_loaded_as(c->model);
}

char *lora_loaded_as(const tblock_model *m, const tblock_lora *use, size_t n, Error *err)
{
    LoraSet set;
    return read_set(m, use, n, &set, err) ? spell(m, &set, err) : NULL;
}

void context_free_loras(tblock_context *c)
{
    for (size_t i = 0; i < c->n_loras; i++)
        free_choice(c->loras[i]);
    free(c->loras);
    free(c->seq_lora);
}
