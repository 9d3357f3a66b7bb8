/* tests/exact/matrix.c: the product of all that must not change a bit. Every run of a model, with
 * one KV type, one arithmetic and one width of activations, is compared with the same run of the
 * first build by the scalar kernels, on one thread, alone, the prompt whole: all logits of the
 * prompt, the greedy tokens and those that are sampled, by memcmp.
 *
 *   matrix [--product [--part K/N] [--seconds N] | --no-runs] [--digests FILE] --builds
 *     LIBTBLOCK.SO... --models NAME=PATH[:TYPE]...
 *
 * Axes: build, instruction set, threads, length of a prompt piece, alone or beside two other
 * sequences; weights, KV type, math, activations. Default: runs in which every two values of any
 * two axes meet (pairwise), chosen with a fixed seed. --product: every combination, in a scattered
 * order; N seconds of it if that is less; the K-th of N parts of it, from 1, each as scattered. Two
 * modes of which one is a name for the other (auto, and what auto stands for) have references of
 * the same bits: the product runs the first of them in full, the others once in each build and
 * instruction set, where a name is resolved. Libraries are opened with dlopen, so that different
 * compilers' builds stand side by side in one process. --digests writes one line for each
 * reference, to be compared with a file; with --no-runs that is all. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tblock.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

enum { PROMPT = 130, SAMPLED = 12, MOST_BUILDS = 8, MOST_MODELS = 24, MOST_ISAS = 8, N_OTHERS = 2 };
enum Axis { BUILD, ISA, THREADS, PIECE, BESIDE, WEIGHTS, KV, MATH, ACTIVATIONS, N_AXES };
static const char *const axis_name[] = { "build",   "isa", "threads", "piece",      "beside",
                                         "weights", "kv",  "math",    "activations" };
enum { MOST_VALUES = 16 };

static const int         thread_counts[] = {1, 2, 3, 5, 16};
static const int         pieces[]        = {PROMPT, 1, 3, 16, 63, 64, 65};
static const char *const kv_types[]      = {"f32", "f16", "q8"};
static const char *const maths[]         = {"auto", "f32", "bf16", "int8"};
static const char *const activations[]   = {"auto", "8", "16"};

/* The functions of one build. */
typedef struct Library {
    char name[64];
    tblock_model *(*open)(const char *, const tblock_open_options *, tblock_error *);
    void (*describe)(const tblock_model *, tblock_model_info *);
    tblock_context *(*context_new)(const tblock_model *, const tblock_context_options *,
                                   tblock_error *);
    void (*context_free)(tblock_context *);
    bool (*decode)(tblock_context *, const tblock_item *, size_t, tblock_error *);
    const float *(*logits)(const tblock_context *, size_t);
    bool (*rewind)(tblock_context *, int32_t, int32_t, tblock_error *);
    tblock_sampler *(*sampler_new)(int, const tblock_sampler_options *, tblock_error *);
    void (*sampler_free)(tblock_sampler *);
    bool (*sampler_next)(tblock_sampler *, const float *, const int32_t *, size_t, uint32_t,
                         int32_t *, tblock_error *);
    uint64_t (*hash_floats)(const float *, size_t);
} Library;

typedef struct Model {
    char          name[32], path[512];
    const char   *type; /* to open it with; NULL: as stored */
    tblock_model *open[MOST_BUILDS];
    int           vocab;
    bool          valid[COUNT(maths)][COUNT(activations)];
} Model;

typedef struct Result { float *logits; int32_t greedy[SAMPLED], sampled[SAMPLED]; } Result;

static Library     libs[MOST_BUILDS];
static Model       models[MOST_MODELS];
static const char *isas[MOST_ISAS];
static int         n_libs, n_models, n_isas, size_of[N_AXES], failures;

static void *need(void *p)
{
    if (!p) {
        fprintf(stderr, "matrix: no memory\n");
        exit(TBLOCK_SYSTEM);
    }
    return p;
}

