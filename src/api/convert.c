/* api/convert.c: converts any source to a model file, as it is or with weights of another type.
 * Rows are read in place, 16 at a time, and their pages are given back, so memory does not grow
 * with the model. A separate thread hashes the files meanwhile. tblock_quantize is the same with a
 * type and measured errors. */
#include "tblock_tools.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/file.h"
#include "base/fp_env.h"
#include "base/hash.h"
#include "base/json.h"
#include "model/importance.h"
#include "model/model_writer.h"
#include "source/adapter.h"
#include "source/imatrix.h"
#include "chat/jinja.h"

typedef struct Convert {
    Source               in;
    TokenizerData        tokenizer;   /* of a file other than the source             */
    TensorFile           tokenizer_view;
    WeightType          *types;       /* per tensor                                  */
    RetypeReport        *sum;         /* per tensor                                  */
    uint64_t             not_finite;  /* weights kept as they are                    */
    const char         **file;        /* [n_files] paths, in the order of `source`   */
    char               (*hex)[65];    /* [n_files] their sha256                      */
    int                  n_files;
    pthread_t            thread;
    bool                 hashing;
    atomic_bool          stop, hashes_done;
    Error                hash_error;
    bool                 hashed;
    const char          *quantized;   /* the type, or NULL                           */
    const char          *chat;        /* a chat template to store, or NULL           */
    Lora                 lora[LORA_MOST];
    LoraSet              merged;      /* the adapters to merge                       */
    LoraMerge           *merge;       /* NULL: none                                  */
    Importance           importance;  /* of a text or a file                         */
    const tblock_quantize_options *calibrate; /* the text is here; NULL: none          */
    const char          *imatrix;     /* the file with it; NULL: none                */
    char                 calibrated[65]; /* the sha256 of the text or file           */
    bool                 tokenizer_only;
    bool                 requantize;  /* what is quantized already, too              */
    bool                 measure;     /* tblock_quantize: how far weights are from what they
                                       * were; it refuses values that are not finite, and hashes
                                       * no files */
    const tblock_convert_options *opt;
    tblock_convert_report        *report;   /* to fill; or NULL                          */
    tblock_quantize_report       *errors;   /* the same                                  */
} Convert;

/* ---- The files and their hashes -------------------------------------------------------------- */

enum { HASH_PIECE = 4 << 20 };

static bool hash_file(Convert *c, int i)
{
    FileMap map = { 0 };
    Sha256 *sha = sha256_new();
    if (!sha)
        return fail(&c->hash_error, SYSTEM, "%s: out of memory for a hash", c->file[i]);
    bool ok = file_map_open(&map, c->file[i], &c->hash_error);
    for (size_t at = 0; ok && at < map.size && !atomic_load(&c->stop); at += HASH_PIECE) {
        size_t n = map.size - at < HASH_PIECE ? map.size - at : HASH_PIECE;
        sha256_add(sha, map.data + at, n);
        file_map_release(&map, at, n);
    }
    sha256_end(sha, c->hex[i]);
    file_map_close(&map);
    return ok;
}

static void *hash_all(void *arg)
{
    Convert *c = arg;
    c->hashed  = true;
    for (int i = 0; i < c->n_files && c->hashed; i++)
        c->hashed = hash_file(c, i);
    atomic_store(&c->hashes_done, true);
    return NULL;
}

static void stop_hashing(Convert *c)
{
    if (c->hashing)
        pthread_join(c->thread, NULL);
    c->hashing = false;
}

/* First the files of a separate tokenizer, then the source's, of which the last are its
 * tokenizer's. */
static bool list_files(Convert *c, Error *err)
{
    if (c->measure)
        return true;
    int first = c->tokenizer_only && c->in.has_weights ? c->in.n_used_weights : 0;
    int end   = c->opt->tokenizer || c->opt->no_tokenizer ? c->in.n_used_weights : c->in.n_used,
        own = end - first;
    c->file = calloc(c->tokenizer.n_files + (size_t)own + 1, sizeof *c->file);
    c->hex  = calloc(c->tokenizer.n_files + (size_t)own + 1, sizeof *c->hex);
    if (!c->file || !c->hex)
        return no_memory(NULL, err);
    for (size_t i = 0; i < c->tokenizer.n_files; i++)
        c->file[c->n_files++] = c->tokenizer.files[i];
    for (int i = first; i < end; i++)
        c->file[c->n_files++] = c->in.used[i];
    for (int i = 0; i < c->n_files; i++)
        snprintf(c->hex[i], sizeof c->hex[i], "%064d", 0);
    return true;
}

