/* Writes the tokenizer that C makes of a source as a file of the metadata entry and the tensors
 * alone, to be compared with recorded ones:  make_tokenizer SRC OUT [PATTERN] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "format/gguf.h"
#include "tokenizer/tokmake.h"

static bool put_all(TensorWriter *w, const TokenizerData *d, Error *err)
{
    for (int i = 0; i < d->n_tensors; i++) {
        const TokenizerTensor *t = &d->tensor[i];
        if (!tensor_writer_declare(w, t->name, t->dtype, t->rank, t->shape, err))
            return false;
    }
    if (!tensor_writer_meta(w, "tokenizer", d->metadata, err) || !tensor_writer_begin(w, err))
        return false;
    for (int i = 0; i < d->n_tensors; i++)
        if (!tensor_writer_put(w, i, 0, d->tensor[i].data, d->tensor[i].n_bytes, err))
            return false;
    return true;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool make(TokenizerData *data, const char *path, const TokenizerMakeOptions *opt, Error *err)
{
    size_t   n = strlen(path);
    GgufFile gguf = { 0 };
    if (n < 5 || strcmp(path + n - 5, ".gguf") != 0)
        return tokenizer_make(data, path, opt, err);
    bool ok = gguf_open(&gguf, path, err) && tokenizer_make_gguf(data, gguf.meta, err);
    gguf_close(&gguf);
    return ok;
}

int main(int argc, char **argv)
{
    Error                err = { 0 };
    TokenizerData        data = { 0 };
    TokenizerMakeOptions opt = { .pattern = argc > 3 ? argv[3] : NULL, .bos = -1, .eos = -1 };
    if (argc < 3) {
        fprintf(stderr, "usage: make_tokenizer SRC OUT [PATTERN]\n");
        return USAGE;
    }
    double start = seconds();
    bool   ok = make(&data, argv[1], &opt, &err);
    double took = seconds() - start;
    if (ok && !data.metadata)
        ok = fail(&err, INPUT, "%s: no tokenizer", argv[1]);
    TensorWriter *w = ok ? tensor_writer_new(argv[2], 64, &err) : NULL;
    if (w && put_all(w, &data, &err))
        ok = tensor_writer_end(w, &err);
    else if (w)
        tensor_writer_abort(w);
    ok = ok && w && !err.status;
    for (size_t i = 0; ok && i < data.n_files; i++)
        printf("read %s\n", data.files[i]);
    if (ok)
        printf("%s%.3f ms\n", data.warnings ? data.warnings : "", 1e3 * took);
    else
        fprintf(stderr, "make_tokenizer: %s\n", err.msg);
    tokenizer_data_free(&data);
    return ok ? 0 : err.status;
}
