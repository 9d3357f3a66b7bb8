/* source/hf_layers.c: which layers of a Hugging Face folder have a state, a window, rotation or
 * experts, as its config.json says it in several ways. */
#include "source/hf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Lists of layers ------------------------------------------------------------------------- */

/* Add the layers that a key lists. *given: is it there, and not null? */
static bool listed(HfReader *r, const char *name, Layers *set, bool *given)
{
    const Json *list = key_take(&r->keys, name);
    *given = list && !json_is_null(list);
    if (*given && !json_is_array(list))
        return key_wrong(&r->keys, name, "expected an array of layers, found %s", json_kind(list));
    for (const Json *i = json_first(list); i; i = json_next(i)) {
        int64_t l;
        if (!json_read_int(i, key_what(&r->keys, name), 0, INT32_MAX, &l, r->keys.err))
            return false;
        if (l < r->c->n_layers)
            layers_add(set, (int)l);
    }
    return true;
}

/* Add the layers that a list names by this word: it has one of two words for each. */
static bool layers_called(HfReader *r, const char *name, const Json *list, const char *so,
                          const char *otherwise, Layers *set)
{
    char key[48], found[80];
    int  l = 0;
    if (!json_is_array(list) || json_count(list) != (size_t)r->c->n_layers)
        return key_wrong(&r->keys, name, "expected %d entries, found %zu", r->c->n_layers,
                         json_count(list));
    for (const Json *i = json_first(list); i; i = json_next(i), l++) {
        const char *word = "";
        if (json_is_string(i) && !json_read_string(i, "", &word, NULL))
            return false;
        snprintf(key, sizeof key, "%s[%d]", name, l);
        if (strcmp(word, so) == 0)
            layers_add(set, l);
        else if (strcmp(word, otherwise) != 0)
            return key_wrong(&r->keys, key, "expected '%s' or '%s', found %s", so, otherwise,
                             key_found(i, found, sizeof found));
    }
    return true;
}

/* ---- Layers with a state --------------------------------------------------------------------- */

/* Without layer_types. LFM2: all but full_attn_idxs, or none; LFM2-MoE requires it. Qwen3-Next: all
 * but every n-th. */
static bool unnamed_states(HfReader *r, const Layers *full, bool given, int every)
{
    Config    *c     = r->c;
    const bool delta = r->family->has & DELTA_RULE;
    if (!delta && !(r->family->has & FF_ADJUSTED))
        return key_wrong(&r->keys, "layer_types", "expected %d entries, found none", c->n_layers);
    for (int l = 0; (given || delta) && l < c->n_layers; l++)
        if (delta ? (l + 1) % every != 0 : !layers_has(full, l))
            layers_add(&c->state_layers, l);
    return true;
}

static bool state_layers(HfReader *r)
{
    Config     *c     = r->c;
    const bool  delta = r->family->has & DELTA_RULE;
    const Json *list  = key_take(&r->keys, "layer_types"),
               *step  = delta ? key_take(&r->keys, "full_attention_interval") : NULL;
    const char *state = delta ? "linear_attention" : "conv";
    Layers      full  = { 0 };
    bool        given = false;
    int         every = 4;
    if ((r->family->has & FF_ADJUSTED && !listed(r, "full_attn_idxs", &full, &given))
        || (step && !key_size(&r->keys, "full_attention_interval", step, &every)))
        return false;
    if (!list || json_is_null(list))
        return unnamed_states(r, &full, given, every);
    return layers_called(r, "layer_types", list, state, "full_attention", &c->state_layers);
}

/* LFM2: intermediate_size is not the width that a block has, unless a flag says so. */
static bool adjust_ff(HfReader *r)
{
    const Json *on       = key_take(&r->keys, "block_auto_adjust_ff_dim"),
               *times    = key_take(&r->keys, "block_ffn_dim_multiplier"),
               *multiple = key_take(&r->keys, "block_multiple_of");
    bool        adjusts  = true;
    double      factor   = 1, width = floor(2.0 * r->c->d_ff / 3);
    int         unit     = 256;
    if ((on && !key_bool(&r->keys, "block_auto_adjust_ff_dim", on, &adjusts))
        || (multiple && !key_size(&r->keys, "block_multiple_of", multiple, &unit))
        || (times && !key_number(&r->keys, "block_ffn_dim_multiplier", times, &factor)))
        return false;
    if (!adjusts)
        return true;
    width = ceil(floor(factor * width) / unit) * unit;
    if (!(width >= 1 && width <= KEY_LARGEST))
        return key_wrong(&r->keys, "intermediate_size",
                         "expected a width of 1 to %d after block_ffn_dim_multiplier and "
                         "block_multiple_of, found %.9g", KEY_LARGEST, width);
    r->c->d_ff = (int)width;
    return true;
}

