/* tests/fuzz/small_model.h: the included model, opened by the first call, for good. */
#ifndef SMALL_MODEL_H
#define SMALL_MODEL_H

#include "fuzz.h"
#include "tblock.h"

static tblock_model   *small_model;
static tblock_context *small_context;

static inline void small_open(tblock_context_options options)
{
    tblock_error err;
    if (small_context)
        return;
    small_model = tblock_open("models/shakespeare.bin", NULL, &err);
    claim(small_model != NULL);
    options.threads = 1;
    small_context   = tblock_context_new(small_model, &options, &err);
    claim(small_context != NULL);
}

#endif
