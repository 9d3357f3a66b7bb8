/* api/attention_api.c: a run that keeps its attention probabilities, and the files for them. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/fp_env.h"
#include "base/memory.h"
#include "base/progress.h"
#include "report/attn.h"
#include "tblock_tools.h"

struct tblock_attention {
    const tblock_model *model;
    RunSettings         settings;
    int      n_layers, n_heads;  /* the number kept */
    int     *layer, *head;       /* the kept ones, in the order of the data */
    int     *layer_at, *head_at; /* [of the model]: index among them; -1: not kept */
    size_t   n;
    int32_t *token;
    float   *p;                  /* [n_layers, n_heads, n, n] */
};

void tblock_attention_free(tblock_attention *a)
{
    if (!a)
        return;
    free(a->layer);
    free(a->head);
    free(a->layer_at);
    free(a->head_at);
    free(a->token);
    free(a->p);
    free(a);
}

/* Selects among n_all layers or heads: *kept [*n_kept] and *place [n_all]. chosen NULL: all. */
static bool choose(const char *what, const int *chosen, size_t n_chosen, int n_all, int **kept,
                   int *n_kept, int **place, Error *err)
{
    *kept  = calloc((size_t)n_all, sizeof **kept);
    *place = calloc((size_t)n_all, sizeof **place);
    if (!*kept || !*place)
        return no_memory(NULL, err);
    for (int i = 0; i < n_all; i++) {
        (*kept)[i]  = i;
        (*place)[i] = chosen ? -1 : i;
    }
    *n_kept = chosen ? 0 : n_all;
    if (chosen && n_chosen == 0)
        return fail(err, USAGE, "attention: expected at least one %s, found none", what);
    for (size_t i = 0; chosen && i < n_chosen; i++) {
        if (chosen[i] < 0 || chosen[i] >= n_all)
            return fail(err, USAGE, "attention: %s: expected 0 to %d, found %d", what, n_all - 1,
                        chosen[i]);
        if ((*place)[chosen[i]] >= 0)
            return fail(err, USAGE, "attention: %s %d: expected it once, found it twice", what,
                        chosen[i]);
        (*kept)[*n_kept]     = chosen[i];
        (*place)[chosen[i]] = (*n_kept)++;
    }
    return true;
}

/* Allocates a->p, zeroed: nothing writes the entries after a query's position. */
static bool make_room(tblock_attention *a, Error *err)
{
    size_t squares = (size_t)a->n_layers * (size_t)a->n_heads, bytes;
    if (!mul_size(a->n, a->n, &bytes) || !mul_size(bytes, squares, &bytes)
        || !mul_size(bytes, sizeof *a->p, &bytes) || bytes > TBLOCK_ATTENTION_MAX_BYTES)
        return fail(err, USAGE,
                    "attention: %d layers x %d heads x %zu x %zu tokens: expected at most %d MB of "
                    "probabilities, found %.0f MB: "
                    "choose fewer layers, heads or tokens",
                    a->n_layers, a->n_heads, a->n, a->n, TBLOCK_ATTENTION_MAX_BYTES >> 20,
                    (double)a->n * (double)a->n * (double)squares * sizeof *a->p / (1 << 20));
    a->p = calloc(bytes, 1);
    return a->p
        ? true
        : fail(err, SYSTEM, "out of memory for %zu MB of attention probabilities", bytes >> 20);
}

/* first: the token that is item 0 of the current call. */
typedef struct ProbRows { tblock_attention *a; size_t first; } ProbRows;

static float *row_of(void *user, int layer, int head, size_t item)
{
    const ProbRows       *r = user;
    tblock_attention *a = r->a;
    int               l = a->layer_at[layer], h = a->head_at[head];
    return l < 0 || h < 0
        ? NULL
        : a->p + (((size_t)l * (size_t)a->n_heads + (size_t)h) * a->n + r->first + item) * a->n;
}

static bool compute(tblock_attention *a, tblock_context *c, const tblock_attention_options *o,
                    Error *err)
{
    enum { PIECE = 128 };
    ProbRows     rows     = {.a = a};
    Progress progress = PROGRESS_OF(o);
    bool     ok       = true;
    forward_watch_attention(c->forward, row_of, &rows);
    while (ok && rows.first < a->n) {
        tblock_item item[PIECE];
        size_t      n = a->n - rows.first < PIECE ? a->n - rows.first : PIECE;
        for (size_t i = 0; i < n; i++)
            item[i] = (tblock_item){0, (int32_t)(rows.first + i), a->token[rows.first + i], false};
        ok = tblock_decode(c, item, n, err);
        rows.first += n;
        ok = ok && progress_tell(&progress, (double)rows.first, (double)a->n, err);
    }
    forward_watch_attention(c->forward, NULL, NULL);
    return ok;
}

static bool has_nan(const float *x, size_t n)
{
    bool found = false;
    for (size_t i = 0; i < n; i++)
        found |= x[i] != x[i];
    return found;
}

