/* tests/fuzz/fuzz_ggufmodel.c: a GGUF file of a model, whole or in two parts (packed_folder.h),
 * or a checkpoint of llama2.c with its tokenizer. The first file is opened as a model, described,
 * encodes a text and computes; a config alone is described. What is no file is a path. */
#include "packed_folder.h"
#include "small_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char       *name = exact_copy(bytes, n);
    const char *path = packed_folder_put(bytes, n);
    use_model(n < 5 ? name : path, NULL);
    if (strstr(path, ".json"))
        describe(path, n % 2);
    free(name);
    return 0;
}

#include "mutated.h"
#ifndef FUZZER
int main(int argc, char **argv) { return mutated_main(argc, argv, "ggufmodel", 300); }
#endif