/* The sources of a model file, an array without its last bracket; else the files that were read. */
static bool out_sources(TextOut *o, const Convert *c, Error *err)
{
    char        what[512];
    const char *old = source_meta(&c->in, "source"), *end = old ? strrchr(old, ']') : NULL;
    if (c->in.kind != SOURCE_MODEL_FILE || !old || (c->tokenizer_only && c->opt->tokenizer)) {
        text_out(o, "[");
        for (int i = 0; i < c->n_files; i++)
            json_out(o, "{file: %s, sha256: %s}", path_name(c->file[i]), c->hex[i]);
        return true;
    }
    snprintf(what, sizeof what, "%s: source", c->in.path);
    Json *list = json_parse(old, strlen(old), what, err);
    if (!list)
        return false;
    bool array = end && json_is_array(list), any = array && json_count(list);
    json_free(list);
    if (!array)
        return fail(err, INPUT, "%s: expected an array", what);
    text_out(o, "%.*s", any ? (int)(end - old) : 1, any ? old : "[");
    return true;
}

/* The metadata "source": the sources, and what was done to their weights. */
static char *make_source(const Convert *c, Error *err)
{
    TextOut     o    = { 0 };
    const char *hash = c->measure ? source_meta(&c->in, "sha256") : NULL;
    if (!out_sources(&o, c, err)) {
        text_out_free(&o);
        return NULL;
    }
    for (int i = 0; i < c->merged.n; i++) {
        const LoraUse *use = &c->merged.use[i];
        json_out(&o, "{lora: %s, sha256: %s, scale: %g}", path_name(use->lora->path),
                 use->lora->sha256, use->scale);
    }
    if (c->quantized) {
        json_out(&o, c->opt->n_keep ? "{quantized: %s, keep: [" : "{quantized: %s", c->quantized);
        for (size_t i = 0; i < c->opt->n_keep; i++)
            json_out(&o, "%s", c->opt->keep[i]);
        json_out(&o, c->opt->n_keep ? "]" : "");
        if (c->calibrated[0])
            json_out(&o, c->imatrix ? "imatrix: %s" : "calibrated: %s", c->calibrated);
        if (hash)
            json_out(&o, "from_sha256: %s", hash);
        json_out(&o, "}");
    }
    text_out(&o, "]");
    return text_out_take(&o, err);
}

/* ---- Making ---------------------------------------------------------------------------------- */

static void make_block(void *user, const WeightBlock *b)
{
    const Convert       *c    = user;
    const CheckedTensor *from = &c->in.stored.tensor[b->tensor];
    /* A float tensor that keeps its type is read too, to be measured: the error is relative to all
     * weights. */
    bool merged = c->merge && lora_merge_has(c->merge, b->spec),
         copied = !merged && from->type == b->type
        && (c->measure ? weight_type_quantized(b->type) : b->panels || !from->panels);
    if (b->spec->k == 0) {
        retype_vector(b->spec, from, b->to[0], b->report);
    } else if (copied) {
        retype_copy(b->spec, from, b->panels, b->to, b->block, b->item, b->first, b->n, b->rows,
                    b->report);
    } else {
        retype_read(b->spec, from, b->item, b->first, b->n, b->rows, b->scratch);
        if (merged)
            lora_merge_rows(c->merge, b->spec, b->type, b->rows, b->first, b->n);
        retype_store(b->type, b->panels, b->to, b->rows,
                     importance_of(&c->importance, b->spec, b->item), b->n, b->spec->k, c->measure,
                     b->scratch, b->report);
    }
}

/* Gives back the pages that blocks were read from; for rows of another program's file and for
 * vectors, when the tensor is complete. */
static void release_blocks(const TensorSpec *s, const CheckedTensor *from, int first, int n)
{
    if (!s->k || (from->rows && first + n == tensor_spec_panel_count(s)))
        checked_release(from);
    for (int i = 0; s->k && !from->rows && i < part_count(from->type); i++) {
        size_t block = from->panels ? part_bytes(from->type, i, s->k)
                                    : PANEL_ROWS * (size_t)s->k * weight_type_bytes(from->type);
        file_map_release(from->map, from->part[i]->offset + (size_t)first * block,
                         (size_t)n * block);
    }
}

