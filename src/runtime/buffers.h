/* runtime/buffers.h: the memory of a forward pass: one block that holds every activation of all threads, and behind them what
 * each thread has for itself. Private to forward.c; what it takes is planned by forward.h's forward_plan_bytes. */
#ifndef RUNTIME_BUFFERS_H
#define RUNTIME_BUFFERS_H

#include "runtime/run.h"

typedef struct Buffers {
    unsigned ints;               /* activations that integers are made of (numerics.h) */
    int      max_tok, threads;
    char    *block;
    size_t   bytes, thread_bytes;
    char    *thread_memory;      /* [threads, thread_bytes], in the block */
} Buffers;

/* Room for max_tok tokens; r's activations point into it. False without memory: b->bytes says how much it would be. */
bool buffers_new(Buffers *b, Run *r, unsigned ints, int max_tok, int threads);
void buffers_free(Buffers *b);   /* a zeroed Buffers is accepted */

/* Give r, one member's view of a pass (team and n_tok are set), what is that member's own. */
void buffers_own(const Buffers *b, Run *r);

#endif
