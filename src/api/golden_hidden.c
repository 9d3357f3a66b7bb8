/* api/golden_hidden.c: compares the residual stream with a recorded one while it is computed.
 * Stages: embed, then two for each layer, then final_norm. */
#include "api/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGE_EMBED, STAGE_LAYERS };

static int last_stage(const HiddenRun *h) { return hidden_stages(h->n_layers) - 1; }

int hidden_stage(int n_layers, const char *name)
{
    char *end;
    if (strcmp(name, "embed") == 0)
        return STAGE_EMBED;
    if (strcmp(name, "final_norm") == 0)
        return hidden_stages(n_layers) - 1;
    if (strncmp(name, "layer", 5) != 0)
        return -1;
    long l = strtol(name + 5, &end, 10);
    if (l < 0 || l >= n_layers || (*end && strcmp(end, ".attn") != 0))
        return -1;
    return STAGE_LAYERS + 2 * (int)l + !*end;
}

void hidden_tensor_name(int n_layers, int i, char out[32])
{
    int l = (i - STAGE_LAYERS) / 2;
    if (i == STAGE_EMBED || i == hidden_stages(n_layers) - 1)
        snprintf(out, 32, "hidden.%s", i == STAGE_EMBED ? "embed" : "final_norm");
    else
        snprintf(out, 32, "hidden.layer%d%s", l, (i - STAGE_LAYERS) % 2 ? "" : ".attn");
}

static double largest(const Tensor *t)
{
    double m = 0;
    for (size_t i = 0; i < t->n_elements; i++)
        m = golden_is_ordinary(golden_value(t, i)) ? fmax(m, fabs(golden_value(t, i))) : m;
    return m;
}

static double allowed(const Tensor *t, double share)
{
    double m = largest(t);
    return share < 0 ? -1 : share * m + golden_rounding(t, m);
}

bool hidden_open(HiddenRun *h, const GoldenFile *g, const GoldenCase *k, const tblock_context *c,
                 double share, Error *err)
{
    const Config *cfg = &c->model->weights.cfg;
    *h       = (HiddenRun){.n_layers = cfg->n_layers, .d_model = cfg->d_model};
    h->stage = calloc((size_t)last_stage(h) + 1, sizeof *h->stage);
    if (!h->stage)
        return no_memory(NULL, err);
    for (int i = 0; i <= last_stage(h); i++) {
        HiddenStage *s = &h->stage[i];
        char         name[32], found[96];
        hidden_tensor_name(h->n_layers, i, name);
        *s = (HiddenStage){.golden = golden_sibling(g, k, name), .first = -1};
        if (!s->golden)
            continue;
        const int64_t n      = (int64_t)k->tokens->n_elements;
        const bool    hashes = s->golden->dtype == DT_U64 && golden_has_shape(s->golden, n, 0);
        if (!hashes
            && (!golden_is_floats(s->golden) || !golden_has_shape(s->golden, n, cfg->d_model)))
            return fail(
                err, INPUT, "%s: tensor %s: expected F32, F64, F16 or BF16 [%zu, %d], found %s %s",
                g->path, s->golden->name, k->tokens->n_elements, cfg->d_model,
                dtype_name(s->golden->dtype), tensor_shape_text(s->golden, found, sizeof found));
        s->allowed = hashes ? -1 : allowed(s->golden, share);
        h->n_recorded++;
    }
    return true;
}

void hidden_close(HiddenRun *h)
{
    free(h->stage);
    *h = (HiddenRun){0};
}

static void compare_row(HiddenStage *s, size_t pos, const float *x, int n)
{
    GoldenApart apart = GOLDEN_SAME;
    uint64_t    hash; /* of a digest, in place of the state: how far it differs is not known */
    if (s->golden->dtype == DT_U64) {
        memcpy(&hash, (const char *)s->golden->data + pos * sizeof hash, sizeof hash);
        if (hash != print_values(x, (size_t)n))
            apart = (GoldenApart){ NAN, false };
    } else for (int i = 0; i < n; i++)
        golden_compare(&apart, golden_value(s->golden, pos * (size_t)n + (size_t)i), (double)x[i]);
    if (!golden_within(&apart, s->allowed, &s->worst) && s->first < 0)
        s->first = (int64_t)pos;
}

void hidden_observe(void *user, const char *name, size_t first, int n_tok, const float *x,
                    size_t stride)
{
    HiddenRun *h = user;
    int        i = hidden_stage(h->n_layers, name);
    for (int t = 0; i >= 0 && h->stage[i].golden && t < n_tok; t++)
        compare_row(&h->stage[i], h->at + first + (size_t)t, x + (size_t)t * stride, h->d_model);
}

const HiddenStage *hidden_parted(const HiddenRun *h, char name[40], int *layer)
{
    int i = 0;
    while (i <= last_stage(h) && (!h->stage[i].golden || h->stage[i].first < 0))
        i++;
    *layer  = -1;
    name[0] = '\0';
    if (i > last_stage(h))
        return NULL;
    if (i == STAGE_EMBED || i == last_stage(h)) {
        snprintf(name, 40, "%s", i == STAGE_EMBED ? "the embedding" : "the final norm");
    } else {
        bool after = (i - STAGE_LAYERS) % 2; /* the whole layer; which half is known if the first
                                              * was recorded too */
        *layer = (i - STAGE_LAYERS) / 2;
        snprintf(name, 40, "layer %d%s", *layer,
                 !after                       ? ", attention"
                     : h->stage[i - 1].golden ? ", feed-forward"
                                              : "");
    }
    return &h->stage[i];
}
