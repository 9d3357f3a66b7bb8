/* Are the logits that one_file.c wrote those of the engine, in every bit, however the prompt is
 * split into calls that continue its KV cache?
 *   one_file_chunks MODEL LOGITS 1,2,3    LOGITS: float32 [tokens, vocab_size] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tblock.h"

enum { MOST = 4096 };

/* How many of the logits differ if each call has n_chunk tokens. */
static size_t differing(tblock_context *c, const float *expected, size_t vocab_size,
                        tblock_item *items, size_t n, size_t n_chunk, tblock_error *err)
{
    size_t n_differ = 0;
    if (!tblock_seq_rewind(c, 0, 0, err))
        return n * vocab_size;
    for (size_t first = 0; first < n; first += n_chunk) {
        size_t n_now = n - first < n_chunk ? n - first : n_chunk;
        if (!tblock_decode(c, items + first, n_now, err))
            return n * vocab_size;
        for (size_t i = 0; i < n_now; i++)
            for (size_t j = 0; j < vocab_size; j++)
                n_differ += memcmp(&tblock_logits(c, i)[j], &expected[(first + i) * vocab_size + j],
                                   sizeof(float)) != 0;
    }
    return n_differ;
}

int main(int argc, char **argv)
{
    static tblock_item items[MOST];
    static const size_t chunks[] = { 1, 3, 63, 64, 65, MOST };
    size_t n = 0;
    tblock_error err = { 0 };
    tblock_model *m = argc == 4 ? tblock_open(argv[1], NULL, &err) : NULL;
    tblock_context *c = m ? tblock_context_new(m, NULL, &err) : NULL;
    FILE *f = c ? fopen(argv[2], "rb") : NULL;
    if (!f) {
        printf("FAIL one_file_chunks: %s\n", c || !m ? "expected MODEL LOGITS 1,2,3" : err.msg);
        return 1;
    }
    for (char *at = argv[3]; *at && n < MOST; n++) {
        items[n] = (tblock_item){ .pos = (int32_t)n, .token = (int32_t)strtol(at, &at, 10),
                                  .want_logits = true };
        at += *at == ',';
    }
    tblock_model_info info;
    tblock_model_describe(m, &info);
    size_t vocab_size = (size_t)info.vocab_size, n_logits = n * vocab_size, worst = 0;
    float *logits = malloc((n_logits + 1) * sizeof *logits);
    size_t n_read = logits ? fread(logits, sizeof *logits, n_logits + 1, f) : 0;
    if (n_read == n_logits)
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
            size_t k = differing(c, logits, vocab_size, items, n, chunks[i], &err);
            worst = k > worst ? k : worst;
        }
    if (n_read != n_logits || worst)
        printf("FAIL one_file_chunks: %zu of %zu read, %zu differ %s\n", n_read, n_logits, worst,
               err.msg);
    else
        printf("ok %zu\n", n_logits);
    free(logits);
    fclose(f);
    tblock_context_free(c);
    tblock_close(m);
    return n_read != n_logits || worst;
}
