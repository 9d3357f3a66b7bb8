/* api/synth.c: a model file with random weights for any config, so that speed can be measured at real sizes.
 *
 * Every weight is a function of (seed, tensor name, row, column) alone, so threads may make them in any order. One
 * thread hashes and writes a chunk while the others make the next one; memory is two chunks, whatever the model. */
#include "tblock.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/threads.h"
#include "model/config.h"
#include "model/model_writer.h"

enum {
    CHUNK      = 16 << 20,  /* bytes of a tensor made at once             */
    SMALL      = 1 << 18,   /* below this one thread is as fast as a team */
    MAX_CONFIG = 1 << 20,   /* bytes of a config file                     */
    ALIGN      = 64
};

/* ---- The numbers ---- */

/* The output function of SplitMix64 (Steele, Lea, Flood 2014), applied to a counter. */
static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Row `row` of a tensor: uniform in steps of `step`, mean 0; four columns from each draw. */
static void random_row(float *out, int k, uint64_t key, int row, float step)
{
    uint64_t draws = (uint64_t)k / 4 + (k % 4 != 0), first = key + (uint64_t)row * draws;
    for (int j = 0; j < k; j += 4) {
        uint64_t u = mix(first + (uint64_t)j / 4);
        for (int i = 0; i < 4 && j + i < k; i++)
            out[j + i] = ((float)(u >> 16 * i & 0xffff) - 32767.5f) * step;
    }
}

/* The step that gives a standard deviation: 65536 equal steps have sqrt((65536^2 - 1) / 12) of them. */
static float step_for(double deviation) { return (float)(deviation / 18918.613); }

/* ---- Making tensors, 16 rows at a time ---- */

/* A run of consecutive 16-row blocks of one tensor. */
typedef struct Chunk {
    TensorSpec     spec;
    uint64_t       key;
    int            first, end;       /* blocks; a vector is one block */
    size_t         block_bytes, n_bytes;
    unsigned char *data;
} Chunk;

typedef struct Synth {
    const char  *path;
    WeightType   type;
    uint64_t     seed;
    int          threads;
    ModelWriter *out;
    Chunk        making, writing;    /* writing: made before, n_bytes 0 when there is none */
    atomic_int   next;               /* block of making that no thread has taken           */
    float       *rows;               /* [threads, scratch_floats]                          */
    size_t       scratch_floats;
    size_t       written, total;
    bool         ok;                 /* set by the thread that writes                      */
    Error       *err;
} Synth;

static void make_vector(const Chunk *c)
{
    float *v = (float *)(void *)c->data;
    if (c->spec.bias)
        random_row(v, c->spec.rows, c->key, 0, step_for(0.02));
    else
        for (int i = 0; i < c->spec.rows; i++)
            v[i] = 1;
}

/* Rows of variance 1 / k keep the scale of what passes through; logits come out with a deviation near 1. */
static void make_block(const Chunk *c, WeightType type, int block, float *rows)
{
    int            k = c->spec.k, first = block * PANEL_ROWS;
    int            n     = c->spec.rows - first < PANEL_ROWS ? c->spec.rows - first : PANEL_ROWS;
    size_t         count = (size_t)n * (size_t)k;
    unsigned char *out   = c->data + (size_t)(block - c->first) * c->block_bytes;
    void          *typed = rows + PANEL_ROWS * (size_t)k;
    float          unit  = step_for(1 / sqrt((double)k));
    for (int r = 0; r < n; r++)
        random_row(rows + (size_t)r * (size_t)k, k, c->key, first + r, unit);
    if (c->spec.panels) {
        elements_from_f32(type, typed, rows, count);
        panel_pack(type, out, typed, n, k);
    } else {
        elements_from_f32(type, out, rows, count);
    }
}

/* One thread writes what was made before, then helps with what is being made. */
static void work(void *arg, Team team)
{
    Synth *s = arg;
    if (team.thread == 0 && s->writing.n_bytes)
        s->ok = model_writer_append(s->out, s->writing.data, s->writing.n_bytes, s->err);
    float *rows = s->rows + (size_t)team.thread * s->scratch_floats;
    for (int b; (b = atomic_fetch_add(&s->next, 1)) < s->making.end;) {
        if (s->making.spec.k == 0)
            make_vector(&s->making);
        else
            make_block(&s->making, s->type, b, rows);
    }
}

/* Make s->making while s->writing is written, then swap them. */
static bool make_and_write(Synth *s, const tblock_synth_options *opt)
{
    size_t busy = s->making.n_bytes + s->writing.n_bytes;
    atomic_store(&s->next, s->making.first);
    threads_run(busy < SMALL ? 1 : s->threads, work, s);
    s->written += s->writing.n_bytes;
    if (s->ok && opt->progress)
        opt->progress(opt->user, (double)s->written / (double)s->total);
    Chunk made = s->making;
    s->making  = (Chunk){ .data = s->writing.data };
    s->writing = made;
    return s->ok;
}

