/* api/golden_write.c: writes golden logits of a token sequence to a safetensors file that records
 * the settings. */
#include "api/golden.h"

#include <stdlib.h>

#include "base/fp_env.h"
#include "base/memory.h"
#include "base/progress.h"
#include "tblock_tools.h"

enum { PIECE = 128 }; /* tokens whose logits are held at once: a 128k vocabulary then takes 64 MB */

typedef struct Golden {
    TensorWriter *writer;
    int           n_layers, d_model;
    size_t        at;            /* index of the current chunk's first token */
    GoldenPrints  prints;        /* of the model's tensors */
    double       *wide;          /* [vocab_size] scratch of a digest */
    bool          hidden, digest, ok;
    Error        *err;
} Golden;

/* Tensor numbers in the order of declaration. */
enum { T_TOKENS = GOLDEN_PRINT_TENSORS, T_LOGITS };

static int hidden_at(const Golden *g) { return T_LOGITS + (g->digest ? GOLDEN_DIGEST_TENSORS : 1); }

static bool declare(Golden *g, const tblock_context *c, size_t n, size_t n_rows, Error *err)
{
    int64_t vocab = c->model->weights.cfg.vocab_size;
    char    name[32];
    bool ok = golden_prints_declare(&g->prints, c->model, g->writer, err)
        && tensor_writer_declare(g->writer, "tokens", DT_I32, 1, (int64_t[]){ (int64_t)n }, err)
        && (g->digest ? golden_digest_declare(g->writer, n_rows, err)
                      : tensor_writer_declare(g->writer, "logits", DT_F32, 2,
                                              (int64_t[]){ (int64_t)n_rows, vocab }, err));
    for (int i = 0; ok && g->hidden && i < hidden_stages(g->n_layers); i++) {
        hidden_tensor_name(g->n_layers, i, name);
        ok = tensor_writer_declare(g->writer, name, g->digest ? DT_U64 : DT_F32, g->digest ? 1 : 2,
                                   (int64_t[]){ (int64_t)n, g->d_model }, err);
    }
    return ok;
}

static void keep_hidden(void *user, const char *name, size_t first, int n_tok, const float *x,
                        size_t stride)
{
    Golden *g = user;
    size_t  row = g->digest ? sizeof(uint64_t) : (size_t)g->d_model * sizeof(float);
    int     i   = hidden_at(g) + hidden_stage(g->n_layers, name);
    for (int t = 0; t < n_tok && g->ok; t++) {
        const float   *state = x + (size_t)t * stride;
        const uint64_t hash  = g->digest ? print_values(state, (size_t)g->d_model) : 0;
        g->ok = tensor_writer_put(g->writer, i, (g->at + first + (size_t)t) * row,
                                  g->digest ? (const void *)&hash : state, row, g->err);
    }
}

static bool run_piece(Golden *g, tblock_context *c, const int32_t *tokens, size_t n, size_t n_total,
                      bool last_only, Error *err)
{
    tblock_item item[PIECE];
    const int   vocab = c->model->weights.cfg.vocab_size;
    size_t      row   = (size_t)vocab * sizeof(float);
    for (size_t i = 0; i < n; i++)
        item[i] = (tblock_item){ 0, (int32_t)(g->at + i), tokens[g->at + i],
                                 !last_only || g->at + i + 1 == n_total };
    g->err = err;
    if (!tblock_decode(c, item, n, err) || !g->ok)
        return false;
    for (size_t i = 0; i < n; i++) {
        const size_t at     = last_only ? 0 : g->at + i;
        const float *logits = tblock_logits(c, i);
        if (item[i].want_logits
            && !(g->digest ? golden_digest_put(g->writer, T_LOGITS, at, logits, g->wide, vocab, err)
                           : tensor_writer_put(g->writer, T_LOGITS, at * row, logits, row, err)))
            return false;
    }
    g->at += n;
    return true;
}

FP_ENV_WORK
static bool write_logits(tblock_context *c, const int32_t *tokens, size_t n, const char *path,
                         const tblock_logits_options *opt, tblock_error *err)
{
    const Config *cfg = &c->model->weights.cfg;
    Golden        g   = { .n_layers = cfg->n_layers, .d_model = cfg->d_model,
                          .hidden = opt && opt->hidden, .digest = opt && opt->digest, .ok = true };
    bool          last = opt && opt->last;
    Progress      progress = opt ? PROGRESS_OF(opt) : (Progress){ 0 };
    if (n == 0)
        return fail(err, USAGE, "logits: expected at least one token, found none");
    if (n > (size_t)c->n_ctx)
        return fail(err, USAGE, "logits: %zu tokens do not fit into the context of %d", n,
                    c->n_ctx);
    if (!model_check_apart(c->model, path, err))
        return false;
    if (!tblock_seq_rewind(c, 0, 0, err) || !(g.writer = tensor_writer_new(path, 1, err)))
        return false;

    tblock_observer saved      = c->observer;
    void           *saved_user = c->observer_user;
    tblock_observe(c, g.hidden ? keep_hidden : NULL, &g);
    RunSettings settings = run_settings(c, context_loaded_as(c, -1));
    bool ok = run_metadata(g.writer, "tblock-logits", c->model, &settings, err)
              && golden_prints_make(&g.prints, c, err)
              && (!g.digest || (g.wide = malloc((size_t)cfg->vocab_size * sizeof *g.wide))
                  || no_memory(NULL, err))
              && declare(&g, c, n, last ? 1 : n, err) && tensor_writer_begin(g.writer, err)
              && golden_prints_put(&g.prints, g.writer, err)
              && tensor_writer_put(g.writer, T_TOKENS, 0, tokens, n * sizeof *tokens, err);
    while (ok && g.at < n)
        ok = run_piece(&g, c, tokens, n - g.at < PIECE ? n - g.at : PIECE, n, last, err)
            && progress_tell(&progress, (double)g.at, (double)n, err);
    tblock_observe(c, saved, saved_user);
    golden_prints_free(&g.prints);
    free(g.wide);
    if (ok)
        ok = tensor_writer_end(g.writer, err);
    else
        tensor_writer_abort(g.writer);
    return tblock_seq_rewind(c, 0, 0, NULL) && ok;
}

bool tblock_logits_write(tblock_context *c, const int32_t *tokens, size_t n, const char *path,
                         const tblock_logits_options *opt, tblock_error *err)
{
    NEED(false, err, c, tokens || !n, path);
    HOST_ENV_RETURN(bool, write_logits(c, tokens, n, path, opt, err));
}
