/* api/quantize.c: a model file with matrices of other types. Rows are read through the mapping 16 at a time, and what was
 * read is given back, so memory does not grow with the model. */
#include "tblock_tools.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/weight_stream.h"
#include "base/host_env.h"
#include "base/json.h"
#include "model/type_plan.h"

typedef struct Quantize {
    Source                  in;
    WeightType              target;
    WeightType             *types;       /* by tensor                                       */
    const CheckedTensor    *from;        /* the same                                        */
    RetypeReport           *sum;         /* the same                                        */
    int                     n;           /* tensors                                         */
    char                   *source;      /* metadata                                        */
} Quantize;

/* ---- Making ---- */

static void make_block(void *user, const WeightBlock *b)
{
    const Quantize      *q    = user;
    const CheckedTensor *from = &q->from[b->tensor];
    int                  k    = b->spec->k;
    if (k == 0) {
        retype_vector(b->spec, from, b->to[0], b->report);
    } else if (weight_type_quantized(b->type) && from->type == b->type) {
        retype_copy(b->spec, from, b->panels, b->to, b->block, b->item, b->first, b->n, b->rows, b->report);
    } else {
        retype_read(b->spec, from, b->item, b->first, b->n, b->rows, b->scratch);
        retype_store(b->type, b->panels, b->to, b->rows, b->n, k, true, b->scratch, b->report);
    }
}

/* Give back the pages that blocks were read from; rows of another program's file when the tensor is done. */
static void release_blocks(const TensorSpec *s, const CheckedTensor *from, int first, int n)
{
    if (from->rows && first + n == tensor_spec_panel_count(s))
        checked_release(from);
    for (int i = 0; s->k && !from->rows && i < part_count(from->type); i++) {
        size_t block = from->panels ? part_bytes(from->type, i, s->k)
                                    : PANEL_ROWS * (size_t)s->k * weight_type_bytes(from->type);
        file_map_release(from->map, from->part[i]->offset + (size_t)first * block, (size_t)n * block);
    }
}

static bool blocks_made(void *user, int tensor, const TensorSpec *s, int first, const RetypeReport *reports, int n,
                        Error *err)
{
    Quantize     *q   = user;
    RetypeReport *sum = &q->sum[tensor];
    for (int i = 0; i < n; i++)
        retype_sum(sum, &reports[i], tensor_spec_block_row(s, first + i));
    release_blocks(s, &q->from[tensor], first, n);
    return sum->fault == RETYPE_GOOD ? true : retype_fail(sum, q->in.path, s, q->types[tensor], err);
}

/* ---- Reading the file ---- */

static bool open_source(Quantize *q, const char *path, Error *err)
{
    if (!source_open(&q->in, path, err) || !source_need_weights(&q->in, err))
        return false;
    q->n    = q->in.stored.n;
    q->from = q->in.stored.tensor;
    q->sum  = calloc((size_t)q->n, sizeof *q->sum);
    return q->sum ? true : no_memory(NULL, err);
}

/* The sources of the file, and what was done to it. */
static bool make_source(Quantize *q, const tblock_quantize_options *opt, Error *err)
{
    const char *old = source_meta(&q->in, "source"), *hash = source_meta(&q->in, "sha256");
    char        what[512];
    TextOut     o = { 0 };
    old = old ? old : "[]";
    snprintf(what, sizeof what, "%s: source", q->in.path);
    Json *list = json_parse(old, strlen(old), what, err);
    if (!list)
        return false;
    const char *end = strrchr(old, ']');
    bool        ok  = end && json_is_array(list);
    if (ok)
        text_out(&o, "%.*s%s{\"quantized\": \"%s\"", (int)(end - old), old, json_count(list) ? ", " : "",
                 weight_type_name(q->target));
    json_free(list);
    if (!ok)
        return fail(err, INPUT, "%s: expected an array", what);
    for (size_t i = 0; i < opt->n_keep; i++) {
        text_out(&o, i ? ", " : ", \"keep\": [");
        json_out_string(&o, opt->keep[i], strlen(opt->keep[i]));
    }
    text_out(&o, opt->n_keep ? "]" : "");
    if (hash) {
        text_out(&o, ", \"from_sha256\": ");
        json_out_string(&o, hash, strlen(hash));
    }
    text_out(&o, "}]");
    q->source = text_out_take(&o, err);
    return q->source != NULL;
}

