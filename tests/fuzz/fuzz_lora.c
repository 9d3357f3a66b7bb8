/* tests/fuzz/fuzz_lora.c: an adapter of any bytes, for a small model. What begins as a GGUF file
 * is one; else adapter_config.json, up to the first NUL, and then adapter_model.safetensors. An
 * adapter that is loaded computes, and becomes part of the weights. */
#include "api/api.h"
#include "base/file.h"
#include "fuzz.h"
#include "memory_folder.h"
#include "mutate_gguf.h"
#include "tblock_tools.h"

static int small_run_opened; /* how many adapters opened */

static void put_model(void)
{
    static bool there;
    char       *bytes;
    size_t      n;
    Error       e = { 0 };
    if (there)
        return;
    claim(file_read("tests/fuzz/corpus/hf/seed-llama", 1 << 20, &bytes, &n, &e));
    claim(memory_folder_put_two("config.json", "model.safetensors", (const uint8_t *)bytes, n));
    free(bytes);
    there = true;
}

/* Three tokens with half of it. */
static void compute(const tblock_model *m, int number)
{
    Error           e    = { 0 };
    tblock_lora     half = { number, 0.5 };
    tblock_context *c    = tblock_context_new(m, &(tblock_context_options){
        .threads = 1, .n_ctx = 4, .isa = "scalar" }, &e);
    claim(c && tblock_lora_choose(c, -1, &half, 1, &e));
    for (int i = 0; i < 3; i++) {
        tblock_item item = { 0, i, i, true };
        if (!said(tblock_decode(c, &item, 1, &e), &e))
            break;
        touch(tblock_logits(c, 0), 3 * sizeof(float));
    }
    tblock_context_free(c);
}

/* All sums of what it changes. */
static void merge(const tblock_model *m, int number)
{
    Error      e   = { 0 };
    LoraSet    set = { 1, { { m->lora[number], 0.5 } } };
    LoraMerge *x   = lora_merge_new(&set, &e);
    claim(x != NULL);
    for (TensorSpec s = tensor_list_start(); tensor_list_next(&m->weights.cfg, &s);) {
        float *rows = calloc((size_t)s.rows, (size_t)(s.k ? s.k : 1) * sizeof *rows);
        claim(rows != NULL);
        if (lora_merge_has(x, &s)) {
            lora_merge_rows(x, &s, WT_BF16, rows, 0, s.rows);
            touch(rows, (size_t)s.rows * (size_t)s.k * sizeof *rows);
        }
        free(rows);
    }
    lora_merge_free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    bool  gguf = n >= 4 && memcmp(bytes, "GGUF", 4) == 0;
    Error e    = { 0 };
    int   number;
    put_model();
    memory_folder_put("adapter.gguf", gguf ? bytes : NULL, gguf ? n : 0);
    if (!gguf)
        memory_folder_put_two("adapter_config.json", "adapter_model.safetensors", bytes, n);
    const char   *path = gguf ? memory_path("adapter.gguf") : memory_folder();
    tblock_model *m    = tblock_open(memory_folder(), NULL, &e);
    claim(m != NULL);
    if (said(tblock_lora_load(m, path, &number, &e), &e)) {
        small_run_opened++;
        claim(number == 0 && strlen(tblock_lora_hash(m, 0)) == 64);
        claim(!tblock_output_apart(m, NULL, memory_path(gguf ? "adapter.gguf"
                                                             : "adapter_config.json"), &e));
        compute(m, number);
        merge(m, number);
    }
    tblock_close(m);
    return 0;
}

/* The GGUF file, or one of the two files. */
static size_t mutate_input(uint8_t *bytes, size_t n, size_t max)
{
    const uint8_t *end = n ? memchr(bytes, 0, n) : NULL;
    if (n >= 4 && memcmp(bytes, "GGUF", 4) == 0)
        return mutate_gguf(bytes, n, max);
    if (!end)
        return mutate_json(bytes, n, max);
    size_t   first = (size_t)(end - bytes), at = draw(2) ? 0 : first + 1;
    size_t   old = at ? n - at : first, room = old + 4096;
    uint8_t *part = malloc(room);
    if (!part)
        return n;
    memcpy(part, bytes + at, old);
    size_t m = at ? mutate_safetensors(part, old, room) : mutate_json(part, old, room);
    n = splice(bytes, n, max, at, old, part, m);
    free(part);
    return n;
}

#include "mutated.h"

#ifndef FUZZER
int main(int argc, char **argv)
{
    if (replay_arguments(argc, argv))
        return TEST_END();
    replay_target  = "lora";
    mutated_rounds = 100;
    TEST_MAIN_ARGS(argc, argv);
    TEST(the_corpus_does_no_harm);
    TEST(the_corpus_changed_does_no_harm);
    return TEST_END();
}
#endif
