/* bench_receipt: what receipts cost, and how fast they are computed again.
 *   bench_receipt [MODEL [TOKENS [ROUNDS]]]
 * Without a model: the time of a link for some vocabularies; with NETTLE_FAT_OVERRIDE=vendor:other
 * nettle leaves the processor's SHA instructions alone, so it is that of one without. With a model:
 * TOKENS (512) are drawn alone and with a receipt, read as a prompt with logits at every position,
 * and verified; in turns, ROUNDS (3) times each, and the medians are printed. */
#include <stdio.h>
#include <string.h>

#include "api/receipt.h"
#include "tblock_tools.h"
#include "timing.h"

enum { MOST_ROUNDS = 99, PIECE = 128, MOST_LINKS = 200 };

static void fail_with(const char *what)
{
    fprintf(stderr, "bench_receipt: %s\n", what);
    exit(1);
}

static void links(void)
{
    static const int vocab[] = { 32000, 128256, 262144 };
    printf("%12s %12s %10s\n", "vocabulary", "us a link", "GB/s");
    for (size_t i = 0; i < sizeof vocab / sizeof *vocab; i++) {
        static double s[MOST_LINKS];
        float        *logits = calloc((size_t)vocab[i], sizeof *logits);
        Sha256       *sha    = sha256_new();
        Digest        link   = { { 0 } };
        if (!logits || !sha)
            fail_with("out of memory");
        for (int n = 0; n < MOST_LINKS; n++) {
            double start = clock_seconds();
            receipt_link(sha, &link, n, logits, vocab[i]);
            s[n] = clock_seconds() - start;
        }
        double usual = median(s, MOST_LINKS);
        printf("%12d %12.0f %10.2f\n", vocab[i], 1e6 * usual, 4e-9 * vocab[i] / usual);
        free(logits);
        sha256_free(sha);
    }
}

typedef struct Bench { tblock_context *c; int n_tokens; char *json; } Bench;

/* Seconds of the tokens behind the first. */
static double generate(Bench *b, bool receipt)
{
    tblock_error              err  = { 0 };
    const int32_t             id   = 1;
    tblock_generation_options o    = {
        .ids = &id,
        .n_ids = 1,
        .sampling = { .temp = 0.8f, .top_k = 40, .top_p = 0.95, .seed = 5 },
        .stop_ids = &id,
        .max_tokens = b->n_tokens
    };
    tblock_receipt           *r    = NULL;
    tblock_generation_info    info = { .end = TBLOCK_GOES_ON };
    double                    s    = 0;
    tblock_seq_rewind(b->c, 0, 0, NULL);
    if (receipt
        && !(r = tblock_receipt_new(b->c, &o, &(tblock_receipt_options){ .trust_hash = true },
                                    &err)))
        fail_with(err.msg);
    o.on_token           = r ? tblock_receipt_token : NULL;
    o.user               = r;
    tblock_generation *g = tblock_generation_open(b->c, &o, &err);
    while (g && info.end == TBLOCK_GOES_ON) {
        double start = clock_seconds();
        if (!tblock_advance(b->c, &g, 1, 0, &err))
            break;
        s += info.n_ids ? clock_seconds() - start : 0;
        tblock_generation_describe(g, &info);
    }
    if (info.end != TBLOCK_END_LENGTH)
        fail_with(err.status ? err.msg : "the text ended early");
    if (r) {
        tblock_free(b->json);
        if (!tblock_receipt_json(r, &b->json, &err))
            fail_with(err.msg);
    }
    tblock_generation_close(g);
    tblock_receipt_free(r);
    return s;
}

static double verify(Bench *b)
{
    tblock_error       err = { 0 };
    tblock_receipt_row row;
    tblock_receipt    *r = tblock_receipt_read(b->json, strlen(b->json), "receipt", &err);
    tblock_seq_rewind(b->c, 0, 0, NULL);
    double start = clock_seconds();
    if (!r || !tblock_receipt_verify(b->c, &r, 1, NULL, &row, &err))
        fail_with(err.msg);
    double s = clock_seconds() - start;
    if (row.verdict != TBLOCK_RECEIPT_HOLDS)
        fail_with(row.why);
    tblock_receipt_free(r);
    return s;
}

/* The same tokens as verify computes, with logits everywhere and nothing done with them. */
static double prefill(Bench *b)
{
    tblock_error    err = { 0 };
    tblock_item     item[PIECE];
    tblock_receipt *r = tblock_receipt_read(b->json, strlen(b->json), "receipt", &err);
    tblock_seq_rewind(b->c, 0, 0, NULL);
    double start = clock_seconds();
    for (size_t at = 0, n; r && at < r->n_ids; at += n) {
        n = r->n_ids - at < PIECE ? r->n_ids - at : PIECE;
        for (size_t i = 0; i < n; i++)
            item[i] = (tblock_item){ 0, (int32_t)(at + i), r->ids[at + i], true };
        if (!tblock_decode(b->c, item, n, &err))
            fail_with(err.msg);
    }
    tblock_receipt_free(r);
    return clock_seconds() - start;
}

static void whole(const char *path, int n_tokens, int rounds)
{
    tblock_error  err = { 0 };
    tblock_model *m   = tblock_open(path, NULL, &err);
    Bench         b   = { .n_tokens = n_tokens };
    double        s[4][MOST_ROUNDS];
    b.c =
        m ? tblock_context_new(m, &(tblock_context_options){ .n_ctx = n_tokens + 2 }, &err) : NULL;
    if (!b.c)
        fail_with(err.msg);
    for (int i = 0; i < rounds; i++) {
        s[0][i] = generate(&b, false);
        s[1][i] = generate(&b, true);
        s[2][i] = prefill(&b);
        s[3][i] = verify(&b);
    }
    const double alone = n_tokens / median(s[0], rounds), with = n_tokens / median(s[1], rounds),
                 read = n_tokens / median(s[2], rounds), again = n_tokens / median(s[3], rounds);
    printf(
        "%d tokens: drawn %.1f tok/s, with a receipt %.1f (%.2f); as a prompt %.1f, verified %.1f "
        "(%.2f of that, %.2f of drawing)\n",
        n_tokens, alone, with, with / alone, read, again, again / read, again / alone);
    tblock_free(b.json);
    tblock_context_free(b.c);
    tblock_close(m);
}

int main(int argc, char **argv)
{
    int n_tokens = argc > 2 ? atoi(argv[2]) : 512, rounds = argc > 3 ? atoi(argv[3]) : 3;
    if (n_tokens < 1 || rounds < 1 || rounds > MOST_ROUNDS)
        fail_with("expected at least one token, and 1 to 99 rounds");
    if (argc > 1)
        whole(argv[1], n_tokens, rounds);
    else
        links();
    return 0;
}
