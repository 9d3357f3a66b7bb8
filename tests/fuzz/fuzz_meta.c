/* tests/fuzz/fuzz_meta.c: a folder as Meta publishes it, of any bytes. params.json, up to the first
 * NUL; then, where one follows, consolidated.00.pth. Where it opens, the model computes. */
#include "memory_folder.h"
#include "small_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    memory_folder_put_two("params.json", "consolidated.00.pth", bytes, n);
    use_model(memory_folder(), NULL);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "meta"); }
#endif
