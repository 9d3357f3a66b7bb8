/* api/state_api.c: copies a prefix between sequences, and saves a sequence to a file
 * (docs/format.md, "State"). */
#include "api/drafter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/memory.h"
#include "source/source.h"

static bool check_seq(const tblock_context *c, const char *what, int32_t seq, Error *err)
{
    return check_range(what, seq, 0, c->n_seqs - 1, err);
}

bool tblock_seq_copy(tblock_context *c, int32_t from, int32_t to, int32_t n_tokens,
                     tblock_error *err)
{
    NEED(false, err, c);
    ALONE(c);
    if (!check_seq(c, "sequence from", from, err) || !check_seq(c, "sequence to", to, err))
        return false;
    if (from == to)
        return fail(err, USAGE,
                    "sequence to: expected a different sequence from %d, found the same", from);
    if (n_tokens < 0 || n_tokens > c->kv.seq[from].length)
        return fail(err, USAGE, "sequence %d: tokens to copy: expected 0 to %d, found %d", from,
                    c->kv.seq[from].length, n_tokens);
    if (!context_reserve_tokens(c, to, (size_t)n_tokens, err))
        return false;
    bool shared = kv_cache_share(&c->kv, from, to, n_tokens, err);
    ranks_order_copy(c, from, to, n_tokens, shared);
    if (!shared)
        return false;
    if (n_tokens > 0)
        c->seq_lora[to] = c->seq_lora[from];
    else
        context_begin_seq(c, to);
    if (n_tokens > 0)
        memcpy(c->seq_tokens[to].id, c->seq_tokens[from].id, (size_t)n_tokens * sizeof(int32_t));
    c->seq_tokens[to].scope = c->seq_tokens[from].scope;
    drafter_copy(c->drafter, from, to, n_tokens);
    return true;
}

/* ---- What a state belongs to ----------------------------------------------------------------- */

/* Fails at the first fact in which the file's run differs. Does not print long values (the
 * config). */
static bool check_binding(const TensorFile *f, const RunBinding *b, Error *err)
{
    const char *saved = tensor_meta(f, "model_sha256");
    for (int i = 0; saved && i < BINDING_FACTS; i++) /* before what follows from it */
        if (strcmp(b->fact[i].key, "model_sha256") == 0 && strcmp(b->fact[i].value, saved) != 0)
            return fail(err, INPUT,
                        "%s: saved with another model: metadata model_sha256: expected %.12s..., "
                        "found %.12s...",
                        f->map.path, b->fact[i].value, saved);
    for (int i = 0; i < BINDING_FACTS; i++) {
        const char *key = b->fact[i].key, *want = b->fact[i].value, *found = tensor_meta(f, key);
        if (!want || (found ? strcmp(found, want) == 0 : run_fact_is_new(key)))
            continue;
        if (!found)
            return fail(err, INPUT, "%s: metadata %s: expected \"%.80s\", found no such entry",
                        f->map.path, key, want);
        if (strlen(want) > 80 || strlen(found) > 80)
            return fail(err, INPUT,
                        "%s: metadata %s: expected that of this model, found another: the state "
                        "was saved from another model, or with other adapters",
                        f->map.path, key);
        return fail(err, INPUT, "%s: metadata %s: expected \"%s\", found \"%s\": a state needs the "
                                "settings that it was saved with",
                    f->map.path, key, want, found);
    }
    return true;
}

/* ---- Saving ---------------------------------------------------------------------------------- */

/* The first tile of a layer that a state of n tokens keeps. */
static int first_saved(const KvCache *kv, int seq, int layer, size_t n)
{
    int held  = kv->seq[seq].layer[layer].first;
    /* So that the last token can be recomputed, for its logits. */
    int first = kv_cache_first_tile(kv, layer, (int)n - 1);
    return held > first ? held : first; /* a rewind may have removed it */
}

static int tiles_of(size_t n_tok) { return ((int)n_tok + KV_TILE - 1) / KV_TILE; }

/* A tile of all KV heads, as stored in a file: that of a rank holds only its own. */
static size_t tile_bytes(const tblock_context *c)
{
    return c->kv.head_bytes * (size_t)c->model->weights.cfg.kv_heads;
}

static size_t state_bytes(const tblock_context *c)
{
    return config_state_floats(&c->model->weights.cfg) * sizeof(float);
}

/* In a file, padded with zeros, so that the next layer's tiles are aligned. */
static size_t stored_state_bytes(const tblock_context *c) { return round_up(state_bytes(c), 64); }

