/* api/report_api.c: collects the data of a report, from a model file, a tokenizer alone or a bare
 * JSON config. The model room counts, the runtime plans memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/fp_env.h"
#include "base/memory.h"
#include "report/info.h"
#include "source/source.h"
#include "tblock_tools.h"

enum { MAX_SEQ = 1 << 24, USUAL_SEQ = 2048, MAX_POINTS = 128, SHORTEST = 64 };

/* ---- Counting -------------------------------------------------------------------------------- */

/* The vectors that need integers, as numerics_ints counts for a model. *quantized: is a matrix of a
 * layer quantized? */
static unsigned ints_of(const Info *info, bool *quantized)
{
    const unsigned codes = ~0u << WT_FLOATS;
    const Config  *c     = info->cfg;
    unsigned       by_32 = 0, mask = 0, types[INPUT_COUNT] = { 0 };
    *quantized = false;
    for (int t = WT_FLOATS; t < WT_COUNT; t++)
        by_32 |= weight_type_by_32((WeightType)t) ? 1u << t : 0;
    for (int i = 0; i < info->count->n_parts; i++) {
        const CountPart *p = &info->count->part[i];
        if (p->k == 0 || !(p->types & codes))
            continue;
        mask |= ints_of_role(p->role, c->tied_embeddings);
        *quantized |= p->in_layer;
        if (p->in_layer)
            types[tensor_row(p->role)->reads] |= p->types & codes;
    }
    for (int i = 0; i < INPUT_COUNT; i++)
        if (types[i] && !(types[i] & ~by_32) && !input_is_delicate(c, c->n_layers / 2, (Input)i))
            mask |= INTS_BY_32;
    return mask;
}

static bool choose_ranks(RankPlan *p, const tblock_report_options *opt, Error *err)
{
    if (!(opt->bandwidth >= 0 && opt->latency >= 0 && opt->memory >= 0))
        return fail(err, USAGE, "bandwidth, latency and memory: expected 0 or more");
    *p = (RankPlan){ .ranks = opt->ranks,
                     .bandwidth = (opt->bandwidth > 0 ? opt->bandwidth : 1) * 1e9 / 8,
                     .latency = (opt->latency > 0 ? opt->latency : 50) * 1e-6,
                     .memory = opt->memory * 1e9 };
    return check_range("ranks", opt->ranks, 0, RANKS_MOST, err);
}

static bool choose_load(Info *info, const tblock_report_options *opt, KvType *kv, Error *err)
{
    if (!choose_ranks(&info->ranks, opt, err)
        || !check_range("seq", opt->seq, 0, MAX_SEQ, err)
        || !check_range("batch", opt->batch, 0, MAX_BATCH, err))
        return false;
    bool quantized;
    ints_of(info, &quantized);
    if (!kv_type_parse(opt->kv_type, quantized, kv, err))
        return false;
    int n_ctx = info->cfg->n_ctx;
    info->kv_type = kv_type_name(*kv);
    info->load    = (FlopLoad){ .seq      = opt->seq ? opt->seq
                                 : n_ctx < USUAL_SEQ ? n_ctx
                                                     : USUAL_SEQ,
                             .batch = opt->batch ? opt->batch : 1,
                             .kv_bytes = (int)kv_element_bytes(*kv),
                             .kv_scale_bytes = (int)kv_scale_bytes(*kv) };
    return true;
}

static bool plan_memory(Info *info, KvType kv, Error *err)
{
    const Config *c = info->cfg;
    MemoryPlan   *m = &info->memory;
    size_t        all_kv, total;
    bool          quantized;
    m->n_ctx   = c->n_ctx;
    m->n_seqs  = info->load.batch;
    m->n_batch = context_batch(c, 0, m->n_ctx, m->n_seqs);
    KvShape shape  = kv_shape(c, kv);
    m->weights     = info->count->bytes;
    m->packed      = info->count->pack_bytes;
    unsigned ints  = ints_of(info, &quantized);
    m->activations = forward_plan_bytes(c, ints, m->n_batch, 1);
    m->each_thread = forward_plan_bytes(c, ints, m->n_batch, 2) - m->activations;
    m->attention   = forward_attention_bytes(c);
    m->logits      = round_up((size_t)c->vocab_size, LANES) * sizeof(float);
    if (!mul_size(kv_cache_plan_bytes(&shape, m->n_ctx, m->n_batch), (size_t)m->n_seqs, &all_kv)
        || !add_size(all_kv, m->weights + m->packed + m->activations + m->logits, &total))
        return fail(err, USAGE, "batch: %d sequences of %d positions need more memory than a "
                                "process can address", m->n_seqs, m->n_ctx);
    m->kv    = all_kv;
    m->total = total;
    return true;
}