static bool blocks_made(void *user, int tensor, const TensorSpec *s, int first,
                        const RetypeReport *reports, int n, Error *err)
{
    Convert             *c    = user;
    RetypeReport        *sum  = &c->sum[tensor];
    const CheckedTensor *from = &c->in.stored.tensor[tensor];
    for (int i = 0; i < n; i++)
        retype_sum(sum, &reports[i], tensor_spec_block_row(s, first + i));
    release_blocks(s, from, first, n);
    /* stored as it is: the program that made it wanted it so */
    if (!s->k && !c->measure && sum->fault == RETYPE_NOT_FINITE) {
        c->not_finite++;
        sum->fault = RETYPE_GOOD;
    }
    return sum->fault == RETYPE_GOOD ? true
                                     : retype_fail(sum, c->in.path, s, c->types[tensor], err);
}

/* Hashing may take longer than writing did. The caller may stop it. */
static bool wait_for_hashes(Convert *c, Error *err)
{
    const struct timespec a_moment = { .tv_nsec = 2000000 };
    while (c->hashing && !atomic_load(&c->hashes_done)) {
        if (!progress_tell(&PROGRESS_OF(c->opt), 1, 1, err))
            return false;
        nanosleep(&a_moment, NULL);
    }
    stop_hashing(c);
    return true;
}

static bool finish(void *user, ModelWriter *out, Error *err)
{
    Convert *c = user;
    if (!wait_for_hashes(c, err))
        return false;
    if (!c->hashed) {
        if (err)
            *err = c->hash_error;
        return false;
    }
    char *source = make_source(c, err);
    bool  ok     = source && model_writer_source(out, source, err);
    free(source);
    return ok;
}

/* ---- The plan -------------------------------------------------------------------------------- */

/* Each matrix as it is stored. */
static WeightType *stored_types(const StoredModel *c, Error *err)
{
    WeightType *types = malloc((size_t)c->n * sizeof *types);
    if (!types)
        no_memory(NULL, err);
    int i = 0;
    for (TensorSpec s = tensor_list_start(); types && tensor_list_next(&c->config, &s); i++)
        types[i] = s.k ? c->tensor[i].type : WT_F32;
    return types;
}

static bool open_adapters(Convert *c, Error *err)
{
    const tblock_convert_options *o = c->opt;
    if (o->n_merge_lora > LORA_MOST)
        return fail(err, USAGE, "merge lora: expected at most %d adapters, found %zu", LORA_MOST,
                    o->n_merge_lora);
    if (o->n_merge_lora && c->tokenizer_only)
        return fail(err, USAGE, "merge lora: expected none for a tokenizer alone, found '%s'",
                    o->merge_lora[0].path);
    for (size_t i = 0; i < o->n_merge_lora; i++) {
        const tblock_lora_file *from = &o->merge_lora[i];
        if (!from->path)
            return fail(err, USAGE, "merge lora: expected the path of an adapter, found none");
        if (!isfinite(from->scale))
            return fail(err, USAGE, "merge lora: %s: expected a finite scale", from->path);
        if (!adapter_open(&c->lora[i], &c->in.stored.config, from->path, err))
            return false;
        c->merged.use[c->merged.n++] = (LoraUse){ &c->lora[i], from->scale };
    }
    return !c->merged.n || (c->merge = lora_merge_new(&c->merged, err)) != NULL;
}

/* A quantized matrix with a merged adapter would be rounded twice; the head of a tied model is its
 * embedding, which an adapter of the head leaves unchanged. */
static bool check_merge(const Convert *c, Error *err)
{
    const StoredModel *from = &c->in.stored;
    int                i    = 0;
    for (TensorSpec s = tensor_list_start(); c->merge && tensor_list_next(&from->config, &s); i++) {
        WeightType have = from->tensor[i].type;
        if (lora_merge_has(c->merge, &s) && weight_type_quantized(have)
            && weight_type_quantized(c->types[i]))
            return fail(err, INPUT,
                        "%s: tensor %s: expected floats to merge an adapter into, found "
                        "%s: it would be rounded twice; --type f32, bf16 or f16 makes "
                        "floats of it",
                        from->path, s.name, weight_type_name(have));
    }
    TensorSpec head = { .role = ROLE_LM_HEAD, .layer = -1 };
    if (c->merge && from->config.tied_embeddings && lora_merge_has(c->merge, &head))
        return fail(err, INPUT, "%s: lm_head: expected a head of its own to merge an adapter into, "
                                "found that of a tied model, which is the embedding", from->path);
    return true;
}