/* A convolution that no layer has is dropped, so that equal models have equal configs. */
bool hf_state_layers(HfReader *r)
{
    Config *c = r->c;
    if (!(r->family->has & (SHORT_CONV | DELTA_RULE)))
        return true;
    c->attn_gate = r->family->has & DELTA_RULE;
    if (!state_layers(r) || (r->family->has & FF_ADJUSTED && !adjust_ff(r)))
        return false;
    if (!config_has_state(c))
        config_no_states(c);
    return true;
}

/* ---- Layers without rotation ----------------------------------------------------------------- */

/* Families that list them: 1 rotates, 0 does not. */
bool hf_no_rope_layers(HfReader *r)
{
    Config     *c    = r->c;
    const Json *list = key_take(&r->keys, "no_rope_layers"),
               *step = key_take(&r->keys, "no_rope_layer_interval");
    int         l = 0, every = 4;
    if (r->family->rope_rule != ROPE_LISTED)
        return true;
    if (step && !key_size(&r->keys, "no_rope_layer_interval", step, &every))
        return false;
    if (!list || json_is_null(list)
        || (r->family->window == WINDOW_CHUNKED && json_is_array(list) && json_count(list) == 0)) {
        for (l = every - 1; l < c->n_layers; l += every)
            layers_add(&c->no_rope_layers, l);
        return true;
    }
    if (!json_is_array(list) || json_count(list) < (size_t)c->n_layers)
        return key_wrong(&r->keys, "no_rope_layers", "expected %d entries or more, found %zu",
                         c->n_layers, json_count(list));
    for (const Json *i = json_first(list); i && l < c->n_layers; i = json_next(i), l++) {
        int rotates;
        if (!key_int(&r->keys, "no_rope_layers", i, 0, 1, &rotates))
            return false;
        if (!rotates)
            layers_add(&c->no_rope_layers, l);
    }
    return true;
}

/* ---- Windows --------------------------------------------------------------------------------- */

static bool layers_are_named(HfReader *r)
{
    return json_is_array(key_take(&r->keys, "layer_types"));
}

/* "LLLG": local, global. */
static bool is_letters(const Json *j)
{
    const char *word;
    Error       ignored;
    return json_is_string(j) && json_read_string(j, "", &word, &ignored) && *word
        && word[strspn(word, "LG")] == '\0';
}

/* What transformers saves for a model without windows. */
static bool is_zero(const Json *j)
{
    int64_t n;
    Error   ignored;
    return json_is_number(j) && json_read_int(j, "", 0, 0, &n, &ignored);
}

/* Add the layers without a window by the family's rule. A pattern in letters, or of 0, says nothing
 * that layer_types does not. */
static bool full_layers(HfReader *r, bool windowed, Layers *full)
{
    const Family *f = r->family;
    int64_t       first = 28;
    int           every = f->window_every;
    const Json   *j;
    const char   *name;
    if (f->window == WINDOW_LAST) {
        j = key_take(&r->keys, "max_window_layers");
        if (j && !json_is_null(j)
            && !json_read_int(j, key_what(&r->keys, "max_window_layers"), 0, INT32_MAX, &first,
                              r->keys.err))
            return false;
        for (int l = 0; l < r->c->n_layers && l < first; l++)
            layers_add(full, l);
    } else if (f->window == WINDOW_EVERY) {
        if (!key_take_any(&r->keys, "sliding_window_pattern|_sliding_window_pattern", &j, &name)
            || (j && !json_is_null(j) && !((is_letters(j) || is_zero(j)) && layers_are_named(r))
                && !(is_zero(j) && !windowed) && !key_size(&r->keys, name, j, &every)))
            return false;
        for (int l = every - 1; l < r->c->n_layers; l += every)
            layers_add(full, l);
    } else if (f->window == WINDOW_BUT_FIRST) {
        for (int l = 0; l < r->c->n_layers; l += every)
            layers_add(full, l);
    } else if (f->window == WINDOW_CHUNKED) {
        *full = r->c->no_rope_layers;
    } else if (f->window == WINDOW_UNROTATED) {
        for (int l = 0; l < r->c->n_layers; l++)
            if (!layers_has(&r->c->no_rope_layers, l))
                layers_add(full, l);
    } else if (f->window == WINDOW_NAMED && windowed
               && (!(j = key_take(&r->keys, "layer_types")) || json_is_null(j))) {
        return key_wrong(
            &r->keys, "layer_types",
            "expected the layers with a window, as use_sliding_window is true, found no such key");
    }
    return true;
}

static const char *window_key(const Config *c)
{
    return c->window_chunked ? "attention_chunk_size" : "sliding_window";
}

/* Read layer_types, which names the layers without a window. If all layers of a family are the
 * same, the list must say so too. */
