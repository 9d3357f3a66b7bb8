/* tests/fuzz/fuzz_hf.c: a Hugging Face folder of any bytes. config.json, up to the first NUL; then,
 * where one follows, model.safetensors. Where it opens, the model computes. */
#include "memory_folder.h"
#include "small_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    memory_folder_put_two("config.json", "model.safetensors", bytes, n);
    use_model(memory_folder(), NULL);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "hf"); }
#endif
