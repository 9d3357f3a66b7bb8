/* tests/fuzz/fuzz_imatrix.c: any bytes as an importance matrix, for a model with experts. Where it
 * is read, the weights of every column of every matrix are finite and above or at 0. As a test it
 * replays its corpus and changes of it; FILE... replays those. */
#include <math.h>

#include "fuzz.h"
#include "memory_file.h"
#include "mutate_gguf.h"
#include "source/imatrix.h"

static int small_run_opened; /* how many files were read */

static const char config_text[] =
    "{\"d_model\": 4, \"n_layers\": 1, \"heads\": 1, \"head_dim\": 4, \"d_ff\": 2, "
    "\"vocab_size\": 4, \"n_ctx\": 4, \"n_experts\": 2, \"experts_used\": 1, "
    "\"expert_d_ff\": 2}";

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    Config     c = { 0 };
    Importance m = { 0 };
    Error      e = { 0 };
    char       sha256[65];
    claim(config_parse(&c, config_text, sizeof config_text - 1, "config", &e));
    if (said(imatrix_read(&m, &c, memory_file(bytes, n), sha256, &e), &e)) {
        small_run_opened++;
        claim(strlen(sha256) == 64);
        for (TensorSpec s = tensor_list_start(); tensor_list_next(&c, &s);)
            for (int item = 0; item < s.stack; item++) {
                const float *w = importance_of(&m, &s, item);
                for (int i = 0; w && i < s.k; i++)
                    claim(isfinite(w[i]) && w[i] >= 0);
            }
    }
    importance_free(&m);
    return 0;
}

/* A number of the legacy format, or anything of a GGUF file. */
static size_t mutate_input(uint8_t *bytes, size_t n, size_t max)
{
    if (n >= 4 && memcmp(bytes, "GGUF", 4) == 0)
        return mutate_gguf(bytes, n, max);
    if (n < 4 || draw(3) == 0)
        return mutate_bytes(bytes, n, max);
    memcpy(bytes + draw(n - 3), &(uint32_t){ (uint32_t)draw_integer() }, 4);
    return n;
}

#include "mutated.h"

#ifndef FUZZER
int main(int argc, char **argv)
{
    if (replay_arguments(argc, argv))
        return TEST_END();
    replay_target  = "imatrix";
    mutated_rounds = 500;
    TEST_MAIN_ARGS(argc, argv);
    TEST(the_corpus_does_no_harm);
    TEST(the_corpus_changed_does_no_harm);
    return TEST_END();
}
#endif
