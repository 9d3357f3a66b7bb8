/* api/weight_stream.h: makes the weights of a model file in parallel and writes them in order.
 * One thread hashes and writes what is finished while the others make what comes next. Memory is
 * a few chunks and, for quantized matrices, their small parts (scales and sub-scales: a tenth of
 * two matrices), however large the model. */
#ifndef API_WEIGHT_STREAM_H
#define API_WEIGHT_STREAM_H

#include "base/progress.h"
#include "model/model_writer.h"

/* 16 rows of a matrix, or a whole vector: what one thread makes at a time. */
typedef struct WeightBlock {
    const TensorSpec *spec;
    int               tensor;          /* its number in the order of tensor_list.h */
    WeightType        type;
    bool              panels;          /* one panel; false: row-major */
    int               block, item;     /* number in the tensor; matrix of a stack */
    int               first, n;        /* rows of that matrix */
    void             *to[MAX_PARTS];   /* where the parts, rows or vector go */
    float            *rows;            /* the thread's own: room for 16 rows as f32 */
    void             *scratch;         /* the thread's own, for retype.h */
    RetypeReport     *report;          /* zeroed; `made` receives it */
} WeightBlock;

typedef struct WeightStream {
    const char          *path;         /* of the output, for messages */
    const ModelContents *contents;
    int                  threads;      /* 0: one for each physical core */
    void (*make)(void *user, const WeightBlock *b);  /* any thread, any order */
    /* Called on the calling thread after some blocks of a tensor were made, in order. reports:
     * one for each of n blocks of 16 rows, from number `first` on. May be NULL; false stops the
     * stream. */
    bool (*made)(void *user, int tensor, const TensorSpec *s, int first, const RetypeReport *reports, int n, Error *err);
    bool (*finish)(void *user, ModelWriter *out, Error *err); /* after the last weight; may be NULL */
    void    *user;
    Progress progress;
} WeightStream;

/* Writes the whole file at path: complete, or not at all on failure. */
bool weight_stream_write(const WeightStream *s, Error *err);

#endif
