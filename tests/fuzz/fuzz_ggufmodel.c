/* tests/fuzz/fuzz_ggufmodel.c: a GGUF file of a model, whole or in two parts (packed_folder.h),
 * or a checkpoint of llama2.c with its tokenizer. The first file is opened as a model, described,
 * encodes a text and computes. */
#include "packed_folder.h"
#include "small_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    use_model(packed_folder_put(bytes, n), NULL);
    return 0;
}

#include "mutated.h"
#ifndef FUZZER
int main(int argc, char **argv) { return mutated_main(argc, argv, "ggufmodel", 300); }
#endif