static bool layer_types(HfReader *r, const Json *list, Layers *full)
{
    Config *c       = r->c;
    const char *windowed = c->window_chunked ? "chunked_attention" : "sliding_attention";
    bool    sliding = c->window > 0, both = sliding && r->family->window > WINDOW_ALL;
    char    key[32], found[80], hint[48] = "no sliding_window";
    int     l = 0;
    if (!json_is_array(list) || json_count(list) != (size_t)c->n_layers)
        return key_wrong(&r->keys, "layer_types", "expected %d entries, found %zu", c->n_layers,
                         json_count(list));
    *full = (Layers){ 0 };
    for (const Json *i = json_first(list); i; i = json_next(i), l++) {
        const char *word = "";
        bool        is_full, good;
        if (json_is_string(i) && !json_read_string(i, "", &word, NULL))
            return false;
        is_full = strcmp(word, "full_attention") == 0;
        good    = is_full ? both || !sliding : sliding && strcmp(word, windowed) == 0;
        snprintf(key, sizeof key, "layer_types[%d]", l);
        if (sliding)
            snprintf(hint, sizeof hint, "%s %d", window_key(c), c->window);
        if (!good)
            return key_wrong(&r->keys, key, "expected '%s'%s, found %s (%s)",
                             sliding ? windowed : "full_attention",
                             both ? " or 'full_attention'" : "",
                             key_found(i, found, sizeof found), hint);
        if (is_full && sliding)
            layers_add(full, l);
    }
    return true;
}

/* A window that no layer uses is dropped, so that equal models have equal configs. */
bool hf_window_layers(HfReader *r)
{
    const Family *f = r->family;
    Config       *c = r->c;
    bool          on = f->window != WINDOW_NONE;
    int           n_full = 0;
    if (f->window == WINDOW_LAST || f->window == WINDOW_NAMED || f->window == WINDOW_UNROTATED) {
        const Json *use = key_take(&r->keys, "use_sliding_window");
        on = false;
        if (use && !json_read_bool(use, key_what(&r->keys, "use_sliding_window"), &on, r->keys.err))
            return false;
    }
    c->window_chunked = f->window == WINDOW_CHUNKED;
    const Json *size  = f->window == WINDOW_NONE ? NULL : key_take(&r->keys, window_key(c));
    if (on && !size)
        c->window = f->window_absent;
    else if (on && (c->window_chunked || f->window_needed || !json_is_null(size))
             && !key_size(&r->keys, window_key(c), size, &c->window))
        return false;
    Layers      full  = { 0 };
    const Json *types;
    if (!full_layers(r, c->window > 0, &full))
        return false;
    types = f->has & (SHORT_CONV | DELTA_RULE) ? NULL : key_take(&r->keys, "layer_types");
    if (types && !json_is_null(types) && !layer_types(r, types, &full))
        return false;
    for (int l = 0; l < c->n_layers; l++)
        n_full += layers_has(&full, l);
    if (c->window && f->rope_rule == ROPE_WINDOWED)
        c->no_rope_layers = full;
    if (c->window == 0 || n_full == c->n_layers) {
        c->window         = 0;
        c->window_chunked = false;
        c->theta_window   = 0;
    } else {
        c->full_layers = full;
    }
    return true;
}

/* Does each token see the whole text? Gemma 3 then has a window of half the size on either side. */
bool hf_directions(HfReader *r)
{
    static const char both_key[] = "use_bidirectional_attention", causal_key[] = "is_causal";
    Config     *c      = r->c;
    const Json *causal = key_take(&r->keys, causal_key),
               *both = r->family->has & TAKES_BOTH_WAYS ? key_take(&r->keys, both_key) : NULL;
    bool is_causal = true, on = false;
    if ((causal && !json_is_null(causal)
         && !json_read_bool(causal, key_what(&r->keys, causal_key), &is_causal, r->keys.err))
        || (both && !json_is_null(both)
            && !json_read_bool(both, key_what(&r->keys, both_key), &on, r->keys.err)))
        return false;
    c->bidirectional = on || !is_causal || r->family->has & BOTH_WAYS;
    if (on)
        c->window = c->window ? c->window / 2 + 1 : 0;
    return on || !c->bidirectional || c->window == 0
        || key_wrong(&r->keys, window_key(c), "expected none where attention goes in both "
                                              "directions, found %d", c->window);
}

/* A theta for each layer, 0: it does not rotate. Our config has one for layers with a window, and
 * one for the others. */
