/* tests/exact/exact.c: the same bits, whatever the instruction set, the threads, the cut of the
 * prompt, the batch.
 *
 *   exact MODEL...                      memcmp of all logits between runs that must agree
 *   exact --digest [--isa NAME] MODEL...  one line for each model and cache type: "NAME KV HASH"
 *   exact --lora ADAPTER MODEL          the same memcmp with an adapter, in company with others
 *
 * Uses the public headers alone. The variants are chosen pairwise: every prompt piece meets every
 * number of threads, and instruction sets and cache types rotate beneath them so that each meets
 * each. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tblock_tools.h"

enum { MAX_TOKENS = 140, N_SEQS = 3, MAX_ISAS = 8 }; /* 140 positions: three tiles of 64, the last
                                                      * not full */

static const char *const kv_types[] = {"f32", "f16", "q8"};
static const int thread_counts[]    = {1, 2, 3, 7};
static const int pieces[]           = {MAX_TOKENS, 1, 3, 16, 63, 64, 65};

/* Other arithmetic than the default, where a model has weights for it: with an f32 cache only. */
typedef struct Mode { const char *name, *math, *activations; } Mode;
static const Mode modes[] = { { "f32", NULL, NULL },
                              { "f32_math_f32", "f32", NULL },
                              { "f32_math_bf16", "bf16", NULL },
                              { "f32_activations_8", NULL, "8" },
                              { "f32_activations_16", NULL, "16" } };
static const Mode *mode = &modes[0]; /* of every context */

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

typedef struct Variant {
    const char *isa, *kv;
    int         threads, piece, n_batch;
    bool        few; /* logits are wanted of some tokens only: the last block skips the others */
} Variant;

static const char *adapter; /* path; NULL: none */

/* The adapters of a sequence's tokens: one, none, one twice. */
static bool choose_adapters(tblock_context *c, int seq, int stream, tblock_error *err)
{
    static const tblock_lora use[]   = { { 0, 1 }, { 0, -0.5 } };
    static const size_t      count[] = { 1, 0, 2 };
    return !adapter || tblock_lora_choose(c, seq, use, count[stream], err);
}

static int failures;

static void say_failure(const char *model, const char *fact, const char *why)
{
    printf("FAIL exact_%s_%s: %s\n", model, fact, why);
    failures++;
}

static void *need(void *p)
{
    if (!p) {
        fprintf(stderr, "exact: no memory\n");
        exit(TBLOCK_SYSTEM);
    }
    return p;
}

/* Token number pos of sequence seq: any fixed sequence will do. */
static int32_t token_at(int seq, int pos, int vocab_size)
{
    uint32_t h = (uint32_t)(seq * 1000 + pos + 1) * 2654435761u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    return (int32_t)(h % (uint32_t)vocab_size);
}

/* FOLDER/NAME.bin: NAME; FOLDER/model.gguf, as published folders have it: FOLDER.gguf */
static const char *base_name(const char *path, char *buf, size_t n)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *folder = slash;
    while (folder && folder > path && folder[-1] != '/')
        folder--;
    if (folder && strcmp(name, "model.gguf") == 0)
        return snprintf(buf, n, "%.*s.gguf", (int)(slash - folder), folder), buf;
    snprintf(buf, n, "%s", name);
    buf[strcspn(buf, ".")] = 0;
    return buf;
}

static tblock_context *context(const tblock_model *m, const Variant *v, int n_seqs,
                               tblock_error *err)
{
    tblock_context_options opt = { .n_seqs = n_seqs,
                                   .n_batch = v->n_batch,
                                   .threads = v->threads,
                                   .isa = v->isa,
                                   .kv_type = v->kv,
                                   .math = mode->math,
                                   .activations = mode->activations };
    return tblock_context_new(m, &opt, err);
}

/* Decode items [first, end) and copy their logits to out[item.seq][item.pos]. */
static bool decode(tblock_context *c, const tblock_item *items, int first, int end,
                   float *const *out, int vocab_size, tblock_error *err)
{
    if (!tblock_decode(c, items + first, (size_t)(end - first), err))
        return false;
    for (int i = first; i < end; i++) {
        if (!items[i].want_logits)
            continue;
        const float *logits = tblock_logits(c, (size_t)(i - first));
        if (!logits) {
            snprintf(err->msg, sizeof err->msg, "no logits for item %d", i);
            return false;
        }
        memcpy(out[items[i].seq] + (size_t)items[i].pos * (size_t)vocab_size, logits,
               (size_t)vocab_size * sizeof *logits);
    }
    return true;
}

