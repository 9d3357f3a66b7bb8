/* source/meta_folder.c: Meta's folder: params.json, and its shards joined. */
#include "source/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "format/pth.h"
#include "model/config_keys.h"

enum { MAX_PARAMS = 1 << 20, MAX_SHARDS = 64, LARGEST = 1 << 24 };

bool meta_folder_is(const char *path)
{
    char file[PATH_BYTES];
    return path_is_folder(path) && path_there(path, "params.json", file)
        && path_there(path, "consolidated.00.pth", file);
}

/* ---- params.json ----------------------------------------------------------------------------- */

/* Keys that do not change the result. The tensors give the width, so ffn_dim_multiplier and
 * multiple_of are not needed; neither is vocab_size, which the first files have as -1. */
static const char *const harmless[] = { "multiple_of", "ffn_dim_multiplier",
                                        "vocab_size",  "max_batch_size",
                                        "max_seq_len", "model_parallel_size" };

/* Read the config's keys in params.json. *scaled: use_scaled_rope. */
static bool read_keys(KeyReader *r, Config *c, bool *scaled)
{
    const Json *rope = key_take(r, "use_scaled_rope");
    for (const ConfigKey *k = config_keys; k->name; k++) {
        const Json *j  = k->meta ? key_take(r, k->meta) : NULL;
        void       *to = (char *)c + k->at;
        if (!j || (k->kind == KEY_INT && json_is_null(j)))
            continue;
        if (!(k->kind == KEY_INT ? key_size(r, k->meta, j, to) : key_read(r, k, k->meta, j, c)))
            return false;
    }
    if (rope && !key_bool(r, "use_scaled_rope", rope, scaled))
        return false;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        key_take(r, harmless[i]);
    const Json *left = key_left(r, NULL);
    if (left)
        return key_wrong(r, json_key(left),
                         "expected no such key (it may change what the model computes)");
    const char *absent = !c->d_model ? "dim"
        : !c->n_layers               ? "n_layers"
        : !c->heads                  ? "n_heads"
                                     : NULL;
    return !absent || key_wrong(r, absent, "expected a size, found nothing");
}

static bool read_params(const char *file, Config *c, bool *scaled, Error *err)
{
    char  *text;
    size_t n;
    if (!file_read(file, MAX_PARAMS, &text, &n, err))
        return false;
    Json     *root = json_parse(text, n, file, err);
    KeyReader r    = { .path = file, .prefix = "", .json = root, .err = err };
    free(text);
    bool ok = root
        && (json_is_object(root)
            || fail(err, INPUT, "%s: expected an object, found %s", file, json_kind(root)))
        && read_keys(&r, c, scaled);
    json_free(root);
    return ok;
}

/* Fill in what no file says, by generation: Llama 1 has eps 1e-6 and 2,048 positions; Llama 3 has a
 * vocabulary over 128,000; models with scaled rope have 131,072 positions, scaled by 32 in the
 * small models (1B, 3B) and by 8 in the others. */
static void fill_in(Config *c, bool scaled)
{
    bool llama3 = c->vocab_size >= 128000;
    c->n_ctx = scaled ? 131072 : llama3 ? 8192 : c->norm_eps < 5e-6 ? 2048 : 4096;
    c->bos   = llama3 ? 128000 : 1;
    c->n_eos = llama3 ? 3 : 1;
    memcpy(c->eos, llama3 ? (int[]){ 128001, 128008, 128009 } : (int[]){ 2, 0, 0 }, sizeof(int[3]));
    if (scaled)
        c->rope = (Rope){ .type = ROPE_LLAMA3,
                          .factor = c->d_model <= 3072 ? 32 : 8,
                          .low_freq_factor = 1,
                          .high_freq_factor = 4,
                          .original_n_ctx = 8192,
                          .beta_fast = 32,
                          .beta_slow = 1,
                          .attention_factor = -1,
                          .truncate = true };
}

/* ---- Shards ---------------------------------------------------------------------------------- */

typedef struct Shards { TensorFile *file; int n; } Shards;