/* A buffer for one, with this rank's heads at *own, or for a layer's state. */
static void *tile_room(const tblock_context *c, char **own, Error *err)
{
    size_t bytes, state = stored_state_bytes(c);
    char  *all = mul_size(c->kv.head_bytes, (size_t)c->model->weights.cfg.kv_heads, &bytes)
        ? malloc(bytes > state ? bytes : state) : NULL;
    if (!all)
        fail(err, SYSTEM, "out of memory for a KV tile");
    else
        *own = all + (size_t)c->kv.shape.first_kv_head * c->kv.head_bytes;
    return all;
}

/* Rank 0 receives a tile's other heads. Each rank sends those that no rank before it has. */
static bool gather_tile(const tblock_context *c, void *all)
{
    const Config *cfg = &c->model->weights.cfg;
    Ranks        *r   = c->model->ranks;
    size_t        at[RANKS_MOST + 1];
    for (int i = 0; i < r->size; i++) {
        Range given = rank_columns(cfg, RANK_KV_HEADS, 0, i, r->size);
        at[i]       = (size_t)(given.first / cfg->head_dim) * c->kv.head_bytes;
    }
    at[r->size] = tile_bytes(c);
    return ranks_gather(r, all, at, false, false);
}

/* Rank 0 receives all parts of a layer's state, rank by rank, and assembles them. */
static bool gather_state(const tblock_context *c, const float *own, float *whole)
{
    const Config *cfg = &c->model->weights.cfg;
    Ranks        *r   = c->model->ranks;
    size_t        at[RANKS_MOST + 1] = { 0 };
    for (int i = 0; i < r->size; i++)
        at[i + 1] = at[i] + rank_state_floats(cfg, i, r->size) * sizeof *own;
    char *parts = malloc(at[r->size]);
    if (!parts) {
        ranks_stop(r, "out of memory for the states of all ranks");
        return false;
    }
    memcpy(parts + at[r->rank], own, at[r->rank + 1] - at[r->rank]);
    bool ok = ranks_gather(r, parts, at, false, false);
    for (int i = 0; ok && r->rank == 0 && i < r->size; i++)
        rank_state_copy(cfg, i, r->size, (float *)(void *)(parts + at[i]), whole, true);
    free(parts);
    return ok;
}

/* As stored in a file. */
static bool whole_state(const tblock_context *c, const float *own, char *all)
{
    if (c->model->ranks && !gather_state(c, own, (float *)(void *)all))
        return false;
    if (!c->model->ranks)
        memcpy(all, own, state_bytes(c));
    memset(all + state_bytes(c), 0, stored_state_bytes(c) - state_bytes(c));
    return true;
}

/* Layer l is tensor number l, and so is its state if it has one. */
static bool has_state(const tblock_context *c, int l)
{
    return layers_has(&c->kv.shape.state_layers, l);
}

/* All tiles in order. w NULL: this rank has no file. After a failure of the file, the others still
 * send their tiles. */
static bool put_tiles(TensorWriter *w, const tblock_context *c, int seq, size_t n_tok, char *all,
                      char *own, Error *err)
{
    const size_t bytes = tile_bytes(c);
    bool         ok    = true;
    for (int l = 0; l < c->kv.shape.n_layers; l++) {
        if (has_state(c, l)) {
            if (!whole_state(c, c->kv.seq[seq].layer[l].state, all))
                return false;
            ok = ok && (!w || tensor_writer_put(w, l, 0, all, stored_state_bytes(c), err));
            continue;
        }
        int first = first_saved(&c->kv, seq, l, n_tok);
        for (int i = first; i < tiles_of(n_tok); i++) {
            kv_cache_tile_clean(&c->kv, seq, l, i, own);
            if (c->model->ranks && !gather_tile(c, all))
                return false;
            ok = ok
                && (!w || tensor_writer_put(w, l, (size_t)(i - first) * bytes, all, bytes, err));
        }
    }
    return ok;
}

bool state_put_tiles(TensorWriter *w, const tblock_context *c, int seq, size_t n_tok, Error *err)
{
    char *own, *all = tile_room(c, &own, err);
    bool  ok = all && ranks_order_save(c, seq, err);
    if (ok) {
        ok = put_tiles(w, c, seq, n_tok, all, own, err);
        ok = ranks_done(c, err) && ok;
    }
    free(all);
    return ok;
}

