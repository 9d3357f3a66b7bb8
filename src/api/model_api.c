/* api/model_api.c: opens model files, and runs text through their tokenizer. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/text.h"
#include "constrain/constrain.h"
#include "model/model_writer.h"
#include "model/tensor_list.h"
#include "tblock_tools.h"

const char *tblock_version(void) { return TBLOCK_VERSION; }
void        tblock_free(void *p) { free(p); }

/* Notes "q4 embed=f16": what converts the file's weights to these. */
static bool note_types(tblock_model *m, WeightType type, const tblock_open_options *opt, Error *err)
{
    TextOut o = { 0 };
    text_out(&o, "%s", weight_type_name(type));
    for (size_t i = 0; i < opt->n_keep; i++)
        text_out(&o, " %s", opt->keep[i]);
    m->retyped = text_out_take(&o, err);
    return m->retyped != NULL;
}

/* Binds matrices that are converted to another type. */
static bool bind_types(tblock_model *m, const tblock_open_options *opt, const Progress *progress,
                       Error *err)
{
    const StoredModel *c = &m->source.stored;
    WeightType        type;
    if (!weight_type_parse_made(opt->type, &type))
        return fail(err, USAGE, "type: expected auto, q8, q4, bf16, f16 or f32, found '%s'%s",
                    opt->type, weight_type_hint(opt->type));
    if (!note_types(m, type, opt, err))
        return false;
    WeightType *types = type_plan_new(&c->config, c, c->path, type, opt->keep, opt->n_keep, err);
    bool        ok    = types && model_bind(&m->weights, c, types, m->ranks, progress, err);
    free(types);
    return ok;
}

static bool bind_weights(tblock_model *m, const tblock_open_options *opt, const Progress *progress,
                         Error *err)
{
    bool retype = opt->type && strcmp(opt->type, "auto") != 0;
    if (opt->n_keep && !retype)
        return fail(err, USAGE, "keep: expected a type for the other matrices with it, found only "
                                "'%s'", opt->keep[0]);
    if (!m->source.has_weights)
        return true;
    m->has_weights = retype ? bind_types(m, opt, progress, err)
                            : model_bind(&m->weights, &m->source.stored, NULL, m->ranks,
                                         progress, err);
    return m->has_weights;
}

bool tokenizer_fits(const Tokenizer *t, int vocab_size, const char *path, Error *err)
{
    int size = tokenizer_size(t);
    return size <= vocab_size
        || fail(err, INPUT, "%s: tokenizer: expected at most vocab_size %d tokens, found %d", path,
                vocab_size, size);
}

static bool open_tokenizer(tblock_model *m, Error *err)
{
    m->chat = source_meta(&m->source, "chat");
    for (int i = 0; i < CHAT_METAS; i++)
        m->chat_meta[i] = source_meta(&m->source, chat_meta_keys[i]);
    if (!source_meta(&m->source, "tokenizer"))
        return true;
    return tokenizer_open(&m->tokenizer, &m->source.file, err)
        && (!m->has_weights
            || tokenizer_fits(m->tokenizer, m->weights.cfg.vocab_size, m->source.path, err));
}

/* The weight types of the matrices, the type with the most bytes first. */
static void name_types(tblock_model *m)
{
    size_t bytes[WT_COUNT];
    memcpy(bytes, m->weights.matrix_bytes, sizeof bytes);
    for (;;) {
        int best = 0;
        for (int t = 1; t < WT_COUNT; t++)
            best = bytes[t] > bytes[best] ? t : best;
        if (bytes[best] == 0)
            return;
        bytes[best] = 0;
        size_t n = strlen(m->types);
        snprintf(m->types + n, sizeof m->types - n, "%s%s", n ? "," : "",
                 weight_type_name((WeightType)best));
    }
}