static void stop(const char *what, const char *why)
{
    printf("FAIL matrix: %s: %s\n", what, why);
    exit(1);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void find(void *handle, const char *symbol, void *function)
{
    void *at = dlsym(handle, symbol);
    if (!at)
        stop("dlsym", dlerror());
    memcpy(function, &at, sizeof at); /* an object pointer for a function pointer, as POSIX has
                                       * it */
}

/* build/NAME/libtblock.so */
static void open_library(const char *path)
{
    Library    *l   = &libs[n_libs++];
    void       *h   = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *end = strrchr(path, '/');
    if (!h)
        stop(path, dlerror());
    while (end && end > path && end[-1] != '/')
        end--;
    snprintf(l->name, sizeof l->name, "%.*s", end ? (int)strcspn(end, "/") : 4, end ? end : path);
    find(h, "tblock_open", &l->open);
    find(h, "tblock_model_describe", &l->describe);
    find(h, "tblock_context_new", &l->context_new);
    find(h, "tblock_context_free", &l->context_free);
    find(h, "tblock_decode", &l->decode);
    find(h, "tblock_logits", &l->logits);
    find(h, "tblock_seq_rewind", &l->rewind);
    find(h, "tblock_sampler_new", &l->sampler_new);
    find(h, "tblock_sampler_free", &l->sampler_free);
    find(h, "tblock_sampler_next", &l->sampler_next);
    find(h, "tblock_hash_floats", &l->hash_floats);
}

/* The model in build b, opened when first asked for. */
static tblock_model *model_in(int b, Model *m)
{
    tblock_error        err;
    tblock_open_options opt = {.type = m->type};
    if (!m->open[b] && !(m->open[b] = libs[b].open(m->path, &opt, &err)))
        stop(m->path, err.msg);
    return m->open[b];
}

static tblock_context *try_context(int b, Model *m, const char *isa, const char *math,
                                   const char *act, tblock_error *err)
{
    tblock_context_options opt = {.threads = 1, .isa = isa, .math = math, .activations = act};
    return libs[b].context_new(model_in(b, m), &opt, err);
}

/* Which arithmetic there is for these weights: what is not is wrong usage (docs/numerics.md,
 * "Modes"). */
static void find_modes(Model *m)
{
    tblock_error err;
    for (int i = 0; i < COUNT(maths); i++)
        for (int k = 0; k < COUNT(activations); k++) {
            tblock_context *c = try_context(0, m, "scalar", maths[i], activations[k], &err);
            if (!c && err.status != TBLOCK_USAGE)
                stop(m->path, err.msg);
            m->valid[i][k] = c != NULL;
            libs[0].context_free(c);
        }
}

/* NAME=PATH[:TYPE] */
static void open_model(const char *text)
{
    Model            *m     = &models[n_models++];
    const char       *equal = strchr(text, '='), *colon = strrchr(text, ':');
    tblock_model_info info;
    if (!equal)
        stop(text, "expected NAME=PATH[:TYPE]");
    snprintf(m->name, sizeof m->name, "%.*s", (int)(equal - text), text);
    snprintf(m->path, sizeof m->path, "%.*s",
             colon ? (int)(colon - equal - 1) : (int)strlen(equal + 1), equal + 1);
    m->type = colon ? colon + 1 : NULL;
    libs[0].describe(model_in(0, m), &info);
    if (strncmp(info.weight_types, m->name, strlen(m->name)) != 0)
        stop(text, info.weight_types); /* the matrices are not what the name says */
    m->vocab = info.vocab_size;
    find_modes(m);
}

static void find_isas(void)
{
    static const char *const names[] = { "scalar",     "avx2",       "avxvnni", "avx512",
                                         "avx512vnni", "avx512bf16", "neon",    "neondot" };
    for (int i = 0; i < COUNT(names); i++) {
        tblock_error    err;
        tblock_context *c = try_context(0, &models[0], names[i], NULL, NULL, &err);
        if (c)
            isas[n_isas++] = names[i];
        libs[0].context_free(c);
    }
}

/* ---- One run --------------------------------------------------------------------------------- */

typedef struct Run {
    const Library  *lib;
    tblock_context *c;
    int             vocab, others; /* how many sequences beside number 0 */
    int             at[1 + N_OTHERS];
    tblock_error    err;
} Run;

static int32_t token_at(int seq, int pos, int vocab)
{
    uint32_t h = (uint32_t)(seq * 1000 + pos + 1) * 2654435761u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    return (int32_t)(h % (uint32_t)vocab);
}

/* n tokens of sequence 0, and some of the others in the same call, in front of them and behind. */
static bool feed(Run *r, const int32_t *tokens, int n, float *out)
{
    tblock_item items[PROMPT * (1 + N_OTHERS)] = {0};
    int         k = 0, first;
    for (int i = 0; r->others > 0 && i < (n + 1) / 2; i++, r->at[1]++)
        items[k++] = (tblock_item){1, r->at[1], token_at(1, r->at[1], r->vocab), i % 3 == 0};
    first = k;
    for (int i = 0; i < n; i++, r->at[0]++)
        items[k++] = (tblock_item){0, r->at[0], tokens[i], true};
    for (int i = 0; r->others > 1 && i < (n > 8 ? n / 8 : 1); i++, r->at[2]++)
        items[k++] = (tblock_item){2, r->at[2], token_at(2, r->at[2], r->vocab), true};
    if (!r->lib->decode(r->c, items, (size_t)k, &r->err))
        return false;
    for (int i = 0; i < n; i++)
        memcpy(out + (size_t)i * (size_t)r->vocab, r->lib->logits(r->c, (size_t)(first + i)),
               (size_t)r->vocab * sizeof *out);
    return true;
}

static bool prompt(Run *r, int piece, float *logits)
{
    int32_t tokens[PROMPT];
    bool    ok = true;
    for (int i = 0; i < PROMPT; i++)
        tokens[i] = token_at(0, i, r->vocab);
    for (int at = 0; ok && at < PROMPT; at += piece)
        ok = feed(r, tokens + at, piece < PROMPT - at ? piece : PROMPT - at,
                  logits + (size_t)at * (size_t)r->vocab);
    return ok;
}

/* SAMPLED tokens after the prompt, whose last logits are given; the sequence is the prompt again
 * afterwards. */
static bool sample(Run *r, const tblock_sampler_options *how, const float *last, int32_t *out)
{
    float          *logits = need(malloc((size_t)r->vocab * sizeof *logits));
    tblock_sampler *s      = r->lib->sampler_new(r->vocab, how, &r->err);
    bool            ok     = s != NULL;
    memcpy(logits, last, (size_t)r->vocab * sizeof *logits);
    for (int i = 0; ok && i < SAMPLED; i++)
        ok = r->lib->sampler_next(s, logits, out, (size_t)i, (uint32_t)(PROMPT + i), &out[i],
                                  &r->err)
            && feed(r, &out[i], 1, logits);
    ok       = ok && r->lib->rewind(r->c, 0, PROMPT, &r->err);
    r->at[0] = PROMPT;
    r->lib->sampler_free(s);
    free(logits);
    return ok;
}

static bool run(const int row[N_AXES], Result *out, tblock_error *err)
{
    static const tblock_sampler_options greedy = { 0 },
                                        sampled = { .temp = 0.9f,
                                                    .top_k = 40,
                                                    .top_p = 0.95,
                                                    .repeat_penalty = 1.1f,
                                                    .seed = 11 };
    Model                 *m   = &models[row[WEIGHTS]];
    Run r = { .lib = &libs[row[BUILD]], .vocab = m->vocab, .others = row[BESIDE] ? N_OTHERS : 0 };
    tblock_context_options opt = { .n_seqs = 1 + r.others,
                                   .threads = thread_counts[row[THREADS]],
                                   .isa = isas[row[ISA]],
                                   .math = maths[row[MATH]],
                                   .activations = activations[row[ACTIVATIONS]],
                                   .kv_type = kv_types[row[KV]] };
    r.c = r.lib->context_new(model_in(row[BUILD], m), &opt, &r.err);
    const bool ok = r.c && prompt(&r, pieces[row[PIECE]], out->logits)
        && sample(&r, &greedy, out->logits + (size_t)(PROMPT - 1) * (size_t)r.vocab, out->greedy)
        && sample(&r, &sampled, out->logits + (size_t)(PROMPT - 1) * (size_t)r.vocab, out->sampled);
    r.lib->context_free(r.c);
    *err = r.err;
    return ok;
}

/* ---- References ------------------------------------------------------------------------------ */

static Result *references[MOST_MODELS][COUNT(kv_types)][COUNT(maths)][COUNT(activations)];

static bool allowed(const int row[N_AXES])
{
    return models[row[WEIGHTS]].valid[row[MATH]][row[ACTIVATIONS]];
}

static Result *result_new(int vocab)
{
    Result *r = need(calloc(1, sizeof *r));
    r->logits = need(calloc((size_t)PROMPT * (size_t)vocab, sizeof *r->logits));
    return r;
}

static void result_free(Result *r)
{
    if (r)
        free(r->logits);
    free(r);
}

static const Result *reference(const int row[N_AXES])
{
    Result **at = &references[row[WEIGHTS]][row[KV]][row[MATH]][row[ACTIVATIONS]];
    if (!*at) {
        tblock_error err;
        int          plain[N_AXES];
        memcpy(plain, row, sizeof plain);
        for (int a = 0; a < WEIGHTS; a++)
            plain[a] = 0;
        *at = result_new(models[row[WEIGHTS]].vocab);
        if (!run(plain, *at, &err))
            stop(models[row[WEIGHTS]].path, err.msg);
    }
    return *at;
}

static void describe(const int row[N_AXES], char *text, size_t n)
{
    snprintf(text, n, "%s_%s_%d_threads_pieces_of_%d_%s_%s_kv_%s_math_%s_activations_%s",
             libs[row[BUILD]].name, isas[row[ISA]], thread_counts[row[THREADS]], pieces[row[PIECE]],
             row[BESIDE] ? "beside" : "alone", models[row[WEIGHTS]].name, kv_types[row[KV]],
             maths[row[MATH]], activations[row[ACTIVATIONS]]);
}

static const char *what_differs(const Result *a, const Result *b, int vocab, char *text, size_t n)
{
    const size_t floats = (size_t)PROMPT * (size_t)vocab;
    const bool   same   = memcmp(a->logits, b->logits, floats * sizeof *a->logits) == 0;
    for (size_t i = 0; !same && i < floats; i++)
        if (memcmp(a->logits + i, b->logits + i, sizeof *a->logits) != 0) {
            snprintf(text, n, "position %zu, logit %zu: %a and %a", i / (size_t)vocab,
                     i % (size_t)vocab, (double)a->logits[i], (double)b->logits[i]);
            return text;
        }
    if (memcmp(a->greedy, b->greedy, sizeof a->greedy) != 0)
        return "other greedy tokens";
    return memcmp(a->sampled, b->sampled, sizeof a->sampled) != 0 ? "other sampled tokens" : NULL;
}

static void check(const int row[N_AXES])
{
    char          name[256], why[256];
    tblock_error  err    = {0};
    const int     vocab  = models[row[WEIGHTS]].vocab;
    const Result *want   = reference(row);
    Result       *got    = result_new(vocab);
    const char   *differ =
        run(row, got, &err) ? what_differs(want, got, vocab, why, sizeof why) : err.msg;
    if (differ) {
        describe(row, name, sizeof name);
        printf("FAIL matrix_%s: %s\n", name, differ);
        failures++;
    }
    result_free(got);
}

/* ---- Which runs ------------------------------------------------------------------------------ */

static uint64_t random_state = 20240229;

static int random_below(int n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (uint64_t)n);
}

