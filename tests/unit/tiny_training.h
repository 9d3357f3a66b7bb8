/* tests/unit/tiny_training.h: a small model in training. Its sizes divide nothing: sequences begin
 * within a draw of dropout, batches end within a part, and threads have pieces to share. Include
 * after test.h. */
#ifndef TINY_TRAINING_H
#define TINY_TRAINING_H

#include "train/trainer.h"

enum { TINY_SEQ = 29, TINY_BATCH = 11, TINY_TEXT = 700, TINY_LEARNED = 500 };

typedef struct Tiny { Params p; Crew crew; Trainer t; int32_t text[TINY_TEXT]; } Tiny;

static inline Config tiny_config(void)
{
    Config c;
    config_defaults(&c);
    c.d_model = 23;
    c.n_layers = 2;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = 6;
    c.rotary_dim = 6;
    c.d_ff = 100;
    c.vocab_size = 37;
    c.n_ctx = 64;
    c.qkv_bias = c.out_bias = c.ffn_bias = true;
    return c;
}

static inline TrainSettings tiny_settings(void)
{
    return (TrainSettings){ .batch = TINY_BATCH,
                            .micro = TINY_BATCH,
                            .seq_len = TINY_SEQ,
                            .n_steps = 8,
                            .schedule = { .lr = 0.01, .min_lr = 0.01 },
                            .adamw = { 0.9, 0.95, 1e-8, 0.1, false },
                            .seed = 5 };
}

static inline void tiny_close(Tiny *x)
{
    trainer_close(&x->t);
    params_free(&x->p);
    crew_close(&x->crew);
}

/* Parameters as for gradient checks. Whatever fails is the case's failure. */
static inline bool tiny_open(Tiny *x, const Config *c, const TrainSettings *s, int threads)
{
    Error err = { 0 };
    *x = (Tiny){ 0 };
    for (int i = 0; i < TINY_TEXT; i++)
        x->text[i] = (i * i + 7 * i + i / 11) % c->vocab_size;
    TrainData data = { x->text, TINY_LEARNED, TINY_TEXT };
    bool ok = crew_open(&x->crew, threads, &err) && params_layout(&x->p, c, &err)
        && trainer_open(&x->t, &x->p, &x->crew, &data, s, &err);
    CHECK(ok && x->crew.threads == threads, "%d of %d threads: %s", x->crew.threads, threads,
          err.msg);
    if (ok)
        params_scatter(&x->p, x->t.w, 3);
    else
        tiny_close(x);
    return ok;
}

/* One step; its loss and norm are that of Trainer.g, which it leaves. */
static inline double tiny_step(Tiny *x, double *norm)
{
    Error  err = { 0 };
    double loss = 0;
    CHECK(trainer_step(&x->t, &loss, norm, &err), "%s", err.msg);
    return loss;
}

#endif
