/* api/calibrate.c: how much the columns of a model's matrices matter on a text. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/fp_env.h"
#include "base/hash.h"
#include "base/progress.h"
#include "tblock_tools.h"

/* The text is cut into windows of so many tokens, as llama.cpp's imatrix does. */
enum { WINDOW = 512 };

static size_t text_bytes(const tblock_quantize_options *o)
{
    return o->calibrate_bytes ? o->calibrate_bytes : strlen(o->calibrate);
}

static bool run_text(tblock_context *c, const int32_t *ids, size_t n, int window,
                     const Progress *progress, Error *err)
{
    tblock_item item[WINDOW];
    for (size_t at = 0, m; at < n; at += m) {
        for (m = 0; m < (size_t)window && at + m < n; m++)
            item[m] = (tblock_item){ 0, (int32_t)m, ids[at + m], false };
        if (!tblock_seq_rewind(c, 0, 0, err) || !tblock_decode(c, item, m, err)
            || !progress_tell(progress, (double)(at + m), (double)n, err))
            return false;
    }
    return true;
}

static bool run_model(Importance *m, const tblock_model *model,
                      const tblock_quantize_options *opt, Error *err)
{
    int                    most = model->weights.cfg.n_ctx;
    tblock_context_options how  = { .threads = opt->threads,
                                    .n_ctx = most < WINDOW ? most : WINDOW,
                                    .math = "f32",
                                    .kv_type = "f32" };
    tblock_context *c   = NULL;
    int32_t        *ids = NULL;
    size_t          n   = 0;
    bool ok = tblock_tokenize(model, opt->calibrate, text_bytes(opt), TBLOCK_ADD_SPECIAL, &ids, &n,
                              err)
        && (n >= 2 || fail(err, INPUT, "calibrate: expected a text of at least two tokens, found "
                                       "%zu", n))
        && (c = tblock_context_new(model, &how, err)) != NULL
        && importance_new(m, &model->weights.cfg, err);
    if (ok) {
        forward_importance(c->forward, m);
        ok = run_text(c, ids, n, how.n_ctx, &PROGRESS_OF(opt), err) && importance_finish(m, err);
    }
    tblock_context_free(c);
    tblock_free(ids);
    return ok;
}

bool calibrate(Importance *m, const char *path, const tblock_quantize_options *opt,
               char sha256[65], Error *err)
{
    tblock_model *model = tblock_open(path, NULL, err);
    bool          ok    = model && run_model(m, model, opt, err)
        && (sha256_hex(opt->calibrate, text_bytes(opt), sha256) || no_memory(NULL, err));
    tblock_close(model);
    return ok;
}