static bool met[N_AXES][MOST_VALUES][N_AXES][MOST_VALUES];

/* A random row that is allowed and has these two values; false: there seems to be none. */
static bool random_row(int row[N_AXES], int a, int i, int b, int j)
{
    for (int tries = 0; tries < 500; tries++) {
        for (int k = 0; k < N_AXES; k++)
            row[k] = random_below(size_of[k]);
        row[a] = i;
        row[b] = j;
        if (allowed(row))
            return true;
    }
    return false;
}

static int newly_met(const int row[N_AXES])
{
    int n = 0;
    for (int a = 0; a < N_AXES; a++)
        for (int b = a + 1; b < N_AXES; b++)
            n += !met[a][row[a]][b][row[b]];
    return n;
}

/* Run the best of some rows in which these two values meet. */
static bool run_pair(int a, int i, int b, int j)
{
    int best[N_AXES], row[N_AXES], most = 0;
    for (int k = 0; k < 60; k++)
        if (random_row(row, a, i, b, j) && newly_met(row) > most) {
            most = newly_met(row);
            memcpy(best, row, sizeof best);
        }
    if (!most)
        return false;
    for (int x = 0; x < N_AXES; x++)
        for (int y = x + 1; y < N_AXES; y++)
            met[x][best[x]][y][best[y]] = true;
    check(best);
    return true;
}