static bool plan(Convert *c, Error *err)
{
    const tblock_convert_options *o    = c->opt;
    const StoredModel             *from = &c->in.stored;
    WeightType                    target;
    if (!o->type && o->n_keep)
        return fail(err, USAGE, "keep: expected a type with it");
    if (o->type && !weight_type_parse_made(o->type, &target))
        return fail(err, USAGE, "type: expected q8, q4, bf16, f16 or f32, found '%s'%s", o->type,
                    weight_type_hint(o->type));
    if (c->tokenizer_only)
        return true;
    c->types = o->type
        ? type_plan_new(&from->config, c->requantize ? NULL : from, from->path, target, o->keep,
                        o->n_keep, err)
        : stored_types(from, err);
    c->sum   = calloc((size_t)from->n, sizeof *c->sum);
    if (o->type && (weight_type_quantized(target) || o->n_keep || c->measure))
        c->quantized = weight_type_name(target);
    return c->types && (c->sum || no_memory(NULL, err)) && check_merge(c, err);
}

/* Is its tokenizer made with options, not just as the file says? */
static bool takes_pattern(SourceKind k)
{
    return k == SOURCE_HF || k == SOURCE_META || k == SOURCE_TOKENIZER;
}

/* A model's tokens are rows of its embedding; a file with more tokens could not be opened. */
static bool check_tokenizer(const Convert *c, Error *err)
{
    const char *own = c->opt->tokenizer;
    Tokenizer  *t   = NULL;
    if (c->measure) /* it is copied */
        return true;
    bool        any = !c->opt->no_tokenizer && (own || source_meta(&c->in, "tokenizer"));
    if (c->opt->pattern && (!any || (!own && !takes_pattern(c->in.kind))))
        return fail(err, USAGE, "pattern: expected a tokenizer with it, as in --tokenizer FILE");
    if (!any)
        return !c->tokenizer_only
            || fail(err, INPUT,
                    "%s: expected a tokenizer, found none: name another file with --tokenizer FILE",
                    c->in.path);
    bool ok = tokenizer_open(&t, own ? &c->tokenizer_view : &c->in.file, err)
           && (!c->in.has_weights
               || tokenizer_fits(t, c->in.stored.config.vocab_size, own ? own : c->in.path, err));
    tokenizer_free(t);
    return ok;
}

static bool open_input(Convert *c, const char *path, Error *err)
{
    const tblock_convert_options *o = c->opt;
    SourceOptions which = { .pattern = o->tokenizer ? NULL : o->pattern,
                            .no_tokenizer = o->tokenizer || o->no_tokenizer };
    if (!source_open_with(&c->in, path, &which, err)
        || (c->measure && !source_need_weights(&c->in, err)))
        return false;
    c->tokenizer_only = o->tokenizer_only || !c->in.has_weights;
    if (c->tokenizer_only && o->type)
        return fail(err, USAGE, "type: expected none for a tokenizer alone, found '%s'", o->type);
    const Config        *cfg = &c->in.stored.config;
    bool                 has = c->in.has_weights;
    TokenizerMakeOptions how = { .pattern = o->pattern,
                                 .bos = has ? cfg->bos : -1,
                                 .eos = has && cfg->n_eos ? cfg->eos[0] : -1 };
    if (!o->tokenizer)
        return true;
    if (!tokenizer_make(&c->tokenizer, o->tokenizer, &how, err))
        return false;
    if (!c->tokenizer.metadata)
        return fail(err, INPUT,
                    "%s: expected tokenizer.json, tokenizer.model, vocab.json or tokenizer.bin, "
                    "found none of these",
                    o->tokenizer);
    return tokenizer_data_view(&c->tokenizer_view, &c->tokenizer, err);
}

/* A template by its name, or its text, checked. */
static bool choose_chat(Convert *c, Error *err)
{
    const char *format = c->opt->chat_format;
    if (!format)
        return true;
    if (c->opt->no_tokenizer)
        return fail(err, USAGE, "chat format: expected a tokenizer with it");
    c->chat = chat_format_text(format, err);
    Jinja *t = c->chat ? jinja_parse(c->chat, strlen(c->chat), "chat template", err) : NULL;
    jinja_free(t);
    return t != NULL;
}