static bool write_state(TensorWriter *w, const tblock_context *c, int seq, const int32_t *tokens,
                        size_t n, Error *err)
{
    const KvCache *kv = &c->kv;
    char name[32];
    bool ok = true;
    for (int l = 0; ok && l < kv->shape.n_layers; l++) {
        int n_tiles = tiles_of(n) - first_saved(kv, seq, l, n);
        snprintf(name, sizeof name, has_state(c, l) ? "state.layer%d" : "kv.layer%d", l);
        if (has_state(c, l))
            ok = tensor_writer_declare(w, name, DT_F32, 1,
                                       (int64_t[]){ (int64_t)(stored_state_bytes(c) / 4) }, err);
        else
            ok = tensor_writer_declare(w, name, DT_U8, 2,
                                       (int64_t[]){ n_tiles, (int64_t)tile_bytes(c) }, err);
    }
    return ok && tensor_writer_declare(w, "tokens", DT_I32, 1, (int64_t[]){ (int64_t)n }, err)
        && tensor_writer_begin(w, err) && state_put_tiles(w, c, seq, n, err)
        && tensor_writer_put(w, kv->shape.n_layers, 0, tokens, n * sizeof *tokens, err);
}

FP_ENV_WORK
static bool save(const tblock_context *c, int32_t seq, const int32_t *tokens, size_t n_tokens,
                 const char *path, tblock_error *err)
{
    enum { PAGE = 4096 };
    RunBinding b;
    if (!check_seq(c, "sequence", seq, err))
        return false;
    if (n_tokens == 0 || n_tokens != (size_t)c->kv.seq[seq].length)
        return fail(err, USAGE,
                    "sequence %d: tokens to save: expected the %d that it holds%s, found %zu", seq,
                    c->kv.seq[seq].length, n_tokens ? "" : " and at least 1", n_tokens);
    if (!check_tokens("", tokens, n_tokens, c->model->weights.cfg.vocab_size, err)
        || !model_check_apart(c->model, path, err)
        || !run_binding(&b, c, context_loaded_as(c, seq), err))
        return false;
    TensorWriter *w = tensor_writer_new(path, PAGE, err);
    bool ok = w && tensor_writer_meta(w, "format", "tblock-state", err)
        && tensor_writer_meta(w, "version", "1", err)
        && tensor_writer_meta(w, "tblock", TBLOCK_VERSION, err);
    for (int i = 0; ok && i < BINDING_FACTS; i++)
        ok = !b.fact[i].value || tensor_writer_meta(w, b.fact[i].key, b.fact[i].value, err);
    ok = ok && write_state(w, c, seq, tokens, n_tokens, err);
    if (ok)
        return tensor_writer_end(w, err);
    tensor_writer_abort(w);
    return false;
}

bool tblock_state_save(const tblock_context *c, int32_t seq, const int32_t *tokens, size_t n_tokens,
                       const char *path, tblock_error *err)
{
    NEED(false, err, c, tokens || !n_tokens, path);
    HOST_ENV_RETURN(bool, save(c, seq, tokens, n_tokens, path, err));
}

/* ---- Loading --------------------------------------------------------------------------------- */

static const char *or_nothing(const char *s) { return s ? s : ""; }

static bool check_format(const TensorFile *f, Error *err)
{
    const char *format = or_nothing(tensor_meta(f, "format")),
               *version = or_nothing(tensor_meta(f, "version"));
    if (strcmp(format, "tblock-state") != 0)
        return fail(err, INPUT, "%s: metadata format: expected \"tblock-state\", found \"%.80s\"",
                    f->map.path, format);
    if (strcmp(version, "1") != 0)
        return fail(err, INPUT, "%s: metadata version: expected 1, found \"%.80s\"", f->map.path,
                    version);
    return true;
}

static const Tensor *find(const TensorFile *f, const char *name, DType dtype, int rank, Error *err)
{
    const Tensor *t = tensor_find(f, name);
    char          shape[64];
    if (!t)
        fail(err, INPUT, "%s: tensor %s: expected %s of rank %d, found no such tensor", f->map.path,
             name, dtype_name(dtype), rank);
    else if (t->dtype != dtype || t->rank != rank)
        fail(err, INPUT, "%s: tensor %s: expected %s of rank %d, found %s %s", f->map.path, name,
             dtype_name(dtype), rank, dtype_name(t->dtype),
             tensor_shape_text(t, shape, sizeof shape));
    else
        return t;
    return NULL;
}

