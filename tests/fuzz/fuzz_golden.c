/* tests/fuzz/fuzz_golden.c: any bytes as what a run left: a golden file of safetensors, a .npy pair
 * whose logits they are, a saved state. Where a golden file opens, every number of it is readable;
 * a state that is taken lets the model go on. */
#include <math.h>

#include "api/golden.h"
#include "fuzz.h"
#include "memory_folder.h"
#include "tblock_tools.h"

static const char config[] = "{\"d_model\": 8, \"n_layers\": 1, \"heads\": 1, \"d_ff\": 8, "
                             "\"vocab_size\": 5, \"n_ctx\": 16}";
/* numpy's file of the tokens 1, 2, 3: magic, version 1.0, length of the header, header, int32 */
static const char tokens_header[] = "\x93NUMPY\x01\x00\x46\x00{'descr': '<i4', 'fortran_order': "
                                    "False, 'shape': (3,), }            \n";

static tblock_model   *model;
static tblock_context *context;

static void open_model(void)
{
    Error   e = { 0 };
    char    out[128], npy[128];
    int32_t tokens[] = { 1, 2, 3 };
    memory_folder_put("config.json", config, sizeof config - 1);
    snprintf(out, sizeof out, "%s/model.bin", memory_folder());
    claim(tblock_synth(memory_path("config.json"), out,
                       &(tblock_synth_options){ .type = "f32", .threads = 1 }, &e));
    model = tblock_open(out, NULL, &e);
    unlink(out); /* the mapping stays */
    context = model
        ? tblock_context_new(model, &(tblock_context_options){ .threads = 1, .isa = "scalar" }, &e)
        : NULL;
    claim(context != NULL);
    memcpy(npy, tokens_header, sizeof tokens_header - 1);
    memcpy(npy + sizeof tokens_header - 1, tokens, sizeof tokens);
    memory_folder_put("tokens.npy", npy, sizeof tokens_header - 1 + sizeof tokens);
}

static void read_case(const GoldenCase *k)
{
    volatile double sum = 0;
    for (size_t i = 0; i < k->tokens->n_elements; i++)
        claim(golden_token(k->tokens, i) >= 0 && golden_token(k->tokens, i) < 5);
    for (size_t i = 0; !k->logits && i < k->n_rows; i++) {
        const float       logits[5] = { 0, 1, 2, NAN, -1 };
        double            wide[5];
        tblock_verify_row row = { 0 };
        golden_digest_same(k, i, logits, wide, 5, &row);
    }
    for (size_t i = 0; k->logits && i < k->logits->n_elements; i++)
        sum = sum + golden_value(k->logits, i);
    for (size_t i = 0; k->logits_f32 && i < k->logits_f32->n_elements; i++)
        sum = sum + golden_value(k->logits_f32, i);
    /* the context; the last one is not run */
    claim(!k->greedy || k->tokens->n_elements + k->greedy->n_elements <= 16 + 1);
}

/* Any fingerprints, config and rules are compared with the model's, and the words fit. */
static void compare_model(const GoldenFile *g)
{
    Error                e      = { 0 };
    tblock_verify_report report = { 0 };
    for (size_t i = 0; i < g->prints.n; i++) {
        Fingerprint f = golden_print(&g->prints, i);
        touch(&f, sizeof f);
    }
    claim(golden_compare_model(g, context, &report, &e));
    claim(memchr(report.config_diff, 0, sizeof report.config_diff)
          && memchr(report.tensor_diff, 0, sizeof report.tensor_diff)
          && memchr(report.tokenizer_diff, 0, sizeof report.tokenizer_diff)
          && memchr(report.template_diff, 0, sizeof report.template_diff));
}

static void use_golden(const char *path)
{
    Error      e = { 0 };
    GoldenFile g;
    if (!said(golden_open(&g, path, NULL, true, context, &e), &e))
        return;
    const bool read = said(golden_digests_read(&g, 5, &e), &e);
    for (size_t i = 0; read && i < g.n_cases; i++)
        read_case(&g.cases[i]);
    if (said(golden_prints_read(&g, &e), &e))
        compare_model(&g);
    touch(golden_meta(&g, "format") ? golden_meta(&g, "format") : "", 0);
    golden_close(&g);
}

static void use_state(const char *path)
{
    Error    e = { 0 };
    int32_t *tokens = NULL;
    size_t   n = 0;
    if (said(tblock_state_load(context, 0, path, &tokens, &n, &e), &e) && n < 16) {
        tblock_item item = { 0, (int32_t)n, 1, true };
        claim(tblock_seq_length(context, 0) == (int32_t)n && tblock_decode(context, &item, 1, &e));
    }
    tblock_free(tokens);
    claim(tblock_seq_rewind(context, 0, 0, &e));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (!model)
        open_model();
    memory_folder_put("golden.safetensors", bytes, n);
    memory_folder_put("logits.npy", bytes, n);
    use_golden(memory_path("golden.safetensors"));
    use_golden(memory_path("logits.npy"));
    use_state(memory_path("golden.safetensors"));
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "golden"); }
#endif