static bool open_shards(Source *s, Shards *shards, Error *err)
{
    char name[32], path[PATH_BYTES];
    shards->file = source_files(s, MAX_SHARDS, err);
    for (shards->n = 0; shards->file && shards->n < MAX_SHARDS; shards->n++) {
        snprintf(name, sizeof name, "consolidated.%02d.pth", shards->n);
        if (!path_in(s->path, name, path))
            return fail(err, INPUT, "%s: expected a shorter path", s->path);
        if (!path_exists(path))
            return shards->n > 0;
        if (!pth_open(&shards->file[shards->n], path, err))
            return false;
    }
    return shards->file ? fail(err, INPUT, "%s: expected at most %d shards", s->path, MAX_SHARDS)
                        : false;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

typedef enum ShardCut { WHOLE, ROWS, COLUMNS } ShardCut;

static const struct Name { TensorRole role; const char *name; ShardCut cut; } names[] = {
    { ROLE_EMBED, "tok_embeddings.weight", COLUMNS }, /* Llama 3: ROWS */
    { ROLE_ATTN_NORM, "attention_norm.weight", WHOLE }, { ROLE_WQ, "attention.wq.weight", ROWS },
    { ROLE_WK, "attention.wk.weight", ROWS },           { ROLE_WV, "attention.wv.weight", ROWS },
    { ROLE_WO, "attention.wo.weight", COLUMNS },        { ROLE_FFN_NORM, "ffn_norm.weight", WHOLE },
    { ROLE_W_GATE, "feed_forward.w1.weight", ROWS },
       { ROLE_W_UP, "feed_forward.w3.weight", ROWS },
    { ROLE_W_DOWN, "feed_forward.w2.weight", COLUMNS }, { ROLE_FINAL_NORM, "norm.weight", WHOLE },
    { ROLE_LM_HEAD, "output.weight", ROWS },
};

typedef struct MetaBinder {
    Source *s;
    Shards  shards;
    Error  *err;
} MetaBinder;

static void full_name(const struct Name *n, int layer, char *out, size_t size)
{
    if (layer < 0)
        snprintf(out, size, "%s", n->name);
    else
        snprintf(out, size, "layers.%d.%s", layer, n->name);
}

/* Check the shape of one shard of a tensor: [rows, k] with one of the two divided by the shards. */
static bool check_shard(const MetaBinder *b, const TensorSpec *s, const TensorFile *f,
                        const char *name, ShardCut cut, DType dtype)
{
    const Tensor *t = tensor_find(f, name);
    int64_t       n = b->shards.n, rows = cut == ROWS ? s->rows / n : s->rows,
                  k = cut == COLUMNS ? s->k / n : s->k;
    char          found[160], want[64];
    snprintf(want, sizeof want, s->k ? "[%lld, %lld]" : "[%lld]", (long long)rows, (long long)k);
    if (!t)
        return fail(b->err, INPUT, "%s: tensor %s: expected %s, found no such tensor", f->map.path,
                    name, want);
    if (t->rank != (s->k ? 2 : 1) || t->shape[0] != rows || (s->k && t->shape[1] != k))
        return fail(
            b->err, INPUT,
            "%s: tensor %s: expected %s (of %d consolidated.*.pth; are all there?), found %s",
            f->map.path, name, want, b->shards.n, tensor_shape_text(t, found, sizeof found));
    return t->dtype == dtype
        ? true
        : fail(b->err, INPUT, "%s: tensor %s: expected %s as in the first shard, found %s",
               f->map.path, name, dtype_name(dtype), dtype_name(t->dtype));
}

static bool divides(const MetaBinder *b, const TensorSpec *s, const char *name, ShardCut cut)
{
    int size = cut == ROWS ? s->rows : s->k;
    return cut == WHOLE || size % b->shards.n == 0
               ? true
        : fail(b->err, INPUT, "%s: tensor %s: expected a width that %d shards divide, found %d",
                      b->s->path, name, b->shards.n, size);
}

static bool bind(MetaBinder *b, const TensorSpec *s, RowSource *r, CheckedTensor *out)
{
    const struct Name *n = names;
    const Config      *c = &b->s->stored.config;
    char               name[96];
    while (n->role != s->role)
        n++;
    full_name(n, s->layer, name, sizeof name);
    const Tensor *first = tensor_find(&b->shards.file[0], name);
    ShardCut           cut   = b->shards.n == 1 ? WHOLE : n->cut;
    if (s->role == ROLE_EMBED && cut == COLUMNS && first && first->rank == 2
        && first->shape[1] == s->k)
        cut = ROWS;
    int n_parts = cut == WHOLE ? 1 : b->shards.n;
    *r = (RowSource){ .stack = 1,
                      .rows = s->rows,
                      .k = s->k ? s->k : 1,
                      .head_dim = c->head_dim,
                      .n_parts = n_parts,
                      .pair = s->role == ROLE_WQ || s->role == ROLE_WK ? c->head_dim : 0,
                      .shards = n_parts > 1 ? n_parts : 0,
                      .by_columns = cut == COLUMNS,
                      .part = source_alloc(b->s, (size_t)n_parts * sizeof(SourcePart), b->err) };
    if (!r->part || !divides(b, s, name, cut))
        return false;
    for (int i = 0; i < n_parts; i++) {
        const TensorFile *f = &b->shards.file[i];
        if (!check_shard(b, s, f, name, cut, first ? first->dtype : DT_F32))
            return false;
        r->part[i] = (SourcePart){ tensor_find(f, name), &f->map };
    }
    r->name = r->part[0].t->name;
    if (!row_source_type(r->part[0].t->dtype, &r->type))
        return fail(b->err, INPUT, "%s: tensor %s: expected F32, F16 or BF16, found %s", b->s->path,
                    name, dtype_name(r->part[0].t->dtype));
    *out = (CheckedTensor){ .rows = r, .type = r->type };
    return true;
}

/* The name without its layer; NULL if the model has no such layer. */
static const char *part_name(const char *name, int n_layers)
{
    int n = 0, layer;
    if (sscanf(name, "layers.%9d.%n", &layer, &n) != 1 || n == 0)
        return name;
    return layer >= 0 && layer < n_layers ? name + n : NULL;
}

/* An unused tensor would change the result, except the table of frequencies, which follows from
 * theta. */
static bool check_rest(const MetaBinder *b, int n_layers)
{
    for (int i = 0; i < b->shards.n; i++) {
        const TensorFile *f = &b->shards.file[i];
        for (int t = 0; t < f->n_tensors; t++) {
            const char *name = f->tensors[t].name, *part = part_name(name, n_layers);
            bool        known = strcmp(name, "rope.freqs") == 0;
            for (size_t j = 0; part && j < sizeof names / sizeof *names; j++)
                known |= strcmp(part, names[j].name) == 0;
            if (!known)
                return fail(b->err, INPUT, "%s: tensor %s: expected no such tensor", f->map.path,
                            name);
        }
    }
    return true;
}

static bool bind_all(MetaBinder *b)
{
    StoredModel *c = &b->s->stored;
    int         i = 0;
    if (!source_begin(b->s, b->err))
        return false;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(&c->config, &s); i++)
        if (!bind(b, &s, &b->s->rows[i], &c->tensor[i]))
            return false;
    return check_rest(b, c->config.n_layers);
}

