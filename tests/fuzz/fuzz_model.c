/* tests/fuzz/fuzz_model.c: any bytes as a model file: header, metadata, config, checkpoint,
 * tokenizer. Where it opens, its data is checked, its tokenizer encodes, and the model computes. */
#include "memory_file.h"
#include "model/tensor_list.h"
#include "small_run.h"
#include "source/source.h"

static void check_data(const char *path)
{
    Error     e = { 0 };
    Source    s;
    DataCheck d;
    if (!said(source_open(&s, path, &e), &e))
        return;
    claim(data_check(&d, s.has_weights ? &s.stored : NULL, &s.file, NULL, &e));
    claim(d.ok
          == (d.hash.answer != CHECK_BAD && d.padding.answer != CHECK_BAD
              && d.finite.answer != CHECK_BAD));
    source_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *path = memory_file(bytes, n);
    check_data(path);
    use_model(path, NULL);
    if (n % 4 == 0) /* not always: opening with a type is the same but for the values */
        use_model(path, n % 8 ? "q8" : "f16");
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "model"); }
#endif