/* How the pages of a model file are loaded. Other sources are copied into our own memory. */
static bool map_options(tblock_model *m, const tblock_open_options *opt, Error *err)
{
    TensorFile *f = &m->source.file;
    if (opt->mlock
        && !memory_lock(m->weights.region.data, m->weights.region.n_bytes, m->source.path, err))
        return false;
    for (int i = 0; opt->mlock && i < m->weights.n_owned; i++)
        if (!memory_lock(m->weights.owned[i].data, m->weights.owned[i].n_bytes, m->source.path,
                         err))
            return false;
    if (m->source.kind != SOURCE_MODEL_FILE)
        return true;
    if (m->ranks) { /* a huge page would hold rows of other ranks; nothing is read ahead either */
        file_map_small_pages(&f->map);
        return true;
    }
    file_map_huge_pages(&f->map); /* disk reads then fill huge pages */
    if (!m->retyped) /* reads ahead in the background; 0.1 ms if all is there */
        file_map_will_need(&f->map, f->data_offset, f->data_bytes);
    if (opt->populate)
        file_map_populate(&f->map);
    if (!opt->mlock && m->has_weights) /* locked weights stay where they are */
        weight_pages_find(&m->weights, &f->map);
    return opt->mlock && !m->retyped ? file_map_lock(&f->map, err) : true;
}

static bool open_ahead(tblock_model *m, Error *err)
{
    if (!m->weights.cfg.mtp_layers)
        return true;
    m->ahead = calloc(1, sizeof *m->ahead);
    if (!m->ahead)
        return no_memory(m->source.path, err);
    m->ahead->ranks       = m->ranks;
    m->ahead->source      = m->source;
    m->ahead->weights     = model_mtp(&m->weights);
    m->ahead->has_weights = true;
    return true;
}

static bool check_data(const tblock_model *m, const Progress *progress, Error *err)
{
    DataCheck found;
    return data_check(&found, m->source.has_weights ? &m->source.stored : NULL, &m->source.file,
                      progress, err)
        && data_check_answer(&found, m->source.path, INPUT, err);
}

/* A check reads all data, which takes most of the time. */
static bool check_and_bind(tblock_model *m, const tblock_open_options *opt, Error *err)
{
    const double   checked = opt->check ? 0.9 : 0;
    const Progress whole = PROGRESS_OF(opt),
                   check = progress_part(&whole, 0, checked),
                   load = progress_part(&whole, checked, 1);
    return (!opt->check || check_data(m, &check, err)) && bind_weights(m, opt, &load, err);
}

FP_ENV_WORK
static tblock_model *open_model(const char *path, const tblock_open_options *opt, Ranks *ranks,
                                tblock_error *err)
{
    static const tblock_open_options defaults = { 0 };
    tblock_model *m = calloc(1, sizeof *m);
    if (!m) {
        no_memory(path, err);
        return NULL;
    }
    opt      = opt ? opt : &defaults;
    m->ranks = ranks;
    bool ok = source_open(&m->source, path, err)
        && check_and_bind(m, opt, err)
        && open_tokenizer(m, err) && map_options(m, opt, err) && open_ahead(m, err);
    if (!ok) {
        tblock_close(m);
        return NULL;
    }
    name_types(m);
    return m;
}

tblock_model *tblock_open(const char *path, const tblock_open_options *opt, tblock_error *err)
{
    NEED(NULL, err, path);
    return model_open(path, opt, NULL, err);
}

tblock_model *model_open(const char *path, const tblock_open_options *opt, Ranks *ranks,
                         Error *err)
{
    HOST_ENV_RETURN(tblock_model *, open_model(path, opt, ranks, err));
}

void tblock_close(tblock_model *m)
{
    if (!m)
        return;
    ranks_order_close(m);
    token_trie_free(m->trie);
    tokenizer_free(m->tokenizer);
    model_free_loras(m, 0);
    free(m->lora);
    model_free(&m->weights);
    source_close(&m->source);
    free(m->ahead);
    free(m->retyped);
    free(m);
}

