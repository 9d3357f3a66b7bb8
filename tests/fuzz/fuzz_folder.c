/* tests/fuzz/fuzz_folder.c: a folder of any files (packed_folder.h): config.json and safetensors,
 * quantized, sharded or with what makes vectors; Meta's; with a tokenizer. As a whole: it is
 * opened, described, encodes a text and computes. */
#include "packed_folder.h"
#include "small_run.h"
#include "source/source.h"

/* What a command makes of it before it opens it: the model file inside, or what the folder is. */
static void look_inside(void)
{
    char  path[PATH_BYTES];
    bool  found = false;
    Error e     = { 0 };
    if (said(source_inside(memory_folder(), path, &found, &e), &e) && found)
        claim(path_exists(path));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    packed_folder_put(bytes, n);
    look_inside();
    use_model(memory_folder(), NULL);
    return 0;
}

#include "mutated.h"
#ifndef FUZZER
int main(int argc, char **argv) { return mutated_main(argc, argv, "folder", 150); }
#endif