static void pairwise(void)
{
    int n_runs = 0, n_pairs = 0, n_impossible = 0;
    for (int a = N_AXES - 1; a > 0; a--) /* the constrained axes first */
        for (int b = a - 1; b >= 0; b--)
            for (int i = 0; i < size_of[a]; i++)
                for (int j = 0; j < size_of[b]; j++) {
                    n_pairs++;
                    if (met[b][j][a][i])
                        continue;
                    const bool possible = run_pair(b, j, a, i);
                    n_runs += possible;
                    n_impossible += !possible;
                }
    if (!failures)
        printf("ok matrix_pairwise (%d runs, %d pairs of values, %d of them without meaning)\n",
               n_runs, n_pairs - n_impossible, n_impossible);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Row number i of the product. */
static void row_at(uint64_t i, int row[N_AXES])
{
    for (int a = 0; a < N_AXES; a++) {
        row[a] = (int)(i % (uint64_t)size_of[a]);
        i /= (uint64_t)size_of[a];
    }
}

/* Is this mode another name of one before it? Then the references of both have the same bits. */
static bool is_alias(const int row[N_AXES])
{
    const Model *m = &models[row[WEIGHTS]];
    int          other[N_AXES];
    char         why[256];
    memcpy(other, row, sizeof other);
    for (other[MATH] = 0; other[MATH] <= row[MATH]; other[MATH]++)
        for (other[ACTIVATIONS] = 0; other[ACTIVATIONS] < COUNT(activations);
             other[ACTIVATIONS]++) {
            if (other[MATH] == row[MATH] && other[ACTIVATIONS] == row[ACTIVATIONS])
                return false;
            if (allowed(other)
                && !what_differs(reference(row), reference(other), m->vocab, why, sizeof why))
                return true;
        }
    return false;
}

/* Does the product have this row? Of an alias: one thread, the prompt whole, alone. */
static bool in_product(const int row[N_AXES])
{
    return allowed(row)
        && ((row[THREADS] == 0 && row[PIECE] == 0 && row[BESIDE] == 0) || !is_alias(row));
}

static void product(int part, int parts, double limit)
{
    uint64_t     all = 1, done = 0, meant = 0;
    const double start = seconds();
    int          row[N_AXES];
    for (int a = 0; a < N_AXES; a++)
        all *= (uint64_t)size_of[a];
    const uint64_t prime = 2147483647; /* a stride that visits every row once: it divides no product
                                        * of small sizes */
    for (uint64_t k = 0, i = 0; k < all; k++, i = (i + prime) % all) {
        row_at(i, row);
        if (!in_product(row) || (int)(meant++ % (uint64_t)parts) != part - 1
            || (limit > 0 && seconds() - start > limit))
            continue;
        check(row);
        if (++done % 1000 == 0)
            fprintf(stderr, "matrix: %" PRIu64 " runs, %.0f s\n", done, seconds() - start);
    }
    if (!failures)
        printf("ok matrix_product (part %d of %d: %" PRIu64 " runs of %" PRIu64 ")\n", part, parts,
               done, meant);
}

/* One line for each reference; those of the file must be the same. */
static void digests(const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f)
        stop(path, "cannot be written");
    for (int w = 0; w < n_models; w++)
        for (int kv = 0; kv < COUNT(kv_types); kv++)
            for (int i = 0; i < COUNT(maths); i++)
                for (int k = 0; k < COUNT(activations); k++) {
                    const int row[N_AXES] = {
                        [WEIGHTS] = w, [KV] = kv, [MATH] = i, [ACTIVATIONS] = k
                    };
                    if (!allowed(row))
                        continue;
                    const Result *r = reference(row);
                    fprintf(
                        f, "%s kv_%s math_%s activations_%s %016" PRIx64 " greedy", models[w].name,
                        kv_types[kv], maths[i], activations[k],
                        libs[0].hash_floats(r->logits, (size_t)PROMPT * (size_t)models[w].vocab));
                    for (int t = 0; t < SAMPLED; t++)
                        fprintf(f, "%c%d", t ? ',' : ' ', r->greedy[t]);
                    fprintf(f, " sampled");
                    for (int t = 0; t < SAMPLED; t++)
                        fprintf(f, "%c%d", t ? ',' : ' ', r->sampled[t]);
                    fputc('\n', f);
                }
    if (fclose(f) != 0)
        stop(path, "cannot be written");
}