/* Fails if a kept probability is NaN. */
static bool check_probabilities(const tblock_attention *a, const tblock_context *c, Error *err)
{
    char what[80];
    for (int l = 0; l < a->n_layers; l++)
        for (int h = 0; h < a->n_heads; h++)
            for (size_t q = 0; q < a->n; q++)
                if (has_nan(a->p + (((size_t)l * (size_t)a->n_heads + (size_t)h) * a->n + q) * a->n,
                            a->n)) {
                    snprintf(what, sizeof what,
                             "the attention of layer %d, head %d, at position %zu", a->layer[l],
                             a->head[h], q);
                    return context_explain_nan(c, what, err);
                }
    return true;
}

static bool prepare(tblock_attention *a, const tblock_context *c, const int32_t *tokens,
                    const tblock_attention_options *o, Error *err)
{
    const Config *cfg = &c->model->weights.cfg;
    if (config_has_state(cfg))
        return fail(err, USAGE, "attention: expected a model with attention in every layer, found "
                                "some with a state (state_layers)");
    if (cfg->bidirectional)
        return fail(err, USAGE, "attention: expected queries that see what is before them, found "
                                "attention in both directions (bidirectional)");
    if (a->n == 0)
        return fail(err, USAGE, "attention: expected at least one token, found none");
    if (a->n > (size_t)c->n_ctx)
        return fail(err, USAGE, "attention: %zu tokens do not fit into the context of %d", a->n,
                    c->n_ctx);
    if (!choose("layer", o->layers, o->n_layers, cfg->n_layers, &a->layer, &a->n_layers,
                &a->layer_at, err)
        || !choose("head", o->heads, o->n_heads, cfg->heads, &a->head, &a->n_heads, &a->head_at,
                   err)
        || !make_room(a, err))
        return false;
    a->token = malloc(a->n * sizeof *a->token);
    if (!a->token)
        return no_memory(NULL, err);
    memcpy(a->token, tokens, a->n * sizeof *a->token);
    return true;
}

FP_ENV_WORK
static tblock_attention *attention_new(tblock_context *c, const int32_t *tokens, size_t n,
                                       const tblock_attention_options *opt, tblock_error *err)
{
    static const tblock_attention_options all = {0};
    tblock_attention *a = calloc(1, sizeof *a);
    if (!a) {
        no_memory(NULL, err);
        return NULL;
    }
    *a = (tblock_attention){ .model = c->model,
                             .settings = run_settings(c, context_loaded_as(c, -1)),
                             .n = n };
    opt     = opt ? opt : &all;
    bool ok = prepare(a, c, tokens, opt, err) && tblock_seq_rewind(c, 0, 0, err)
        && compute(a, c, opt, err) && (c->allow_nan || check_probabilities(a, c, err));
    if (!tblock_seq_rewind(c, 0, 0, ok ? err : NULL) || !ok) {
        tblock_attention_free(a);
        return NULL;
    }
    return a;
}

tblock_attention *tblock_attention_new(tblock_context *c, const int32_t *tokens, size_t n,
                                       const tblock_attention_options *opt, tblock_error *err)
{
    NEED(NULL, err, c, tokens || !n);
    if (!ranks_refuse(c->model, "attention probabilities", err))
        return NULL;
    HOST_ENV_RETURN(tblock_attention *, attention_new(c, tokens, n, opt, err));
}