/* Sequence 0 of n tokens taken from stream `stream`, cut into pieces; logits [n, vocab_size] to
 * out. */
static bool run_alone(const tblock_model *m, const Variant *v, int stream, int n, float *out,
                      int vocab_size, tblock_error *err)
{
    tblock_item items[MAX_TOKENS];
    for (int i = 0; i < n; i++)
        items[i] = (tblock_item){
            .seq = 0, .pos = i, .token = token_at(stream, i, vocab_size),
            .want_logits = !v->few || i % 6 == 4
        };
    tblock_context *c  = context(m, v, 1, err);
    bool            ok = c && choose_adapters(c, 0, stream, err);
    for (int at = 0; ok && at < n; at += v->piece)
        ok = decode(c, items, at, at + v->piece < n ? at + v->piece : n, &out, vocab_size, err);
    tblock_context_free(c);
    return ok;
}

/* Where two runs part, for a message. */
static void describe_difference(const float *a, const float *b, int vocab_size, char *text,
                                size_t n)
{
    size_t i = 0;
    while (memcmp(a + i, b + i, sizeof *a) == 0)
        i++;
    snprintf(text, n, "position %zu, logit %zu: %a and %a", i / (size_t)vocab_size,
             i % (size_t)vocab_size, (double)a[i], (double)b[i]);
}

/* isas[0 .. n): those this CPU has, scalar first. The library has no list of them: ask for each. */
static int find_isas(const tblock_model *m, const char *isas[MAX_ISAS])
{
    static const char *const names[] = { "scalar",     "avx2",       "avxvnni", "avx512",
                                         "avx512vnni", "avx512bf16", "neon",    "neondot" };
    int n = 0;
    for (int i = 0; i < COUNT(names); i++) {
        tblock_error    err;
        Variant         v = {.isa = names[i], .kv = "f32", .threads = 1};
        tblock_context *c = context(m, &v, 1, &err);
        if (c)
            isas[n++] = names[i];
        tblock_context_free(c);
    }
    return n;
}

/* Every piece with every thread count, with an f16 or q8 cache every second pair; the instruction
 * set and the batch limit rotate. */
static void check_cuts(const tblock_model *m, const char *name, const char *kv, int n,
                       const float *want, float *got, int vocab_size)
{
    const char  *isas[MAX_ISAS];
    const int    n_isas = find_isas(m, isas);
    const size_t bytes  = (size_t)n * (size_t)vocab_size * sizeof *want;
    const bool   f32 = strcmp(kv, "f32") == 0, q8 = strcmp(kv, "q8") == 0;
    int          turn   = f32 ? 0 : q8 ? 2 : 1; /* f16 starts one instruction set later, q8 two */
    for (int p = 0; p < COUNT(pieces); p++)
        for (int t = 0; t < COUNT(thread_counts); t++, turn++) {
            if (!f32 && (p + t) % 2 == (q8 ? 0 : 1))
                continue;
            static const int batches[] = {0, 7, 0, 64, 0};
            Variant v = { .isa = isas[turn % n_isas],
                          .kv = kv,
                          .threads = thread_counts[t],
                          .piece = pieces[p],
                          .n_batch = batches[turn % 5],
                          .few = (p + t) % 3 == 1 };
            char fact[96], why[256];
            snprintf(fact, sizeof fact, "%s_%s_%d_threads_pieces_of_%d_batch_%d%s", kv, v.isa,
                     v.threads, v.piece, v.n_batch, v.few ? "_few" : "");
            memcpy(got, want, bytes); /* of what is not wanted */
            tblock_error err = {0};
            if (!run_alone(m, &v, 0, n, got, vocab_size, &err)) {
                say_failure(name, fact, err.msg);
            } else if (memcmp(want, got, bytes) != 0) {
                describe_difference(want, got, vocab_size, why, sizeof why);
                say_failure(name, fact, why);
            }
        }
}

/* Three sequences of different lengths: interleaved one token each, so that they meet in every
 * call, against each alone. */
