/* api/eval_windows.h: a text in overlapping windows, and the logits that predict its tokens, one after the other.
 *
 * Window i is tokens i * stride .. i * stride + window. It scores those that no window before it held, but never its own first
 * token, which nothing predicts. Source: huggingface.co/docs/transformers/perplexity, "Calculating PPL with fixed-length models". */
#ifndef API_EVAL_WINDOWS_H
#define API_EVAL_WINDOWS_H

#include "api/api.h"
#include "tblock_tools.h"

enum { EVAL_MODELS = 2, EVAL_PIECE = 128 }; /* tokens whose logits are held at once */

typedef struct EvalWindows {
    tblock_context *model[EVAL_MODELS]; /* one, or two that read the same tokens; the second may be NULL */
    const int32_t  *tokens;
    size_t          n, window, stride;
    const tblock_eval_options *opt;
    size_t          n_windows;           /* so far, the running one included */
    bool            stopped;
    double         *row[EVAL_MODELS];    /* logits [vocab_size] of a position, widened */

    /* Called for each scored token in order: its index in tokens; row[] hold the logits that predict it. */
    void (*score)(void *user, size_t token);
    /* After each window that was not stopped: how many tokens it held that no window before it did. */
    void (*end_window)(void *user, size_t n_new);
    void  *user;
} EvalWindows;

/* Check the options and fill window and stride, then run all. Errors as tblock_eval_text. */
bool eval_windows_run(EvalWindows *w, Error *err);

#endif
