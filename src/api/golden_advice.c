/* api/golden_advice.c: what this run rounds and the golden's did not, and what changes it. */
#include "api/golden.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/numerics.h"

typedef struct Advice { char rounds[160], options[160]; } Advice;

/* Append to a list. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
static void add(char *list, size_t n, const char *separator, const char *fmt, ...)
{
    size_t  at = strlen(list);
    va_list args;
    va_start(args, fmt);
    if (at && at < n)
        at += (size_t)snprintf(list + at, n - at, "%s", separator);
    if (at < n)
        vsnprintf(list + at, n - at, fmt, args);
    va_end(args);
}

/* The setting of the golden's run; if it records none, the one that rounds nothing. */
static const char *wanted(const GoldenFile *g, const char *key, const char *exact)
{
    const char *recorded = golden_is_ours(g) ? golden_meta(g, key) : NULL;
    return recorded ? recorded : exact;
}

/* Can this run use 16-bit activations? GGUF types cannot. */
static bool takes_16(const tblock_context *c, const RunSettings *s)
{
    Numerics n;
    Error    ignored;
    return numerics_choose(&n, &c->model->weights, s->math, "16", &ignored);
}

static void advise_math(Advice *a, const GoldenFile *g, const RunSettings *s)
{
    const char *math = wanted(g, "math", "f32"), *bits = wanted(g, "activations", s->activations);
    bool        integers = strcmp(s->math, "int8") == 0, other = strcmp(s->math, math) != 0;
    bool        other_bits = strcmp(s->activations, bits) != 0;
    if (integers && (other || other_bits))
        add(a->rounds, sizeof a->rounds, ", ", "activations are rounded to %s bits",
            strcmp(s->activations, "auto") == 0 ? "8 or 16" : s->activations);
    else if (other && strcmp(s->math, "bf16") == 0)
        add(a->rounds, sizeof a->rounds, ", ", "activations are rounded to bf16");
    if (other)
        add(a->options, sizeof a->options, " ", "--math %s", math);
    if (other_bits && strcmp(math, "int8") == 0)
        add(a->options, sizeof a->options, " ", "--activations %s", bits);
}

static void advise_cache(Advice *a, const GoldenFile *g, const RunSettings *s)
{
    const char *type = wanted(g, "kv_type", "f32");
    if (strcmp(s->kv_type, type) == 0)
        return;
    if (strcmp(s->kv_type, "f32") != 0)
        add(a->rounds, sizeof a->rounds, ", ", "the KV cache is rounded to %s", s->kv_type);
    add(a->options, sizeof a->options, " ", "--kv-type %s", type);
}

static void advise_rotation(Advice *a, const GoldenFile *g, const RunSettings *s)
{
    const char *length = wanted(g, "rope_length", s->rope_length);
    if (strcmp(s->rope_length, length) != 0)
        add(a->options, sizeof a->options, " ", "--rope-length %s", length);
}

/* --type, and what no option can undo. */
static void advise_weights(Advice *a, const GoldenFile *g, const tblock_model *m, char *tail,
                           size_t n)
{
    const char *types = wanted(g, "weight_types", ""), *loaded = wanted(g, "loaded_as", "stored");
    size_t n_own = m->retyped ? strlen(m->retyped) : 0;
    bool   same  = m->retyped && strncmp(m->retyped, loaded, n_own) == 0
        && (!loaded[n_own] || strncmp(loaded + n_own, " + lora ", 8) == 0);
    if (m->retyped && !same) {
        add(a->rounds, sizeof a->rounds, ", ", "weights are rounded to %s while they are loaded",
            m->retyped);
        add(a->options, sizeof a->options, " ", "without --type");
    } else if (model_is_quantized(&m->weights) && strcmp(types, m->types) != 0) {
        snprintf(tail, n,
                 "the weights are %s: if the golden was recorded before quantization, no option "
                 "makes the logits "
                 "equal; allow a difference with --tol, or measure it with tblock eval --against",
                 m->types);
    }
}

void golden_advise(const GoldenFile *g, const tblock_context *c, tblock_verify_report *out)
{
    RunSettings s = run_settings(c, context_loaded_as(c, -1));
    Advice      a = { "", "" };
    char        tail[240] = "";
    advise_math(&a, g, &s);
    advise_cache(&a, g, &s);
    advise_rotation(&a, g, &s);
    advise_weights(&a, g, c->model, tail, sizeof tail);
    bool less = strstr(a.options, "--math f32") && strcmp(s.activations, "16") != 0
        && strcmp(s.math, "int8") == 0 && takes_16(c, &s);
    out->advice[0] = '\0';
    if (a.options[0])
        add(out->advice, sizeof out->advice, "", "%s%stry %s%s", a.rounds, a.rounds[0] ? ": " : "",
            a.options, less ? ", or --activations 16, which rounds less" : "");
    if (tail[0])
        add(out->advice, sizeof out->advice, "; ", "%s", tail);
}
