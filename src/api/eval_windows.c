/* api/eval_windows.c: runs windows of a text through one or two models. */
#include "api/api.h"

#include <stdlib.h>

#include "base/fp_env.h"

static int vocab_of(const tblock_context *c) { return c->model->weights.cfg.vocab_size; }

static bool check(EvalWindows *w, Error *err)
{
    static const tblock_eval_options defaults = {0};
    const tblock_context *a = w->model[0], *b = w->model[1];
    int                   n_ctx = a->n_ctx;
    w->opt = w->opt ? w->opt : &defaults;
    if (b && vocab_of(a) != vocab_of(b))
        return fail(err, USAGE, "vocabulary: expected %d tokens in both models, found %d in %s",
                    vocab_of(a), vocab_of(b), b->model->source.path);
    if (a == b)
        return fail(err, USAGE, "the parent: expected a different context from the model's");
    n_ctx = b && b->n_ctx < n_ctx ? b->n_ctx : n_ctx;
    if (n_ctx < 2)
        return fail(err, USAGE, "context: expected at least 2 tokens, found %d: the first predicts "
                                "the second", n_ctx);
    int window = w->opt->window ? w->opt->window : n_ctx,
        stride = w->opt->stride ? w->opt->stride : window;
    if (window < 2 || window > n_ctx)
        return fail(err, USAGE, "window: expected 2 to %d, the context, found %d", n_ctx, window);
    if (stride < 1 || stride > window)
        return fail(err, USAGE, "stride: expected 1 to %d, the window, found %d", window, stride);
    if (w->n < 2)
        return fail(err, USAGE, "expected at least two tokens, found %zu: the first token is never "
                                "predicted", w->n);
    if (!check_tokens("", w->tokens, w->n, vocab_of(a), err))
        return false;
    w->window = (size_t)window;
    w->stride = (size_t)stride;
    return true;
}

/* Tokens from .. from + n of the window that begins at `begin`, in every model; logits from token
 * `scored` on. */
static bool decode(EvalWindows *w, size_t begin, size_t from, size_t n, size_t scored, Error *err)
{
    tblock_item item[EVAL_PIECE];
    for (size_t i = 0; i < n; i++)
        item[i] = (tblock_item){ 0, (int32_t)(from + i - begin), w->tokens[from + i],
                                 from + i + 1 >= scored };
    for (int m = 0; m < EVAL_MODELS && w->model[m]; m++)
        if (!tblock_decode(w->model[m], item, n, err))
            return false;
    return true;
}

static bool go_on(EvalWindows *w, size_t done)
{
    w->stopped = w->opt->progress && !w->opt->progress(w->opt->user, (double)done / (double)w->n);
    host_env_again();
    return !w->stopped;
}

/* One window; its tokens from `scored` on are scored. The last token would be run only for its
 * position, so it is not run. */
static bool run_window(EvalWindows *w, size_t begin, size_t end, size_t scored, Error *err)
{
    for (int m = 0; m < EVAL_MODELS && w->model[m]; m++)
        if (!tblock_seq_rewind(w->model[m], 0, 0, err))
            return false;
    for (size_t from = begin; from + 1 < end && go_on(w, from > scored ? from : scored);) {
        size_t n = end - 1 - from < EVAL_PIECE ? end - 1 - from : EVAL_PIECE;
        if (!decode(w, begin, from, n, scored, err))
            return false;
        for (size_t i = 0; i < n; i++) {
            if (from + i + 1 < scored)
                continue;
            for (int m = 0; m < EVAL_MODELS && w->model[m]; m++)
                if (!eval_row(w->model[m], i, w->row[m], err))
                    return false;
            w->score(w->user, from + i + 1);
        }
        from += n;
    }
    return true;
}

static bool run_windows(EvalWindows *w, Error *err)
{
    size_t before = 0; /* tokens in the windows so far */
    for (size_t begin = 0; before < w->n && !w->stopped; begin += w->stride) {
        size_t end = w->n - begin < w->window ? w->n : begin + w->window;
        w->n_windows++;
        if (!run_window(w, begin, end, before > begin + 1 ? before : begin + 1, err))
            return false;
        if (!w->stopped)
            w->end_window(w->user, end - before);
        before = end;
    }
    return true;
}

bool eval_windows_run(EvalWindows *w, Error *err)
{
    if (!check(w, err))
        return false;
    size_t vocab = (size_t)vocab_of(w->model[0]);
    w->row[0] = malloc(EVAL_MODELS * vocab * sizeof *w->row[0]);
    if (!w->row[0])
        return no_memory(NULL, err);
    w->row[1] = w->row[0] + vocab;
    bool ok = run_windows(w, err);
    free(w->row[0]);
    for (int m = 0; m < EVAL_MODELS && w->model[m]; m++)
        tblock_seq_rewind(w->model[m], 0, 0, NULL);
    return ok;
}