static bool check_apart(const Convert *c, const char *out, Error *err)
{
    for (size_t i = 0; i < c->tokenizer.n_files; i++)
        if (!file_check_apart(out, c->tokenizer.files[i], err))
            return false;
    if (c->imatrix && !file_check_apart(out, c->imatrix, err))
        return false;
    for (int i = 0; i < c->merged.n; i++)
        if (!adapter_check_apart(&c->lora[i], out, err))
            return false;
    /* its own tokenizer, which was not read */
    if (c->in.opt.no_tokenizer && path_is_folder(c->in.path)
        && !source_path_apart(c->in.path, out, err))
        return false;
    return source_check_apart(&c->in, out, err);
}

static bool write_file(Convert *c, const char *out, Error *err)
{
    const tblock_convert_options *o = c->opt;
    char *source = make_source(c, err);
    if (!source)
        return false;
    ModelContents contents = { .config = c->tokenizer_only ? NULL : &c->in.stored.config,
                               .types = c->types,
                               .source = source,
                               .row_major = o->row_major,
                               .tokenizer = o->tokenizer ? &c->tokenizer_view
                                   : o->no_tokenizer     ? NULL
                                                         : &c->in.file,
                               .forced_template = c->chat };
    for (int i = 0; i < CHAT_METAS; i++)
        contents.chat_meta[i] = source_meta(&c->in, chat_meta_keys[i]);
    c->hashing = c->n_files && pthread_create(&c->thread, NULL, hash_all, c) == 0;
    if (!c->hashing)
        hash_all(c);
    bool ok = weight_stream_write(&(WeightStream){ .path = out,
                                                   .contents = &contents,
                                                   .threads = o->threads,
                                                   .make = make_block,
                                                   .made = blocks_made,
                                                   .finish = finish,
                                                   .user = c,
                                                   .progress = PROGRESS_OF(o) },
                                  err);
    atomic_store(&c->stop, true);
    stop_hashing(c);
    free(source);
    return ok;
}

static bool make_report(const Convert *c, tblock_convert_report *out, Error *err)
{
    char *not_read = c->opt->tokenizer || c->opt->no_tokenizer || source_meta(&c->in, "tokenizer")
        ? NULL
        : tokenizer_files_not_read(c->in.path);
    const char *lines[]  = { c->in.warnings, c->tokenizer.warnings, not_read };
    TextOut     o        = { 0 };
    int         i        = 0;
    ModelContents what = { .config = c->tokenizer_only ? NULL : &c->in.stored.config,
                           .row_major = c->opt->row_major };
    for (TensorSpec s = tensor_list_start(); model_contents_next(&what, &s); i++) {
        out->n_params += tensor_spec_params(&s);
        out->bytes    += tensor_spec_bytes(&s, c->types[i]);
        out->flushed  += c->sum[i].flushed;
    }
    for (int k = 0; k < 3; k++)
        text_out(&o, "%s", lines[k] ? lines[k] : "");
    free(not_read);
    if (c->in.tokenizer_note && !c->opt->tokenizer && !c->opt->no_tokenizer)
        text_out(&o, "%s: %s%s\n", c->in.path,
                 source_meta(&c->in, "tokenizer") ? "" : "the file gets no tokenizer: ",
                 c->in.tokenizer_note);
    out->source     = source_kind_name(c->in.kind);
    out->not_finite = c->not_finite;
    out->warnings   = text_out_take(&o, err);
    return out->warnings != NULL;
}

static double relative(double error2, double sum2) { return sum2 > 0 ? sqrt(error2 / sum2) : 0; }

static bool make_rows(const Convert *c, tblock_quantize_report *out, Error *err)
{
    double error2 = 0, sum2 = 0;
    int    i = 0;
    *out = (tblock_quantize_report){ .rows = calloc((size_t)c->in.stored.n, sizeof *out->rows) };
    if (!out->rows)
        return no_memory(NULL, err);
    for (TensorSpec s = tensor_list_start(); tensor_list_next(&c->in.stored.config, &s); i++) {
        const RetypeReport *r = &c->sum[i];
        out->n_params += tensor_spec_params(&s);
        out->bytes    += tensor_spec_bytes(&s, c->types[i]);
        if (s.k == 0)
            continue;
        WeightType           have = c->in.stored.tensor[i].type, type = c->types[i];
        tblock_quantize_row *row  = &out->rows[out->n_rows++];
        *row = (tblock_quantize_row){
            .part = s.part, .layer = s.layer,
            .from = weight_type_name(have), .type = weight_type_name(type),
            .n_params = tensor_spec_params(&s), .bytes = tensor_spec_bytes(&s, type),
            .weighed = importance_of(&c->importance, &s, 0) != NULL,
            .from_bytes = checked_bytes(&c->in.stored.tensor[i]),
            .requantized = have != type && weight_type_quantized(have)
                && weight_type_quantized(type),
            .flushed = r->flushed, .error2 = r->error2, .sum2 = r->sum2,
            .error = relative(r->error2, r->sum2),
        };
        snprintf(row->name, sizeof row->name, "%s", s.name);
        error2       += r->error2;
        sum2         += r->sum2;
        out->flushed += r->flushed;
    }
    out->error = relative(error2, sum2);
    return true;
}

