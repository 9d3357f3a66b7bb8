/* tests/fuzz/fuzz_hf.c: a Hugging Face folder of any bytes. config.json, up to the first NUL; then, where one follows, model.safetensors.
 * Where it opens, the model computes. */
#include "memory_folder.h"
#include "small_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    size_t config = strnlen((const char *)bytes, n);
    memory_folder_put("config.json", bytes, config);
    memory_folder_put("model.safetensors", config < n ? bytes + config + 1 : NULL, config < n ? n - config - 1 : 0);
    use_model(memory_folder(), NULL);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "hf"); }
#endif