static void check_together(const tblock_model *m, const char *name, const char *kv, int n,
                           int vocab_size)
{
    const int    lengths[N_SEQS] = {n * 2 / 3, n / 9 + 1, n};
    const size_t floats          = (size_t)n * (size_t)vocab_size;
    tblock_item  items[N_SEQS * MAX_TOKENS];
    float       *together[N_SEQS], *alone = need(malloc(floats * sizeof *alone));
    int          n_items = 0;
    for (int s = 0; s < N_SEQS; s++)
        together[s] = need(calloc(floats, sizeof *alone));
    for (int pos = 0; pos < n; pos++)
        for (int s = 0; s < N_SEQS; s++)
            if (pos < lengths[s])
                items[n_items++] = (tblock_item){
                    .seq = s, .pos = pos, .token = token_at(s, pos, vocab_size), .want_logits = true
                };
    static const int cuts[] = {N_SEQS * MAX_TOKENS, 3, 50};
    for (int k = 0; k < COUNT(cuts); k++) {
        Variant v = { .isa = "auto", .kv = kv, .threads = thread_counts[k + 1], .piece = cuts[k] };
        tblock_error    err = {0};
        tblock_context *c   = context(m, &v, N_SEQS, &err);
        bool            ok  = c != NULL;
        for (int s = 0; ok && s < N_SEQS; s++)
            ok = choose_adapters(c, s, s, &err);
        for (int at = 0; ok && at < n_items; at += v.piece)
            ok = decode(c, items, at, at + v.piece < n_items ? at + v.piece : n_items, together,
                        vocab_size, &err);
        tblock_context_free(c);
        for (int s = 0; s < N_SEQS; s++) {
            Variant single = {.isa = "auto", .kv = kv, .threads = 1, .piece = MAX_TOKENS};
            char    fact[96], why[256];
            snprintf(fact, sizeof fact, "%s_sequence_%d_of_3_calls_of_%d", kv, s, cuts[k]);
            if (!ok || !run_alone(m, &single, s, lengths[s], alone, vocab_size, &err)) {
                say_failure(name, fact, err.msg);
            } else if (memcmp(alone, together[s],
                              (size_t)lengths[s] * (size_t)vocab_size * sizeof *alone)
                       != 0) {
                describe_difference(alone, together[s], vocab_size, why, sizeof why);
                say_failure(name, fact, why);
            }
        }
    }
    for (int s = 0; s < N_SEQS; s++)
        free(together[s]);
    free(alone);
}

/* A sequence that was rewound and continued, or emptied and run again, is as one that never had
 * been. */
static void check_rewind(const tblock_model *m, const char *name, const char *kv, int n,
                         const float *want, float *got, int vocab_size)
{
    tblock_item items[MAX_TOKENS];
    for (int i = 0; i < n; i++)
        items[i] = (tblock_item){
            .seq = 0, .pos = i, .token = token_at(0, i, vocab_size), .want_logits = true
        };
    Variant         v   = {.isa = "auto", .kv = kv, .threads = 2};
    tblock_error    err = {0};
    tblock_context *c   = context(m, &v, 1, &err);
    bool            ok  = c && choose_adapters(c, -1, 0, &err)
        && decode(c, items, 0, n, &got, vocab_size, &err);
    const int       back_to[] = {n - 1, n / 2, 0};
    for (int i = 0; ok && i < COUNT(back_to); i++) {
        int from = back_to[i];
        if (!tblock_seq_rewind(c, 0, from, &err)) /* a windowed layer may refuse; emptying always
                                                   * works */
            from = tblock_seq_rewind(c, 0, 0, &err) ? 0 : -1;
        ok = from >= 0;
        if (ok)
            memset(got + (size_t)from * (size_t)vocab_size, 0,
                   (size_t)(n - from) * (size_t)vocab_size * sizeof *got);
        ok = ok && decode(c, items, from, n, &got, vocab_size, &err);
    }
    tblock_context_free(c);
    char fact[32];
    snprintf(fact, sizeof fact, "%s_rewound", kv);
    if (!ok)
        say_failure(name, fact, err.msg);
    else if (memcmp(want, got, (size_t)n * (size_t)vocab_size * sizeof *want) != 0)
        say_failure(name, fact, "other logits");
}

static int length_for(const tblock_model_info *info)
{
    return info->n_ctx < MAX_TOKENS ? info->n_ctx : MAX_TOKENS;
}