const float *tblock_attention_head(const tblock_attention *a, int layer, int head)
{
    NEED(NULL, NULL, a);
    const Config *cfg = &a->model->weights.cfg;
    if (layer < 0 || layer >= cfg->n_layers || head < 0 || head >= cfg->heads
        || a->layer_at[layer] < 0 || a->head_at[head] < 0)
        return NULL;
    return a->p
        + ((size_t)a->layer_at[layer] * (size_t)a->n_heads + (size_t)a->head_at[head]) * a->n
        * a->n;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* The view that report/ plots. The caller frees v->piece (NULL without tokenizer). */
static bool view_of(const tblock_attention *a, AttnView *v, Error *err)
{
    const tblock_model *m     = a->model;
    const char         *hash = source_meta(&m->source, "sha256");
    AttnPiece          *piece = m->tokenizer ? calloc(a->n, sizeof *piece) : NULL;
    if (m->tokenizer && !piece)
        return no_memory(NULL, err);
    for (size_t i = 0; piece && i < a->n; i++)
        /* An id without a piece has no bytes. */
        tokenizer_piece(m->tokenizer, a->token[i], &piece[i].bytes, &piece[i].n_bytes);
    *v = (AttnView){
        .model    = path_name(m->source.path),
        .sha256   = hash ? hash : "",
        .kv_type  = a->settings.kv_type,
        .cfg      = &m->weights.cfg,
        .n_tokens = a->n,
        .token    = a->token,
        .piece    = piece,
        .n_layers = a->n_layers,
        .layer    = a->layer,
        .n_heads  = a->n_heads,
        .head     = a->head,
        .p        = a->p,
    };
    return true;
}

static bool draw(const tblock_attention *a, const char *format, const AttnSink *out, Error *err)
{
    AttnView v;
    bool     html = strcmp(format, "html") == 0;
    if (!html && strcmp(format, "json") != 0)
        return fail(
            err, USAGE,
            "attention: format: expected html, json or, for a file, safetensors, found '%s'",
            format);
    if (!view_of(a, &v, err))
        return false;
    bool ok = html ? attn_html(&v, out, err) : attn_json(&v, out, err);
    free((void *)(uintptr_t)v.piece);
    return ok;
}

static bool put_to_file(void *user, const char *data, size_t n_bytes, Error *err)
{
    return out_file_write(user, data, n_bytes, err);
}

static bool write_drawing(const tblock_attention *a, const char *path, const char *format,
                          Error *err)
{
    OutFile f;
    if (!out_file_open(&f, path, err))
        return false;
    if (draw(a, format, &(AttnSink){put_to_file, &f}, err))
        return out_file_commit(&f, err);
    out_file_abort(&f);
    return false;
}

/* "65,0": the window of each kept layer; 0: none. */
static bool window_list(const tblock_attention *a, TensorWriter *w, Error *err)
{
    TextOut text = {0};
    for (int i = 0; i < a->n_layers; i++)
        text_out(&text, "%s%d", i ? "," : "", config_window(&a->model->weights.cfg, a->layer[i]));
    char *list = text_out_take(&text, err);
    bool  ok   = list && tensor_writer_meta(w, "windows", list, err);
    free(list);
    return ok;
}

/* "0,2,5": the kept heads, the first dimension of attn.layerI. */
static bool head_list(const tblock_attention *a, TensorWriter *w, Error *err)
{
    TextOut text = {0};
    for (int i = 0; i < a->n_heads; i++)
        text_out(&text, "%s%d", i ? "," : "", a->head[i]);
    char *list = text_out_take(&text, err);
    bool  ok   = list && tensor_writer_meta(w, "heads", list, err);
    free(list);
    return ok;
}

static bool declare(const tblock_attention *a, TensorWriter *w, Error *err)
{
    char    text[32];
    int64_t n = (int64_t)a->n;
    snprintf(text, sizeof text, "%d", a->model->weights.cfg.window);
    bool ok = run_metadata(w, "tblock-attention", a->model, &a->settings, err)
        && head_list(a, w, err) && tensor_writer_meta(w, "window", text, err)
        && window_list(a, w, err)
        && (!a->model->weights.cfg.window_chunked
            || tensor_writer_meta(w, "window_chunked", "true", err))
        && tensor_writer_declare(w, "tokens", DT_I32, 1, &n, err);
    for (int i = 0; ok && i < a->n_layers; i++) {
        snprintf(text, sizeof text, "attn.layer%d", a->layer[i]);
        ok = tensor_writer_declare(w, text, DT_F32, 3, (int64_t[]){a->n_heads, n, n}, err);
    }
    return ok;
}

static bool write_tensors(const tblock_attention *a, const char *path, Error *err)
{
    size_t        layer = (size_t)a->n_heads * a->n * a->n;
    TensorWriter *w     = tensor_writer_new(path, 1, err);
    bool ok = w && declare(a, w, err) && tensor_writer_begin(w, err)
              && tensor_writer_put(w, 0, 0, a->token, a->n * sizeof *a->token, err);
    for (int i = 0; ok && i < a->n_layers; i++)
        ok = tensor_writer_put(w, 1 + i, 0, a->p + (size_t)i * layer, layer * sizeof *a->p, err);
    if (ok)
        return tensor_writer_end(w, err);
    tensor_writer_abort(w);
    return false;
}

FP_ENV_WORK
static bool write_attention(const tblock_attention *a, const char *path, const char *format,
                            tblock_error *err)
{
    if (!model_check_apart(a->model, path, err))
        return false;
    return strcmp(format, "safetensors") == 0 ? write_tensors(a, path, err)
                                              : write_drawing(a, path, format, err);
}

bool tblock_attention_write(const tblock_attention *a, const char *path, const char *format,
                            tblock_error *err)
{
    NEED(false, err, a, path, format);
    HOST_ENV_RETURN(bool, write_attention(a, path, format, err));
}

typedef struct Printer {
    bool (*put)(void *user, const char *data, size_t n_bytes); void *user;
} Printer;

static bool put_to_caller(void *user, const char *data, size_t n_bytes, Error *err)
{
    const Printer *p = user;
    bool go_on = p->put(p->user, data, n_bytes);
    host_env_again();
    return go_on || fail(err, SYSTEM, "attention: stopped by the caller");
}

FP_ENV_WORK
static bool print_attention(const tblock_attention *a, const char *format,
                            bool (*put)(void *user, const char *data, size_t n_bytes), void *user,
                            tblock_error *err)
{
    return draw(a, format, &(AttnSink){put_to_caller, &(Printer){put, user}}, err);
}

bool tblock_attention_print(const tblock_attention *a, const char *format,
                            bool (*put)(void *user, const char *data, size_t n_bytes), void *user,
                            tblock_error *err)
{
    NEED(false, err, a, format, put);
    HOST_ENV_RETURN(bool, print_attention(a, format, put, user, err));
}