/* ---- Writing ---- */

static bool write_file(Quantize *q, const char *path, const tblock_quantize_options *opt, Error *err)
{
    ModelContents contents = { .config = &q->in.stored.config, .types = q->types, .source = q->source,
                               .tokenizer = &q->in.file, .chat_template = source_meta(&q->in, "chat_template") };
    return weight_stream_write(&(WeightStream){ .path = path, .contents = &contents,
                                                .threads = opt->threads, .make = make_block, .made = blocks_made,
                                                .user = q,
                                                .progress = { opt->progress, opt->user, 0, 1 } }, err);
}

static double relative(double error2, double sum2) { return sum2 > 0 ? sqrt(error2 / sum2) : 0; }

static bool make_report(const Quantize *q, tblock_quantize_report *out, Error *err)
{
    double error2 = 0, sum2 = 0;
    int    i = 0;
    *out = (tblock_quantize_report){ .rows = calloc((size_t)q->n, sizeof *out->rows) };
    if (!out->rows)
        return no_memory(NULL, err);
    for (TensorSpec s = tensor_list_start(); tensor_list_next(&q->in.stored.config, &s); i++) {
        const RetypeReport *r = &q->sum[i];
        out->n_params += tensor_spec_params(&s);
        out->bytes    += tensor_spec_bytes(&s, q->types[i]);
        if (s.k == 0)
            continue;
        tblock_quantize_row *row = &out->rows[out->n_rows++];
        *row = (tblock_quantize_row){
            .part = s.part, .layer = s.layer, .from = weight_type_name(q->from[i].type), .type = weight_type_name(q->types[i]),
            .n_params = tensor_spec_params(&s), .bytes = tensor_spec_bytes(&s, q->types[i]), .flushed = r->flushed,
            .error2 = r->error2, .sum2 = r->sum2, .error = relative(r->error2, r->sum2),
        };
        snprintf(row->name, sizeof row->name, "%s", s.name);
        error2       += r->error2;
        sum2         += r->sum2;
        out->flushed += r->flushed;
    }
    out->error = relative(error2, sum2);
    return true;
}

static bool quantize(Quantize *q, const char *in, const char *out, const tblock_quantize_options *opt,
                     tblock_quantize_report *report, Error *err)
{
    const StoredModel *c = &q->in.stored;
    if (!open_source(q, in, err) || !source_check_apart(&q->in, out, err) || !make_source(q, opt, err))
        return false;
    q->types = type_plan_new(&c->config, c, c->path, q->target, opt->keep, opt->n_keep, err);
    return q->types && write_file(q, out, opt, err) && (!report || make_report(q, report, err));
}

FP_ENV_WORK
static bool quantize_file(const char *in_path, const char *out_path, const tblock_quantize_options *opt, tblock_quantize_report *report,
                          tblock_error *err)
{
    Quantize q = { .target = WT_COUNT };
    if (report)
        *report = (tblock_quantize_report){ 0 };
    if (!opt || !opt->type || !weight_type_parse_made(opt->type, &q.target))
        return fail(err, USAGE, "type: expected q8, q4, bf16, f16 or f32, found %s%s%s%s", opt && opt->type ? "'" : "",
                    opt && opt->type ? opt->type : "none", opt && opt->type ? "'" : "", opt && opt->type ? weight_type_hint(opt->type) : "");
    if (opt->threads < 0 || opt->threads > 1024)
        return fail(err, USAGE, "threads: expected 0 to 1024, found %d", opt->threads);
    bool ok = quantize(&q, in_path, out_path, opt, report, err);
    source_close(&q.in);
    free(q.types);
    free(q.sum);
    free(q.source);
    return ok;
}

bool tblock_quantize(const char *in_path, const char *out_path, const tblock_quantize_options *opt, tblock_quantize_report *report,
                     tblock_error *err)
{
    HostEnv host;
    host_env_enter(&host);
    bool ok = quantize_file(in_path, out_path, opt, report, err);
    host_env_leave(&host);
    return ok;
}