int main(int argc, char **argv)
{
    bool        whole = false, runs = true;
    double      limit = 0;
    const char *file  = NULL;
    int         i = 1, part = 1, parts = 1;
    for (; i < argc && strcmp(argv[i], "--builds") != 0; i++) {
        if (strcmp(argv[i], "--product") == 0)
            whole = true;
        else if (strcmp(argv[i], "--no-runs") == 0)
            runs = false;
        else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            limit = atof(argv[++i]);
        else if (strcmp(argv[i], "--part") == 0 && i + 1 < argc
                 && sscanf(argv[i + 1], "%d/%d", &part, &parts) == 2 && part > 0 && part <= parts)
            i++;
        else if (strcmp(argv[i], "--digests") == 0 && i + 1 < argc)
            file = argv[++i];
        else
            stop(argv[i], "unknown option");
    }
    for (i++; i < argc && strcmp(argv[i], "--models") != 0 && n_libs < MOST_BUILDS; i++)
        open_library(argv[i]);
    for (i++; i < argc && n_libs && n_models < MOST_MODELS; i++)
        open_model(argv[i]);
    if (!n_libs || !n_models || i < argc) /* none is left out in silence */
        stop("usage", "matrix [OPTION...] --builds LIB... --models NAME=PATH...");
    find_isas();
    const int sizes[N_AXES] = {
        n_libs,   n_isas,          COUNT(thread_counts), COUNT(pieces),     2,
        n_models, COUNT(kv_types), COUNT(maths),         COUNT(activations)
    };
    memcpy(size_of, sizes, sizeof size_of);
    printf("axes:");
    for (int a = 0; a < N_AXES; a++)
        printf(" %s %d%s", axis_name[a], size_of[a], a + 1 < N_AXES ? "," : "\n");
    if (file)
        digests(file);
    if (runs && whole)
        product(part, parts, limit);
    else if (runs)
        pairwise();
    fprintf(stderr, "matrix: %.1f s of CPU time\n", (double)clock() / CLOCKS_PER_SEC);
    return failures ? 1 : 0;
}