/* Allocates *tokens, because the file's may be unaligned. */
static bool read_tokens(const TensorFile *f, const tblock_context *c, int32_t **tokens, int *n,
                        Error *err)
{
    const Tensor *t = find(f, "tokens", DT_I32, 1, err);
    const int     vocab = c->model->weights.cfg.vocab_size;
    if (!t)
        return false;
    if (t->n_elements == 0)
        return fail(err, INPUT, "%s: tensor tokens: expected at least one, found none",
                    f->map.path);
    if (t->n_elements > (size_t)c->n_ctx)
        return fail(err, USAGE, "%s: the state has %zu tokens, but the context holds %d",
                    f->map.path, t->n_elements, c->n_ctx);
    int32_t *id = malloc(t->n_bytes);
    if (!id)
        return fail(err, SYSTEM, "%s: out of memory for %zu tokens", f->map.path, t->n_elements);
    memcpy(id, t->data, t->n_bytes);
    for (size_t i = 0; i < t->n_elements; i++)
        if (id[i] < 0 || id[i] >= vocab) {
            fail(err, INPUT, "%s: tensor tokens: token %zu: expected 0 to %d, found %d",
                 f->map.path, i, vocab - 1, id[i]);
            free(id);
            return false;
        }
    *tokens = id;
    *n      = (int)t->n_elements;
    return true;
}

static bool find_state(const TensorFile *f, const tblock_context *c, int l, KvMapped *out,
                       Error *err)
{
    char          name[32], shape[64];
    snprintf(name, sizeof name, "state.layer%d", l);
    const Tensor *t = find(f, name, DT_F32, 1, err);
    if (!t)
        return false;
    if (t->n_bytes != stored_state_bytes(c))
        return fail(err, INPUT, "%s: tensor %s: expected [%zu], found %s", f->map.path, name,
                    stored_state_bytes(c) / 4, tensor_shape_text(t, shape, sizeof shape));
    *out = (KvMapped){ t->data, 0 };
    return true;
}

/* Finds where every layer's tiles are, and how many are missing before them: only tiles that a
 * window hides, and the same number in every windowed layer. */
static bool find_layers(const TensorFile *f, const tblock_context *c, int n_tok, KvMapped *layer,
                        Error *err)
{
    const KvCache *kv    = &c->kv;
    const size_t   bytes = tile_bytes(c);
    const int      tiles = tiles_of((size_t)n_tok);
    int       windowed = -1; /* the first layer with a window */
    char      name[32], shape[64];
    for (int l = 0; l < kv->shape.n_layers; l++) {
        const int hidden = kv_cache_first_tile(kv, l, n_tok);
        if (has_state(c, l)) {
            if (!find_state(f, c, l, &layer[l], err))
                return false;
            continue;
        }
        snprintf(name, sizeof name, "kv.layer%d", l);
        const Tensor *t = find(f, name, DT_U8, 2, err);
        if (!t)
            return false;
        int64_t least = tiles - hidden, most = tiles;
        if (hidden && windowed >= 0)
            least = most = tiles - layer[windowed].first;
        if (t->shape[0] < least || t->shape[0] > most || t->shape[1] != (int64_t)bytes)
            return fail(err, INPUT, "%s: tensor %s: expected [%d, %zu] for %d tokens, found %s",
                        f->map.path, name, (int)least, bytes, n_tok,
                        tensor_shape_text(t, shape, sizeof shape));
        if ((uintptr_t)t->data % 64 != 0)
            return fail(err, INPUT, "%s: tensor %s: expected an offset that is a multiple of 64, "
                                    "found %zu",
                        f->map.path, name, t->offset);
        layer[l] = (KvMapped){t->data, tiles - (int)t->shape[0]};
        windowed = hidden && windowed < 0 ? l : windowed;
    }
    return true;
}

bool state_start(tblock_context *c, int32_t seq, const int32_t *tokens, size_t n, int first,
                 Error *err)
{
    if (!check_seq(c, "sequence", seq, err) || !context_reserve_tokens(c, seq, n, err)
        || !kv_cache_start(&c->kv, seq, (int)n, first, err))
        return false;
    memcpy(c->seq_tokens[seq].id, tokens, n * sizeof *tokens);
    return true;
}