static bool make_tensor(Synth *s, const TensorSpec *spec, const tblock_synth_options *opt)
{
    size_t bytes    = tensor_spec_bytes(spec, s->type);
    int    n_blocks = spec->k ? panel_count(spec->rows) : 1;
    size_t block    = spec->k == 0 ? bytes
                    : spec->panels ? panel_bytes(s->type, spec->k)
                                   : PANEL_ROWS * (size_t)spec->k * weight_type_bytes(s->type);
    int    at_once  = block < CHUNK ? (int)(CHUNK / block) : 1;
    for (int first = 0; first < n_blocks; first += at_once) {
        Chunk *c = &s->making;
        size_t start   = (size_t)first * block;
        c->spec        = *spec;
        c->key         = mix(mix(s->seed) ^ fnv1a(FNV_SEED, spec->name, strlen(spec->name)));
        c->first       = first;
        c->end         = n_blocks - first < at_once ? n_blocks : first + at_once;
        c->block_bytes = block;
        c->n_bytes     = c->end == n_blocks ? bytes - start : (size_t)(c->end - first) * block; /* the last rows may be fewer */
        if (!make_and_write(s, opt))
            return false;
    }
    return true;
}

/* ---- The command ---- */

static bool allocate(Synth *s, const Config *c)
{
    size_t block = 0, k = 0;
    for (TensorSpec spec = tensor_list_start(); tensor_list_next(c, &spec);) {
        size_t columns = spec.k ? (size_t)spec.k : 0, bytes = tensor_spec_bytes(&spec, s->type);
        size_t one = columns ? PANEL_ROWS * (columns + 1) * weight_type_bytes(s->type) : bytes;
        k     = columns > k ? columns : k;
        block = one > block ? one : block;
        s->total += bytes;
    }
    size_t chunk      = round_up(block > CHUNK ? block : CHUNK, ALIGN);
    s->scratch_floats = round_up(2 * PANEL_ROWS * k, ALIGN / sizeof(float)); /* as f32, and as the weight type */
    s->making.data    = aligned_alloc(ALIGN, chunk);
    s->writing.data   = aligned_alloc(ALIGN, chunk);
    s->rows           = aligned_alloc(ALIGN, (size_t)s->threads * s->scratch_floats * sizeof(float));
    return s->making.data && s->writing.data && s->rows ? true : fail(s->err, SYSTEM, "%s: no memory to make weights", s->path);
}

static bool synth(Synth *s, const Config *c, const tblock_synth_options *opt)
{
    char source[64];
    snprintf(source, sizeof source, "[{\"synth\": \"seed %llu\"}]", (unsigned long long)s->seed);
    bool ok = allocate(s, c) && (s->out = model_writer_new(s->path, c, s->type, source, s->err)) != NULL;
    if (ok) {
        s->ok = true;
        for (TensorSpec spec = tensor_list_start(); ok && tensor_list_next(c, &spec);)
            ok = make_tensor(s, &spec, opt);
        ok = ok && make_and_write(s, opt); /* the last chunk still waits to be written */
        if (ok)
            ok = model_writer_end(s->out, s->err);
        else
            model_writer_abort(s->out);
    }
    free(s->making.data);
    free(s->writing.data);
    free(s->rows);
    return ok;
}

bool tblock_synth(const char *config_path, const char *out_path, const tblock_synth_options *opt, tblock_error *err)
{
    static const tblock_synth_options defaults = { 0 };
    Synth  s = { .path = out_path, .type = WT_BF16, .err = err };
    Config c;
    char  *json;
    size_t n_bytes;
    if (!opt)
        opt = &defaults;
    if (opt->type && (!weight_type_parse(opt->type, &s.type) || weight_type_quantized(s.type)))
        return fail(err, USAGE, "type: expected f32, f16 or bf16, found '%s'", opt->type);
    if (opt->threads < 0 || opt->threads > 1024)
        return fail(err, USAGE, "threads: expected 0 to 1024, found %d", opt->threads);
    s.seed    = opt->seed;
    s.threads = opt->threads ? opt->threads : threads_default();
    if (!file_check_apart(out_path, config_path, err) || !file_read(config_path, MAX_CONFIG, &json, &n_bytes, err))
        return false;
    bool ok = config_parse(&c, json, n_bytes, config_path, err) && config_supported(&c, config_path, err);
    free(json);
    return ok && synth(&s, &c, opt);
}