/* ---- The folder ------------------------------------------------------------------------------ */

#define W1 "layers.0.feed_forward.w1.weight"

/* Read the sizes that only the tensors give. */
static bool sizes_of_tensors(MetaBinder *b, Config *c)
{
    const TensorFile *f     = &b->shards.file[0];
    const Tensor     *embed = tensor_find(f, names[0].name), *w1 = tensor_find(f, W1);
    bool              there = embed && embed->rank == 2;
    if (!there || !w1 || w1->rank != 2)
        return fail(b->err, INPUT, "%s: tensor %s: expected a matrix, found none", f->map.path,
                    there ? W1 : names[0].name);
    int shards = b->shards.n, parts = embed->shape[1] == c->d_model ? shards : 1;
    if (embed->shape[0] > LARGEST / parts || w1->shape[0] > LARGEST / shards
        || (c->d_ff && c->d_ff != w1->shape[0] * shards))
        return fail(b->err, INPUT, "%s: tensor %s: expected other sizes for this params.json",
                    f->map.path, w1->name);
    c->vocab_size      = (int)embed->shape[0] * parts;
    c->d_ff            = (int)w1->shape[0] * shards;
    c->tied_embeddings = !tensor_find(f, "output.weight");
    return true;
}

bool meta_folder_open(Source *s, Error *err)
{
    char    file[PATH_BYTES];
    Config *c = &s->stored.config;
    bool    scaled = false;
    MetaBinder  b = { .s = s, .err = err };
    config_defaults(c);
    c->norm_eps = 1e-5;
    if (!path_in(s->path, "params.json", file))
        return fail(err, INPUT, "%s: expected a shorter path", s->path);
    if (!read_params(file, c, &scaled, err) || !open_shards(s, &b.shards, err)
        || !sizes_of_tensors(&b, c))
        return false;
    if (c->head_dim == 0 && c->d_model % c->heads != 0)
        return fail(err, INPUT, "%s: dim: expected a multiple of n_heads %d, found %d", file,
                    c->heads, c->d_model);
    c->kv_heads   = c->kv_heads ? c->kv_heads : c->heads;
    c->head_dim   = c->head_dim ? c->head_dim : c->d_model / c->heads;
    c->rotary_dim = c->head_dim;
    fill_in(c, scaled);
    snprintf(c->family, sizeof c->family, "llama");
    if (!config_check(c, file, err) || !config_supported(c, file, err))
        return false;
    s->has_weights = bind_all(&b);
    return s->has_weights;
}