bool tblock_output_apart(const tblock_model *m, const char *path, const char *output,
                         tblock_error *err)
{
    NEED(false, err, path, output);
    return m ? model_check_apart(m, output, err) : source_path_apart(path, output, err);
}

bool tblock_hold(const char *path, int what, tblock_error *err)
{
    NEED(false, err, path);
    if (what < TBLOCK_HOLD_PLACE || what > TBLOCK_HOLD_MODEL)
        return fail(err, USAGE, "what: expected TBLOCK_HOLD_PLACE to TBLOCK_HOLD_MODEL, found %d",
                    what);
    return what == TBLOCK_HOLD_MODEL ? source_hold(path, err)
                                     : file_hold(path, (FileHold)what, err);
}

const char *tblock_mapped_file(const void *address) { return file_mapped_at(address); }

void tblock_model_describe(const tblock_model *m, tblock_model_info *out)
{
    NEED(, NULL, m, out);
    const Config *c    = &m->weights.cfg;
    const char   *hash = source_meta(&m->source, "sha256");
    *out = (tblock_model_info){
        .has_weights = m->has_weights,
        .has_tokenizer = m->tokenizer != NULL,
        .family = c->family,
        .hash = hash ? hash : "",
        .weight_types = m->types,
        .file_bytes = m->source.file.map.size,
        .tokenizer_note = m->source.tokenizer_note ? m->source.tokenizer_note : "",
        .bos = -1,
    };
    if (!m->has_weights)
        return;
    out->d_model         = c->d_model;
    out->n_layers        = c->n_layers;
    out->heads           = c->heads;
    out->kv_heads        = c->kv_heads;
    out->head_dim        = c->head_dim;
    out->d_ff            = c->d_ff;
    out->vocab_size      = c->vocab_size;
    out->n_ctx           = c->n_ctx;
    out->window          = c->window;
    out->tied_embeddings = c->tied_embeddings;
    out->n_params        = m->weights.n_params;
    out->bytes_per_token = m->weights.bytes_per_token;
    out->made_bytes =
        m->weights.owned_bytes + late_weights_packed(m->weights.late)
        + (m->weights.pages ? weight_pages_copied(m->weights.pages) : 0);
    out->left_bytes      = late_weights_left(m->weights.late);
    out->memory_bytes    = (size_t)m->weights.available;
    out->bos             = c->bos;
    out->n_eos           = c->n_eos;
    out->eos             = c->eos;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static bool need_tokenizer(const tblock_model *m, Error *err)
{
    return m->tokenizer ? true
                        : fail(err, INPUT,
                               "%s: tokenizer: expected one for text, found none: use "
                               "token ids (--ids), or convert with --tokenizer FILE",
                               m->source.path);
}

FP_ENV_WORK
static bool tokenize(const tblock_model *m, const char *text, size_t n_bytes, unsigned flags,
                     int32_t **ids, size_t *n_ids, tblock_error *err)
{
    Ids out = {0};
    if (!need_tokenizer(m, err))
        return false;
    if (!tokenizer_encode(m->tokenizer, text, n_bytes, (flags & TBLOCK_PARSE_SPECIAL) != 0,
                          (flags & TBLOCK_ADD_SPECIAL) != 0, &out, err)) {
        free(out.id);
        return false;
    }
    if (!out.id && !(out.id = malloc(sizeof *out.id)))
        return no_memory(NULL, err);
    *ids   = out.id;
    *n_ids = out.n;
    return true;
}

bool tblock_tokenize(const tblock_model *m, const char *text, size_t n_bytes, unsigned flags,
                     int32_t **ids, size_t *n_ids, tblock_error *err)
{
    NEED(false, err, ids, n_ids);
    *ids = NULL;
    *n_ids = 0;
    NEED(false, err, m, text || !n_bytes);
    HOST_ENV_RETURN(bool, tokenize(m, text, n_bytes, flags, ids, n_ids, err));
}

bool tblock_detokenize(const tblock_model *m, const int32_t *ids, size_t n_ids, char **text,
                       size_t *n_bytes, tblock_error *err)
{
    NEED(false, err, text, n_bytes);
    *text = NULL;
    *n_bytes = 0;
    NEED(false, err, m, ids || !n_ids);
    return need_tokenizer(m, err) && tokenizer_decode(m->tokenizer, ids, n_ids, text, n_bytes, err);
}

FP_ENV_WORK
static bool tokenize_json(const tblock_model *m, const char *line, size_t n_bytes, char **answer,
                          tblock_error *err)
{
    return need_tokenizer(m, err)
        && tokenizer_answer_json(m->tokenizer, line, n_bytes, answer, err);
}

bool tblock_tokenize_json(const tblock_model *m, const char *line, size_t n_bytes, char **answer,
                          tblock_error *err)
{
    NEED(false, err, answer);
    *answer = NULL;
    NEED(false, err, m, line || !n_bytes);
    HOST_ENV_RETURN(bool, tokenize_json(m, line, n_bytes, answer, err));
}

bool tblock_tokenizer_describe(const tblock_model *m, tblock_tokenizer_info *out,
                               tblock_error *err)
{
    NEED(false, err, m, out);
    if (!need_tokenizer(m, err))
        return false;
    TokenizerFacts f = tokenizer_facts(m->tokenizer);
    *out = (tblock_tokenizer_info){ .type = f.type,
                                    .size = tokenizer_size(m->tokenizer),
                                    .unk = f.unk,
                                    .prefix = f.prefix,
                                    .n_prefix = f.n_prefix,
                                    .suffix = f.suffix,
                                    .n_suffix = f.n_suffix,
                                    .chat_template = m->chat_meta[CHAT_TEMPLATE],
                                    .chat_template_tools = m->chat_meta[CHAT_TEMPLATE_TOOLS],
                                    .special_tokens = m->chat_meta[CHAT_SPECIAL_TOKENS] };
    return true;
}

bool tblock_tokens(const tblock_model *m, int32_t first, size_t n, tblock_token *out,
                   tblock_error *err)
{
    NEED(false, err, m, out || !n);
    if (!need_tokenizer(m, err))
        return false;
    int64_t size = tokenizer_size(m->tokenizer);
    if (first < 0 || first >= size || n > (size_t)(size - first))
        return fail(err, USAGE, "token: expected an id from 0 to %lld, found %lld",
                    (long long)size - 1, (long long)(first < 0 || first > size ? first : size));
    for (size_t i = 0; i < n; i++) {
        int id = first + (int)i;
        tokenizer_piece(m->tokenizer, id, &out[i].bytes, &out[i].n_bytes);
        out[i].type = tokenizer_piece_type(m->tokenizer, id);
    }
    return true;
}

struct tblock_stream { TextStream *text; };

tblock_stream *tblock_stream_new(const tblock_model *m, bool continues, tblock_error *err)
{
    NEED(NULL, err, m);
    if (!need_tokenizer(m, err))
        return NULL;
    tblock_stream *s = calloc(1, sizeof *s);
    if (s)
        s->text = text_stream_new(m->tokenizer, continues);
    if (!s || !s->text) {
        free(s);
        no_memory(NULL, err);
        return NULL;
    }
    return s;
}

const char *tblock_stream_put(tblock_stream *s, int32_t id, size_t *n_bytes)
{
    NEED(NULL, NULL, s, n_bytes);
    return text_stream_put(s->text, id, n_bytes);
}
const char *tblock_stream_flush(tblock_stream *s, size_t *n_bytes)
{
    NEED(NULL, NULL, s, n_bytes);
    return text_stream_flush(s->text, n_bytes);
}

const char *tblock_stream_alone(tblock_stream *s, int32_t id, size_t *n_bytes)
{
    NEED(NULL, NULL, s, n_bytes);
    return text_stream_alone(s->text, id, n_bytes);
}

void tblock_stream_free(tblock_stream *s)
{
    if (!s)
        return;
    text_stream_free(s->text);
    free(s);
}
