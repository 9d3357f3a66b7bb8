/* tests/fuzz/fuzz_receipt.c: any bytes as a receipt. One that is read is written as itself; with
 * the facts and the beginning of a small run it is computed, whatever it says of that. */
#include "api/receipt.h"
#include "small_model.h"

/* What another reader makes of what is written is the same. */
static void check_written(const tblock_receipt *r)
{
    Error           e     = { 0 };
    char           *first = NULL, *second = NULL;
    tblock_receipt *again;
    claim(tblock_receipt_json(r, &first, &e));
    again = tblock_receipt_read(first, strlen(first), "again", &e);
    claim(again && tblock_receipt_json(again, &second, &e) && strcmp(first, second) == 0);
    tblock_receipt_free(again);
    tblock_free(first);
    tblock_free(second);
}

/* As if it were of this run. */
static void compute(tblock_receipt *r)
{
    Error              e = { 0 };
    RunBinding         here;
    char               hex[65];
    tblock_receipt_row row[2];
    const Tokenizer   *t = small_context->model->tokenizer;
    const tblock_receipt_verify_options second = { .one_block = true, .block = 1 };
    claim(receipt_facts(small_context, "stored", &here, hex, &e));
    for (int i = 0; i < RECEIPT_FACTS; i++) {
        free(r->fact[i]);
        const char *fact = here.fact[i].value;
        r->fact[i]       = fact ? strdup(fact) : NULL;
        claim(!r->fact[i] == !fact);
    }
    r->has_text = t != NULL;
    claim(receipt_begin(r, &r->begin, &e) && receipt_root(r, &r->root, &e));
    claim(!t || receipt_text(r, t, &r->text_hash, &e));
    claim(tblock_receipt_verify(small_context, &r, 1, &second, row, &e) && row[0].verdict);
    claim(tblock_receipt_verify(small_context, (tblock_receipt *[]){ r, r }, 2, NULL, row, &e));
    for (int i = 0; i < 2; i++)
        claim(row[i].verdict == row[0].verdict && (row[i].verdict == 0) == (row[i].why[0] == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    Error e = { 0 };
    small_open((tblock_context_options){ .n_ctx = 12, .n_seqs = 2 });
    char           *text = exact_copy(bytes, n);
    tblock_receipt *r    = tblock_receipt_read(text, n, "receipt", &e);
    if (said(r != NULL, &e)) {
        tblock_receipt_row     row;
        tblock_receipt_parting parting;
        claim(tblock_receipt_bisect(r, r, &parting, &e) && !*parting.field && parting.block < 0);
        claim(tblock_receipt_verify(small_context, &r, 1, NULL, &row, &e));
        check_written(r);
        compute(r);
    }
    tblock_receipt_free(r);
    free(text);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "receipt"); }
#endif