/* Fills in lengths from 64 to twice the longer of context and prompt, four to an octave. Returns
 * how many. */
static int fill_curve(InfoPoint *curve, const Info *info)
{
    static const double quarter[4] = { 1, 1.189207115002721, 1.4142135623730951,
                                       1.681792830507429 };
    const Config *c   = info->cfg;
    int           n   = 0, longest = c->n_ctx > info->load.seq ? c->n_ctx : info->load.seq, at;
    double        mha = (double)info->kv.token_bytes / info->kv.mha_ratio;
    longest = longest < SHORTEST ? SHORTEST : longest;
    for (int i = 0;
         n < MAX_POINTS && (at = (int)((SHORTEST << i / 4) * quarter[i % 4])) <= 2 * longest;
         i++, n++) {
        Flops f;
        int    windowed = count_windowed(c), attend = c->n_layers - count_state(c);
        double kept     = ((double)windowed * (c->window < at ? c->window : at)
                           + (double)(attend - windowed) * at)
                / (attend ? attend : 1);
        FlopLoad load = { .seq = at,
                          .batch = 1,
                          .kv_bytes = info->load.kv_bytes,
                          .kv_scale_bytes = info->load.kv_scale_bytes };
        count_flops(&f, c, info->count, &load);
        curve[n] = (InfoPoint){ .seq = at, .kv_mha = mha * kept };
        curve[n].kv[0] = (double)info->count->kv_bytes_f32 * kept;
        curve[n].kv[1] = (double)info->count->kv_bytes_f16 * kept;
        curve[n].kv[2] = (double)info->count->kv_bytes_q8 * kept;
        curve[n].ffn            = f.group[GROUP_FFN].full / at;
        curve[n].attention_full = f.attention.full / at;
        curve[n].attention      = f.attention.computed / at;
        curve[n].scores         = f.group[GROUP_SCORES].computed / at;
    }
    return n;
}

/* Fills in everything that is counted from a config. */
static bool count_all(Info *info, const tblock_report_options *opt, InfoPoint *curve, Error *err)
{
    KvType kv;
    if (!choose_load(info, opt, &kv, err))
        return false;
    FlopLoad step = info->load;
    step.decode   = true;
    count_flops(&info->prefill, info->cfg, info->count, &info->load);
    count_flops(&info->decode, info->cfg, info->count, &step);
    info->crossover   = count_crossover(info->cfg, info->count);
    info->kv          = count_kv_cache(info->cfg, info->load.kv_bytes, info->load.kv_scale_bytes);
    info->score_bytes = count_score_bytes(info->cfg, info->load.seq, info->load.batch);
    info->curve       = curve;
    info->n_curve     = fill_curve(curve, info);
    return plan_memory(info, kv, err);
}

/* ---- Plotting -------------------------------------------------------------------------------- */

static bool write_page(const Info *info, const tblock_report_options *opt, Error *err)
{
    char *page;
    if (!info_report(info, FACE_PAGE, opt, &page, err))
        return false;
    bool ok = file_write(opt->html, page, strlen(page), err);
    free(page);
    return ok;
}

static bool draw(Info *info, const tblock_report_options *opt, char **text, Error *err)
{
    InfoPoint curve[MAX_POINTS];
    if (info->cfg && !count_all(info, opt, curve, err))
        return false;
    if (opt->html && !write_page(info, opt, err))
        return false;
    if (!info_report(info, opt->json ? FACE_JSON : FACE_TEXT, opt, text, err))
        return false;
    return !info->check || data_check_answer(info->check, info->path, NO, err);
}

/* ---- Sources --------------------------------------------------------------------------------- */

