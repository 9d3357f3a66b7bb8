/* api/weight_stream.h: the weights of a model file made in parallel and written in order. One thread hashes and writes what
 * was made before while the others make what comes next; memory is a few chunks, and of quantized matrices the small parts
 * (scales and sub-scales: a tenth of two matrices), whatever the model. */
#ifndef API_WEIGHT_STREAM_H
#define API_WEIGHT_STREAM_H

#include "base/progress.h"
#include "model/model_writer.h"
#include "model/retype.h"

/* 16 rows of a matrix, or a whole vector, that one thread is to make. */
typedef struct WeightBlock {
    const TensorSpec *spec;
    int               tensor;          /* its number in the order of tensor_list.h          */
    WeightType        type;
    bool              panels;          /* one panel; false: row-major                       */
    int               block, item;     /* its number in the tensor; the matrix of a stack it belongs to */
    int               first, n;        /* rows of that matrix                               */
    void             *to[MAX_PARTS];   /* where each part of the panel, the rows or the vector belong */
    float            *rows;            /* the thread's own: room for 16 rows as f32         */
    void             *scratch;         /* and what retype.h works in                        */
    RetypeReport     *report;          /* zeroed; for whoever looks at it in `made`         */
} WeightBlock;

typedef struct WeightStream {
    const char          *path;         /* of the output, for messages */
    const ModelContents *contents;
    int                  threads;      /* 0: one for each physical core */
    void (*make)(void *user, const WeightBlock *b);  /* any thread, any order */
    /* After some blocks of a tensor were made, in order, on the calling thread; reports: one for each of n
     * blocks of 16 rows from number `first` on. May be NULL; false stops the stream. */
    bool (*made)(void *user, int tensor, const TensorSpec *s, int first, const RetypeReport *reports, int n, Error *err);
    bool (*finish)(void *user, ModelWriter *out, Error *err); /* after the last weight; may be NULL */
    void    *user;
    Progress progress;
} WeightStream;

/* Write the whole file at path. Atomic. */
bool weight_stream_write(const WeightStream *s, Error *err);

#endif
