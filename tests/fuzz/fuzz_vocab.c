/* tests/fuzz/fuzz_vocab.c: a GGUF file with a vocabulary only. Opened as a model, it is described
 * and encodes texts. */
#include "memory_file.h"
#include "mutate_gguf.h"
#include "small_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    use_model(memory_file(bytes, n), NULL);
    return 0;
}

#define mutate_input mutate_gguf
#include "mutated.h"
#ifndef FUZZER
int main(int argc, char **argv) { return mutated_main(argc, argv, "vocab", 1000); }
#endif
