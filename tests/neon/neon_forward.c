/* tests/neon/neon_forward.c: one model through the rooms base, quant, kernels, model and runtime alone: no JSON, no mapping,
 * no OpenMP, statically linked, so that an emulator of another machine can run it.
 *
 *   neon_forward NAME INDEX MODEL.bin     for each cache type and instruction set: "NAME KV HASH ISA", as exact --digest
 *
 * INDEX is what neon_index.py says about MODEL.bin. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../exact/tokens.h"
#include "base/checked.h"
#include "base/half.h"
#include "base/hash.h"
#include "runtime/forward.h"

enum { MAX_TENSORS = 256, MAX_NAME = 64 };

static Error err;

static void stop(const char *what)
{
    fprintf(stderr, "neon_forward: %s\n", what);
    exit(4);
}

static void *need(void *p)
{
    if (!p)
        stop("no memory");
    return p;
}

/* The whole file, aligned as a mapping is. */
static unsigned char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        stop(path);
    *n = (size_t)ftell(f);
    rewind(f);
    unsigned char *data = need(aligned_alloc(4096, round_up(*n + 1, 4096)));
    if (fread(data, 1, *n, f) != *n)
        stop(path);
    data[*n] = 0;
    fclose(f);
    return data;
}

/* ---- The index ------------------------------------------------------------------------------------------------ */

static void set_rope(Rope *r, const char *key, const char *value)
{
    static const char *const types[] = {"default", "linear", "llama3", "yarn"};
    const struct { const char *key; double *to; } numbers[] = {
        {"factor", &r->factor}, {"low_freq_factor", &r->low_freq_factor}, {"high_freq_factor", &r->high_freq_factor},
        {"original_n_ctx", &r->original_n_ctx}, {"beta_fast", &r->beta_fast}, {"beta_slow", &r->beta_slow},
        {"attention_factor", &r->attention_factor}, {"mscale", &r->mscale}, {"mscale_all_dim", &r->mscale_all_dim},
    };
    if (strcmp(key, "type") == 0) {
        for (int i = 0; i < 4; i++)
            if (strcmp(value, types[i]) == 0)
                r->type = (RopeType)i;
        return;
    }
    if (strcmp(key, "truncate") == 0) {
        r->truncate = strcmp(value, "True") == 0;
        return;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].key) == 0) {
            *numbers[i].to = strtod(value, NULL);
            return;
        }
    stop(key);
}

static void set_config(Config *c, const char *key, const char *value)
{
    const struct { const char *key; int *to; } integers[] = {
        {"d_model", &c->d_model}, {"n_layers", &c->n_layers}, {"heads", &c->heads}, {"kv_heads", &c->kv_heads}, {"head_dim", &c->head_dim},
        {"d_ff", &c->d_ff}, {"vocab_size", &c->vocab_size}, {"n_ctx", &c->n_ctx}, {"window", &c->window}, {"bos", &c->bos},
    };
    const struct { const char *key; bool *to; } switches[] = {
        {"tied_embeddings", &c->tied_embeddings}, {"qkv_bias", &c->qkv_bias}, {"out_bias", &c->out_bias}, {"ffn_bias", &c->ffn_bias}, {"qk_norm", &c->qk_norm},
    };
    if (strncmp(key, "rope.", 5) == 0) {
        set_rope(&c->rope, key + 5, value);
        return;
    }
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (strcmp(key, integers[i].key) == 0)
            *integers[i].to = atoi(value);
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        if (strcmp(key, switches[i].key) == 0)
            *switches[i].to = atoi(value) != 0;
    if (strcmp(key, "theta") == 0)
        c->theta = strtod(value, NULL);
    if (strcmp(key, "norm_eps") == 0)
        c->norm_eps = strtod(value, NULL);
    if (strcmp(key, "family") == 0)
        snprintf(c->family, sizeof c->family, "%.31s", value);
}

static Tensor read_tensor(char *name, const unsigned char *file, size_t file_bytes, const char *rest)
{
    Tensor t = {.name = name};
    char   dtype[8];
    int    used = 0;
    if (sscanf(rest, "%7s %zu %d%n", dtype, &t.offset, &t.rank, &used) != 3 || !dtype_parse(dtype, &t.dtype) || t.rank > TENSOR_MAX_RANK)
        stop(name);
    for (int i = 0; i < t.rank; i++) {
        char *end;
        t.shape[i] = strtoll(rest + used, &end, 10);
        used       = (int)(end - rest);
    }
    if (!shape_bytes(t.dtype, t.rank, t.shape, &t.n_elements, &t.n_bytes) || t.offset + t.n_bytes > file_bytes)
        stop(name);
    t.data = file + t.offset;
    return t;
}