/* ---- The public functions -------------------------------------------------------------------- */

static void release(Convert *c)
{
    source_close(&c->in);
    tensor_file_close(&c->tokenizer_view);
    tokenizer_data_free(&c->tokenizer);
    lora_merge_free(c->merge);
    importance_free(&c->importance);
    for (int i = 0; i < LORA_MOST; i++)
        lora_free(&c->lora[i]);
    free(c->types);
    free(c->sum);
    free(c->file);
    free(c->hex);
}

FP_ENV_WORK
static bool convert_file(Convert *c, const char *in_path, const char *out_path, Error *err)
{
    if (c->opt->threads < 0 || c->opt->threads > 1024)
        return fail(err, USAGE, "threads: expected 0 to 1024, found %d", c->opt->threads);
    return open_input(c, in_path, err) && check_tokenizer(c, err) && choose_chat(c, err)
        && open_adapters(c, err) && plan(c, err) && list_files(c, err)
        && check_apart(c, out_path, err)
        && (!c->calibrate
            || calibrate(&c->importance, c->in.path, c->calibrate, c->calibrated, err))
        && (!c->imatrix
            || imatrix_read(&c->importance, &c->in.stored.config, c->imatrix, c->calibrated, err))
        && write_file(c, out_path, err)
        && (!c->report || make_report(c, c->report, err))
        && (!c->errors || make_rows(c, c->errors, err));
}

bool tblock_convert(const char *in_path, const char *out_path, const tblock_convert_options *opt,
                    tblock_convert_report *report, tblock_error *err)
{
    NEED(false, err, in_path, out_path);
    static const tblock_convert_options defaults = { 0 };
    Convert c = { .opt = opt ? opt : &defaults, .report = report };
    HostEnv host;
    if (report)
        *report = (tblock_convert_report){ 0 };
    host_env_enter(&host);
    bool ok = convert_file(&c, in_path, out_path, err);
    release(&c);
    host_env_leave(&host);
    return ok;
}

bool tblock_quantize(const char *in_path, const char *out_path, const tblock_quantize_options *opt,
                     tblock_quantize_report *report, tblock_error *err)
{
    NEED(false, err, in_path, out_path);
    static const tblock_quantize_options none = { 0 };
    const tblock_quantize_options *q = opt ? opt : &none;
    tblock_convert_options options = { .type = q->type,
                                       .keep = q->keep,
                                       .n_keep = q->n_keep,
                                       .threads = q->threads,
                                       .progress = q->progress,
                                       .go_on = q->go_on,
                                       .user = q->user };
    Convert c = { .opt = &options, .measure = true, .errors = report,
                  .requantize = q->requantize, .calibrate = q->calibrate ? q : NULL,
                  .imatrix = q->imatrix };
    HostEnv host;
    if (report)
        *report = (tblock_quantize_report){ 0 };
    if (!q->type)
        return fail(err, USAGE, "type: expected q8, q4, bf16, f16 or f32, found none");
    if (q->calibrate && q->imatrix)
        return fail(err, USAGE, "imatrix: expected no text to calibrate with it, found both");
    if ((q->calibrate || q->imatrix) && !q->n_keep && strcmp(q->type, "q8") != 0
        && strcmp(q->type, "q4") != 0)
        return fail(err, USAGE, "%s: expected type q8 or q4 with it, found '%s'",
                    q->imatrix ? "imatrix" : "calibrate", q->type);
    host_env_enter(&host);
    bool ok = convert_file(&c, in_path, out_path, err);
    release(&c);
    host_env_leave(&host);
    return ok;
}