bool hf_layer_thetas(HfReader *r)
{
    Config     *c    = r->c;
    const Json *list = r->family->rope_rule == ROPE_THETAS ? key_take(&r->keys, "layer_rope_theta")
                                                           : NULL;
    double      theta[2] = { 0, 0 }, x = 0;
    int         l        = 0;
    if (!list || json_is_null(list))
        return true;
    if (!json_is_array(list) || json_count(list) != (size_t)c->n_layers)
        return key_wrong(&r->keys, "layer_rope_theta", "expected %d numbers, found %zu",
                         c->n_layers, json_count(list));
    for (const Json *i = json_first(list); i; i = json_next(i), l++) {
        double *same = &theta[config_window(c, l) != 0];
        if (!key_number(&r->keys, "layer_rope_theta", i, &x))
            return false;
        if (x == 0)
            layers_add(&c->no_rope_layers, l);
        else if (*same != 0 && *same != x)
            return key_wrong(&r->keys, "layer_rope_theta",
                             "expected one theta in all layers %s a "
                             "window, found %.9g and %.9g",
                             config_window(c, l) ? "with" : "without", *same, x);
        else
            *same = x;
    }
    c->theta = theta[0] != 0 ? theta[0] : theta[1] != 0 ? theta[1] : c->theta;
    c->theta_window = theta[0] != 0 && theta[1] != theta[0] ? theta[1] : 0;
    return c->theta_window == 0 || c->rope.type == ROPE_DEFAULT
        || key_wrong(&r->keys, "layer_rope_theta", "expected one theta with a scaling of the "
                     "rotation, found %.9g and %.9g", theta[0], theta[1]);
}

/* ---- Experts --------------------------------------------------------------------------------- */

/* Families have experts only in every n-th layer, or from one layer to another. */
static bool dense_layers(HfReader *r)
{
    const MoeLayers *m = &r->family->moe;
    Config          *c = r->c;
    const char *name = m->step ? m->step : m->first || m->types ? "" : "decoder_sparse_step";
    const Json *step_key = key_take(&r->keys, name),
               *first_key = m->first ? key_take(&r->keys, m->first) : NULL,
               *last_key = m->last ? key_take(&r->keys, m->last) : NULL,
               *types = m->types ? key_take(&r->keys, m->types) : NULL;
    int         step = 1, first = m->first_absent, last = -1;
    Layers      moe = { 0 };
    bool        given = types && !json_is_null(types);
    if ((step_key && !key_size(&r->keys, name, step_key, &step))
        || (first_key && !key_int(&r->keys, m->first, first_key, 0, KEY_LARGEST, &first))
        || (last_key && !key_int(&r->keys, m->last, last_key, -1, KEY_LARGEST, &last))
        || (m->list && !listed(r, m->list, &moe, &given))
        || (m->types && given && !layers_called(r, m->types, types, "sparse", "dense", &moe)))
        return false;
    for (int l = 0; l < c->n_layers; l++)
        if (given ? !layers_has(&moe, l)
                  : l < first || (last >= 0 && l > last) || (l + 1) % step != 0)
            layers_add(&c->dense_layers, l);
    return m->first || m->list || m->types
        || listed(r, "mlp_only_layers", &c->dense_layers, &given);
}

/* DeepSeek V2: experts are chosen from all, or from the groups with the largest scores. */
static bool topk_method(HfReader *r)
{
    Config     *c = r->c;
    const Json *method = key_take(&r->keys, "topk_method");
    const char *word   = "greedy";
    char        found[80];
    if (method && json_is_string(method) && !json_read_string(method, "", &word, NULL))
        return false;
    c->group_by_largest = strcmp(word, "group_limited_greedy") == 0;
    if ((method && !json_is_string(method))
        || (!c->group_by_largest && strcmp(word, "greedy") != 0))
        return key_wrong(&r->keys, "topk_method", "expected 'greedy' or 'group_limited_greedy', "
                         "found %s", key_found(method, found, sizeof found));
    if (!c->group_by_largest)
        c->expert_groups = c->groups_used = 0;
    return true;
}

/* If no layer has experts, the config says so. One group is no group. */
bool hf_experts(HfReader *r)
{
    const Family *f = r->family;
    Config       *c = r->c;
    int           n_dense = 0;
    if (c->n_experts == 0)
        return true;
    if (f->has & SHARED_COUNTED) {
        if (c->expert_d_ff > 0 && c->shared_d_ff > KEY_LARGEST / c->expert_d_ff)
            return fail(r->keys.err, INPUT, "%s: %d shared experts of width %d: too many",
                        r->keys.path, c->shared_d_ff, c->expert_d_ff);
        c->shared_d_ff *= c->expert_d_ff;
    }
    if (f->topk_method && !topk_method(r))
        return false;
    if (c->expert_groups == c->groups_used) {
        c->expert_groups = c->groups_used = 0;
        c->group_by_largest = false;
    }
    if (!c->renormalize)
        c->renormalize_min = c->renormalize_add = 0;
    if (!dense_layers(r))
        return false;
    for (int l = 0; l < c->n_layers; l++)
        n_dense += layers_has(&c->dense_layers, l);
    if (n_dense == c->n_layers)
        config_no_experts(c);
    return true;
}