static int by_name(const void *a, const void *b) { return strcmp((*(const Tensor *const *)a)->name, (*(const Tensor *const *)b)->name); }

static void read_index(char *index, const unsigned char *file, size_t file_bytes, Config *c, TensorFile *f)
{
    config_defaults(c);
    f->tensors = need(calloc(MAX_TENSORS, sizeof *f->tensors));
    f->by_name = need(calloc(MAX_TENSORS, sizeof *f->by_name));
    for (char *line = strtok(index, "\n"); line; line = strtok(NULL, "\n")) {
        char kind[16], name[MAX_NAME];
        int  used = 0;
        if (sscanf(line, "%15s %63s %n", kind, name, &used) < 2)
            stop(line);
        if (strcmp(kind, "config") == 0) {
            set_config(c, name, line + used);
        } else if (f->n_tensors < MAX_TENSORS) {
            f->tensors[f->n_tensors++] = read_tensor(need(strdup(name)), file, file_bytes, line + used);
        }
    }
    for (int i = 0; i < f->n_tensors; i++)
        f->by_name[i] = &f->tensors[i];
    qsort(f->by_name, (size_t)f->n_tensors, sizeof *f->by_name, by_name);
}

/* ---- The forward pass ----------------------------------------------------------------------------------------- */

/* As tblock_hash_floats, of [n, vocab_size] without the rows' padding. */
static uint64_t hash_logits(const float *x, int n, int vocab_size, size_t stride)
{
    uint64_t h = FNV_SEED;
    for (int t = 0; t < n; t++)
        for (int i = 0; i < vocab_size; i++) {
            float    v    = x[(size_t)t * stride + (size_t)i];
            uint32_t bits = v != v ? 0x7fc00000u : f32_bits(v);
            h = fnv1a(h, &bits, sizeof bits);
        }
    return h;
}

static uint64_t digest(const Model *m, const Kernels *kernels, KvType type)
{
    const Config *c      = &m->cfg;
    const int     n      = c->n_ctx < MAX_TOKENS ? c->n_ctx : MAX_TOKENS;
    const size_t  stride = round_up((size_t)c->vocab_size, LANES);
    float        *logits = need(aligned_alloc(64, (size_t)n * stride * sizeof *logits));
    KvShape       shape  = {.n_layers = c->n_layers, .kv_heads = c->kv_heads, .head_dim = c->head_dim, .window = c->window, .type = type};
    KvCache       kv;
    BatchToken    batch[MAX_TOKENS];
    Forward      *f = forward_new(m, kernels, n, 1, &err);
    if (!f || !kv_cache_init(&kv, &shape, 1, &err) || !kv_cache_reserve(&kv, 0, n, &err))
        stop(err.msg);
    for (int t = 0; t < n; t++)
        batch[t] = (BatchToken){.seq = 0, .pos = t, .token = token_at(0, t, c->vocab_size), .logits = logits + (size_t)t * stride};
    forward(f, &kv, batch, n, 0);
    uint64_t h = hash_logits(logits, n, c->vocab_size, stride);
    forward_free(f);
    kv_cache_free(&kv);
    free(logits);
    return h;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        stop("usage: neon_forward NAME INDEX MODEL.bin");
    size_t               index_bytes, file_bytes;
    char                *index = (char *)read_all(argv[2], &index_bytes);
    const unsigned char *file  = read_all(argv[3], &file_bytes);
    Config               c;
    TensorFile           f = {.map = {.path = argv[3], .data = file, .size = file_bytes}};
    Model                m;
    read_index(index, file, file_bytes, &c, &f);
    if (!config_check(&c, argv[3], &err) || !model_bind(&m, &c, &f, &err))
        stop(err.msg);
    const Kernels *k;
    for (int i = 0; (k = kernels_table(i)); i++)
        for (int type = 0; type < KV_COUNT; type++)
            printf("%s %s %016" PRIx64 " %s\n", argv[1], type == KV_F16 ? "f16" : "f32", digest(&m, k, (KvType)type), k->isa);
    return 0; /* memory goes with the process */
}