/* Is there something in the model that mode i applies to, and is it another than the default? */
static bool applies(const tblock_model *m, const char *name, int i)
{
    tblock_model_info info;
    tblock_error      err;
    tblock_model_describe(m, &info);
    if (modes[i].math && strcmp(modes[i].math, "f32") == 0 && !strchr(info.weight_types, 'q'))
        return false;
    tblock_context_options opt = {.math = modes[i].math, .activations = modes[i].activations};
    tblock_context        *c   = tblock_context_new(m, &opt, &err);
    tblock_context_free(c);
    if (!c && err.status != TBLOCK_USAGE)
        say_failure(name, modes[i].name, err.msg);
    return c != NULL;
}

/* One cache type in the current mode. */
static void check_one(const tblock_model *m, const char *name, const char *kv, float *want,
                      float *got, const tblock_model_info *info)
{
    const int    n = length_for(info), before = failures;
    const char  *what = mode == &modes[0] ? kv : mode->name;
    Variant      v    = {.isa = "scalar", .kv = kv, .threads = 1, .piece = MAX_TOKENS};
    tblock_error err  = {0};
    if (!run_alone(m, &v, 0, n, want, info->vocab_size, &err)) {
        say_failure(name, what, err.msg);
        return;
    }
    check_cuts(m, name, kv, n, want, got, info->vocab_size);
    check_together(m, name, kv, n, info->vocab_size);
    check_rewind(m, name, kv, n, want, got, info->vocab_size);
    if (failures == before)
        printf("ok exact_%s_%s\n", name, what);
    fflush(stdout);
}

static void check_model(const tblock_model *m, const char *name)
{
    tblock_model_info info;
    tblock_model_describe(m, &info);
    const size_t floats = (size_t)length_for(&info) * (size_t)info.vocab_size;
    float *want = need(malloc(floats * sizeof *want)), *got = need(malloc(floats * sizeof *got));
    for (int k = 0; k < COUNT(kv_types); k++)
        check_one(m, name, kv_types[k], want, got, &info);
    for (int i = 1; i < COUNT(modes); i++) {
        mode = &modes[applies(m, name, i) ? i : 0];
        if (mode != &modes[0])
            check_one(m, name, "f32", want, got, &info);
        mode = &modes[0];
    }
    free(want);
    free(got);
}

static void digest_one(const tblock_model *m, const char *name, const char *isa, const char *kv,
                       float *out)
{
    tblock_model_info info;
    tblock_model_describe(m, &info);
    const int    n    = length_for(&info);
    const char  *what = mode == &modes[0] ? kv : mode->name;
    Variant      v    = {.isa = isa, .kv = kv, .threads = 2, .piece = MAX_TOKENS};
    tblock_error err  = {0};
    if (run_alone(m, &v, 0, n, out, info.vocab_size, &err))
        printf("%s %s %016" PRIx64 "\n", name, what,
               tblock_hash_floats(out, (size_t)n * (size_t)info.vocab_size));
    else
        say_failure(name, what, err.msg);
}

static void digest_model(const tblock_model *m, const char *name, const char *isa)
{
    tblock_model_info info;
    tblock_model_describe(m, &info);
    float *out = need(malloc((size_t)length_for(&info) * (size_t)info.vocab_size * sizeof *out));
    for (int k = 0; k < COUNT(kv_types); k++)
        digest_one(m, name, isa, kv_types[k], out);
    for (int i = 1; i < COUNT(modes); i++) {
        mode = &modes[applies(m, name, i) ? i : 0];
        if (mode != &modes[0])
            digest_one(m, name, isa, "f32", out);
        mode = &modes[0];
    }
    free(out);
}

int main(int argc, char **argv)
{
    bool        digest = false;
    const char *isa    = "auto";
    int         i      = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--digest") == 0) {
            digest = true;
        } else if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc) {
            isa = argv[++i];
        } else if (strcmp(argv[i], "--lora") == 0 && i + 1 < argc) {
            adapter = argv[++i];
        } else {
            fprintf(stderr, "exact: unknown option %s\n", argv[i]);
            return TBLOCK_USAGE;
        }
    }
    for (; i < argc; i++) {
        tblock_error  err;
        char          name[128];
        tblock_model *m = tblock_open(argv[i], NULL, &err);
        base_name(argv[i], name, sizeof name);
        if (!m || (adapter && !tblock_lora_load(m, adapter, &(int){ 0 }, &err)))
            say_failure(name, "open", err.msg);
        else if (digest)
            digest_model(m, name, isa);
        else
            check_model(m, name);
        tblock_close(m);
    }
    return failures ? 1 : 0;
}
