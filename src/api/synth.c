/* api/synth.c: writes a model file with random weights for any config, to measure speed at real
 * sizes.
 *
 * Every weight depends only on (seed, tensor name, row, column), so threads may make them in any
 * order. Quantized weights are drawn as codes: choosing codes for given floats is far slower, and
 * random codes measure as well. */
#include "tblock_tools.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/file.h"
#include "base/fp_env.h"
#include "base/hash.h"
#include "base/number.h"
#include "model/config.h"
#include "model/model_writer.h"
#include "quant/codes.h"
#include "source/source.h"

/* ---- The numbers ----------------------------------------------------------------------------- */

/* The output function of SplitMix64 (Steele, Lea, Flood 2014), applied to a counter. */
static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Row `row` of a tensor: uniform in steps of `step`, mean 0. Each draw gives four columns. */
static void random_row(float *out, int k, uint64_t key, int row, float step)
{
    uint64_t draws = (uint64_t)k / 4 + (k % 4 != 0), first = key + (uint64_t)row * draws;
    for (int j = 0; j < k; j += 4) {
        uint64_t u = mix(first + (uint64_t)j / 4);
        for (int i = 0; i < 4 && j + i < k; i++)
            out[j + i] = ((float)(u >> 16 * i & 0xffff) - 32767.5f) * step;
    }
}

/* The step that gives a standard deviation: 65536 equal steps have one of sqrt((65536^2 - 1) /
 * 12). */
static float step_for(double deviation) { return (float)(deviation / 18918.613); }

/* Rows of variance 1 / k keep the scale of activations. Logits come out with a deviation near 1. */
static double deviation(int k) { return 1 / sqrt((double)k); }

/* ---- Quantized rows -------------------------------------------------------------------------- */

static double mean_square(const int8_t *v, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)v[i] * v[i];
    return sum / n;
}

/* The deviation of the values of random codes at scale 1: q8 has -127 .. 127 with equal chance,
 * q4 any code and sub-scale. */
static double code_deviation(WeightType type)
{
    return type == WT_Q8 ? sqrt((255.0 * 255.0 - 1) / 12)
                         : sqrt(mean_square(q4_codebook, 16) * mean_square(q4_magnitude, 16));
}

/* Each draw fills eight bytes. */
static void random_bytes(uint8_t *out, size_t n, uint64_t *counter)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t u = mix((*counter)++);
        memcpy(out + i, &u, n - i < 8 ? n - i : 8);
    }
}

/* Scales lie within a quarter of the one that gives the deviation: uniform, mean square 1 +
 * 1/48. */
static void random_codes(SuperblockCodes *s, WeightType type, int n, double scale,
                         uint64_t *counter)
{
    uint8_t spread[8];
    random_bytes(s->code, (size_t)n, counter);
    random_bytes(s->sub, sizeof s->sub, counter);
    random_bytes(spread, sizeof spread, counter);
    for (int i = 0; i < n; i++)
        /* no -128 */
        s->code[i] = type == WT_Q4 ? s->code[i] & 15 : s->code[i] == 0x80 ? 0 : s->code[i];
    s->d = f32_to_f16((float)(scale * (0.75 + spread[0] / 510.0)));
}

static void make_quantized(const WeightBlock *b, uint64_t key)
{
    SuperblockCodes zero = { .d = 0 }, s;
    int      k = b->spec->k, blocks = (k + SUPERBLOCK - 1) / SUPERBLOCK;
    double   scale = deviation(k) / (code_deviation(b->type) * sqrt(1 + 1.0 / 48));
    memset(zero.code, b->type == WT_Q4 ? Q4_ZERO : 0, sizeof zero.code);
    for (int i = 0; i < part_count(b->type); i++)
        memset(b->to[i], 0, part_bytes(b->type, i, k));
    for (int r = 0; r < PANEL_ROWS; r++)
        for (int i = 0; i < blocks; i++) {
            int      n = k - i * SUPERBLOCK < SUPERBLOCK ? k - i * SUPERBLOCK : SUPERBLOCK;
            uint64_t counter = key
                + ((uint64_t)(b->first + r) * (uint64_t)blocks + (uint64_t)i)
                    * (SUPERBLOCK / 8 + 3);
            if (r < b->n)
                random_codes(&s, b->type, n, scale, &counter);
            superblock_put(b->type, b->to, r, i * SUPERBLOCK, n, r < b->n ? &s : &zero);
        }
}

/* ---- The file -------------------------------------------------------------------------------- */

static void make_vector(const WeightBlock *b, uint64_t key)
{
    float *v = b->to[0];
    if (b->spec->bias)
        random_row(v, b->n, key, 0, step_for(0.02));
    else
        for (int i = 0; i < b->n; i++) /* above 0, a memory would grow */
            v[i] = b->spec->role == ROLE_DELTA_RATE ? -1 : 1;
}

static void make_block(void *user, const WeightBlock *b)
{
    const uint64_t *seed = user;
    uint64_t     key = mix(mix(*seed) ^ fnv1a(FNV_SEED, b->spec->name, strlen(b->spec->name)));
    int          k = b->spec->k;
    if (k == 0 || weight_type_quantized(b->type)) {
        k == 0 ? make_vector(b, key) : make_quantized(b, key);
        return;
    }
    for (int r = 0; r < b->n; r++)
        random_row(b->rows + (size_t)r * (size_t)k, k, key, b->item * b->spec->rows + b->first + r,
                   step_for(deviation(k)));
    retype_store(b->type, b->panels, b->to, b->rows, NULL, b->n, k, false, b->scratch, b->report);
}

static bool write_file(const char *path, const char *config_path, const Config *c, WeightType type,
                       const tblock_synth_options *opt, Error *err)
{
    char        source[96];
    WeightType *types = type_plan_new(c, NULL, config_path, type, opt->keep, opt->n_keep, err);
    if (!types)
        return false;
    snprintf(source, sizeof source, "[{\"synth\": \"seed %llu%s\"}]", (unsigned long long)opt->seed,
             opt->sparse ? ", sparse: every matrix is zero" : "");
    uint64_t      seed     = opt->seed;
    ModelContents contents = {
        .config = c, .types = types, .source = source, .sparse = opt->sparse
    };
    bool ok = weight_stream_write(&(WeightStream){ .path = path,
                                                   .contents = &contents,
                                                   .threads = opt->threads,
                                                   .make = make_block,
                                                   .user = &seed,
                                                   .progress = PROGRESS_OF(opt) },
                                  err);
    free(types);
    return ok;
}

FP_ENV_WORK
static bool synth(const char *config_path, const char *out_path, const tblock_synth_options *opt,
                  tblock_error *err)
{
    static const tblock_synth_options defaults = { 0 };
    WeightType type = WT_BF16;
    Config     c;
    if (!opt)
        opt = &defaults;
    if (opt->type && !weight_type_parse_made(opt->type, &type))
        return fail(err, USAGE, "type: expected f32, f16, bf16, q8 or q4, found '%s'%s", opt->type,
                    weight_type_hint(opt->type));
    return check_range("threads", opt->threads, 0, 1024, err)
        && file_check_apart(out_path, config_path, err)
        && (!opt->sparse || file_check_holes(out_path, err))
        && config_source_read(&c, config_path, err) && config_supported(&c, config_path, err)
        && write_file(out_path, config_path, &c, type, opt, err);
}

bool tblock_synth(const char *config_path, const char *out_path, const tblock_synth_options *opt,
                  tblock_error *err)
{
    NEED(false, err, config_path, out_path);
    HOST_ENV_RETURN(bool, synth(config_path, out_path, opt, err));
}