static bool report_config(const char *path, const tblock_report_options *opt, char **text,
                          Error *err)
{
    Config c;
    Count  count;
    Info   info = { .path = path, .cfg = &c, .count = &count, .type = WT_BF16, .huge_share = -1 };
    if (opt->html && !file_check_apart(opt->html, path, err))
        return false;
    if (opt->check)
        return fail(err, USAGE, "check: expected a model file, found a config, %s", path);
    if (opt->type && !weight_type_parse_made(opt->type, &info.type))
        return fail(err, USAGE, "type: expected bf16, f16, f32, q8 or q4, found '%s'%s", opt->type,
                    weight_type_hint(opt->type));
    if (!config_source_read(&c, path, err) || !config_supported(&c, path, err))
        return false;
    for (int t = 0; t < WT_MADE; t++) {
        count_config(&count, &c, (WeightType)t);
        info.type_bytes[t] = count.bytes;
    }
    count_config(&count, &c, info.type);
    if (opt->type)
        count_made(&count);
    return draw(&info, opt, text, err);
}

/* Parses a metadata entry that holds JSON. An absent entry gives NULL and is no error. */
static bool parse_meta(const Source *s, const char *key, Json **out, Error *err)
{
    const char *value = source_meta(s, key);
    char        what[512];
    *out = NULL;
    if (!value)
        return true;
    snprintf(what, sizeof what, "%s: %s", s->path, key);
    *out = json_parse(value, strlen(value), what, err);
    return *out != NULL;
}

/* For a model file large enough for its pages to matter. */
static double huge_share(const Source *s)
{
    static const size_t least = (size_t)64 << 20;
    const TensorFile   *f     = &s->file;
    return s->kind == SOURCE_MODEL_FILE && s->has_weights && f->data_bytes >= least
        ? pages_cache_share((const char *)f->map.data + f->data_offset, f->data_bytes)
        : -1;
}

/* available: memory; 0 or less: not known */
static bool report_source(const Source *src, double available, const tblock_report_options *opt,
                          char **text, Error *err)
{
    Json         *tokenizer = NULL, *source = NULL;
    const Config *c = src->has_weights ? &src->stored.config : NULL;
    Count         count;
    DataCheck     check;
    if (opt->html && !source_check_apart(src, opt->html, err))
        return false;
    if (opt->type)
        return fail(err, USAGE, "type: expected a config without weights, found %s, which has its "
                                "own types", src->path);
    SourceContents contents = { 0 };
    const char    *hash = source_tokenizer_hash(src, err);
    bool ok = hash && source_contents(&contents, src, err)
        && parse_meta(src, "tokenizer", &tokenizer, err) && parse_meta(src, "source", &source, err);
    if (ok && c)
        count_stored(&count, &src->stored);
    if (ok && opt->check)
        ok = data_check(&check, c ? &src->stored : NULL, &src->file,
                        &PROGRESS_OF(opt), err);
    if (ok) {
        Info info = { .path = src->path, .kind = source_kind_name(src->kind), .contents = &contents,
                      .ours = src->kind == SOURCE_MODEL_FILE, .cfg = c, .count = &count,
                      .tokenizer = tokenizer,
                      .source = source, .chat = chat_source_name(src),
                      .sha256 = source_meta(src, "sha256"), .tokenizer_hash = hash,
                      .huge_share = huge_share(src),
                      .memory.available = available > 0 ? (uint64_t)available : 0,
                      .check = opt->check ? &check : NULL };
        ok = draw(&info, opt, text, err);
    }
    source_contents_free(&contents);
    json_free(tokenizer);
    json_free(source);
    return ok;
}

FP_ENV_WORK
static bool report(const char *path, double available, const tblock_report_options *opt,
                   char **text, tblock_error *err)
{
    static const tblock_report_options defaults = { 0 };
    FileMap map = { 0 };
    Source  s   = { 0 };
    if (!opt)
        opt = &defaults;
    *text = NULL;
    Error why    = { 0 };
    /* A folder is not a config; source_open reports what else is wrong. */
    bool  config = file_map_open(&map, path, &why) && !tokenizer_file_is(&map)
        && json_object_begins(map.data, map.size);
    file_map_close(&map);
    if (why.status == SYSTEM)
        return fail(err, SYSTEM, "%s", why.msg);
    if (config)
        return report_config(path, opt, text, err);
    bool ok = source_open(&s, path, err) && report_source(&s, available, opt, text, err);
    source_close(&s);
    return ok;
}

bool tblock_report(const char *path, const tblock_report_options *opt, char **text,
                   tblock_error *err)
{
    NEED(false, err, text);
    *text = NULL;
    NEED(false, err, path);
    const double available = memory_available(""); /* before report() takes its stack: 64 kB do */
    HOST_ENV_RETURN(bool, report(path, available, opt, text, err));
}