/* data: rank 0's, whole. */
static bool take_state(tblock_context *c, int seq, int l, const void *data, float *room)
{
    const Ranks *r = c->model->ranks;
    if (data)
        memcpy(room, data, state_bytes(c));
    if (!ranks_broadcast(c->model->ranks, room, state_bytes(c), false))
        return false;
    rank_state_copy(&c->model->weights.cfg, r->rank, r->size, c->kv.seq[seq].layer[l].state, room,
                    false);
    return true;
}

bool state_take_tiles(tblock_context *c, int seq, const KvMapped *layer, Error *err)
{
    const int tiles = tiles_of((size_t)c->kv.seq[seq].length);
    char     *own, *room = tile_room(c, &own, err);
    bool      ok = room && ranks_order_tiles(c, seq, err), met = ok;
    for (int l = 0; met && l < c->kv.shape.n_layers; l++) {
        const char *data = layer ? layer[l].data : NULL;
        if (has_state(c, l))
            met = take_state(c, seq, l, data, (float *)(void *)room);
        for (int i = c->kv.seq[seq].layer[l].first; met && !has_state(c, l) && i < tiles; i++) {
            if (data)
                memcpy(room, data + (size_t)(i - layer[l].first) * tile_bytes(c), tile_bytes(c));
            met = ranks_broadcast(c->model->ranks, room, tile_bytes(c), false);
            if (met)
                kv_cache_tile_set(&c->kv, seq, l, i, room);
        }
    }
    free(room);
    return ok && ranks_done(c, err);
}

/* Each rank takes its heads from the file that rank 0 has. */
static bool hand_out_layers(tblock_context *c, int seq, const int32_t *tokens, int n_tok,
                            const KvMapped *layer, Error *err)
{
    int first = 0;
    for (int l = 0; l < c->kv.shape.n_layers; l++)
        first = layer[l].first > first ? layer[l].first : first;
    bool ok = ranks_order_start(c, seq, tokens, (size_t)n_tok, first, state_start, err)
        && state_take_tiles(c, seq, layer, err);
    if (!ok)
        context_rewind(c, seq, 0);
    return ok;
}

static bool load_layers(TensorFile *f, tblock_context *c, int seq, const int32_t *tokens, int n_tok,
                        Error *err)
{
    KvMapped *layer = malloc(((size_t)c->kv.shape.n_layers + 1) * sizeof *layer);
    bool      ok    = layer ? find_layers(f, c, n_tok, layer, err) : no_memory(f->map.path, err);
    if (ok)
        file_map_will_need(&f->map, f->data_offset, f->data_bytes);
    if (ok && c->model->ranks)
        ok = hand_out_layers(c, seq, tokens, n_tok, layer, err);
    else if (ok && (ok = context_reserve_tokens(c, seq, (size_t)n_tok, err)
                        && kv_cache_adopt(&c->kv, seq, n_tok, layer, &f->map, err)))
        memcpy(c->seq_tokens[seq].id, tokens, (size_t)n_tok * sizeof *tokens);
    free(layer);
    return ok;
}

FP_ENV_WORK
static bool load(tblock_context *c, int32_t seq, const char *path, int32_t **tokens,
                 size_t *n_tokens, tblock_error *err)
{
    TensorFile f;
    RunBinding    b;
    int32_t   *id = NULL;
    int        n  = 0;
    if (!check_seq(c, "sequence", seq, err) || !safetensors_open_private(&f, path, err))
        return false;
    bool ok = check_format(&f, err) && run_binding(&b, c, context_loaded_as(c, -1), err)
        && check_binding(&f, &b, err)
        && read_tokens(&f, c, &id, &n, err);
    if (ok && f.n_tensors != c->kv.shape.n_layers + 1)
        ok = fail(err, INPUT, "%s: expected %d tensors, found %d", path, c->kv.shape.n_layers + 1,
                  f.n_tensors);
    ok = ok && load_layers(&f, c, seq, id, n, err);
    if (ok)
        c->seq_lora[seq] = c->lora;
    tensor_file_close(&f);
    if (!ok) {
        free(id);
        return false;
    }
    *tokens   = id;
    *n_tokens = (size_t)n;
    return true;
}

bool tblock_state_load(tblock_context *c, int32_t seq, const char *path, int32_t **tokens,
                       size_t *n_tokens, tblock_error *err)
{
    NEED(false, err, tokens, n_tokens);
    *tokens = NULL;
    *n_tokens = 0;
    NEED(false, err, c, path);
    ALONE(c);
    HOST_ENV_RETURN(bool, load(c, seq, path, tokens, n_tokens, err));
}
